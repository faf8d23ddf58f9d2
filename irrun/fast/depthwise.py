"""Depthwise convolution: each channel has its own filter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.fast.convolution_problem import Finish, Problem
from irrun.fast.packing import allocate_kept
from irrun.fast.scratch import get_scratch
from irrun.threads import divide_time, run_parallel, split_range

__all__ = [
    "BandedMethod",
    "DepthwiseMethod",
    "TapMethod",
    "can_sum_taps",
    "compute_segment_width",
    "count_band_rows",
    "count_depthwise_parts",
    "make_bands",
    "suits_bands",
]

Array = np.ndarray[Any, Any]

#: Number of results computed at a time.
BLOCK_SIZE = 1 << 16
#: The same for banded products, where fewer calls take less time.
BANDED_BLOCK_SIZE = 1 << 17
#: Maximum number of results in a row for a product with a banded matrix.
MAX_SEGMENT_WIDTH = 16
#: The same for windows of up to MAX_NARROW_HEIGHT rows if the matrices of wider segments would take more bytes than
#: MAX_WIDE_BANDS: matrices of half the width take a third. There are more calls, but fewer reads from beyond the cache.
NARROW_SEGMENT_WIDTH, MAX_NARROW_HEIGHT, MAX_WIDE_BANDS = 8, 3, 3 << 18
#: Rows of at most this many results always use banded products.
MAX_SHORT_WIDTH = 11
#: Longer rows use them if there are enough rows, windows are not too wide, and the sums of a channel fit in the cache.
MIN_BANDED_HEIGHT, MAX_BAND_ROWS, MAX_BANDED_POSITIONS = 6, 64, 1 << 14
#: Products of elements per nanosecond, for estimates.
PRODUCT_RATE = 3


def count_depthwise_parts(problem: Problem, calls: int) -> int:
    """Return the number of parts for threads, given the number of NumPy calls per part."""
    work = problem.groups * problem.positions * math.prod(problem.windows.kernel)
    return divide_time(work // PRODUCT_RATE, calls)


def can_sum_taps(problem: Problem) -> bool:
    """Return whether `TapMethod` supports a problem."""
    windows = problem.windows
    is_regular = all(s == 1 or d == 1 for s, d in zip(windows.strides, windows.dilations, strict=True))
    return len(problem.spatial) == 2 and is_regular


class DepthwiseMethod:
    """The base of depthwise methods: threads compute blocks of channels one after another.

    Args:
        problem: The shapes.
        block_count: The number of blocks that the channels are divided into.
        part_count: The number of parts for threads.
    """

    def __init__(self, problem: Problem, block_count: int, part_count: int) -> None:
        self.problem = problem
        self.blocks = split_range(problem.groups, block_count)
        self.parts = split_range(len(self.blocks) * problem.batch, part_count)

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution; see `Method`."""
        p = self.problem
        images = result.reshape(p.batch, p.groups, *p.windows.output_shape)

        def compute_part(part: int) -> None:
            for number in within_time(range(self.parts[part].start, self.parts[part].stop)):
                n, block = divmod(number, len(self.blocks))
                channels = self.blocks[block]
                self._compute_channels(data[n, channels], images[n, channels], channels)
                finish(n, channels, slice(0, p.positions))

        run_parallel(compute_part, len(self.parts))

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        raise NotImplementedError


class TapMethod(DepthwiseMethod):
    """Depthwise convolution that adds up the products of all elements of the windows.

    The padded data is divided into phases, one per remainder of the row and the column by the strides. In a phase, all
    windows of a channel are consecutive, so that a product of one element of the filter runs over a long contiguous
    array; the results between the end of a row and the next one are discarded. `einsum` multiplies and adds in a single
    pass; the taps of one column of the filter are its summed axis.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes; see `can_sum_taps`.
    """

    def __init__(self, weights: Array, problem: Problem) -> None:
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
            for j in range(kernel_width):
                column_phase, column = j * column_dilation % column_stride, j * column_dilation // column_stride
                offsets = [i * row_dilation // row_stride * self.row + column for i in lines]
                step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
                filters = np.ascontiguousarray(weights[:, lines, j])
                self.taps.append((row_phase, column_phase, offsets[0], step, filters))
        block_count = -(-problem.groups // max(1, BLOCK_SIZE // self.size))
        super().__init__(problem, block_count, count_depthwise_parts(problem, 2 * len(self.taps)))

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
        for number, (row_phase, column_phase, offset, step, filters) in within_time(enumerate(self.taps)):
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
    """Return which elements k of [0, count) have k * stride + offset in [0, length), and the slice of these sums."""
    begin = min(count, max(0, -(offset // stride)))
    stop = max(begin, min(count, (length - 1 - offset) // stride + 1))
    first = begin * stride + offset
    return slice(begin, stop), slice(first, first + (stop - begin) * stride, stride) if stop > begin else slice(0, 0)


def compute_segment_width(problem: Problem) -> int:
    """Return the number of neighboring results that a product with a banded matrix computes."""
    width = problem.windows.output_shape[1]
    segment = -(-width // -(-width // MAX_SEGMENT_WIDTH))
    height = problem.windows.kernel[0]
    size = 4 * problem.groups * height * _count_rows(problem, segment) * segment
    if height > MAX_NARROW_HEIGHT or size <= MAX_WIDE_BANDS:
        return segment
    return -(-width // -(-width // NARROW_SEGMENT_WIDTH))


def count_band_rows(problem: Problem) -> int:
    """Return the number of elements of a padded row that a segment of results depends on."""
    return _count_rows(problem, compute_segment_width(problem))


def _count_rows(problem: Problem, segment: int) -> int:
    windows = problem.windows
    return (segment - 1) * windows.strides[1] + (windows.kernel[1] - 1) * windows.dilations[1] + 1


def suits_bands(problem: Problem) -> bool:
    """Return whether `BandedMethod` supports a problem, and is faster than sums of taps."""
    if not problem.is_depthwise or len(problem.spatial) != 2:
        return False
    height, width = problem.windows.output_shape
    if width <= MAX_SHORT_WIDTH:
        return True
    is_small = height >= MIN_BANDED_HEIGHT and problem.positions <= MAX_BANDED_POSITIONS
    return is_small and problem.windows.kernel[1] > 1 and count_band_rows(problem) <= MAX_BAND_ROWS


def make_bands(weights: Array, problem: Problem) -> Array:
    """Return, for each channel and row of the filter, the matrix that maps a padded row to a segment of results.

    Args:
        weights: Shape [C, kernel height, kernel width].
        problem: The shapes.

    Returns:
        Shape [kernel height, C, rows, segment width]; see `count_band_rows` and `compute_segment_width`.
    """
    windows = problem.windows
    stride, dilation = windows.strides[1], windows.dilations[1]
    channels, kernel_height, kernel_width = weights.shape
    columns = np.arange(compute_segment_width(problem))
    bands = allocate_kept((kernel_height, channels, count_band_rows(problem), columns.size))
    for j in range(kernel_width):
        bands[:, :, columns * stride + j * dilation, columns] = weights[:, :, j].T[:, :, np.newaxis]
    return bands


class BandedMethod(DepthwiseMethod):
    """Depthwise convolution by products with banded matrices: one for each channel, row of the filter and segment.

    A segment is a few neighboring results in all rows. The elements that it depends on are multiplied by the part of
    the band that is not in the padding, so that the data is not copied.

    Args:
        bands: The result of `make_bands`.
        problem: The shapes.
    """

    def __init__(self, bands: Array, problem: Problem) -> None:
        block = max(1, BANDED_BLOCK_SIZE // problem.positions)
        segment_count = -(-problem.windows.output_shape[1] // bands.shape[3])
        parts = count_depthwise_parts(problem, problem.windows.kernel[0] * (segment_count + 1))
        super().__init__(problem, max(parts // problem.batch, -(-problem.groups // block)), parts)
        self.bands = bands
        windows = problem.windows
        height, width = windows.output_shape
        #: For each row of the filter: its number, the rows of the result and the rows of the data.
        self.rows: list[tuple[int, slice, slice]] = []
        for i in range(windows.kernel[0]):
            offset = i * windows.dilations[0] - windows.pads_begin[0]
            rows, source_rows = _find_section(offset, windows.strides[0], height, problem.spatial[0])
            self.rows.append((i, rows, source_rows))
        #: For each segment: the columns of the result and of the data, and the rows and columns of the band.
        self.segments: list[tuple[slice, slice, slice, slice]] = []
        for columns in split_range(width, -(-width // bands.shape[3])):
            first = columns.start * windows.strides[1] - windows.pads_begin[1]
            begin = max(0, first)
            stop = max(begin, min(problem.spatial[1], first + bands.shape[2]))
            band_rows = slice(begin - first, stop - first)
            self.segments.append((columns, slice(begin, stop), band_rows, slice(0, columns.stop - columns.start)))

    def _compute_channels(self, data: Array, result: Array, channels: slice) -> None:
        product = get_scratch("banded product", *result.shape)
        for number, (i, rows, source_rows) in enumerate(self.rows):
            out = product if number else result
            # A sum over the whole block is faster than a sum over these rows of each channel.
            out[:, : rows.start] = 0
            out[:, rows.stop :] = 0
            lines, bands = data[:, source_rows], self.bands[i, channels]
            for columns, source_columns, band_rows, band_columns in self.segments:
                np.matmul(lines[:, :, source_columns], bands[:, band_rows, band_columns], out=out[:, rows, columns])
            if number:
                np.add(result, product, result)
