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
from irrun.fast.jit.compressed_codes import get_kind, get_parameter_strides, load_codes, supports
from irrun.fast.jit.compressed_tiles import compile_tiles, multiply_rows
from irrun.fast.jit.elementwise import get_address, make_contiguous
from irrun.fast.jit.products import compile_packing
from irrun.fast.jit.reductions import add, fold
from irrun.limits import check_allocation
from irrun.threads import run_parallel

__all__ = ["CompressedKernel", "multiply_row", "supports"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Rows of the weights that share the elements of the row in registers.
ROWS = 8
#: Rows of the data up to which each is multiplied on its own.
MAX_ROWS = 8
#: Codes of a part that a thread reads at least, and parts at most.
MIN_PART_SIZE, MAX_PARTS = 1 << 20, 16


@functools.cache
def compile_row(kind: str, has_zero_point: bool, has_scale: bool) -> Callable[..., None]:
    """Return the kernel that multiplies a row by codes [N, K].

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
        with f.loop(0, groups) as group:
            for total in sums[:count]:
                total.set(0.0)
            start = group * p["size"]
            with f.loop(start, start + p["size"], f.lanes) as column:
                data = f.load(f.offset(p["data"], column), f.vector)
                for r, total in enumerate(sums[:count]):
                    index = (row + r) * p["inner"] + column
                    codes = load_codes(f, kind, p["codes"], index, p["inner"] * count)
                    total.set(f.multiply_add(codes, data, total.get()))
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


def multiply_row(weights: CompressedWeights, row: Array, out: Array) -> None:
    """Compute `out = weights @ row` in one pass over the codes.

    Args:
        weights: Weights that `supports` accepts, shape [N, K].
        row: f32, contiguous, shape [K].
        out: f32, contiguous, shape [N].
    """
    rows, inner = weights.shape
    size = inner // weights.groups
    lanes = get_lanes()
    sums = np.add.reduce(row.reshape(-1, size // lanes, lanes), axis=1)
    kernel = compile_row(get_kind(weights), weights.zero_point is not None, weights.scale is not None)
    arrays = [weights.zero_point, weights.scale]
    strides = [stride for a in arrays for stride in get_parameter_strides(a)]
    addresses = [0 if a is None else get_address(a) for a in (weights.codes, row, sums, *arrays, out)]
    parts = max(1, min(MAX_PARTS, weights.codes.size // MIN_PART_SIZE))
    step = -(-rows // parts)
    step += -step % ROWS

    def compute(part: int) -> None:
        kernel(*addresses, part * step, min((part + 1) * step, rows), inner, size, *strides)

    run_parallel(compute, -(-rows // step))


class CompressedKernel:
    """The kernel of a product with compressed weights.

    Args:
        weights: Weights that `supports` accepts.
    """

    description = "compiled: product with compressed weights, which are decompressed in registers or the cache"

    def __init__(self, weights: CompressedWeights) -> None:
        self._weights = weights
        arguments = get_kind(weights), weights.zero_point is not None, weights.scale is not None
        compile_row(*arguments)
        compile_tiles(*arguments)
        compile_packing()

    def __call__(self, data: Array) -> Array:
        """Compute `data @ weights.T`."""
        weights = self._weights
        count, inner = weights.shape
        if data.dtype != F32 or not data.size or not data.ndim or data.shape[-1] != inner:
            return multiply_by_weights(data, weights=weights)
        rows = make_contiguous(data).reshape(-1, inner)
        check_allocation((len(rows), count), F32)
        if len(rows) > MAX_ROWS:
            return multiply_rows(weights, rows).reshape(*data.shape[:-1], count)
        result = np.empty((len(rows), count), F32)
        for row, out in zip(rows, result, strict=True):
            multiply_row(weights, row, out)
        return result.reshape(*data.shape[:-1], count)
