"""Convolution of channel groups: windows are copied to columns and multiplied by the filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array
from irrun.ops._support.windows import Windows

__all__ = ["convolve"]

#: Smallest and largest number of elements of the columns that are copied at a time: enough for an efficient matrix
#: product, few enough for the processor's cache. In between, it is half of what the layer reads and writes.
BLOCK_SIZES = (1 << 17, 1 << 18)


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
    batch, output_shape = data.shape[0], windows.output_shape
    length, positions = c_in * math.prod(windows.kernel), math.prod(output_shape)
    weights = filters.reshape(groups, c_out, length)
    grouped = data.reshape(batch, groups, c_in, *data.shape[2:])
    if max(windows.kernel) == 1:
        ((_, points),) = windows.iterate_taps(windows.pad(grouped))
        product = matmul(weights, points.reshape(batch, groups, c_in, positions))
        return product.reshape(batch, groups * c_out, *output_shape)
    result = np.empty((batch, groups, c_out, positions), data.dtype)
    if result.size == 0:
        return result.reshape(batch, groups * c_out, *output_shape)
    buffer = np.empty(0, data.dtype)  # allocated with the size of the first block, which is the largest
    # Large data is padded block by block, which avoids a padded copy of all of it.
    trailing = (slice(None),) * (len(output_shape) - 1)
    all_columns = _view_columns(windows, grouped) if grouped.size <= BLOCK_SIZES[0] else None
    block_size = min(max((grouped.size + result.size) // 2, BLOCK_SIZES[0]), BLOCK_SIZES[1])
    for n, g, rows in _split_into_blocks(batch, groups, length, output_shape, block_size):
        if all_columns is None:
            block = _view_columns(windows.select_rows(rows.start, rows.stop), grouped[n, g])
        else:
            index: tuple[Any, ...] = (n, g, ..., rows, *trailing)
            block = all_columns[index]
        buffer = buffer if buffer.size else np.empty(block.size, data.dtype)
        columns = buffer[: block.size].reshape(block.shape)
        np.copyto(columns, block)
        row_size = positions // output_shape[0]
        target = result[n, g, :, rows.start * row_size : rows.stop * row_size]
        matmul(weights[g], columns.reshape(*block.shape[:2], length, target.shape[-1]), out=target)
    return result.reshape(batch, groups * c_out, *output_shape)


def _view_columns(windows: Windows, data: Array) -> Array:
    """Return a view [N, groups, C_IN, kernel..., output_shape...] with one column per window."""
    rank = len(windows.output_shape)
    return np.moveaxis(windows.get_view(windows.pad(data)), range(-rank, 0), range(3, 3 + rank))


def _split_into_blocks(
    batch: int, groups: int, length: int, output_shape: Sequence[int], size: int
) -> list[tuple[slice, slice, slice]]:
    """Return slices of the batch, the groups and the rows of windows, with about `size` elements per block."""
    per_row = max(1, length * math.prod(output_shape[1:]))
    per_group = per_row * output_shape[0]
    row_step = max(1, size // per_row)
    group_step = max(1, size // per_group)
    batch_step = max(1, size // (per_group * groups))
    return [
        (slice(n, n + batch_step), slice(g, g + group_step), slice(r, min(r + row_step, output_shape[0])))
        for n in range(0, batch, batch_step)
        for g in range(0, groups, group_step)
        for r in range(0, output_shape[0], row_step)
    ]
