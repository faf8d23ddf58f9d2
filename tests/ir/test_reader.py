"""Reading of models as converters write them and as the specification shows them."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
from ir_text import chain, graph, layer, net, port, write, write_row_loop

import irrun
from irrun.errors import ModelError
from irrun.ir.graph import Port, PortMapEntry
from irrun.ir.reader import _replace_positions_by_ids
from irrun.shapes import DynamicDimension, PartialShape, parse_dimension, parse_shape

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def write_constant_net(data: str, out: str, weights: bytes, tmp_path):
    """Write a model that adds a constant to its input."""
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")], name="x"),
        layer(1, "Const", data=data, outputs=[out], name="c"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    edges = [(0, 0, 2, 0), (1, 1, 2, 1), (2, 2, 3, 0)]
    return write(tmp_path, net(layers, edges), weights)


def test_missing_names_and_versions_and_old_spellings_are_accepted(tmp_path):
    text = net(
        [
            layer(7, "Parameter", "", outputs=[port(3, (2, 3), "FP32")], name=""),
            layer(9, "ReLU", "", inputs=[port(5)], outputs=[port(8, (2, 3), "FP32")], name=""),
            layer(2, "Result", "", inputs=[port(4)], name=""),
        ],
        [(7, 3, 9, 5), (9, 8, 2, 4)],
    )
    out = irrun.run(write(tmp_path, text, None), X - 3)
    np.testing.assert_array_equal(out[0], np.maximum(X - 3, 0))


def test_constant_without_attributes_takes_type_and_shape_of_its_port(tmp_path):
    values = np.array([10, 20, 30], np.float32)
    path = write_constant_net('offset="0" size="12"', port(1, (3,), "FP32"), values.tobytes(), tmp_path)
    np.testing.assert_array_equal(irrun.run(path, X)[0], X + values)


def test_attributes_of_a_constant_are_read_into_its_value(tmp_path):
    values = np.array([10, 20, 30], np.float32)
    data = 'element_type="f32" shape="3" offset="0" size="12" colour="blue"'
    model = irrun.read_model(write_constant_net(data, port(1, (3,), "FP32"), values.tobytes(), tmp_path))
    (layer,) = model.graph.find_layers("Constant")
    assert layer.attributes == {"colour": "blue"}
    assert layer.constant is not None
    assert (str(layer.constant.element_type), layer.constant.shape, layer.constant.offset) == ("f32", (3,), 0)
    assert bytes(layer.constant.data) == values.tobytes()


def test_constant_at_unaligned_offset_is_read(tmp_path):
    values = np.array([10, 20, 30], np.float32)
    path = write_constant_net(
        'element_type="f32" shape="3" offset="3" size="12"', port(1, (3,), "FP32"), b"abc" + values.tobytes(), tmp_path
    )
    np.testing.assert_array_equal(irrun.run(path, X)[0], X + values)


def test_empty_constant_does_not_require_weights(tmp_path):
    text = net(
        [
            layer(
                0,
                "Const",
                data='element_type="f32" shape="0,3" offset="99" size="0"',
                outputs=[port(0, (0, 3), "FP32")],
            ),
            layer(1, "Result", inputs=[port(0)]),
        ],
        [(0, 0, 1, 0)],
    )
    assert irrun.run(write(tmp_path, text, None))[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("original", "replacement"),
    [
        ("<net ", '<net xmlns="http://example.com/ir" '),
        ("<net ", '<net xmlns:other="http://example.com/ir" other:colour="blue" '),
        ("<?xml", "\n  <?xml"),
        ("<dim>2</dim>", "<dim><!-- rows --><![CDATA[2]]>\n</dim>"),
    ],
)
def test_xml_variants_that_openvino_accepts_are_read(tmp_path, original, replacement):
    text = chain("Relu").replace("</net>", "<rt_info><key value='1'/></rt_info></net>").replace(original, replacement)
    assert replacement in text
    path = write(tmp_path, text)
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    for model_path in (path, tmp_path / "copy.xml"):
        np.testing.assert_array_equal(irrun.run(model_path, X)[0], X)
        information = irrun.read_model(model_path).rt_info
        assert information is not None
        assert '<key value="1"/>' in information
        assert "xmlns=" not in information


def test_order_of_layers_and_edges_does_not_matter(tmp_path):
    text = chain("Relu", "Sigmoid", "Tanh", "Exp")
    start, end = text.index("<layers>") + 8, text.index("</layers>")
    lines = text[start:end].split("\n")
    shuffled = text[:start] + "\n".join(reversed(lines)) + text[end:]
    expected = irrun.run(write(tmp_path, text, name="a"), X)[0]
    np.testing.assert_array_equal(irrun.run(write(tmp_path, shuffled, name="b"), X)[0], expected)


def test_escaped_commas_in_tensor_names_are_read(tmp_path):
    text = chain("Relu").replace('names="x"', r'names="a\,b,second"')
    model = irrun.read_model(write(tmp_path, text))
    assert model.inputs[0].names[:2] == ("a,b", "second")
    assert model.inputs[0].any_name == "a,b"
    compiled = irrun.compile_model(model)
    for key in ("a,b", "second", "x"):
        np.testing.assert_array_equal(compiled({key: X})[0], X)


def test_wrong_declared_dimensions_are_reported_but_ignored(tmp_path):
    text = chain("Relu").replace(
        '<port id="1" precision="FP32"><dim>2</dim><dim>3</dim>', '<port id="1" precision="FP32"><dim>7</dim>'
    )
    compiled = irrun.compile_model(write(tmp_path, text), check=True)
    request = compiled.create_infer_request()
    np.testing.assert_array_equal(request.infer(X)[0], X)
    (mismatch,) = request.mismatches
    assert (mismatch.declared, mismatch.actual) == ("f32[7]", "f32[2,3]")


def test_port_without_dimensions_accepts_any_rank(tmp_path):
    text = chain("Relu", shape=()).replace('shape=""', 'shape="..."')
    request = irrun.compile_model(write(tmp_path, text), check=True).create_infer_request()
    np.testing.assert_array_equal(request.infer(X)[0], X)
    assert request.mismatches == []


def test_unknown_attributes_are_kept_and_ignored(tmp_path):
    path = write(tmp_path, chain("Relu", data=['colour="blue"']))
    model = irrun.read_model(path)
    assert model.graph.layers[1].attributes == {"colour": "blue"}
    np.testing.assert_array_equal(irrun.run(path, X)[0], X)


def test_weights_are_read_from_bytes_an_array_or_a_path(tmp_path):
    values = np.array([10, 20, 30], np.float32)
    path = write_constant_net('element_type="f32" shape="3" offset="0" size="12"', port(1, (3,), "FP32"), b"", tmp_path)
    elsewhere = tmp_path / "elsewhere.weights"
    elsewhere.write_bytes(values.tobytes())
    for weights in (values.tobytes(), values, elsewhere, str(elsewhere), memoryview(values.tobytes())):
        np.testing.assert_array_equal(irrun.run(path, X, weights=weights)[0], X + values)
    model = irrun.read_model(path.read_bytes(), values)
    np.testing.assert_array_equal(irrun.run(model, X)[0], X + values)


def test_runtime_information_and_meta_data_are_kept(tmp_path):
    text = chain("Relu").replace(
        "</net>", '<rt_info><version value="2026.1"/></rt_info><meta_data><cli value="x"/></meta_data></net>'
    )
    model = irrun.read_model(write(tmp_path, text))
    assert model.rt_info == '<rt_info><version value="2026.1"/></rt_info>'
    assert model.meta_data == '<meta_data><cli value="x"/></meta_data>'


def test_large_weights_are_not_read_into_memory(tmp_path):
    path = write(tmp_path, chain("Relu"))
    with open(path.with_suffix(".bin"), "wb") as file:
        file.truncate(2 << 30)  # sparse
    model = irrun.read_model(path)
    assert len(model.weights) == 2 << 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        (" 5 ", 5),
        ("-1", DynamicDimension()),
        ("?", DynamicDimension()),
        ("1..8", DynamicDimension(1, 8)),
        ("..8", DynamicDimension(0, 8)),
        ("2..", DynamicDimension(2, None)),
        ("4..4", 4),
    ],
)
def test_dimensions_are_parsed(text, expected):
    assert parse_dimension(text) == expected


@pytest.mark.parametrize("text", ["", "x", "-2", "8..1", "1.5", "1...8"])
def test_invalid_dimensions_are_rejected(text):
    with pytest.raises(ValueError):  # noqa: PT011 (the reader adds file, line and layer)
        parse_dimension(text)


def test_shapes_are_parsed():
    assert parse_shape("1,?,2..4") == PartialShape([1, DynamicDimension(), DynamicDimension(2, 4)])
    assert parse_shape("") == PartialShape()
    assert parse_shape("...") is None
    assert str(parse_shape("1,-1,2..4")) == "[1,?,2..4]"


def test_dynamic_dimensions_accept_sizes_within_their_bounds(tmp_path):
    text = chain("Relu", shape=("?", "2..4"))
    compiled = irrun.compile_model(write(tmp_path, text))
    assert compiled(np.ones((7, 3), np.float32))[0].shape == (7, 3)
    with pytest.raises(irrun.InputError, match=r"x: f32\[\?,2\.\.4\] does not accept shape \[7, 5\]"):
        compiled(np.ones((7, 5), np.float32))


def test_model_with_unsupported_operations_loads_and_compiling_lists_them(tmp_path):
    path = write(tmp_path, chain("Foo", "Relu", "Bar", "Foo"))
    model = irrun.read_model(path)
    assert len(model.graph.layers) == 6
    with pytest.raises(irrun.UnsupportedError, match=r"Foo of opset1 \(layer 1 'layer1' and 1 more\); Bar of opset1"):
        irrun.compile_model(model)


def test_unknown_ir_version_is_rejected(tmp_path):
    with pytest.raises(ModelError, match="expected an IR version from 2 to 11, found '12'"):
        irrun.read_model(write(tmp_path, chain("Relu").replace('version="11"', 'version="12"')))


def test_chain_of_50000_layers_runs_without_recursion(tmp_path):
    path = write(tmp_path, chain(*["Relu"] * 50_000, shape=(1,)))
    assert irrun.run(path, np.array([2], np.float32))[0][0] == 2


def test_ports_of_a_layer_may_be_in_several_elements(tmp_path):
    """The specification's examples of Squeeze, Unsqueeze and Unique are written like this."""
    layers = [
        layer(0, "Parameter", data='shape="1,3,1,2" element_type="f32"', outputs=[port(0, (1, 3, 1, 2), "FP32")]),
        layer(1, "Parameter", data='shape="2" element_type="i64"', outputs=[port(0, (2,), "I64")]),
        layer(2, "Squeeze", inputs=[port(0, (1, 3, 1, 2)), "</input><input>", port(1, (2,))], outputs=[port(2)]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    result = irrun.compile_model(path)([np.zeros((1, 3, 1, 2), np.float32), np.array([0, 2])])
    assert result[0].shape == (3, 2)


@pytest.mark.parametrize(("output_numbers", "first"), [((0, 1), 0), ((4, 5), 0), ((4, 5), 2)])
def test_port_map_may_contain_positions_instead_of_port_ids(tmp_path, output_numbers, first):
    """The specification's example of If-8 numbers outputs by position; OpenVINO reads inputs that way."""
    bodies = ""
    for tag, types in (("then", ("Relu", "Abs")), ("else", ("Abs", "Relu"))):
        inner = [layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")])]
        inner += [layer(i, t, inputs=[port(0, (2,))], outputs=[port(1, (2,), "FP32")]) for i, t in enumerate(types, 1)]
        inner += [layer(i, "Result", inputs=[port(0, (2,))]) for i in (3, 4)]
        bodies += f'<{tag}_port_map><input external_port_id="1" internal_layer_id="0"/>'
        bodies += "".join(
            f'<output external_port_id="{n}" internal_layer_id="{i}"/>' for i, n in enumerate(output_numbers, 3)
        )
        edges = [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 3, 0), (2, 1, 4, 0)]
        bodies += f"</{tag}_port_map><{tag}_body>{graph(inner, edges)}</{tag}_body>"
    outputs = [port(4, (2,), "FP32"), port(5, (2,), "FP32")]
    layers = [
        layer(0, "Parameter", data='shape="" element_type="boolean"', outputs=[port(0, (), "BOOL")]),
        layer(1, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32")]),
        layer(2, "If", "opset8", inputs=[port(first), port(first + 1, (2,))], outputs=outputs, inner=bodies),
        layer(3, "Result", inputs=[port(0, (2,))]),
        layer(4, "Result", inputs=[port(0, (2,))]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, first), (1, 0, 2, first + 1), (2, 4, 3, 0), (2, 5, 4, 0)]))
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    models = [irrun.compile_model(path), irrun.compile_model(tmp_path / "copy.xml")]
    if importlib.util.find_spec("openvino"):
        import openvino as ov

        models.append(ov.compile_model(tmp_path / "copy.xml", "CPU"))
    x, relu = np.array([-1, 2], np.float32), [0, 2]
    for model, (cond, expected) in itertools.product(models, ((True, [relu, [1, 2]]), (False, [[1, 2], relu]))):
        result = model([np.array(cond), x])
        assert [result[i].tolist() for i in range(2)] == expected


def test_layers_of_bodies_follow_the_layer_that_has_them(tmp_path):
    layers = list(irrun.read_model(write_row_loop(tmp_path)).graph.walk())
    assert [current.type for _, current in layers] == [
        *("Parameter", "TensorIterator"),
        *("Parameter", "Relu", "Result"),
        "Result",
    ]
    (body,) = layers[1][1].bodies.values()
    assert [current is body.graph for current, _ in layers] == [False, False, True, True, True, False]


def test_positions_in_a_port_map_leave_entries_without_a_port():
    entries = [PortMapEntry(n, 0) for n in (-1, 0, 1)]
    _replace_positions_by_ids(entries, [Port(4), Port(5)])
    assert [entry.external_port_id for entry in entries] == [-1, 4, 5]


def test_null_node_is_an_omitted_input(tmp_path):
    data = '<port id="{}" precision="FP32"><dim>2</dim></port>'
    text = f"""<net name="m" version="11"><layers>
      <layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/>
        <output>{data.format(0)}</output></layer>
      <layer id="1" name="missing" type="NullNode" version="extension">
        <output><port id="0" precision="dynamic"><rank>-1</rank></port></output></layer>
      <layer id="2" name="swish" type="Swish" version="opset4">
        <input>{data.format(0)}<port id="1" precision="dynamic"><rank>-1</rank></port></input>
        <output>{data.format(2)}</output></layer>
      <layer id="3" name="y" type="Result" version="opset1"><input>{data.format(0)}</input></layer>
    </layers><edges>
      <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
      <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
      <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
    </edges></net>"""
    path = tmp_path / "model.xml"
    path.write_text(text)
    x = np.array([1, -2], np.float32)
    expected = x / (1 + np.exp(-x))
    assert irrun.validate(path) == []
    np.testing.assert_allclose(irrun.compile_model(path)(x)[0], expected, rtol=1e-6)
    irrun.save_model(irrun.read_model(path), tmp_path / "copy.xml")
    np.testing.assert_allclose(irrun.compile_model(tmp_path / "copy.xml")(x)[0], expected, rtol=1e-6)
