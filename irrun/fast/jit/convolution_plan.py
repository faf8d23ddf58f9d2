"""Division of convolutions without columns into blocks, sections of channels, and parts for threads."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.compiler import get_lanes
from irrun.fast.jit.convolution_tiles import divide_pixels, get_tile, get_tile_size, has_extras
from irrun.fast.jit.tasks import align_size

__all__ = ["Block", "Geometry", "Plan", "divide"]

Array = np.ndarray[Any, Any]

#: Elements per block of pixels, with all channels: 384 KiB, less than the L2 cache.
PANEL_SIZE = 96 << 10
#: Up to this many elements, copied rows are not divided, since the weights would be read several times.
MAX_UNDIVIDED_SIZE = 160 << 10
#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 19, 16
#: Maximum size of the copied rows, and of the products of a tile of channels: 64 MiB. Large pads exceed it.
MAX_PANEL_SIZE = 1 << 24
#: Cost of reading an element from beyond the L2 cache, in multiplications.
FAR_READING = 10
#: Maximum size of all copied rows if they are copied before the products of several sections.
MAX_SHARED_SIZE = 1 << 22
#: If the distance between channels of the result is a multiple of this size (64 KiB), the results of a tile evict each
#: other from the cache.
ALIASED_SIZE = 1 << 14
#: Maximum number of blocks of all images and groups: each needs its own arguments.
MAX_BLOCKS = 1 << 14


@dataclass(frozen=True)
class Geometry:
    """The windows of a 2D convolution. Values are pairs for rows and columns."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads_begin: tuple[int, int]
    pads_end: tuple[int, int]

    @functools.cached_property
    def output(self) -> tuple[int, int]:
        """The number of windows along each axis."""
        height, width = (
            (n + before + after - d * (k - 1) - 1) // s + 1
            for n, before, after, d, k, s in zip(
                self.size, self.pads_begin, self.pads_end, self.dilations, self.kernel, self.strides, strict=True
            )
        )
        return height, width

    @functools.cached_property
    def halo(self) -> tuple[int, int]:
        """The number of rows and columns in a phase beyond one per window."""
        rows, columns = (d * (k - 1) // s for d, k, s in zip(self.dilations, self.kernel, self.strides, strict=True))
        return rows, columns

    @functools.cached_property
    def phases(self) -> tuple[tuple[int, int], ...]:
        """The remainders of rows and columns that taps read."""
        rows, columns = (
            sorted({d * i % s for i in range(k)})
            for d, k, s in zip(self.dilations, self.kernel, self.strides, strict=True)
        )
        return tuple((y, x) for y in rows for x in columns)

    @property
    def is_line(self) -> bool:
        """Whether all windows are one row, of one row of the data."""
        return self.size[0] == self.kernel[0] == self.output[0] == 1 and not self.pads_begin[0]

    @property
    def is_pointwise(self) -> bool:
        """Whether each window is one element, in place."""
        return self.kernel == self.strides == (1, 1) and self.pads_begin == self.pads_end == (0, 0)


@dataclass(frozen=True)
class Block:
    """Neighboring rows of windows, or neighboring windows for pointwise convolutions and lines, in one image and group.

    Attributes:
        first: The first row of windows, or window.
        last: The row or window after the last one.
        tiles: Their tiles; see `divide_pixels`.
    """

    first: int
    last: int
    tiles: Array


class Plan:
    """The division of a convolution.

    Attributes:
        blocks: The blocks of an image and group.
        ranges: For each part, its first block and the block after its last one.
        sections: The first channel and the channel after the last of each section.
        part_count: The target number of parts for all images and groups.
        is_shared: Whether rows are copied once for all sections.
        is_direct: Whether the results of a tile are completed and stored directly.
        packs_pixels: Whether the pixels of a tile are packed. Without extras, tiles have few registers: they read
            pixels so often that pixels far apart, or across the borders of cache lines, would limit their speed.
        offsets: For each number of rows in the panel, or of elements of a line, the offsets of channels and taps.
        columns: Elements between rows of windows.
        row_size: Windows per row.
        panel_size: Elements of the panel of a block.
        length: Elements between the products of neighboring channels of a tile.
        panel_offset: Offset in bytes behind the products of a tile's channels.
    """

    def __init__(self, geometry: Geometry, in_channels: int, out_channels: int, images: int) -> None:
        self.geometry, self.in_channels, self.out_channels = geometry, in_channels, out_channels
        height, width = geometry.output
        work = out_channels * height * width * in_channels * math.prod(geometry.kernel)
        self.part_count = max(1, min(MAX_PARTS, work * images // MIN_PART_WORK))
        #: Parts of an image and group.
        self._part_count = -(-self.part_count // images)
        self._row_tiles = -(-out_channels // get_tile()[0])
        # All channels would map to the same few sets of the cache.
        is_aliased = height * width % ALIASED_SIZE == 0 and out_channels >= get_tile()[0]
        self.is_direct = (geometry.halo[1] == 0 or geometry.is_line) and not is_aliased
        if geometry.is_pointwise:
            # Windows need not be divided at the ends of rows.
            self.row_size, self.columns, self.panel_size = 1, 1, 0
            self.is_shared = False
            self._divide_pixels(height * width)
            self.offsets = {0: np.arange(in_channels, dtype=np.int64) * (height * width)}
        else:
            if geometry.is_line:
                self.row_size, self.columns = 1, 1
                self._divide_line(width, images)
            else:
                self.row_size, self.columns = width, width + geometry.halo[1]
                self._divide_rows(height, images)
            counts = set(map(self.count_copied, self.blocks))
            self.offsets = {count: self._make_offsets(count) for count in counts}
        self.length = get_tile_size()
        if not self.is_direct:
            pixels = max(block.last - block.first for block in self.blocks) * self.columns
            self.length = pixels + -pixels % 16 + 64  # the last tile of pixels may extend beyond them
        self.packs_pixels = math.prod(geometry.kernel) == 1 and self.is_direct and not has_extras()
        packed_size = get_tile_size() * in_channels if self.packs_pixels else 0
        self.panel_offset = align_size(4 * (get_tile()[0] * self.length + packed_size))
        size = max(self.panel_size, packed_size, 0 if self.is_direct else get_tile()[0] * self.length)
        if size > MAX_PANEL_SIZE or len(self.blocks) * images > MAX_BLOCKS:
            raise NoKernelError("the rows are too long, or the blocks are too many")

    def _divide_pixels(self, count: int) -> None:
        """Divide the pixels of a pointwise convolution."""
        tiles = divide_pixels(count)
        block_count, section_count = self._choose_counts(len(tiles))
        self.sections = self._divide_channels(section_count)
        step = max(1, PANEL_SIZE // (self.in_channels * get_tile()[1] * get_lanes()))
        self.blocks: list[Block] = []
        self.ranges: list[tuple[int, int]] = []
        for first, last in divide(len(tiles), block_count):
            start = len(self.blocks)
            for a, b in divide(last - first, -(-(last - first) // step)):
                own = tiles[first + a : first + b].copy()
                pixel = int(own[0, 0])
                own[:, 0] -= pixel
                self.blocks.append(Block(pixel, pixel + int(own[:, 2].sum()), own))
            self.ranges.append((start, len(self.blocks)))

    def _choose_counts(self, tiles: int) -> tuple[int, int]:
        """Return the fastest division: the number of blocks of pixels and of sections of channels."""
        rows, pixels = get_tile()[0], get_tile()[1] * get_lanes()
        # Each section reads the pixels, and each block the weights.
        reading = [
            FAR_READING if self.in_channels * count > PANEL_SIZE else 1 for count in (tiles * pixels, self.out_channels)
        ]
        best, result = math.inf, (1, 1)
        for sections in range(1, min(self._part_count, self._row_tiles) + 1):
            blocks = min(tiles, self._part_count // sections)
            parts = blocks * sections
            part_tiles, part_rows = -(-tiles // blocks), -(-self._row_tiles // sections)
            rounds = sum(threads * -(-parts // threads) for threads in (2, 4))
            work = part_tiles * part_rows * rows * pixels
            cost = rounds * (work + part_tiles * pixels * reading[0] + part_rows * rows * reading[1])
            if cost < best:
                best, result = cost, (blocks, sections)
        return result

    def _divide_rows(self, height: int, images: int) -> None:
        """Divide the rows of windows. The rows of each block are copied to a panel."""
        geometry = self.geometry
        per_row = self.in_channels * len(geometry.phases) * self.columns
        # Long rows of small kernels are not divided: a panel may exceed the cache.
        count = max(1, min(height, PANEL_SIZE // max(1, per_row) - geometry.halo[0]))
        if per_row * (height + geometry.halo[0]) <= MAX_UNDIVIDED_SIZE:
            count = height
        block_count = -(-height // count)
        if block_count >= self._part_count // 2:
            block_count = min(height, max(block_count, self._part_count))
        elif self._row_tiles * block_count < self._part_count // 2:  # too few sections for all parts
            block_count = min(height, -(-self._part_count // self._row_tiles))
        bounds = divide(height, block_count)
        counts = {last - first for first, last in bounds}
        tiles = {count: divide_pixels(count * self.columns - geometry.halo[1]) for count in counts}
        self.blocks = [Block(first, last, tiles[last - first]) for first, last in bounds]
        self.panel_size = per_row * (max(counts) + geometry.halo[0])
        self._divide_parts(images)

    def _divide_line(self, width: int, images: int) -> None:
        """Divide the windows of a row. The elements of each block are copied to a panel."""
        geometry = self.geometry
        per_column = self.in_channels * len(geometry.phases)
        pixels = get_tile()[1] * get_lanes()
        tiles = divide_pixels(width)
        step = max(1, (PANEL_SIZE // per_column - geometry.halo[1]) // pixels)
        if per_column * (width + geometry.halo[1]) <= MAX_UNDIVIDED_SIZE:
            step = len(tiles)
        block_count = -(-len(tiles) // step)
        if self._row_tiles * block_count < self._part_count // 2:  # too few sections for all parts
            block_count = min(len(tiles), -(-self._part_count // self._row_tiles))
        self.blocks = []
        for first, last in divide(len(tiles), block_count):
            own = tiles[first:last].copy()
            pixel = int(own[0, 0])
            own[:, 0] -= pixel
            self.blocks.append(Block(pixel, pixel + int(own[:, 2].sum()), own))
        self.panel_size = per_column * max(map(self.count_copied, self.blocks))
        self._divide_parts(images)

    def _divide_parts(self, images: int) -> None:
        """Divide the channels into sections and the blocks into parts."""
        block_count = len(self.blocks)
        section_count = max(1, min(self._row_tiles, self._part_count // block_count))
        if section_count > 1 and self.panel_size * block_count * images > MAX_SHARED_SIZE:
            section_count = 1
        self.sections = self._divide_channels(section_count)
        self.is_shared = len(self.sections) > 1
        self.ranges = divide(block_count, min(block_count, self._part_count))

    def count_copied(self, block: Block) -> int:
        """Return the rows of each phase that the windows of a block read; for lines, the elements."""
        return block.last - block.first + self.geometry.halo[self.geometry.is_line]

    def _divide_channels(self, count: int) -> list[tuple[int, int]]:
        rows = get_tile()[0]
        return [(a * rows, min(b * rows, self.out_channels)) for a, b in divide(self._row_tiles, count)]

    def _make_offsets(self, panel_rows: int) -> Array:
        geometry = self.geometry
        (dy, dx), (sy, sx) = geometry.dilations, geometry.strides
        size = panel_rows * self.columns
        taps = [
            geometry.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * self.columns + dx * x // sx
            for y in range(geometry.kernel[0])
            for x in range(geometry.kernel[1])
        ]
        starts = np.arange(self.in_channels, dtype=np.int64)[:, np.newaxis] * (size * len(geometry.phases))
        return (starts + np.array(taps, np.int64)).reshape(-1)


def divide(count: int, parts: int) -> list[tuple[int, int]]:
    """Divide a range into parts of similar size; return the start and the stop of each part."""
    return list(itertools.pairwise(count * i // parts for i in range(parts + 1)))
