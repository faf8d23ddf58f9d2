"""Graphs under construction: constants, names, folding, bodies, and what rules know about nodes."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import irrun  # noqa: E402
from irrun.element_types import ELEMENT_TYPES  # noqa: E402
from irrun.onnx_import.graph import Graph, cast, check_axis, constant, op, ops  # noqa: E402
from irrun.onnx_import.node import Node  # noqa: E402
from irrun.onnx_import.types import TensorReader, get_element_type, get_known, get_onnx_type, make_type_proto  # noqa: E402
from irrun.ops.shape_rules import Value as Known  # noqa: E402
from irrun.shapes import PartialShape  # noqa: E402
from onnx_import.test_reading import F32, I64, make_model, read  # noqa: E402


@pytest.fixture
def graph():
    graph = Graph("g")
    with graph.activate():
        yield graph


def add_parameter(graph, *shape, type="f32", name=""):
    return graph.add_parameter(ELEMENT_TYPES[type], Known(PartialShape(shape)), name)


@pytest.mark.parametrize(
    ("numbers", "given", "expected"),
    [
        (1, None, "i64"),
        (1.5, None, "f32"),
        (True, None, "boolean"),
        ([], None, "i64"),
        ([1, 2], None, "i64"),
        ([1.5], None, "f32"),
        ("a", None, "string"),
        (["a", "b"], None, "string"),
        (np.zeros(0), None, "f64"),
        (np.float64(1), None, "f64"),
        (np.array([1, 2], np.int8), None, "i8"),
        (np.array([1.5], np.float16), None, "f16"),
        (1, "f16", "f16"),
        (np.array([3]), "i32", "i32"),
    ],
)
def test_types_of_constants(numbers, given, expected):
    value = constant(numbers, given)
    assert value.type.name == expected
    assert value.is_constant
    assert value.read().tolist() == np.asarray(numbers).tolist()
    assert constant(value) is value


def test_conversions_of_equal_types_add_nothing(graph):
    x = add_parameter(graph, 2)
    assert cast(x, "f32") is x
    assert cast(x, "i32").type.name == "i32"
    assert [layer.type for layer in graph.layers] == ["Parameter", "Convert"]


def test_layers_of_constants_are_computed(graph):
    total = constant([1, 2]) + constant([3, 4])
    assert total.read().tolist() == [4, 6]
    assert total.type.name == "i64"
    assert not graph.layers
    x = add_parameter(graph, 2)
    assert (x + 1.0).read() is None
    assert [layer.type for layer in graph.layers] == ["Parameter", "Constant", "Add"]


def test_numbers_get_the_type_of_the_first_value(graph):
    x = add_parameter(graph, 2, type="f16")
    assert (x * 2).type.name == (2 * x).type.name == "f16"
    assert [str(layer.constant.element_type) for layer in graph.layers if layer.constant is not None] == ["f16", "f16"]
    assert op("Gather", x, [0, 1], 0).type.name == "f16"  # lists keep their own type


def test_divisions_of_integers_are_truncated(graph):
    assert (constant([-7, 7]) / 2).read().tolist() == [-3, 3]
    assert (constant([7]) - 2).read().tolist() == [5]
    assert (2 - constant([7])).read().tolist() == [-5]


def test_tensor_names_are_added_once(graph):
    x = add_parameter(graph, 2, name="x")
    for name in ("x", "y", "x"):
        x.add_name(name)
    assert x.names == ["x", "y"]
    assert x.layer.outputs[0].names == ("x", "y")
    w = constant([1])
    w.add_name("w")
    own = graph.adopt(w)
    assert own.layer.name == "w"
    assert own.layer.outputs[0].names == ("w",)
    assert graph.adopt(w) is own
    parts = ops("Split", x, 0, outputs=2, num_splits=2)
    parts[1].add_name("second")
    assert [port.names for port in parts[0].layer.outputs] == [(), ("second",)]


def test_names_of_layers_are_unique(graph):
    x = add_parameter(graph, 2, name="x")
    with graph.rename("node"):
        first, second = op("Relu", x), op("Relu", op("Relu", x))
    assert first.layer.name == "node/Relu"
    assert second.layer.name == "node/Relu_2"
    assert op("Tanh", x).layer.name == "Tanh"


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [("new", 1, "new"), ("", 1, "Relu"), ("x", 1, "Relu"), ("new", 2, "Relu")],
    ids=["own", "empty", "taken", "older layer"],
)
def test_one_layer_gets_the_name_of_its_node(graph, name, before, expected):
    x = add_parameter(graph, 2, name="x")
    result = op("Relu", x)
    graph.name_layer(name, [result, None], before)
    assert result.layer.name == expected


def test_several_layers_do_not_get_the_name_of_a_node(graph):
    x = add_parameter(graph, 4, name="x")
    a, b = op("Relu", x), op("Tanh", x)
    graph.name_layer("node", [a, b], 1)
    graph.name_layer("node", [x, None], 0)
    assert [layer.name for layer in graph.layers] == ["x", "Relu", "Tanh"]
    parts = ops("Split", x, 0, outputs=2, num_splits=2)
    graph.name_layer("node", parts, 3)
    assert parts[0].layer.name == "node"


def test_unused_layers_are_left_out(graph):
    x = add_parameter(graph, 2, name="x")
    add_parameter(graph, 2, name="unused input")
    op("Tanh", x)
    result = graph.add_result(op("Relu", x), "y")
    finished = graph.finish()
    assert [layer.type for layer in finished.layers] == ["Parameter", "Parameter", "Relu", "Result"]
    assert (result.name, result.inputs[0].names) == ("y/sink_port_0", ("y",))
    assert graph.add_result(x).inputs[0].names == ()
    assert {edge.to_layer for edge in finished.edges} == {layer.id for layer in finished.layers[2:]}


def test_values_of_enclosing_graphs_become_parameters(graph):
    x = add_parameter(graph, 2, name="x")
    body = Graph("body", parent=graph)
    with body.activate():
        op("Add", x, op("Relu", x))
    assert [layer.type for layer in body.layers] == ["Parameter", "Relu", "Add"]
    assert [value.layer.name for value in body.captured] == ["x"]
    with Graph("other").activate(), pytest.raises(irrun.ModelError, match="used outside the body that computes it"):
        op("Relu", x)


def test_dimensions_of_values(graph):
    x = graph.add_parameter(ELEMENT_TYPES["f32"], Known(PartialShape([-1, 3])))
    assert (x.rank, x.get_rank(), x.get_dimension(0), x.get_dimension(-1)) == (2, 2, None, 3)
    assert x.get_static_shape() is None
    assert add_parameter(graph, 2, 3).get_static_shape() == (2, 3)
    with pytest.raises(irrun.ModelError, match="the axis is 2, out of range for rank 2"):
        x.get_dimension(2)
    unknown = graph.add_parameter(ELEMENT_TYPES["f32"], Known(None))
    assert (unknown.rank, unknown.get_dimension(5), unknown.get_static_shape()) == (None, None, None)
    assert unknown.layer.attributes["shape"] == "..."
    with pytest.raises(irrun.UnsupportedError, match="an input has a dynamic rank"):
        unknown.get_rank()


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_axes_are_counted_from_the_end(axis, expected):
    assert check_axis(axis, 3) == expected


@pytest.mark.parametrize("axis", [3, -4])
def test_axes_out_of_range(axis):
    with pytest.raises(irrun.ModelError, match=f"the axis is {axis}, out of range for rank 3"):
        check_axis(axis, 3)


def test_types_of_results_follow_from_attributes_and_their_defaults(graph):
    x = add_parameter(graph, 2)
    assert [op(name, x).type.name for name in ("NonZero", "Relu")] == ["i64", "f32"]
    assert op("NonZero", x, output_type=ELEMENT_TYPES["i32"]).type.name == "i32"
    assert op("Less", x, x).type.name == "boolean"


def test_layers_that_do_not_exist(graph):
    x = add_parameter(graph, 2)
    with pytest.raises(irrun.UnsupportedError, match="there is no operation Mystery in opset1"):
        ops("Mystery", x, outputs=1, version="opset1")
    with pytest.raises(irrun.ModelError, match="MatMul: "):
        op("MatMul", x, add_parameter(graph, 3))


def test_omitted_inputs_at_the_end_are_dropped(graph):
    x = add_parameter(graph, 1, 4)
    layer = op("Clamp", x, None, None, min=0.0, max=1.0, other=None).layer
    assert len(layer.inputs) == 1
    assert layer.attributes == {"min": 0.0, "max": 1.0}
    assert [port.id for port in layer.outputs] == [1]


# -- types and tensors


def test_numbers_of_types():
    assert get_element_type(TensorProto.BFLOAT16).name == "bf16"
    assert get_element_type(TensorProto.FLOAT4E2M1).name == "f4e2m1"
    for number in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT8E5M2):
        assert get_onnx_type(get_element_type(number)) == number
    for number, name in ((TensorProto.COMPLEX64, "COMPLEX64"), (999, "999")):
        with pytest.raises(irrun.UnsupportedError, match=f"does not have ONNX's element type {name}"):
            get_element_type(number)


@pytest.mark.parametrize(
    ("shape", "expected"), [(None, None), ([], []), ([2, 0], [2, 0]), ([2, "n", None], [2, -1, -1]), ([-1], [-1])]
)
def test_declared_shapes(shape, expected):
    known = get_known(helper.make_tensor_type_proto(F32, shape).tensor_type).shape
    assert known == (None if expected is None else PartialShape(expected))
    assert get_known(make_type_proto(ELEMENT_TYPES["f32"], known).tensor_type).shape == known


def test_tensors_need_as_many_bytes_as_elements():
    tensor = numpy_helper.from_array(np.float32([1, 2]), "w")
    assert TensorReader(None).read(tensor).to_array().tolist() == [1, 2]
    tensor.raw_data += b"0"
    with pytest.raises(irrun.ModelError, match=r"tensor 'w' has 9 bytes, expected 8 for f32\[2\]"):
        TensorReader(None).read(tensor)
    typed = helper.make_tensor("v", F32, [3], [1.0, 2.0, 3.0])
    assert TensorReader(None).read(typed).to_array().tolist() == [1, 2, 3]
    del typed.float_data[0]
    with pytest.raises(irrun.ModelError, match="tensor 'v': "):
        TensorReader(None).read(typed)


def test_external_tensors_need_a_file(tmp_path):
    tensor = numpy_helper.from_array(np.float32([1, 2, 3]), "w")
    (tmp_path / "data").write_bytes(b"...." + tensor.raw_data)
    onnx.external_data_helper.set_external_data(tensor, "data", 4, 12)
    tensor.data_location = TensorProto.EXTERNAL
    with pytest.raises(irrun.ModelError, match="in the file 'data', expected a model that was read from a file"):
        TensorReader(None).read(tensor)
    reader = TensorReader(tmp_path)
    read = reader.read(tensor)
    assert (read.to_array().tolist(), read.offset) == ([1, 2, 3], None)
    tensor.dims[0] = 4
    with pytest.raises(irrun.ModelError):
        reader.read(tensor)


# -- nodes


def make_node(inputs=(), outputs=("y",), **attributes):
    proto = helper.make_node("Any", [], list(outputs))
    return Node(proto, 18, list(inputs), attributes, None, False)


def test_inputs_of_nodes(graph):
    x, axes = add_parameter(graph, 2), constant([1, 0])
    node = make_node([x, None, axes, [x]])
    assert len(node) == 4
    assert (node[0], node.get(1), node.get(4)) == (x, None, None)
    assert (node.read(1), node.read_integers(2), node.read_integers(1)) == (None, [1, 0], None)
    with pytest.raises(irrun.ModelError, match="input 1 is missing"):
        _ = node[1]
    with pytest.raises(irrun.UnsupportedError, match="input 3 is a sequence, expected a tensor"):
        node.get(3)
    with pytest.raises(irrun.UnsupportedError, match="input 0 depends on inputs of the model, expected a constant"):
        node.read(0)
    assert make_node([x, axes]).inputs == [x, axes]
    with pytest.raises(irrun.ModelError, match="the inputs are missing"):
        _ = make_node().inputs


def test_outputs_of_nodes():
    node = make_node(outputs=["y", "", "z"])
    assert [node.has_output(i) for i in range(4)] == [True, False, True, False]


def test_attributes_of_nodes():
    node = make_node(i=3, f=1.5, t="text", l=[2, 1], to=TensorProto.INT8, axes=[1])
    assert (node.get_int("i"), node.get_int("none", 7), node.get_float("f"), node.get_float("i")) == (3, 7, 1.5, 3.0)
    assert (node.get_text("t"), node.get_text("none", "d"), node.get_ints("l")) == ("text", "d", [2, 1])
    assert (node.get_axis("none", -1, 3), node.get_axis("i", None, 4)) == (2, 3)
    f16 = ELEMENT_TYPES["f16"]
    assert (node.get_type("to", f16).name, node.get_type("none", f16).name, node.has("none")) == ("i8", "f16", False)
    assert node.get_axes(0).read().tolist() == [1]
    for get, name, message in (
        (node.get_int, "f", "the attribute f is 1.5, expected an integer"),
        (node.get_float, "t", "the attribute t is 'text', expected a number"),
        (node.get_text, "i", "the attribute i is 3, expected a text"),
        (node.get_ints, "i", "the attribute i is 3, expected a list of integers"),
        (node.get_type, "none", "the attribute none is missing, expected an integer"),
    ):
        with pytest.raises(irrun.ModelError, match=message):
            get(name)


# -- outputs of models


def test_outputs_must_be_tensors():
    node = helper.make_node("SequenceConstruct", ["x"], ["y"])
    with pytest.raises(irrun.UnsupportedError, match="output 'y' is not a tensor, expected a tensor"):
        read(make_model([node], {"x": (F32, [2])}, {"y": (F32, None)}))


def test_bodies_have_initializers_of_their_own():
    branches = {}
    for name, number in (("then_branch", 2), ("else_branch", 3)):
        branches[name] = helper.make_graph(
            [helper.make_node("Mul", ["x", "factor"], ["y"])], name, [],
            [helper.make_tensor_value_info("y", F32, [2])],
            [numpy_helper.from_array(np.float32([number, number]), "factor")],
        )  # fmt: skip
    node = helper.make_node("If", ["c"], ["z"], **branches)
    model = make_model([node], {"c": (TensorProto.BOOL, []), "x": (F32, [2])}, {"z": (F32, [2])})
    compiled = irrun.compile_model(read(model))
    for chosen, expected in ((True, [2, 4]), (False, [3, 6])):
        assert compiled({"c": np.array(chosen), "x": np.float32([1, 2])})[0].tolist() == expected


def test_inputs_must_be_tensors():
    model = make_model([helper.make_node("SequenceLength", ["x"], ["y"])], {}, {"y": (I64, [])})
    model.graph.input.append(helper.make_tensor_sequence_value_info("x", F32, [2]))
    with pytest.raises(irrun.UnsupportedError, match="input 'x' is of the type sequence, expected a tensor"):
        read(model)
