"""BatchToSpace and its inverse, SpaceToBatch."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.padding import pad_with_constant
from irrun.ops._support.registry import op

__all__ = ["batch_to_space_2", "space_to_batch_2"]


@op("BatchToSpace", since=2, kind="movement", shape="infer_batch_to_space", shaped_by=(1, 2, 3), flops=0)
def batch_to_space_2(data: Array, block_shape: Array, crops_begin: Array, crops_end: Array) -> Array:
    """Move blocks from the batch axis to the spatial axes, and crop the result.

    Args:
        data: Any type, shape [batch, d1, ..., dN-1], N >= 2.
        block_shape: Integer, shape [N], the size of a block on each axis. The first element is 1.
        crops_begin: Integer, shape [N], the number of elements to remove at the beginning of each axis.
        crops_end: Integer, shape [N], the number of elements to remove at the end of each axis.

    Returns:
        Shape [batch / prod(block_shape), d1 * block_shape[1] - crops_begin[1] - crops_end[1], ...], the type of
        `data`.

    Raises:
        InputError: The batch is not a multiple of the product of `block_shape`, or the crops exceed the result.

    Spec:
        BatchToSpace-2
    """
    blocks, begins, ends = _read_lists(data, block_shape, crops_begin, crops_end)
    block_count = math.prod(blocks)
    if data.shape[0] % block_count:
        raise InputError(f"batch {data.shape[0]} is not a multiple of {block_count}, the product of block_shape")
    batch = data.shape[0] // block_count
    split = data.reshape([*blocks[1:], batch, *data.shape[1:]])
    n = data.ndim - 1
    # [B1, ..., Bn, batch, D1, ..., Dn] -> [batch, D1, B1, ..., Dn, Bn]
    transposed = np.transpose(split, [n] + [a for i in range(n) for a in (n + 1 + i, i)])
    shape = [batch] + [d * b for d, b in zip(data.shape[1:], blocks[1:], strict=True)]
    if any(b + e > size or b < 0 or e < 0 for b, e, size in zip(begins, ends, shape, strict=True)):
        raise InputError(f"crops {begins} and {ends} are out of range for shape {shape}")
    crops = tuple(slice(b, size - e) for b, e, size in zip(begins, ends, shape, strict=True))
    return transposed.reshape(shape)[crops]


@op("SpaceToBatch", since=2, kind="movement", shape="infer_space_to_batch", shaped_by=(1, 2, 3), flops=0)
def space_to_batch_2(data: Array, block_shape: Array, pads_begin: Array, pads_end: Array) -> Array:
    """Pad `data` with zeros and move blocks from the spatial axes to the batch axis.

    Args:
        data: Any type, shape [batch, d1, ..., dN-1], N >= 2.
        block_shape: Integer, shape [N], the size of a block on each axis. The first element is 1.
        pads_begin: Integer, shape [N], the number of elements to add before each axis.
        pads_end: Integer, shape [N], the number of elements to add after each axis.

    Returns:
        Shape [batch * prod(block_shape), (pads_begin[1] + d1 + pads_end[1]) / block_shape[1], ...], the type of
        `data`.

    Raises:
        InputError: A pad is negative, or a padded dimension is not a multiple of its block.

    Spec:
        SpaceToBatch-2
    """
    blocks, begins, ends = _read_lists(data, block_shape, pads_begin, pads_end)
    if min(begins + ends) < 0:
        raise InputError(f"pads_begin and pads_end are {begins} and {ends}, expected non-negative numbers")
    shape = [b + d + e for b, d, e in zip(begins, data.shape, ends, strict=True)]
    if any(size % block for size, block in zip(shape, blocks, strict=True)):
        raise InputError(f"the padded shape {shape} is not a multiple of block_shape {blocks}")
    padded = pad_with_constant(data, begins, shape)
    pairs = [n for size, block in zip(shape[1:], blocks[1:], strict=True) for n in (size // block, block)]
    n = data.ndim - 1
    # [batch, D1, B1, ..., Dn, Bn] -> [B1, ..., Bn, batch, D1, ..., Dn]
    order = [2 + 2 * i for i in range(n)] + [0] + [1 + 2 * i for i in range(n)]
    transposed = np.transpose(padded.reshape([shape[0], *pairs]), order)
    return transposed.reshape([shape[0] * math.prod(blocks), *pairs[::2]])


def _read_lists(data: Array, *inputs: Array) -> list[list[int]]:
    """Return `inputs`, the first being block_shape, as lists with one element per axis of `data`."""
    lists = [to_int_list(values) for values in inputs]
    if data.ndim < 2 or any(len(values) != data.ndim for values in lists):
        raise InputError(
            f"the inputs after data have {', '.join(str(len(v)) for v in lists)} elements,"
            f" expected one for each axis of data, and data {list(data.shape)} of at least rank 2"
        )
    if min(lists[0]) < 1 or lists[0][0] != 1:
        raise InputError(f"block_shape is {lists[0]}, expected positive numbers that begin with 1")
    return lists
