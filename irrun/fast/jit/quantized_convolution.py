"""Convolution of codes: the data and the weights are 8-bit integers, the sums i32.

Data has the layout [N, C / 4, H, W, 4]: an element of i32 holds the codes of four channels of a pixel. As in the module
`convolution`, a block of padded rows is copied to phases, and every tap reads it at an offset. A tile of several output
channels and several vectors of neighboring pixels stays in registers. An epilogue completes four channels at a time: it
scales the sums and either stores f32 [N, C, H, W], or quantizes them and stores codes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.compiler import get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.quantized_code import (
    compile_packing,
    compile_products,
    count_quads,
    get_epilogue_address,
    get_tile,
)
from irrun.fast.jit.tasks import SCRATCH, Call, Task, align_size, make_base

__all__ = ["MAX_PANEL_SIZE", "QuantizedConvolution"]

Array = np.ndarray[Any, Any]

#: Elements of i32 of a block of copied rows: 384 KiB, less than the second level of caches.
PANEL_SIZE = 96 << 10
#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 21, 16
#: Elements of the copied rows, and of the sums of a tile of channels, at most: 64 MiB.
MAX_PANEL_SIZE = 1 << 24


class QuantizedConvolution:
    """A convolution with constant codes of weights.

    Args:
        filters: Codes of i8, shape [GROUPS, CO, CI, KH, KW]. With several groups, CI and CO are multiples of 4, unless
            both are 1.
        bias: What is added to the sums: i32, shape [GROUPS * CO].

    Raises:
        NoKernelError: The channels of the groups are of other numbers.
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
        self.bias = np.zeros((self.groups, self.padded), np.int32)
        own = np.zeros(self.groups * self.out_channels, np.int32)
        own[: self.channels] = bias
        self.bias[:, : self.out_channels] = own.reshape(self.groups, self.out_channels)
        if self.is_depthwise:
            # All groups are channels of one, each tile of which reads its own data.
            self.weights = [np.concatenate(self.weights)]
            self.bias = self.bias.reshape(1, -1)

    def make_function(
        self, batch: int, geometry: Geometry, pad: int, expression: Expression, is_coded: bool
    ) -> Callable[[Array, Array], Array]:
        """Return the convolution for data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            pad: The four codes of a padded pixel.
            expression: The epilogue; see `quantized_code.compile_epilogue`.
            is_coded: Whether the result is codes.

        Returns:
            A function of the data (contiguous codes) and of the addresses of the operands of the epilogue in i64.

        Raises:
            NoKernelError: The copied rows take too much memory.
        """
        task = _make_task(self, batch, geometry, pad, get_epilogue_address(expression, is_coded))
        output = geometry.output
        shape = (batch, count_quads(self.channels), *output, 4) if is_coded else (batch, self.channels, *output)
        dtype = np.dtype(np.uint8 if is_coded else np.float32)

        def convolve(data: Array, operands: Array) -> Array:
            result = np.empty(shape, dtype)
            task.run(get_address(data), get_address(result), get_address(operands))
            return result

        return convolve


def _pack_weights(codes: Array, rows: int) -> Array:
    """Return codes [CO, CI, KH, KW] in the order in which tiles read them, [CO / R, CI / 4 * KH * KW, R, 4]."""
    count, channels, *kernel = codes.shape
    quads, taps = count_quads(channels), math.prod(kernel)
    tiles = -(-count // rows)
    padded = np.zeros((tiles * rows, quads * 4, taps), np.int8)
    padded[:count, :channels] = codes.reshape(count, channels, taps)
    order = padded.reshape(tiles, rows, quads, 4, taps).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(order).reshape(-1)


def _make_task(convolution: QuantizedConvolution, batch: int, geometry: Geometry, pad: int, epilogue: int) -> Task:
    """Return the calls of the kernels for the data, the result, and the table of the epilogue's operands."""
    c, g = convolution, geometry
    height, width = g.output
    is_pointwise = g.is_pointwise
    row_size = 1 if is_pointwise else width
    row_count = height * width // row_size
    columns = row_size + g.halo[1]
    planes = c.groups * c.in_quads if c.is_depthwise else c.in_quads
    group_count = 1 if c.is_depthwise else c.groups
    out_channels = c.groups * 4 if c.is_depthwise else c.out_channels
    tile_rows, vectors = c.tile
    # Depthwise convolutions are divided by channels, so that panels are small.
    work = height * width * c.channels * c.in_quads * 4 * math.prod(g.kernel)
    if c.is_depthwise:
        work *= 2
    per_row = c.in_quads * len(g.phases) * columns
    limit = max(1, PANEL_SIZE // per_row - g.halo[0])
    rows = max(1, min(row_count, limit))
    step = -(-row_count // -(-row_count // rows))
    if is_pointwise:
        multiple = vectors * get_lanes()
        step += -step % multiple
    bounds = [*range(0, row_count, step), row_count]
    blocks = list(itertools.pairwise(bounds))
    parts = max(1, min(MAX_PARTS, work * batch // MIN_PART_WORK))
    if c.is_depthwise:
        panel_rows = min(step, row_count) + g.halo[0]
        fitting = max(1, PANEL_SIZE // (panel_rows * columns * len(g.phases)))
        section_count = max(-(-c.groups // fitting), min(parts, c.groups) if len(blocks) * batch < parts else 1)
    else:
        section_count = max(1, -(-parts // (len(blocks) * batch * group_count)))
    section = -(-out_channels // section_count)
    section += -section % tile_rows
    sections = [(i, min(i + section, out_channels)) for i in range(0, out_channels, section)]
    offsets: dict[int, Array] = {}
    multiply, pack = compile_products(*c.tile), compile_packing()
    calls: list[list[Call]] = []
    scratch_size = 0
    plane_in, plane_out = math.prod(g.size), height * width
    channel_step = count_quads(c.channels) * 4
    for image in range(batch):
        for group in range(group_count):
            for first, last in blocks:
                for left, right in sections:
                    panel_rows = 0 if is_pointwise else last - first + g.halo[0]
                    size = panel_rows * columns
                    quad_size = plane_in if is_pointwise else size * len(g.phases)
                    if panel_rows not in offsets:
                        offsets[panel_rows] = _make_offsets(g, c.in_quads, quad_size, size, columns)
                    first_plane = image * c.groups * c.in_quads + group * c.in_quads
                    panel_planes, panel_step = planes, 0
                    if c.is_depthwise:
                        first_plane += left // 4
                        panel_planes, panel_step = (right - left) // 4, quad_size * c.in_quads
                    source = make_base(0).move(4 * (first_plane * plane_in + (first if is_pointwise else 0)))
                    pixels = (last - first) * columns - g.halo[1]
                    length = pixels + -pixels % 16 + 16 * vectors + 16
                    # The kernel starts at channel 0 of a section, so that its panel is that of the section.
                    shape = (1, pixels) if columns == row_size else (last - first, row_size)
                    channel = image * channel_step + group * c.out_channels + left
                    number = image * c.channels + group * c.out_channels + left
                    taps = c.in_quads * math.prod(g.kernel)
                    valid = (c.channels if c.is_depthwise else c.out_channels) - left
                    arguments = (
                        *(taps, pixels, length, 0, right - left, valid, panel_step, channel, number),
                        *(plane_out, first * row_size, *shape, columns),
                    )
                    panel_size = 0 if is_pointwise else panel_planes * quad_size + 64
                    if max(panel_size, tile_rows * length) > MAX_PANEL_SIZE:
                        raise NoKernelError("expected smaller rows")
                    panel = source if is_pointwise else SCRATCH.move(align_size(4 * tile_rows * length))
                    scratch_size = max(scratch_size, align_size(4 * tile_rows * length) + 4 * panel_size)
                    own: list[Call] = []
                    for i, (y, x) in enumerate(() if is_pointwise else g.phases):
                        has_pairs = g.strides[1] == 2 and {(y, 0), (y, 1)} <= {*g.phases}
                        if has_pairs and x:
                            continue  # copied together with the even columns
                        row = first * g.strides[0] + y - g.pads_begin[0]
                        line = (x - g.pads_begin[1], g.strides[1], columns, size if has_pairs else 0, pad)
                        place = (panel_planes, plane_in, quad_size, row, g.strides[0], panel_rows, *g.size, *line)
                        own.append(Call(pack, (source, panel.move(4 * i * size), *place)))
                    weights = get_address(c.weights[group]) + left * taps * 4
                    tables = (
                        get_address(offsets[panel_rows]),
                        weights,
                        get_address(c.bias) + 4 * (group * c.padded + left),
                    )
                    places = (SCRATCH, make_base(1), make_base(2), epilogue)
                    calls.append([*own, Call(multiply, (panel, *tables, *places, *arguments))])
    count = min(parts, len(calls))
    groups = [calls[len(calls) * i // count : len(calls) * (i + 1) // count] for i in range(count)]
    task = Task(map(itertools.chain.from_iterable, groups), scratch_size)
    task.keep(*offsets.values(), *c.weights, c.bias)
    return task


def _make_offsets(g: Geometry, quads: int, quad_size: int, size: int, columns: int) -> Array:
    """Return the offset of each tap of each four channels in the panel."""
    (dy, dx), (sy, sx) = g.dilations, g.strides
    taps = [
        g.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * columns + dx * x // sx
        for y in range(g.kernel[0])
        for x in range(g.kernel[1])
    ]
    starts = np.arange(quads, dtype=np.int64)[:, np.newaxis] * quad_size
    return (starts + np.array(taps, np.int64)).reshape(-1)
