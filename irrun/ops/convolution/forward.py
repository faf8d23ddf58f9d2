"""Convolution and GroupConvolution: windows gathered into columns, one matrix product with the filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Windows, place_windows

__all__ = ["convolution_1", "convolve", "group_convolution_1"]

#: Elements of the columns that are gathered at a time, at least and at most: enough for BLAS, little enough for the
#: caches. Between them they are half of what the layer reads and writes.
BLOCKS = (1 << 17, 1 << 18)


@op("Convolution", since=1)
@compute_in_float32
def convolution_1(
    data: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Sums over sliding windows of `data`, weighted by each of the `filters`; 1D, 2D and 3D.

    data: numeric [N, C_IN, spatial...]; filters: the same type, [C_OUT, C_IN, kernel...].
    Returns [N, C_OUT, windows...], the type of data.
    Raises InputError where ranks, channels or attributes do not fit, or a window exceeds the padded data.
    Spec: Convolution-1.
    """
    if filters.ndim < 3:
        raise InputError(f"filters have shape {list(filters.shape)}, expected [C_OUT, C_IN, kernel...]")
    windows = place_windows(data.shape[2:], filters.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    return convolve(data, filters[np.newaxis], windows)


@op("GroupConvolution", since=1)
@compute_in_float32
def group_convolution_1(
    data: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Convolution in which each group of output channels sees only its own group of input channels.

    data: numeric [N, GROUPS * C_IN, spatial...]; filters: the same type, [GROUPS, C_OUT, C_IN, kernel...].
    Returns [N, GROUPS * C_OUT, windows...], the type of data.
    Raises InputError where ranks, channels or attributes do not fit, or a window exceeds the padded data.
    Spec: GroupConvolution-1.
    """
    if filters.ndim < 4:
        raise InputError(f"filters have shape {list(filters.shape)}, expected [GROUPS, C_OUT, C_IN, kernel...]")
    windows = place_windows(data.shape[2:], filters.shape[3:], strides, dilations, pads_begin, pads_end, auto_pad)
    return convolve(data, filters, windows)


def convolve(data: Array, filters: Array, windows: Windows) -> Array:
    """[N, groups * C_OUT, windows...] from [N, groups * C_IN, ...] and filters [groups, C_OUT, C_IN, ...]."""
    groups, c_out, c_in = filters.shape[:3]
    if data.ndim != filters.ndim - 1 or data.shape[1] != groups * c_in:
        raise InputError(
            f"data of shape {list(data.shape)} does not fit filters for {groups} groups of {c_in} channels "
            f"and {filters.ndim - 3} spatial axes"
        )
    batch, length, positions = data.shape[0], c_in * math.prod(windows.kernel), math.prod(windows.out)
    weights = filters.reshape(groups, c_out, length)
    grouped = data.reshape(batch, groups, c_in, *data.shape[2:])
    if max(windows.kernel) == 1:
        ((_, points),) = windows.taps(windows.covered(grouped))
        product = matmul(weights, points.reshape(batch, groups, c_in, positions))
        return product.reshape(batch, groups * c_out, *windows.out)
    result = np.empty((batch, groups, c_out, positions), data.dtype)
    if result.size == 0:
        return result.reshape(batch, groups * c_out, *windows.out)
    buffer = np.empty(0, data.dtype)  # as large as the first block; no other one is larger
    # Much data is padded block by block, so that there is no padded copy of all of it.
    later = (slice(None),) * (len(windows.out) - 1)
    whole = _under(windows, grouped) if grouped.size <= BLOCKS[0] else None
    at_a_time = min(max((grouped.size + result.size) // 2, BLOCKS[0]), BLOCKS[1])
    for n, g, rows in _blocks(batch, groups, length, windows.out, at_a_time):
        if whole is None:
            seen = _under(windows.between(rows.start, rows.stop), grouped[n, g])
        else:
            picked: tuple[Any, ...] = (n, g, ..., rows, *later)
            seen = whole[picked]
        buffer = buffer if buffer.size else np.empty(seen.size, data.dtype)
        columns = buffer[: seen.size].reshape(seen.shape)
        np.copyto(columns, seen)
        inner = positions // windows.out[0]
        target = result[n, g, :, rows.start * inner : rows.stop * inner]
        matmul(weights[g], columns.reshape(*seen.shape[:2], length, target.shape[-1]), out=target)
    return result.reshape(batch, groups * c_out, *windows.out)


def _under(windows: Windows, data: Array) -> Array:
    """[N, groups, C_IN, kernel..., windows...]: for each window one column of everything it sees; a view."""
    rank = len(windows.out)
    return np.moveaxis(windows.view(windows.covered(data)), range(-rank, 0), range(3, 3 + rank))


def _blocks(batch: int, groups: int, length: int, out: Sequence[int], size: int) -> list[tuple[slice, slice, slice]]:
    """Slices of the batch, the groups and the windows along the first axis: a block has about `size` elements."""
    per_row = max(1, length * math.prod(out[1:]))
    per_group = per_row * out[0]
    row_step = max(1, size // per_row)
    group_step = max(1, size // per_group)
    batch_step = max(1, size // (per_group * groups))
    return [
        (slice(n, n + batch_step), slice(g, g + group_step), slice(r, min(r + row_step, out[0])))
        for n in range(0, batch, batch_step)
        for g in range(0, groups, group_step)
        for r in range(0, out[0], row_step)
    ]
