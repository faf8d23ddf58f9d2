"""Depthwise convolution: each channel has its own filter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.convolution_problem import Finish, Problem, split_range
from irrun.fast.scratch import get_scratch
from irrun.threads import run_parallel

__all__ = ["BandedMethod", "TapMethod", "can_sum_taps", "make_bands"]

Array = np.ndarray[Any, Any]

#: Elements of the result that are computed at a time.
BLOCK_SIZE = 1 << 16
#: Products of elements that a thread computes at least.
MIN_PART_PRODUCTS = 1 << 19
MAX_PARTS = 16


def count_depthwise_parts(problem: Problem) -> int:
    """Return the number of parts for threads."""
    work = problem.groups * problem.positions * math.prod(problem.windows.kernel)
    return max(1, min(MAX_PARTS, work // MIN_PART_PRODUCTS))


def can_sum_taps(problem: Problem) -> bool:
    """Return whether `TapMethod` supports a problem."""
    windows = problem.windows
    is_regular = all(s == 1 or d == 1 for s, d in zip(windows.strides, windows.dilations, strict=True))
    return len(problem.spatial) == 2 and is_regular


class TapMethod:
    """Depthwise convolution by adding up the products of all elements of the windows.

    The padded data is divided into phases, one per remainder of the row and the column by the strides. In a phase, all
    windows of a channel are consecutive, so that a product of one element of the filter runs over a long contiguous
    array; the results between the end of a row and the next one are discarded. `einsum` multiplies and adds in a single
    pass; the taps of one column of the filter are its summed axis.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes; see `can_sum_taps`.
    """

    def __init__(self, weights: Array, problem: Problem) -> None:
        self.problem = problem
        windows = problem.windows
        (height, width), (kernel_height, kernel_width) = windows.output_shape, windows.kernel
        (row_stride, column_stride), (row_dilation, column_dilation) = windows.strides, windows.dilations
        extent = windows.get_extent()
        #: Shape of a phase.
        self.rows, self.row = -(-extent[0] // row_stride), -(-extent[1] // column_stride)
        self.size = (height - 1) * self.row + width
        #: For each sum: the row and column phase, the first offset, the distance of the offsets, and the filters.
        self.taps: list[tuple[int, int, int, int, Array]] = []
        for row_phase in range(min(row_stride, kernel_height)):
            lines = [i for i in range(kernel_height) if i * row_dilation % row_stride == row_phase]
            for j in range(kernel_width if lines else 0):
                column_phase, column = j * column_dilation % column_stride, j * column_dilation // column_stride
                offsets = [i * row_dilation // row_stride * self.row + column for i in lines]
                step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
                filters = np.ascontiguousarray(weights[:, lines, j])
                self.taps.append((row_phase, column_phase, offsets[0], step, filters))
        block = max(1, BLOCK_SIZE // self.size)
        self.blocks = split_range(problem.groups, -(-problem.groups // block))
        self.parts = split_range(len(self.blocks) * problem.batch, count_depthwise_parts(problem))

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        height, width = p.windows.output_shape
        images = result.reshape(p.batch, p.groups, height, width)

        def compute_part(part: int) -> None:
            for number in range(self.parts[part].start, self.parts[part].stop):
                n, block = divmod(number, len(self.blocks))
                channels = self.blocks[block]
                self._compute_channels(data[n, channels], images[n, channels], channels)
                finish(n, channels, slice(0, p.positions))

        run_parallel(compute_part, len(self.parts))

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        count = data.shape[0]
        row_stride, column_stride = self.problem.windows.strides
        phases = get_scratch("phases", row_stride, column_stride, count, self.rows, self.row)
        self._split_phases(data, phases)
        flat = phases.reshape(row_stride, column_stride, count, self.rows * self.row)
        height, width = result.shape[1:]
        sums = get_scratch("depthwise sums", count, height * self.row)
        products = get_scratch("depthwise products", count, height * self.row)
        target, other = sums[:, : self.size], products[:, : self.size]
        for number, (row_phase, column_phase, offset, step, filters) in enumerate(self.taps):
            source = flat[row_phase, column_phase]
            out = other if number else target
            if step:
                stride, item = source.strides
                shape = (count, filters.shape[1], self.size)
                lines = np.lib.stride_tricks.as_strided(source[:, offset:], shape, (stride, step * item, item))
                np.einsum("ci,cif->cf", filters[channels], lines, out=out)
            else:
                np.multiply(source[:, offset : offset + self.size], filters[channels], out)
            if number:
                np.add(target, other, target)
        result[...] = sums.reshape(count, height, self.row)[:, :, :width]

    def _split_phases(self, data: Array, phases: Array) -> None:
        windows = self.problem.windows
        for row_phase in range(phases.shape[0]):
            rows, source_rows = _find_section(
                row_phase - windows.pads_begin[0], windows.strides[0], self.rows, data.shape[1]
            )
            for column_phase in range(phases.shape[1]):
                phase = phases[row_phase, column_phase]
                columns, source_columns = _find_section(
                    column_phase - windows.pads_begin[1], windows.strides[1], self.row, data.shape[2]
                )
                phase[:, : rows.start] = 0
                phase[:, rows.stop :] = 0
                phase[:, rows, : columns.start] = 0
                phase[:, rows, columns.stop :] = 0
                phase[:, rows, columns] = data[:, source_rows, source_columns]


def _find_section(offset: int, stride: int, count: int, length: int) -> tuple[slice, slice]:
    """Return which elements k of [0, count) have k * stride + offset in [0, length), and the slice of the latter."""
    begin = min(count, max(0, -(offset // stride)))
    stop = max(begin, min(count, (length - 1 - offset) // stride + 1))
    first = begin * stride + offset
    return slice(begin, stop), slice(first, first + (stop - begin) * stride, stride) if stop > begin else slice(0, 0)


def make_bands(weights: Array, problem: Problem) -> Array:
    """Return, for each channel and row of the filter, the matrix that maps a padded row to a row of results.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes.

    Returns:
        Shape [kernel height, C, padded width, output width].
    """
    windows = problem.windows
    width, extent = windows.output_shape[1], windows.get_extent()[1]
    stride, dilation = windows.strides[1], windows.dilations[1]
    channels, kernel_height, kernel_width = weights.shape
    bands = np.zeros((kernel_height, channels, extent, width), np.float32)
    columns = np.arange(width)
    for j in range(kernel_width):
        bands[:, :, columns * stride + j * dilation, columns] = weights[:, :, j].T[:, :, np.newaxis]
    return bands


class BandedMethod:
    """Depthwise convolution of small maps: one product with a banded matrix for each channel and row of the filter.

    Args:
        bands: The result of `make_bands`.
        problem: The shapes.
    """

    def __init__(self, bands: Array, problem: Problem) -> None:
        self.bands, self.problem = bands, problem
        block = max(1, BLOCK_SIZE // problem.positions)
        self.blocks = split_range(problem.groups, -(-problem.groups // block))
        self.parts = split_range(len(self.blocks) * problem.batch, count_depthwise_parts(problem))

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        height, width = p.windows.output_shape
        images = result.reshape(p.batch, p.groups, height, width)

        def compute_part(part: int) -> None:
            for number in range(self.parts[part].start, self.parts[part].stop):
                n, block = divmod(number, len(self.blocks))
                channels = self.blocks[block]
                self._compute_channels(data[n, channels], images[n, channels], channels)
                finish(n, channels, slice(0, p.positions))

        run_parallel(compute_part, len(self.parts))

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        windows = self.problem.windows
        height = windows.output_shape[0]
        stride, dilation = windows.strides[0], windows.dilations[0]
        padded = get_scratch("padded", data.shape[0], *windows.get_extent())
        rows, source_rows = _find_section(-windows.pads_begin[0], 1, padded.shape[1], data.shape[1])
        columns, source_columns = _find_section(-windows.pads_begin[1], 1, padded.shape[2], data.shape[2])
        padded[:, : rows.start] = 0
        padded[:, rows.stop :] = 0
        padded[:, rows, : columns.start] = 0
        padded[:, rows, columns.stop :] = 0
        padded[:, rows, columns] = data[:, source_rows, source_columns]
        product = get_scratch("banded product", *result.shape)
        for i in range(windows.kernel[0]):
            first = i * dilation
            lines = padded[:, first : first + (height - 1) * stride + 1 : stride]
            np.matmul(lines, self.bands[i, channels], out=product if i else result)
            if i:
                np.add(result, product, result)
