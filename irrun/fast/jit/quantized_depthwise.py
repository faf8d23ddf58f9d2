"""Depthwise convolution of codes to codes: data, weights and results are 8-bit integers, sums i32.

Data has the layout [N, C / 4, H, W, 4], as in `quantized_convolution`. A vector of neighboring pixels holds the four
channels of a pixel in each element of i32. Four such vectors, one for each of four neighboring taps of a row, are
transposed to four others that hold the codes of the four taps of a channel in each element. One dot product then
multiplies them by the taps of the channels. A 128-bit lane holds the sums of the four channels of a pixel, and
complete pixels are stored. Pixels outside the data are masked, so no padded copy is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes, has_feature
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.dot_products import DotProduct, get_dot_product
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.quantized_code import count_quads, join_pixels
from irrun.fast.jit.tasks import Argument, Task, make_base, make_range_task

__all__ = ["QuantizedDepthwiseConvolution"]

Array = np.ndarray[Any, Any]

#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 17, 16
#: Maximum number of taps: the kernel has code for each.
MAX_TAPS = 64
#: Maximum dilation: there are pads for all taps of a row.
MAX_DILATION = 256
#: Rows of results that are computed together; fewer for filters of more than three rows without 512-bit vectors,
#: where the sums do not stay in registers.
HEIGHTS, FEW_HEIGHTS = (5, 4), (2,)
#: Channels per element, and taps per dot product.
QUAD = 4
#: Minimum number of elements of vectors, one 128-bit lane.
MIN_LANES = 4


@dataclass(frozen=True)
class _Layout:
    """The parameters of a kernel's code.

    Attributes:
        kernel: The size of the filter.
        strides: The strides; the one along rows is 1 or 2.
        dilations: The dilations.
        height: Rows of results that are computed together and share rows of the data.
        form: The form of the dot products.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    height: int
    form: DotProduct

    @property
    def groups(self) -> int:
        """The number of groups of four taps in a row of the filter."""
        return count_quads(self.kernel[1])

    @functools.cached_property
    def uses(self) -> dict[int, list[tuple[int, int]]]:
        """By row of the data, relative to the first one: the rows of results and of the filter that use it."""
        uses: dict[int, list[tuple[int, int]]] = {}
        for row in range(self.height):
            for y in range(self.kernel[0]):
                uses.setdefault(row * self.strides[0] + y * self.dilations[0], []).append((row, y))
        return dict(sorted(uses.items()))

    @property
    def reach(self) -> int:
        """The distance between the first and the last tap of a row."""
        return (self.kernel[1] - 1) * self.dilations[1]


class _Channels(NamedTuple):
    """Four channels.

    Attributes:
        number: The number of the group of four, in all images.
        source: The address of their data.
        bias: Their bias.
        weights: Their weights for each row of the filter and group of taps.
        operands: The operands of the epilogue for each channel, or scalars.
    """

    number: Value
    source: Value
    bias: Value
    weights: list[list[Value]]
    operands: list[Value]


class _Place(NamedTuple):
    """The place of a tile: its first row and column, and whether all pixels that it reads and writes are inside."""

    row: Value
    column: Value
    is_inside: bool


@cache_kernel
def compile_depthwise(layout: _Layout, expression: Expression) -> Kernel:
    """Return the kernel of a layout, with the epilogue of `quantized_code.compile_epilogue` to codes.

    `border` has pads for a vector of pixels. Operands are "channel" or "scalar".
    """
    return compile_function(_Code(layout, expression).function)


class _Code:
    """The code of a kernel."""

    def __init__(self, layout: _Layout, expression: Expression) -> None:
        self.layout, self.expression = layout, expression
        names = ("data", "weights", "bias", "border", "result", "operands")
        integers = ("pad", "quads", "height", "width", "rows", "columns", "top", "left", "first", "last")
        parameters = [*((n, "ptr") for n in names), *((n, "i64") for n in integers)]
        f = self.function = Function("convolve_channels", parameters, get_lanes())
        p = self.parameters = f.parameters
        self.pad = f.convert("trunc", p["pad"], "i32")
        last_row = p["rows"] - layout.height
        with f.loop(p["first"], p["last"]) as number:
            channels = self.load_channels(number)
            with f.loop(0, p["rows"], layout.height) as start:
                # The last rows are computed again if their number is not a multiple of the height.
                self.add_rows(channels, f.min(start, last_row))

    def load_channels(self, number: Value) -> _Channels:
        """Append the code that loads what is the same for all pixels of four channels."""
        f, p, layout = self.function, self.parameters, self.layout
        quad = f.emit("i64", f"srem i64 {number}, {p['quads']}")
        taps = f.offset(p["weights"], quad * (QUAD * layout.kernel[0] * layout.groups))
        weights = [
            [f.load(f.offset(taps, QUAD * (y * layout.groups + g)), "<4 x i32>") for g in range(layout.groups)]
            for y in range(layout.kernel[0])
        ]
        operands = []
        for i, kind in enumerate(self.expression.kinds):
            pointer = f.load(f.offset(p["operands"], i, "ptr"), "ptr")
            is_scalar = kind == "scalar"
            operands.append(f.load(pointer) if is_scalar else f.load(f.offset(pointer, number * QUAD), "<4 x float>"))
        source = f.offset(p["data"], number * p["height"] * p["width"])
        bias = f.load(f.offset(p["bias"], quad * QUAD), "<4 x i32>")
        return _Channels(number, source, bias, weights, operands)

    def add_rows(self, channels: _Channels, row: Value) -> None:
        """Append the code of some rows of results: whole vectors, then one of the size of the rest."""
        f, columns, lanes = self.function, self.parameters["columns"], self.function.lanes
        rest = f.emit("i64", f"srem i64 {columns}, {lanes}")
        with f.loop(0, columns - rest, lanes) as column:
            f.choose(
                self.is_inside(column),
                lambda: self.add_tile(channels, _Place(row, column, True)),
                lambda: self.add_tile(channels, _Place(row, column, False)),
            )
        last = _Place(row, columns - rest, False)
        limit = lanes // 2 if lanes // 2 >= MIN_LANES else 0
        with f.when(f.compare("sgt", rest, limit)):
            self.add_tile(channels, last)
        if limit:
            with f.when(f.compare("sgt", rest, 0) & f.compare("sle", rest, limit)), _use_lanes(f, limit):
                self.add_tile(channels, last)

    def is_inside(self, column: Value) -> Value:
        """Return whether all pixels that a vector of windows loads are inside the data."""
        f, p = self.function, self.parameters
        first = column * self.layout.strides[1] - p["left"]
        last = first + max(self.list_loads()) + f.lanes
        return f.compare("sge", first, 0) & f.compare("sle", last, p["width"])

    def add_tile(self, channels: _Channels, place: _Place) -> None:
        """Append the sums and the epilogue of some rows of a vector of windows."""
        f, p, layout = self.function, self.parameters, self.layout
        first = place.column * layout.strides[1] - p["left"]
        masks = None if place.is_inside else self.make_masks(first)
        bias = _repeat(f, channels.bias)
        weights = [[layout.form.prepare_weights(f, _repeat(f, w)) for w in row] for row in channels.weights]
        sums = [[bias] * QUAD for _ in range(layout.height)]
        for distance, uses in layout.uses.items():
            line = self.find_line(channels, place.row * layout.strides[0] - p["top"] + distance, first)
            for group, vectors in enumerate(self.load_taps(line, masks)):
                for i, vector in enumerate(vectors):
                    data = layout.form.prepare_data(f, vector)
                    for row, y in uses:
                        sums[row][i] = layout.form.add(f, sums[row][i], data, weights[y][group])
        for row, own in enumerate(sums):
            self.complete(channels, place, row, own)

    def find_line(self, channels: _Channels, row: Value, column: Value) -> Value:
        """Return the address of the pixels of a row from a column on, or of pads for rows outside the data."""
        f, p = self.function, self.parameters
        is_row = f.compare("ult", row, p["height"])
        return f.select(is_row, f.offset(channels.source, row * p["width"] + column), p["border"])

    def list_loads(self) -> list[int]:
        """Return the distances of the vectors of pixels that the taps of a row need, from the first pixel."""
        layout, lanes = self.layout, self.function.lanes
        if self.permutes:
            starts = range(0, layout.kernel[1] * layout.dilations[1], QUAD * layout.dilations[1])
            return [start + shift for start in starts for shift in (0, lanes)]
        taps = range(0, layout.reach + 1, layout.dilations[1])
        return sorted({tap + shift for tap in taps for shift in self.list_shifts(tap)})

    def list_shifts(self, tap: int) -> tuple[int, ...]:
        """Return the distances of the vectors that contain the pixels of a tap, from the pixel of the tap."""
        if self.layout.strides[1] == 1:
            return (0,)
        # The pixels of an odd tap are the odd elements of the vectors of the tap before it.
        start = -1 if tap % 2 and self.layout.dilations[1] == 1 else 0
        return start, start + self.function.lanes

    @property
    def permutes(self) -> bool:
        """Whether bytes of two vectors are selected in one instruction."""
        reach = (QUAD - 1) * self.layout.dilations[1]
        return self.layout.strides[1] == 1 and reach <= self.function.lanes and has_feature("avx512vbmi")

    def make_masks(self, first: Value) -> dict[int, Value]:
        """Return the masks of the pixels inside the data by the distances of vectors."""
        f, width = self.function, self.parameters["width"]
        return {n: f.mask_range(0 - (first + n), width - (first + n)) for n in self.list_loads()}

    def load_taps(self, line: Value, masks: dict[int, Value] | None) -> Iterator[list[Value]]:
        """Load a row, and return four vectors for each group of four taps.

        Element 4i + c of vector j contains the codes of the taps of channel c of window 4i + j.
        """
        f, layout = self.function, self.layout
        pads = f.splat(self.pad, f.integers())

        @functools.cache
        def load(distance: int) -> Value:
            mask = None if masks is None else masks[distance]
            pixels = f.load(f.offset(line, distance), f.integers(), mask)
            return pixels if mask is None else f.select(mask, pixels, pads)

        for group in range(layout.groups):
            count = min(QUAD, layout.kernel[1] - QUAD * group)
            taps = [(QUAD * group + min(i, count - 1)) * layout.dilations[1] for i in range(QUAD)]
            if self.permutes:
                halves = load(taps[0]), load(taps[0] + f.lanes)
                yield [_permute_taps(f, halves, [j + tap - taps[0] for tap in taps]) for j in range(QUAD)]
            else:
                vectors = {tap: self.select_pixels(tap, [load(tap + n) for n in self.list_shifts(tap)]) for tap in taps}
                yield _transpose_taps(f, [vectors[tap] for tap in taps])

    def select_pixels(self, tap: int, vectors: Sequence[Value]) -> Value:
        """Return the pixels of a tap of all windows."""
        f = self.function
        if len(vectors) == 1:
            return vectors[0]
        start = -self.list_shifts(tap)[0]
        return f.shuffle(vectors, range(start, 2 * f.lanes, 2))

    def complete(self, channels: _Channels, place: _Place, row: int, sums: Sequence[Value]) -> None:
        """Append the epilogue of a row of a vector of windows."""
        f, p = self.function, self.parameters
        operands = [_repeat(f, x) if x.lanes else f.splat(x, f.vector) for x in channels.operands]
        levels = [evaluate(f, self.expression, f.convert("sitofp", x, f.vector), operands) for x in sums]
        start = (channels.number * p["rows"] + place.row + row) * p["columns"] + place.column
        mask = None if place.is_inside else f.mask_range(0, p["columns"] - place.column)
        f.store(join_pixels(f, levels), f.offset(p["result"], start), mask)


@contextmanager
def _use_lanes(f: Function, lanes: int) -> Iterator[None]:
    """Append code for vectors of another size."""
    previous, f.lanes = f.lanes, lanes
    yield
    f.lanes = previous


def _repeat(f: Function, value: Value) -> Value:
    """Repeat four elements in each 128-bit lane."""
    return f.shuffle((value, value), [i % QUAD for i in range(f.lanes)])


def _permute_taps(f: Function, halves: tuple[Value, Value], pixels: Sequence[int]) -> Value:
    """Return one of the vectors of `load_taps` from two neighboring vectors of pixels.

    Args:
        f: The function.
        halves: The vectors.
        pixels: The pixel of each tap, for the first element.
    """
    bytes_ = [f.convert("bitcast", x, f"<{4 * f.lanes} x i8>") for x in halves]
    numbers = [4 * (start + pixel) + c for start in range(0, f.lanes, QUAD) for c in range(QUAD) for pixel in pixels]
    return f.convert("bitcast", f.shuffle(bytes_, numbers), f.integers())


def _interleave(f: Function, pair: Sequence[Value], bits: int) -> tuple[Value, Value]:
    """Interleave the elements of some bits of the lower halves of all 128-bit lanes, and of the upper halves."""
    size, count = 128 // bits, 32 * f.lanes // bits
    sources = [f.convert("bitcast", x, f"<{count} x i{bits}>") for x in pair]
    results = []
    for half in range(2):
        numbers = [
            lane + half * size // 2 + i + source * count
            for lane in range(0, count, size)
            for i in range(size // 2)
            for source in range(2)
        ]
        results.append(f.shuffle(sources, numbers))
    return results[0], results[1]


def _transpose_taps(f: Function, taps: Sequence[Value]) -> list[Value]:
    """Return the vectors of `load_taps` from the pixels of four taps."""
    first, second = (_interleave(f, pair, 8) for pair in (taps[:2], taps[2:]))
    halves = [_interleave(f, pair, 16) for pair in zip(first, second, strict=True)]
    return [f.convert("bitcast", x, f.integers()) for pair in halves for x in pair]


def _choose_height(rows: int, filter_rows: int) -> int:
    """Return how many rows of results are computed together. Some are computed twice if blocks are not full."""
    heights = HEIGHTS if get_lanes() == 16 or filter_rows <= 3 else FEW_HEIGHTS
    return min(rows, min(heights, key=lambda height: (-(-rows // height) * height, -height)))


class QuantizedDepthwiseConvolution:
    """A depthwise convolution with constant codes of weights, whose result is codes.

    Args:
        filters: Codes of i8, shape [C, KH, KW].
        bias: Added to the sums: i32, shape [C].
    """

    def __init__(self, filters: Array, bias: Array) -> None:
        channels, height, width = filters.shape
        self.quads = count_quads(channels)
        groups = count_quads(width)
        padded = np.zeros((self.quads * QUAD, height, groups * QUAD), np.int8)
        padded[:channels, :, :width] = filters
        order = padded.reshape(self.quads, QUAD, height, groups, QUAD).transpose(0, 2, 3, 1, 4)
        self.weights = np.ascontiguousarray(order).reshape(-1)
        self.bias = np.zeros(self.quads * QUAD, np.int32)
        self.form = get_dot_product(can_saturate=False)
        self.bias[:channels] = bias + self.form.offset * filters.sum(axis=(1, 2), dtype=np.int32)

    def make_task(self, batch: int, geometry: Geometry, pad: int, expression: Expression) -> Task:
        """Return the convolution for contiguous data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            pad: The four codes of a padded pixel.
            expression: The epilogue, to codes; its operands are "channel" or "scalar".

        Returns:
            The task for the data, the result, and the table of the epilogue's operands.

        Raises:
            NoKernelError: The filter or the stride is too large, or an operand is of another kind.
        """
        g = geometry
        if g.strides[1] > 2 or math.prod(g.kernel) > MAX_TAPS or g.dilations[1] > MAX_DILATION:
            raise NoKernelError("expected smaller filters, strides and dilations")
        if not set(expression.kinds) <= {"channel", "scalar"}:
            raise NoKernelError("expected operands of channels")
        height = _choose_height(g.output[0], g.kernel[0])
        kernel = compile_depthwise(_Layout(g.kernel, g.strides, g.dilations, height, self.form), expression)
        count = batch * self.quads
        work = count * QUAD * math.prod(g.output) * math.prod(g.kernel)
        parts = max(1, min(MAX_PARTS, count, work // MIN_PART_WORK))
        border = np.full((g.kernel[1] + QUAD) * g.dilations[1] + 3 * get_lanes(), pad, np.uint32)
        constants = [get_address(x) for x in (self.weights, self.bias, border)]
        addresses: tuple[Argument, ...] = (make_base(0), *constants, make_base(1), make_base(2))
        sizes = (pad, self.quads, *g.size, *g.output, *g.pads_begin)
        task = make_range_task(kernel, (*addresses, *sizes), count, parts)
        task.keep(self.weights, self.bias, border)
        return task
