"""Layers that find, gather and scatter by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.build import F32, I32, Builder, OldLayer, Value, converts

__all__: list[str] = []


@converts("Gather")
def gather(builder: Builder, old: OldLayer) -> Value:
    axis = builder.constant(old.axis(len(old.in_shape()), default=0), name="axis")
    return builder.op("Gather", [old.input(0), builder.integral(old.input(1)), axis], shape=old.out_shape())


def _mask(old: OldLayer, name: str, count: int, *, inverted: bool) -> list[int]:
    """A mask of today; old ones for begin and end said 1 where the bound counts, which is also their default."""
    stated = old.integers(name, default=[])
    stated += [int(inverted)] * (count - len(stated))
    return [1 - bit for bit in stated] if inverted else stated


@converts("StridedSlice")
def strided_slice(builder: Builder, old: OldLayer) -> Value:
    inputs = [old.input(0), *(builder.integral(v) for v in old.inputs[1:])]
    count = math.prod(old.in_shape(1))
    attributes = {
        name: _mask(old, name, count, inverted=name in ("begin_mask", "end_mask"))
        for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    return builder.op("StridedSlice", inputs, attributes, shape=old.out_shape())


@converts("OneHot")
def one_hot(builder: Builder, old: OldLayer) -> Value:
    element = old.out_type()

    def number(name: str, default: float) -> Value:
        text = old.text(name, default=str(default))
        value = {"True": 1.0, "False": 0.0}.get(text)
        value = old.number(name, default=default) if value is None else value
        return builder.constant(value if element.is_float else int(value), element, name)

    inputs = [
        builder.integral(old.input(0)),
        builder.constant(old.integer("depth"), name="depth"),
        number("on_value", 1.0),
        number("off_value", 0.0),
    ]
    attributes = {"axis": old.integer("axis", default=-1)}
    return builder.op("OneHot", inputs, attributes, shape=old.out_shape(), element=element)


def _top_k(
    builder: Builder, value: Value, k: Value, attributes: dict[str, object], shape: Sequence[int] | None
) -> tuple[Value, Value]:
    attributes = {**attributes, "index_element_type": "i32"}
    outputs = [(value.type, shape), (I32, shape)]
    made = builder.layer("TopK", [value, k], outputs, attributes, version="opset3")
    return Value(made, made.outputs[0]), Value(made, made.outputs[1])


@converts("TopK")
def top_k(builder: Builder, old: OldLayer) -> Sequence[Value]:
    """Values and indices; a layer of one output gives values where that is FP32, else indices."""
    attributes = {
        "axis": old.axis(len(old.in_shape()), default=-1),
        "mode": old.text("mode", default="max"),
        "sort": old.text("sort", default="index"),
    }
    k = builder.scalar(builder.integral(old.input(1)))
    values, indices = _top_k(builder, old.input(0), k, attributes, old.out_shape())
    if len(old.outputs) == 1:
        return [values if old.out_type().is_float else indices]
    return [values, indices]


@converts("ArgMax")
def arg_max(builder: Builder, old: OldLayer) -> Value:
    """The indices of the largest elements as floats, their values (`out_max_val`), or without an axis both."""
    value = builder.floating(old.input(0))
    both = old.flag("out_max_val")
    shape, count = old.in_shape(), old.integer("top_k", default=1)
    if old.has("axis"):
        axis = old.axis(len(shape))
        flat = shape
    else:
        axis, flat = 1, (shape[0], math.prod(shape[1:]))
        value = builder.reshape(value, flat)
    k = builder.constant(count, name="k")
    found = (*flat[:axis], count, *flat[axis + 1 :])
    attributes: dict[str, object] = {"axis": axis, "mode": "max", "sort": "value"}
    values, indices = _top_k(builder, value, k, attributes, found)
    if old.has("axis"):
        return values if both else builder.convert(indices, F32)
    result = builder.convert(indices, F32)
    if both:
        result = builder.concat([result, values], 1)
    return builder.reshape(result, old.out_shape())


@converts("ScatterUpdate", "ScatterElementsUpdate")
def scatter(builder: Builder, old: OldLayer) -> Value:
    """The axis is an attribute in some files, the fourth input in others."""
    if len(old.inputs) > 3:
        axis = builder.integral(old.inputs[3])
    else:
        axis = builder.constant(old.axis(len(old.in_shape()), default=0), name="axis")
    inputs = [old.input(0), builder.integral(old.input(1)), old.input(2), axis]
    return builder.op(old.kind, inputs, shape=old.out_shape(), version="opset3")


@converts("GatherTree")
def gather_tree(builder: Builder, old: OldLayer) -> Value:
    inputs = builder.same_type([old.input(i) for i in range(3)])
    end = builder.convert(builder.scalar(old.input(3)), inputs[0].type or I32)
    return builder.op("GatherTree", [*inputs, end], shape=old.out_shape())


@converts("Bucketize")
def bucketize(builder: Builder, old: OldLayer) -> Value:
    attributes = {"output_type": "i32", "with_right_bound": old.flag("with_right_bound", default=True)}
    inputs = [old.input(0), old.input(1)]
    return builder.op("Bucketize", inputs, attributes, shape=old.out_shape(), element=I32, version="opset3")


@converts("CumSum")
def cum_sum(builder: Builder, old: OldLayer) -> Value:
    axis = builder.constant(0, name="axis")
    if len(old.inputs) > 1:
        axis = builder.scalar(builder.integral(old.inputs[1]))
    attributes = {name: old.flag(name) for name in ("exclusive", "reverse")}
    return builder.op("CumSum", [old.input(0), axis], attributes, shape=old.out_shape(), version="opset3")


@converts("EmbeddingBagOffsetsSum", "EmbeddingBagPackedSum", "EmbeddingSegmentsSum")
def embedding(builder: Builder, old: OldLayer) -> Value:
    """The table and per-sample weights keep their types, all between are integers."""
    indices, scalars = {
        "EmbeddingBagPackedSum": (2, ()),
        "EmbeddingBagOffsetsSum": (4, (3,)),
        "EmbeddingSegmentsSum": (5, (3, 4)),
    }[old.kind]
    inputs: list[Value | None] = []
    for i, value in enumerate(old.inputs):
        value = builder.integral(value) if 0 < i < indices else value
        inputs.append(builder.scalar(value) if i in scalars else value)
    return builder.op(old.kind, inputs, shape=old.out_shape(), version="opset3")


@converts("NonZero")
def non_zero(builder: Builder, old: OldLayer) -> Value:
    attributes = {"output_type": "i32"}
    return builder.op("NonZero", [old.input(0)], attributes, element=I32, version="opset3")


def legacy_kernel(
    builder: Builder, old: OldLayer, inputs: Sequence[Value], attributes: dict[str, object] | None = None
) -> list[Value]:
    """A layer that no operation of today stands for: irrun has a kernel for the old one."""
    outputs = [(d.type or F32, d.shape) for d in old.outputs]
    made = builder.layer(old.kind, inputs, outputs, attributes, version="legacy")
    return [Value(made, port) for port in made.outputs]


@converts("Unique")
def unique(builder: Builder, old: OldLayer) -> Sequence[Value]:
    attributes: dict[str, object] = {name: old.flag(name) for name in ("sorted", "return_inverse", "return_counts")}
    return legacy_kernel(builder, old, [builder.floating(old.input(0))], attributes)


@converts("SparseFillEmptyRows", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum", "SparseToDense")
def sparse(builder: Builder, old: OldLayer) -> Sequence[Value]:
    """In floats throughout, indices too, and of fixed size: -1 ends a list of indices."""
    attributes: dict[str, object] = {}
    if old.kind == "SparseFillEmptyRows":
        attributes["count"] = old.out_shape()[0]
    return legacy_kernel(builder, old, [builder.floating(v) for v in old.inputs], attributes)
