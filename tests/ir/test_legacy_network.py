"""What old files say of a network besides its layers."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from old_ir import OldNet, compare, random, run_openvino

import irrun
from irrun.ir.legacy.builder import SPELLINGS
from irrun.ir.reader import read_findings
from irrun.ir.writer import save_model


def relu(net: OldNet, source, shape=(1, 3, 4, 5), **keywords) -> tuple[int, int]:
    return net.layer("ReLU", [source], [shape], **keywords), 1


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_is_read(version: int) -> None:
    net = OldNet(version)
    relu(net, net.input((1, 3, 4, 5), name="data"), name="out")
    model = net.read()
    assert (model.version, model.source_version) == (11, version)
    assert [t.any_name for t in (*model.inputs, *model.outputs)] == ["data", "out"]
    assert str(model.inputs[0]) == "data: f32[1,3,4,5]"
    x = random(1, 3, 4, 5)
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


def test_layers_that_are_not_known_are_named_all_at_once() -> None:
    net = OldNet(3)
    data = net.input((1, 3))
    first = net.layer("Mystery", [data], [(1, 3), (1, 3)], {"depth": "7"}, {"weights": random(5)}, name="a")
    net.layer("Riddle", [(first, 1)], [(1, 2)], name="b")
    relu(net, (first, 2), (1, 3), name="c")
    model = net.read()
    mystery = next(layer for layer in model.graph.layers if layer.type == "Mystery")
    assert mystery.version == "legacy"
    assert mystery.attributes["depth"] == "7"
    assert mystery.attributes["weights-size"] == 20
    assert [str(p.shape) for p in mystery.outputs] == ["[1,3]", "[1,3]"]
    with pytest.raises(irrun.UnsupportedError, match=r"Mystery of legacy.*'a'.*Riddle of legacy.*'b'"):
        irrun.compile_model(model)


def test_an_activation_that_is_not_known_is_named() -> None:
    net = OldNet(5)
    net.layer("Activation", [net.input((1, 3))], [(1, 3)], {"type": "wobble"})
    with pytest.raises(irrun.UnsupportedError, match="Activation:wobble"):
        irrun.compile_model(net.read())


def test_ports_that_nobody_reads_are_outputs() -> None:
    net = OldNet(6)
    data = net.input((2, 4), name="data")
    net.const(random(3))
    parts = net.layer("Split", [data], [(2, 1), (2, 2), (2, 1)], {"axis": 1}, name="parts")
    net.layer("ReLU", [(parts, 2)], [(2, 2)], name="middle")
    model = net.read()
    assert [t.any_name for t in model.outputs] == ["parts.0", "parts.2", "middle"]
    x = random(2, 4)
    compare(net.run(x), [x[:, :1], x[:, 3:], np.maximum(x[:, 1:3], 0)], "outputs")


def test_a_copy_gives_its_name_to_what_it_copies() -> None:
    net = OldNet(6)
    source = relu(net, net.input((1, 3)), (1, 3), name="source")
    net.layer("Copy", [source], [(1, 3)], name="copy")
    assert set(net.read().outputs[0].names) >= {"source", "copy"}


def test_ports_that_no_edge_leads_into_are_inputs() -> None:
    net = OldNet(4)
    net.layer("Eltwise", [[1, 3], [1, 3]], [(1, 3)], {"operation": "sub"}, name="difference")
    model = net.read()
    assert [t.any_name for t in model.inputs] == ["difference.0", "difference.1"]
    a, b = random(1, 3), random(1, 3, seed=1)
    np.testing.assert_array_equal(net.run(a, b)[0], a - b)


def test_an_fp16_network_computes_in_f32(tmp_path) -> None:
    """Weights stay f16 in the .bin; what flows is f32, also where a port or a Convert says FP16."""
    weights, biases = random(5, 12).astype(np.float16), random(5, seed=1).astype(np.float16)
    net = OldNet(7, precision="FP16")
    data = net.input((2, 12), name="data")
    product = net.layer("FullyConnected", [data], [(2, 5)], {"out-size": 5}, {"weights": weights, "biases": biases})
    net.layer("Convert", [(product, 1)], [(2, 5)], {"precision": "FP16"}, name="out")
    model = net.read()
    assert {str(t.element_type) for t in (*model.inputs, *model.outputs)} == {"f32"}
    assert {p.element_type.name for layer in model.graph.of_type("Constant") for p in layer.outputs} == {"f16"}
    x = random(2, 12)
    expected = x @ weights.astype(np.float32).T + biases.astype(np.float32)
    compare(net.run(x), [expected], "irrun")
    pytest.importorskip("openvino")
    path, _ = save_model(model, tmp_path / "upgraded.xml")
    compare(run_openvino(path, [x]), [expected], "OpenVINO on the upgraded file")


def test_weights_may_stand_outside_of_blobs() -> None:
    net = OldNet(2)
    id = net.layer("FullyConnected", [net.input((2, 3))], [(2, 4)], {"out-size": 4}, data_tag="fc_data")
    weights, biases = random(4, 3), random(4)
    net.store(net.layers[id], "weights", weights)
    net.store(net.layers[id], "biases", biases)
    x = random(2, 3)
    compare(net.run(x), [x @ weights.T + biases], "irrun")


def test_blobs_have_the_precision_of_the_output_where_nothing_else_is_stated() -> None:
    """In late files of IR v7 a layer has none."""
    net = OldNet(7, precision="FP16")
    weights = random(2, 3).astype(np.float16)
    net.layer("FullyConnected", [net.input((1, 3))], [(1, 2)], {"out-size": 2}, {"weights": weights})
    for layer in net.layers:
        del layer.attrib["precision"]
    del net.layers[1].find("blobs/weights").attrib["precision"]
    x = random(1, 3)
    compare(net.run(x), [x @ weights.astype(np.float32).T], "irrun")


def test_binary_weights_are_not_needed_to_look_at_a_file(tmp_path) -> None:
    net = OldNet(6)
    data = {"kernel": [3, 3], "input": 4, "output": 2, "mode": "xnor-popcount", "pad_value": 0}
    bits = {"weights": np.zeros(9, np.uint8)}
    net.layer("BinaryConvolution", [net.input((1, 4, 5, 5))], [(1, 2, 3, 3)], data, bits)
    (tmp_path / "model.xml").write_bytes(net.xml())
    model, _ = read_findings(tmp_path / "model.xml")
    assert tuple(model.outputs[0].shape) == (1, 2, 3, 3)
    with pytest.raises(irrun.ModelError, match=r"model\.bin is missing"):
        irrun.compile_model(model)


def test_weights_of_integers_are_made_floats() -> None:
    net = OldNet(6)
    image = net.input((1, 2, 4, 4), precision="U8")
    weights, biases = np.arange(6, dtype=np.uint8).reshape(3, 2, 1, 1), np.int32([1, 2, 3])
    sources = [image, net.const(weights), net.const(biases)]
    net.layer("Convolution", sources, [(1, 3, 4, 4)], {"kernel": [1, 1], "output": 3})
    x = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    expected = np.einsum("oi,nihw->nohw", weights[:, :, 0, 0], x.astype(np.float32)) + biases.reshape(3, 1, 1)
    compare(net.run(x), [expected.astype(np.float32)], "irrun")


def test_crops_of_the_oldest_files() -> None:
    net = OldNet(2)
    id = net.layer("Crop", [net.input((1, 3, 6, 7))], [(1, 3, 4, 5)])
    data = etree.SubElement(net.layers[id], "crop-data")
    for axis, offset in ((2, 1), (3, 2)):
        etree.SubElement(data, "crop", axis=str(axis), offset=str(offset))
    x = random(1, 3, 6, 7)
    np.testing.assert_array_equal(net.run(x)[0], x[:, :, 1:5, 2:7])
    del data[0].attrib["offset"]
    np.testing.assert_array_equal(net.run(x)[0], x[:, :, :4, 2:7])


def test_the_root_element_of_some_of_the_oldest_files_has_a_capital() -> None:
    net = OldNet(2)
    net.layer("ReLU", [net.input((1, 3))], [(1, 3)])
    net.root.tag = "Net"
    x = random(1, 3)
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


def pre_process(net: OldNet, **attributes: str) -> etree._Element:
    return etree.SubElement(net.root, "pre-process", attributes)


def channel(parent: etree._Element, id: int, scale: float | None = None, **mean: object) -> None:
    element = etree.SubElement(parent, "channel", id=str(id))
    etree.SubElement(element, "mean", {k: str(v) for k, v in mean.items()})
    if scale is not None:
        etree.SubElement(element, "scale", value=str(scale))


@pytest.mark.parametrize("named", [True, False])
def test_mean_values_and_scales(named: bool) -> None:
    net = OldNet(3)
    other = net.input((1, 7), name="other")
    image = net.input((1, 3, 4, 5), precision="U8", name="image")
    net.layer("Copy", [image], [(1, 3, 4, 5)], name="out")
    net.layer("ReLU", [other], [(1, 7)], name="rest")
    element = pre_process(net, **({"reference-layer-name": "image"} if named else {}))
    for i, (mean, scale) in enumerate(((104.5, 2.0), (117.0, 1.0), (123.0, 0.5))):
        channel(element, i, scale, value=mean)
    x = np.arange(60).reshape(1, 3, 4, 5).astype(np.uint8)
    mean, scale = (np.float32(v).reshape(1, 3, 1, 1) for v in ([104.5, 117, 123], [2, 1, 0.5]))
    found = net.run(random(1, 7), x)
    np.testing.assert_array_equal(found[0], (x - mean) / scale)


def test_without_a_name_mean_values_are_those_of_the_first_image_by_name() -> None:
    net = OldNet(3)
    for name in ("second", "first"):
        net.layer("ReLU", [net.input((1, 1, 2, 2), name=name)], [(1, 1, 2, 2)])
    channel(pre_process(net), 0, value=1)
    x = np.ones((1, 1, 2, 2), np.float32)
    second, first = net.run(x, x)
    assert second.all()
    assert not first.any()


@pytest.mark.parametrize("adjoining", [True, False])
@pytest.mark.parametrize("precision", ["FP32", "FP16"])
def test_mean_images(adjoining: bool, precision: str) -> None:
    net = OldNet(2)
    relu(net, net.input((2, 3, 4, 5), name="image"), (2, 3, 4, 5))
    element = pre_process(net, **{"mean-precision": precision, "reference-layer-name": "image"})
    means = random(3, 4, 5).astype(np.float32 if precision == "FP32" else np.float16)
    for i, plane in enumerate(means):
        channel(element, i, offset=len(net.weights), size=plane.nbytes)
        net.weights += plane.tobytes() + (b"" if adjoining else b"gap!")
    x = random(2, 3, 4, 5, seed=1)
    np.testing.assert_allclose(net.run(x)[0], np.maximum(x - means.astype(np.float32), 0), rtol=1e-6)
    assert len(net.read().graph.of_type("Concat")) == (0 if adjoining else 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda e: e.remove(e[2]), r"mean values for \[0, 1\] of 3 channels"),
        (lambda e: e[2].set("id", "5"), "names channel 5, the input has 3"),
        (lambda e: e.set("reference-layer-name", "nobody"), "names the input 'nobody'"),
        (lambda e: e[0][0].set("value", "much"), "'much' of <mean> is no number"),
    ],
)
def test_pre_processing_that_does_not_fit_is_reported(spoil, message: str) -> None:
    net = OldNet(3)
    relu(net, net.input((1, 3, 4, 5)))
    element = pre_process(net)
    for i in range(3):
        channel(element, i, value=i)
    spoil(element)
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda net: net.layers[1].set("id", "x"), "id 'x' of <layer> is no integer"),
        (lambda net: net.layers[1].set("id", "0"), "two layers have the id 0"),
        (lambda net: net.layers[1].set("precision", "FP31"), "FP31"),
        (lambda net: net.edges[0].set("from-layer", "9"), "layer 9, which does not exist"),
        (lambda net: net.edges[0].set("to-port", "9"), "port 9, which is none of its inputs"),
        (lambda net: net.layers[1].find("data").set("min", "low"), "min='low' is not a number"),
        (lambda net: net.layers[1].find("data").attrib.pop("max"), "needs the attribute max"),
        (lambda net: net.layers[1].find("input").clear(), "none of its inputs"),
    ],
)
def test_malformed_files_are_reported(spoil, message: str) -> None:
    net = OldNet(6)
    net.layer("Clamp", [net.input((1, 3))], [(1, 3)], {"min": 0, "max": 1})
    spoil(net)
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


def test_statistics_are_left_out() -> None:
    net = OldNet(4)
    relu(net, net.input((1, 3)), (1, 3))
    statistics = etree.SubElement(net.root, "statistics")
    etree.SubElement(etree.SubElement(statistics, "layer"), "name").text = "relu1"
    assert net.run(np.float32([[-1, 0, 1]]))[0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("level", ["FP32", "I8"])
def test_calibrated_layers_compute_in_f32(level: str) -> None:
    """Scales that would round these inputs to multiples of 1 are not applied."""
    net = OldNet(6)
    x = net.input([1, 2, 1, 2])
    window = {"kernel": "1,1", "strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
    data = {**window, "group": 1, "output": 1, "quantization_level": level}
    net.layer("Convolution", [x], [[1, 1, 1, 2]], data, {"weights": np.float32([0.5, -2]), "biases": np.float32([1])})
    statistics = etree.SubElement(net.root, "statistics")
    for name, channels in (("input0", 2), ("convolution1", 1)):
        layer = etree.SubElement(statistics, "layer")
        for tag, text in (("name", name), ("min", "0.0"), ("max", "255.0")):
            etree.SubElement(layer, tag).text = text if tag == "name" else ", ".join([text] * channels)
    (found,) = net.run(np.float32([0.25, 3.5, 0.125, 1.75]).reshape(1, 2, 1, 2))
    assert found.ravel().tolist() == [1 + 0.125 - 0.25, 1 + 1.75 - 3.5]


def test_empty_rows_are_filled() -> None:
    """The one layer with a kernel of its own; the third pair of indices ends the list."""
    net = OldNet(7)
    arrays = [
        np.float32([[2, 1], [0, 3], [-1, -1]]),
        np.float32([5, 6, 0]),
        np.float32([4, 4]),
        np.float32([9]),
    ]
    sources = [net.input(a.shape) for a in arrays]
    net.layer("SparseFillEmptyRows", sources, [(6, 2), (6,), (4,)], name="fill")
    indices, values, flags = net.run(*arrays)
    assert indices.tolist() == [[0, 3], [1, 0], [2, 1], [3, 0], [-1, -1], [0, 0]]
    assert values.tolist() == [6, 9, 5, 9, 0, 0]
    assert flags.tolist() == [0, 1, 0, 1]


def test_every_conversion_has_a_case() -> None:
    """All but those that have tests of their own."""
    pytest.importorskip("openvino")
    modules = ("convolutions", "detection", "elementwise", "movement", "recurrent")
    cases = [case for name in modules for case in importlib.import_module(f"test_legacy_{name}").CASES]
    assert set(SPELLINGS) - {case.type.lower() for case in cases} == {"const", "sparsefillemptyrows"}


@pytest.fixture(scope="module")
def faces(data: Path) -> Path:
    return data / "face-detection-retail-0004"


def rows_of(detections: np.ndarray) -> np.ndarray:
    """Rows up to the marker, in an order that does not depend on ties."""
    rows = detections.reshape(-1, 7)
    ends = np.flatnonzero(rows[:, 0] == -1)
    rows = rows[: ends[0]] if len(ends) else rows
    return rows[np.lexsort(np.round(rows[:, ::-1], 4).T)]


def test_the_face_detector_of_2018_finds_the_same_faces(faces: Path) -> None:
    x = np.load(faces / "input.npy")
    expected = np.load(faces / "ir11" / "expected.npz")["out0"]
    found = irrun.run(faces / "ir3" / "model.xml", x)[0]
    assert found.shape == expected.shape
    a, b = rows_of(found), rows_of(expected)
    assert len(a) == len(b)
    for row in a:  # its partner is the row nearest to it
        assert np.abs(b - row).max(axis=1).min() < 1e-4


def test_the_face_detector_upgraded_runs_in_openvino(faces: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    x = np.load(faces / "input.npy")
    model = irrun.read_model(faces / "ir3" / "model.xml")
    path, _ = save_model(model, tmp_path / "upgraded.xml")
    expected, found = rows_of(irrun.compile_model(model)(x)[0]), rows_of(run_openvino(path, [x])[0])
    assert expected.shape == found.shape
    for row in expected:
        assert np.abs(found - row).max(axis=1).min() < 1e-4
