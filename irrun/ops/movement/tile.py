"""Tile: repetition of a tensor along each axis."""

from __future__ import annotations

import math

import numpy as np

from irrun.limits import check_allocation
from irrun.ops._support.axes import to_shape
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.shapes import MAX_RANK

__all__ = ["tile_1"]


@op(
    "Tile",
    since=1,
    kind="movement",
    shape="infer_tile",
    shaped_by=(1,),
    keeps_values=True,
    checks_size=True,
    folding="linear",
    flops=0,
)
def tile_1(data: Array, repeats: Array) -> Array:
    """Repeat `data` along each axis.

    Args:
        data: Any type, any shape.
        repeats: Integer, shape [n]. A negative number counts as 0, as in the reference implementation. The shorter of
            `repeats` and the shape of `data` is extended with leading ones.

    Returns:
        The product of the shape of `data` and `repeats`, both extended to the same rank; the type of `data`.

    Raises:
        InputError: The result is too large.

    Spec:
        Tile-1
    """
    counts = [max(0, count) for count in to_shape(repeats, "repeats")]
    rank = max(data.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - data.ndim) + list(data.shape)
    pairs = list(zip(counts, sizes, strict=True))
    shape = [count * size for count, size in pairs]
    check_allocation(shape, data.dtype)
    if math.prod(counts) == 1:
        return data.reshape(shape)
    repeated = [(size,) if count == 1 else (count, size) for count, size in pairs]
    if sum(map(len, repeated)) > MAX_RANK:
        return np.tile(data.reshape(sizes), counts)
    expanded = data.reshape([d for axes in repeated for d in (*(1,) * (len(axes) - 1), axes[-1])])
    return np.broadcast_to(expanded, [d for axes in repeated for d in axes]).reshape(shape)
