"""Shape rules of elementwise operations, and of operations that keep the shape of an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from irrun.ops.shape_rules.axes import check_axis, get_dimension, match_sizes
from irrun.ops.shape_rules.dimensions import ONE, Dimension, broadcast, broadcast_shapes, may_equal, merge_shapes
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import PartialShape

__all__ = ["broadcast_operands", "keep_shape"]


@rule
def keep_shape(inputs: Inputs) -> Shapes:
    """Return the shape of the first input."""
    return [inputs.get_shape(0)]


@rule
def infer_batch_normalization(inputs: Inputs) -> Shapes:
    """Return the shape of the data; the other inputs have one value per channel."""
    position = 2 if inputs.operation.since == 1 else 0
    return [_check_channels(inputs, position, [i for i in range(5) if i != position])]


@rule
def infer_group_normalization(inputs: Inputs) -> Shapes:
    """Return the shape of the data; the other inputs have one value per channel."""
    data, groups = _check_channels(inputs, 0, [1, 2]), inputs["num_groups"]
    channels = get_dimension(data, 1)
    if isinstance(channels, int) and groups > 0 and channels % groups:
        raise ShapeError(f"data has the shape {data} with {channels} channels, expected a multiple of {groups}")
    return [data]


def _check_channels(inputs: Inputs, position: int, others: Sequence[int]) -> PartialShape | None:
    """Return the shape of the data of a normalization after checking the inputs with one element per channel."""
    data = inputs.get_shape(position)
    channels = get_dimension(data, 1)
    for other in others:
        size = get_dimension(inputs.get_shape(other), 0)
        if channels is not None and size is not None:
            match_sizes(size, channels, f"data has {channels} channels, {inputs.get_name(other)} has {size} elements")
    return data


@rule
def infer_inverse(inputs: Inputs) -> Shapes:
    """Return the shape of the square matrices."""
    data = inputs.get_shape(0)
    if data is not None and (len(data) < 2 or not may_equal(data[-1], data[-2])):
        raise ShapeError(f"data has the shape {data}, expected square matrices")
    return [data]


@rule
def infer_shuffled_channels(inputs: Inputs) -> Shapes:
    """Return the shape of the data, with channels divided into groups."""
    shape = inputs.get_shape(0)
    if shape:
        size = shape[check_axis(inputs["axis"], len(shape))]
        if isinstance(size, int) and size % inputs["group"]:
            raise ShapeError(
                f"data has the shape {shape} with {size} channels, expected a multiple of {inputs['group']}"
            )
    return [shape]


@rule
def infer_along_axes(inputs: Inputs) -> Shapes:
    """Return the shape of the first input; the second one contains axes."""
    shape, axes = inputs.get_shape(0), inputs.get_integers(1)
    if shape is not None and axes is not None and inputs.attributes.get("mode") != "mask":
        for axis in axes:
            check_axis(axis, len(shape))
    return [shape]


@rule
def infer_along_axis(inputs: Inputs) -> Shapes:
    """Return the shape of the only input, with an axis attribute."""
    shape = inputs.get_shape(0)
    if shape:
        check_axis(inputs["axis"], len(shape))
    return [shape]


@rule
def broadcast_operands(inputs: Inputs) -> Shapes:
    """Return the broadcast shape of all inputs."""
    shapes = inputs.get_shapes()
    if len(shapes) == 1:
        return shapes
    mode, axis = inputs.attributes.get("auto_broadcast", "numpy"), inputs.attributes.get("auto_broadcast_axis", 0)
    result = shapes[0]
    for position, shape in enumerate(shapes[1:], 1):
        try:
            if mode == "numpy":
                result = broadcast_shapes(result, shape)
            elif mode == "pdpd":
                result = _broadcast_at(result, shape, axis)
            else:
                result = merge_shapes(result, shape)
        except ValueError:
            names = ", ".join(inputs.get_name(i) for i in range(position))
            raise ShapeError(
                f"{inputs.get_name(position)} has the shape {shape}, which does not fit the shape {result} of {names}; "
                f"{_EXPECTATIONS[mode if mode in _EXPECTATIONS else 'none']}"
            ) from None
    return [result]


_EXPECTATIONS = {
    "numpy": "expected equal dimensions or 1, counted from the last one",
    "pdpd": "expected consecutive dimensions of the first input, or 1",
    "none": "expected equal shapes",
}


def _broadcast_at(first: PartialShape | None, second: PartialShape | None, axis: int) -> PartialShape | None:
    """Return the shape of an array that another one broadcasts to at an axis; -1 aligns the last dimensions.

    Raises:
        ValueError: It cannot be broadcast.
    """
    if first is None or second is None:
        return None
    start = len(first) - len(second) if axis == -1 else axis
    dimensions: list[Dimension] = list(first)
    for position, length in enumerate(second, start):
        if position >= len(first) and length == 1:
            continue  # trailing dimensions of 1 are ignored
        if not 0 <= position < len(first):
            raise ValueError("out of range")
        merged = broadcast(dimensions[position], length)
        if merged is None or (
            isinstance(length, int) and isinstance(dimensions[position], int) and merged != first[position]
        ):
            raise ValueError("dimensions differ")
        dimensions[position] = merged
    return PartialShape(dimensions)


@rule
def infer_quantization(inputs: Inputs) -> Shapes:
    """Return the shape of the data; the limits broadcast to it."""
    broadcast_operands(inputs)
    return [inputs.get_shape(0)]


@rule
def infer_prelu(inputs: Inputs) -> Shapes:
    """Return the shape of the data; the slope broadcasts to its channels or dimensions."""
    data, slope = inputs.get_shape(0), inputs.get_shape(1)
    if data and slope is not None and not (len(slope) == 1 and may_equal(slope[0], data[min(1, len(data) - 1)])):
        try:
            combined = broadcast_shapes(data, slope)
        except ValueError:
            combined = None
        extended = PartialShape([*[ONE] * (len(combined or ()) - len(data)), *data])
        if combined is None or not all(map(may_equal, combined, extended)):
            raise ShapeError(f"slope has the shape {slope}, which cannot be broadcast to data of the shape {data}")
    return [data]


@rule
def infer_clamp(inputs: Inputs) -> Shapes:
    """Return the shape of the data."""
    if inputs["min"] > inputs["max"]:
        raise ShapeError(f"min {inputs['min']} is greater than max {inputs['max']}")
    return [inputs.get_shape(0)]


@rule
def infer_selection(inputs: Inputs) -> Shapes:
    """Return the broadcast shape of the branches and the condition."""
    condition, then, otherwise = inputs.get_shapes()
    mode, axis = inputs["auto_broadcast"], inputs["auto_broadcast_axis"]
    if mode == "pdpd":
        return [_fit(inputs, then, [otherwise, condition], lambda a, b: _broadcast_at(a, b, axis))]
    if mode == "numpy":
        return [_fit(inputs, then, [otherwise, condition], broadcast_shapes)]
    return [_fit(inputs, then, [otherwise, condition], merge_shapes)]


def _fit(
    inputs: Inputs,
    shape: PartialShape | None,
    others: Sequence[PartialShape | None],
    combine: Callable[[PartialShape | None, PartialShape | None], PartialShape | None],
) -> PartialShape | None:
    for other in others:
        try:
            shape = combine(shape, other)
        except ValueError:
            condition, then, otherwise = inputs.get_shapes()
            raise ShapeError(
                f"the shapes of cond {condition}, then {then} and else {otherwise} cannot be broadcast"
            ) from None
    return shape
