"""Upgrading of legacy networks: inputs, outputs, precisions, pre-processing and malformed files."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, build_layer, compare, make_random, run_openvino
from lxml import etree

import irrun
from irrun.ir.legacy.builder import SPELLINGS
from irrun.ir.reader import read_findings
from irrun.ir.writer import save_model


def add_relu(net: LegacyNetwork, source, shape=(1, 3, 4, 5), **keywords) -> tuple[int, int]:
    return net.add_layer("ReLU", [source], [shape], **keywords), 1


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_is_read(version: int) -> None:
    net = LegacyNetwork(version)
    add_relu(net, net.add_input((1, 3, 4, 5), name="data"), name="out")
    model = net.read()
    assert (model.version, model.source_version) == (11, version)
    assert [t.any_name for t in (*model.inputs, *model.outputs)] == ["data", "out"]
    assert str(model.inputs[0]) == "data: f32[1,3,4,5]"
    x = make_random(1, 3, 4, 5)
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


def test_unsupported_layers_are_reported_together() -> None:
    net = LegacyNetwork(3)
    data = net.add_input((1, 3))
    first = net.add_layer("Mystery", [data], [(1, 3), (1, 3)], {"depth": "7"}, {"weights": make_random(5)}, name="a")
    net.add_layer("Enigma", [(first, 1)], [(1, 2)], name="b")
    add_relu(net, (first, 2), (1, 3), name="c")
    model = net.read()
    mystery = next(layer for layer in model.graph.layers if layer.type == "Mystery")
    assert mystery.version == "legacy"
    weights = {"weights-precision": "FP32", "weights-offset": 0, "weights-size": 20}
    assert mystery.attributes == {"depth": "7", **weights}
    assert [str(p.shape) for p in mystery.outputs] == ["[1,3]", "[1,3]"]
    with pytest.raises(irrun.UnsupportedError, match=r"Mystery of legacy.*'a'.*Enigma of legacy.*'b'"):
        irrun.compile_model(model)


def test_unsupported_activation_is_reported() -> None:
    net = LegacyNetwork(5)
    net.add_layer("Activation", [net.add_input((1, 3))], [(1, 3)], {"type": "wobble"})
    with pytest.raises(irrun.UnsupportedError, match="Activation:wobble"):
        irrun.compile_model(net.read())


def test_ports_without_consumer_become_outputs() -> None:
    net = LegacyNetwork(6)
    data = net.add_input((2, 4), name="data")
    net.add_const(make_random(3))
    parts = net.add_layer("Split", [data], [(2, 1), (2, 2), (2, 1)], {"axis": 1}, name="parts")
    net.add_layer("ReLU", [(parts, 2)], [(2, 2)], name="middle")
    model = net.read()
    assert [t.any_name for t in model.outputs] == ["parts.0", "parts.2", "middle"]
    x = make_random(2, 4)
    compare(net.run(x), [x[:, :1], x[:, 3:], np.maximum(x[:, 1:3], 0)], "outputs")


def test_copy_adds_its_name_to_its_input() -> None:
    net = LegacyNetwork(6)
    source = add_relu(net, net.add_input((1, 3)), (1, 3), name="source")
    net.add_layer("Copy", [source], [(1, 3)], name="copy")
    assert set(net.read().outputs[0].names) >= {"source", "copy"}


def test_ports_without_edge_become_inputs() -> None:
    net = LegacyNetwork(4)
    net.add_layer("Eltwise", [[1, 3], [1, 3]], [(1, 3)], {"operation": "sub"}, name="difference")
    model = net.read()
    assert [t.any_name for t in model.inputs] == ["difference.0", "difference.1"]
    a, b = make_random(1, 3), make_random(1, 3, seed=1)
    np.testing.assert_array_equal(net.run(a, b)[0], a - b)


def test_fp16_network_computes_in_f32(tmp_path) -> None:
    """Weights stay f16 in the .bin, and all other values are f32, even if a port or a Convert states FP16."""
    weights, biases = make_random(5, 12).astype(np.float16), make_random(5, seed=1).astype(np.float16)
    net = LegacyNetwork(7, precision="FP16")
    data = net.add_input((2, 12), name="data")
    product = net.add_layer("FullyConnected", [data], [(2, 5)], {"out-size": 5}, {"weights": weights, "biases": biases})
    net.add_layer("Convert", [(product, 1)], [(2, 5)], {"precision": "FP16"}, name="out")
    model = net.read()
    assert {str(t.element_type) for t in (*model.inputs, *model.outputs)} == {"f32"}
    assert {p.element_type.name for layer in model.graph.find_layers("Constant") for p in layer.outputs} == {"f16"}
    x = make_random(2, 12)
    expected = x @ weights.astype(np.float32).T + biases.astype(np.float32)
    compare(net.run(x), [expected], "irrun")
    pytest.importorskip("openvino")
    path, _ = save_model(model, tmp_path / "upgraded.xml")
    compare(run_openvino(path, [x]), [expected], "OpenVINO on the upgraded file")


def test_weights_outside_of_blobs_are_read() -> None:
    net = LegacyNetwork(2)
    id = net.add_layer("FullyConnected", [net.add_input((2, 3))], [(2, 4)], {"out-size": 4}, data_tag="fc_data")
    weights, biases = make_random(4, 3), make_random(4)
    net.store(net.layers[id], "weights", weights)
    net.store(net.layers[id], "biases", biases)
    x = make_random(2, 3)
    compare(net.run(x), [x @ weights.T + biases], "irrun")


def test_blobs_without_precision_have_that_of_the_output() -> None:
    """In late files of IR v7 layers have no precision."""
    net = LegacyNetwork(7, precision="FP16")
    weights = make_random(2, 3).astype(np.float16)
    net.add_layer("FullyConnected", [net.add_input((1, 3))], [(1, 2)], {"out-size": 2}, {"weights": weights})
    for layer in net.layers:
        del layer.attrib["precision"]
    del net.layers[1].find("blobs/weights").attrib["precision"]
    x = make_random(1, 3)
    compare(net.run(x), [x @ weights.astype(np.float32).T], "irrun")


def test_binary_weights_are_required_only_for_compiling(tmp_path) -> None:
    net = LegacyNetwork(6)
    data = {"kernel": [3, 3], "input": 4, "output": 2, "mode": "xnor-popcount", "pad_value": 0}
    bits = {"weights": np.zeros(9, np.uint8)}
    net.add_layer("BinaryConvolution", [net.add_input((1, 4, 5, 5))], [(1, 2, 3, 3)], data, bits)
    (tmp_path / "model.xml").write_bytes(net.to_xml())
    model, _ = read_findings(tmp_path / "model.xml")
    assert tuple(model.outputs[0].shape) == (1, 2, 3, 3)
    with pytest.raises(irrun.ModelError, match=r"model\.bin is missing"):
        irrun.compile_model(model)


def test_integer_weights_are_converted_to_floats() -> None:
    net = LegacyNetwork(6)
    image = net.add_input((1, 2, 4, 4), precision="U8")
    weights, biases = np.arange(6, dtype=np.uint8).reshape(3, 2, 1, 1), np.int32([1, 2, 3])
    sources = [image, net.add_const(weights), net.add_const(biases)]
    net.add_layer("Convolution", sources, [(1, 3, 4, 4)], {"kernel": [1, 1], "output": 3})
    x = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    expected = np.einsum("oi,nihw->nohw", weights[:, :, 0, 0], x.astype(np.float32)) + biases.reshape(3, 1, 1)
    compare(net.run(x), [expected.astype(np.float32)], "irrun")


def test_crop_elements_are_joined() -> None:
    net = LegacyNetwork(2)
    id = net.add_layer("Crop", [net.add_input((1, 3, 6, 7))], [(1, 3, 4, 5)])
    data = etree.SubElement(net.layers[id], "crop-data")
    for axis, offset in ((2, 1), (3, 2)):
        etree.SubElement(data, "crop", axis=str(axis), offset=str(offset))
    x = make_random(1, 3, 6, 7)
    np.testing.assert_array_equal(net.run(x)[0], x[:, :, 1:5, 2:7])
    del data[0].attrib["offset"]
    np.testing.assert_array_equal(net.run(x)[0], x[:, :, :4, 2:7])


def test_capitalized_root_element_is_read() -> None:
    net = LegacyNetwork(2)
    net.add_layer("ReLU", [net.add_input((1, 3))], [(1, 3)])
    net.root.tag = "Net"
    x = make_random(1, 3)
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


def add_pre_process(net: LegacyNetwork, **attributes: str) -> etree._Element:
    return etree.SubElement(net.root, "pre-process", attributes)


def add_channel(parent: etree._Element, id: int, scale: float | None = None, **mean: object) -> None:
    element = etree.SubElement(parent, "channel", id=str(id))
    etree.SubElement(element, "mean", {k: str(v) for k, v in mean.items()})
    if scale is not None:
        etree.SubElement(element, "scale", value=str(scale))


@pytest.mark.parametrize("is_named", [True, False])
def test_mean_values_and_scales_are_applied(is_named: bool) -> None:
    net = LegacyNetwork(3)
    other = net.add_input((1, 7), name="other")
    image = net.add_input((1, 3, 4, 5), precision="U8", name="image")
    net.add_layer("Copy", [image], [(1, 3, 4, 5)], name="out")
    net.add_layer("ReLU", [other], [(1, 7)], name="rest")
    element = add_pre_process(net, **({"reference-layer-name": "image"} if is_named else {}))
    for i, (mean, scale) in enumerate(((104.5, 2.0), (117.0, 1.0), (123.0, 0.5))):
        add_channel(element, i, scale, value=mean)
    x = np.arange(60).reshape(1, 3, 4, 5).astype(np.uint8)
    mean, scale = (np.float32(v).reshape(1, 3, 1, 1) for v in ([104.5, 117, 123], [2, 1, 0.5]))
    result = net.run(make_random(1, 7), x)
    np.testing.assert_array_equal(result[0], (x - mean) / scale)


def test_unnamed_pre_process_applies_to_the_first_image_by_name() -> None:
    net = LegacyNetwork(3)
    for name in ("second", "first"):
        net.add_layer("ReLU", [net.add_input((1, 1, 2, 2), name=name)], [(1, 1, 2, 2)])
    add_channel(add_pre_process(net), 0, value=1)
    x = np.ones((1, 1, 2, 2), np.float32)
    second, first = net.run(x, x)
    assert second.all()
    assert not first.any()


@pytest.mark.parametrize("adjacent", [True, False])
@pytest.mark.parametrize("precision", ["FP32", "FP16"])
def test_mean_images_are_subtracted(adjacent: bool, precision: str) -> None:
    net = LegacyNetwork(2)
    add_relu(net, net.add_input((2, 3, 4, 5), name="image"), (2, 3, 4, 5))
    element = add_pre_process(net, **{"mean-precision": precision, "reference-layer-name": "image"})
    means = make_random(3, 4, 5).astype(np.float32 if precision == "FP32" else np.float16)
    for i, plane in enumerate(means):
        add_channel(element, i, offset=len(net.weights), size=plane.nbytes)
        net.weights += plane.tobytes() + (b"" if adjacent else b"gap!")
    x = make_random(2, 3, 4, 5, seed=1)
    np.testing.assert_allclose(net.run(x)[0], np.maximum(x - means.astype(np.float32), 0), rtol=1e-6)
    assert len(net.read().graph.find_layers("Concat")) == (0 if adjacent else 1)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda e: e.remove(e[2]), r"has mean values for the channels \[0, 1\] of 3"),
        (lambda e: e[2].set("id", "5"), "refers to channel 5 of 3"),
        (lambda e: e.set("reference-layer-name", "nobody"), "refers to the input 'nobody'"),
        (lambda e: e[0][0].set("value", "much"), "'much' of <mean> is not a number"),
    ],
)
def test_invalid_pre_process_is_reported(damage, message: str) -> None:
    net = LegacyNetwork(3)
    add_relu(net, net.add_input((1, 3, 4, 5)))
    element = add_pre_process(net)
    for i in range(3):
        add_channel(element, i, value=i)
    damage(element)
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda net: net.layers[1].set("id", "x"), "id 'x' of <layer> is not an integer"),
        (lambda net: net.layers[1].set("id", "0"), "two layers have the id 0"),
        (lambda net: net.layers[1].set("precision", "FP31"), "FP31"),
        (lambda net: net.edges[0].set("from-layer", "9"), "layer 9, which does not exist"),
        (lambda net: net.edges[0].set("to-port", "9"), "port 9, which is not one of its inputs"),
        (lambda net: net.layers[1].find("data").set("min", "low"), "min='low' is not a number"),
        (lambda net: net.layers[1].find("data").attrib.pop("max"), "requires the attribute max"),
        (lambda net: net.layers[1].find("input").clear(), "port 0, which is not one of its inputs"),
    ],
)
def test_malformed_files_are_reported(damage, message: str) -> None:
    net = LegacyNetwork(6)
    net.add_layer("Clamp", [net.add_input((1, 3))], [(1, 3)], {"min": 0, "max": 1})
    damage(net)
    with pytest.raises(irrun.ModelError, match=message):
        net.read()


def test_statistics_are_ignored() -> None:
    net = LegacyNetwork(4)
    add_relu(net, net.add_input((1, 3)), (1, 3))
    statistics = etree.SubElement(net.root, "statistics")
    etree.SubElement(etree.SubElement(statistics, "layer"), "name").text = "relu1"
    assert net.run(np.float32([[-1, 0, 1]]))[0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("level", ["FP32", "I8"])
def test_calibrated_layers_compute_in_f32(level: str) -> None:
    """Scales that would round these inputs to multiples of 1 are not applied."""
    net = LegacyNetwork(6)
    x = net.add_input([1, 2, 1, 2])
    window = {"kernel": "1,1", "strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
    data = {**window, "group": 1, "output": 1, "quantization_level": level}
    net.add_layer(
        "Convolution", [x], [[1, 1, 1, 2]], data, {"weights": np.float32([0.5, -2]), "biases": np.float32([1])}
    )
    statistics = etree.SubElement(net.root, "statistics")
    for name, channels in (("input0", 2), ("convolution1", 1)):
        layer = etree.SubElement(statistics, "layer")
        for tag, text in (("name", name), ("min", "0.0"), ("max", "255.0")):
            etree.SubElement(layer, tag).text = text if tag == "name" else ", ".join([text] * channels)
    (result,) = net.run(np.float32([0.25, 3.5, 0.125, 1.75]).reshape(1, 2, 1, 2))
    assert result.ravel().tolist() == [1 + 0.125 - 0.25, 1 + 1.75 - 3.5]


def test_sparse_fill_empty_rows_fills_empty_rows() -> None:
    """The third pair of indices ends the list. The layer is the only one with a kernel of the opset "legacy"."""
    net = LegacyNetwork(7)
    arrays = [
        np.float32([[2, 1], [0, 3], [-1, -1]]),
        np.float32([5, 6, 0]),
        np.float32([4, 4]),
        np.float32([9]),
    ]
    sources = [net.add_input(a.shape) for a in arrays]
    net.add_layer("SparseFillEmptyRows", sources, [(6, 2), (6,), (4,)], name="fill")
    indices, values, flags = net.run(*arrays)
    assert indices.tolist() == [[0, 3], [1, 0], [2, 1], [3, 0], [-1, -1], [0, 0]]
    assert values.tolist() == [6, 9, 5, 9, 0, 0]
    assert flags.tolist() == [0, 1, 0, 1]


def test_every_conversion_has_a_case() -> None:
    """Const and SparseFillEmptyRows have tests of their own."""
    pytest.importorskip("openvino")
    modules = ("convolutions", "detection", "elementwise", "movement", "recurrent")
    cases = [case for name in modules for case in importlib.import_module(f"test_legacy_{name}").CASES]
    assert set(SPELLINGS) - {case.type.lower() for case in cases} == {"const", "sparsefillemptyrows"}


@pytest.fixture(scope="module")
def faces(data: Path) -> Path:
    return data / "face-detection-retail-0004"


def sort_rows(detections: np.ndarray) -> np.ndarray:
    """Return the rows before the end marker, in an order that does not depend on ties."""
    rows = detections.reshape(-1, 7)
    markers = np.flatnonzero(rows[:, 0] == -1)
    rows = rows[: markers[0]] if len(markers) else rows
    return rows[np.lexsort(np.round(rows[:, ::-1], 4).T)]


def test_face_detector_of_ir_v3_matches_that_of_ir_v11(faces: Path) -> None:
    x = np.load(faces / "input.npy")
    expected = np.load(faces / "ir11" / "expected.npz")["out0"]
    actual = irrun.run(faces / "ir3" / "model.xml", x)[0]
    assert actual.shape == expected.shape
    a, b = sort_rows(actual), sort_rows(expected)
    assert len(a) == len(b)
    for row in a:  # compared with the nearest row
        assert np.abs(b - row).max(axis=1).min() < 1e-4


def test_upgraded_face_detector_runs_in_openvino(faces: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    x = np.load(faces / "input.npy")
    model = irrun.read_model(faces / "ir3" / "model.xml")
    path, _ = save_model(model, tmp_path / "upgraded.xml")
    expected, actual = sort_rows(irrun.compile_model(model)(x)[0]), sort_rows(run_openvino(path, [x])[0])
    assert expected.shape == actual.shape
    for row in expected:
        assert np.abs(actual - row).max(axis=1).min() < 1e-4


@pytest.mark.parametrize("precision", ["FP64", "I64", "U8"])
def test_values_of_one_type_are_not_converted(precision: str) -> None:
    net = LegacyNetwork(7)
    inputs = [net.add_input((3,), precision), net.add_input((3,), precision)]
    net.add_layer("Eltwise", inputs, [(3,)], {"operation": "sum"})
    (layer,) = net.read().graph.find_layers("Add")
    assert str(layer.outputs[0].element_type) == precision.lower().replace("fp", "f")


@pytest.mark.parametrize("count", [0, 2])
def test_inputs_have_one_output(count: int) -> None:
    net = LegacyNetwork(7)
    net.add_layer("Input", (), [(3,)] * count)
    with pytest.raises(irrun.ModelError, match=f"an Input layer has {count} outputs, expected one"):
        net.read()


def save(net: LegacyNetwork, folder):
    path = folder / "old.xml"
    path.write_bytes(net.to_xml())
    path.with_suffix(".bin").write_bytes(bytes(net.weights))
    return path


def find_line(path, text: str) -> int:
    """Return the line of the first element that contains a text."""
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_layers_have_the_line_of_the_layer_in_the_file(tmp_path):
    net = LegacyNetwork(3)
    x = net.add_input((1, 2, 3, 4), name="x")
    first = net.add_layer("Power", [x], [(1, 2, 3, 4)], {"scale": 2, "shift": 1}, name="first"), 1
    net.add_layer("Eltwise", [first, [1, 2, 3, 4]], [(1, 2, 3, 4)], {}, name="second")
    weights = np.float32([1, 2])
    net.add_layer("ScaleShift", [first], [(1, 2, 3, 4)], {}, {"weights": weights}, name="third")
    element = etree.SubElement(net.root, "pre-process", {"reference-layer-name": "x"})
    for _ in range(2):
        etree.SubElement(etree.SubElement(element, "channel"), "mean", value="1")
    path = save(net, tmp_path)
    lines = {name: find_line(path, f'name="{name}"') for name in ("x", "first", "second", "third")}
    lines["x/"] = find_line(path, "<pre-process")
    model = irrun.read_model(path)
    for layer in model.graph.layers:
        owner = max((name for name in lines if layer.name.startswith(name)), key=len)
        if layer.type != "Parameter" and owner == "x":
            owner = "x/"
        assert layer.line == lines[owner], layer
    assert {layer.name for layer in model.graph.find_layers("Subtract", "Divide")} == {"x/subtract"}
    assert [layer.name for layer in model.graph.find_layers("Result")] == ["second/sink_port_0", "third/sink_port_0"]


def test_outputs_have_the_name_of_the_layer_and_their_number():
    net = LegacyNetwork(7)
    x = net.add_input((2, 4), name="x")
    net.add_layer("Split", [x], [(2, 1), (2, 3)], {"axis": 1}, name="parts")
    k = net.add_const(np.int32(2))
    net.add_layer("TopK", [x, k], [(2, 2)], {"axis": 1, "sort": "value"}, name="values", precisions=["FP32"])
    net.add_layer("Clamp", [x], [(2, 4)], {"min": 0, "max": 1}, name="clamp")
    net.add_layer("Split", [x], [(2, 4)], {"axis": 1}, name="whole")
    graph = net.read().graph
    names = {layer.name: [port.names for port in layer.outputs] for layer in graph.layers if layer.outputs}
    assert names["parts"] == [("parts.0",), ("parts.1",)]
    assert names["values"] == [("values",), ()]
    assert names["clamp"] == [("clamp",)]
    assert names["whole"] == [("whole",)]
    assert names["x"] == [("x",)]
    assert [t.any_name for t in net.read().outputs] == ["parts.0", "parts.1", "values", "clamp", "whole"]


def test_open_shapes_are_those_that_the_file_declares():
    for declared, expected in (((2, 6), "[2,6]"), ((), "None")):
        net = build_layer("NonZero", [make_random(2, 3)], [declared], precisions=["I32"])
        (layer,) = net.read().graph.find_layers("NonZero")
        assert str(layer.outputs[0].shape) == expected


def test_known_shapes_are_those_of_the_operation():
    net = build_layer("ReLU", [make_random(2, 3)], [(3, 2)])
    (layer,) = net.read().graph.find_layers("Relu")
    assert str(layer.outputs[0].shape) == "[2,3]"


@pytest.mark.parametrize("type", ["relu", "RELU", "ReLU"])
def test_case_of_types_is_ignored(type):
    x = make_random(2, 3)
    np.testing.assert_array_equal(build_layer(type, [x], [x.shape]).run(x)[0], np.maximum(x, 0))
    net = build_layer(type, [x], [x.shape])
    net.layers[0].set("type", "INPUT")
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


DAMAGES = [
    (lambda net: net.layers[1].set("id", "x"), '"x"', "id 'x' of <layer> is not an integer"),
    (lambda net: net.layers[1].set("id", "0"), 'name="clamp"', "two layers have the id 0"),
    (lambda net: net.edges[0].set("from-layer", "9"), "<net", "an edge refers to layer 9, which does not exist"),
    (
        lambda net: net.edges[0].set("from-port", "9"),
        'name="input0"',
        "layer 0 'input0' (Input, legacy): an edge refers to port 9, which is not one of its outputs",
    ),
    (
        lambda net: net.layers[1].find("data").set("min", "x"),
        'name="clamp"',
        "layer 'clamp' (Clamp, legacy): attribute min='x' is not a number",
    ),
    (
        lambda net: net.layers[1].append(etree.fromstring("<output><port/></output>")),
        None,
        "",
    ),
    (
        lambda net: net.layers[1].find("output").append(etree.fromstring('<port id="7"/>')),
        'name="clamp"',
        "layer 'clamp' (Clamp, legacy): has 2 outputs, expected 1",
    ),
    (lambda net: net.layers[0].set("type", "Clamp"), 'name="input0"', "layer 'input0' (Clamp, legacy): "),
    (
        lambda net: net.layers[1].set("type", "TensorIterator"),
        'name="clamp"',
        "layer 'clamp' (TensorIterator, legacy): requires the element <body>",
    ),
]


def test_errors_have_the_file_and_the_line(tmp_path):
    for damage, place, message in DAMAGES:
        net = LegacyNetwork(6)
        net.add_layer("Clamp", [net.add_input((1, 3))], [(1, 3)], {"min": 0, "max": 1}, name="clamp")
        damage(net)
        path = save(net, tmp_path)
        if place is None:
            assert irrun.read_model(path).outputs
            continue
        line = find_line(path, place)
        with pytest.raises(irrun.ModelError, match="^" + re.escape(f"{path}:{line}: {message}")):
            irrun.read_model(path)
        with pytest.raises(irrun.ModelError, match="^" + re.escape(f"line {line}: {message}")):
            irrun.read_model(path.read_bytes(), b"")


def test_inconsistent_layers_are_reported():
    """A Split along an axis that one of its outputs does not have."""
    net = LegacyNetwork(6)
    net.add_layer("Split", [net.add_input((2, 4))], [(2, 2), (2,)], {"axis": 1}, name="split")
    with pytest.raises(
        irrun.ModelError, match=r"layer 'split' \(Split, legacy\): ports, blobs and attributes are inconsistent: "
    ):
        net.read()


def test_constants_outside_of_the_weights_are_findings(tmp_path):
    net = LegacyNetwork(6)
    blobs = {"weights": make_random(2, 3), "biases": make_random(2)}
    net.add_layer("FullyConnected", [net.add_input((1, 3))], [(1, 2)], {"out-size": 2}, blobs, name="dense")
    path = save(net, tmp_path)
    path.with_suffix(".bin").write_bytes(bytes(16))
    model, findings = read_findings(path)
    (line,) = {layer.line for layer in model.graph.layers if layer.name.startswith("dense")}
    assert [finding.line for finding in findings] == [line, line]
    assert [(f.layer.partition("'")[2].partition("'")[0], f.message) for f in findings] == [
        ("dense/weights", f"requires bytes 0 to 24 of {path.with_suffix('.bin')}, found 16 bytes"),
        ("dense/biases", f"requires bytes 24 to 32 of {path.with_suffix('.bin')}, found 16 bytes"),
    ]


def test_meta_data_and_the_version_of_the_file_are_kept(tmp_path):
    net = LegacyNetwork(4)
    net.add_layer("ReLU", [net.add_input((1, 3))], [(1, 3)])
    assert net.read().meta_data is None
    net.root.append(etree.fromstring('<meta_data><version value="2018"/></meta_data>'))
    path = tmp_path / "old.xml"
    path.write_bytes(etree.tostring(net.root).replace(b"</meta_data>", b"</meta_data>\n\n"))
    model = irrun.read_model(path)
    assert model.meta_data == '<meta_data><version value="2018"/></meta_data>'
    assert (model.version, model.source_version, model.path, model.name) == (11, 4, path, "net")
