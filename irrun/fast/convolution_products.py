"""Convolution as matrix products: of the data itself, or of its windows copied to columns."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.fast.convolution_problem import MULTIPLICATION_RATE, Finish, Problem, count_products
from irrun.fast.panels import multiply_in_blocks
from irrun.fast.scratch import get_scratch
from irrun.ops._support.windows import Windows
from irrun.threads import divide_time, run_parallel, split_range

__all__ = ["ColumnMethod", "PointwiseMethod", "VectorMethod", "suits_vectors"]

Array = np.ndarray[Any, Any]

#: Parts of a product begin at multiples of this, like the blocks of BLAS.
PART_MULTIPLE = 64
#: Minimum number of positions per channel for dividing products by positions instead of channels.
MAX_ASPECT = 64
#: Number of column elements copied at a time: enough for an efficient product, few enough for the cache.
COLUMN_BLOCK = 1 << 19
#: Minimum number of positions per block, for an efficient product.
MIN_BLOCK_POSITIONS = 64
#: Number of elements, and of elements in a row, from which on pairs are copied, because of the calls.
MIN_PAIRS, MIN_PAIRED_ROW = 1 << 14, 16

#: Products of at most this many multiplications are not divided between threads.
MAX_UNDIVIDED = 1 << 20


def suits_vectors(problem: Problem) -> bool:
    """Return whether the data and the result have one element per channel, as `VectorMethod` requires."""
    is_single = max(problem.windows.kernel) == 1 and math.prod(problem.spatial) == problem.positions == 1
    is_covered = not any(problem.windows.pads_begin)
    work = problem.batch * problem.c_in * problem.c_out
    return problem.groups == 1 and is_single and is_covered and work <= MAX_UNDIVIDED


class VectorMethod:
    """Convolution of maps of one element: a product of the data and the filters.

    Args:
        weights: Shape [1, C_OUT, C_IN].
        problem: The shapes; see `suits_vectors`.
    """

    def __init__(self, weights: Array, problem: Problem) -> None:
        self.weights, self.batch, self.rank = weights[0], problem.batch, len(problem.spatial)

    def multiply(self, data: Array) -> Array:
        """Return the result for data [N, C_IN, 1...]."""
        c_out, c_in = self.weights.shape
        product: Array
        if self.batch == 1:
            product = self.weights.dot(data.reshape(c_in))
        else:
            product = data.reshape(self.batch, c_in).dot(self.weights.T)
        return product.reshape(self.batch, c_out, *[1] * self.rank)

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        result[...] = self.multiply(data).reshape(result.shape)
        for n in range(self.batch):
            finish(n, slice(0, len(self.weights)), slice(0, 1))


class PointwiseMethod:
    """Convolution with windows of one element: a product of the filters and the data, without copies.

    Args:
        weights: Shape [GROUPS, C_OUT, C_IN].
        problem: The shapes.
    """

    def __init__(self, weights: Array, problem: Problem) -> None:
        self.weights, self.problem = weights, problem
        windows = problem.windows
        self.is_copied = max(windows.strides) > 1 or any(windows.pads_begin) or windows.get_extent() != problem.spatial
        self.parts = self._split()

    def _split(self) -> list[tuple[int, slice, slice, slice]]:
        """Return the image, the groups, the output channels of a group and the positions of each part."""
        p = self.problem
        count = count_products(p.groups * p.c_out * p.c_in * p.positions)
        groups = [slice(0, p.groups)]
        channels, positions = [slice(0, p.c_out)], [slice(0, p.positions)]
        if p.groups > 1:
            groups = split_range(p.groups, count)
        elif p.positions >= MAX_ASPECT * p.c_out:
            positions = split_range(p.positions, count, PART_MULTIPLE)
        else:  # later operations are computed for whole channels, which are contiguous
            channels = split_range(p.c_out, divide_time(p.c_out * p.c_in * p.positions // MULTIPLICATION_RATE // 2), 16)
        return list(itertools.product(range(p.batch), groups, channels, positions))

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        if self.is_copied:
            ((_, data),) = p.windows.iterate_taps(p.windows.pad(data))
        grouped = data.reshape(p.batch, p.groups, p.c_in, p.positions)
        target = result.reshape(p.batch, p.groups, p.c_out, p.positions)
        weights = self.weights

        def compute_part(number: int) -> None:
            n, groups, channels, positions = self.parts[number]
            if p.groups == 1:
                multiply_in_blocks(weights[0, channels], grouped[n, 0, :, positions], target[n, 0, channels, positions])
                finish(n, channels, positions)
            else:
                multiply_in_blocks(weights[groups], grouped[n, groups], target[n, groups])
                finish(n, slice(groups.start * p.c_out, groups.stop * p.c_out), positions)

        run_parallel(compute_part, len(self.parts))


class ColumnMethod:
    """Convolution as a product of the filters and the windows. Windows are copied to columns block by block.

    Args:
        weights: Shape [GROUPS, C_OUT, C_IN * kernel].
        problem: The shapes.
    """

    def __init__(self, weights: Array, problem: Problem) -> None:
        self.weights, self.problem = weights, problem
        p = problem
        self.length = weights.shape[2]
        output_shape = p.windows.output_shape
        self.row_size = p.positions // output_shape[0]
        row_step = max(1, -(-MIN_BLOCK_POSITIONS // self.row_size), COLUMN_BLOCK // (self.length * self.row_size))
        row_blocks = -(-output_shape[0] // row_step)
        rows = split_range(output_shape[0], 2 * round(row_blocks / 2))
        group_step = max(1, COLUMN_BLOCK // (self.length * p.positions)) if len(rows) == 1 else 1
        groups = split_range(p.groups, -(-p.groups // group_step))
        #: The image, the groups and the rows of windows of each block.
        self.blocks = list(itertools.product(range(p.batch), groups, rows))
        total = p.batch * p.groups * p.c_out * self.length * p.positions
        #: A single block is divided by output channels instead, into few parts, since the columns are packed for each.
        per_block = count_products(total // 4) if len(self.blocks) == 1 and p.groups == 1 else 1
        self.channels = split_range(p.c_out, per_block, PART_MULTIPLE)
        self.is_padded_at_once = math.prod(p.spatial) * p.c_in * p.groups <= COLUMN_BLOCK

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        grouped = data.reshape(p.batch, p.groups, p.c_in, *p.spatial)
        target = result.reshape(p.batch, p.groups, p.c_out, p.positions)
        padded = p.windows.pad(grouped) if self.is_padded_at_once else None
        windows = None if padded is None else view_windows(p.windows, padded)

        def copy_columns(n: int, groups: slice, rows: slice) -> Array:
            """Return the windows of a block: shape [groups, length, positions]."""
            if windows is None or padded is None:
                selected = p.windows.select_rows(rows.start, rows.stop)
                source = selected.pad(grouped[n, groups])
                view = view_windows(selected, source)
            else:
                index: tuple[Any, ...] = (n, groups, ..., rows, *(slice(None),) * (len(p.spatial) - 1))
                view, source = windows[index], padded
            columns = get_scratch("columns", *view.shape)
            _copy_windows(view, source, columns)
            return columns.reshape(view.shape[0], self.length, -1)

        def compute_block(number: int) -> None:
            n, groups, rows = self.blocks[number]
            columns = copy_columns(n, groups, rows)
            positions = slice(rows.start * self.row_size, rows.stop * self.row_size)
            if p.groups == 1:
                run_parallel(lambda k: multiply(n, self.channels[k], positions, columns[0]), len(self.channels))
                return
            multiply_in_blocks(self.weights[groups], columns, target[n, groups, :, positions])
            finish(n, slice(groups.start * p.c_out, groups.stop * p.c_out), positions)

        def multiply(n: int, channels: slice, positions: slice, columns: Array) -> None:
            multiply_in_blocks(self.weights[0, channels], columns, target[n, 0, channels, positions])
            finish(n, channels, positions)

        if len(self.channels) > 1:
            for number in within_time(range(len(self.blocks))):
                compute_block(number)
        else:
            run_parallel(compute_block, len(self.blocks))


def _copy_windows(view: Array, source: Array, out: Array) -> None:
    """Copy a view of windows over contiguous data.

    If every second element is read, NumPy converts pairs of elements to their first element, as integers, in half the
    time that it takes to copy single elements. The pairs of the last positions may end beyond the data.
    """
    itemsize = source.itemsize
    has_pairs = view.strides[-1] == 2 * itemsize and view.shape[-2] > 1
    is_large = view.size >= MIN_PAIRS and view.shape[-1] >= MIN_PAIRED_ROW
    if not has_pairs or not is_large or sys.byteorder != "little" or not source.flags.c_contiguous:
        np.copyto(out, view)
        return
    offset = view.__array_interface__["data"][0] - source.__array_interface__["data"][0]
    shape = (*view.shape[:-2], view.shape[-2] - 1, view.shape[-1])
    pairs = np.ndarray(shape, np.uint64, source, offset, view.strides)
    np.copyto(out[..., :-1, :].view(np.uint32), pairs, casting="unsafe")
    out[..., -1, :] = view[..., -1, :]


def view_windows(windows: Windows, padded: Array) -> Array:
    """Return a view [..., C_IN, kernel..., output_shape...] of the windows over padded data [..., C_IN, extent...]."""
    rank = len(windows.output_shape)
    view = windows.get_view(padded)
    axes = range(view.ndim)
    return np.transpose(view, (*axes[: -2 * rank], *axes[-rank:], *axes[-2 * rank : -rank]))
