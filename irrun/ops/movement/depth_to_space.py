"""DepthToSpace and its inverse, SpaceToDepth."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["depth_to_space_1", "space_to_depth_1"]

Mode = Literal["blocks_first", "depth_first"]


@op("DepthToSpace", since=1, kind="movement", shape="infer_depth_to_space", shaped_by=(), keeps_values=True, flops=0)
def depth_to_space_1(data: Array, *, mode: Mode, block_size: int = 1) -> Array:
    """Move blocks from the channels to the spatial axes.

    Args:
        data: Any type, shape [N, C, d1, ..., dK], K >= 1.
        mode: Whether the position in the block is the slower ("blocks_first") or the faster ("depth_first") part of
            the channel index.
        block_size: Size of a block on each spatial axis.

    Returns:
        Shape [N, C / block_size**K, d1 * block_size, ..., dK * block_size], the type of `data`.

    Raises:
        InputError: C is not a multiple of block_size**K, or the rank or `block_size` is too small.

    Spec:
        DepthToSpace-1
    """
    _check_blocks(data, block_size)
    k = data.ndim - 2
    if data.shape[1] % block_size**k:
        raise InputError(f"{data.shape[1]} channels are not a multiple of {block_size**k}, the size of a block")
    depth = data.shape[1] // block_size**k
    block = [block_size] * k
    channels = [*block, depth] if mode == "blocks_first" else [depth, *block]
    split = data.reshape([data.shape[0], *channels, *data.shape[2:]])
    block_axis, depth_axis = (1, 1 + k) if mode == "blocks_first" else (2, 1)
    order = [0, depth_axis] + [a for i in range(k) for a in (2 + k + i, block_axis + i)]
    return np.transpose(split, order).reshape([data.shape[0], depth, *[d * block_size for d in data.shape[2:]]])


@op("SpaceToDepth", since=1, kind="movement", shape="infer_space_to_depth", shaped_by=(), keeps_values=True, flops=0)
@describes_like(depth_to_space_1)
def space_to_depth_1(data: Array, *, mode: Mode, block_size: int = 1) -> Array:
    """Move blocks from the spatial axes to the channels; the inverse of DepthToSpace.

    Returns:
        Shape [N, C * block_size**K, d1 / block_size, ..., dK / block_size], the type of `data`.

    Raises:
        InputError: A spatial dimension is not a multiple of `block_size`, or the rank or `block_size` is too small.

    Spec:
        SpaceToDepth-1
    """
    _check_blocks(data, block_size)
    k = data.ndim - 2
    if any(d % block_size for d in data.shape[2:]):
        raise InputError(f"spatial dimensions {list(data.shape[2:])} are not multiples of block_size {block_size}")
    sizes = [d // block_size for d in data.shape[2:]]
    split = data.reshape([*data.shape[:2], *[n for d in sizes for n in (d, block_size)]])
    block_axes = [3 + 2 * i for i in range(k)]
    channels = [*block_axes, 1] if mode == "blocks_first" else [1, *block_axes]
    order = [0, *channels, *[2 + 2 * i for i in range(k)]]
    return np.transpose(split, order).reshape([data.shape[0], data.shape[1] * block_size**k, *sizes])


def _check_blocks(data: Array, block_size: int) -> None:
    if data.ndim < 3:
        raise InputError(f"data has shape {list(data.shape)}, expected at least rank 3")
    if block_size < 1:
        raise InputError(f"block_size is {block_size}, expected at least 1")
