"""Models that irrun writes are read by irrun and by OpenVINO with identical results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.ir.extract import extract
from irrun.ir.graph import Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.weights import Weights

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def test_bodies_constants_and_runtime_information_are_preserved(tmp_path):
    original = irrun.read_model(EXAMPLE / "model.xml")
    irrun.save_model(original, tmp_path / "copy.xml")
    copy = irrun.read_model(tmp_path / "copy.xml")
    assert [str(t) for t in copy.inputs] == [str(t) for t in original.inputs]
    assert [str(t) for t in copy.outputs] == [str(t) for t in original.outputs]
    assert copy.rt_info is not None
    assert "vocabulary" in copy.rt_info
    x = np.load(EXAMPLE / "input.npy")
    for a, b in zip(irrun.run(original, x).to_tuple(), irrun.run(copy, x).to_tuple(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_runtime_information_of_bodies_is_preserved(tmp_path):
    body = chain("Relu", shape=(1, 3)).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    information = '<rt_info><key value="1"/></rt_info>'
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        f'<output axis="0" external_port_id="1" internal_layer_id="2"/></port_map><body>{body}{information}</body>'
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=inner),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    model = irrun.read_model(write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])))
    irrun.save_model(model, tmp_path / "copy.xml")
    for copy in (model, irrun.read_model(tmp_path / "copy.xml")):
        assert "".join(copy.graph.layers[1].bodies["body"].graph.rt_info.split()) == "".join(information.split())
        assert copy.rt_info is None


def test_saved_model_is_read_by_openvino(tmp_path, data):
    ov = pytest.importorskip("openvino")
    core = ov.Core()
    x = np.load(data / "samplenet/input.npy")
    original = core.compile_model(data / "samplenet/model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    irrun.save_model(irrun.read_model(data / "samplenet/model.xml"), tmp_path / "copy.xml")
    copy = core.compile_model(tmp_path / "copy.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    np.testing.assert_array_equal(original, copy)


def test_equal_constants_share_their_bytes(tmp_path):
    model = irrun.read_model(EXAMPLE / "model.xml")
    _, first = irrun.save_model(model, tmp_path / "a.xml")
    _, second = irrun.save_model(irrun.read_model(tmp_path / "a.xml"), tmp_path / "b.xml")
    assert first.read_bytes() == second.read_bytes()


def test_commas_in_tensor_names_are_preserved(tmp_path):
    path = write(tmp_path, chain("Relu").replace('names="x"', r'names="a\,b,second"'))
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    assert irrun.read_model(tmp_path / "copy.xml").inputs[0].names[:2] == ("a,b", "second")


def test_bounds_of_dimensions_are_read_by_openvino(tmp_path):
    ov = pytest.importorskip("openvino")
    path = write(tmp_path, chain("Relu").replace('shape="2,3"', 'shape="1..4,?"'))
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    copy = ov.Core().read_model(tmp_path / "copy.xml")
    assert copy.inputs[0].partial_shape == ov.PartialShape("1..4,?")
    assert str(irrun.read_model(tmp_path / "copy.xml").inputs[0].partial_shape) == "[1..4,?]"


def test_untyped_layers_can_be_saved(tmp_path):
    ov = pytest.importorskip("openvino")
    layers = [
        layer(
            0, "Parameter", data='element_type="dynamic" shape="..."', outputs=[port(0, (), "UNSPECIFIED")], name="x"
        ),
        layer(1, "Const", data='element_type="dynamic" shape="0" offset="9" size="1"', outputs=[port(0, (0,))]),
        layer(2, "Relu", inputs=[port(0)], outputs=[port(1)]),
        *[layer(i, "Result", inputs=[port(0)]) for i in (3, 4)],
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (2, 1, 3, 0), (1, 0, 4, 0)]))
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    (parameter,) = ov.Core().read_model(tmp_path / "copy.xml").inputs
    assert parameter.element_type == ov.Type.dynamic
    assert irrun.read_model(tmp_path / "copy.xml").inputs[0].element_type is None


def test_extracted_model_may_start_at_a_dynamic_rank(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu", "Abs", shape=()).replace('shape=""', 'shape="..."')))
    part = extract(model, ["layer1"], ["layer2"])
    np.testing.assert_array_equal(irrun.run(part, X)[0], abs(X))


@pytest.mark.parametrize(
    ("element_type", "shape", "attributes", "expected"),
    [
        ("f32", [2, 3], {}, ("f32", "2,3")),
        ("i64", [2, -1], {}, ("i64", "2,?")),
        ("f32", None, {}, ("f32", "...")),
        (None, [], {}, ("dynamic", "")),
        ("f32", [2, 3], {"element_type": "f16", "shape": "?,3"}, ("f16", "?,3")),
    ],
)
def test_parameters_without_attributes_declare_their_port(tmp_path, element_type, shape, attributes, expected):
    parsed = None if element_type is None else irrun.ElementType.parse(element_type)
    declared = None if shape is None else irrun.PartialShape(shape)
    graph = Graph([Layer(0, "x", "Parameter", attributes=attributes, outputs=[Port(0, parsed, declared)])])
    graph.add_result("y", (0, 0))
    irrun.save_model(Model(graph, Weights(), 11), tmp_path / "model.xml")
    (parameter,) = irrun.read_model(tmp_path / "model.xml").graph.find_layers("Parameter")
    assert (parameter.attributes["element_type"], parameter.attributes["shape"]) == expected


def test_failed_save_leaves_no_files(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    before = sorted(tmp_path.iterdir())
    for target in (tmp_path / "model.xml/folder/x.xml", tmp_path / "model.txt"):
        with pytest.raises(irrun.ModelError):
            irrun.save_model(model, target)
    assert sorted(tmp_path.iterdir()) == before


def test_extracted_model_computes_the_same_values(tmp_path, data):
    model = irrun.read_model(data / "face-detection-retail-0004/ir11/model.xml")
    x = np.load(data / "face-detection-retail-0004/input.npy")
    values = {}

    def record(layer, inputs, outputs, seconds, scope):
        values[layer.name] = outputs[0]

    irrun.compile_model(model)(x, observers=[record])
    convolutions = [layer.name for layer in model.graph.find_layers("Convolution")]
    start, end = convolutions[1], convolutions[2]
    part = extract(model, [start], [end])
    irrun.save_model(part, tmp_path / "part.xml")
    again = irrun.read_model(tmp_path / "part.xml")
    assert [t.any_name for t in again.inputs] == [start]
    assert len(again.graph.layers) < len(model.graph.layers) / 10
    assert (tmp_path / "part.bin").stat().st_size < len(model.weights)
    compiled = irrun.compile_model(again, optimize=False)  # as observed runs compute
    np.testing.assert_array_equal(compiled(values[start])[0], values[end])


def test_failed_save_changes_neither_file(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    (tmp_path / "copy.xml").write_text("old")
    (tmp_path / "copy.bin").mkdir()
    with pytest.raises(irrun.ModelError, match="cannot write"):
        irrun.save_model(model, tmp_path / "copy.xml")
    assert (tmp_path / "copy.xml").read_text() == "old"


def test_ports_without_names_have_no_names_attribute(tmp_path):
    model = irrun.read_model(write(tmp_path, chain("Relu").replace(' names="x"', "")))
    path, _ = irrun.save_model(model, tmp_path / "saved.xml")
    assert "names=" not in path.read_text()
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    path, _ = irrun.save_model(model, tmp_path / "saved.xml")
    assert path.read_text().count('names="x"') == 1
