"""Operations that select elements by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import normalize_axis, read_axis
from irrun.ops._support.flops import Call
from irrun.ops._support.index_range import IndexRange
from irrun.ops._support.indexing import allocate_zeros, get_fill_value, normalize_indices, wrap_negative_indices
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

__all__ = ["gather_1", "gather_7", "gather_elements_6", "gather_nd_5", "gather_nd_8", "get_gather_range"]

#: Bytes that Gather allocates for each index: copies in i64, and whether it is out of range.
INDEX_BYTES = 28


def get_gather_range(call: Call) -> IndexRange | None:
    """Return the indices of Gather; indices out of range give zeros.

    Args:
        call: The call. Its first inputs are the inputs of Gather.
    """
    data, indices, axis = call.inputs[:3]
    if data is None or indices is None or axis is None:
        return None
    size = data.shape[read_axis(axis, data.ndim)]
    return IndexRange(indices, -size, size - 1, "the result is zero there")


_gather = partial(
    op,
    "Gather",
    scratch=0,
    kind="movement",
    shape="infer_gather",
    gathers=True,
    decompression="step",
    shaped_by=(2,),
    checks_size=True,
    folding="linear",
    flops=0,
    index_range=get_gather_range,
)


@_gather(since=1)
def gather_1(data: Array, indices: Array, axis: Array) -> Array:
    """Take slices of `data` along `axis`.

    Negative indices count from the end, and slices at indices out of range are zeros: the reference implementation
    treats all versions of Gather alike.

    Args:
        data: Any type, shape [d0, ..., dN-1].
        indices: Integer, any shape.
        axis: Integer scalar or [1], in [-N, N).

    Returns:
        Shape data.shape[:axis] + indices.shape + data.shape[axis+1:], the type of `data`.

    Raises:
        InputError: `axis` is out of range.

    Spec:
        Gather-1
    """
    return gather_7(data, indices, axis)


@_gather(since=8)
@_gather(since=7)
def gather_7(data: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
    """Take slices of `data` along `axis`, separately for each batch.

    Negative indices count from the end, and slices at indices out of range are zeros. Gather-8 specifies this,
    Gather-7 leaves it undefined, and the reference implementation treats both alike.

    Args:
        data: Any type, shape [d0, ..., dN-1].
        indices: Integer, any shape of rank >= batch_dims.
        axis: Integer scalar or [1]. In [batch_dims, N) after negative values are counted from the end.
        batch_dims: Number of leading dimensions that `data` and `indices` share. Negative values count from the
            rank of `indices`.

    Returns:
        Shape data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:], the type of `data`.

    Raises:
        InputError: `axis` or `batch_dims` is out of range, or the batch dimensions differ.

    Spec:
        Gather-7, Gather-8
    """
    gather_axis = read_axis(axis, data.ndim)
    batch_rank = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch_rank <= min(gather_axis, indices.ndim):
        raise InputError(
            f"batch_dims {batch_dims} is out of range for indices of shape {list(indices.shape)} and axis {gather_axis}"
        )
    if data.shape[:batch_rank] != indices.shape[:batch_rank]:
        raise InputError(
            f"data {list(data.shape)} and indices {list(indices.shape)} differ in the first {batch_rank} dimensions"
        )
    size = data.shape[gather_axis]
    shape = data.shape[:gather_axis] + indices.shape[batch_rank:] + data.shape[gather_axis + 1 :]
    check_allocation(shape, data.dtype)
    check_scratch(math.prod(shape) * data.itemsize + INDEX_BYTES * indices.size)
    index = wrap_negative_indices(indices, size)
    outside = (index < 0) | (index >= size)
    has_outside = bool(outside.any())
    if has_outside:
        if size == 0:
            return allocate_zeros(shape, data.dtype)
        index = np.where(outside, 0, index)
    if batch_rank == 0 and not has_outside:
        return np.take(data, index, axis=gather_axis, mode="clip")  # the fastest mode, as all indices are in range

    # Data as [batches, outer, size, inner]; each batch is indexed by its own row of indices.
    batches, outer = math.prod(data.shape[:batch_rank]), math.prod(data.shape[batch_rank:gather_axis])
    inner = math.prod(data.shape[gather_axis + 1 :])
    flat = data.reshape(batches, outer, size, inner)
    rows = index.reshape(batches, math.prod(indices.shape[batch_rank:]))
    result: Array = flat[np.arange(batches)[:, None, None], np.arange(outer)[:, None], rows[:, None, :]]
    if has_outside:
        batch, i = np.nonzero(outside.reshape(rows.shape))
        result[batch, :, i] = get_fill_value(data.dtype)
    return np.reshape(result, shape)


@op("GatherElements", since=6, scratch=1.75, kind="movement", shape="infer_gather_elements", shaped_by=(), flops=0)
def gather_elements_6(data: Array, indices: Array, *, axis: int) -> Array:
    """Take one element of `data` for each element of `indices`, which replaces its coordinate along `axis`.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, the shape of `data` except along `axis`. Negative values, which the specification does
            not allow, count from the end as in OpenVINO.
        axis: Axis that is indexed, in [-rank, rank).

    Returns:
        The shape of `indices`, the type of `data`.

    Raises:
        InputError: An index or `axis` is out of range, or the shapes do not match.

    Spec:
        GatherElements-6
    """
    axis = normalize_axis(axis, data.ndim)
    expected = data.shape[:axis] + indices.shape[axis : axis + 1] + data.shape[axis + 1 :]
    if indices.shape != expected or indices.ndim != data.ndim:
        raise InputError(f"indices has shape {list(indices.shape)}, expected {list(expected)}")
    return np.take_along_axis(data, normalize_indices(indices, data.shape[axis]), axis=axis)


@op("GatherND", since=8, scratch=2.5, kind="movement", shape="infer_gather_nd", flops=0)
def gather_nd_8(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Take elements or slices of `data` at coordinates, separately for each batch.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, shape [..., k], k <= rank of data - batch_dims. The last axis holds coordinates. Negative
            values count from the end.
        batch_dims: Number of leading batch dimensions. The batch dimensions of `data` and `indices` are broadcast to
            each other; OpenVINO requires them to be equal.

    Returns:
        Shape batch + indices.shape[batch_dims:-1] + data.shape[batch_dims+k:], the type of `data`.

    Raises:
        InputError: An index or `batch_dims` is out of range, or the shapes do not match.

    Spec:
        GatherND-8
    """
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch_dims < min(data.ndim, indices.ndim) or batch_dims + depth > data.ndim:
        raise InputError(
            f"indices of shape {list(indices.shape)} with batch_dims {batch_dims} do not address data of shape"
            f" {list(data.shape)}"
        )
    data, indices = _broadcast_batches(data, indices, batch_dims)
    outer, inner = data.shape[batch_dims : batch_dims + depth], data.shape[batch_dims + depth :]
    # Coordinates are combined into row numbers of data flattened to [batches, rows, inner].
    rows = np.zeros(indices.shape[:-1], np.int64)
    for i, size in enumerate(outer):
        rows = rows * size + normalize_indices(indices[..., i], size)
    check_allocation(rows.shape + inner, data.dtype)
    batches = math.prod(data.shape[:batch_dims])
    flat = data.reshape(batches, math.prod(outer), math.prod(inner))
    result: Array = flat[np.arange(batches)[:, None], rows.reshape(batches, math.prod(rows.shape[batch_dims:]))]
    return np.reshape(result, rows.shape + inner)


def _broadcast_batches(data: Array, indices: Array, batch_dims: int) -> tuple[Array, Array]:
    """Broadcast the first `batch_dims` dimensions of `data` and `indices` to each other."""
    if data.shape[:batch_dims] == indices.shape[:batch_dims]:
        return data, indices
    try:
        batch = get_broadcast_shape(data.shape[:batch_dims], indices.shape[:batch_dims])
    except ValueError:
        raise InputError(
            f"the first {batch_dims} dimensions of data {list(data.shape)} and indices {list(indices.shape)}"
            " cannot be broadcast"
        ) from None
    shapes = [batch + x.shape[batch_dims:] for x in (data, indices)]
    for x, shape in zip((data, indices), shapes, strict=True):
        check_allocation(shape, x.dtype)
    return np.broadcast_to(data, shapes[0]), np.broadcast_to(indices, shapes[1])


@op("GatherND", since=5, scratch=2.5, kind="movement", shape="infer_gather_nd", flops=0)
def gather_nd_5(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Take elements or slices of `data` at coordinates, and flatten the batch dimensions of the result.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, shape [..., k], k <= rank of data - batch_dims. The last axis holds coordinates. Negative
            values, which the specification does not allow, count from the end as in the reference implementation.
        batch_dims: Number of leading batch dimensions, as in `gather_nd_8`.

    Returns:
        The result of `gather_nd_8` with its batch dimensions flattened into one.

    Raises:
        InputError: An index or `batch_dims` is out of range, or the shapes do not match.

    Spec:
        GatherND-5
    """
    result = gather_nd_8(data, indices, batch_dims=batch_dims)
    batches = [math.prod(result.shape[:batch_dims])] if batch_dims else []
    return result.reshape(batches + list(result.shape[batch_dims:]))
