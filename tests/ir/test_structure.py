"""Checks of the structure of models: each finding states the line, the layer, and what was found and expected."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

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
    return [str(finding) for finding in read_findings(write(tmp_path, text, weights))[1]]


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
    ([PARAMETER, RELU], EDGES[:1], ["the model has no Result, there is nothing to compute"]),
    (
        [PARAMETER, layer(1, "Relu", data='execOrder="1"', inputs=[port(0)], outputs=[port(1)])],
        EDGES[:1],
        [
            "the model has no Result, there is nothing to compute; it is an execution graph, which describes how "
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
        assert is_placeholder(Layer(0, "c", "Constant", attributes=attributes, outputs=[output])) == expected


def make_body(inputs=((0, 0),), outputs=((1, 1),), back_edges=()) -> Body:
    """Return a body of a Parameter 0 and a Result 1; entries are (external port, inner layer)."""
    inner = Graph([Layer(0, "in", "Parameter", outputs=[Port(0)]), Layer(1, "out", "Result", inputs=[Port(0)])])
    inner.edges = [Edge(0, 0, 1, 0)]
    entries = ([PortMapEntry(port, layer_id, line=20 + port) for port, layer_id in side] for side in (inputs, outputs))
    return Body(inner, *entries, [BackEdge(a, b, line=30) for a, b in back_edges])


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
        for entry in (*body.inputs, *body.outputs, *body.back_edges):
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


# What the reader finds in elements

LAYERS = [PARAMETER, RELU, RESULT]
GOOD = net(LAYERS, EDGES)


ELEMENTS = [
    (
        'to-layer="9"',
        'to-layer="x"',
        "line 7: expected four integers in an edge, found {'from-layer': '1', "
        "'from-port': '1', 'to-layer': 'x', 'to-port': '0'}",
    ),
    (
        '<layer id="1"',
        '<layer id="one"',
        "line 4: expected a layer with a type and an integer id, found type='Relu' id='one'",
    ),
    ('<layer id="1"', "<layer", "line 4: expected a layer with a type and an integer id, found type='Relu' id=None"),
    (' type="Relu"', "", "line 4: expected a layer with a type and an integer id, found type=None id='1'"),
    (
        '<port id="1"',
        "<port",
        "line 4: layer 1 'layer1' (Relu, opset1): expected a port with an integer id, found None",
    ),
    (
        '<port id="1"',
        '<port id="1.0"',
        "line 4: layer 1 'layer1' (Relu, opset1): expected a port with an integer id, found '1.0'",
    ),
    ("<layers>", "<others>", "line 2: <net> has no <layers>"),
    (
        '<port id="1" precision="FP32">',
        '<port id="1" precision="FP31">',
        "line 4: layer 1 'layer1' (Relu, opset1): unknown element type 'FP31'",
    ),
]


def test_elements_are_checked(tmp_path):
    for old, new, expected in ELEMENTS:
        text = GOOD.replace(old, new)
        if new == "<others>":
            text = text.replace("</layers>", "</others>")
        assert find_messages(tmp_path, text)[0].startswith(expected)


ITEMS = 'external_port_id="0" internal_layer_id="0" axis="0"'


def make_iterator(entry=ITEMS, more="", maps=1, bodies=1, shape=(1,)) -> str:
    inner = graph(
        [
            layer(0, "Parameter", data=f'shape="{",".join(map(str, shape))}" element_type="f32"',
                  outputs=[port(0, shape, "FP32")]),
            layer(1, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 1, 0)],
    )  # fmt: skip
    port_map = f'<port_map>\n<input {entry}/>\n<output external_port_id="1" internal_layer_id="1" axis="0"/></port_map>'
    text = port_map * maps + more + f"<body>{inner}</body>\n" * bodies
    iterator = layer(1, "TensorIterator", inputs=[port(0)], outputs=[port(1, (2,), "FP32")], inner=text, name="it")
    return net([PARAMETER, iterator, RESULT], EDGES)


BODIES = [
    ({}, None),
    ({"bodies": 2}, "expected one <body>, found another"),
    ({"entry": 'internal_layer_id="0"'}, "expected external_port_id and internal_layer_id in a port map entry"),
    ({"entry": 'external_port_id="0"'}, "expected external_port_id and internal_layer_id in a port map entry"),
    ({"entry": f'{ITEMS} start="x"'}, "expected an integer as start of a port map, found 'x'"),
    ({"entry": f'{ITEMS} stride="1.0"'}, "expected an integer as stride of a port map, found '1.0'"),
    (
        {"more": '<back_edges><edge from-layer="1"/></back_edges>'},
        "expected integers as from-layer and to-layer of a back edge",
    ),
    (
        {"more": '<back_edges><edge from-layer="1" to-layer="x"/></back_edges>'},
        "expected integers as from-layer and to-layer of a back edge",
    ),
]


def test_elements_of_bodies_are_checked(tmp_path):
    for keywords, expected in BODIES:
        messages = find_messages(tmp_path, make_iterator(**keywords))
        if expected is None:
            assert messages == []
            continue
        assert re.fullmatch(rf"line \d+: {re.escape(ITERATOR)}: {re.escape(expected)}", messages[0])


def test_lines_of_bodies_are_those_of_the_file(tmp_path):
    more = '<back_edges>\n<edge from-layer="1" to-layer="0"/></back_edges>'
    path = write(tmp_path, make_iterator(more=more))
    body = irrun.read_model(path).graph.layers[1].bodies["body"]
    lines = path.read_text().splitlines()
    assert "<input external" in lines[body.inputs[0].line - 1]
    assert "<output external" in lines[body.outputs[0].line - 1]
    assert "<edge" in lines[body.back_edges[0].line - 1]
    assert body.inputs[0].line < body.outputs[0].line < body.back_edges[0].line
    model = irrun.read_model(write(tmp_path, GOOD))
    assert [layer.line for layer in model.graph.layers] == [3, 4, 5]
    assert [model.graph.get_edge_line(i) for i in (0, 1, 2)] == [6, 7, 0]


PART_SIZES = [
    ((2,), 0, 2, 2),
    ((2,), 0, -2, 2),
    ((3,), 0, 2, 1),
    ((1,), 0, 1, 1),
    ((3, 2), 1, 2, 2),
    ((3, 2), -1, 2, 2),
    ((3, 2), -2, 3, 3),
    ((3, 2), 0, 2, 1),
    ((2,), 1, 2, 1),
    ((2,), -2, 2, 1),
    ((), 0, 2, 1),
]


def test_omitted_part_size_is_the_stride_if_the_body_declares_it(tmp_path):
    for shape, axis, stride, expected in PART_SIZES:
        entry = f'external_port_id="0" internal_layer_id="0" axis="{axis}" stride="{stride}"'
        path = write(tmp_path, make_iterator(entry, shape=shape))
        (body,) = irrun.read_model(path).graph.layers[1].bodies.values()
        assert body.inputs[0].part_size == expected
        path = write(tmp_path, make_iterator(f'{entry} part_size="5"', shape=shape))
        (body,) = irrun.read_model(path).graph.layers[1].bodies.values()
        assert body.inputs[0].part_size == 5


def test_information_of_layers_and_ports_is_kept(tmp_path):
    information = '<rt_info><key value="{}"/></rt_info>'
    text = GOOD.replace("<dim>2</dim></port></output></layer>\n<layer id=\"9\"",
                        f"<dim>2</dim>{information.format(1)}</port></output>{information.format(2)}</layer>\n"
                        "<layer id=\"9\"")  # fmt: skip
    model = irrun.read_model(write(tmp_path, text))
    relu = model.graph.layers[1]
    assert relu.outputs[0].rt_info == information.format(1)
    assert relu.rt_info == information.format(2)
    assert relu.outputs[0].shape == [2]
    copy = irrun.read_model(irrun.save_model(model, tmp_path / "copy.xml")[0]).graph.layers[1]
    assert "".join(copy.rt_info.split()) == "".join(information.format(2).split())
    assert "".join(copy.outputs[0].rt_info.split()) == "".join(information.format(1).split())


def test_number_of_attributes_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("irrun.ir.reader.MAX_ATTRIBUTES", 2)
    for attributes, expected in (
        ('a="1" b="2"', []),
        ('a="1" b="2" c="3"', ["expected at most 2 attributes, found 3"]),
    ):
        messages = find_messages(tmp_path, chain("Relu", shape=(2,), data=[attributes]))
        assert [message.partition("): ")[2] for message in messages] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5), (" 5 ", 5), ("-1", -1), ("9" * 19, int("9" * 19)), ("9" * 20, None), ("1e3", None), ("-", None),
     ("--1", None), ("+1", None), ("", None)],
)  # fmt: skip
def test_integers_of_elements(text, expected, tmp_path):
    messages = find_messages(tmp_path, GOOD.replace('<layer id="1"', f'<layer id="{text}"').replace(
        'to-layer="1"', f'to-layer="{text}"').replace('from-layer="1"', f'from-layer="{text}"'))  # fmt: skip
    assert any("integer id" in message for message in messages) == (expected is None)


@pytest.mark.parametrize("version", ["2.0", "", "eleven", "1", "12", "-2"])
def test_versions_are_checked(version, tmp_path):
    path = write(tmp_path, GOOD.replace('version="11"', f'version="{version}"', 1))
    message = f"{path}:2: expected an IR version from 2 to 11, found {version!r}"
    with pytest.raises(irrun.ModelError, match=f"^{re.escape(message)}$"):
        irrun.read_model(path)
    path = write(tmp_path, GOOD.replace("<net ", "<graph ").replace("</net>", "</graph>"))
    with pytest.raises(irrun.ModelError, match=re.escape(f"{path}:2: expected the root element <net>, found <graph>")):
        irrun.read_model(path)


CONSTANTS = [
    ('shape="2" offset="0" size="8"', port(0, (2,)), "found no type[2]"),
    ('element_type="f32" shape="?" offset="0" size="8"', port(0, (2,)), "found f32[?]"),
    ('element_type="f32" shape="..." offset="0" size="8"', port(0, (2,)), "found f32[...]"),
    ('element_type="f32" shape="2" offset="a" size="8"', port(0, (2,)), "expected integers as offset and size"),
    ('element_type="f32" shape="2" offset="0" size="b"', port(0, (2,)), "expected integers as offset and size"),
    ('element_type="f32" shape="2" offset="0" size="7"', port(0, (2,)), "expected at least 8 bytes for f32[2]"),
    ('element_type="f32" shape="2" offset="4" size="8"', port(0, (2,)), "requires bytes 4 to 12 of "),
    ('element_type="f32" shape="2,x" offset="4" size="8"', port(0, (2,)), "x"),
]


def test_constants_are_checked(tmp_path):
    for data, out, message in CONSTANTS:
        text = net([layer(0, "Const", data=data, outputs=[out]), RESULT], [(0, 0, 9, 0)])
        (finding, *_) = read_findings(write(tmp_path, text, bytes(8)))[1]
        assert (finding.line, finding.layer) == (3, "layer 0 'layer0' (Constant, opset1)")
        assert message in finding.message


def test_offset_and_size_of_a_constant_may_be_omitted(tmp_path):
    for data in ('element_type="f32" shape="2"', 'element_type="f32" shape="2" size="100"'):
        text = net([layer(0, "Const", data=data), RESULT], [(0, 0, 9, 0)])
        (constant,) = irrun.read_model(write(tmp_path, text, np.float32([3, 4]))).graph.find_layers("Constant")
        assert constant.constant.to_array().tolist() == [3, 4]
        assert constant.attributes == {}


def test_structure_of_all_current_versions_is_read(tmp_path):
    for version in ("10", "11", ""):
        text = GOOD.replace(' version="11"', f' version="{version}"' if version else "", 1)
        model = irrun.read_model(write(tmp_path, text))
        assert (model.version, model.source_version) == ((11, 11) if version == "11" else (10, 10))
        assert model.path == tmp_path / "model.xml"
    assert irrun.read_model(text.encode()).path is None


def test_structure_of_results_is_read(tmp_path):
    for inputs, expected in (((port(0),), ("a", "b,c")), ((), None)):
        text = net([PARAMETER, layer(9, "Result", inputs=inputs)], [(0, 0, 9, 0)][: len(inputs)])
        text = text.replace('type="Result"', r'type="result" output_names="a,b\,c,"')
        model, findings = read_findings(write(tmp_path, text))
        (result,) = model.graph.find_layers("Result")
        assert [port.names for port in result.inputs] == ([expected] if expected else [])
        assert len(findings) == (0 if expected else 1)


def make_port(element_type=None, shape=None) -> Port:
    return Port(0, element_type and ElementType.parse(element_type), None if shape is None else PartialShape(shape))


def test_structure_compares_declarations_of_ports():
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


def test_structure_of_data_and_ports_may_differ(tmp_path):
    """The attributes count, and the contradictions can be listed."""
    for data, out, expected in (
        ('shape="2" element_type="f32"', port(0, (2,), "FP32"), []),
        ('shape="2" element_type="f32"', port(0, (3,), "FP32"), [("the shape [3]", "the shape [2]")]),
        ('shape="2" element_type="f32"', port(0, (2,), "I32"), [("i32", "f32")]),
        ('shape="2" element_type="f32"', port(0, (3,), "I32"), [("i32", "f32"), ("the shape [3]", "the shape [2]")]),
        ('shape="2" element_type="dynamic"', port(0, (2,), "FP32"), []),
        ('element_type="f32"', port(0, (2,)), []),
    ):
        text = net([layer(0, "Parameter", data=data, outputs=[f"\n{out}"], name="x"), RESULT], [(0, 0, 9, 0)])
        contradictions: list[Finding] = []
        model, findings = read_findings(write(tmp_path, text), contradictions=contradictions)
        assert findings == []
        assert [str(finding) for finding in contradictions] == [
            f"line 4: layer 0 'x' (Parameter, opset1): its output port 0 declares {a}, its <data> declares {b}"
            for a, b in expected
        ]
        (parameter,) = model.graph.find_layers("Parameter")
        assert str(parameter.outputs[0].element_type) == "f32"
        assert str(parameter.outputs[0].shape) == "[2]"
        assert irrun.read_model(tmp_path / "model.xml").graph.layers[0].outputs == parameter.outputs
    data, contradictions = 'shape="2,x" element_type="f32"', []
    text = net([layer(0, "Parameter", data=data, outputs=[port(0, (2,), "I32")]), RESULT], [(0, 0, 9, 0)])
    _, findings = read_findings(write(tmp_path, text), contradictions=contradictions)
    assert (len(findings), contradictions) == (1, [])
