"""Picking elements by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import InputError
from irrun.ops.common import Array
from irrun.ops.movement.common import axis_value, fill_value, from_end
from irrun.ops.registry import op

__all__ = ["gather_1", "gather_7"]


@op("Gather", since=1)
def gather_1(data: Array, indices: Array, axis: Array) -> Array:
    """Slices of `data` along `axis`, picked by `indices`.

    data: any type, shape [d0..dN-1]; indices: integer, any rank; axis: integer, scalar or [1], -N <= axis
    < N.
    Returns `data.shape[:axis] + indices.shape + data.shape[axis+1:]`, the type of data.
    Raises InputError where axis is out of range. An index out of range gives zeros, and a negative one counts
    from the end, as in the reference implementation, which is the same for all versions of Gather.
    Spec: Gather-1.
    """
    return gather_7(data, indices, axis)


@op("Gather", since=8)
@op("Gather", since=7)
def gather_7(data: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
    """Slices of `data` along `axis`, picked by `indices`, batch by batch.

    data: any type, shape [d0..dN-1]; indices: integer, any rank >= batch_dims; axis: integer, scalar or [1],
    batch_dims <= axis < N once negative values are counted from the end (batch_dims: of indices).
    Returns `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`, the type of data.
    Raises InputError where axis or batch_dims are out of range or the batch dimensions differ. Negative
    indices count from the end, and an index out of range gives zeros: Gather-8 says so, Gather-7 leaves it
    open, the reference implementation is one for both.
    Spec: Gather-7, Gather-8.
    """
    along = axis_value(axis, data.ndim)
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(along, indices.ndim):
        raise InputError(
            f"batch_dims {batch_dims} is out of range for indices of shape {list(indices.shape)}"
            f" and axis {along}"
        )
    if data.shape[:batch] != indices.shape[:batch]:
        raise InputError(
            f"data {list(data.shape)} and indices {list(indices.shape)} differ in the first {batch} axes"
        )
    size = data.shape[along]
    index = from_end(indices, size)
    outside = (index < 0) | (index >= size)
    some_outside = bool(outside.any())
    shape = data.shape[:along] + indices.shape[batch:] + data.shape[along + 1 :]
    if some_outside:
        if size == 0:
            return np.full(shape, fill_value(data.dtype), data.dtype)
        index = np.where(outside, 0, index)
    if batch == 0 and not some_outside:
        return np.take(data, index, axis=along)

    # As [batches, outer, size, inner], every batch picks with its own row of indices.
    batches, outer = math.prod(data.shape[:batch]), math.prod(data.shape[batch:along])
    inner = math.prod(data.shape[along + 1 :])
    flat = data.reshape(batches, outer, size, inner)
    rows = index.reshape(batches, math.prod(indices.shape[batch:]))
    picked = flat[np.arange(batches)[:, None, None], np.arange(outer)[:, None], rows[:, None, :]]
    if some_outside:
        b, i = np.nonzero(outside.reshape(rows.shape))
        picked[b, :, i] = fill_value(data.dtype)
    gathered: Array = picked.reshape(shape)
    return gathered
