"""Depthwise convolution: each channel is convolved with its own filter, and completed by an expression.

Neighboring windows of a row are computed in one vector, with one load and one multiplication per tap. Elements
outside the data are masked, so no padded copy is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, TABLE, Binding, Operand
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.tasks import make_base, make_range_task

__all__ = ["MAX_TAPS", "DepthwiseConvolution", "RowLoads"]

Array = np.ndarray[Any, Any]

#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 16, 16
#: Maximum number of elements in a filter: the kernel has one multiplication per element.
MAX_TAPS = 128
#: Maximum number of taps in a row for which some vectors are computed without masks: more would need as long.
MAX_INNER_TAPS = 5
#: Minimum number of vector elements.
MIN_LANES = 4
#: Rows of results that are computed together and share rows of the data, by the stride along rows: up to 7 with stride
#: 1, where they share most rows. Many networks have maps of 7, 14, 28 and 56 rows.
HEIGHTS, STRIDED_HEIGHTS = (7, 4, 2, 1), (4, 2, 1)
#: The order of pixels in vectors of 8 elements with a stride of 2; see `RowLoads`.
EXCHANGED = (0, 1, 4, 5, 2, 3, 6, 7)


class _Channel(NamedTuple):
    """A channel: its number, the address of its data, its filter, and the operands that are constant for it."""

    number: Value
    source: Value
    factors: list[Value]
    constants: list[Value | None]


class _Windows(NamedTuple):
    """A vector of neighboring windows: its first column, the loads of their pixels, and their mask."""

    column: Value
    loads: RowLoads
    mask: Value


@dataclass(frozen=True)
class _Layout:
    """The parameters of a kernel's code.

    Attributes:
        kernel: The size of the filter.
        strides: The strides; the one along rows is 1 or 2.
        dilations: The dilations.
        lanes: The elements of a vector.
        is_narrow: Whether a row of results fits in a vector, so that masks are the same for all channels.
        has_fast_masks: Whether stores with masks are as fast as others: with AVX-512.
        has_inner: Whether vectors whose pixels are all in the row are computed without masks.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    lanes: int
    is_narrow: bool
    has_fast_masks: bool
    has_inner: bool


@cache_kernel
def compile_depthwise(layout: _Layout, expression: Expression) -> Kernel:
    """Return the kernel for a layout. Operands of the expression have the kinds of `convolution.compile_epilogue`."""
    code = _Code(layout, expression)
    f, p = code.function, code.function.parameters
    if layout.is_narrow:
        windows = code.prepare_windows(f.integer(0))
        with f.loop(p["first"], p["last"]) as number:
            code.compute_rows(code.prepare_channel(number), windows)
    else:
        with f.loop(p["first"], p["last"]) as number:
            channel = code.prepare_channel(number)
            # Backwards, so that vectors may extend into later rows; see `_complete`.
            with f.loop(0, p["columns"], f.lanes) as position:
                windows = code.prepare_windows(((p["columns"] - 1) & -f.lanes) - position)
                compute = functools.partial(code.compute_rows, channel, windows)
                if layout.has_inner:
                    f.choose(windows.loads.is_inside, functools.partial(compute, has_masks=False), compute)
                else:
                    compute()
    return compile_function(f)


class _Code:
    """The code of a kernel."""

    def __init__(self, layout: _Layout, expression: Expression) -> None:
        self.layout, self.expression = layout, expression
        names = ("data", "weights", "result", "operands")
        integers = ("first", "last", "filters", "height", "width", "rows", "columns", "top", "left")
        parameters = [*((n, "ptr") for n in names), *((n, "i64") for n in integers)]
        f = self.function = Function("depthwise", parameters, layout.lanes)
        operands = f.parameters["operands"]
        self.pointers = [f.load(f.offset(operands, i, "ptr"), "ptr") for i in range(len(expression.kinds))]
        self.accumulators = [f.variable(f.vector, 0.0) for _ in range(HEIGHTS[0])]

    def prepare_channel(self, number: Value) -> _Channel:
        """Append the code that loads a channel."""
        f, p = self.function, self.function.parameters
        size = math.prod(self.layout.kernel)
        taps = f.offset(p["weights"], f.emit("i64", f"srem i64 {number}, {p['filters']}") * size)
        factors = [f.splat(f.load(f.offset(taps, i)), f.vector) for i in range(size)]
        constants = [
            None if kind == "full" else f.splat(f.load(f.offset(q, number if kind == "channel" else 0)), f.vector)
            for q, kind in zip(self.pointers, self.expression.kinds, strict=True)
        ]
        return _Channel(number, f.offset(p["data"], number * p["height"] * p["width"]), factors, constants)

    def prepare_windows(self, column: Value) -> _Windows:
        """Append the masks of a vector of windows."""
        f, p, layout = self.function, self.function.parameters, self.layout
        first = column * layout.strides[1] - p["left"]
        loads = RowLoads(f, first, p["width"], layout.kernel[1], layout.strides[1], layout.dilations[1])
        return _Windows(column, loads, f.mask_range(0, p["columns"] - column))

    def compute_rows(self, channel: _Channel, windows: _Windows, has_masks: bool = True) -> None:
        """Append the computation of all rows of a vector of windows, several of them at a time."""
        f, rows = self.function, self.function.parameters["rows"]
        start: Value = f.integer(0)
        for count in HEIGHTS if self.layout.strides[0] == 1 else STRIDED_HEIGHTS:
            stop = rows - f.emit("i64", f"srem i64 {rows - start}, {count}")
            with f.loop(start, stop, count) as row:
                self._add_products(row, count, channel, windows, has_masks)
                for r in range(count):
                    self._complete(row + r, self.accumulators[r].get(), channel, windows)
            start = stop

    def _add_products(self, row: Value, count: int, channel: _Channel, windows: _Windows, has_masks: bool) -> None:
        """Append the sums of some rows; a row of the data is loaded once for all of them."""
        f, p, layout = self.function, self.function.parameters, self.layout
        first_row = row * layout.strides[0] - p["top"]
        uses: dict[int, list[tuple[int, int]]] = {}
        for r in range(count):
            for y in range(layout.kernel[0]):
                uses.setdefault(r * layout.strides[0] + y * layout.dilations[0], []).append((r, y))

        def add_row(distance: int) -> None:
            pixels = windows.loads.load(f.offset(channel.source, (first_row + distance) * p["width"]), has_masks)
            for r, y in uses[distance]:
                accumulator = self.accumulators[r]
                for x, vector in enumerate(pixels):
                    factor = channel.factors[y * layout.kernel[1] + x]
                    accumulator.set(f.multiply_add(vector, factor, accumulator.get()))

        def add_all() -> None:
            for distance in sorted(uses):
                add_row(distance)

        def add_inside() -> None:
            for distance in sorted(uses):
                index = first_row + distance
                with f.when(f.compare("sge", index, 0) & f.compare("slt", index, p["height"])):
                    add_row(distance)

        for accumulator in self.accumulators[:count]:
            accumulator.set(0.0)
        is_inside = f.compare("sge", first_row, 0) & f.compare("slt", first_row + max(uses), p["height"])
        f.choose(is_inside, add_all, add_inside)

    def _complete(self, row: Value, value: Value, channel: _Channel, windows: _Windows) -> None:
        """Append the epilogue for a vector of sums."""
        f, p = self.function, self.function.parameters
        start = (channel.number * p["rows"] + row) * p["columns"] + windows.column
        operands = [
            f.load(f.offset(q, start), f.vector, windows.mask) if constant is None else constant
            for q, constant in zip(self.pointers, channel.constants, strict=True)
        ]
        value = windows.loads.restore_order(value)
        result, target = evaluate(f, self.expression, value, operands), f.offset(p["result"], start)
        if self.layout.has_fast_masks:
            f.store(result, target, windows.mask)
            return
        # Elements beyond the row belong to later rows, or to their earlier columns, and are overwritten afterwards.
        is_followed = f.compare("sle", start + f.lanes, p["last"] * p["rows"] * p["columns"])
        f.choose(is_followed, lambda: f.store(result, target), lambda: f.store(result, target, windows.mask))


def choose_lanes(columns: int) -> int:
    """Return the vector length for rows of some columns: half a vector if a row fits into it."""
    half = get_lanes() // 2
    return half if columns <= half and half >= MIN_LANES else get_lanes()


class RowLoads:
    """Loads of the pixels that a vector of neighboring windows of a row reads; pixels outside the row are `fill`.

    Args:
        f: The function.
        column: The first column of the first window, which may be negative.
        width: The length of the row.
        count: The number of taps.
        stride: The distance between windows, 1 or 2.
        dilation: The distance between taps.
        fill: The value.

    Attributes:
        is_inside: Whether all pixels are in the row, so that loads need no masks.
    """

    def __init__(
        self, f: Function, column: Value, width: Value, count: int, stride: int, dilation: int, fill: float = 0.0
    ) -> None:
        self._function, self._column, self._fill = f, column, fill
        self._stride = stride
        # With a stride of 2, a tap and its neighbor are the even and the odd elements of the same two vectors.
        step = 2 if stride == 2 and dilation == 1 else 1
        #: For each load: its first pixel, the number of its taps, and the pixels of its vectors relative to the first.
        self._loads = [
            (x * dilation, taps, [i * f.lanes - (i and taps == 1) for i in range(stride)])
            for x in range(0, count, step)
            for taps in (min(step, count - x),)
        ]
        self._masks = [
            [f.mask_range(0 - (column + x + i), width - (column + x + i)) for i in starts]
            for x, _, starts in self._loads
        ]
        x, _, starts = self._loads[-1]
        self.is_inside = f.compare("sge", column, 0) & f.compare("sle", column + x + starts[-1] + f.lanes, width)

    def load(self, line: Value, has_masks: bool = True) -> list[Value]:
        """Append the loads of the pixels of all taps of a row; see `restore_order`."""
        f, pixels = self._function, []
        for (x, taps, starts), masks in zip(self._loads, self._masks, strict=True):
            pointer = f.offset(line, self._column + x)
            vectors = []
            for i, mask in zip(starts, masks, strict=True):
                vector = f.load(f.offset(pointer, i), f.vector, mask if has_masks else None)
                vectors.append(f.select(mask, vector, self._fill) if self._fill and has_masks else vector)
            if self._stride == 1:
                pixels.append(vectors[0])
                continue
            for parity in range(taps):
                pixels.append(f.shuffle(vectors, self._number_pixels(starts[1], parity)))
        return pixels

    def _number_pixels(self, start: int, parity: int) -> list[int]:
        """Return the elements of two vectors that are every second pixel, given the first pixel of the second vector.

        Vectors of 8 elements consist of halves. An instruction selects elements of the same half of both vectors, so
        the second and the third pair of pixels are exchanged.
        """
        lanes = self._function.lanes
        numbers = [2 * i + parity for i in range(lanes)]
        places = [n if n < lanes else n - start + lanes for n in numbers]
        return [places[i] for i in EXCHANGED] if lanes == len(EXCHANGED) else places

    def restore_order(self, value: Value) -> Value:
        """Return a vector computed from pixels in the order of the windows."""
        if self._stride == 1 or value.lanes != len(EXCHANGED):
            return value
        return self._function.shuffle((value, value), EXCHANGED)


class DepthwiseConvolution:
    """A depthwise convolution with constant weights.

    Args:
        filters: f32, shape [C, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.weights = make_contiguous(filters)

    def _get_kernel(self, geometry: Geometry, expression: Expression) -> Kernel:
        if geometry.strides[1] > 2 or math.prod(geometry.kernel) > MAX_TAPS:
            raise NoKernelError("the filter or the stride is too large")
        columns = geometry.output[1]
        lanes = choose_lanes(columns)
        windows = geometry.kernel, geometry.strides, geometry.dilations
        has_fast_masks = get_lanes() == 16
        has_inner = not has_fast_masks and geometry.kernel[1] <= MAX_INNER_TAPS and columns > 2 * lanes
        layout = _Layout(*windows, lanes, columns <= lanes, has_fast_masks, has_inner)
        return compile_depthwise(layout, expression)

    def make_binding(
        self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()
    ) -> Binding:
        """Return the convolution for data of one shape; see `DirectConvolution.make_binding`."""
        kernel = self._get_kernel(geometry, expression)
        channels = self.weights.shape[0]
        shape = (batch, channels, *geometry.output)
        count = batch * channels
        work = math.prod(shape) * math.prod(geometry.kernel)
        parts = max(1, min(MAX_PARTS, count, work // MIN_PART_WORK))
        windows = (*geometry.size, *geometry.output, *geometry.pads_begin)

        addresses = (make_base(0), get_address(self.weights), make_base(1), make_base(2))
        task = make_range_task(kernel, addresses, count, parts, (channels, *windows))
        task.keep(self.weights)
        return Binding(shape, [task], (0, RESULT, TABLE), operands)
