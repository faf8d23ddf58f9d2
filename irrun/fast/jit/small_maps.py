"""Convolution with 1x1 windows and small results, whose pixels would leave many lanes empty: the lanes are channels.

A map of 7x7 pixels fills 7 vectors of 8 lanes to seven eighths. A tile of a few pixels and two vectors of channels
stays in registers instead: for each input channel, each pixel is repeated in a vector and multiplied by the weights of
the channels. The pixels of each tile are packed before; if windows have strides, the pixels that they read are copied
before that. Completed tiles are transposed to rows of pixels, and an epilogue completes all rows of some channels
together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import BUFFER, RESULT, TABLE, Binding, Operand
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution_kernels import compile_packing, get_epilogue_address, pack_weights
from irrun.fast.jit.convolution_plan import MAX_PARTS, MIN_PART_WORK, Geometry, divide
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, make_base
from irrun.fast.jit.transposition import transpose_vectors

__all__ = ["SmallMapConvolution", "divide_map", "has_small_map"]

Array = np.ndarray[Any, Any]

#: Number of lanes, and maximum number of pixels and of vectors of a tile. With their sums, a vector that repeats a
#: pixel and the weights, they fill 15 of 16 registers.
LANES, PIXELS, VECTORS = 8, 6, 2
#: Channels of a tile.
CHANNELS = LANES * VECTORS
#: Numbers of pixels of a tile for which there is code.
SIZES = (PIXELS - 1, PIXELS)
#: Maximum share of the lanes that hold pixels in vectors of neighboring pixels.
MAX_SHARE = 0.9
#: Maximum number of parts that pack the pixels of an image, and minimum number of their elements.
MAX_COPIES, MIN_COPIED_SIZE = 8, 1 << 13
#: Minimum number of input channels: tiles are transposed once for all of them.
MIN_CHANNELS = 96


def divide_map(count: int) -> list[tuple[int, int]]:
    """Return the first pixel and the pixel after the last one of each tile of a map, similar numbers of pixels."""
    return divide(count, -(-count // PIXELS))


def has_small_map(geometry: Geometry, filters: tuple[int, ...]) -> bool:
    """Return whether `SmallMapConvolution` is faster than others for filters of shape [GROUPS, CO, CI, KH, KW]."""
    groups, out_channels, in_channels = filters[:3]
    count = math.prod(geometry.output)
    is_small = count <= MAX_SHARE * (count + -count % LANES) and {b - a for a, b in divide_map(count)} <= {*SIZES}
    is_whole = out_channels >= MAX_SHARE * (out_channels + -out_channels % CHANNELS)
    is_pointwise = geometry.kernel == (1, 1) and geometry.pads_begin == geometry.pads_end == (0, 0)
    is_supported = get_lanes() == LANES and is_pointwise and groups == 1
    return is_supported and is_small and is_whole and in_channels >= MIN_CHANNELS


@cache_kernel
def compile_map_packing() -> Kernel:
    """Return the kernel that packs the pixels of all tiles of some input channels."""
    integers = ("first", "last", "inner", "plane", "tile_count")
    f = Function("pack_map", [("data", "ptr"), ("packed", "ptr"), *((n, "i64") for n in integers)], LANES)
    p = f.parameters
    with f.loop(0, p["tile_count"]) as tile:
        first, stop = _find_pixels(f, tile)
        mask = f.mask_range(0, stop - first)
        source, target = f.offset(p["data"], first), f.offset(p["packed"], tile * p["inner"] * LANES)
        with f.loop(p["first"], p["last"]) as channel:
            vector = f.load(f.offset(source, channel * p["plane"]), f.vector, mask)
            f.store(vector, f.offset(target, channel * LANES))
    return compile_function(f)


def _find_pixels(f: Function, tile: Value) -> tuple[Value, Value]:
    """Append the first pixel of a tile and the pixel after its last one; see `divide_map`."""
    plane, count = f.parameters["plane"], f.parameters["tile_count"]
    first, stop = (f.emit("i64", f"sdiv i64 {plane * (tile + i)}, {count}") for i in (0, 1))
    return first, stop


@cache_kernel
def compile_small_map() -> Kernel:
    """Return the kernel that computes the results of some channels and calls the epilogue."""
    names = ("packed", "weights", "block", "result", "operands", "epilogue")
    integers = ("inner", "plane", "length", "tile_count", "first", "last", "channel_offset")
    f = Function("convolve_small_map", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], LANES)
    p = f.parameters
    accumulators = [[f.variable(f.vector, 0.0) for _ in range(VECTORS)] for _ in range(PIXELS)]

    def add_products(size: int, weights: Value, packed: Value) -> None:
        """Append the sums of a tile of pixels."""
        for variable in itertools.chain(*accumulators[:size]):
            variable.set(0.0)
        with f.loop(0, p["inner"]) as channel:
            pixels, factors = f.offset(packed, channel * LANES), f.offset(weights, channel * CHANNELS)
            f.prefetch(f.offset(factors, p["inner"] * CHANNELS))  # the factors of the next channels
            columns = [f.load(f.offset(factors, i * LANES), f.vector) for i in range(VECTORS)]
            for i, line in enumerate(accumulators[:size]):
                pixel = f.splat(f.load(f.offset(pixels, i)), f.vector)
                for column, variable in zip(columns, line, strict=True):
                    variable.set(f.multiply_add(column, pixel, variable.get()))

    def store(size: int, first: Value) -> None:
        """Append the transposition of a tile to rows of pixels. Later tiles overwrite the pixels beyond its size."""
        for i in range(VECTORS):
            columns = [accumulators[min(n, size - 1)][i].get() for n in range(LANES)]
            for lane, line in enumerate(transpose_vectors(f, columns)):
                f.store(line, f.offset(p["block"], p["length"] * (i * LANES + lane) + first))

    with f.loop(p["first"], p["last"], CHANNELS) as channel:
        weights = f.offset(p["weights"], channel * p["inner"])
        with f.loop(0, p["tile_count"]) as tile:
            first, stop = _find_pixels(f, tile)
            packed = f.offset(p["packed"], tile * p["inner"] * LANES)
            for size in SIZES:
                with f.when(f.compare("eq", stop - first, size)):
                    add_products(size, weights, packed)
                    store(size, first)
        number = channel + p["channel_offset"]
        f.append(
            f"call void {p['epilogue']}(ptr {p['block']}, i64 {p['length']}, ptr {p['result']}, "
            f"i64 {number * p['plane']}, i64 {f.min(p['last'] - channel, CHANNELS)}, i64 {p['plane']}, "
            f"i64 {p['plane']}, ptr {p['operands']}, i64 {number})"
        )
    return compile_function(f)


class SmallMapConvolution:
    """A convolution of one group with constant weights, 1x1 windows and no pads.

    Args:
        filters: f32, shape [1, CO, CI, 1, 1].
    """

    def __init__(self, filters: Array) -> None:
        self.out_channels, self.in_channels = filters.shape[1:3]
        self.weights = pack_weights(filters[0], CHANNELS)

    def make_binding(
        self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()
    ) -> Binding:
        """Return the convolution for data of one shape; see `DirectConvolution.make_binding`."""
        plane, inner = math.prod(geometry.output), self.in_channels
        tile_count = len(divide_map(plane))
        length = plane + -plane % LANES + LANES  # the last tile extends beyond the map
        packed_size = LANES * inner * tile_count
        row_tiles = -(-self.out_channels // CHANNELS)
        part_count = max(1, min(MAX_PARTS, batch * self.out_channels * inner * plane // MIN_PART_WORK))
        copy_count = max(1, min(MAX_COPIES, inner * plane // MIN_COPIED_SIZE))
        places = (SCRATCH, make_base(1), make_base(2), get_epilogue_address(expression, "whole channels"))
        stages: list[list[list[Call]]] = [[], []]
        parts = []
        for image in range(batch):
            packed = make_base(3).move(4 * image * packed_size)
            source = data = make_base(0).move(4 * image * inner * math.prod(geometry.size))
            if not geometry.is_pointwise:
                source = make_base(3).move(4 * (batch * packed_size + image * inner * plane))
            for section in divide(inner, copy_count):
                if source is not data:
                    stages[0].append([self._copy_pixels(geometry, data, source, section)])
                stages[1].append([Call(compile_map_packing(), (source, packed, *section, inner, plane, tile_count))])
            for a, b in divide(row_tiles, max(1, min(row_tiles, -(-part_count // batch)))):
                section = (a * CHANNELS, min(b * CHANNELS, self.out_channels))
                sizes = (inner, plane, length, tile_count, *section, image * self.out_channels)
                arguments = (packed, get_address(self.weights), *places, *sizes)
                parts.append([Call(compile_small_map(), arguments)])
        task = Task(parts, 4 * CHANNELS * length)
        task.keep(self.weights)
        tasks = [*(Task(stage) for stage in stages if stage), task]
        shape = (batch, self.out_channels, *geometry.output)
        buffer_size = batch * (packed_size + (0 if geometry.is_pointwise else inner * plane))
        return Binding(shape, tasks, (0, RESULT, TABLE, BUFFER), operands, buffer_size)

    def _copy_pixels(self, geometry: Geometry, data: Address, target: Address, channels: tuple[int, int]) -> Call:
        """Return the call that copies the pixels of the windows of some input channels."""
        first, last = channels
        size, plane = math.prod(geometry.size), math.prod(geometry.output)
        (rows, columns), (row_stride, stride) = geometry.output, geometry.strides
        places = (data.move(4 * first * size), target.move(4 * first * plane))
        lines = (0, row_stride, rows, *geometry.size)
        return Call(compile_packing(), (*places, last - first, size, plane, *lines, 0, stride, columns))
