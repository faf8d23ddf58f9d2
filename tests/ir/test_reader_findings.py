"""What the reader finds in the elements of a file."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write

import irrun
from irrun.ir.reader import read_findings
from irrun.ir.structure import Finding

DATA = 'shape="2" element_type="f32"'
PARAMETER = layer(0, "Parameter", data=DATA, outputs=[port(0, (2,), "FP32")], name="x")
RELU = layer(1, "Relu", inputs=[port(0)], outputs=[port(1, (2,), "FP32")])
RESULT = layer(9, "Result", inputs=[port(0)])
EDGES = [(0, 0, 1, 0), (1, 1, 9, 0)]
ITERATOR = "layer 1 'it' (TensorIterator, opset1)"


def find_messages(tmp_path, text, weights=b"") -> list[str]:
    """Return the findings of a file as text; layers begin in line 3, one per line, and edges follow them."""
    return [str(finding) for finding in read_findings(write(tmp_path, text, weights))[1]]


GOOD = net([PARAMETER, RELU, RESULT], EDGES)


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


INTEGERS = [
    ("5", 5),
    (" 5 ", 5),
    ("-1", -1),
    ("9" * 19, int("9" * 19)),
    ("9" * 20, None),
    ("1e3", None),
    ("-", None),
    ("--1", None),
    ("+1", None),
    ("", None),
]


def test_integers_of_elements(tmp_path):
    for text, expected in INTEGERS:
        messages = find_messages(tmp_path, GOOD.replace('<layer id="1"', f'<layer id="{text}"').replace(
            'to-layer="1"', f'to-layer="{text}"').replace('from-layer="1"', f'from-layer="{text}"'))  # fmt: skip
        assert any("integer id" in message for message in messages) == (expected is None)


def test_versions_are_checked(tmp_path):
    for version in ["2.0", "", "eleven", "1", "12", "-2"]:
        path = write(tmp_path, GOOD.replace('version="11"', f'version="{version}"', 1))
        message = f"{path}:2: expected an IR version from 2 to 11, found {version!r}"
        with pytest.raises(irrun.ModelError, match=f"^{re.escape(message)}$"):
            irrun.read_model(path)
        path = write(tmp_path, GOOD.replace("<net ", "<graph ").replace("</net>", "</graph>"))
        with pytest.raises(
            irrun.ModelError, match=re.escape(f"{path}:2: expected the root element <net>, found <graph>")
        ):
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
        weights = np.float32([3, 4, *range(23)])
        (constant,) = irrun.read_model(write(tmp_path, text, weights)).graph.find_layers("Constant")
        assert constant.constant.to_array().tolist() == [3, 4]
        assert constant.attributes == {}


def test_all_current_versions_are_read(tmp_path):
    for version in ("10", "11", ""):
        text = GOOD.replace(' version="11"', f' version="{version}"' if version else "", 1)
        model = irrun.read_model(write(tmp_path, text))
        assert (model.version, model.source_version) == ((11, 11) if version == "11" else (10, 10))
        assert model.path == tmp_path / "model.xml"
    assert irrun.read_model(text.encode()).path is None


def test_names_of_results_are_read(tmp_path):
    for inputs, expected in (((port(0),), ("a", "b,c")), ((), None)):
        text = net([PARAMETER, layer(9, "Result", inputs=inputs)], [(0, 0, 9, 0)][: len(inputs)])
        text = text.replace('type="Result"', r'type="result" output_names="a,b\,c,"')
        model, findings = read_findings(write(tmp_path, text))
        (result,) = model.graph.find_layers("Result")
        assert [port.names for port in result.inputs] == ([expected] if expected else [])
        assert len(findings) == (0 if expected else 1)


def test_first_port_of_parameters_constants_and_results_counts(tmp_path):
    layers = [
        layer(0, "Parameter", data=DATA, outputs=[port(0, (3,)), port(1, (4,), "I32")]),
        layer(
            1, "Const", data='element_type="f32" shape="2" offset="0"', outputs=[port(0, (2,)), port(1, (9,), "I32")]
        ),
        layer(2, "Result", inputs=[port(0), port(1)]),
    ]
    text = net(layers, [(0, 0, 2, 0)]).replace('type="Result"', 'type="Result" output_names="a"')
    model = irrun.read_model(write(tmp_path, text, np.float32([1, 2])), check=False)
    for _ in range(2):
        parameter, constant, result = model.graph.layers
        assert [str(p.shape) for p in parameter.outputs] == ["[2]", "[4]"]
        assert [str(p.element_type) for p in parameter.outputs] == ["f32", "i32"]
        assert constant.constant.to_array().tolist() == [1, 2]
        assert [p.names for p in result.inputs] == [("a",), ()]
        del parameter.attributes["shape"], parameter.attributes["element_type"]
        model = irrun.read_model(irrun.save_model(model, tmp_path / "copy.xml")[0], check=False)


def test_data_and_ports_may_differ(tmp_path):
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
