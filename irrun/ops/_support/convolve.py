"""Convolution of channel groups: one matrix product for each element of the windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array
from irrun.ops._support.windows import Windows

__all__ = ["convolve"]


def convolve(data: Array, filters: Array, windows: Windows) -> Array:
    """Convolve each group of input channels with the filters of the group.

    Args:
        data: Any type that `matmul` supports, shape [N, GROUPS * C_IN, spatial...].
        filters: The same type, shape [GROUPS, C_OUT, C_IN, kernel...].
        windows: The windows over `data`.

    Returns:
        Shape [N, GROUPS * C_OUT, windows.output_shape...], the type of `data`.

    Raises:
        InputError: The ranks or the numbers of channels do not match.
    """
    groups, c_out, c_in = filters.shape[:3]
    if data.ndim != filters.ndim - 1 or data.shape[1] != groups * c_in:
        raise InputError(
            f"data of shape {list(data.shape)} does not match filters for {groups} groups of {c_in} channels "
            f"and {filters.ndim - 3} spatial axes"
        )
    batch, positions = data.shape[0], math.prod(windows.output_shape)
    check_allocation((batch, groups, c_out, positions), data.dtype)
    padded = windows.pad(data.reshape(batch, groups, c_in, *data.shape[2:]))
    result = np.zeros((batch, groups, c_out, positions), data.dtype)
    for position, points in windows.iterate_taps(padded):
        index: tuple[Any, ...] = (..., *position)
        weights = filters[index]
        result += matmul(weights, points.reshape(batch, groups, c_in, positions))
    return result.reshape(batch, groups * c_out, *windows.output_shape)
