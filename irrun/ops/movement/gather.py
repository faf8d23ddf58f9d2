"""Picking elements by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, read_axis
from irrun.ops._support.indexing import allocate_blank, check_indices, get_fill_value, wrap_negative_indices
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["gather_1", "gather_7", "gather_elements_6", "gather_nd_5", "gather_nd_8"]


@op("Gather", since=1, folding="linear")
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


@op("Gather", since=8, folding="linear")
@op("Gather", since=7, folding="linear")
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
    along = read_axis(axis, data.ndim)
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(along, indices.ndim):
        raise InputError(
            f"batch_dims {batch_dims} is out of range for indices of shape {list(indices.shape)} and axis {along}"
        )
    if data.shape[:batch] != indices.shape[:batch]:
        raise InputError(f"data {list(data.shape)} and indices {list(indices.shape)} differ in the first {batch} axes")
    size = data.shape[along]
    index = wrap_negative_indices(indices, size)
    outside = (index < 0) | (index >= size)
    some_outside = bool(outside.any())
    shape = data.shape[:along] + indices.shape[batch:] + data.shape[along + 1 :]
    check_allocation(shape, data.dtype)
    if some_outside:
        if size == 0:
            return allocate_blank(shape, data.dtype)
        index = np.where(outside, 0, index)
    if batch == 0 and not some_outside:
        return np.take(data, index, axis=along, mode="clip")  # checked above, and faster so

    # As [batches, outer, size, inner], every batch picks with its own row of indices.
    batches, outer = math.prod(data.shape[:batch]), math.prod(data.shape[batch:along])
    inner = math.prod(data.shape[along + 1 :])
    flat = data.reshape(batches, outer, size, inner)
    rows = index.reshape(batches, math.prod(indices.shape[batch:]))
    picked = flat[np.arange(batches)[:, None, None], np.arange(outer)[:, None], rows[:, None, :]]
    if some_outside:
        b, i = np.nonzero(outside.reshape(rows.shape))
        picked[b, :, i] = get_fill_value(data.dtype)
    gathered: Array = picked.reshape(shape)
    return gathered


@op("GatherElements", since=6)
def gather_elements_6(data: Array, indices: Array, *, axis: int) -> Array:
    """For each place of `indices` the element of `data` with that index along `axis`, the others its own.

    data: any type, rank >= 1; indices: integer, the shape of data but for axis.
    Returns the type of data, the shape of indices.
    Raises InputError where an index or axis is out of range, or the shapes do not fit. Negative indices, which
    the specification does not admit, count from the end, as in OpenVINO.
    Spec: GatherElements-6.
    """
    along = normalize_axis(axis, data.ndim)
    expected = data.shape[:along] + indices.shape[along : along + 1] + data.shape[along + 1 :]
    if indices.shape != expected:
        raise InputError(f"indices have shape {list(indices.shape)}, expected {list(expected)}")
    return np.take_along_axis(data, check_indices(indices, data.shape[along]), axis=along)


@op("GatherND", since=8)
def gather_nd_8(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Elements or slices of `data` at the coordinates in the last axis of `indices`, batch by batch.

    data: any type, rank >= 1; indices: integer [..., k], k <= rank of data - batch_dims, negative ones
    from the end. The first batch_dims dimensions of the two broadcast to each other (OpenVINO wants them equal).
    Returns `batch + indices.shape[batch_dims:-1] + data.shape[batch_dims+k:]`, the type of data.
    Raises InputError where an index is out of range, or shapes and batch_dims do not fit.
    Spec: GatherND-8.
    """
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch_dims < min(data.ndim, indices.ndim) or batch_dims + depth > data.ndim:
        raise InputError(
            f"indices of shape {list(indices.shape)} with batch_dims {batch_dims} do not address data of shape"
            f" {list(data.shape)}"
        )
    data, indices = _same_batches(data, indices, batch_dims)
    batch = data.shape[:batch_dims]
    # The coordinates become one number: the row of data flattened to [batches, rows, slice].
    outer, inner = data.shape[batch_dims : batch_dims + depth], data.shape[batch_dims + depth :]
    rows = np.zeros(indices.shape[:-1], np.int64)
    for i, size in enumerate(outer):
        rows = rows * size + check_indices(indices[..., i], size)
    check_allocation(rows.shape + inner, data.dtype)
    batches = math.prod(batch)
    flat = data.reshape(batches, math.prod(outer), math.prod(inner))
    picked = flat[np.arange(batches)[:, None], rows.reshape(batches, math.prod(rows.shape[batch_dims:]))]
    gathered: Array = picked.reshape(rows.shape + inner)
    return gathered


def _same_batches(data: Array, indices: Array, count: int) -> tuple[Array, Array]:
    """`data` and `indices` with their first `count` dimensions broadcast to each other."""
    if data.shape[:count] == indices.shape[:count]:
        return data, indices
    try:
        batch = np.broadcast_shapes(data.shape[:count], indices.shape[:count])
    except ValueError:
        raise InputError(
            f"data {list(data.shape)} and indices {list(indices.shape)} do not broadcast in the first {count} axes"
        ) from None
    shapes = [batch + x.shape[count:] for x in (data, indices)]
    for x, shape in zip((data, indices), shapes, strict=True):
        check_allocation(shape, x.dtype)
    return np.broadcast_to(data, shapes[0]), np.broadcast_to(indices, shapes[1])


@op("GatherND", since=5)
def gather_nd_5(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Elements or slices of `data` at the coordinates in the last axis of `indices`, batch by batch.

    data: any type, rank >= 1; indices: integer [..., k], k <= rank of data - batch_dims.
    Returns what GatherND-8 does, with the batch dimensions flattened into one.
    Raises InputError where an index is out of range, or shapes and batch_dims do not fit. Negative indices, which
    the specification does not admit, count from the end, as in the reference implementation.
    Spec: GatherND-5.
    """
    gathered = gather_nd_8(data, indices, batch_dims=batch_dims)
    batches = [math.prod(gathered.shape[:batch_dims])] if batch_dims else []
    return gathered.reshape(batches + list(gathered.shape[batch_dims:]))
