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

from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import compile_function, get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.elementwise import get_address, make_contiguous
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.threads import run_parallel

__all__ = ["DepthwiseConvolution"]

Array = np.ndarray[Any, Any]

#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 20, 16
#: Elements of a filter at most: a kernel has one multiplication for each.
MAX_TAPS = 128


@functools.cache
def compile_depthwise(
    kernel: tuple[int, int], stride: int, dilation: int, expression: Expression
) -> Callable[..., None]:
    """Return the kernel for some sizes of the filter, a stride of 1 or 2 along rows, and a dilation along rows.

    Operands of the expression have the kinds of `convolution.compile_epilogue`.
    """
    names = ("data", "weights", "result", "operands")
    integers = ("first", "last", "filters", "height", "width", "rows", "columns", "top", "left", "step", "distance")
    f = Function("depthwise", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    height, width, columns = p["height"], p["width"], p["columns"]
    pointers = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(expression.kinds))]
    accumulator = f.variable(f.vector, 0.0)
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
            first_column = column * stride - p["left"]
            masks = [_make_masks(f, first_column + x * dilation, stride, width) for x in range(kernel[1])]
            valid = f.mask_range(0, columns - column)
            with f.loop(0, p["rows"]) as row:
                first_row = row * p["step"] - p["top"]

                def add_row(y: int, line: Value, masks: Any = masks, first_column: Value = first_column) -> None:
                    for x in range(kernel[1]):
                        pixels = _load_pixels(f, f.offset(line, first_column + x * dilation), stride, masks[x])
                        factor = factors[y * kernel[1] + x]
                        accumulator.set(f.multiply_add(pixels, factor, accumulator.get()))

                def locate(y: int, first_row: Value = first_row, source: Value = source) -> tuple[Value, Value]:
                    index = first_row + p["distance"] * y
                    return index, f.offset(source, index * width)

                def add_all(add_row: Any = add_row, locate: Any = locate) -> None:
                    for y in range(kernel[0]):
                        add_row(y, locate(y)[1])

                def add_inside(add_row: Any = add_row, locate: Any = locate) -> None:
                    for y in range(kernel[0]):
                        index, line = locate(y)
                        with f.when(f.compare("sge", index, 0) & f.compare("slt", index, height)):
                            add_row(y, line)

                accumulator.set(0.0)
                last_row = first_row + p["distance"] * (kernel[0] - 1)
                is_inside = f.compare("sge", first_row, 0) & f.compare("slt", last_row, height)
                f.choose(is_inside, add_all, add_inside)
                start = (channel * p["rows"] + row) * columns + column
                operands = [
                    f.load(f.offset(q, start), f.vector, valid) if vector is None else vector
                    for q, vector in zip(pointers, repeated, strict=True)
                ]
                value = evaluate(f, expression, accumulator.get(), operands)
                f.store(value, f.offset(p["result"], start), valid)
    return compile_function(f)


def _make_masks(f: Function, column: Value, stride: int, width: Value) -> list[Value]:
    """Return the masks of the vectors that hold the pixels of one tap."""
    starts = [column + i * f.lanes for i in range(stride)]
    return [f.mask_range(0 - start, width - start) for start in starts]


def _load_pixels(f: Function, pointer: Value, stride: int, masks: Sequence[Value]) -> Value:
    vectors = [f.load(f.offset(pointer, i * f.lanes), f.vector, mask) for i, mask in enumerate(masks)]
    if stride == 1:
        return vectors[0]
    even = ", ".join(f"i32 {2 * i}" for i in range(f.lanes))
    text = f"shufflevector {f.vector} {vectors[0]}, {f.vector} {vectors[1]}, <{f.lanes} x i32> <{even}>"
    return f.emit(f.vector, text)


class DepthwiseConvolution:
    """A depthwise convolution with constant weights.

    Args:
        filters: f32, shape [C, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.weights = make_contiguous(filters)

    def _get_kernel(self, geometry: Geometry, expression: Expression) -> Callable[..., None]:
        if geometry.strides[1] > 2 or math.prod(geometry.kernel) > MAX_TAPS:
            raise ValueError("expected a smaller filter or stride")
        return compile_depthwise(geometry.kernel, geometry.strides[1], geometry.dilations[1], expression)

    def bind(self, batch: int, geometry: Geometry, expression: Expression) -> Callable[[Array, Sequence[int]], Array]:
        """Return the convolution for data of one shape; see `Convolution.bind`."""
        kernel = self._get_kernel(geometry, expression)
        channels = self.weights.shape[0]
        shape = (batch, channels, *geometry.output)
        count = batch * channels
        work = math.prod(shape) * math.prod(geometry.kernel)
        parts = max(1, min(MAX_PARTS, count, work // MIN_PART_WORK))
        windows = (*geometry.size, *geometry.output, *geometry.pads_begin, geometry.strides[0], geometry.dilations[0])
        weights = get_address(self.weights)

        def convolve(data: Array, operands: Sequence[int]) -> Array:
            result = np.empty(shape, np.float32)
            pointers = np.array(operands or (0,), np.int64)
            addresses = (get_address(data), weights, get_address(result), get_address(pointers))

            def compute(part: int) -> None:
                kernel(*addresses, count * part // parts, count * (part + 1) // parts, channels, *windows)

            if parts == 1:
                compute(0)
            else:
                run_parallel(compute, parts)
            return result

        return convolve
