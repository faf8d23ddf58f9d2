"""Between batch, channels and space: BatchToSpace, DepthToSpace, their inverses, ShuffleChannels."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.ops.movement.pad import pad_constant

__all__ = [
    "batch_to_space_2",
    "depth_to_space_1",
    "shuffle_channels_1",
    "space_to_batch_2",
    "space_to_depth_1",
]

Mode = Literal["blocks_first", "depth_first"]


@op("BatchToSpace", since=2)
def batch_to_space_2(data: Array, block_shape: Array, crops_begin: Array, crops_end: Array) -> Array:
    """Blocks that lie along the batch axis put together in space, and the edges cropped.

    data: any type, [batch, d1..dN-1], N >= 2; block_shape, crops_begin, crops_end: integer [N],
    block_shape[0] 1.
    Returns `[batch / prod(block_shape), d1 * block_shape[1] - crops_begin[1] - crops_end[1], ...]`.
    Raises InputError where the batch is no multiple of the blocks or the crops take too much.
    Spec: BatchToSpace-2.
    """
    blocks, begins, ends = _per_axis(data, block_shape, crops_begin, crops_end)
    count = math.prod(blocks)
    if data.shape[0] % count:
        raise InputError(f"a batch of {data.shape[0]} is no multiple of {count}, the product of block_shape")
    batch = data.shape[0] // count
    split = data.reshape([*blocks[1:], batch, *data.shape[1:]])
    n = data.ndim - 1
    # [B1..Bn, batch, D1..Dn] -> [batch, D1, B1, .. Dn, Bn]
    joined = np.transpose(split, [n] + [a for i in range(n) for a in (n + 1 + i, i)])
    sizes = [batch] + [d * b for d, b in zip(data.shape[1:], blocks[1:], strict=True)]
    if any(b + e > size or b < 0 or e < 0 for b, e, size in zip(begins, ends, sizes, strict=True)):
        raise InputError(f"crops {begins} and {ends} do not fit the shape {sizes}")
    return joined.reshape(sizes)[tuple(slice(b, size - e) for b, e, size in zip(begins, ends, sizes, strict=True))]


@op("SpaceToBatch", since=2)
def space_to_batch_2(data: Array, block_shape: Array, pads_begin: Array, pads_end: Array) -> Array:
    """`data` padded with zeros and cut into blocks, the places in a block spread along the batch axis.

    data: any type, [batch, d1..dN-1], N >= 2; block_shape, pads_begin, pads_end: integer [N],
    block_shape[0] 1.
    Returns `[batch * prod(block_shape), (pads_begin[1] + d1 + pads_end[1]) / block_shape[1], ...]`.
    Raises InputError where a padded dimension is no multiple of its block.
    Spec: SpaceToBatch-2.
    """
    blocks, begins, ends = _per_axis(data, block_shape, pads_begin, pads_end)
    if min(begins + ends, default=0) < 0:
        raise InputError(f"pads {begins} and {ends} must not be negative")
    sizes = [b + d + e for b, d, e in zip(begins, data.shape, ends, strict=True)]
    if any(size % block for size, block in zip(sizes, blocks, strict=True)):
        raise InputError(f"the padded shape {sizes} is no multiple of block_shape {blocks}")
    padded = pad_constant(data, begins, sizes, None)
    pairs = [n for size, block in zip(sizes[1:], blocks[1:], strict=True) for n in (size // block, block)]
    n = data.ndim - 1
    # [batch, D1, B1, .. Dn, Bn] -> [B1..Bn, batch, D1..Dn]
    order = [2 + 2 * i for i in range(n)] + [0] + [1 + 2 * i for i in range(n)]
    split = np.transpose(padded.reshape([sizes[0], *pairs]), order)
    return split.reshape([sizes[0] * math.prod(blocks), *pairs[::2]])


def _per_axis(data: Array, *lists: Array) -> list[list[int]]:
    found = [to_int_list(values) for values in lists]
    if data.ndim < 2 or any(len(values) != data.ndim for values in found):
        raise InputError(
            f"the lists have {', '.join(str(len(v)) for v in found)} elements,"
            f" expected one for each axis of data {list(data.shape)}, which has at least 2"
        )
    if min(found[0]) < 1 or found[0][0] != 1:
        raise InputError(f"block_shape {found[0]} must begin with 1 and hold nothing below 1")
    return found


@op("DepthToSpace", since=1)
def depth_to_space_1(data: Array, *, mode: Mode, block_size: int = 1) -> Array:
    """Channels rearranged into blocks of space, `block_size` in each spatial axis.

    data: any type, [N, C, d1..dK], K >= 1.
    Returns `[N, C / block_size**K, d1 * block_size, ...]`. Mode "blocks_first": the place in the block is the
    slower part of the channel number; "depth_first": the faster.
    Raises InputError where C is no multiple of the block.
    Spec: DepthToSpace-1.
    """
    k, block = _spatial(data, block_size)
    if data.shape[1] % block**k:
        raise InputError(f"{data.shape[1]} channels are no multiple of {block}**{k}")
    depth = data.shape[1] // block**k
    cells = [block] * k
    channels = [*cells, depth] if mode == "blocks_first" else [depth, *cells]
    split = data.reshape([data.shape[0], *channels, *data.shape[2:]])
    first_cell, channel = (1, 1 + k) if mode == "blocks_first" else (2, 1)
    order = [0, channel] + [a for i in range(k) for a in (2 + k + i, first_cell + i)]
    return np.transpose(split, order).reshape([data.shape[0], depth, *[d * block for d in data.shape[2:]]])


@op("SpaceToDepth", since=1)
def space_to_depth_1(data: Array, *, mode: Mode, block_size: int = 1) -> Array:
    """Blocks of space rearranged into channels, the inverse of DepthToSpace.

    data: any type, [N, C, d1..dK], K >= 1.
    Returns `[N, C * block_size**K, d1 / block_size, ...]`.
    Raises InputError where a spatial dimension is no multiple of the block.
    Spec: SpaceToDepth-1.
    """
    k, block = _spatial(data, block_size)
    if any(d % block for d in data.shape[2:]):
        raise InputError(f"the spatial part of {list(data.shape)} is no multiple of block_size {block}")
    sizes = [d // block for d in data.shape[2:]]
    split = data.reshape([*data.shape[:2], *[n for d in sizes for n in (d, block)]])
    places = [3 + 2 * i for i in range(k)]
    channels = [*places, 1] if mode == "blocks_first" else [1, *places]
    order = [0, *channels, *[2 + 2 * i for i in range(k)]]
    return np.transpose(split, order).reshape([data.shape[0], data.shape[1] * block**k, *sizes])


def _spatial(data: Array, block_size: int) -> tuple[int, int]:
    if data.ndim < 3:
        raise InputError(f"data has shape {list(data.shape)}, expected at least rank 3")
    if block_size < 1:
        raise InputError(f"block_size is {block_size}, expected at least 1")
    return data.ndim - 2, block_size


@op("ShuffleChannels", since=1)
def shuffle_channels_1(data: Array, *, axis: int = 1, group: int = 1) -> Array:
    """The channels split into `group` groups, and taken one from each group in turn.

    data: any type, rank >= 1.
    Returns the type and shape of data.
    Raises InputError where axis is out of range or its size no multiple of group.
    Spec: ShuffleChannels-1.
    """
    along = normalize_axis(axis, data.ndim)
    size = data.shape[along]
    if group < 1 or size % group:
        raise InputError(f"{size} channels cannot be split into {group} groups")
    split = data.reshape([*data.shape[:along], group, size // group, *data.shape[along + 1 :]])
    return np.reshape(np.swapaxes(split, along, along + 1), data.shape)
