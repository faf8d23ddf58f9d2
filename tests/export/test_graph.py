"""Graphs under construction: types of constants, shapes of results, nodes that are avoided, and what rules refuse."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

import irrun
from export.inputs import value
from irrun.element_types import ELEMENT_TYPES
from irrun.export.graph import Graph, cast, constant, get_graph, has_type, op, ops
from irrun.export.rules import class_suppression, conversion, helpers, quantization, signals, state_spaces
from irrun.export.site import RULES, NotConstantError, Site, exports
from irrun.ir.graph import Layer

pytestmark = pytest.mark.usefixtures("graph")

F32, I64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["i64"]


def sizes(result):
    """Return the shape of a value, with -1 for dynamic dimensions."""
    return None if result.shape is None else [d if isinstance(d, int) else -1 for d in result.shape]


def types():
    return [node.type for node in get_graph().nodes]


@pytest.mark.parametrize(
    ("numbers", "given", "expected"),
    [
        (1, None, "i64"),
        ([1, 2], None, "i64"),
        ([], None, "i64"),
        (1.5, None, "f32"),
        (True, None, "boolean"),
        (np.float64(2), None, "f64"),
        (np.int8([1]), None, "i8"),
        (np.array([], np.float32), None, "f32"),
        (3, "f16", "f16"),
        (2.5, ELEMENT_TYPES["i32"], "i32"),
        (np.array([1, 2], object), None, "f32"),
    ],
)
def test_types_of_constants(numbers, given, expected):
    found = constant(numbers, given)
    assert (str(found.type), found.array.dtype) == (expected, ELEMENT_TYPES[expected].dtype)
    assert sizes(found) == list(np.shape(numbers))
    assert found.is_constant
    assert constant(found, "u8") is found


def test_conversions_of_constants_are_computed():
    assert cast(constant([1, 2]), "f32").array.tolist() == [1, 2]
    assert cast(constant(np.zeros(64)), "f32").is_constant
    assert types() == []
    assert not cast(constant(np.zeros(65)), "f32").is_constant
    assert (types(), get_graph().nodes[0].attributes) == (["Cast"], {"to": onnx.TensorProto.FLOAT})


def test_conversions_keep_the_shape():
    x = value(2, -1)
    assert cast(x, "f32") is x
    assert sizes(cast(x, "f16")) == [2, -1]
    for unknown in ("u2", "f4e2m1"):
        with pytest.raises(irrun.UnsupportedError, match=f"ONNX does not have the element type {unknown}"):
            cast(x, unknown)
        with pytest.raises(irrun.UnsupportedError, match=f"ONNX does not have the element type {unknown}"):
            cast(value(3, type=unknown), "f32")


@pytest.mark.parametrize(
    ("opset", "missing"), [(18, {"i4", "u4", "f8e4m3", "f8e5m2"}), (19, {"i4", "u4"}), (20, {"i4", "u4"}), (21, set())]
)
def test_types_that_opsets_add(opset, missing):
    with Graph(opset).activate():
        names = ["f32", "bf16", "i4", "u4", "f8e4m3", "f8e5m2", "i8", "string"]
        assert {name for name in names if not has_type(ELEMENT_TYPES[name])} == missing
        assert not has_type(ELEMENT_TYPES["u2"])


def test_nodes_compute_in_a_type_that_onnxruntime_supports():
    result = op("Ceil", value(2, type="i32"))
    assert (str(result.type), types()) == ("i32", ["Cast", "Ceil", "Cast"])
    assert sizes(result) == [2]
    op("Where", value(2, type="boolean"), value(2), 1.0)
    assert get_graph().nodes[-1].inputs[2].type is F32
    with pytest.raises(irrun.UnsupportedError, match=r"ONNX's Ceil does not support string"):
        op("Ceil", value(2, type="string"))


@pytest.mark.parametrize(("opset", "expected"), [(20, ["Cast", "Pad", "Cast"]), (21, ["Pad"])])
def test_padding_of_bf16_is_newer(opset, expected):
    with Graph(opset).activate():
        op("Pad", value(2, type="bf16"), constant([1, 1]))
        assert types() == expected


def test_types_of_results_must_be_known():
    with pytest.raises(irrun.UnsupportedError, match="the type of output 0 of EyeLike is unknown"):
        op("EyeLike", value(2, 2, type="i64"))
    assert str(op("Shape", value(2)).type) == "i64"
    values, indices = ops("TopK", value(5, type="f16"), constant([2]), outputs=2, largest=1, sorted=None)
    assert (str(values.type), str(indices.type)) == ("f16", "i64")
    assert get_graph().nodes[-1].attributes == {"largest": 1}
    with pytest.raises(irrun.UnsupportedError, match="ONNX opset 21 does not have Mystery"):
        op("Mystery", value(2))


def test_operators_of_python_take_numbers_on_both_sides():
    x = value(2)
    for result in (2 - x, x / 4, -x, x <= 3):
        assert result.graph is get_graph()
    nodes = get_graph().nodes
    assert types() == ["Sub", "Div", "Neg", "LessOrEqual"]
    assert [None if v.array is None else float(v.array) for v in nodes[0].inputs] == [2, None]
    assert (nodes[1].inputs[1].type, float(nodes[1].inputs[1].array)) == (F32, 4)


def test_missing_inputs_at_the_end_are_dropped():
    op("Clip", value(2), None, None)
    op("Clip", value(2), None, 1.0)
    assert [len(node.inputs) for node in get_graph().nodes] == [1, 3]


def test_values_derived_from_constants():
    weights = constant(np.zeros(100, np.float32))
    assert op("Neg", weights).is_derived
    assert op("Gather", weights, value(2, type="i64")).is_derived  # whatever the indices are
    assert not op("Add", weights, value(100)).is_derived
    assert op("Add", op("Neg", weights), weights).is_derived
    assert not op("Relu", value(3)).is_derived


def test_outputs_are_copied_if_they_are_no_results_of_the_graph():
    graph = get_graph()
    x = value(2, 3)
    y = op("Relu", x)
    graph.add_output(y, "y")
    graph.add_output(y, "y")  # an output already
    graph.add_output(x, "z")
    graph.add_output(constant([1]), "c")
    named = op("Tanh", x)
    named.name = "own"
    graph.add_output(named, "other")
    same = op("Exp", x)
    same.name = "same"
    graph.add_output(same, "same")
    assert types() == ["Relu", "Identity", "Identity", "Identity", "Tanh", "Identity", "Exp"]
    assert [v.name for v in graph.outputs] == ["y", "y", "z", "c", "other", "same"]
    assert [sizes(v) for v in graph.outputs] == [[2, 3], [2, 3], [2, 3], [1], [2, 3], [2, 3]]
    with Graph(21, parent=graph).activate() as body:
        body.add_output(y)
        assert types() == ["Identity"]


def test_transposed_shapes():
    x = value(2, -1, 4)
    assert helpers.transpose(x, [0, 1, 2]) is x
    assert sizes(helpers.transpose(x, [2, 0, 1])) == [4, 2, -1]
    assert helpers.transpose(value(None), [1, 0]).shape is None
    assert types() == ["Transpose", "Transpose"]


@pytest.mark.parametrize(
    ("shape", "axes", "inserted", "removed"),
    [
        ((2, 3), [0], [1, 2, 3], None),
        ((2, -1), [-1], [2, -1, 1], None),
        ((2, 3), [1, -1], [2, 1, 3, 1], None),
        ((1, 3, 1), [0, -1], [1, 1, 3, 1, 1], [3]),
        ((1, -1), [0], [1, 1, -1], [-1]),
    ],
)
def test_axes_of_length_one(shape, axes, inserted, removed):
    assert sizes(helpers.unsqueeze(value(*shape), axes)) == inserted
    if removed is not None:
        assert sizes(helpers.squeeze(value(*shape), axes)) == removed
    assert helpers.unsqueeze(value(None), axes).shape is None
    assert helpers.squeeze(value(None), axes).shape is None


def test_shapes_of_reshaped_values():
    assert sizes(helpers.reshape(value(2, 3, 4), [0, -1])) == [2, -1]
    assert sizes(helpers.reshape(value(-1, 3), [0, 1, 3])) == [-1, 1, 3]
    assert sizes(helpers.reshape(value(None), [0, 5])) == [-1, 5]
    assert sizes(helpers.reshape(value(4), [2, 2])) == [2, 2]
    assert types() == ["Reshape"] * 4
    array = helpers.reshape(constant(np.arange(4.0)), [2, 2]).array
    assert array.tolist() == [[0, 1], [2, 3]]
    assert helpers.reshape(constant(np.zeros(4096)), [64, 64]).is_constant
    assert not helpers.reshape(constant(np.zeros(4098)), [2, 2049]).is_constant
    assert not helpers.reshape(constant(np.zeros(4)), [2, -1]).is_constant
    helpers.reshape(value(4), constant(np.int32([2, 2])))
    assert get_graph().nodes[-1].inputs[1].type is I64


def test_shapes_are_constant_if_they_are_static():
    assert helpers.shape_of(value(2, 3)).array.tolist() == [2, 3]
    assert not helpers.shape_of(value(2, -1)).is_constant
    assert not helpers.shape_of(value(None)).is_constant
    assert types() == ["Shape", "Shape"]


@pytest.mark.parametrize(
    ("shape", "axis", "start", "end"),
    [((-1, 2), 0, 0, 1), ((2, -1), -1, 1, 2), ((-1, 2), -2, 0, 1), ((None,), 1, 1, 2), ((None,), -1, -1, None),
     ((None,), -2, -2, -1)],
)  # fmt: skip
def test_dynamic_dimensions_are_read_from_the_shape(shape, axis, start, end):
    assert not helpers.get_dimension(value(*shape), axis).is_constant
    (node,) = get_graph().nodes
    assert node.attributes == {"start": start, **({} if end is None else {"end": end})}
    assert helpers.get_dimension(value(2, 3), axis).array.tolist() == [[2, 3][axis]] if axis in (0, 1) else [3]


def test_products_and_quotients_of_dimensions():
    n = helpers.get_dimension(value(-1), 0)
    assert helpers.multiply(2, 3, 4) == 24
    assert helpers.multiply() == 1
    assert helpers.multiply(1, n) is n
    assert helpers.divide(7, 2) == 3
    before = len(get_graph().nodes)
    helpers.multiply(2, n, 3)
    node = get_graph().nodes[-1]
    assert node.type == "Mul"
    assert [float(v.array) for v in node.inputs if v.is_constant] == [6]
    helpers.divide(n, 2)
    helpers.divide(12, n)
    assert types()[before:] == ["Mul", "Div", "Div"]
    assert get_graph().nodes[-1].inputs[0].array.tolist() == [12]


def test_slices_and_selections():
    x = value(4, type="i32")
    helpers.slice_axis(x, 1, helpers.get_dimension(value(-1, type="i64"), 0), axis=0, step=2)
    node = get_graph().nodes[-1]
    assert [None if v.array is None else v.array.tolist() for v in node.inputs] == [None, [1], None, [0], [2]]
    assert helpers.concat([x]) is x
    flags = value(2, type="boolean")
    assert str(helpers.where(flags, flags, value(2, type="boolean")).type) == "boolean"
    result = helpers.where(flags, 1, x)
    assert (str(result.type), float(get_graph().nodes[-1].inputs[1].array)) == ("i32", 1)
    assert helpers.flatten(value(3, type="i64")).name == "x"
    assert sizes(helpers.flatten(value(2, 3, type="i64"))) == [-1]


def test_loops_pass_states_and_stack_results():
    start = value(2, 3)
    states, stacked = helpers.loop(
        constant(5), [start], lambda number, states: ([states[0] + cast(number, "f32")], [number]), 1,
        while_true=lambda states: op("ReduceMax", states[0], keepdims=0) < 7.0,
    )  # fmt: skip
    (node,) = (node for node in get_graph().nodes if node.type == "Loop")
    body = node.attributes["body"]
    assert [len(states), len(stacked), len(node.outputs), len(body.inputs), len(body.outputs)] == [1, 1, 2, 3, 3]
    assert (sizes(body.inputs[2]), body.parent, body.scope) == ([-1, -1], get_graph(), "layer")
    assert [str(v.type) for v in node.outputs] == ["f32", "i64"]
    with pytest.raises(AssertionError, match="the body returns a different number of values"):
        helpers.loop(constant(1), [start], lambda number, states: (states, []), 1)


def make_site(*inputs, types=(), **attributes):
    return Site(Layer(id=0, name="layer", type="Mine", version="opset1"), inputs, attributes, [], types)


def test_inputs_and_attributes_of_layers():
    site = make_site(constant([3, -1]), None, value(2, -1), value(None), beta=0.5)
    assert len(site) == 4
    assert (site.beta, site.get(1), site.get(9)) == (0.5, None, None)
    assert site.read_integers(0) == [3, -1]
    assert helpers.to_axes(site, 0, 4) == [3, 3]
    with pytest.raises(irrun.UnsupportedError, match=r"axes \[3, 2\] are out of range for rank 3"):
        helpers.to_axes(site, 0, 3)
    for position in (1, 9):
        with pytest.raises(irrun.UnsupportedError, match=f"input {position} is not connected"):
            site[position]
    with pytest.raises(AttributeError, match="gamma"):
        _ = site.gamma
    with pytest.raises(NotConstantError, match="input 2 is not constant") as caught:
        site.read(2)
    assert caught.value.position == 2
    assert (site.get_rank(2), site.get_shape(2)) == (2, [2, None])
    with pytest.raises(irrun.UnsupportedError, match="the rank of input 3 is dynamic"):
        site.get_rank(3)
    assert site.get_static_shape(2, 2) == []
    with pytest.raises(irrun.UnsupportedError, match="input 2 has the dynamic shape "):
        site.get_static_shape(2)
    dimensions = helpers.get_dimensions(site, 2)
    assert dimensions[0] == 2
    assert sizes(helpers.reshape_to(value(6), [2, 3])) == [2, 3]
    helpers.reshape_to(value(6), dimensions)
    assert types()[-2:] == ["Concat", "Reshape"]
    assert helpers.list_entries(site, 0, 2) == [3, -1]
    assert len(helpers.list_entries(make_site(value(3, type="i32")), 0, 3)) == 3


def test_rules_that_compute_in_f32():
    """Only low-precision floats are converted, and results of f32 get their type; or f64 too."""
    for compute, wide in (("f32", "f64"), ("only f32", "f32")):
        given = []

        @exports("Mine-1", compute=compute)
        def rule(site, given=given):
            given.append([None if v is None else v.type.name for v in site.inputs])
            assert all(v is None or sizes(v) == [2, 3] for v in site.inputs)
            return [op("Sum", *[v for v in site.inputs if v is not None and v.type.is_float]), constant(1)]

        registered = RULES.pop("Mine-1")
        for kinds, computed, result in (
            (["f16", "f16"], ["f32", "f32"], "f16"),
            (["i32", "f16", None], ["i32", "f32", None], "f16"),
            ([None, "bf16", "i64"], [None, "f32", "i64"], "bf16"),
            (["i32", "f32"], ["i32", "f32"], "f32"),
            (["i64", "f64"], ["i64", wide], "f64"),
        ):
            inputs = [None if kind is None else value(2, 3, type=kind) for kind in kinds]
            results = registered(make_site(*inputs))
            assert given[-1] == computed
            assert [v.type.name for v in results] == [result, "i64"]


@pytest.mark.parametrize(
    ("scale", "zero", "options", "expected"),
    [
        ((4, 1), None, {}, {"axis": 0}),
        ((1, 6), None, {}, {"axis": 1}),
        ((4, 1), (4, 1), {}, {"axis": 0}),
        ((4, 1), (), {}, {"axis": 0}),
        ((4, 2, 1), None, {"shape": (4, 2, 3)}, {"axis": 2, "block_size": 3}),
        ((4, 2, 1), (4, 1, 1), {"shape": (4, 2, 3)}, {"axis": 2, "block_size": 3}),
        ((4, 2, 1), (4, 2, 1), {"shape": (4, 2, 3), "kind": "i8"}, {"axis": 2, "block_size": 3}),
        ((4, 1), (4, 1), {"number": 255}, {"axis": 0}),
        ((4, 1), (4, 1), {"number": -128, "kind": "i8"}, {"axis": 0}),
        ((4, 1), (4, 1), {"number": 256}, None),
        ((4, 1), (4, 1), {"number": -1}, None),
        ((4, 1), (4, 1), {"number": 0.5}, None),
        ((4, 1), (1, 6), {}, None),
        ((4, 2, 1), (1, 1, 3), {"shape": (4, 2, 3)}, None),
        ((), None, {}, None),
        ((1, 1), None, {}, None),
        ((4, 6), None, {}, None),
        ((6,), None, {}, None),
        ((4, 1), (4,), {}, None),
        ((4,), None, {"shape": (4,)}, None),
        ((4, 1), None, {"kind": "i16"}, None),
        ((4, 1), None, {"given": "f64"}, None),
    ],
)
def test_products_that_are_decompression(scale, zero, options, expected):
    shape, kind = options.get("shape", (4, 6)), options.get("kind", "u8")
    given = ELEMENT_TYPES[options.get("given", "f32")]
    weights = constant(np.ones(shape), ELEMENT_TYPES[kind])
    (data,) = get_graph().add("Cast", [weights], [given], {})
    data.shape = weights.shape
    if zero is not None:
        data = op("Sub", data, constant(np.full(zero, options.get("number", 3)), given))
    result = quantization._find_decompression(data, constant(np.full(scale, 0.5), given))
    assert (None if result is None else result.node.attributes) == expected
    if result is not None:
        length = [n for n in scale if n > 1] if "block_size" not in expected else list(scale)
        assert [sizes(v) for v in result.node.inputs[1:]] == [length] * (2 if zero is not None else 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: state_spaces._repeat_heads(value(1, 2, 3, 4), 3, 4), "4 heads and 3 groups"),
        (lambda: state_spaces._repeat_heads(value(1, 2, 0, 4), 0, 4), "4 heads and 0 groups"),
        (lambda: state_spaces._get_rows(value(None), None, constant([1])), "the rank of the angles is dynamic"),
        (lambda: state_spaces._rotate_halves(value(2, 4), value(None), value(None), 4), "the number of angles is dyn"),
        (lambda: state_spaces._rotate_halves(value(2, 4), value(2, -1), value(2, -1), 4), "the number of angles is dy"),
        (lambda: class_suppression._get_shape(value(2, 3), 3), "an input has rank 2, expected 3"),
        (lambda: signals._multiply(value(2), np.zeros((2, 2))), "a transform with a matrix of 4 elements"),
        (lambda: conversion.export_promote(make_site(value(2), value(2), types=[None])), "the output is dynamic"),
    ],
)
def test_values_that_rules_refuse(call, message, monkeypatch):
    monkeypatch.setattr(signals, "LIMIT", 3)
    with pytest.raises(irrun.UnsupportedError, match=message):
        call()


def test_values_that_rules_accept(monkeypatch):
    monkeypatch.setattr(signals, "LIMIT", 3)
    x = value(1, 2, 3, 4)
    assert state_spaces._repeat_heads(x, 3, 3) is x
    state_spaces._repeat_heads(x, 3, 6)
    signals._multiply(value(3), np.zeros((3, 1)))
    assert types() == ["Gather", "MatMul"]


def test_ranks_that_operations_require():
    x = value(None)
    site = make_site(x, op("Relu", value(None)), value(2))
    site.assume_rank(0, 3)
    site.assume_rank(1, 2)
    site.assume_rank(2, 5)
    site.assume_rank(7, 1)
    assert [sizes(v) for v in site.inputs] == [[-1, -1, -1], [-1, -1], [2]]
    assert (types(), site[0]) == (["Relu", "Identity"], x)


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((3, 1), 1, [3, 1]), ((3,), 1, [3, 1]), ((2, 3), 0, [2, 3, 1]), ((4,), -1, None), ((4, 1, 1), 2, [4])],
)
def test_operands_that_are_broadcast_from_an_axis(shape, axis, expected):
    a, b = value(2, 3, 4), value(*shape)
    first, second = helpers.align(make_site(a, b, auto_broadcast="pdpd", auto_broadcast_axis=axis))
    assert first is a
    assert sizes(second) == (list(shape) if expected is None else expected)
    plain = helpers.align(make_site(a, value(2, 3, 4, type="f16"), auto_broadcast="numpy"))
    assert str(plain[1].type) == "f32"


def test_groups_that_are_repeated_for_heads():
    x = value(1, 3, 2, 5)
    assert state_spaces._repeat_heads(x, 2, 2) is x
    state_spaces._repeat_heads(x, 2, 6)
    (node,) = get_graph().nodes
    assert (node.type, node.attributes) == ("Gather", {"axis": 2})
    assert [None if v.array is None else v.array.tolist() for v in node.inputs] == [None, [0, 0, 0, 1, 1, 1]]
    for groups in (0, 4):
        with pytest.raises(irrun.UnsupportedError, match=f"6 heads and {groups} groups"):
            state_spaces._repeat_heads(x, groups, 6)


# Files
