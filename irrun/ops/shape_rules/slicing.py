"""Shapes of slices and padded data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ops.shape_rules.axes import check_scalar, match_sizes, normalize_axes
from irrun.ops.shape_rules.dimensions import (
    ONE,
    Dimension,
    get_bounds,
    make_dimension,
    make_static,
    make_unknown,
    multiply,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError, to_dimension
from irrun.shapes import PartialShape

__all__: list[str] = []

#: Lower and upper bound of the start or stop of a slice.
Interval = tuple[float, float]


def count_slice(size: Dimension, start: Interval, stop: Interval, step: int) -> Dimension:
    """Return the number of elements of a slice.

    Args:
        size: The size of the data along the axis.
        start: Bounds of the first index; negative ones count from the end.
        stop: Bounds of the index behind the last one.
        step: The distance between elements.
    """
    low, high = get_bounds(size)
    largest = math.inf if high is None else high
    start, stop = _cross_zero(start, low), _cross_zero(stop, low)
    first, last = (start, stop) if step > 0 else (stop, start)
    ends = [(first[1], last[0]), (first[0], last[1])]  # of the shortest and of the longest slice
    if step < 0:
        ends = [(b, a) for a, b in ends]
    least = min(_count(n, *ends[0], step) for n in _list_sizes(low, largest, *ends[0]))
    most = max(_count(n, *ends[1], step) for n in _list_sizes(low, largest, *ends[1]))
    return make_dimension(int(least) if math.isfinite(least) else 0, int(most) if math.isfinite(most) else None)


def _cross_zero(interval: Interval, size: int) -> Interval:
    """Convert indices of both signs, which are any positions of data of at least `size` elements."""
    low, high = interval
    if not low < 0 <= high:
        return interval
    return 0.0 if low + size >= 0 else -math.inf, -1.0 if high < size else math.inf


def _list_sizes(low: float, high: float, start: float, stop: float) -> list[float]:
    """Return sizes of data from `low` to `high`, among them those with the shortest and the longest slice."""
    turns = [abs(n) + offset for n in (start, stop) if math.isfinite(n) for offset in (-1, 0, 1)]
    return [low, high, *(min(max(low, size), high) for size in turns)]


def _count(size: float, start: float, stop: float, step: int) -> float:
    """Return the number of elements of a slice of data of some size, which may be infinite.

    As in `create_slice`, a backward slice that starts before the data starts at its first element.
    """
    start = 0 if start == -math.inf else max(start, -size)
    (from_end, first), (to_end, last) = _find_side(start, step), _find_side(stop, step)
    if math.isfinite(size):
        lowest, highest = (0, size) if step > 0 else (-1, size - 1)
        first, last = (
            min(max(n + size if is_end else n, lowest), highest) for is_end, n in ((from_end, first), (to_end, last))
        )
    elif from_end != to_end:
        return math.inf if to_end == (step > 0) else 0
    return max(0, math.ceil((last - first) / step))


def _find_side(index: float, step: int) -> tuple[bool, float]:
    """Return whether an index of a slice counts from the end of the data, and the index, which is finite."""
    if math.isinf(index):
        return index > 0, 0 if step > 0 else -1
    return index < 0, index


@rule
def infer_slice(inputs: Inputs) -> Shapes:
    """Return a slice along some axes."""
    data = inputs.require_shape(0)
    start, stop, step = inputs.get_intervals(1), inputs.get_intervals(2), inputs.get_integers(3)
    counts = {len(x) for x in (start, stop, step) if x is not None}
    counts |= {n for i in (1, 2, 3) if inputs.has(i) and (n := inputs.count(i)) is not None}
    if counts and max(counts) > len(data):
        raise ShapeError(f"data of the shape {data} cannot be sliced along {max(counts)} axes")
    if inputs.has(4):
        axes = inputs.get_integers(4)
        if axes is None:
            return [PartialShape(map(_limit, data))]
        counts.add(len(axes))
    else:
        count = next(iter(counts), None)
        if count is None:
            return [make_unknown(len(data))]
        axes = list(range(count))
    if len(counts) > 1:
        raise ShapeError(f"start, stop, step and axes have {sorted(counts)} elements, expected equal numbers")
    result: list[Dimension] = list(data)
    for i, axis in enumerate(normalize_axes(axes, len(data))):
        if step is not None and step[i] == 0:
            raise ShapeError("a step is 0")
        if step is None or start is None or stop is None:
            result[axis] = _limit(data[axis])
        else:
            result[axis] = count_slice(data[axis], start[i], stop[i], step[i])
    return [PartialShape(result)]


def _limit(size: Dimension) -> Dimension:
    """Return any size up to the size of the data."""
    return make_dimension(0, get_bounds(size)[1])


@rule
def infer_strided_slice(inputs: Inputs) -> Shapes:
    """Return a slice along the first axes, according to the masks."""
    data, stride = inputs.require_shape(0), inputs.get_integers(3)
    begin, end = inputs.get_intervals(1), inputs.get_intervals(2)
    masks = {name: list(inputs[f"{name}_mask"]) for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}
    count = next((len(x) for x in (begin, end, stride) if x is not None), None)
    if count is None:
        count = next((n for i in (1, 2) if (n := inputs.count(i)) is not None), None)
    if count is None:
        return [None]
    if inputs.has(3) and stride is None:
        begin = None
    stride = [1] * count if stride is None else stride
    for name, mask in masks.items():
        masks[name] = mask + [0] * (count - len(mask))
    return [_slice_axes(data, begin, end, stride, masks, count)]


def _slice_axes(
    data: PartialShape,
    begin: Sequence[Interval] | None,
    end: Sequence[Interval] | None,
    stride: Sequence[int],
    masks: dict[str, list[int]],
    count: int,
) -> PartialShape:
    consumed = count - sum(masks["new_axis"][:count]) - sum(masks["ellipsis"][:count])
    result: list[Dimension] = []
    axis = 0
    for i in range(count):
        if masks["ellipsis"][i]:
            skipped = len(data) - consumed
            result.extend(data[axis : axis + max(skipped, 0)])
            axis += max(skipped, 0)
            continue
        if masks["new_axis"][i]:
            result.append(ONE)
            continue
        if axis >= len(data):
            raise ShapeError(f"data of the shape {data} cannot be sliced along {consumed} axes")
        size = data[axis]
        axis += 1
        if masks["shrink_axis"][i]:
            continue
        step = stride[i]
        if step == 0:
            raise ShapeError("a stride is 0")
        start = (0.0, 0.0) if step > 0 else (math.inf, math.inf)
        stop = (math.inf, math.inf) if step > 0 else (-math.inf, -math.inf)
        if not masks["begin"][i]:
            if begin is None:
                result.append(_limit(size))
                continue
            start = begin[i]
        if not masks["end"][i]:
            if end is None:
                result.append(_limit(size))
                continue
            stop = end[i]
        result.append(count_slice(size, start, stop, step))
    result.extend(data[axis:])
    return PartialShape(result)


@rule
def infer_pad(inputs: Inputs) -> Shapes:
    """Return the shape of padded data."""
    check_scalar(inputs, 3)
    data = inputs.require_shape(0)
    begin, end = inputs.get_intervals(1), inputs.get_intervals(2)
    for position in (1, 2):
        length = inputs.get_length(position)
        message = f"{inputs.get_name(position)} has {length} elements, data {data} expects {len(data)}"
        match_sizes(length, make_static(len(data)), message)
    if begin is None or end is None:
        return [make_unknown(len(data))]
    result = []
    for size, (low, high), (end_low, end_high) in zip(data, begin, end, strict=True):
        smallest, largest = get_bounds(size)
        total = math.inf if largest is None else largest
        total += high + end_high
        result.append(make_dimension(int(smallest + low + end_low), None if math.isinf(total) else max(int(total), 0)))
    return [PartialShape(result)]


@rule
def infer_tile(inputs: Inputs) -> Shapes:
    """Return the shape of repeated data."""
    data, repeats = inputs.get_shape(0), inputs.get_intervals(1)
    if data is None or repeats is None:
        count = inputs.count(1)
        return [None if data is None or count is None else make_unknown(max(len(data), count))]
    rank = max(len(data), len(repeats))
    sizes = [*[ONE] * (rank - len(data)), *data]
    factors = [ONE] * (rank - len(repeats)) + [to_dimension(low, max(high, 0)) for low, high in repeats]
    return [PartialShape(multiply(size, factor) for size, factor in zip(sizes, factors, strict=True))]
