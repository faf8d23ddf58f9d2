"""Gathering, scattering, sorting and embedding lookups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, I64, LegacyLayer, Value

__all__: list[str] = []


@converts("Gather")
def convert_gather(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Gather."""
    axis = builder.add_constant(layer.get_axis(len(layer.get_input_shape()), default=0), name="axis")
    return builder.add_op(
        "Gather", [layer.get_input(), builder.to_int(layer.get_input(1)), axis], shape=layer.get_output_shape()
    )


def _read_mask(layer: LegacyLayer, name: str, count: int) -> list[int]:
    """Return a mask of StridedSlice.

    In legacy files, begin_mask and end_mask are inverted: a 1, which is their default, means that the bound applies.
    """
    inverted = name in ("begin_mask", "end_mask")
    bits = layer.get_ints(name, default=[])
    bits += [int(inverted)] * (count - len(bits))
    return [1 - bit for bit in bits] if inverted else bits


@converts("StridedSlice")
def convert_strided_slice(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to StridedSlice. An omitted end is the end of each axis."""
    inputs = [layer.get_input(), builder.to_int(layer.get_input(1))]
    inputs += [builder.to_int(value) for value in layer.inputs[2:]]
    count = math.prod(layer.get_input_shape(1))
    attributes = {
        name: _read_mask(layer, name, count)
        for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    if len(inputs) < 3:
        inputs.append(builder.fill(0, (count,), I64))
        attributes["end_mask"] = [1] * count
    return builder.add_op("StridedSlice", inputs, attributes, shape=layer.get_output_shape())


@converts("OneHot")
def convert_one_hot(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to OneHot."""
    element_type = layer.get_output_type()

    def read_value(name: str, default: float) -> Value:
        text = layer.get_text(name, default=str(default))
        number = {"True": 1.0, "False": 0.0}.get(text)
        number = layer.get_float(name, default=default) if number is None else number
        return builder.add_constant(number if element_type.is_float else int(number), element_type, name)

    inputs = [
        builder.to_int(layer.get_input()),
        builder.add_constant(layer.get_int("depth"), name="depth"),
        read_value("on_value", 1.0),
        read_value("off_value", 0.0),
    ]
    attributes = {"axis": layer.get_int("axis", default=-1)}
    return builder.add_op("OneHot", inputs, attributes, shape=layer.get_output_shape(), element_type=element_type)


def _add_top_k(
    builder: Builder, value: Value, k: Value, attributes: dict[str, object], shape: Sequence[int] | None
) -> tuple[Value, Value]:
    """Add a TopK that selects the first of equal elements, which only a sorted TopK-11 guarantees."""
    attributes = {**attributes, "index_element_type": I32, "stable": attributes["sort"] != "none"}
    outputs = [(value.element_type, shape), (I32, shape)]
    top_k = builder.add_layer("TopK", [value, k], outputs, attributes, version="opset11")
    return Value(top_k, top_k.outputs[0]), Value(top_k, top_k.outputs[1])


@converts("TopK")
def convert_top_k(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to TopK. A single output holds the values if its type is floating-point, or else the indices."""
    attributes: dict[str, object] = {
        "axis": layer.get_axis(len(layer.get_input_shape()), default=-1),
        "mode": layer.get_text("mode", default="max"),
        "sort": layer.get_text("sort", default="index"),
    }
    k = builder.to_scalar(builder.to_int(layer.get_input(1)))
    values, indices = _add_top_k(builder, layer.get_input(), k, attributes, layer.get_output_shape())
    if len(layer.outputs) == 1:
        return [values if layer.get_output_type().is_float else indices]
    return [values, indices]


@converts("ArgMax")
def convert_arg_max(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to TopK.

    The output holds the indices of the largest elements as floats, or with `out_max_val` their values. Without an
    axis the maxima are over all axes but the first, and `out_max_val` appends the values to the indices.
    """
    value = builder.to_float(layer.get_input())
    has_axis, has_values = layer.has_attribute("axis"), layer.get_bool("out_max_val")
    shape, count = layer.get_input_shape(), layer.get_int("top_k", default=1)
    if has_axis:
        axis = layer.get_axis(len(shape))
    else:
        axis, shape = 1, (shape[0], math.prod(shape[1:]))
        value = builder.reshape(value, shape)
    k = builder.add_constant(count, name="k")
    attributes: dict[str, object] = {"axis": axis, "mode": "max", "sort": "value"}
    values, indices = _add_top_k(builder, value, k, attributes, (*shape[:axis], count, *shape[axis + 1 :]))
    if has_axis:
        return values if has_values else builder.convert(indices, F32)
    result = builder.convert(indices, F32)
    if has_values:
        result = builder.concat([result, values], 1)
    return builder.reshape(result, layer.get_output_shape())


@converts("ScatterUpdate", "ScatterElementsUpdate")
def convert_scatter(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ScatterUpdate or ScatterElementsUpdate.

    A ScatterUpdate with an axis attribute is computed as ScatterElementsUpdate.
    """
    operation = layer.type
    if len(layer.inputs) > 3:
        axis = builder.to_int(layer.inputs[3])
    else:
        operation = "ScatterElementsUpdate"
        axis = builder.add_constant(layer.get_axis(len(layer.get_input_shape()), default=0), name="axis")
    inputs = [layer.get_input(), builder.to_int(layer.get_input(1)), layer.get_input(2), axis]
    return builder.add_op(operation, inputs, shape=layer.get_output_shape(), version="opset3")


@converts("GatherND")
def convert_gather_nd(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to GatherND-5."""
    attributes = {"batch_dims": layer.get_int("batch_dims", default=0)}
    inputs = [layer.get_input(), builder.to_int(layer.get_input(1))]
    return builder.add_op("GatherND", inputs, attributes, shape=layer.get_output_shape(), version="opset5")


@converts("ScatterNDUpdate")
def convert_scatter_nd_update(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ScatterNDUpdate."""
    inputs = [layer.get_input(), builder.to_int(layer.get_input(1)), layer.get_input(2)]
    return builder.add_op("ScatterNDUpdate", inputs, shape=layer.get_output_shape(), version="opset4")


@converts("GatherTree")
def convert_gather_tree(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to GatherTree."""
    steps, parents, lengths = builder.unify_types([layer.get_input(i) for i in range(3)])
    end_token = builder.convert(builder.to_scalar(layer.get_input(3)), steps.element_type or I32)
    return builder.add_op("GatherTree", [steps, parents, lengths, end_token], shape=layer.get_output_shape())


@converts("Bucketize")
def convert_bucketize(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Bucketize."""
    attributes = {"output_type": I32, "with_right_bound": layer.get_bool("with_right_bound", default=True)}
    inputs = [layer.get_input(), layer.get_input(1)]
    return builder.add_op(
        "Bucketize", inputs, attributes, shape=layer.get_output_shape(), element_type=I32, version="opset3"
    )


@converts("CumSum")
def convert_cum_sum(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to CumSum."""
    axis = builder.add_constant(0, name="axis")
    if len(layer.inputs) > 1:
        axis = builder.to_scalar(builder.to_int(layer.inputs[1]))
    attributes = {name: layer.get_bool(name) for name in ("exclusive", "reverse")}
    return builder.add_op(
        "CumSum", [layer.get_input(), axis], attributes, shape=layer.get_output_shape(), version="opset3"
    )


@converts("EmbeddingBagOffsetsSum", "EmbeddingBagPackedSum", "EmbeddingSegmentsSum")
def convert_embedding(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to the operation of the same name.

    The inputs between the table and the per-sample weights become integers, and some of them scalars.
    """
    integer_end, scalars = {
        "EmbeddingBagPackedSum": (2, ()),
        "EmbeddingBagOffsetsSum": (4, (3,)),
        "EmbeddingSegmentsSum": (5, (3, 4)),
    }[layer.type]
    inputs: list[Value | None] = []
    for i, value in enumerate(layer.inputs):
        converted = builder.to_int(value) if 0 < i < integer_end else value
        inputs.append(builder.to_scalar(converted) if i in scalars else converted)
    return builder.add_op(layer.type, inputs, shape=layer.get_output_shape(), version="opset3")


@converts("NonZero")
def convert_non_zero(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to NonZero."""
    return builder.add_op("NonZero", [layer.get_input()], {"output_type": I32}, element_type=I32, version="opset3")


def _pad_to(builder: Builder, value: Value, padding: Value, count: int) -> Value:
    """Append `padding` to a vector and return the first `count` elements."""
    return builder.slice(builder.concat([value, padding], 0), [0], [0], [count])


@converts("Unique")
def convert_unique(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to Unique.

    The outputs are the values and, on request, the position of each element among them and the number of occurrences
    of each value, as floats. All are as long as the input: the last value is repeated, with a count of 0.
    """
    value = builder.to_float(layer.get_input())
    (count,) = layer.get_input_shape()
    outputs = [(value.element_type, None), (I64, None), (I64, (count,)), (I64, None)]
    attributes = {"sorted": layer.get_bool("sorted"), "index_element_type": I64, "count_element_type": I64}
    unique = builder.add_layer("Unique", [value], outputs, attributes, version="opset10")
    values, _, positions, counts = (Value(unique, port) for port in unique.outputs)
    last = builder.add_op(
        "Gather",
        [values, builder.add_constant([-1], name="last"), builder.add_constant(0, name="axis")],
        shape=(1,),
        version="opset8",
    )
    repeats = builder.add_constant([count], name="repeats")
    result = [_pad_to(builder, values, builder.add_op("Tile", [last, repeats], shape=(count,)), count)]
    if layer.get_bool("return_inverse"):
        result.append(builder.convert(positions, F32))
    if layer.get_bool("return_counts"):
        result.append(_pad_to(builder, builder.convert(counts, F32), builder.fill(0, (count,)), count))
    return result


@converts("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum")
def convert_sparse_segment(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to EmbeddingSegmentsSum, divided by the number of rows of each segment or its square root.

    Segments without rows are zero.
    """
    table = builder.to_float(layer.get_input())
    rows, (segments, *_) = layer.get_input_shape()[0], layer.get_output_shape()
    indices = [
        builder.to_int(layer.get_input(1)),
        builder.to_int(layer.get_input(2)),
        builder.add_constant(segments, name="segments"),
    ]
    total = builder.add_op("EmbeddingSegmentsSum", [table, *indices], shape=layer.get_output_shape(), version="opset3")
    if layer.type == "SparseSegmentSum":
        return total
    shape = (segments, *[1] * (len(layer.get_output_shape()) - 1))
    ones = builder.fill(1, (rows, *shape[1:]))
    count = builder.add_op("EmbeddingSegmentsSum", [ones, *indices], shape=shape, version="opset3")
    count = builder.add_binary("Maximum", count, builder.add_constant(1.0, F32, "one"))
    if layer.type == "SparseSegmentSqrtN":
        count = builder.add_unary("Sqrt", count)
    return builder.add_binary("Divide", total, count)


@converts("SparseToDense")
def convert_sparse_to_dense(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a ScatterNDUpdate of a tensor that is filled with the default value or zero."""
    indices, values = builder.to_int(layer.get_input()), layer.get_input(2)
    element_type = values.element_type or F32
    if len(layer.inputs) > 3:
        default = builder.convert(builder.to_scalar(layer.inputs[3]), element_type)
    else:
        default = builder.add_constant(0, element_type, "zero")
    target = builder.add_constant(list(layer.get_output_shape()), name="shape")
    dense = builder.add_op("Broadcast", [default, target], {"mode": "numpy"}, shape=layer.get_output_shape())
    return builder.add_op("ScatterNDUpdate", [dense, indices, values], shape=layer.get_output_shape(), version="opset4")


@converts("ExperimentalSparseWeightedSum")
def convert_sparse_weighted_sum(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to an EmbeddingSegmentsSum with the rows of a sparse matrix as segments.

    A row of the matrix without values selects the default row of the table.
    """
    indices, values = builder.to_int(layer.get_input()), builder.to_int(layer.get_input(1))
    count = layer.get_input_shape()[0]
    segments = builder.reshape(builder.slice(indices, [1], [0], [1]), (count,))
    table = builder.to_float(layer.get_input(3))
    default = builder.convert(builder.to_scalar(layer.get_input(4)), values.element_type or I64)
    segments = builder.convert(segments, values.element_type or I64)
    rows = builder.add_constant(layer.get_output_shape()[0], values.element_type or I64, "rows")
    inputs = [table, values, segments, rows, default, *map(builder.to_float, layer.inputs[5:6])]
    return builder.add_op("EmbeddingSegmentsSum", inputs, shape=layer.get_output_shape(), version="opset3")


@converts("SparseFillEmptyRows")
def convert_sparse_fill_empty_rows(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to an operation of the opset "legacy" that has a kernel in irrun.

    No operation of the numbered opsets is equivalent: all tensors are floats of fixed size, and an index outside of
    the matrix ends the list.
    """
    outputs = [(F32, declared.shape) for declared in layer.outputs]
    inputs = [builder.to_float(layer.get_input(i)) for i in range(4)]
    attributes = {"count": layer.get_output_shape()[0]}
    converted = builder.add_layer("SparseFillEmptyRows", inputs, outputs, attributes, version="legacy")
    return [Value(converted, port) for port in converted.outputs]
