"""Contiguous copies of transposed arrays, tile by tile.

NumPy copies one element after the other along the last axis of the copy. If these elements are a large power of two
apart in the original, such as channels of 32 x 32 positions, they compete for the same places of the cache, and each
element is read from memory. Tiles are therefore first copied to rows at another distance.
"""

from __future__ import annotations

import numpy as np

from irrun.fast.scratch import get_scratch
from irrun.fast.support import F32, Array, merge_axes
from irrun.limits import check_allocation
from irrun.threads import divide_time, run_parallel

__all__ = ["copy_transposed", "make_contiguous"]

#: Elements of a tile, and its rows of the original at most.
TILE_SIZE, MAX_TILE_ROWS = 1 << 16, 256
#: Elements between the ends of the rows of a tile and the next ones.
GAP = 4
#: Rows of the original compete if their distance in bytes is a multiple of this.
COMPETING_DISTANCE = 512
#: Matrices with fewer rows or columns are copied at once.
MIN_SIDE = 16
#: Nanoseconds per element, for estimates.
COPY_TIME = 0.5


def make_contiguous(x: Array) -> Array:
    """Return an array of the same values whose elements are contiguous: the array itself, or a copy."""
    if x.flags.c_contiguous:
        return x
    check_allocation(x.shape, x.dtype)
    result = np.empty(x.shape, x.dtype)
    copy_transposed(x, result)
    return result


def copy_transposed(x: Array, out: Array) -> None:
    """Copy an array to a contiguous array of the same shape and type.

    Args:
        x: Any layout. It is copied by tiles if its last axis but one is contiguous, once axes are merged.
        out: Contiguous.
    """
    shape, (strides,) = merge_axes(x.shape, [x.strides])
    is_transposed = 2 <= len(shape) <= 3 and strides[-2] == x.itemsize and strides[-1] % COMPETING_DISTANCE == 0
    if not is_transposed or x.dtype is not F32 or not x.flags.aligned or min(shape[-2:]) < MIN_SIDE:
        np.copyto(out, x)
        return
    rows, columns = shape[-2:]
    sources = np.lib.stride_tricks.as_strided(x, (x.size // (rows * columns), rows, columns), (0, 0, *strides)[-3:])
    targets = out.reshape(sources.shape)
    tile_columns = min(columns, MAX_TILE_ROWS)
    tile_rows = min(rows, TILE_SIZE // tile_columns)
    tiles = [
        (number, slice(row, min(row + tile_rows, rows)), slice(column, min(column + tile_columns, columns)))
        for number in range(len(sources))
        for row in range(0, rows, tile_rows)
        for column in range(0, columns, tile_columns)
    ]
    count = min(len(tiles), divide_time(int(x.size * COPY_TIME)))
    step = -(-len(tiles) // count)

    def copy_part(part: int) -> None:
        buffer = get_scratch("transposed tile", tile_columns, tile_rows + GAP)
        for number, lines, section in tiles[part * step : (part + 1) * step]:
            tile = buffer[: section.stop - section.start, : lines.stop - lines.start]
            np.copyto(tile, sources[number, lines, section].T)
            np.copyto(targets[number, lines, section], tile.T)

    run_parallel(copy_part, -(-len(tiles) // step))
