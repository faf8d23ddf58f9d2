"""Rearranged copies of grouped compressed weights, so that the products of a group read consecutive memory.

Codes minus zero points are kept in i8, in transposed blocks of rows of the weights. Tiles of a block are decompressed
in one pass, and the products of the groups are added up by scale. For few rows, this takes three quarters of the time
of `multiply_by_weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.compressed import (
    MAX_SCALED_ROWS,
    SMALL_TILE_SIZE,
    TILE_SIZE,
    CompressedWeights,
    decode,
    get_buffer,
    to_rows,
)
from irrun.fast.panels import multiply_in_blocks
from irrun.limits import check_allocation
from irrun.threads import count_parts, map_parallel, run_parallel

__all__ = ["ArrangedWeights", "multiply_by_arranged_weights"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Maximum number of weight rows per block, and their multiple.
BLOCK_ROWS, BLOCK_MULTIPLE = 1024, 64


class _Block(NamedTuple):
    """A block of rows of the weights.

    Attributes:
        rows: The rows.
        codes: Codes minus zero points, i8, shape [K, rows].
        scale: f32, shape [G, rows].
    """

    rows: slice
    codes: Array
    scale: Array


class ArrangedWeights:
    """Weights `(codes - zero_point) * scale` with several groups in a row.

    Args:
        weights: Weights that `is_arrangeable` accepts.

    Attributes:
        shape: The number of rows and columns.
        groups: The number of groups in a row.
        blocks: The blocks.
    """

    def __init__(self, weights: CompressedWeights) -> None:
        rows, columns = self.shape = weights.shape
        self.groups = weights.groups
        parts = count_parts(1, rows * columns)
        count = -(-rows // BLOCK_ROWS)
        count += -count % parts
        step = -(-rows // count)
        step += -step % BLOCK_MULTIPLE
        sections = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
        self.blocks: list[_Block] = [_Block(section, *[np.empty(0)] * 2) for section in sections]

        def arrange(number: int) -> None:
            self.blocks[number] = _arrange_block(weights, sections[number])

        run_parallel(arrange, len(sections))

    @staticmethod
    def is_arrangeable(weights: CompressedWeights) -> bool:
        """Return whether weights have several groups, and codes minus zero points are 8-bit integers."""
        if weights.groups == 1 or weights.scale is None:
            return False
        name = weights.codes.dtype.name
        limits = {"uint4": (0, 15), "int4": (-8, 7), "int8": (-128, 127), "uint8": (0, 255)}.get(name)
        if limits is None:
            return False
        zero_point = np.zeros(1, F32) if weights.zero_point is None else weights.zero_point
        lowest, highest = float(zero_point.min()), float(zero_point.max())
        return limits[0] - highest >= -128 and limits[1] - lowest <= 127 and bool((zero_point % 1 == 0).all())


def _arrange_block(weights: CompressedWeights, rows: slice) -> _Block:
    values = np.empty((rows.stop - rows.start, weights.shape[1]), F32)
    decode(weights.codes[rows], values)
    if weights.zero_point is not None:
        grouped = values.reshape(len(values), weights.groups, -1)
        grouped -= (weights.zero_point if len(weights.zero_point) == 1 else weights.zero_point[rows])[:, :, np.newaxis]
    assert weights.scale is not None
    scale = weights.scale if len(weights.scale) == 1 else weights.scale[rows]
    codes = np.ascontiguousarray(values.astype(np.int8).T)
    return _Block(rows, codes, np.ascontiguousarray(np.broadcast_to(scale, (len(values), weights.groups)).T))


def multiply_by_arranged_weights(data: Array, *, weights: ArrangedWeights) -> Array:
    """Compute `data @ weights.T`.

    Args:
        data: f32, shape [..., K].
        weights: Weights of shape [N, K].

    Raises:
        NoKernelError: `data` has another type, or its last dimension is not K.
    """
    count, inner = weights.shape
    rows = to_rows(data, inner)
    check_allocation((len(rows), count), F32)
    result = np.empty((len(rows), count), F32)
    grouped = np.ascontiguousarray(rows.reshape(len(rows), weights.groups, -1).swapaxes(0, 1))
    is_scaled = len(rows) <= MAX_SCALED_ROWS and bool(np.isfinite(grouped.sum(axis=2)).all())
    blocks = weights.blocks
    parts = min(len(blocks), count_parts(len(rows), count * inner))

    def select_part(part: int) -> list[_Block]:
        return blocks[len(blocks) * part // parts : len(blocks) * (part + 1) // parts]

    def multiply_part(part: int) -> Array:
        selected = select_part(part)
        start = selected[0].rows.start
        product = np.empty((len(rows), selected[-1].rows.stop - start), F32)
        for block in selected:
            out = product[:, block.rows.start - start : block.rows.stop - start]
            if is_scaled:
                _multiply_codes(grouped, block, weights, out)
            else:
                _multiply_values(rows, block, weights, out)
        return product

    def store_part(part: int, product: Array) -> None:
        selected = select_part(part)
        result[:, selected[0].rows.start : selected[-1].rows.stop] = product

    map_parallel(multiply_part, store_part, parts)
    return result.reshape(*data.shape[:-1], count)


def _iterate_tiles(block: _Block, weights: ArrangedWeights, tile_size: int) -> Iterator[tuple[slice, Array]]:
    """Decompress the codes of a block.

    Args:
        block: The block.
        weights: The weights that contain the block.
        tile_size: Maximum number of elements to decompress at a time, unless groups are longer.

    Yields:
        Some groups, and their codes in f32, shape [groups, K / G, rows], valid until the next ones.
    """
    size, count = block.codes.shape[0] // weights.groups, block.codes.shape[1]
    step = -(-weights.groups // -(-block.codes.size // tile_size))
    for first in range(0, weights.groups, step):
        groups = slice(first, min(first + step, weights.groups))
        codes = block.codes[groups.start * size : groups.stop * size]
        tile = get_buffer(codes.size).reshape(codes.shape)
        np.copyto(tile, codes)
        yield groups, tile.reshape(-1, size, count)


def _multiply_codes(grouped: Array, block: _Block, weights: ArrangedWeights, out: Array) -> None:
    """Multiply few rows, shape [G, M, K / G], by codes, and scale the products of the groups."""
    products = np.empty((*grouped.shape[:2], out.shape[1]), F32)
    for groups, tile in _iterate_tiles(block, weights, TILE_SIZE):
        np.matmul(grouped[groups], tile, out=products[groups])
    np.einsum("gmn,gn->mn", products, block.scale, out=out)


def _multiply_values(rows: Array, block: _Block, weights: ArrangedWeights, out: Array) -> None:
    """Multiply rows, shape [M, K], by decompressed weights."""
    size = rows.shape[1] // weights.groups
    product = np.empty_like(out)
    for groups, tile in _iterate_tiles(block, weights, SMALL_TILE_SIZE):
        np.multiply(tile, block.scale[groups, np.newaxis], tile)
        columns = rows[:, groups.start * size : groups.stop * size]
        if not groups.start:
            multiply_in_blocks(columns, tile.reshape(-1, tile.shape[2]), out)
        else:
            multiply_in_blocks(columns, tile.reshape(-1, tile.shape[2]), product)
            out += product
