"""Shapes of the results of signal processing, embeddings, variables and strings."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.ops.shape_rules.axes import divide, get_dimension, normalize_axes
from irrun.ops.shape_rules.dimensions import (
    Dimension,
    add,
    count_elements,
    divide_down,
    get_bounds,
    make_dimension,
    multiply,
    shift,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_fourier_transform(inputs: Inputs) -> Shapes:
    """Return the data with the signal sizes along the axes."""
    data = inputs.require_shape(0)
    _check_complex(data)
    result, _ = _resize_signal(inputs, data, len(data) - 1)
    return [PartialShape(result)]


@rule
def infer_real_transform(inputs: Inputs) -> Shapes:
    """Return the data with the signal sizes along the axes, half of it along the last one, and complex numbers."""
    data = inputs.require_shape(0)
    result, axes = _resize_signal(inputs, data, len(data))
    if axes:
        low, high = get_bounds(result[axes[-1]])
        result[axes[-1]] = make_dimension(_halve(low), None if high is None else _halve(high))
    return [PartialShape([*result, 2])]


def _halve(size: int) -> int:
    """Return the number of complex numbers in the result for `size` real ones."""
    return size // 2 + 1 if size else 0


@rule
def infer_inverse_real_transform(inputs: Inputs) -> Shapes:
    """Return real data with the signal sizes along the axes, by default twice as much along the last one."""
    data, sizes = inputs.require_shape(0), inputs.get_dimensions(2)
    _check_complex(data)
    result, axes = _resize_signal(inputs, data, len(data) - 1)
    if axes and (not inputs.has(2) or (sizes is not None and _is_minus_one(inputs, len(axes) - 1))):
        result[axes[-1]] = multiply(shift(data[axes[-1]], -1), 2)
    return [PartialShape(result[:-1])]


def _check_complex(data: PartialShape) -> None:
    if isinstance(data[-1], int) and data[-1] != 2:
        raise ShapeError(f"data has the shape {data}, expected 2 numbers in the last dimension")


def _resize_signal(inputs: Inputs, data: PartialShape, rank: int) -> tuple[list[Dimension], Sequence[int] | None]:
    """Return the dimensions of the data with the signal sizes, and the axes of the transform if they are known."""
    axes, sizes = inputs.get_integers(1), inputs.get_dimensions(2)
    result: list[Dimension] = list(data)
    if axes is None:
        return [*[UNBOUNDED] * rank, *result[rank:]], None
    normalized = normalize_axes(axes, rank)
    for i, axis in enumerate(normalized):
        if sizes is not None:
            if i < len(sizes) and not _is_minus_one(inputs, i):
                result[axis] = sizes[i]
        elif inputs.has(2):
            result[axis] = UNBOUNDED
    return result, normalized


def _is_minus_one(inputs: Inputs, position: int) -> bool:
    intervals = inputs.get_intervals(2)
    return intervals is not None and intervals[position] == (-1, -1)


@rule
def infer_short_time_transform(inputs: Inputs) -> Shapes:
    """Return [batch..., bins, frames, 2], or with frames before bins."""
    signal, frame, step = inputs.require_shape(0), inputs.get_dimensions(2), inputs.get_integer(3)
    bins: Dimension = UNBOUNDED
    frames: Dimension = UNBOUNDED
    if frame is not None:
        bins = shift(divide_down(frame[0], 2), 1)
        if isinstance(frame[0], int) and step is not None and step > 0:
            if isinstance(signal[-1], int) and frame[0] > signal[-1]:
                raise ShapeError(f"frame_size {frame[0]} exceeds the length of signal, which has the shape {signal}")
            frames = shift(divide_down(shift(signal[-1], -int(frame[0])), step), 1)
    order = (bins, frames) if inputs["transpose_frames"] else (frames, bins)
    return [PartialShape([*signal[:-1], *order, 2])]


@rule
def infer_inverse_short_time_transform(inputs: Inputs) -> Shapes:
    """Return [batch..., length]."""
    data, frame, step = inputs.require_shape(0), inputs.get_dimensions(2), inputs.get_dimensions(3)
    length: Dimension = UNBOUNDED
    if inputs.has(4):
        lengths = inputs.get_dimensions(4)
        length = UNBOUNDED if lengths is None else lengths[0]
    elif frame is not None and step is not None:
        total = multiply(shift(data[-2], -1), step[0])
        length = total if inputs["center"] else add(total, frame[0])
        if inputs["center"] and isinstance(frame[0], int) and frame[0] % 2:
            length = shift(length, 1)
    return [PartialShape([*data[:-3], length])]


@rule
def infer_embedding_bag(inputs: Inputs) -> Shapes:
    """Return [bags, size...], a bag for each offset."""
    return _infer_bags(inputs, 2)


@rule
def infer_packed_embedding_bag(inputs: Inputs) -> Shapes:
    """Return [bags, size...], a bag for each row of indices."""
    return _infer_bags(inputs, 1)


def _infer_bags(inputs: Inputs, position: int) -> Shapes:
    table = inputs.get_shape(0)
    count = get_dimension(inputs.get_shape(position), 0) or UNBOUNDED
    return [None if table is None else PartialShape([count, *table[1:]])]


@rule
def infer_embedding_segments(inputs: Inputs) -> Shapes:
    """Return [segments, size...]."""
    table, count = inputs.require_shape(0), inputs.get_dimensions(3)
    return [PartialShape([UNBOUNDED if count is None else count[0], *table[1:]])]


@rule
def infer_filled_rows(inputs: Inputs) -> Shapes:
    """Return [elements, 2], [elements] and [rows], with a number of elements that depends on the values."""
    is_new = inputs.operation.since >= 16
    dense = inputs.get_dimensions(1 if is_new else 2)
    rows = UNBOUNDED if dense is None else dense[0]
    return [PartialShape([UNBOUNDED, 2]), PartialShape([UNBOUNDED]), PartialShape([rows])][: inputs.output_count]


@rule
def infer_variable(inputs: Inputs) -> Shapes:
    """Return the declared shape of a variable if it is dynamic, or the shape of its initial value."""
    declared, initial = inputs.attributes.get("variable_shape"), inputs.get_shape(0)
    if declared is not None and (not inputs.has(0) or not declared.is_static):
        return [declared]
    return [initial]


@rule
def infer_unpacked_strings(inputs: Inputs) -> Shapes:
    """Return the shape of the strings twice, and [bytes]."""
    shape = inputs.get_shape(0)
    return [shape, shape, PartialShape([UNBOUNDED])]


@rule
def infer_column_images(inputs: Inputs) -> Shapes:
    """Return [N, C, rows, columns], N only if the data have it."""
    data, size, kernel = inputs.require_shape(0), inputs.get_dimensions(1), inputs.get_dimensions(2)
    channels: Dimension = UNBOUNDED
    elements = UNBOUNDED if kernel is None else count_elements(kernel)
    if isinstance(elements, int) and elements > 0:
        message = f"data has the shape {data}, expected a multiple of {elements} in dimension {len(data) - 2}"
        channels = divide(data[-2], int(elements), message)
    sizes = [UNBOUNDED, UNBOUNDED] if size is None else size
    batch = data[:1] if len(data) == 3 else ()
    return [PartialShape([*batch, channels, *sizes])]
