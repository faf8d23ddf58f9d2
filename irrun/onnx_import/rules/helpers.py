"""Functions that rules share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.onnx_import.graph import Operand, Value, cast, constant, op, ops

__all__ = [
    "broadcast",
    "concat",
    "gather",
    "get_lengths",
    "integers",
    "reshape",
    "scalar",
    "shape_of",
    "slice_axis",
    "split",
    "squeeze",
    "to_vector",
    "transpose",
    "unsqueeze",
    "where",
]


def integers(*values: int) -> Value:
    """Return a vector of i64."""
    return constant(np.array(values, np.int64))


def scalar(number: float, like: Value) -> Value:
    """Return a scalar constant of the type of a value."""
    return constant(number, like.type)


def reshape(value: Value, shape: Sequence[int] | Value) -> Value:
    """Change the shape of a value; 0 keeps a dimension, and -1 is inferred from the remaining elements."""
    target = shape if isinstance(shape, Value) else integers(*shape)
    return op("Reshape", value, target, special_zero=True)


def to_vector(value: Value) -> Value:
    """Return a value of one element as a vector."""
    return value if value.rank == 1 else reshape(value, [-1])


def transpose(value: Value, order: Sequence[int]) -> Value:
    """Permute the axes of a value."""
    return value if list(order) == list(range(len(order))) else op("Transpose", value, integers(*order))


def unsqueeze(value: Value, *axes: int) -> Value:
    """Insert axes of length 1."""
    return op("Unsqueeze", value, integers(*axes)) if axes else value


def squeeze(value: Value, *axes: int) -> Value:
    """Remove axes of length 1."""
    return op("Squeeze", value, integers(*axes)) if axes else value


def concat(values: Sequence[Value], axis: int = 0) -> Value:
    """Join values along an axis."""
    return values[0] if len(values) == 1 else op("Concat", *values, axis=axis)


def split(value: Value, count: int, axis: int) -> list[Value]:
    """Divide an axis into equal parts."""
    return [value] if count == 1 else ops("Split", value, constant(axis), outputs=count, num_splits=count)


def gather(value: Value, indices: Operand, axis: int = 0) -> Value:
    """Take slices along an axis."""
    return op("Gather", value, constant(indices), constant(axis), batch_dims=0)


def slice_axis(value: Value, start: Operand, stop: Operand, axis: int = 0, step: int = 1) -> Value:
    """Take the elements of an axis from `start` to before `stop`."""
    bounds = [cast(to_vector(b), "i64") if isinstance(b, Value) else constant([b]) for b in (start, stop)]
    return op("Slice", value, *bounds, constant([step]), constant([axis]))


def shape_of(value: Value) -> Value:
    """Return the shape of a value, i64."""
    return op("ShapeOf", value, output_type="i64")


def get_lengths(value: Value, *axes: int) -> Value:
    """Return some dimensions of a value as a vector of i64."""
    known = [value.get_dimension(axis) for axis in axes] if value.rank is not None else [None]
    lengths = [d for d in known if d is not None]
    if len(lengths) == len(axes):
        return integers(*lengths)
    return gather(shape_of(value), list(axes))


def broadcast(value: Operand, shape: Value) -> Value:
    """Broadcast a value to a shape."""
    return op("Broadcast", constant(value), shape, mode="numpy")


def where(condition: Value, then: Operand, other: Operand) -> Value:
    """Select elements. One of the branches may be a number."""
    if not isinstance(then, Value):
        then = constant(then, other.type if isinstance(other, Value) else None)
    return op("Select", condition, then, constant(other, then.type), auto_broadcast="numpy")
