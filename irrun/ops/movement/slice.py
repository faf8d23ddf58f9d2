"""Operations that extract ranges: Slice, StridedSlice."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from irrun.errors import InputError
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.ops._support.slicing import create_slice, create_slices

__all__ = ["slice_8", "strided_slice_1"]


@op(
    "Slice",
    since=8,
    kind="view",
    shape="infer_slice",
    views="strided",
    shaped_by=(1, 2, 3, 4),
    folding="linear",
    flops=0,
)
def slice_8(data: Array, start: Array, stop: Array, step: Array, axes: Array | None = None) -> Array:
    """Extract the slice `start:stop:step` of `data`.

    The rules are Python's, with one exception: a backward slice whose start is before the first element starts at
    the first element, as in the reference implementation. In Python it is empty.

    Args:
        data: Any type, rank >= 1.
        start: Integer, shape [n], the first index on each axis.
        stop: Integer, shape [n], the index after the last one on each axis.
        step: Integer, shape [n], not 0.
        axes: Integer, shape [n], the axes to slice. The first n axes if omitted.

    Returns:
        The slice, the type of `data`.

    Raises:
        InputError: The inputs differ in length, a step is 0, or an axis is out of range or repeated.

    Spec:
        Slice-8
    """
    return data[create_slices(data.shape, start, stop, step, axes)]


@op(
    "StridedSlice",
    since=1,
    kind="view",
    shape="infer_strided_slice",
    views="strided",
    shaped_by=(1, 2, 3),
    folding="linear",
    flops=0,
)
def strided_slice_1(
    data: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    *,
    begin_mask: list[int] = [],
    end_mask: list[int] = [],
    new_axis_mask: list[int] = [],
    shrink_axis_mask: list[int] = [],
    ellipsis_mask: list[int] = [],
) -> Array:
    """Extract the slices `begin:end:stride` of `data`, modified by masks.

    A mask may have any length; missing entries are 0. The specification requires `begin_mask` and `end_mask`, but its
    examples omit them.

    Where the specification deviates from Python, the reference implementation follows Python: a slice with equal bounds
    is empty, and `end_mask` extends a backward slice up to and including the first element. The exception is a backward
    slice whose start is before the first element: it starts at the first element, whereas in Python it is empty.

    Args:
        data: Any type, any shape.
        begin: Integer, shape [n], the first index of each slice.
        end: Integer, shape [n], the index after the last one of each slice.
        stride: Integer, shape [n], not 0. All 1 if omitted.
        begin_mask: 1 for slices whose begin is ignored, so that they start at the first element.
        end_mask: 1 for slices whose end is ignored, so that they include the last element.
        new_axis_mask: 1 for entries that insert an axis of size 1.
        shrink_axis_mask: 1 for entries that take the element at begin and remove the axis.
        ellipsis_mask: 1 for at most one entry, which represents all axes that no other entry slices.

    Returns:
        The selected elements, the type of `data`, without the axes of `shrink_axis_mask` and with the axes of
        `new_axis_mask`.

    Raises:
        InputError: The inputs differ in length, there are more entries than axes or several ellipses, a stride is 0, or
            an index of `shrink_axis_mask` is out of range.

    Spec:
        StridedSlice-1
    """
    begins, ends = to_int_list(begin), to_int_list(end)
    strides = [1] * len(begins) if stride is None else to_int_list(stride)
    if not len(begins) == len(ends) == len(strides):
        raise InputError(
            f"begin, end and stride have {len(begins)}, {len(ends)} and {len(strides)} elements,"
            " expected the same number"
        )
    if 0 in strides:
        raise InputError(f"stride is {strides}, expected nonzero values")
    count = len(begins)
    is_ellipsis, is_new_axis = _expand_mask(ellipsis_mask, count), _expand_mask(new_axis_mask, count)
    if sum(is_ellipsis) > 1:
        raise InputError(f"ellipsis_mask is {ellipsis_mask}, expected at most one 1")
    sliced_rank = sum(not (e or n) for e, n in zip(is_ellipsis, is_new_axis, strict=True))
    if sliced_rank > data.ndim:
        raise InputError(f"begin slices {sliced_rank} axes of data, which has shape {list(data.shape)}")

    is_open_begin, is_open_end = _expand_mask(begin_mask, count), _expand_mask(end_mask, count)
    is_shrunk = _expand_mask(shrink_axis_mask, count)
    index: list[slice | int | None] = []
    axis = 0
    for i in range(count):
        if is_ellipsis[i]:
            index += [slice(None)] * (data.ndim - sliced_rank)
            axis += data.ndim - sliced_rank
        elif is_new_axis[i]:
            index.append(None)
        else:
            size = data.shape[axis]
            if is_shrunk[i]:
                index.append(_check_begin(begins[i], size, axis))
            else:
                first = None if is_open_begin[i] else begins[i]
                last = None if is_open_end[i] else ends[i]
                index.append(create_slice(first, last, strides[i], size))
            axis += 1
    return data[tuple(index)]


def _expand_mask(mask: Sequence[int], count: int) -> list[bool]:
    """Return the first `count` bits of a mask. Missing ones are false."""
    padded = itertools.chain(mask, itertools.repeat(0))
    return [bit == 1 for bit in itertools.islice(padded, count)]


def _check_begin(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise InputError(f"begin {index} is out of range for axis {axis} of size {size}")
    return index
