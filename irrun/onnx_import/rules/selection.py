"""Rules for operators that select elements."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.onnx_import.graph import Value, cast, constant, op, ops
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import (
    broadcast,
    get_lengths,
    integers,
    reshape,
    shape_of,
    squeeze,
    to_vector,
    where,
)

I64 = ELEMENT_TYPES["i64"]


def to_scalar(value: Value) -> Value:
    """Return a value of one element as a scalar."""
    return value if value.rank == 0 else reshape(value, constant(np.zeros(0, np.int64)))


def find_extreme(x: Value, axis: int, mode: str, *, keep: bool, last: bool) -> Value:
    """Return the indices of the extreme elements of an axis, i64.

    Args:
        x: The data.
        axis: The axis.
        mode: "max" or "min".
        keep: Whether the axis stays, with length 1.
        last: Whether the last of equal elements is chosen.
    """
    if last:
        length = get_lengths(x, axis)
        reversed_x = op("Slice", x, integers(-1), integers(-(2**62)), integers(-1), integers(axis))
        index = length - 1 - find_extreme(reversed_x, axis, mode, keep=True, last=False)
    else:
        index = ops(
            "TopK",
            x,
            constant(1),
            outputs=2,
            axis=axis,
            mode=mode,
            sort="value",
            index_element_type="i64",
            stable=True,
            types=[x.type, I64],
        )[1]
    return index if keep else squeeze(index, axis)


@translate("ArgMax", "ArgMin")
def translate_arg_extreme(node: Node) -> Value:
    """TopK of one element."""
    return find_extreme(
        node[0],
        node.get_int("axis", 0),
        "max" if node.type == "ArgMax" else "min",
        keep=bool(node.get_int("keepdims", 1)),
        last=bool(node.get_int("select_last_index", 0)),
    )


@translate("TopK")
def translate_top_k(node: Node) -> list[Value]:
    """TopK."""
    x = node[0]
    k = constant(node.get_int("k")) if node.version < 10 else to_scalar(node[1])
    return ops(
        "TopK",
        x,
        k,
        outputs=2,
        axis=node.get_int("axis", -1),
        mode="max" if node.get_int("largest", 1) else "min",
        sort="value" if node.get_int("sorted", 1) else "none",
        index_element_type="i64",
        stable=bool(node.get_int("sorted", 1)),
        types=[x.type, I64],
    )


@translate("NonZero")
def translate_non_zero(node: Node) -> Value:
    """NonZero."""
    return op("NonZero", node[0], output_type="i64")


@translate("Unique")
def translate_unique(node: Node) -> list[Value]:
    """Add Unique."""
    x = node[0]
    axis = None if not node.has("axis") else constant(node.get_int("axis"))
    return ops(
        "Unique",
        x,
        axis,
        outputs=4,
        types=[x.type, I64, I64, I64],
        sorted=bool(node.get_int("sorted", 1)),
        index_element_type="i64",
        count_element_type="i64",
    )


@translate("OneHot")
def translate_one_hot(node: Node) -> Value:
    """OneHot of non-negative indices."""
    indices, depth, values = cast(node[0], "i64"), to_scalar(cast(node[1], "i64")), node[2]
    indices = where(indices < 0, indices + depth, indices)
    off, on = ops("Split", values, constant(0), outputs=2, num_splits=2)
    return op("OneHot", indices, depth, to_scalar(on), to_scalar(off), axis=node.get_int("axis", -1))


@translate("CumSum")
def translate_cum_sum(node: Node) -> Value:
    """CumSum."""
    return op(
        "CumSum",
        node[0],
        to_scalar(node[1]),
        exclusive=bool(node.get_int("exclusive", 0)),
        reverse=bool(node.get_int("reverse", 0)),
    )


@translate("NonMaxSuppression")
def translate_nms(node: Node) -> Value:
    """NonMaxSuppression, without rows beyond the number of boxes."""
    boxes, scores = node[0], node[1]
    count = constant(0) if node.get(2) is None else to_scalar(node[2])
    overlap, score = (constant(0.0) if node.get(i) is None else to_scalar(node[i]) for i in (3, 4))
    if node.get(4) is None:
        score = constant(float(np.finfo(np.float32).min))
    selected, _, valid = ops(
        "NonMaxSuppression",
        boxes,
        scores,
        count,
        overlap,
        score,
        outputs=3,
        types=[I64, scores.type, I64],
        box_encoding="center" if node.get_int("center_point_box", 0) else "corner",
        sort_result_descending=False,
        output_type="i64",
    )
    return op("Slice", selected, integers(0), to_vector(valid), integers(1), integers(0))


@translate("RandomUniform", "RandomUniformLike")
def translate_random_uniform(node: Node) -> Value:
    """RandomUniform."""
    if node.type == "RandomUniform":
        shape, kind = integers(*node.get_ints("shape")), node.get_type("dtype", ELEMENT_TYPES["f32"])
    else:
        shape, kind = shape_of(node[0]), node.get_type("dtype", node[0].type)
    low, high = (constant(node.get_float(name, d), kind) for name, d in (("low", 0.0), ("high", 1.0)))
    seed = int(node.get_float("seed", 0.0))
    return op("RandomUniform", shape, low, high, output_type=kind, global_seed=seed, op_seed=0)


@translate("RandomNormal", "RandomNormalLike")
def translate_random_normal(node: Node) -> Value:
    """Box-Muller transform of two RandomUniform."""
    if node.type == "RandomNormal":
        shape, kind = integers(*node.get_ints("shape")), node.get_type("dtype", ELEMENT_TYPES["f32"])
    else:
        shape, kind = shape_of(node[0]), node.get_type("dtype", node[0].type)
    seed = int(node.get_float("seed", 0.0))
    low, high = constant(0.0, kind), constant(1.0, kind)
    first, second = (
        op("RandomUniform", shape, low, high, output_type=kind, global_seed=seed, op_seed=i) for i in (1, 2)
    )
    radius = op("Sqrt", op("Log", 1.0 - first) * -2.0)
    return radius * op("Cos", second * (2 * np.pi)) * node.get_float("scale", 1.0) + node.get_float("mean", 0.0)


@translate("Multinomial")
def translate_multinomial(node: Node) -> Value:
    """Multinomial of logarithms of probabilities."""
    import onnx

    from irrun.onnx_import.types import get_element_type

    kind = get_element_type(node.get_int("dtype", onnx.TensorProto.INT32))
    count = constant([node.get_int("sample_size", 1)])
    return op(
        "Multinomial",
        node[0],
        count,
        convert_type=kind,
        with_replacement=True,
        log_probs=True,
        global_seed=int(node.get_float("seed", 0.0)),
        op_seed=0,
        types=[kind],
    )


@translate("MaxUnpool")
def translate_max_unpool(node: Node) -> Value:
    """ScatterElementsUpdate of zeros at the indices of a MaxPool."""
    x, indices = node[0], node[1]
    shape, kernel = node.get(2), node.get_ints("kernel_shape")
    count = len(kernel)
    strides, pads = node.get_ints("strides", [1] * count), node.get_ints("pads", [0] * 2 * count)
    margins = [k - pads[i] - pads[i + count] for i, k in enumerate(kernel)]
    lengths = (get_lengths(x, *range(2, 2 + count)) - 1) * constant(strides) + constant(margins)
    flat_shape = op("Concat", get_lengths(x, 0, 1), lengths, axis=0)
    size = op("ReduceProd", flat_shape, constant([0]), keep_dims=True)
    zeros = broadcast(constant(0, x.type), size)
    flat = op(
        "ScatterElementsUpdate",
        zeros,
        reshape(indices, [-1]),
        reshape(x, [-1]),
        constant(0),
        reduction="none",
        use_init_val=True,
    )
    result = op("Reshape", flat, flat_shape, special_zero=False)
    if shape is None:
        return result
    return op("Pad", result, constant([0] * (count + 2)), shape - flat_shape, constant(0, x.type), pad_mode="constant")
