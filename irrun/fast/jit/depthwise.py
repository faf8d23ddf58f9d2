"""Depthwise convolution: each channel is convolved with its own filter, and completed by an expression.

Neighboring windows of a row are computed in one vector, with one load and one multiplication per tap. Elements
outside the data are masked, so that no padded copy is made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, TABLE, Binding, Operand
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, compile_function, get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.tasks import make_base, make_range_task

__all__ = ["MAX_TAPS", "DepthwiseConvolution", "prepare_loads"]

Array = np.ndarray[Any, Any]

#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 17, 16
#: Elements of a filter at most: a kernel has one multiplication for each.
MAX_TAPS = 128
#: Rows of results that are computed at a time, and share the rows of the data, by the stride of rows: up to 7 of those
#: that share most of them. Many networks have maps of 7, 14, 28 and 56 rows.
HEIGHTS, STRIDED_HEIGHTS = (7, 4, 2, 1), (4, 2, 1)


@functools.cache
def compile_depthwise(
    kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int], expression: Expression
) -> Kernel:
    """Return the kernel for some sizes of the filter, strides of which that along rows is 1 or 2, and dilations.

    Operands of the expression have the kinds of `convolution.compile_epilogue`.
    """
    names = ("data", "weights", "result", "operands")
    integers = ("first", "last", "filters", "height", "width", "rows", "columns", "top", "left")
    f = Function("depthwise", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    height, width, columns = p["height"], p["width"], p["columns"]
    pointers = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(expression.kinds))]
    accumulators = [f.variable(f.vector, 0.0) for _ in range(HEIGHTS[0])]
    with f.loop(p["first"], p["last"]) as channel:
        source = f.offset(p["data"], channel * height * width)
        number = f.emit("i64", f"srem i64 {channel}, {p['filters']}")
        taps = f.offset(p["weights"], number * (kernel[0] * kernel[1]))
        factors = [f.splat(f.load(f.offset(taps, i)), f.vector) for i in range(kernel[0] * kernel[1])]
        repeated = [
            None if kind == "full" else f.splat(f.load(f.offset(q, channel if kind == "channel" else 0)), f.vector)
            for q, kind in zip(pointers, expression.kinds, strict=True)
        ]
        with f.loop(0, columns, f.lanes) as column:
            first_column = column * strides[1] - p["left"]
            load = prepare_loads(f, first_column, width, kernel[1], strides[1], dilations[1])
            valid = f.mask_range(0, columns - column)

            def compute_rows(
                row: Value,
                count: int,
                channel: Value = channel,
                source: Value = source,
                column: Value = column,
                load: Callable[[Value], list[Value]] = load,
                factors: list[Value] = factors,
                valid: Value = valid,
                repeated: list[Value | None] = repeated,
            ) -> None:
                """Compute some rows of a vector of windows; a row of the data is loaded once for all of them."""
                first_row = row * strides[0] - p["top"]
                uses: dict[int, list[tuple[int, int]]] = {}
                for r in range(count):
                    for y in range(kernel[0]):
                        uses.setdefault(r * strides[0] + y * dilations[0], []).append((r, y))

                def add_row(distance: int) -> None:
                    pixels = load(f.offset(source, (first_row + distance) * width))
                    for r, y in uses[distance]:
                        for x, vector in enumerate(pixels):
                            accumulator = accumulators[r]
                            accumulator.set(f.multiply_add(vector, factors[y * kernel[1] + x], accumulator.get()))

                def add_all() -> None:
                    for distance in sorted(uses):
                        add_row(distance)

                def add_inside() -> None:
                    for distance in sorted(uses):
                        index = first_row + distance
                        with f.when(f.compare("sge", index, 0) & f.compare("slt", index, height)):
                            add_row(distance)

                for accumulator in accumulators[:count]:
                    accumulator.set(0.0)
                is_inside = f.compare("sge", first_row, 0) & f.compare("slt", first_row + max(uses), height)
                f.choose(is_inside, add_all, add_inside)
                for r in range(count):
                    start = (channel * p["rows"] + row + r) * columns + column
                    operands = [
                        f.load(f.offset(q, start), f.vector, valid) if vector is None else vector
                        for q, vector in zip(pointers, repeated, strict=True)
                    ]
                    value = evaluate(f, expression, accumulators[r].get(), operands)
                    f.store(value, f.offset(p["result"], start), valid)

            start: Value = f.integer(0)
            for count in HEIGHTS if strides[0] == 1 else STRIDED_HEIGHTS:
                stop = p["rows"] - f.emit("i64", f"srem i64 {p['rows'] - start}, {count}")
                with f.loop(start, stop, count) as row:
                    compute_rows(row, count)
                start = stop
    return compile_function(f)


def prepare_loads(
    f: Function, column: Value, width: Value, count: int, stride: int, dilation: int, fill: float = 0.0
) -> Callable[[Value], list[Value]]:
    """Return the function that loads the pixels of all taps of a row, which have the value `fill` outside of it."""
    # With a stride of 2, a tap and its neighbor are the even and the odd elements of the same two vectors.
    step = 2 if stride == 2 and dilation == 1 else 1
    starts = [x * dilation for x in range(0, count, step)]
    masks = [
        [f.mask_range(0 - (column + x + i * f.lanes), width - (column + x + i * f.lanes)) for i in range(stride)]
        for x in starts
    ]

    def load(line: Value) -> list[Value]:
        pixels: list[Value] = []
        for x, group in zip(starts, masks, strict=True):
            pointer = f.offset(line, column + x)
            vectors = [f.load(f.offset(pointer, i * f.lanes), f.vector, mask) for i, mask in enumerate(group)]
            if fill:
                vectors = [f.select(mask, v, fill) for mask, v in zip(group, vectors, strict=True)]
            if stride == 1:
                pixels.append(vectors[0])
                continue
            for parity in range(min(step, count - len(pixels))):
                numbers = ", ".join(f"i32 {2 * i + parity}" for i in range(f.lanes))
                text = f"shufflevector {f.vector} {vectors[0]}, {f.vector} {vectors[1]}, <{f.lanes} x i32> <{numbers}>"
                pixels.append(f.emit(f.vector, text))
        return pixels

    return load


class DepthwiseConvolution:
    """A depthwise convolution with constant weights.

    Args:
        filters: f32, shape [C, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.weights = make_contiguous(filters)

    def _get_kernel(self, geometry: Geometry, expression: Expression) -> Kernel:
        if geometry.strides[1] > 2 or math.prod(geometry.kernel) > MAX_TAPS:
            raise ValueError("expected a smaller filter or stride")
        return compile_depthwise(geometry.kernel, geometry.strides, geometry.dilations, expression)

    def bind(self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()) -> Binding:
        """Return the convolution for data of one shape; see `Convolution.bind`."""
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
