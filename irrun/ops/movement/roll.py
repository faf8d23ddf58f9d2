"""Roll: rotation of elements along axes."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["roll_7"]


@op("Roll", since=7, kind="movement", shape="keep_shape", shaped_by=(), keeps_values=True, flops=0)
def roll_7(data: Array, shift: Array, axes: Array) -> Array:
    """Rotate the elements of `data` along `axes`.

    Args:
        data: Any type, any shape. A scalar is treated as a vector of one element.
        shift: Integer scalar or [n]. A single value applies to all axes.
        axes: Integer scalar or [n]. An axis that occurs several times is shifted by the sum.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis is out of range, or the numbers of shifts and axes differ.

    Spec:
        Roll-7
    """
    shifts = to_int_list(shift)
    roll_axes = [normalize_axis(a, max(1, data.ndim), "axes") for a in to_int_list(axes)]
    if len(shifts) == 1:
        shifts *= len(roll_axes)
    if len(shifts) != len(roll_axes):
        raise InputError(f"found {len(shifts)} shifts for {len(roll_axes)} axes, expected the same number")
    if data.ndim == 0:
        return data
    # Shifts are reduced before NumPy adds them up, because the sum may exceed i64.
    totals = dict.fromkeys(roll_axes, 0)
    for axis, n in zip(roll_axes, shifts, strict=True):
        totals[axis] = (totals[axis] + n) % (data.shape[axis] or 1)
    return np.roll(data, tuple(totals.values()), tuple(totals))
