"""Winograd's algorithm F(m x m, 3 x 3), compiled: m x m results take (m + 2)^2 products instead of 9 m^2.

A block of tiles is transformed, multiplied by the transformed filters and transformed back while it is in the
processor's cache. The transforms of the data, and the products of sections of channels, are divided between threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import BUFFER, RESULT, TABLE, Binding, Operand
from irrun.fast.jit.compiler import get_lanes
from irrun.fast.jit.convolution import Geometry, get_epilogue_address
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.products import divide_columns, get_tile
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, align_size, make_base
from irrun.fast.jit.winograd_kernels import POINTS, compile_data_transform, compile_products, compile_result_transform

__all__ = ["WinogradConvolution", "choose_size", "count_weights"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of input and output channels, so that the transforms pay off.
MIN_CHANNELS = 16
#: Elements of transformed data and products per block, and minimum number of tiles that share loaded weights.
BLOCK_SIZE, MIN_BLOCK_TILES = 384 << 10, 16
#: Number of tiles whose products take as long as reading the weights.
READING_TILES = 12
#: Minimum number of multiplications per part, and maximum number of parts per block.
MIN_PART_WORK, MAX_PARTS = 1 << 20, 8
#: Cost of transforming an element of the data or of the result, in multiplications.
TRANSFORM_WORK = 32
#: Up to this many elements of transformed filters, a map of one block is divided into several blocks, which all read
#: the filters; and the maximum number of these blocks.
SMALL_FILTERS_SIZE, MAX_SMALL_BLOCKS = 128 << 10, 4
#: Filters that are transformed at a time, in the cache.
BLOCK_FILTERS = 2048


def make_filter_matrix(size: int) -> Array:
    """Return the matrix [m + 2, 3] that transforms columns of filters, in f64."""
    points = [Fraction(0), *(Fraction(s * p) for p in POINTS[size] for s in (1, -1))]
    if size == 2:  # the transform of the data has the opposite sign there
        scales = [Fraction(1), Fraction(2), Fraction(2)]
    else:
        scales = [math.prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    rows = [[p**k / scale for k in range(3)] for p, scale in zip(points, scales, strict=True)]
    if size == 2:
        rows[0] = [-rows[0][0], *rows[0][1:]]
    return np.array([*rows, [0, 0, 1]], np.float64)


def count_weights(filters: tuple[int, ...], size: int) -> int:
    """Return the number of elements of transformed filters of shape [..., CO, CI, 3, 3]."""
    groups, (channels, inner) = math.prod(filters[:-4]), filters[-4:-2]
    return groups * (size + 2) ** 2 * inner * (channels + -channels % get_lanes())


def choose_size(geometry: Geometry, in_channels: int, out_channels: int) -> int:
    """Return m, or 0 if Winograd's algorithm does not suit a convolution."""
    if geometry.kernel != (3, 3) or geometry.strides != (1, 1) or geometry.dilations != (1, 1):
        return 0
    if min(in_channels, out_channels) < MIN_CHANNELS:
        return 0
    costs = {}
    for size in POINTS:
        tiles = math.prod(-(-n // size) for n in geometry.output)
        costs[size] = (size + 2) ** 2 * (tiles + -tiles % (get_tile()[0] // 2) + READING_TILES)
    size = min(costs, key=costs.__getitem__)
    return size if costs[size] < 9 * (math.prod(geometry.output) + READING_TILES) else 0


def transform_filters(filters: Array, size: int) -> Array:
    """Return filters [CO, CI, 3, 3] in the order of the products: panels of channels, (m + 2)^2 times."""
    c_out, c_in = filters.shape[:2]
    matrix = make_filter_matrix(size)
    both = np.kron(matrix, matrix)
    padded = c_out + -c_out % get_lanes()
    result = np.zeros((len(both), c_in * padded), F32)
    for start, width in divide_columns(c_out):
        count = min(width, c_out - start)
        panels = result[:, start * c_in : (start + width) * c_in].reshape(len(both), c_in, width)
        step = BLOCK_FILTERS // width
        for first in range(0, c_in, step):
            block = filters[start : start + count, first : first + step].transpose(2, 3, 1, 0)
            taps = block.astype(np.float64, order="C").reshape(9, -1)
            panels[:, first : first + step, :count] = (both @ taps).reshape(len(both), -1, count)
    return result


@dataclass(frozen=True)
class _Block:
    """A rectangle of tiles: its first row and column, and its numbers of rows and columns."""

    row: int
    column: int
    rows: int
    columns: int


#: The number of an image and group, and a block of it.
_Item: TypeAlias = tuple[int, _Block]


def _divide_tiles(rows: int, columns: int, limit: int) -> list[_Block]:
    """Return blocks of about the same size of at most `limit` tiles."""

    def split(length: int, step: int) -> list[tuple[int, int]]:
        count = -(-length // step)
        bounds = [length * i // count for i in range(count + 1)]
        return [(a, b - a) for a, b in itertools.pairwise(bounds)]

    widths = split(columns, min(columns, limit))
    heights = split(rows, max(1, min(rows, limit // max(width for _, width in widths))))
    return [_Block(y, x, height, width) for y, height in heights for x, width in widths]


def _divide_panels(channels: int, count: int) -> list[tuple[int, int]]:
    """Return sections of as many panels each: at least as many sections as given, and twice as many if they are few."""
    starts = [start for start, _ in divide_columns(channels)]
    count = min(len(starts), count if count in (1, MAX_PARTS) else 2 * count)
    while len(starts) % count:
        count += 1
    bounds = [starts[len(starts) * i // count] for i in range(count)]
    return list(itertools.pairwise([*bounds, channels]))


class WinogradConvolution:
    """A convolution of 3x3 windows with constant weights and strides of 1.

    Args:
        filters: f32, shape [GROUPS, CO, CI, 3, 3].
        size: m, 2 or 4.
    """

    def __init__(self, filters: Array, size: int) -> None:
        self.groups, self.out_channels, self.in_channels = filters.shape[:3]
        self.size = size
        self.weights = [transform_filters(group, size) for group in filters]

    def make_binding(
        self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()
    ) -> Binding:
        """Return the convolution for data of one shape; see `DirectConvolution.make_binding`."""
        plan = _Plan(geometry, self.in_channels, self.out_channels, self.size)
        shape = (batch, self.groups * self.out_channels, *geometry.output)
        items = [(index, block) for index in range(batch * self.groups) for block in plan.blocks]
        tasks: list[Task]
        if len(items) >= plan.part_count:
            # Each part computes a block, with transformed data of its own.
            data, shared_size = SCRATCH.move(plan.work_size), 0
            parts = [
                [
                    *(self._prepare(plan, item, piece, data) for piece in plan.pieces),
                    *itertools.chain.from_iterable(
                        self._compute(plan, item, section, data, expression) for section in plan.sections
                    ),
                ]
                for item in items
            ]
            tasks = [Task(parts, plan.work_size + 4 * plan.data_size)]
        else:
            # The parts of a block share the transformed data, and the products if there are few channels.
            data, products = make_base(3), make_base(3).move(align_size(4 * plan.data_size))
            is_wide = len(plan.sections) > 1
            shared_size = plan.data_size if is_wide else products.offset // 4 + plan.products_size
            tasks = []
            for item in items:
                tasks.append(Task([[self._prepare(plan, item, x, data)] for x in plan.pieces], plan.work_size))
                if is_wide:
                    results = [self._compute(plan, item, section, data, expression) for section in plan.sections]
                    tasks.append(Task(results, plan.work_size))
                else:
                    tasks += self._share_positions(plan, item, data, products, expression)

        tasks[0].keep(*self.weights)
        bases = (0, RESULT, TABLE, BUFFER) if shared_size else (0, RESULT, TABLE)
        return Binding(shape, tasks, bases, operands, shared_size)

    def _prepare(self, plan: _Plan, item: _Item, channels: tuple[int, int], data: Address) -> Call:
        """Return the call that transforms the data of some channels of a block."""
        index, block = item
        source = make_base(0).move(4 * index * self.in_channels * math.prod(plan.geometry.size))
        places = (source, SCRATCH, data)
        return Call(compile_data_transform(self.size), (*places, *channels, *plan.describe_data(block)))

    def _compute(
        self, plan: _Plan, item: _Item, section: tuple[int, int], data: Address, expression: Expression
    ) -> list[Call]:
        """Return the calls that compute the results of some channels of a block, with products of their own."""
        products = SCRATCH.move(plan.products_offset)
        return [
            self._multiply(plan, item, section, data, products),
            self._finish(plan, item, section, products, expression),
        ]

    def _share_positions(
        self, plan: _Plan, item: _Item, data: Address, products: Address, expression: Expression
    ) -> list[Task]:
        """Return the tasks that multiply some positions of all tiles of a block in each part, and complete it."""
        (section,) = plan.sections
        positions = (self.size + 2) ** 2
        bounds = [positions * i // plan.part_count for i in range(plan.part_count + 1)]
        parts = [[self._multiply(plan, item, section, data, products, x)] for x in itertools.pairwise(bounds)]
        return [Task(parts), Task([[self._finish(plan, item, section, products, expression)]], plan.work_size)]

    def _multiply(
        self,
        plan: _Plan,
        item: _Item,
        section: tuple[int, int],
        data: Address,
        products: Address,
        positions: tuple[int, int] | None = None,
    ) -> Call:
        """Return the call that computes the products of some channels of a block, by default at all positions."""
        index, block = item
        first, stop = positions or (0, (self.size + 2) ** 2)
        width, step = plan.get_product_strides(block, section)
        data_stride, data_step = plan.get_strides(block)
        weights = self.weights[index % self.groups]
        places = (
            data.move(4 * first * data_step),
            get_address(weights) + 4 * first * weights.shape[1],
            products.move(4 * first * step),
        )
        sizes = (stop - first, plan.count_rows(block), self.in_channels, data_stride, data_step)
        channels = section[0], section[0] + width
        return Call(compile_products(), (*places, *sizes, *channels, weights.shape[1], width, step))

    def _finish(
        self, plan: _Plan, item: _Item, section: tuple[int, int], products: Address, expression: Expression
    ) -> Call:
        """Return the call that computes the results of some channels of a block from their products."""
        index, block = item
        width, step = plan.get_product_strides(block, section)
        layout = plan.describe_result(block, math.prod(plan.geometry.output), index * self.out_channels)
        planes = SCRATCH.move(plan.planes_offset)
        places = (products, SCRATCH, planes, make_base(1), make_base(2), get_epilogue_address(expression, "any"))
        return Call(compile_result_transform(self.size), (*places, *section, width, step, *layout))


class _Plan:
    """The division of a convolution into blocks of tiles, and of blocks into parts.

    Attributes:
        blocks: The blocks.
        sections: For each section, the first output channel and the channel after the last.
        pieces: The same for input channels.
        part_count: Number of blocks from which on blocks are not divided.
        data_size: Elements of the transformed data of a block.
        planes_offset: Offset in scratch memory of a block of results, with as many channels as a vector has
            elements. A block of pixels precedes it.
        products_offset: Offset of the products in scratch memory.
        products_size: Elements of the products of a block.
        work_size: Total size of the scratch memory in bytes.
    """

    def __init__(self, geometry: Geometry, in_channels: int, out_channels: int, size: int) -> None:
        self.geometry, self.size = geometry, size
        self.in_channels = in_channels
        lanes = get_lanes()
        positions = (size + 2) ** 2
        self.padded_channels = in_channels + -in_channels % lanes
        rows, columns = (-(-n // size) for n in geometry.output)
        limit = max(MIN_BLOCK_TILES, BLOCK_SIZE // (positions * (self.padded_channels + out_channels)))
        work = positions * rows * columns * in_channels * out_channels
        self.part_count = max(1, min(MAX_PARTS, work // MIN_PART_WORK))
        needed = -(-rows * columns // limit)
        work += positions * rows * columns * (in_channels + out_channels) * TRANSFORM_WORK
        count = max(1, min(MAX_SMALL_BLOCKS, rows // 2, work // MIN_PART_WORK))
        if positions * in_channels * out_channels <= SMALL_FILTERS_SIZE and needed < max(count, self.part_count):
            if 1 < count < MAX_SMALL_BLOCKS:
                # Threads are mostly even in number, and would wait for the last of few parts.
                count += count % 2
            count = max(count, needed + needed % 2)
            block_rows = -(-rows // count)
            self.part_count, limit = -(-rows // block_rows), block_rows * columns
        self.blocks = _divide_tiles(rows, columns, limit)
        data_sizes, scratch_sizes, block_sizes = [0], [0], [0]
        for block in self.blocks:
            data_sizes.append(positions * self.get_strides(block)[1])
            padded = self._pad_columns(block)
            scratch_sizes.append((block.rows * size + 2) * padded * lanes)
            block_sizes.append(block.rows * size * padded * lanes)
        self.data_size = max(data_sizes)
        self.planes_offset = align_size(4 * max(scratch_sizes))
        self.products_offset = self.planes_offset + align_size(4 * max(block_sizes))
        count = max(1, self.part_count // len(self.blocks)) if len(self.blocks) < self.part_count else 1
        self.sections = _divide_panels(out_channels, count)
        self.products_size = max(
            positions * self.get_product_strides(block, x)[1] for block in self.blocks for x in self.sections
        )
        self.work_size = self.products_offset + align_size(4 * self.products_size)
        piece = -(-in_channels // count)
        piece += -piece % lanes
        self.pieces = [(i, min(i + piece, in_channels)) for i in range(0, in_channels, piece)]

    def _pad_columns(self, block: _Block) -> int:
        columns = block.columns * self.size + 2
        return columns + -columns % get_lanes()

    def count_rows(self, block: _Block) -> int:
        """Return the number of tiles of a block that are multiplied, including some with unused products."""
        count = block.rows * block.columns
        return count + -count % (get_tile()[0] // 2)

    def get_strides(self, block: _Block) -> tuple[int, int]:
        """Return the elements of transformed data between tiles, and between positions of a tile."""
        # An extra cache line keeps the positions of a tile out of the same cache sets.
        return self.padded_channels, self.count_rows(block) * self.padded_channels + get_lanes()

    def get_product_strides(self, block: _Block, section: tuple[int, int]) -> tuple[int, int]:
        """Return the elements between the products of tiles for some channels, and between positions of a tile."""
        channels = section[1] - section[0]
        width = channels + -channels % get_lanes()
        return width, self.count_rows(block) * width + get_lanes()

    def describe_data(self, block: _Block) -> tuple[int, ...]:
        """Return the last arguments of the transform of data."""
        geometry, size = self.geometry, self.size
        place = (block.row * size - geometry.pads_begin[0], block.column * size - geometry.pads_begin[1])
        sizes = (block.rows * size + 2, block.columns * size + 2, self._pad_columns(block), block.rows, block.columns)
        return (self.in_channels, math.prod(geometry.size), *geometry.size, *place, *sizes, *self.get_strides(block))

    def describe_result(self, block: _Block, plane: int, channel_offset: int) -> tuple[int, ...]:
        """Return the last arguments of the transform of products."""
        height, width = self.geometry.output
        top, left = block.row * self.size, block.column * self.size
        rows, columns = min(block.rows * self.size, height - top), min(block.columns * self.size, width - left)
        place = (plane, top * width + left, width, channel_offset)
        return (block.rows, block.columns, self._pad_columns(block), rows, columns, *place)
