"""Validation without a run: each error in a file is found once, with its line."""

from __future__ import annotations

import pytest
from ir_text import chain, layer, net, port, write

import irrun
from irrun.runtime.validation import validate

CONVOLUTION = 'strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0"'


def make_convolution(
    data=CONVOLUTION, type="Convolution", shape=(1, 2, 4, 4), declared=(1, 2, 4, 4), result=(1, 3, 4, 4)
):
    """Return a net of one convolution. The layer is at line 5 and its edges at lines 7 to 9."""
    x, filters = (
        layer(i, "Parameter", data=f'shape="{",".join(map(str, s))}" element_type="f32"', outputs=[port(0, s, "FP32")])
        for i, s in enumerate((shape, (3, 2, 1, 1)))
    )
    inputs = [port(0, declared, "FP32"), port(1, (3, 2, 1, 1), "FP32")]
    convolution = layer(2, type, "opset1", data, inputs, [port(2, result, "FP32")], name="conv")
    layers = [x, filters, convolution, layer(3, "Result", inputs=[port(0, result, "FP32")])]
    return net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])


def find(tmp_path, text):
    return [(finding.line, finding.message) for finding in irrun.validate(write(tmp_path, text))]


def test_valid_file_has_no_findings(tmp_path):
    assert find(tmp_path, make_convolution()) == []
    assert find(tmp_path, make_convolution(CONVOLUTION + ' output_padding="0,0"')) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            make_convolution(CONVOLUTION.replace("strides", "stridez")),
            [(5, "Convolution-1 does not have the attribute stridez; did you mean strides?")],
        ),
        (
            make_convolution('strides="1,1"'),
            [(5, "Convolution-1 requires the attribute dilations, pads_begin, pads_end")],
        ),
        (
            make_convolution(CONVOLUTION + ' auto_pad="same"'),
            [(5, "attribute auto_pad='same' of Convolution-1: unknown value, expected one of 'explicit'")],
        ),
        (
            make_convolution(CONVOLUTION.replace('"1,1" dil', '"1,x" dil')),
            [(5, "attribute strides='1,x' of Convolution-1")],
        ),
        (
            make_convolution(CONVOLUTION.replace('strides="1,1"', 'strides="0,1"')),
            [(5, "strides [0, 1] has a value below 1")],
        ),
        (
            make_convolution(CONVOLUTION.replace('strides="1,1"', 'strides="1,1,1"')),
            [(5, "strides [1, 1, 1] has 3 values, expected one for each of 2 spatial axes")],
        ),
        (
            make_convolution().replace("<dim>3</dim>", "<dim>3.5</dim>", 1),
            [(4, "element 'dim': [facet 'pattern'] The value '3.5' is not accepted")],
        ),
        (
            make_convolution(type="Convolutoin"),
            [(5, "unsupported operation Convolutoin of opset1; did you mean Convolution")],
        ),
        (
            make_convolution(declared=(1, 2, 4, 5)),
            [(7, "its input port 0 declares the shape [1,2,4,5], but output port 0 of layer 0 'layer0'")],
        ),
        (
            make_convolution(result=(1, 3, 4, 5)),
            [(5, "its output port 2 declares the shape [1,3,4,5], its inputs determine [1,3,4,4]")],
        ),
        (
            make_convolution().replace('<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>', ""),
            [(5, "Convolution-1 requires input 0 (data), but it is not connected")],
        ),
        (
            make_convolution().replace('<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>', ""),
            [(6, "its input is not connected")],
        ),
        (
            make_convolution().replace('<edge from-layer="1" from-port="0"', '<edge from-layer="1" from-port="7"'),
            [(8, "an edge refers to output port 7, the layer has output ports 0")],
        ),
        (
            make_convolution().replace('<edge from-layer="1"', '<edge from-layer="9"'),
            [(8, "an edge refers to layer 9, which does not exist")],
        ),
        (
            make_convolution().replace('<edge from-layer="1" from-port="0"', '<edge from-layer="1" from-port="x"'),
            [(8, "element 'edge', attribute 'from-port': 'x' is not a valid value"), (5, "requires input 1 (filters)")],
        ),
    ],
)
def test_each_error_is_found_once_with_its_line(tmp_path, text, expected):
    found = find(tmp_path, text)
    assert len(found) == len(expected), found
    for line, message in expected:
        assert any(line == other and message in text for other, text in found), found


def test_layers_that_fail_for_all_values_are_found(tmp_path):
    """The shapes of Concat do not fit. Whether Gather finds its indices depends on their values."""
    x, y = (
        layer(i, "Parameter", data=f'element_type="i64" shape="{size},3"', outputs=[port(0, [size, 3], "I64")])
        for i, size in enumerate((1, 2))
    )
    concat = layer(
        2, "Concat", data='axis="1"', inputs=[port(0, [1, 3], "I64"), port(1, [2, 3], "I64")], outputs=[port(2)]
    )
    axis = layer(3, "Parameter", data='element_type="i64" shape=""', outputs=[port(0, [], "I64")])
    gather = layer(
        4, "Gather", "opset8", 'batch_dims="0"', [port(i) for i in range(3)], [port(3, [2, 3, 3])], name="gather"
    )
    layers = [x, y, concat, axis, gather, layer(5, "Result", inputs=[port(0)]), layer(6, "Result", inputs=[port(0)])]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (0, 0, 4, 0), (1, 0, 4, 1), (3, 0, 4, 2), (2, 2, 5, 0), (4, 3, 6, 0)]
    assert find(tmp_path, net(layers, edges)) == [(5, "input 1 has the shape [2,3], expected [1,3] except for axis 1")]


def test_all_of_any_number_of_inputs_are_required(tmp_path):
    layers = [
        *(
            layer(i, "Parameter", data='element_type="f32" shape="1,3"', outputs=[port(0, [1, 3], "FP32")])
            for i in range(2)
        ),
        layer(
            2,
            "Concat",
            data='axis="1"',
            inputs=[port(i, [1, 3]) for i in range(3)],
            outputs=[port(3, [1, 9], "FP32")],
        ),
        layer(3, "Result", inputs=[port(0, [1, 9])]),
    ]
    text = net(layers, [(0, 0, 2, 0), (1, 0, 2, 2), (2, 3, 3, 0)])
    ((_, message),) = find(tmp_path, text)
    assert message == "Concat-1 requires input 1 (inputs), but it is not connected"


def test_types_of_both_ends_of_an_edge_are_compared(tmp_path):
    text = make_convolution().replace(
        '<port id="0" precision="FP32"><dim>1</dim><dim>2</dim>',
        '<port id="0" precision="FP16"><dim>1</dim><dim>2</dim>',
    )
    text = text.replace('precision="FP16"', 'precision="FP32"', 1)
    ((line, message),) = find(tmp_path, text)
    assert line == 7
    assert message.startswith("its input port 0 declares f16, but output port 0 of layer 0 'layer0'")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<dim>4</dim>", "<dim>6</dim>", "declares the shape [1,2,6,4], its <data> declares the shape [1,2,4,4]"),
        ('precision="FP32"', 'precision="FP16"', "declares f16, its <data> declares f32"),
    ],
)
def test_port_of_parameter_is_compared_with_its_data(tmp_path, old, new, message):
    """The model can run: the port has no effect."""
    text = make_convolution().replace(old, new, 1)
    assert find(tmp_path, text) == [(3, f"its output port 0 {message}")]
    assert irrun.read_model(tmp_path / "model.xml").inputs[0].shape == (1, 2, 4, 4)


def test_layers_in_bodies_are_checked(tmp_path):
    body = chain("Relu", "Clamp", shape=(1, 3)).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    inner = (
        '<port_map><input axis="0" external_port_id="0" internal_layer_id="0"/>'
        f'<output axis="0" external_port_id="1" internal_layer_id="3"/></port_map><body>{body}</body>'
    )
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=inner),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    ((_, message),) = find(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]))
    assert message == "Clamp-1 requires the attribute max, min"


def test_custom_operations_are_checked_too(tmp_path):
    def scale(data, *, factor: float = 1.0):
        return data * factor

    operation = irrun.Operation.from_function(scale, "Scale", opset="extension")
    for attributes, expected in (
        ('factor="2" note="x"', []),
        ('facter="2"', ["Scale-extension does not have the attribute facter; did you mean factor?"]),
        (
            'factor="x"',
            ["attribute factor='x' of Scale-extension: 'x' is not a number, expected float"],
        ),
    ):
        path = write(tmp_path, chain("Scale", versions=["extension"], data=[attributes]))
        assert [finding.message for finding in irrun.validate(path, operations=[operation])] == expected


def make_iterator(port_map, body):
    """Return a net of a TensorIterator, which is at line 4."""
    inner = f"<port_map>{port_map}</port_map>{body}"
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32")]),
        layer(1, "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3), "FP32")], inner=inner, name="it"),
        layer(2, "Result", inputs=[port(0, (2, 3))]),
    ]
    return net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)])


INPUT = '<input axis="0" external_port_id="0" internal_layer_id="0"/>'
OUTPUT = '<output axis="0" external_port_id="1" internal_layer_id="2"/>'
BODY = "<body>" + chain("Relu", shape=(1, 3)).partition("<net")[2].partition(">")[2].removesuffix("</net>") + "</body>"


@pytest.mark.parametrize(
    ("port_map", "body", "messages"),
    [
        (INPUT + OUTPUT, BODY, []),
        (INPUT, BODY, ["its port map has no entry for output port 1"]),
        (OUTPUT, BODY, ["its port map has no input for layer 0 'x' (Parameter, opset1) of its body"]),
        (INPUT + OUTPUT, "", ["TensorIterator-1 requires a <body>"]),
    ],
)
def test_port_maps_of_bodies_are_checked(port_map, body, messages, tmp_path):
    found = find(tmp_path, make_iterator(port_map, body))
    assert [message for _, message in found if "Element" not in message] == messages, found


def test_wrong_shape_of_an_output_is_reported_once(tmp_path):
    """The edge after it is not reported again, but edges in bodies are."""
    text = make_convolution(result=(1, 3, 4, 5))
    head, _, tail = text.rpartition("<dim>5</dim>")
    ((line, message),) = find(tmp_path, head + "<dim>4</dim>" + tail)
    assert line == 5
    assert message.startswith("its output port 2 declares the shape [1,3,4,5]")
    wrong = BODY.replace("<dim>1</dim><dim>3</dim>", "<dim>1</dim><dim>4</dim>", 3)
    wrong = wrong[: wrong.rindex("<dim>4</dim>")] + "<dim>3</dim>" + wrong[wrong.rindex("<dim>4</dim>") + 12 :]
    found = find(tmp_path, make_iterator(INPUT + OUTPUT, wrong))
    assert any("declares the shape" in message for _, message in found), found


@pytest.mark.parametrize("version", ["10", "11"])
def test_shapes_of_all_supported_versions_are_inferred(version, tmp_path):
    text = make_convolution(result=(1, 3, 4, 5)).replace('version="11"', f'version="{version}"', 1)
    ((_, message),) = find(tmp_path, text)
    assert message == "its output port 2 declares the shape [1,3,4,5], its inputs determine [1,3,4,4]"


def test_files_without_a_readable_graph_have_one_finding(tmp_path):
    found = find(tmp_path, '<?xml version="1.0"?>\n<net name="x" version="11"><layers/></net>')
    assert found
    with pytest.raises(irrun.ModelError, match=r"model\.xml"):
        find(tmp_path, "<net")


def test_up_to_three_similar_operations_are_suggested(tmp_path):
    ((_, message),) = find(tmp_path, chain("ReduceM", data=['keep_dims="true"']))
    assert message.startswith("unsupported operation ReduceM of opset1; did you mean ")
    assert len(message.rpartition("mean ")[2].split(", ")) == 3


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (irrun.ModelError("is broken", line=7, layer="layer 1 'a'"), (7, "layer 1 'a'", "is broken")),
        (irrun.ModelError("is broken"), (0, "", "is broken")),
        (irrun.UnsupportedError("is unknown"), (0, "", "is unknown")),
    ],
)
def test_errors_of_reading_are_findings(error, expected, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("irrun.runtime.validation.read_findings", fail)
    assert validate(write(tmp_path, chain("Relu"))) == [expected]
