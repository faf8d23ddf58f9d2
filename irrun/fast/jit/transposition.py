"""Copies of transposed matrices: square blocks, as wide as a vector, are transposed in registers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.tasks import Call, Task, make_base

__all__ = ["copy_transposed", "is_transposed", "make_transposition", "transpose_vectors"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum size of a matrix, and maximum number of matrices: NumPy is as fast for small matrices.
MIN_MATRIX_SIZE, MAX_MATRICES = 1 << 14, 64
#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 15, 16


def transpose_vectors(f: Function, vectors: Sequence[Value]) -> list[Value]:
    """Transpose a square matrix, given as one vector per row."""
    result = list(vectors)
    distance = 1
    while distance < f.lanes:
        lower = [i if not i & distance else f.lanes + i - distance for i in range(f.lanes)]
        upper = [i + distance if not i & distance else f.lanes + i for i in range(f.lanes)]
        for i in range(f.lanes):
            if not i & distance:
                a, b = result[i], result[i + distance]
                result[i], result[i + distance] = _shuffle(f, a, b, lower), _shuffle(f, a, b, upper)
        distance *= 2
    return result


def _shuffle(f: Function, a: Value, b: Value, numbers: Sequence[int]) -> Value:
    shown = ", ".join(f"i32 {i}" for i in numbers)
    return f.emit(f.vector, f"shufflevector {f.vector} {a}, {f.vector} {b}, <{f.lanes} x i32> <{shown}>")


@cache_kernel
def compile_transposition() -> Kernel:
    """Return the kernel that copies some rows of a matrix with contiguous columns."""
    integers = ("first", "last", "columns", "stride")
    f = Function("transpose", [("source", "ptr"), ("target", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p, lanes = f.parameters, f.lanes
    columns = p["columns"]
    with f.loop(p["first"], p["last"], lanes) as row, f.loop(0, columns, lanes) as column:
        source, target = f.offset(p["source"], row), f.offset(p["target"], row * columns + column)
        is_whole = f.compare("sle", row + lanes, p["last"]) & f.compare("sle", column + lanes, columns)

        def copy_whole(column: Value = column, source: Value = source, target: Value = target) -> None:
            lines = [f.load(f.offset(source, (column + i) * p["stride"]), f.vector) for i in range(lanes)]
            for i, vector in enumerate(transpose_vectors(f, lines)):
                f.store(vector, f.offset(target, columns * i))

        def copy_part(row: Value = row, column: Value = column, source: Value = source, target: Value = target) -> None:
            mask = f.mask_range(0, p["last"] - row)
            numbers = [f.min(column + i, columns - 1) for i in range(lanes)]
            lines = [f.load(f.offset(source, number * p["stride"]), f.vector, mask) for number in numbers]
            for i, vector in enumerate(transpose_vectors(f, lines)):
                rest = f.select(f.compare("slt", row + i, p["last"]), columns - column, 0)
                f.store(vector, f.offset(target, columns * i), f.mask_range(0, rest))

        f.choose(is_whole, copy_whole, copy_part)
    return compile_function(f)


def is_transposed(array: Array) -> bool:
    """Return whether `copy_transposed` copies an array."""
    is_aligned = array.dtype == F32 and array.flags.aligned
    return is_aligned and make_transposition(array.shape, array.strides, MIN_MATRIX_SIZE) is not None


def copy_transposed(array: Array, out: Array | None = None) -> Array | None:
    """Return a contiguous copy of an array of f32 that is a transposed matrix, or None for other arrays.

    Several axes may form the rows or the columns of the matrix, as in NHWC images viewed as NCHW.

    Args:
        array: The array.
        out: The target of the copy: contiguous f32 of the same shape.
    """
    is_aligned = array.dtype == F32 and array.flags.aligned
    task = make_transposition(array.shape, array.strides, MIN_MATRIX_SIZE) if is_aligned else None
    if task is None:
        return None
    result = np.empty(array.shape, F32) if out is None else out
    task.run(get_address(array), get_address(result))
    return result


@functools.lru_cache(maxsize=256)
def make_transposition(
    shape: tuple[int, ...], strides: tuple[int, ...], min_size: int, is_any_side: bool = False
) -> Task | None:
    """Return the task that copies transposed matrices of a size, or None for other layouts.

    Args:
        shape: The shape of the data.
        strides: Its strides in bytes.
        min_size: The minimum number of elements of a matrix.
        is_any_side: Whether matrices may have fewer rows or columns than half a vector.
    """
    if len(shape) < 2 or math.prod(shape) < min_size:
        return None
    *lead, columns = shape
    *lead_strides, stride = strides
    while len(lead) > 1 and lead_strides[-1] == columns * stride:
        lead_strides.pop()
        columns *= lead.pop()
    rows, row_stride = lead.pop(), lead_strides.pop()
    if row_stride != F32.itemsize or stride % F32.itemsize or stride <= 0:
        return None
    if min(rows, columns) < get_lanes() // 2 and not is_any_side:
        return None
    while lead and lead_strides[-1] == rows * F32.itemsize:
        lead_strides.pop()
        rows *= lead.pop()
    count = math.prod(lead)
    if count > MAX_MATRICES or rows * columns < min_size:
        return None
    kernel = compile_transposition()
    per_matrix = max(1, min(MAX_PARTS // count, rows * columns // MIN_PART_SIZE))
    step = -(-rows // per_matrix)
    step += -step % get_lanes()
    size = F32.itemsize * rows * columns
    parts = []
    for number, index in enumerate(itertools.product(*map(range, lead))):
        source = make_base(0).move(sum(i * s for i, s in zip(index, lead_strides, strict=True)))
        target = make_base(1).move(number * size)
        for first in range(0, rows, step):
            last = min(first + step, rows)
            parts.append([Call(kernel, (source, target, first, last, columns, stride // F32.itemsize))])
    return Task(parts)
