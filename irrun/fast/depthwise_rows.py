"""Depthwise convolution by products of filters and blocks of rows, copied once for each column of the filter."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.convolution_problem import Problem
from irrun.fast.depthwise import DepthwiseMethod, count_depthwise_parts
from irrun.fast.packing import allocate_kept
from irrun.fast.scratch import get_scratch

__all__ = ["RowMethod", "count_block_rows", "count_row_filter_bytes", "make_row_filters", "suits_rows"]

Array = np.ndarray[Any, Any]

#: Number of results computed at a time: enough that the products take much longer than the calls of NumPy.
BLOCK_SIZE = 1 << 18
#: With fewer results, or shorter rows, banded products take less time. Rows are copied more slowly with strides.
MIN_RESULTS, MIN_WIDTH, MIN_STRIDED_WIDTH = 1 << 15, 9, 32
#: Columns of the filter, each of which is a copy of the data.
MAX_COLUMNS = 3
#: Rows of results in a product: all of a small map, else few, since most elements of the filters are zero. BLAS
#: multiplies even numbers of rows faster.
MAX_WHOLE_HEIGHT, BLOCK_ROWS, STRIDED_BLOCK_ROWS = 14, 6, 4


def suits_rows(problem: Problem) -> bool:
    """Return whether `RowMethod` supports a problem, and is faster than other methods.

    Rows of results are as long as rows of the data, divided by the stride: then all rows of a block, shifted by one
    column of the filter, are consecutive elements.
    """
    if not problem.is_depthwise or len(problem.spatial) != 2:
        return False
    windows = problem.windows
    height, width = windows.output_shape
    has_equal_rows = width * windows.strides[1] == problem.spatial[1]
    is_supported = has_equal_rows and windows.dilations == (1, 1)
    is_narrow = 1 < windows.kernel[1] <= MAX_COLUMNS and max(windows.strides) <= 2
    is_long = width >= (MIN_WIDTH if windows.strides[1] == 1 else MIN_STRIDED_WIDTH)
    is_large = problem.groups * problem.positions >= MIN_RESULTS and problem.positions <= BLOCK_SIZE
    return is_supported and is_narrow and is_long and is_large and height > 1


def count_block_rows(problem: Problem) -> int:
    """Return the number of rows of results in a product."""
    height, stride = problem.windows.output_shape[0], problem.windows.strides[0]
    return height if height <= MAX_WHOLE_HEIGHT else BLOCK_ROWS if stride == 1 else STRIDED_BLOCK_ROWS


def _count_source_rows(problem: Problem, rows: int) -> int:
    return (rows - 1) * problem.windows.strides[0] + problem.windows.kernel[0]


def count_row_filter_bytes(problem: Problem) -> int:
    """Return the memory of all filters. The first and the last block, which depend on fewer rows, have their own."""
    rows = count_block_rows(problem)
    return 3 * 4 * problem.groups * rows * _count_source_rows(problem, rows) * problem.windows.kernel[1]


def make_row_filters(weights: Array, problem: Problem) -> Array:
    """Return, for each channel, the matrix that maps the copied rows of a block to its rows of results.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes.

    Returns:
        Shape [C, rows, kernel width, source rows]; see `count_block_rows`.
    """
    channels, height, width = weights.shape
    rows, stride = count_block_rows(problem), problem.windows.strides[0]
    filters = allocate_kept((channels, rows, width, _count_source_rows(problem, rows)))
    for row in range(rows):
        filters[:, row, :, row * stride : row * stride + height] = weights.swapaxes(1, 2)
    return filters


class _Group(NamedTuple):
    """Blocks whose products have the same filters.

    Attributes:
        blocks: Their numbers: the first one, and the last one + 1.
        rows: The rows of the data of the first block: the first one, and the last one + 1.
        filters: Shape [C, rows of results, kernel width * rows of the data].
    """

    blocks: tuple[int, int]
    rows: tuple[int, int]
    filters: Array


class RowMethod(DepthwiseMethod):
    """Depthwise convolution by one product for each channel and block of rows.

    The rows that a block depends on are copied once for each column of the filter, shifted by it. All copies together
    are the right matrix, so that the left one holds the whole filter for each row of results. The elements that a shift
    takes from the neighboring row are replaced by zeros.

    Args:
        filters: The result of `make_row_filters`.
        problem: The shapes; see `suits_rows`.
    """

    def __init__(self, filters: Array, problem: Problem) -> None:
        windows = problem.windows
        (height, self.width), self.stride = windows.output_shape, windows.strides[1]
        channels, self.rows, columns, source_rows = filters.shape
        #: For each column of the filter, the distance of its elements from the results.
        self.shifts = [j - windows.pads_begin[1] for j in range(columns)]
        #: The first row of results of each block; the last block computes some rows again if it is not full.
        self.starts = [min(start, height - self.rows) for start in range(0, height, self.rows)]
        self.step = self.rows * windows.strides[0] * problem.spatial[1]
        self.groups: list[_Group] = []
        was_whole = False
        for number, start in enumerate(self.starts):
            first = start * windows.strides[0] - windows.pads_begin[0]
            begin = max(0, first)
            stop = max(begin, min(problem.spatial[0], first + source_rows))
            is_whole = begin == first and stop == first + source_rows
            if is_whole and was_whole and start == number * self.rows:
                self.groups[-1] = self.groups[-1]._replace(blocks=(self.groups[-1].blocks[0], number + 1))
                continue
            own = filters if is_whole else np.ascontiguousarray(filters[..., begin - first : stop - first])
            self.groups.append(_Group((number, number + 1), (begin, stop), own.reshape(channels, self.rows, -1)))
            was_whole = is_whole
        block = max(1, BLOCK_SIZE // problem.positions)
        parts = count_depthwise_parts(problem, columns * len(self.groups) + 4)
        super().__init__(problem, max(parts // problem.batch, -(-problem.groups // block)), parts)

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        count, columns, width = len(data), len(self.shifts), self.width
        for group in self.groups:
            (first, last), (begin, stop) = group.blocks, group.rows
            copies = get_scratch("rows", count, last - first, columns, (stop - begin) * width)
            self._copy_rows(data.reshape(count, -1), copies, begin)
            lines = copies.reshape(count, last - first, columns, stop - begin, width)
            for number, shift in enumerate(self.shifts):
                before, after = _find_range(shift, self.stride, self.problem.spatial[1], width)
                if before:
                    lines[:, :, number, :, :before] = 0
                if after < width:
                    lines[:, :, number, :, after:] = 0
            start = self.starts[first]
            target = result[:, start : start + (last - first) * self.rows].reshape(count, -1, self.rows, width)
            filters = group.filters[channels, np.newaxis]
            np.matmul(filters, copies.reshape(count, last - first, -1, width), out=target)

    def _copy_rows(self, data: Array, copies: Array, begin: int) -> None:
        """Copy the rows of some blocks, shifted by all columns.

        Args:
            data: Shape [channels, elements].
            copies: Shape [channels, blocks, columns, elements].
            begin: The first row of the first block.
        """
        size, (_, blocks, _, length), stride = data.shape[1], copies.shape, self.stride
        first = begin * self.problem.spatial[1]
        offsets = range(first, first + blocks * self.step, self.step)
        inner = [
            block
            for block, offset in enumerate(offsets)
            if offset + self.shifts[0] >= 0 and offset + self.shifts[-1] + length * stride <= size
        ]
        if inner:
            source = offsets[inner[0]] + self.shifts[0]
            _copy_elements(data, source, (size, self.step, 1, stride), copies[:, inner[0] : inner[-1] + 1])
        for block in (block for block in range(blocks) if not inner or not inner[0] <= block <= inner[-1]):
            for number, shift in enumerate(self.shifts):
                offset = offsets[block] + shift
                start, stop = _find_range(offset, stride, size, length)
                if start < stop:
                    target = copies[:, block, number, start:stop]
                    target[...] = data[:, offset + start * stride : offset + (stop - 1) * stride + 1 : stride]


def _copy_elements(data: Array, offset: int, strides: tuple[int, ...], out: Array) -> None:
    """Copy elements of contiguous data, given the first one and the distance of elements along each axis of the copy.

    NumPy converts integers of twice the size faster than it copies every second element. The lower half is the first.
    """
    size = data.itemsize
    distances = tuple(distance * size for distance in strides)
    if strides[-1] == 2 and sys.byteorder == "little":
        pairs = np.ndarray(out.shape, np.uint64, data, offset * size, distances)
        np.copyto(out.view(np.uint32), pairs, casting="unsafe")
    else:
        np.copyto(out, np.ndarray(out.shape, data.dtype, data, offset * size, distances))


def _find_range(offset: int, stride: int, length: int, count: int) -> tuple[int, int]:
    """Return which elements k of [0, count) have k * stride + offset in [0, length), as the first and the last + 1."""
    begin = min(count, max(0, -(offset // stride)))
    return begin, max(begin, min(count, (length - 1 - offset) // stride + 1))
