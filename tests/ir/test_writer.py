"""Models that irrun writes are read by irrun and by OpenVINO with identical results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.element_types import ElementType
from irrun.ir.constant import Constant
from irrun.ir.extract import extract
from irrun.ir.graph import BackEdge, Body, Edge, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

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


U8 = ElementType.parse("u8")


def make_constants(constants) -> Graph:
    """Return a graph of Constants, each with a Result."""
    graph = Graph([Layer(i, f"c{i}", "Constant", constant=c, outputs=[Port(0, U8)]) for i, c in enumerate(constants)])
    for i in range(len(constants)):
        graph.add_result(f"c{i}", (i, 0))
    return graph


def view_weights(weights: Weights, offset: int, size: int) -> Constant:
    return Constant.from_weights(weights, U8, (size,), offset, size)


def test_writer_aligns_constants_and_writes_equal_ones_once(tmp_path):
    weights = Weights(bytes(range(200)))
    made = Constant.from_array(np.full(3, 7, np.uint8), U8)
    constants = [
        view_weights(weights, 5, 70),
        made,
        Constant.from_array(np.full(3, 7, np.uint8), U8),
        view_weights(weights, 5, 70),
        view_weights(weights, 5, 10),
        view_weights(weights, 0, 0),
    ]
    model = Model(make_constants(constants), weights)
    xml, binary = irrun.save_model(model, tmp_path / "copy.xml", tmp_path / "other.weights")
    assert (xml, binary) == (tmp_path / "copy.xml", tmp_path / "other.weights")
    assert xml.read_bytes().startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n<net ")
    copies = irrun.read_model(xml, binary).graph.find_layers("Constant")
    assert [(c.constant.offset, c.constant.size) for c in copies[:5]] == [
        (0, 70),
        (128, 3),
        (128, 3),
        (0, 70),
        (192, 10),
    ]
    data = binary.read_bytes()
    assert data == bytes(range(5, 75)) + bytes(58) + b"\7\7\7" + bytes(61) + bytes(range(5, 15)) + bytes(54) + b"\0"
    assert copies[5].constant.size == 0


def test_writer_limits_how_much_constants_overlap(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.ir.writer.OVERLAP_ALLOWANCE", 3)
    monkeypatch.setattr("irrun.ir.writer.OVERLAP_FACTOR", 2)
    weights = Weights(bytes(10))
    made = Constant.from_array(np.zeros(50, np.uint8), U8)
    for sizes, is_valid in (((10, 9, 4), True), ((10, 9, 5), False), ((10, 10, 10), True)):
        model = Model(make_constants([made, *(view_weights(weights, 0, size) for size in sizes)]), weights)
        model.graph.layers[3].line = 7
        if is_valid:
            irrun.save_model(model, tmp_path / "copy.xml")
            continue
        message = (
            r"^line 7: layer 3 'c3' \(Constant, opset1\): constants overlap: they take more than 2 times the 10 bytes"
        )
        with pytest.raises(irrun.ModelError, match=message):
            irrun.save_model(model, tmp_path / "copy.xml")


def test_writer_reports_constants_without_value_and_other_suffixes(tmp_path):
    model = Model(make_constants([None]), Weights())
    model.graph.layers[0].line = 3
    message = r"^line 3: layer 0 'c0' \(Constant, opset1\): the constant has no valid value$"
    with pytest.raises(irrun.ModelError, match=message):
        irrun.save_model(model, tmp_path / "copy.xml")
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    with pytest.raises(irrun.ModelError, match=r"expected a path that ends in \.xml, found .*copy\.txt"):
        irrun.save_model(model, tmp_path / "copy.txt")
    xml, binary = irrun.save_model(model, str(tmp_path / "UPPER.XML"))
    assert (xml.name, binary.name) == ("UPPER.XML", "UPPER.bin")


def test_writer_formats_attributes(tmp_path):
    attributes = {
        "flag": True,
        "other": False,
        "number": 3,
        "fraction": 0.5,
        "list": [1, 2],
        "tuple": (0.5, True),
        "empty": [],
        "type": U8,
        "text": "a<b",
        "shape": PartialShape([1, -1]),
    }
    layers = [Layer(0, "x", "Parameter", outputs=[Port(0, U8)]), Layer(1, "y", "Relu", "opset4", inputs=[Port(0)])]
    layers[1].outputs = [Port(1, U8)]
    layers[1].attributes = attributes
    graph = Graph(layers, [Edge(0, 0, 1, 0)])
    graph.add_result("y", (1, 1))
    xml, _ = irrun.save_model(Model(graph, Weights()), tmp_path / "copy.xml")
    copy = irrun.read_model(xml).graph.layers[1]
    assert copy.version == "opset4"
    assert copy.attributes == {
        "flag": "true",
        "other": "false",
        "number": "3",
        "fraction": "0.5",
        "list": "1,2",
        "tuple": "0.5,true",
        "empty": "",
        "type": "u8",
        "text": "a<b",
        "shape": "1,?",
    }
    assert xml.read_text().count("<data") == 2


def test_writer_numbers_the_ports_of_owners_of_bodies_by_position(tmp_path):
    body = Graph([Layer(0, "in", "Parameter", outputs=[Port(0, U8)])], name="inner")
    body.add_result("in", (0, 0))
    owner = Layer(1, "it", "TensorIterator", inputs=[Port(7), Port(4)], outputs=[Port(3, U8), Port(9, U8)])
    entries = [PortMapEntry(4, 0, 1, 2, 3, -4, 5, "current_iteration"), PortMapEntry(-1, 0), PortMapEntry(7, 0)]
    owner.bodies["body"] = Body(body, entries, [PortMapEntry(9, 1, 0), PortMapEntry(8, 1)], [BackEdge(1, 0)])
    other = Layer(2, "other", "Relu", inputs=[Port(5)], outputs=[Port(6, U8)])
    layers = [Layer(0, "x", "Parameter", outputs=[Port(8, U8)]), owner, other]
    edges = [Edge(0, 8, 1, 7), Edge(0, 8, 1, 4), Edge(1, 9, 2, 5), Edge(1, 3, 3, 0), Edge(2, 6, 4, 0)]
    layers += [Layer(i, f"r{i}", "Result", inputs=[Port(0)]) for i in (3, 4)]
    xml, _ = irrun.save_model(Model(Graph(layers, edges), Weights()), tmp_path / "copy.xml")
    copy = irrun.read_model(xml, check=False).graph
    assert copy.edges == [Edge(0, 8, 1, 0), Edge(0, 8, 1, 1), Edge(1, 3, 2, 5), Edge(1, 2, 3, 0), Edge(2, 6, 4, 0)]
    iterator = copy.layers[1]
    assert [port.id for port in (*iterator.inputs, *iterator.outputs)] == [0, 1, 2, 3]
    copied = iterator.bodies["body"]
    copies: list[Any] = [*copied.inputs, *copied.outputs, *copied.back_edges]
    for entry in copies:
        entry.line = 0
    assert copied.inputs == [
        PortMapEntry(1, 0, 1, 2, 3, -4, 5, "current_iteration"),
        PortMapEntry(-1, 0),
        PortMapEntry(0, 0),
    ]
    assert copied.outputs == [PortMapEntry(3, 1, 0), PortMapEntry(-1, 1)]
    assert copied.back_edges == [BackEdge(1, 0)]
    assert [port.id for port in (*owner.inputs, *owner.outputs)] == [7, 4, 3, 9]


def test_writer_keeps_names_of_results(tmp_path):
    graph = Graph([Layer(0, "x", "Parameter", outputs=[Port(0, U8, None, ("a,b", "c"))])])
    result = graph.add_result("x", (0, 0))
    result.inputs[0].names = ("out,1", "out2")
    xml, _ = irrun.save_model(Model(graph, Weights()), tmp_path / "copy.xml")
    assert irrun.read_model(xml).outputs[0].names == ("out,1", "out2", "a,b", "c", "x", "x/result")
    assert irrun.read_model(xml).inputs[0].names == ("a,b", "c", "x")
    assert xml.read_text().count("names=") == 2
