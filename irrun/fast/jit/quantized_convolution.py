"""Convolution of codes: the data and the weights are 8-bit integers, the sums i32.

Data has the layout [N, C / 4, H, W, 4]: an element of i32 holds the codes of four channels of a pixel. As in the module
`convolution`, a block of padded rows is copied to phases, and every tap reads it at an offset. A tile of several output
channels and several vectors of neighboring pixels stays in registers. An epilogue completes four channels at a time: it
scales the sums and either stores f32 [N, C, H, W], or quantizes them and stores codes.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.dot_products import find_saturating, get_dot_product, widen_weights
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.quantized_code import compile_products, count_quads, get_epilogue_address, get_tile
from irrun.fast.jit.quantized_panels import PanelLayout, divide_copies
from irrun.fast.jit.tasks import SCRATCH, Argument, Call, Task, align_size, make_base

__all__ = ["MAX_PANEL_SIZE", "MAX_SHARED_SIZE", "QuantizedConvolution", "order_taps"]

Array = np.ndarray[Any, Any]

#: Elements (i32) per block of copied rows: 384 KiB, less than the L2 cache.
PANEL_SIZE = 96 << 10
#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 19, 16
#: Maximum size of the copied rows, and of the sums of a tile of channels: 64 MiB.
MAX_PANEL_SIZE = 1 << 24
#: Maximum number of elements of all copied rows if they are copied once for all sections: 16 MiB.
MAX_SHARED_SIZE = 1 << 22


class QuantizedConvolution:
    """A convolution with constant codes of weights.

    Args:
        filters: Codes of i8, shape [GROUPS, CO, CI, KH, KW]. With several groups, CI and CO are multiples of 4, unless
            both are 1.
        bias: Added to the sums: i32, shape [GROUPS * CO].

    Raises:
        NoKernelError: The numbers of channels per group are unsupported.
    """

    def __init__(self, filters: Array, bias: Array) -> None:
        groups, out_channels, in_channels, *kernel = filters.shape
        self.channels = groups * out_channels
        self.is_depthwise = groups > 1 and out_channels == in_channels == 1
        if self.is_depthwise:
            quads = count_quads(groups)
            spread = np.zeros((quads, 4, 4, *kernel), np.int8)
            padded = np.zeros((quads * 4, *kernel), np.int8)
            padded[:groups] = filters[:, 0, 0]
            for i in range(4):
                spread[:, i, i] = padded[i::4]
            filters = spread
        elif groups > 1 and (in_channels % 4 or out_channels % 4):
            raise NoKernelError("expected groups of multiples of four channels")
        self.groups, self.out_channels, self.in_quads = (
            filters.shape[0],
            filters.shape[1],
            count_quads(filters.shape[2]),
        )
        self.tile = get_tile(self.out_channels)
        rows = self.tile[0]
        self.padded = self.out_channels + -self.out_channels % max(rows, 4)
        self.weights = [_pack_weights(group, rows) for group in filters]
        self.form = get_dot_product(can_saturate=True)
        #: The order, the places and the wide weights of the taps of each group; see `order_taps`.
        self.ordered: list[tuple[Array, Array, Array]] = []
        self.bias = np.zeros((self.groups, self.padded), np.int32)
        own = np.zeros(self.groups * self.out_channels, np.int32)
        own[: self.channels] = bias
        totals = filters.reshape(self.groups, self.out_channels, -1).sum(2, dtype=np.int32)
        self.bias[:, : self.out_channels] = own.reshape(totals.shape) + self.form.offset * totals
        if self.is_depthwise:
            # All groups are treated as channels of one group; each of its tiles reads its own data.
            self.weights = [np.concatenate(self.weights)]
            self.bias = self.bias.reshape(1, -1)
        if self.form.saturates:
            for i, packed in enumerate(self.weights):
                self.weights[i], *ordered = order_taps(packed, rows, self.in_quads * math.prod(kernel))
                self.ordered.append((ordered[0], ordered[1], ordered[2]))

    def order_offsets(self, group: int, offsets: Array) -> Array:
        """Return the offsets of taps as the kernel reads them: for each tile if tiles have orders of their own."""
        return np.ascontiguousarray(offsets[self.ordered[group][0]]) if self.ordered else offsets

    def make_tasks(
        self, batch: int, geometry: Geometry, pad: int, expression: Expression, is_coded: bool
    ) -> tuple[list[Task], int]:
        """Return the convolution for contiguous data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            pad: The four codes of a padded pixel.
            expression: The epilogue; see `quantized_code.compile_epilogue`.
            is_coded: Whether the result is codes.

        Returns:
            The tasks for the data, the result, the table of the epilogue's operands, and memory that the tasks share;
            and the number of elements of this memory.

        Raises:
            NoKernelError: The copied rows take too much memory.
        """
        division = _Division(self, batch, geometry)
        calls = _Calls(self, geometry, division, pad, get_epilogue_address(expression, is_coded))
        pieces: list[list[Call]] = []
        copies: list[list[Call]] = []
        for image, group, block in itertools.product(range(batch), range(division.group_count), division.blocks):
            if division.is_shared:
                copies += calls.copy_shared(image, group, block)
            pieces += [calls.make(image, group, block, section) for section in division.sections]
        count = min(division.part_count, len(pieces))
        parts = [pieces[len(pieces) * i // count : len(pieces) * (i + 1) // count] for i in range(count)]
        task = Task(map(itertools.chain.from_iterable, parts), calls.scratch_size)
        task.keep(*calls.offsets.values(), *self.weights, self.bias, *itertools.chain(*self.ordered))
        return [Task(copies), task] if copies else [task], calls.shared_size


def _pack_weights(codes: Array, rows: int) -> Array:
    """Return codes [CO, CI, KH, KW] in the order that tiles read, [CO / R, CI / 4 * KH * KW, R, 4]."""
    count, channels, *kernel = codes.shape
    quads, taps = count_quads(channels), math.prod(kernel)
    tiles = -(-count // rows)
    padded = np.zeros((tiles * rows, quads * 4, taps), np.int8)
    padded[:count, :channels] = codes.reshape(count, channels, taps)
    order = padded.reshape(tiles, rows, quads, 4, taps).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(order).reshape(-1)


def order_taps(packed: Array, rows: int, taps: int) -> tuple[Array, Array, Array, Array]:
    """Return packed weights with the taps of each tile in another order: last those that the portable form multiplies.

    Returns:
        The weights; for each tile, its taps in their order; for each tile, the number of its other taps and the place
        of the last ones; and the wide weights of the last ones [..., R, 2].
    """
    tiles = packed.reshape(-1, taps, rows, 4)
    is_last = find_saturating(tiles).any(2)
    order = np.argsort(is_last, axis=1, kind="stable")
    counts = is_last.sum(1)
    places = np.stack([taps - counts, np.cumsum(counts) - counts], 1)
    weights = np.take_along_axis(tiles, order[:, :, np.newaxis, np.newaxis], 1)
    return weights.reshape(-1), order, places.astype(np.int64), widen_weights(tiles[is_last])


class _Division:
    """The division of a convolution into parts: blocks of rows, and sections of output channels.

    Attributes:
        layout: The layout of the copied rows.
        part_count: The maximum number of parts.
        group_count: The number of groups computed one by one; a depthwise convolution counts as one group.
        blocks: The first row of each block, and the row after its last one.
        sections: The first channel of each section, and the channel after its last one.
        is_shared: Whether rows are copied once for all sections.
    """

    def __init__(self, convolution: QuantizedConvolution, batch: int, geometry: Geometry) -> None:
        c, g = convolution, geometry
        pixels = math.prod(g.output)
        self.layout = layout = PanelLayout(g, c.in_quads)
        work = pixels * c.channels * c.in_quads * 4 * math.prod(g.kernel) * (2 if c.is_depthwise else 1)
        self.part_count = max(1, min(MAX_PARTS, work * batch // MIN_PART_WORK))
        row_count = pixels // layout.row_size
        limit = max(1, PANEL_SIZE // (c.in_quads * layout.phase_count * layout.columns) - g.halo[0])
        step = -(-row_count // -(-row_count // max(1, min(row_count, limit))))
        if g.is_pointwise:
            step += -step % (c.tile[1] * get_lanes())
        self.blocks = list(itertools.pairwise([*range(0, row_count, step), row_count]))
        piece_count = len(self.blocks) * batch
        if c.is_depthwise:  # divided by channels, so that panels are small
            self.group_count, out_channels = 1, c.groups * 4
            panel_rows = min(step, row_count) + g.halo[0]
            fitting = max(1, PANEL_SIZE // (panel_rows * layout.columns * layout.phase_count))
            wanted = min(self.part_count, c.groups) if piece_count < self.part_count else 1
            section_count = max(-(-c.groups // fitting), wanted)
        else:
            self.group_count, out_channels = c.groups, c.out_channels
            section_count = max(1, -(-self.part_count // (piece_count * c.groups)))
        section = -(-out_channels // section_count)
        section += -section % c.tile[0]
        self.sections = [(i, min(i + section, out_channels)) for i in range(0, out_channels, section)]
        size = layout.get_size(step, c.in_quads) * piece_count * c.groups
        self.is_shared = 0 < size <= MAX_SHARED_SIZE and len(self.sections) > 1 and not c.is_depthwise


class _Calls:
    """Creates the kernel calls that compute parts of a convolution.

    Args:
        convolution: The convolution.
        geometry: The windows.
        division: The parts.
        pad: The four codes of a padded pixel.
        epilogue: The address of the epilogue.

    Attributes:
        scratch_size: Bytes of temporary memory that the calls so far need.
        shared_size: Elements of shared memory that they need.
        offsets: The offsets of taps by the number of rows, and the group.
    """

    def __init__(
        self, convolution: QuantizedConvolution, geometry: Geometry, division: _Division, pad: int, epilogue: int
    ) -> None:
        self.convolution, self.geometry, self.division = convolution, geometry, division
        self.pad, self.epilogue = pad, epilogue
        self.multiply = compile_products(*convolution.tile, convolution.form)
        self.scratch_size = self.shared_size = 0
        self.offsets: dict[tuple[int, int], Array] = {}
        self._panel = SCRATCH

    def copy_shared(self, image: int, group: int, block: tuple[int, int]) -> list[list[Call]]:
        """Return the parts that copy rows of a group to a panel, which the following calls read."""
        c, layout = self.convolution, self.division.layout
        size = layout.get_size(block[1] - block[0], c.in_quads)
        self._panel = make_base(3).move(4 * self.shared_size)
        self.shared_size += size
        plane = (image * c.groups + group) * c.in_quads
        return [layout.copy(plane, self._panel, quads, block, self.pad) for quads in divide_copies(c.in_quads, size)]

    def make(self, image: int, group: int, block: tuple[int, int], section: tuple[int, int]) -> list[Call]:
        """Return the calls that copy rows into a panel, unless it is shared, and multiply them by a section's weights.

        Raises:
            NoKernelError: The copied rows take too much memory.
        """
        c, g, division = self.convolution, self.geometry, self.division
        (first, last), (left, right), layout = block, section, division.layout
        tile_rows, vectors = c.tile
        row_count, taps = last - first, c.in_quads * math.prod(g.kernel)
        quad_size = layout.get_quad_size(row_count)
        plane = (image * c.groups + group) * c.in_quads
        planes, panel_step, valid = c.in_quads, 0, c.out_channels - left
        if c.is_depthwise:
            plane += left // 4
            planes, panel_step, valid = (right - left) // 4, quad_size * c.in_quads, c.channels - left
        pixels = row_count * layout.columns - g.halo[1]
        length = pixels + -pixels % 16 + 16 * vectors + 16
        panel_size = layout.get_size(row_count, planes)
        if max(panel_size, tile_rows * length) > MAX_PANEL_SIZE:
            raise NoKernelError("the rows are too long")
        sums_size = align_size(4 * tile_rows * length)
        copies: list[Call] = []
        if g.is_pointwise:
            panel = make_base(0).move(4 * (plane * quad_size + first))
        elif division.is_shared:
            panel, panel_size = self._panel, 0
        else:
            panel = SCRATCH.move(sums_size)
            copies = layout.copy(plane, panel, (0, planes), block, self.pad)
        self.scratch_size = max(self.scratch_size, sums_size + 4 * panel_size)
        if (row_count, group) not in self.offsets:
            self.offsets[row_count, group] = c.order_offsets(group, layout.make_offsets(row_count))
        # The kernel starts at channel 0 of a section, so that it reads the panel of the section.
        channel = group * c.out_channels + left
        addresses = self._list_addresses(group, left, self.offsets[row_count, group])
        row_size = layout.row_size
        shape = (1, pixels) if layout.columns == row_size else (row_count, row_size)
        numbers = (
            *(taps, pixels, length, 0, right - left, valid, panel_step),
            *(image * count_quads(c.channels) * 4 + channel, image * c.channels + channel),
            *(math.prod(g.output), first * row_size, *shape, layout.columns),
        )
        return [*copies, Call(self.multiply, (panel, *addresses, *numbers))]

    def _list_addresses(self, group: int, channel: int, offsets: Array) -> list[Argument]:
        """Return the addresses that the kernel reads and writes, from a channel of a group on."""
        c = self.convolution
        tile, taps = channel // c.tile[0], offsets.shape[-1]
        own_offsets = get_address(offsets) + (offsets.itemsize * taps * tile if c.ordered else 0)
        weights = get_address(c.weights[group]) + 4 * channel * taps
        bias = get_address(c.bias) + c.bias.itemsize * (group * c.padded + channel)
        addresses = [own_offsets, weights, bias, SCRATCH, make_base(1), make_base(2), self.epilogue]
        if c.ordered:
            _, places, wide = c.ordered[group]
            addresses += [get_address(places[tile:]), get_address(wide)]
        return addresses
