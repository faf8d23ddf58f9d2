"""Depthwise convolution by products of filters and blocks of rows, copied once for each column of the filter."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.convolution_problem import Problem
from irrun.fast.depthwise import DepthwiseMethod, count_depthwise_parts
from irrun.fast.packing import allocate_kept
from irrun.fast.scratch import get_scratch

__all__ = [
    "RowMethod",
    "count_block_rows",
    "count_row_filter_bytes",
    "list_filter_parts",
    "make_row_filters",
    "suits_rows",
]

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


class _Group(NamedTuple):
    """Blocks whose products have the same filters.

    Attributes:
        blocks: Their numbers: the first one, and the last one + 1.
        rows: The rows of the data that the first block depends on: the first one, and the last one + 1.
        part: The same, counted from the first row that it would depend on without the limits of the data.
    """

    blocks: tuple[int, int]
    rows: tuple[int, int]
    part: tuple[int, int]


def _list_starts(problem: Problem) -> list[int]:
    """Return the first row of results of each block; the last block computes some rows again if it is not full."""
    rows, height = count_block_rows(problem), problem.windows.output_shape[0]
    return [min(start, height - rows) for start in range(0, height, rows)]


def _list_groups(problem: Problem) -> list[_Group]:
    windows, rows = problem.windows, count_block_rows(problem)
    source_rows = _count_source_rows(problem, rows)
    groups: list[_Group] = []
    for number, start in enumerate(_list_starts(problem)):
        first = start * windows.strides[0] - windows.pads_begin[0]
        begin = max(0, first)
        stop = max(begin, min(problem.spatial[0], first + source_rows))
        group = _Group((number, number + 1), (begin, stop), (begin - first, stop - first))
        is_regular = start == number * rows and group.part == (0, source_rows)
        if is_regular and groups and groups[-1].part == group.part:
            groups[-1] = groups[-1]._replace(blocks=(groups[-1].blocks[0], number + 1))
        else:
            groups.append(group)
    return groups


def list_filter_parts(problem: Problem) -> tuple[tuple[int, int], ...]:
    """Return the parts of the rows of a block that different filters cover: the first and the last block have fewer."""
    return tuple(dict.fromkeys(group.part for group in _list_groups(problem)))


def count_row_filter_bytes(problem: Problem) -> int:
    """Return the memory of the result of `make_row_filters`."""
    count = sum(stop - begin for begin, stop in list_filter_parts(problem))
    return 4 * problem.groups * count_block_rows(problem) * problem.windows.kernel[1] * count


def make_row_filters(weights: Array, problem: Problem) -> Array:
    """Return, for each channel, the matrices that map the copied rows of blocks to their rows of results.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes.

    Returns:
        The elements of the matrices of all parts, one after another; see `list_filter_parts` and `_view_filters`.
    """
    height, stride = weights.shape[1], problem.windows.strides[0]
    elements = allocate_kept((count_row_filter_bytes(problem) // 4,))
    for (begin, stop), filters in _view_filters(elements, problem).items():
        for row in range(filters.shape[1]):
            first, last = max(begin, row * stride), min(stop, row * stride + height)
            if first < last:
                part = weights[:, first - row * stride : last - row * stride]
                filters[:, row, :, first - begin : last - begin] = part.swapaxes(1, 2)
    return elements


def _view_filters(elements: Array, problem: Problem) -> dict[tuple[int, int], Array]:
    """Return the filters of each part: shape [C, rows, kernel width, rows of the data]."""
    views, position = {}, 0
    for begin, stop in list_filter_parts(problem):
        shape = (problem.groups, count_block_rows(problem), problem.windows.kernel[1], stop - begin)
        size = math.prod(shape)
        views[begin, stop] = elements[position : position + size].reshape(shape)
        position += size
    return views


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
        self.width, self.stride = windows.output_shape[1], windows.strides[1]
        self.rows = count_block_rows(problem)
        #: For each column of the filter, the distance of its elements from the results.
        self.shifts = [j - windows.pads_begin[1] for j in range(windows.kernel[1])]
        self.starts = _list_starts(problem)
        self.step = self.rows * windows.strides[0] * problem.spatial[1]
        parts = _view_filters(filters, problem)
        #: Each with its filters, as matrices.
        self.groups = [
            (group, parts[group.part].reshape(problem.groups, self.rows, -1)) for group in _list_groups(problem)
        ]
        block = max(1, BLOCK_SIZE // problem.positions)
        count = count_depthwise_parts(problem, len(self.shifts) * len(self.groups) + 4)
        super().__init__(problem, max(count // problem.batch, -(-problem.groups // block)), count)

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        count, columns, width = len(data), len(self.shifts), self.width
        for ((first, last), (begin, stop), _), filters in self.groups:
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
            np.matmul(filters[channels, np.newaxis], copies.reshape(count, last - first, -1, width), out=target)

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
