"""Slices from the inputs of Slice, StridedSlice and SliceScatter."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.numerics import Array

__all__ = ["create_slice", "create_slices"]


def create_slice(start: int | None, stop: int | None, step: int, size: int) -> slice:
    """Return `start:stop:step`, where a backward slice starts at the first element if `start` lies before it.

    The reference implementation defines such a slice in this way. In Python it is empty.

    Args:
        start: First index, or None for the default.
        stop: Index after the last one, or None for the default.
        step: Distance between indices, not 0.
        size: Size of the axis.
    """
    if step < 0 and start is not None and start < -size:
        start = -size
    return slice(start, stop, step)


def create_slices(
    shape: Sequence[int], start: Array, stop: Array, step: Array, axes: Array | None
) -> tuple[slice, ...]:
    """Return one slice per axis of a tensor, from the inputs of Slice and SliceScatter.

    Args:
        shape: Shape of the tensor.
        start: Integer, shape [n].
        stop: Integer, shape [n].
        step: Integer, shape [n].
        axes: Integer, shape [n]. The first n axes if omitted.

    Raises:
        InputError: The inputs differ in length, a step is 0, or an axis is out of range or repeated.
    """
    starts, stops, steps = to_int_list(start), to_int_list(stop), to_int_list(step)
    sliced_axes = list(range(len(starts))) if axes is None else to_int_list(axes)
    if not len(starts) == len(stops) == len(steps) == len(sliced_axes):
        raise InputError(
            f"start, stop, step and axes have {len(starts)}, {len(stops)}, {len(steps)} and {len(sliced_axes)}"
            " elements, expected the same number"
        )
    if 0 in steps:
        raise InputError(f"step is {steps}, expected nonzero values")
    slices = [slice(None)] * len(shape)
    axis_order = normalize_axes(sliced_axes, len(shape))
    for axis, first, last, distance in zip(axis_order, starts, stops, steps, strict=True):
        slices[axis] = create_slice(first, last, distance, shape[axis])
    return tuple(slices)
