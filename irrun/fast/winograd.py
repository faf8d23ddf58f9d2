"""Winograd's algorithm F(2x2, 3x3): convolution of 3x3 windows with 16 instead of 36 multiplications per 2x2 outputs.

The padded data is divided into its even and odd rows and columns, so that all transformations are sums of contiguous
arrays: two outputs depend on an even, an odd, an even and an odd element. A row of tiles is stored with one more
tile; the last tile needs its first elements, and its results are discarded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.convolution_problem import Finish, Problem, count_products
from irrun.fast.packing import allocate_kept
from irrun.fast.panels import multiply_in_blocks
from irrun.fast.scratch import get_scratch
from irrun.threads import run_parallel, split_range

__all__ = ["WinogradMethod", "transform_filters"]

Array = np.ndarray[Any, Any]

#: Minimum number of tiles per block, for efficient products.
MIN_BLOCK_TILES = 256
#: Minimum number of multiplications per block, so that two threads rarely wait for the interpreter's lock.
MIN_BLOCK_PRODUCTS = 1 << 24
#: Number of transformed filter elements computed at a time, in the processor's cache.
FILTER_BLOCK_SIZE = 1 << 15
#: The transformation of filters.
FILTER_MATRIX = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float64)


def transform_filters(filters: Array) -> Array:
    """Return the filters in the domain of the products.

    Args:
        filters: f32, shape [C_OUT, C_IN, 3, 3].

    Returns:
        Shape [16, C_OUT, C_IN], f32.
    """
    c_out, c_in = filters.shape[:2]
    result = allocate_kept((16, c_out, c_in))
    both = np.kron(FILTER_MATRIX, FILTER_MATRIX)
    step = max(1, FILTER_BLOCK_SIZE // (c_in * 16))
    for start in range(0, c_out, step):
        block = filters[start : start + step].reshape(-1, 9).astype(np.float64)
        result[:, start : start + step] = (both @ block.T).reshape(16, -1, c_in)
    return result


class WinogradMethod:
    """Convolution of 3x3 windows with stride 1 by F(2x2, 3x3).

    Args:
        filters: The result of `transform_filters`.
        problem: The shapes.
    """

    def __init__(self, filters: Array, problem: Problem) -> None:
        self.filters, self.problem = filters, problem
        p = problem
        height, width = p.windows.output_shape
        self.tile_columns = -(-width // 2)
        #: Length of a row of tiles, including the discarded one.
        self.row = self.tile_columns + 1
        tile_rows = -(-height // 2)
        block_tiles = max(MIN_BLOCK_TILES, MIN_BLOCK_PRODUCTS // (16 * p.c_in * p.c_out))
        count = -(-tile_rows * self.row // block_tiles)
        self.rows = split_range(tile_rows, 2 * round(count / 2))
        #: A single block is divided by its 16 products instead.
        is_single = len(self.rows) * p.batch == 1
        work = 16 * p.c_in * p.c_out * tile_rows * self.row
        self.products = split_range(16, min(4, count_products(work)) if is_single else 1)

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        height, width = p.windows.output_shape
        images = result.reshape(p.batch, p.c_out, height, width)

        def compute_block(number: int) -> None:
            n, rows = divmod(number, len(self.rows))
            tiles = self.rows[rows]
            self._compute_rows(data[n], images[n], tiles)
            finish(n, slice(0, p.c_out), slice(tiles.start * 2 * width, min(tiles.stop * 2, height) * width))

        run_parallel(compute_block, p.batch * len(self.rows))

    def _compute_rows(self, image: Array, result: Array, tiles: slice) -> None:
        """Compute some rows of tiles of one image."""
        c_in, c_out, row = self.problem.c_in, self.problem.c_out, self.row
        count = tiles.stop - tiles.start
        size = count * row
        phases = get_scratch("winograd phases", 2, 2, c_in, count + 1, row)
        self._split_phases(image, phases, tiles.start)
        # Operations on contiguous arrays take a third of the time of operations on rows of each channel. Their results
        # for the last row of a channel, and for the discarded tiles, are not used.
        padded, length = (count + 1) * row, (c_in * (count + 1) - 1) * row
        flat = phases.reshape(2, 2, c_in * padded)
        lines = get_scratch("winograd lines", 4, 2, length + 1)
        upper, lower = flat[..., :length], flat[..., row:]
        _transform(upper[0], upper[1], lower[0], lower[1], lines[..., :length])
        lines[..., length] = 0
        transformed = get_scratch("winograd data", 4, 4, c_in * padded)
        _transform(
            lines[:, 0, :length],
            lines[:, 1, :length],
            lines[:, 0, 1:],
            lines[:, 1, 1:],
            transformed[..., :length].swapaxes(0, 1),
        )
        tile_data = transformed.reshape(16, c_in, padded)[..., :size]
        products = get_scratch("winograd products", 4, 4, c_out, size)
        results = products.reshape(16, c_out, size)

        def multiply(number: int) -> None:
            part = self.products[number]
            multiply_in_blocks(self.filters[part], tile_data[part], results[part])

        run_parallel(multiply, len(self.products))
        sums = get_scratch("winograd sums", 2, 4, c_out, size)
        _sum_pairs(products, sums)
        outputs = get_scratch("winograd outputs", 2, 2, c_out, size)
        _sum_pairs(sums.swapaxes(0, 1), outputs)
        view = outputs.reshape(2, 2, c_out, count, row)
        for column in range(2):
            for line in range(2):
                target = result[:, tiles.start * 2 + line : tiles.stop * 2 : 2, column::2]
                target[...] = view[column, line, :, : target.shape[1], : target.shape[2]]

    def _split_phases(self, image: Array, phases: Array, first: int) -> None:
        """Copy the even and odd rows and columns of the padded rows that some tiles need."""
        _, _, _, count, row = phases.shape
        top, left = self.problem.windows.pads_begin
        height, width = self.problem.spatial
        for line in range(2):
            for column in range(2):
                phase = phases[line, column]
                # Element k of a phase is row 2 (first + k) + line - top of the data.
                begin, stop, start = _find_section(2 * first + line - top, count, height)
                left_begin, left_stop, left_start = _find_section(column - left, row, width)
                phase[:, :begin] = 0
                phase[:, stop:] = 0
                phase[:, begin:stop, :left_begin] = 0
                phase[:, begin:stop, left_stop:] = 0
                if stop > begin and left_stop > left_begin:
                    phase[:, begin:stop, left_begin:left_stop] = image[
                        :,
                        start : start + 2 * (stop - begin) - 1 : 2,
                        left_start : left_start + 2 * (left_stop - left_begin) - 1 : 2,
                    ]


def _find_section(offset: int, count: int, length: int) -> tuple[int, int, int]:
    """Return which elements k of [0, count) have 2 k + offset in [0, length), and the first of these positions."""
    begin = min(count, max(0, -(offset // 2)))
    stop = max(begin, min(count, (length - 1 - offset) // 2 + 1))
    return begin, stop, 2 * begin + offset


def _transform(even: Array, odd: Array, next_even: Array, next_odd: Array, out: Array) -> None:
    """Transform the four elements that two outputs depend on; the first axis of `out` has four elements."""
    np.subtract(even, next_even, out[0])
    np.add(odd, next_even, out[1])
    np.subtract(next_even, odd, out[2])
    np.subtract(odd, next_odd, out[3])


def _sum_pairs(products: Array, out: Array) -> None:
    """Return the two outputs of four products; the first axes have four and two elements."""
    np.add(products[0], products[1], out[0])
    np.add(out[0], products[2], out[0])
    np.subtract(products[1], products[2], out[1])
    np.subtract(out[1], products[3], out[1])
