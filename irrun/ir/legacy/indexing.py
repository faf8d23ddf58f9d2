"""Layers that find, gather and scatter by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, I64, LegacyLayer, Value

__all__: list[str] = []


@converts("Gather")
def gather(builder: Builder, layer: LegacyLayer) -> Value:
    axis = builder.constant(layer.axis(len(layer.in_shape()), default=0), name="axis")
    return builder.op("Gather", [layer.input(0), builder.integral(layer.input(1)), axis], shape=layer.out_shape())


def _mask(layer: LegacyLayer, name: str, count: int, *, inverted: bool) -> list[int]:
    """A mask of today; old ones for begin and end said 1 where the bound counts, which is also their default."""
    stated = layer.integers(name, default=[])
    stated += [int(inverted)] * (count - len(stated))
    return [1 - bit for bit in stated] if inverted else stated


@converts("StridedSlice")
def strided_slice(builder: Builder, layer: LegacyLayer) -> Value:
    """Without an end, to the end of each axis."""
    inputs = [layer.input(0), builder.integral(layer.input(1))]
    inputs += [builder.integral(v) for v in layer.inputs[2:]]
    count = math.prod(layer.in_shape(1))
    attributes = {
        name: _mask(layer, name, count, inverted=name in ("begin_mask", "end_mask"))
        for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    if len(inputs) < 3:
        inputs.append(builder.filled(0, (count,), I64))
        attributes["end_mask"] = [1] * count
    return builder.op("StridedSlice", inputs, attributes, shape=layer.out_shape())


@converts("OneHot")
def one_hot(builder: Builder, layer: LegacyLayer) -> Value:
    element = layer.out_type()

    def number(name: str, default: float) -> Value:
        text = layer.text(name, default=str(default))
        value = {"True": 1.0, "False": 0.0}.get(text)
        value = layer.number(name, default=default) if value is None else value
        return builder.constant(value if element.is_float else int(value), element, name)

    inputs = [
        builder.integral(layer.input(0)),
        builder.constant(layer.integer("depth"), name="depth"),
        number("on_value", 1.0),
        number("off_value", 0.0),
    ]
    attributes = {"axis": layer.integer("axis", default=-1)}
    return builder.op("OneHot", inputs, attributes, shape=layer.out_shape(), element=element)


def _top_k(
    builder: Builder, value: Value, k: Value, attributes: dict[str, object], shape: Sequence[int] | None
) -> tuple[Value, Value]:
    """Of equal elements the first, which only TopK-11 promises; it does so where its result is sorted."""
    attributes = {**attributes, "index_element_type": "i32", "stable": attributes["sort"] != "none"}
    outputs = [(value.type, shape), (I32, shape)]
    made = builder.layer("TopK", [value, k], outputs, attributes, version="opset11")
    return Value(made, made.outputs[0]), Value(made, made.outputs[1])


@converts("TopK")
def top_k(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Values and indices; a layer of one output gives values where that is FP32, else indices."""
    attributes = {
        "axis": layer.axis(len(layer.in_shape()), default=-1),
        "mode": layer.text("mode", default="max"),
        "sort": layer.text("sort", default="index"),
    }
    k = builder.scalar(builder.integral(layer.input(1)))
    values, indices = _top_k(builder, layer.input(0), k, attributes, layer.out_shape())
    if len(layer.outputs) == 1:
        return [values if layer.out_type().is_float else indices]
    return [values, indices]


@converts("ArgMax")
def arg_max(builder: Builder, layer: LegacyLayer) -> Value:
    """The indices of the largest elements as floats, their values (`out_max_val`), or without an axis both."""
    value = builder.floating(layer.input(0))
    both = layer.flag("out_max_val")
    shape, count = layer.in_shape(), layer.integer("top_k", default=1)
    if layer.has("axis"):
        axis = layer.axis(len(shape))
        flat = shape
    else:
        axis, flat = 1, (shape[0], math.prod(shape[1:]))
        value = builder.reshape(value, flat)
    k = builder.constant(count, name="k")
    found = (*flat[:axis], count, *flat[axis + 1 :])
    attributes: dict[str, object] = {"axis": axis, "mode": "max", "sort": "value"}
    values, indices = _top_k(builder, value, k, attributes, found)
    if layer.has("axis"):
        return values if both else builder.convert(indices, F32)
    result = builder.convert(indices, F32)
    if both:
        result = builder.concat([result, values], 1)
    return builder.reshape(result, layer.out_shape())


@converts("ScatterUpdate", "ScatterElementsUpdate")
def scatter(builder: Builder, layer: LegacyLayer) -> Value:
    """With the axis as an attribute, ScatterUpdate is what ScatterElementsUpdate is today."""
    kind = layer.kind
    if len(layer.inputs) > 3:
        axis = builder.integral(layer.inputs[3])
    else:
        kind = "ScatterElementsUpdate"
        axis = builder.constant(layer.axis(len(layer.in_shape()), default=0), name="axis")
    inputs = [layer.input(0), builder.integral(layer.input(1)), layer.input(2), axis]
    return builder.op(kind, inputs, shape=layer.out_shape(), version="opset3")


@converts("GatherND")
def gather_nd(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {"batch_dims": layer.integer("batch_dims", default=0)}
    inputs = [layer.input(0), builder.integral(layer.input(1))]
    return builder.op("GatherND", inputs, attributes, shape=layer.out_shape(), version="opset5")


@converts("ScatterNDUpdate")
def scatter_nd(builder: Builder, layer: LegacyLayer) -> Value:
    inputs = [layer.input(0), builder.integral(layer.input(1)), layer.input(2)]
    return builder.op("ScatterNDUpdate", inputs, shape=layer.out_shape(), version="opset4")


@converts("GatherTree")
def gather_tree(builder: Builder, layer: LegacyLayer) -> Value:
    inputs = builder.same_type([layer.input(i) for i in range(3)])
    end = builder.convert(builder.scalar(layer.input(3)), inputs[0].type or I32)
    return builder.op("GatherTree", [*inputs, end], shape=layer.out_shape())


@converts("Bucketize")
def bucketize(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {"output_type": "i32", "with_right_bound": layer.flag("with_right_bound", default=True)}
    inputs = [layer.input(0), layer.input(1)]
    return builder.op("Bucketize", inputs, attributes, shape=layer.out_shape(), element=I32, version="opset3")


@converts("CumSum")
def cum_sum(builder: Builder, layer: LegacyLayer) -> Value:
    axis = builder.constant(0, name="axis")
    if len(layer.inputs) > 1:
        axis = builder.scalar(builder.integral(layer.inputs[1]))
    attributes = {name: layer.flag(name) for name in ("exclusive", "reverse")}
    return builder.op("CumSum", [layer.input(0), axis], attributes, shape=layer.out_shape(), version="opset3")


@converts("EmbeddingBagOffsetsSum", "EmbeddingBagPackedSum", "EmbeddingSegmentsSum")
def embedding(builder: Builder, layer: LegacyLayer) -> Value:
    """The table and per-sample weights keep their types, all between are integers."""
    indices, scalars = {
        "EmbeddingBagPackedSum": (2, ()),
        "EmbeddingBagOffsetsSum": (4, (3,)),
        "EmbeddingSegmentsSum": (5, (3, 4)),
    }[layer.kind]
    inputs: list[Value | None] = []
    for i, value in enumerate(layer.inputs):
        value = builder.integral(value) if 0 < i < indices else value
        inputs.append(builder.scalar(value) if i in scalars else value)
    return builder.op(layer.kind, inputs, shape=layer.out_shape(), version="opset3")


@converts("NonZero")
def non_zero(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {"output_type": "i32"}
    return builder.op("NonZero", [layer.input(0)], attributes, element=I32, version="opset3")


def legacy_kernel(
    builder: Builder, layer: LegacyLayer, inputs: Sequence[Value], attributes: dict[str, object] | None = None
) -> list[Value]:
    """A layer that no operation of today stands for: irrun has a kernel for the old one."""
    outputs = [(d.type or F32, d.shape) for d in layer.outputs]
    made = builder.layer(layer.kind, inputs, outputs, attributes, version="legacy")
    return [Value(made, port) for port in made.outputs]


def _first(builder: Builder, value: Value, filler: Value, count: int) -> Value:
    """The first `count` elements of a vector that the filler continues."""
    return builder.slice(builder.concat([value, filler], 0), [0], [0], [count])


@converts("Unique")
def unique(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """The values, where asked for the place of each element among them, and how often each occurs, as floats.

    The outputs are as long as the input: the last value is repeated, with the count 0.
    """
    value = builder.floating(layer.input(0))
    (count,) = layer.in_shape()
    outputs = [(value.type, None), (I64, None), (I64, (count,)), (I64, None)]
    attributes = {"sorted": layer.flag("sorted"), "index_element_type": "i64", "count_element_type": "i64"}
    made = builder.layer("Unique", [value], outputs, attributes, version="opset10")
    values, _, places, counts = (Value(made, port) for port in made.outputs)
    last = builder.op(
        "Gather",
        [values, builder.constant([-1], name="last"), builder.constant(0, name="axis")],
        {"batch_dims": 0},
        shape=(1,),
        version="opset8",
    )
    repeats = builder.constant([count], name="repeats")
    result = [_first(builder, values, builder.op("Tile", [last, repeats], shape=(count,)), count)]
    if layer.flag("return_inverse"):
        result.append(builder.convert(places, F32))
    if layer.flag("return_counts"):
        result.append(_first(builder, builder.convert(counts, F32), builder.filled(0, (count,)), count))
    return result


@converts("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum")
def sparse_segment(builder: Builder, layer: LegacyLayer) -> Value:
    """Sums of rows by segment, divided by the number of rows or its root; segments without rows are zero."""
    table = builder.floating(layer.input(0))
    rows, (segments, *_) = layer.in_shape()[0], layer.out_shape()
    places = [
        builder.integral(layer.input(1)),
        builder.integral(layer.input(2)),
        builder.constant(segments, name="segments"),
    ]
    total = builder.op("EmbeddingSegmentsSum", [table, *places], shape=layer.out_shape(), version="opset3")
    if layer.kind == "SparseSegmentSum":
        return total
    shape = (segments, *[1] * (len(layer.out_shape()) - 1))
    ones = builder.filled(1, (rows, *shape[1:]))
    count = builder.op("EmbeddingSegmentsSum", [ones, *places], shape=shape, version="opset3")
    count = builder.binary("Maximum", count, builder.constant(1.0, F32, "one"))
    if layer.kind == "SparseSegmentSqrtN":
        count = builder.unary("Sqrt", count)
    return builder.binary("Divide", total, count)


@converts("SparseToDense")
def sparse_to_dense(builder: Builder, layer: LegacyLayer) -> Value:
    """Values at indices into the shape of the output, elsewhere the default or zero."""
    indices, values = builder.integral(layer.input(0)), layer.input(2)
    element = values.type or F32
    if len(layer.inputs) > 3:
        default = builder.convert(builder.scalar(layer.inputs[3]), element)
    else:
        default = builder.constant(0, element, "zero")
    target = builder.constant(list(layer.out_shape()), name="shape")
    dense = builder.op("Broadcast", [default, target], {"mode": "numpy"}, shape=layer.out_shape())
    return builder.op("ScatterNDUpdate", [dense, indices, values], shape=layer.out_shape(), version="opset4")


@converts("ExperimentalSparseWeightedSum")
def sparse_weighted_sum(builder: Builder, layer: LegacyLayer) -> Value:
    """Sums of rows of a table by the row of a sparse matrix; a row without values takes the default one."""
    indices, values = builder.integral(layer.input(0)), builder.integral(layer.input(1))
    count = layer.in_shape()[0]
    segments = builder.reshape(builder.slice(indices, [1], [0], [1]), (count,))
    table = builder.floating(layer.input(3))
    default = builder.convert(builder.scalar(layer.input(4)), values.type or I64)
    segments = builder.convert(segments, values.type or I64)
    rows = builder.constant(layer.out_shape()[0], values.type or I64, "rows")
    inputs = [table, values, segments, rows, default, *map(builder.floating, layer.inputs[5:6])]
    return builder.op("EmbeddingSegmentsSum", inputs, shape=layer.out_shape(), version="opset3")


@converts("SparseFillEmptyRows")
def sparse_fill_empty_rows(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """A kernel of its own: in floats throughout, of fixed size, an index outside of the matrix ends the list."""
    outputs = [(F32, d.shape) for d in layer.outputs]
    inputs = [builder.floating(layer.input(i)) for i in range(4)]
    attributes = {"count": layer.out_shape()[0]}
    made = builder.layer("SparseFillEmptyRows", inputs, outputs, attributes, version="legacy")
    return [Value(made, port) for port in made.outputs]
