"""Cutting out ranges: Slice, StridedSlice."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["slice_8", "strided_slice_1"]


@op("Slice", since=8, folding="linear")
def slice_8(data: Array, start: Array, stop: Array, step: Array, axes: Array | None = None) -> Array:
    """`data[start:stop:step]` on the given axes.

    data: any type, rank >= 1; start, stop, step: integer [n]; axes: integer [n], 0 to n-1 when left out.
    Returns the type of data, a view.
    Raises InputError where the lists differ in length, a step is 0, or axes are out of range or repeated.
    The rules are Python's, except that a backward slice that begins before the first element begins at the
    first, as in the reference implementation (Python's is empty).
    Spec: Slice-8.
    """
    return data[slices(data.shape, start, stop, step, axes)]


def slices(shape: Sequence[int], start: Array, stop: Array, step: Array, axes: Array | None) -> tuple[slice, ...]:
    """One slice per axis of a tensor of `shape`, from the inputs of Slice and SliceScatter.

    Raises:
        InputError: the lists differ in length, a step is 0, or axes are out of range or repeated.
    """
    starts, stops, steps = to_int_list(start), to_int_list(stop), to_int_list(step)
    chosen = list(range(len(starts))) if axes is None else to_int_list(axes)
    if not len(starts) == len(stops) == len(steps) == len(chosen):
        raise InputError(
            f"start, stop, step and axes have {len(starts)}, {len(stops)}, {len(steps)} and {len(chosen)}"
            " elements, expected the same number"
        )
    if 0 in steps:
        raise InputError(f"step {steps} holds 0")
    found = [slice(None)] * len(shape)
    axis_order = normalize_axes(chosen, len(shape))
    for axis, first, last, stride in zip(axis_order, starts, stops, steps, strict=True):
        found[axis] = python_slice(first, last, stride, shape[axis])
    return tuple(found)


@op("StridedSlice", since=1, folding="linear")
def strided_slice_1(
    data: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    *,
    begin_mask: list[int] = [],  # noqa: B006 (never changed)
    end_mask: list[int] = [],  # noqa: B006
    new_axis_mask: list[int] = [],  # noqa: B006
    shrink_axis_mask: list[int] = [],  # noqa: B006
    ellipsis_mask: list[int] = [],  # noqa: B006
) -> Array:
    """`data[begin:end:stride, ...]`; masks turn an entry into an open bound, a new axis, one index or `...`.

    data: any type and shape; begin, end: integer [n]; stride: integer [n], all 1 when left out. A mask may
    have any length; what it lacks is 0. (The specification wants the first two; its own examples leave them out.)
    Returns the type of data, a view.
    Raises InputError where the lists differ in length, there are more entries than axes, a stride is 0, or an
    index of shrink_axis_mask is out of range. Where the specification departs from Python, the reference
    implementation does not: equal bounds give nothing, and end_mask takes a backward slice up to and including the
    first element. But a backward slice that begins before the first element begins there (Python's is empty).
    Spec: StridedSlice-1.
    """
    begins, ends = to_int_list(begin), to_int_list(end)
    strides = [1] * len(begins) if stride is None else to_int_list(stride)
    if not len(begins) == len(ends) == len(strides):
        raise InputError(
            f"begin, end and stride have {len(begins)}, {len(ends)} and {len(strides)} elements,"
            " expected the same number"
        )
    if 0 in strides:
        raise InputError(f"stride {strides} holds 0")
    count = len(begins)
    open_begin, open_end = _bits(begin_mask, count), _bits(end_mask, count)
    ellipsis, new_axis, shrink = (_bits(mask, count) for mask in (ellipsis_mask, new_axis_mask, shrink_axis_mask))
    if sum(ellipsis) > 1:
        raise InputError(f"ellipsis_mask {ellipsis_mask} marks more than one position")
    used = sum(not (e or n) for e, n in zip(ellipsis, new_axis, strict=True))
    if used > data.ndim:
        raise InputError(f"begin slices {used} axes of data, which has shape {list(data.shape)}")

    index: list[slice | int | None] = []
    axis = 0
    for i in range(count):
        if ellipsis[i]:
            index += [slice(None)] * (data.ndim - used)
            axis += data.ndim - used
        elif new_axis[i]:
            index.append(None)
        elif shrink[i]:
            index.append(_one(begins[i], data.shape[axis], axis))
            axis += 1
        else:
            first = None if open_begin[i] else begins[i]
            last = None if open_end[i] else ends[i]
            index.append(python_slice(first, last, strides[i], data.shape[axis]))
            axis += 1
    return data[tuple(index)]


def _bits(mask: Sequence[int], count: int) -> list[bool]:
    padded = itertools.chain(mask, itertools.repeat(0))
    return [bit == 1 for bit in itertools.islice(padded, count)]


def _one(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise InputError(f"begin {index} is out of range of axis {axis}, which has {size} elements")
    return index


def python_slice(first: int | None, last: int | None, stride: int, size: int) -> slice:
    """`first:last:stride`, but a backward slice that begins before the first element begins at the first."""
    if stride < 0 and first is not None and first < -size:
        first = -size
    return slice(first, last, stride)
