"""Products of single rows with weights that stay compressed: one pass over the codes.

Codes are converted to f32 in registers and multiplied by the row. Each group of columns is summed up apart, and its
sum is corrected by the zero point and scaled. The speed is limited by reading the codes from memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.compressed import CompressedWeights, multiply_by_weights
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import compile_function, get_lanes
from irrun.fast.jit.elementwise import get_address, make_contiguous
from irrun.fast.jit.reductions import add, fold
from irrun.threads import run_parallel

__all__ = ["CompressedKernel", "multiply_row", "supports"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Rows of the weights that share the elements of the row in registers.
ROWS = 8
#: Rows of the data up to which each is multiplied on its own.
MAX_ROWS = 3
#: Codes of a part that a thread reads at least, and parts at most.
MIN_PART_SIZE, MAX_PARTS = 1 << 19, 16


@functools.cache
def compile_row(kind: str, has_zero_point: bool, has_scale: bool) -> Callable[..., None]:
    """Return the kernel that multiplies a row by codes [N, K] of one byte: "i8", "u8" or "i4".

    Zero points and scales are addressed by their strides along rows and groups, which may be 0.
    """
    pointers = ("codes", "data", "sums", "zero_points", "scales", "result")
    integers = ("first", "last", "inner", "size", "zero_row", "zero_group", "scale_row", "scale_group")
    f = Function("multiply_row", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    groups = f.emit("i64", f"sdiv i64 {p['inner']}, {p['size']}")
    totals = [f.variable(f.vector, 0.0) for _ in range(ROWS)]
    sums = [f.variable(f.vector, 0.0) for _ in range(ROWS)]

    def multiply_rows(row: Value, count: int) -> None:
        for total in totals[:count]:
            total.set(0.0)
        sources = [f.offset(p["codes"], (row + r) * p["inner"], "i8") for r in range(count)]
        with f.loop(0, groups) as group:
            for total in sums[:count]:
                total.set(0.0)
            start = group * p["size"]
            with f.loop(start, start + p["size"], f.lanes) as column:
                data = f.load(f.offset(p["data"], column), f.vector)
                # Rows are too short for the processor to predict what is read next.
                for source in sources[:count]:
                    f.prefetch(f.offset(source, p["inner"] * count + column, "i8"))
                for source, total in zip(sources, sums, strict=False):
                    codes = f.load(f.offset(source, column, "i8"), f.integers(8))
                    wide = f.convert("sext" if kind == "i8" else "zext", codes, f.integers())
                    if kind == "i4":  # of 0 to 15
                        wide = (wide ^ 8) - 8
                    total.set(f.multiply_add(f.convert("sitofp", wide, f.vector), data, total.get()))
            group_sums = f.load(f.offset(p["sums"], group * f.lanes), f.vector)
            for r in range(count):
                value = sums[r].get()
                if has_zero_point:
                    index = (row + r) * p["zero_row"] + group * p["zero_group"]
                    zero_point = f.splat(f.load(f.offset(p["zero_points"], index)), f.vector)
                    value = value - zero_point * group_sums
                if has_scale:
                    index = (row + r) * p["scale_row"] + group * p["scale_group"]
                    scale = f.splat(f.load(f.offset(p["scales"], index)), f.vector)
                    totals[r].set(f.multiply_add(value, scale, totals[r].get()))
                else:
                    totals[r].add(value)
        for r in range(count):
            f.store(fold(f, totals[r].get(), add), f.offset(p["result"], row + r))

    whole = p["first"] + ((p["last"] - p["first"]) & -ROWS)
    with f.loop(p["first"], whole, ROWS) as row:
        multiply_rows(row, ROWS)
    with f.loop(whole, p["last"]) as row:
        multiply_rows(row, 1)
    return compile_function(f)


def multiply_row(
    codes: Array, scales: Array | None, zero_points: Array | None, x: Array, out: Array, group_size: int
) -> None:
    """Compute `out = ((codes - zero_points) * scales) @ x` in one pass over the codes.

    Args:
        codes: i8, u8, i4 or u4, contiguous, shape [N, K].
        scales: f32, shape [N, K / group_size] or [1, 1], or None.
        zero_points: f32, like `scales`.
        x: f32, contiguous, shape [K].
        out: f32, contiguous, shape [N].
        group_size: A multiple of the number of f32 in a vector that divides K.
    """
    rows, inner = codes.shape
    lanes = get_lanes()
    sums = np.ascontiguousarray(x.reshape(-1, group_size // lanes, lanes).sum(axis=1))
    kernel = compile_row(get_kind(codes), zero_points is not None, scales is not None)
    arrays = [zero_points, scales]
    strides = [(0, 0) if a is None or a.size == 1 else (a.strides[0] // 4, a.strides[1] // 4) for a in arrays]
    addresses = [0 if a is None else get_address(a) for a in (codes, x, sums, *arrays, out)]
    parts = max(1, min(MAX_PARTS, codes.size // MIN_PART_SIZE))
    step = -(-rows // parts)
    step += -step % ROWS

    def compute(part: int) -> None:
        kernel(*addresses, part * step, min((part + 1) * step, rows), inner, group_size, *strides[0], *strides[1])

    run_parallel(compute, -(-rows // step))


def get_kind(codes: Array) -> str:
    """Return how codes are converted."""
    return {"int8": "i8", "int4": "i4"}.get(codes.dtype.name, "u8")


def supports(weights: CompressedWeights) -> bool:
    """Return whether the kernel multiplies rows by some weights."""
    codes = weights.codes
    size = weights.shape[1] // weights.groups
    parameters = [a for a in (weights.scale, weights.zero_point) if a is not None]
    if any(a.dtype != F32 or (a.size != 1 and a.shape != (weights.shape[0], weights.groups)) for a in parameters):
        return False
    if any(a.size != 1 and a.shape[1] == 1 and a.strides[0] % 4 for a in parameters):
        return False
    is_byte = codes.dtype in (np.int8, np.uint8) or codes.dtype.name in ("int4", "uint4")
    return is_byte and codes.flags.c_contiguous and size % get_lanes() == 0


class CompressedKernel:
    """The kernel of a product with compressed weights.

    Args:
        weights: Weights that `supports` accepts.
    """

    description = "compiled: product of few rows, one pass over the compressed weights"

    def __init__(self, weights: CompressedWeights) -> None:
        self._weights = weights
        self._size = weights.shape[1] // weights.groups
        compile_row(get_kind(weights.codes), weights.zero_point is not None, weights.scale is not None)

    def __call__(self, data: Array) -> Array:
        """Compute `data @ weights.T`."""
        weights = self._weights
        count, inner = weights.shape
        if data.dtype != F32 or not data.size or data.size > MAX_ROWS * inner or data.shape[-1] != inner:
            return multiply_by_weights(data, weights=weights)
        rows = make_contiguous(data).reshape(-1, inner)
        result = np.empty((len(rows), count), F32)
        for row, out in zip(rows, result, strict=True):
            multiply_row(weights.codes, weights.scale, weights.zero_point, row, out, self._size)
        return result.reshape(*data.shape[:-1], count)
