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
from irrun.fast.jit.quantized_code import (
    compile_packing,
    compile_products,
    count_quads,
    get_epilogue_address,
    get_tile,
)
from irrun.fast.jit.tasks import SCRATCH, Address, Argument, Call, Task, align_size, make_base

__all__ = ["MAX_PANEL_SIZE", "QuantizedConvolution"]

Array = np.ndarray[Any, Any]

#: Elements (i32) per block of copied rows: 384 KiB, less than the L2 cache.
PANEL_SIZE = 96 << 10
#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 21, 16
#: Maximum size of the copied rows, and of the sums of a tile of channels: 64 MiB.
MAX_PANEL_SIZE = 1 << 24


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
        #: The order, the places and the wide weights of the taps of each group; see `_order_taps`.
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
                self.weights[i], *ordered = _order_taps(packed, rows, self.in_quads * math.prod(kernel))
                self.ordered.append((ordered[0], ordered[1], ordered[2]))

    def order_offsets(self, group: int, offsets: Array) -> Array:
        """Return the offsets of taps as the kernel reads them: for each tile if tiles have orders of their own."""
        return np.ascontiguousarray(offsets[self.ordered[group][0]]) if self.ordered else offsets

    def make_task(self, batch: int, geometry: Geometry, pad: int, expression: Expression, is_coded: bool) -> Task:
        """Return the convolution for contiguous data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            pad: The four codes of a padded pixel.
            expression: The epilogue; see `quantized_code.compile_epilogue`.
            is_coded: Whether the result is codes.

        Returns:
            The task for the data, the result, and the table of the epilogue's operands.

        Raises:
            NoKernelError: The copied rows take too much memory.
        """
        division = _Division(self, batch, geometry)
        calls = _Calls(self, geometry, division, pad, get_epilogue_address(expression, is_coded))
        places = itertools.product(range(batch), range(division.group_count), division.blocks, division.sections)
        pieces = list(itertools.starmap(calls.make, places))
        count = min(division.part_count, len(pieces))
        parts = [pieces[len(pieces) * i // count : len(pieces) * (i + 1) // count] for i in range(count)]
        task = Task(map(itertools.chain.from_iterable, parts), calls.scratch_size)
        task.keep(*calls.offsets.values(), *self.weights, self.bias, *itertools.chain(*self.ordered))
        return task


def _pack_weights(codes: Array, rows: int) -> Array:
    """Return codes [CO, CI, KH, KW] in the order that tiles read, [CO / R, CI / 4 * KH * KW, R, 4]."""
    count, channels, *kernel = codes.shape
    quads, taps = count_quads(channels), math.prod(kernel)
    tiles = -(-count // rows)
    padded = np.zeros((tiles * rows, quads * 4, taps), np.int8)
    padded[:count, :channels] = codes.reshape(count, channels, taps)
    order = padded.reshape(tiles, rows, quads, 4, taps).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(order).reshape(-1)


def _order_taps(packed: Array, rows: int, taps: int) -> tuple[Array, Array, Array, Array]:
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
        row_size: Pixels of a row of the result; pointwise convolutions have rows of one pixel.
        columns: Pixels of a copied row.
        part_count: The maximum number of parts.
        group_count: The number of groups computed one by one; a depthwise convolution counts as one group.
        blocks: The first row of each block, and the row after its last one.
        sections: The first channel of each section, and the channel after its last one.
    """

    def __init__(self, convolution: QuantizedConvolution, batch: int, geometry: Geometry) -> None:
        c, g = convolution, geometry
        pixels = math.prod(g.output)
        self.row_size = 1 if g.is_pointwise else g.output[1]
        self.columns = self.row_size + g.halo[1]
        work = pixels * c.channels * c.in_quads * 4 * math.prod(g.kernel) * (2 if c.is_depthwise else 1)
        self.part_count = max(1, min(MAX_PARTS, work * batch // MIN_PART_WORK))
        row_count = pixels // self.row_size
        limit = max(1, PANEL_SIZE // (c.in_quads * len(g.phases) * self.columns) - g.halo[0])
        step = -(-row_count // -(-row_count // max(1, min(row_count, limit))))
        if g.is_pointwise:
            step += -step % (c.tile[1] * get_lanes())
        self.blocks = list(itertools.pairwise([*range(0, row_count, step), row_count]))
        piece_count = len(self.blocks) * batch
        if c.is_depthwise:  # divided by channels, so that panels are small
            self.group_count, out_channels = 1, c.groups * 4
            panel_rows = min(step, row_count) + g.halo[0]
            fitting = max(1, PANEL_SIZE // (panel_rows * self.columns * len(g.phases)))
            wanted = min(self.part_count, c.groups) if piece_count < self.part_count else 1
            section_count = max(-(-c.groups // fitting), wanted)
        else:
            self.group_count, out_channels = c.groups, c.out_channels
            section_count = max(1, -(-self.part_count // (piece_count * c.groups)))
        section = -(-out_channels // section_count)
        section += -section % c.tile[0]
        self.sections = [(i, min(i + section, out_channels)) for i in range(0, out_channels, section)]


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
        offsets: The offsets of taps by the size of a phase of a panel, and the group.
    """

    def __init__(
        self, convolution: QuantizedConvolution, geometry: Geometry, division: _Division, pad: int, epilogue: int
    ) -> None:
        self.convolution, self.geometry, self.division = convolution, geometry, division
        self.pad, self.epilogue = pad, epilogue
        self.multiply, self.pack = compile_products(*convolution.tile, convolution.form), compile_packing()
        self.scratch_size = 0
        self.offsets: dict[tuple[int, int], Array] = {}

    def make(self, image: int, group: int, block: tuple[int, int], section: tuple[int, int]) -> list[Call]:
        """Return the calls that copy rows into a panel and multiply them by the weights of a section.

        Raises:
            NoKernelError: The copied rows take too much memory.
        """
        c, g, columns, row_size = self.convolution, self.geometry, self.division.columns, self.division.row_size
        (first, last), (left, right) = block, section
        tile_rows, vectors = c.tile
        row_count, taps = last - first, c.in_quads * math.prod(g.kernel)
        plane_in = math.prod(g.size)
        size = 0 if g.is_pointwise else (row_count + g.halo[0]) * columns
        quad_size = plane_in if g.is_pointwise else size * len(g.phases)
        plane = (image * c.groups + group) * c.in_quads
        planes, panel_step, valid = c.in_quads, 0, c.out_channels - left
        if c.is_depthwise:
            plane += left // 4
            planes, panel_step, valid = (right - left) // 4, quad_size * c.in_quads, c.channels - left
        pixels = row_count * columns - g.halo[1]
        length = pixels + -pixels % 16 + 16 * vectors + 16
        panel_size = 0 if g.is_pointwise else planes * quad_size + 64
        if max(panel_size, tile_rows * length) > MAX_PANEL_SIZE:
            raise NoKernelError("the rows are too long")
        sums_size = align_size(4 * tile_rows * length)
        self.scratch_size = max(self.scratch_size, sums_size + 4 * panel_size)
        if g.is_pointwise:
            panel, copies = make_base(0).move(4 * (plane * plane_in + first)), []
        else:
            panel = SCRATCH.move(sums_size)
            copies = self._copy_rows(make_base(0).move(4 * plane * plane_in), panel, planes, block)
        if (size, group) not in self.offsets:
            self.offsets[size, group] = c.order_offsets(group, _make_offsets(g, c.in_quads, quad_size, size, columns))
        # The kernel starts at channel 0 of a section, so that it reads the panel of the section.
        channel = group * c.out_channels + left
        addresses = self._list_addresses(group, left, self.offsets[size, group])
        shape = (1, pixels) if columns == row_size else (row_count, row_size)
        numbers = (
            *(taps, pixels, length, 0, right - left, valid, panel_step),
            *(image * count_quads(c.channels) * 4 + channel, image * c.channels + channel),
            *(math.prod(g.output), first * row_size, *shape, columns),
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

    def _copy_rows(self, source: Address, panel: Address, planes: int, block: tuple[int, int]) -> list[Call]:
        """Return the calls that copy the padded rows of a block of some planes to the phases of a panel."""
        g, columns = self.geometry, self.division.columns
        rows = block[1] - block[0] + g.halo[0]
        size = rows * columns
        calls = []
        for i, (y, x) in enumerate(g.phases):
            has_pairs = g.strides[1] == 2 and {(y, 0), (y, 1)} <= {*g.phases}
            if has_pairs and x:
                continue  # copied together with the even columns
            row = block[0] * g.strides[0] + y - g.pads_begin[0]
            place = (planes, math.prod(g.size), size * len(g.phases), row, g.strides[0], rows, *g.size)
            line = (x - g.pads_begin[1], g.strides[1], columns, size if has_pairs else 0, self.pad)
            calls.append(Call(self.pack, (source, panel.move(4 * i * size), *place, *line)))
        return calls


def _make_offsets(g: Geometry, quads: int, quad_size: int, size: int, columns: int) -> Array:
    """Return the offset of each tap in the panel, for each group of four channels."""
    (dy, dx), (sy, sx) = g.dilations, g.strides
    taps = [
        g.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * columns + dx * x // sx
        for y in range(g.kernel[0])
        for x in range(g.kernel[1])
    ]
    starts = np.arange(quads, dtype=np.int64)[:, np.newaxis] * quad_size
    return (starts + np.array(taps, np.int64)).reshape(-1)
