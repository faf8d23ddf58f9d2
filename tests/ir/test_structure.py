"""Checks of the structure of models: each finding states the line, the layer, and what was found and expected."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.element_types import ElementType
from irrun.ir.graph import BackEdge, Body, Edge, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.reader import read_findings
from irrun.ir.structure import (
    Finding,
    check_body_is_mapped,
    check_model,
    compare_shapes,
    compare_types,
    is_placeholder,
    raise_findings,
    sort_layers,
)
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

DATA = 'shape="2" element_type="f32"'
PARAMETER = layer(0, "Parameter", data=DATA, outputs=[port(0, (2,), "FP32")], name="x")
RELU = layer(1, "Relu", inputs=[port(0)], outputs=[port(1, (2,), "FP32")])
RESULT = layer(9, "Result", inputs=[port(0)])
EDGES = [(0, 0, 1, 0), (1, 1, 9, 0)]


def find_messages(tmp_path, text, weights=b"") -> list[str]:
    """Return the findings of a file as text; layers begin in line 3, one per line, and edges follow them."""
    findings = read_findings(write(tmp_path, text, weights))[1]
    assert all(isinstance(finding.line, int) and isinstance(finding.layer, str) for finding in findings)
    return [str(finding) for finding in findings]


def make_concat(count: int) -> str:
    return layer(1, "Concat", data='axis="0"', inputs=[port(i) for i in range(count)], outputs=[port(count)])


#: Layers and edges -> findings.
STRUCTURES = [
    ([PARAMETER, RELU, RESULT], EDGES, []),
    (
        [PARAMETER, RELU, layer(1, "Abs", inputs=[port(0)]), RESULT],
        EDGES,
        ["line 5: layer 1 'layer1' (Abs, opset1): its id is already used by the layer at line 4"],
    ),
    (
        [PARAMETER, layer(1, "Relu", inputs=[port(0), port(0)], outputs=[port(1)]), RESULT],
        EDGES,
        ["line 4: layer 1 'layer1' (Relu, opset1): two of its ports have the same id"],
    ),
    (
        [PARAMETER, layer(1, "Relu", inputs=[port(0)], outputs=[port(1), port(1)]), RESULT],
        EDGES,
        ["line 4: layer 1 'layer1' (Relu, opset1): two of its ports have the same id"],
    ),
    (
        [PARAMETER, layer(1, "Relu", inputs=[port(0)], outputs=[port(0)]), RESULT],
        [(0, 0, 1, 0), (1, 0, 9, 0)],
        [],
    ),
    (
        [PARAMETER, RELU, RESULT],
        [*EDGES, (7, 0, 8, 0)],
        [
            "line 8: an edge refers to layer 7, which does not exist",
            "line 8: an edge refers to layer 8, which does not exist",
        ],
    ),
    (
        [PARAMETER, RELU, RESULT],
        [*EDGES, (0, 3, 1, 0)],
        [
            "line 8: layer 0 'x' (Parameter, opset1): an edge refers to output port 3, the layer has output ports 0",
            "line 8: layer 1 'layer1' (Relu, opset1): its input port 0 has two edges",
        ],
    ),
    (
        [PARAMETER, RELU, RESULT],
        [*EDGES, (9, 0, 0, 0)],
        [
            "line 8: layer 9 'layer9' (Result, opset1): an edge refers to output port 0, the layer has output ports "
            "none",
            "line 8: layer 0 'x' (Parameter, opset1): an edge refers to input port 0, the layer has input ports none",
        ],
    ),
    (
        [PARAMETER, make_concat(10), RESULT],
        [*[(0, 0, 1, i) for i in range(11)], (1, 10, 9, 0)],
        [
            "line 16: layer 1 'layer1' (Concat, opset1): an edge refers to input port 10, the layer has input ports "
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
        ],
    ),
    (
        [PARAMETER, make_concat(11), RESULT],
        [*[(0, 0, 1, i) for i in range(12)], (1, 11, 9, 0)],
        [
            "line 17: layer 1 'layer1' (Concat, opset1): an edge refers to input port 11, the layer has input ports "
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."
        ],
    ),
    (
        [PARAMETER, RELU, RESULT],
        [*EDGES, (0, 0, 1, 0)],
        ["line 8: layer 1 'layer1' (Relu, opset1): its input port 0 has two edges"],
    ),
    (
        [PARAMETER, RELU, RESULT],
        EDGES[:1],
        ["line 5: layer 9 'layer9' (Result, opset1): its input is not connected"],
    ),
    ([PARAMETER, RELU], EDGES[:1], ["the model has no Result, so there is nothing to compute"]),
    (
        [PARAMETER, layer(1, "Relu", data='execOrder="1"', inputs=[port(0)], outputs=[port(1)])],
        EDGES[:1],
        [
            "the model has no Result, so there is nothing to compute; it is an execution graph, which describes how "
            "OpenVINO runs another model"
        ],
    ),
    (
        [PARAMETER, RELU, layer(2, "Abs", inputs=[port(0)], outputs=[port(1)]), RESULT],
        [(1, 1, 2, 0), (2, 1, 1, 0), (0, 0, 9, 0)],
        [
            "line 4: layers form a cycle: layer 1 'layer1' (Relu, opset1), layer 2 'layer2' (Abs, opset1)",
        ],
    ),
    (
        [PARAMETER, RELU, layer(2, "Assign", data='variable_id="v"', inputs=[port(0)], outputs=[port(1)])],
        [(0, 0, 1, 0), (1, 1, 2, 0)],
        [],
    ),
]


def test_structure_is_checked(tmp_path):
    for layers, edges, expected in STRUCTURES:
        assert find_messages(tmp_path, net(layers, edges)) == expected
        if expected:
            with pytest.raises(irrun.ModelError) as info:
                irrun.read_model(tmp_path / "model.xml")
            line = re.match(r"line (\d+): ", expected[0])
            place = f"{tmp_path / 'model.xml'}:{line[1]}: " if line else f"{tmp_path / 'model.xml'}: "
            text = expected[0][line.end() :] if line else expected[0]
            more = f" (and {len(expected) - 1} more, listed by irrun validate)" if len(expected) > 1 else ""
            assert str(info.value) == place + text + more
        assert irrun.read_model(tmp_path / "model.xml", check=False).graph.layers


def test_findings_of_graphs_without_lines_have_the_layer():
    """A graph that was created by code, or whose edges have no lines."""
    first = Layer(0, "x", "Parameter", outputs=[Port(0)], line=3)
    last = Layer(1, "y", "Result", inputs=[Port(0)], line=4)
    edges = [Edge(0, 0, 1, 0), Edge(0, 0, 1, 0), Edge(0, 5, 1, 5)]
    for lines, expected in (([], [4, 3, 4]), ([7], [4, 3, 4]), ([7, 8], [8, 3, 4]), ([7, 8, 9], [8, 9, 9])):
        model = Model(Graph([first, last], edges, edge_lines=lines), Weights())
        assert [finding.line for finding in check_model(model)] == expected


def test_findings_are_printed_with_line_and_layer():
    assert str(Finding(3, "layer 1", "text")) == "line 3: layer 1: text"
    assert str(Finding(0, "layer 1", "text")) == "layer 1: text"
    assert str(Finding(3, "", "text")) == "line 3: text"
    assert str(Finding(0, "", "text")) == "text"
    raise_findings([], None)
    for findings, message in (
        ([Finding(0, "", "a")], "a"),
        ([Finding(2, "layer 1", "a")], "line 2: layer 1: a"),
        ([Finding(0, "", "a")] * 2, "a (and 1 more, listed by irrun validate)"),
        ([Finding(0, "", "a")] * 3, "a (and 2 more, listed by irrun validate)"),
    ):
        with pytest.raises(irrun.ModelError) as info:
            raise_findings(findings, None)
        assert str(info.value) == message


def make_graph(order: list[int], edges: list[tuple[int, int]]) -> Graph:
    return Graph([Layer(i, str(i), "Relu") for i in order], [Edge(a, 0, b, 0) for a, b in edges])


ORDERS = [
    ([0, 1, 2], [(0, 1), (1, 2)], [0, 1, 2]),
    ([2, 1, 0], [(0, 1), (1, 2)], [0, 1, 2]),
    ([2, 1, 0], [], [2, 1, 0]),
    ([5, 3, 4], [(5, 3), (3, 4)], [5, 3, 4]),
    # ids that precede positions, although the layers are not in order
    ([0, 4, 3, 1, 2], [(0, 1), (1, 3), (3, 2)], [0, 4, 1, 3, 2]),
    ([4, 2, 3, 1], [(1, 2)], [4, 3, 1, 2]),
    ([0, 1, 2, 3], [(3, 0)], [1, 2, 3, 0]),
    ([0, 1], [(0, 1), (0, 1), (1, 0)][:2], [0, 1]),
    ([1, 0], [(0, 1), (0, 1)], [0, 1]),
    # edges from or to layers that do not exist
    ([1, 0], [(0, 1), (7, 0), (1, 8), (7, 8)], [0, 1]),
    ([0, 1], [(0, 1), (7, 0)], [0, 1]),
    ([0, 1], [(0, 1), (0, 8)], [0, 1]),
]


def test_layers_are_sorted_close_to_the_order_of_the_file():
    for order, edges, expected in ORDERS:
        assert [current.id for current in sort_layers(make_graph(order, edges))] == expected


def test_cycles_name_their_first_layers():
    edges = [(i, (i + 1) % 7) for i in range(7)]
    with pytest.raises(irrun.ModelError) as info:
        sort_layers(make_graph([9, *range(7)], edges))
    assert str(info.value) == "layers form a cycle: " + ", ".join(f"layer {i} '{i}' (Relu, opset1)" for i in range(5))
    with pytest.raises(irrun.ModelError, match=r"layer 0 '0' \(Relu, opset1\)$"):
        sort_layers(make_graph([9, 0], [(0, 0)]))


F32 = ElementType.parse("f32")


PLACEHOLDERS = [
    ({"element_type": "dynamic"}, None, None, True),
    ({"element_type": "undefined"}, None, [0], True),
    ({"element_type": "dynamic"}, None, [2, 0], True),
    ({"element_type": "dynamic"}, None, [2], False),
    ({"element_type": "dynamic"}, F32, [0], False),
    ({"element_type": "f32"}, None, [0], False),
    ({}, None, None, False),
]


def test_placeholders_are_constants_without_type_and_elements():
    for attributes, element_type, shape, expected in PLACEHOLDERS:
        output = Port(0, element_type, None if shape is None else PartialShape(shape))
        for more in ([], [Port(1, F32, PartialShape([2]))], [Port(1)]):
            constant = Layer(0, "c", "Constant", attributes=attributes, outputs=[output, *more])
            assert is_placeholder(constant) == expected


def make_body(inputs=((0, 0),), outputs=((1, 1),), back_edges=()) -> Body:
    """Return a body of a Parameter 0 and a Result 1; entries are (external port, inner layer)."""
    inner = Graph([Layer(0, "in", "Parameter", outputs=[Port(0)]), Layer(1, "out", "Result", inputs=[Port(0)])])
    inner.edges = [Edge(0, 0, 1, 0)]
    sources, targets = (
        [PortMapEntry(port, layer, line=20 + port) for port, layer in side] for side in (inputs, outputs)
    )
    return Body(inner, sources, targets, [BackEdge(a, b, line=30) for a, b in back_edges])


ITERATOR = "layer 1 'it' (TensorIterator, opset1)"
INNER = f"{ITERATOR}: its port map refers to layer"


PORT_MAPS = [
    ({}, []),
    ({"inputs": [(-1, 0)], "outputs": [(-1, 1)]}, []),
    (
        {"inputs": [(0, 1)]},
        [f"line 20: {INNER} 1 of its body, which is a Result, expected a Parameter"],
    ),
    (
        {"inputs": [(0, 7)]},
        [f"line 20: {INNER} 7 of its body, which does not exist, expected a Parameter"],
    ),
    (
        {"outputs": [(1, 0)]},
        [f"line 21: {INNER} 0 of its body, which is a Parameter, expected a Result"],
    ),
    ({"inputs": [(1, 0)]}, [f"line 21: {ITERATOR}: its port map refers to input port 1, which does not exist"]),
    ({"outputs": [(0, 1)]}, [f"line 20: {ITERATOR}: its port map refers to output port 0, which does not exist"]),
    ({"back_edges": [(1, 0)]}, []),
    (
        {"back_edges": [(0, 1)]},
        [
            f"line 30: {ITERATOR}: a back edge refers to layer 0 of its body, which is a Parameter, expected a Result",
            f"line 30: {ITERATOR}: a back edge refers to layer 1 of its body, which is a Result, expected a Parameter",
        ],
    ),
]


def test_port_maps_are_checked():
    for keywords, expected in PORT_MAPS:
        iterator = Layer(1, "it", "TensorIterator", inputs=[Port(0)], outputs=[Port(1)], line=5)
        iterator.bodies["body"] = make_body(**keywords)
        layers = [Layer(0, "x", "Parameter", outputs=[Port(0)]), iterator, Layer(2, "y", "Result", inputs=[Port(0)])]
        model = Model(Graph(layers, [Edge(0, 0, 1, 0), Edge(1, 1, 2, 0)]), Weights())
        assert [str(finding) for finding in check_model(model)] == expected
        body = iterator.bodies["body"]
        entries: list[Any] = [*body.inputs, *body.outputs, *body.back_edges]
        for entry in entries:
            entry.line = 0
        lines = {finding.line for finding in check_model(model)}
        assert lines == ({5} if expected else set())


def test_bodies_are_checked_too():
    iterator = Layer(1, "it", "TensorIterator", inputs=[Port(0)], outputs=[Port(1)], line=5)
    iterator.bodies["body"] = make_body()
    iterator.bodies["body"].graph.edges.append(Edge(0, 7, 1, 0))
    layers = [Layer(0, "x", "Parameter", outputs=[Port(0)]), iterator, Layer(2, "y", "Result", inputs=[Port(0)])]
    model = Model(Graph(layers, [Edge(0, 0, 1, 0), Edge(1, 1, 2, 0)]), Weights())
    assert [str(finding) for finding in check_model(model)] == [
        "layer 0 'in' (Parameter, opset1): an edge refers to output port 7, the layer has output ports 0",
        "layer 1 'out' (Result, opset1): its input port 0 has two edges",
    ]


def test_values_that_have_a_consumer_are_mapped():
    owner = Layer(1, "it", "TensorIterator", outputs=[Port(1), Port(2)])
    check_body_is_mapped(owner, make_body(), {1})
    check_body_is_mapped(owner, make_body(), set())
    with pytest.raises(irrun.ModelError, match="its port map has no entry for output port 2"):
        check_body_is_mapped(owner, make_body(), {1, 2})
    with pytest.raises(irrun.ModelError, match=r"no input for layer 0 'in' \(Parameter, opset1\) of its body"):
        check_body_is_mapped(owner, make_body(inputs=()), {1})
    body = make_body(inputs=())
    body.graph.edges.clear()
    check_body_is_mapped(owner, body, {1})


def test_missing_weights_are_one_finding(tmp_path):
    for count in [1, 2, 3]:
        data = 'element_type="f32" shape="2" offset="0" size="8"'
        layers = [layer(i, "Const", data=data, outputs=[port(0, (2,), "FP32")]) for i in range(count)]
        layers += [layer(9 + i, "Result", inputs=[port(0)]) for i in range(count)]
        path = write(tmp_path, net(layers, [(i, 0, 9 + i, 0) for i in range(count)]), None)
        (finding,) = read_findings(path)[1]
        verb = "1 constant requires it" if count == 1 else f"{count} constants require it"
        assert (finding.line, finding.layer) == (0, "")
        assert finding.message == (
            f"the weights file {tmp_path / 'model.bin'} is missing; if it is elsewhere, pass its path as weights "
            f"(--weights); {verb}"
        )


def make_port(element_type=None, shape=None) -> Port:
    return Port(0, element_type and ElementType.parse(element_type), None if shape is None else PartialShape(shape))


def test_declarations_of_ports_are_compared():
    for a, b, expected in (
        ("f32", "f32", ("", "")),
        ("f32", "f16", ("f32", "f16")),
        (None, "f16", ("", "")),
        ("f32", None, ("", "")),
    ):
        assert compare_types(make_port(a), make_port(b)) == expected
    for a, b, is_same in (
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1, 2], [3, 2], False),
        ([1, -1], [1, 3], True),
        ([1, 3], [1, -1], True),
        ([-1, 2], [1, 3], False),
        ([1, 2], [1, 2, 3], False),
        ([1, 2], [1], False),
        ([], [1], True),
        ([1], [], True),
        (None, [1], True),
        ([1], None, True),
    ):
        texts = ("", "") if is_same else tuple(f"the shape {PartialShape(shape)}" for shape in (a, b))
        assert compare_shapes(make_port(shape=a), make_port(shape=b)) == texts
