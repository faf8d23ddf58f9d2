"""Functions that rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Graph, Operand, Value, cast, constant, get_graph, op
from irrun.export.site import Site
from irrun.shapes import PartialShape

__all__ = [
    "FIRST",
    "LAST",
    "align",
    "as_type",
    "concat",
    "divide",
    "expand",
    "flatten",
    "gather",
    "get_dimension",
    "get_dimensions",
    "list_entries",
    "logical_or",
    "loop",
    "multiply",
    "reshape",
    "reshape_to",
    "scalar_like",
    "shape_of",
    "slice_axis",
    "squeeze",
    "to_axes",
    "transpose",
    "unsqueeze",
    "where",
]

#: Bounds of slices that mean the ends of an axis.
LAST, FIRST = (1 << 63) - 1, -(1 << 63)


def scalar_like(value: Value, number: float) -> Value:
    """Return a scalar constant of the type of a value."""
    return constant(number, value.type)


def logical_or(a: Value, b: Value) -> Value:
    """Return whether one of two conditions holds."""
    return op("Or", a, b)


def where(condition: Value, then: Operand, other: Operand) -> Value:
    """Select elements. One of the branches may be a number."""
    if not isinstance(then, Value):
        then = constant(then, other.type if isinstance(other, Value) else None)
    if then.type.kind in ("boolean",):
        return cast(op("Where", condition, cast(then, "u8"), cast(constant(other, then.type), "u8")), then.type)
    return op("Where", condition, then, constant(other, then.type))


def _with_shape(value: Value, shape: Sequence[int | None] | None) -> Value:
    if shape is not None and value.shape is None and not value.is_constant:
        value.shape = PartialShape([-1 if d is None or d < 0 else d for d in shape])
    return value


def reshape(value: Value, shape: Sequence[int] | Value) -> Value:
    """Change the shape of a value; 0 keeps a dimension, and -1 is inferred from the remaining elements."""
    if isinstance(shape, Value):
        return op("Reshape", value, cast(shape, "i64"))
    if value.is_constant and not any(d <= 0 for d in shape):
        array = value.read()
        assert array is not None
        if array.size <= 4096:
            return constant(array.reshape(shape), value.type)
    known: list[int | None] = [None if d <= 0 else d for d in shape]
    for i, d in enumerate(shape):
        if d == 0 and value.shape is not None and i < len(value.shape):
            known[i] = _static(value.shape[i])
    return _with_shape(op("Reshape", value, constant(np.array(shape, np.int64))), known)


def transpose(value: Value, order: Sequence[int]) -> Value:
    """Permute the axes of a value."""
    if list(order) == sorted(order):
        return value
    result = op("Transpose", value, perm=[int(i) for i in order])
    return _with_shape(
        result, None if value.shape is None else [d if isinstance(d, int) else None for d in _pick(value.shape, order)]
    )


def _pick(shape: PartialShape, order: Sequence[int]) -> list[Any]:
    return [shape[i] for i in order]


def unsqueeze(value: Value, axes: Sequence[int]) -> Value:
    """Insert axes of length 1."""
    result = op("Unsqueeze", value, constant(np.array(axes, np.int64)))
    if value.shape is not None:
        rank = len(value.shape) + len(axes)
        inserted, rest = {a % rank for a in axes}, iter(value.shape)
        _with_shape(result, [1 if i in inserted else _static(next(rest)) for i in range(rank)])
    return result


def _static(dimension: Any) -> int | None:
    return int(dimension) if isinstance(dimension, int) else None


def squeeze(value: Value, axes: Sequence[int]) -> Value:
    """Remove axes of length 1."""
    result = op("Squeeze", value, constant(np.array(axes, np.int64)))
    if value.shape is not None:
        removed = {a % len(value.shape) for a in axes}
        _with_shape(result, [_static(d) for i, d in enumerate(value.shape) if i not in removed])
    return result


def concat(values: Sequence[Value], axis: int = 0) -> Value:
    """Join values along an axis."""
    return values[0] if len(values) == 1 else op("Concat", *values, axis=axis)


def gather(value: Value, indices: Operand, axis: int = 0) -> Value:
    """Take slices along an axis."""
    return op("Gather", value, constant(indices), axis=axis)


def slice_axis(value: Value, start: Operand, stop: Operand, axis: int = 0, step: int = 1) -> Value:
    """Take the elements of an axis from `start` to before `stop`."""
    bounds = [
        reshape(cast(b, "i64"), [1]) if isinstance(b, Value) else constant(np.array([b], np.int64))
        for b in (start, stop)
    ]
    return op("Slice", value, *bounds, constant([axis]), constant([step]))


def shape_of(value: Value) -> Value:
    """Return the shape of a value, i64."""
    if value.shape is not None and value.shape.is_static:
        return constant(np.array([int(d) for d in value.shape if isinstance(d, int)], np.int64))
    return op("Shape", value, result="i64")


def get_dimension(value: Value, axis: int) -> Value:
    """Return a dimension of a value as i64 of shape [1]."""
    known = None if value.shape is None else _static(value.shape[axis])
    if known is not None:
        return constant(np.array([known], np.int64))
    rank = value.rank
    start = axis if axis >= 0 or rank is None else axis + rank
    return op("Shape", value, result="i64", start=start, end=start + 1 or None)


def expand(value: Value, shape: Value | Sequence[int]) -> Value:
    """Broadcast a value to a shape, or both to a common one."""
    return op("Expand", value, cast(constant(shape if isinstance(shape, Value) else np.array(shape, np.int64)), "i64"))


def to_axes(site: Site, position: int, rank: int) -> list[int]:
    """Return the axes in a constant input as non-negative numbers."""
    axes = [axis + rank if axis < 0 else axis for axis in site.read_integers(position)]
    if any(not 0 <= axis < rank for axis in axes):
        raise UnsupportedError(f"axes {axes} are out of range for rank {rank}")
    return axes


def align(site: Site) -> tuple[Value, Value]:
    """Return both inputs of a binary operation, ready for NumPy's broadcasting."""
    a, b = site[0], site[1]
    if a.type is not b.type:
        b = cast(b, a.type)
    if site.attributes.get("auto_broadcast") != "pdpd":
        return a, b
    ranks, shape = (site.get_rank(0), site.get_rank(1)), site.get_shape(1)
    axis = site.auto_broadcast_axis
    if axis < 0:
        axis += ranks[0] - ranks[1] + 1
    while shape and shape[-1] == 1 and axis + len(shape) > ranks[0]:
        shape.pop()
    missing = ranks[0] - axis - len(shape)
    if missing or len(shape) != ranks[1]:
        b = reshape(b, [*([0] * len(shape)), *[1] * missing])
    return a, b


def as_type(value: Value, element_type: ElementType | None) -> Value:
    """Convert a value to a type if one is given."""
    return value if element_type is None else cast(value, element_type)


def loop(
    count: Value,
    states: Sequence[Value],
    body: Callable[[Value, list[Value]], tuple[list[Value], list[Value]]],
    collected: int,
    *,
    while_true: Callable[[list[Value]], Value] | None = None,
) -> tuple[list[Value], list[Value]]:
    """Add a Loop.

    Args:
        count: The maximum number of iterations.
        states: The initial states.
        body: Takes the iteration number, i64 of shape [1], and the states; returns the new states, and values
            that are stacked for all iterations.
        collected: The number of such values.
        while_true: Takes the new states, and returns whether the next iteration runs.

    Returns:
        The last states and the stacked values.
    """
    outer = get_graph()
    graph = Graph(outer.opset, f"{outer.scope}/loop", scope=outer.scope, parent=outer)
    number = graph.add_input(constant(0).type, PartialShape([]), f"{outer.scope}/iteration")
    going = graph.add_input(constant(True).type, PartialShape([]), f"{outer.scope}/condition")
    inner = [graph.add_input(s.type, None, f"{outer.scope}/state{i}") for i, s in enumerate(states)]
    for value, state in zip(inner, states, strict=True):
        value.shape = None if state.rank is None else PartialShape([-1] * state.rank)
    with graph.activate():
        new, stacked = body(reshape(number, [1]), inner)
        graph.add_output(op("Identity", going) if while_true is None else reshape(while_true(new), []))
        for value in (*new, *stacked):
            graph.add_output(value)
    types = [value.type for value in (*new, *stacked)]
    limit = cast(count if count.rank == 0 else reshape(count, []), "i64")
    outputs = outer.add("Loop", [limit, constant(True), *states], types, {"body": graph})
    if len(outputs) != len(states) + collected:
        raise AssertionError("the body returns a different number of values")
    return outputs[: len(states)], outputs[len(states) :]


def flatten(value: Value) -> Value:
    """Return a value as i64 of rank 1."""
    value = cast(value, "i64")
    return value if value.rank == 1 else reshape(value, [-1])


def reshape_to(value: Value, dimensions: Sequence[int | Value]) -> Value:
    """Reshape a value to dimensions, which may include values of shape [1]."""
    if all(isinstance(d, int) for d in dimensions):
        return reshape(value, [d for d in dimensions if isinstance(d, int)])
    parts = [d if isinstance(d, Value) else constant([d]) for d in dimensions]
    return op("Reshape", value, concat(parts))


def get_dimensions(site: Site, position: int) -> list[int | Value]:
    """Return the dimensions of an input; dynamic ones are values of shape [1]."""
    value = site[position]
    return [get_dimension(value, i) if d is None else d for i, d in enumerate(site.get_shape(position))]


def multiply(*dimensions: int | Value) -> int | Value:
    """Return the product of dimensions."""
    number, values = 1, []
    for d in dimensions:
        if isinstance(d, Value):
            values.append(d)
        else:
            number *= d
    result: int | Value = number
    for value in values:
        result = value if isinstance(result, int) and result == 1 else value * result
    return result


def divide(dimension: int | Value, divisor: int | Value) -> int | Value:
    """Return a dimension divided by a number."""
    if isinstance(dimension, int) and isinstance(divisor, int):
        return dimension // divisor
    return constant([dimension] if isinstance(dimension, int) else dimension) / (
        divisor if isinstance(divisor, Value) else constant([divisor])
    )


def list_entries(site: Site, position: int, count: int) -> list[int | Value]:
    """Return the entries of a 1D input, as values of shape [1] if it is not constant."""
    if site[position].read() is not None:
        return list(site.read_integers(position))
    values = flatten(site[position])
    return [slice_axis(values, i, i + 1) for i in range(count)]
