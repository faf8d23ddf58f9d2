"""Interpolate along the last two axes, if each result depends on at most two rows and two columns.

The rows of a plane are resized into a buffer in the cache: vectors are permuted if neighboring results depend on
neighboring elements, and gathered otherwise. The rows of the result are weighted sums of two resized rows.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irrun.fast.interpolate import Interpolation
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes, has_feature
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import SCRATCH, Call, Task, make_base
from irrun.limits import check_allocation

__all__ = ["InterpolateKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of results per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 14, 16
#: Maximum size of the resized rows of a plane: 4 MiB.
MAX_BUFFER_SIZE = 1 << 20


@dataclass(frozen=True)
class _Taps:
    """The elements that results along an axis depend on.

    Attributes:
        indices: Shape [TAPS, target], i64.
        weights: Shape [TAPS, target], f32.
        size: The length of the axis.
    """

    indices: Array
    weights: Array
    size: int

    @property
    def is_copy(self) -> bool:
        """Whether each result is one element."""
        return len(self.indices) == 1

    @property
    def is_identity(self) -> bool:
        """Whether the axis does not change."""
        return self.is_copy and np.array_equal(self.indices[0], np.arange(self.size))


def _find_taps(matrix: Array) -> _Taps | None:
    """Return the taps of the matrix [target, size] of an axis, or None if a result has more than two."""
    target, size = matrix.shape
    counts = np.count_nonzero(matrix, axis=1)
    if not np.isfinite(matrix).all() or counts.min() < 1 or counts.max() > 2:
        return None
    rows = np.arange(target)
    first = (matrix != 0).argmax(axis=1)
    last = size - 1 - (matrix[:, ::-1] != 0).argmax(axis=1)
    if counts.max() == 1 and np.all(matrix[rows, first] == 1):
        return _Taps(first[np.newaxis].astype(np.int64), np.ones((1, target), F32), size)
    weights = np.stack([matrix[rows, first], np.where(counts == 2, matrix[rows, last], 0)])
    return _Taps(np.stack([first, last]).astype(np.int64), weights.astype(F32), size)


@cache_kernel
def compile_resizing(column_taps: int, row_taps: int, is_permuted: bool) -> Kernel:
    """Return the kernel that resizes planes.

    Args:
        column_taps: Number of elements of a row that results depend on; 0 if rows are not resized.
        row_taps: Number of rows that results depend on. A single row is copied.
        is_permuted: Whether all elements that a vector depends on fit in one vector.
    """
    names = ("data", "result", "buffer", "starts", "indices", "weights", "rows", "row_weights", "flags")
    integers = ("first", "last", "height", "width", "new_height", "new_width", "line")
    f = Function("resize", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    poison = f.variable(f.vector, 0.0)
    with f.loop(p["first"], p["last"]) as plane:
        source = f.offset(p["data"], plane * (p["height"] * p["width"]))
        lines = p["buffer"] if column_taps else source
        if column_taps:
            with f.loop(0, p["line"], f.lanes) as column:
                start = f.load(f.offset(p["starts"], f.emit("i64", f"sdiv i64 {column}, {f.lanes}"), "i64"), "i64")
                places = [p["line"] * tap + column for tap in range(column_taps)]
                numbers = [f.load(f.offset(p["indices"], place, "i32"), f.integers()) for place in places]
                factors = [f.load(f.offset(p["weights"], place), f.vector) for place in places]
                mask = f.mask_range(0, p["width"] - start)
                with f.loop(0, p["height"]) as row:
                    line = f.offset(source, row * p["width"] + start)
                    if is_permuted:
                        vector = f.load(line, f.vector, mask)
                        values = [permute(f, vector, number) for number in numbers]
                    else:
                        values = [_gather(f, line, number) for number in numbers]
                    value = _combine(f, values, factors)
                    f.store(value, f.offset(p["buffer"], row * p["line"] + column))
        target = f.offset(p["result"], plane * (p["new_height"] * p["new_width"]))
        with f.loop(0, p["new_height"]) as row:
            places = [f.offset(p["rows"], row * row_taps + tap, "i64") for tap in range(row_taps)]
            sources = [f.offset(lines, f.load(place, "i64") * p["line"]) for place in places]
            weights = [f.load(f.offset(p["row_weights"], row * row_taps + tap)) for tap in range(row_taps)]
            factors = [f.splat(weight, f.vector) for weight in weights]
            line = f.offset(target, row * p["new_width"])

            def complete(
                position: Value,
                mask: Value | None,
                sources: list[Value] = sources,
                factors: list[Value] = factors,
                line: Value = line,
            ) -> None:
                value = _combine(f, [f.load(f.offset(s, position), f.vector, mask) for s in sources], factors)
                if column_taps > 1 or row_taps > 1:
                    poison.set(f.multiply_add(value, 0.0, poison.get()))
                f.store(value, f.offset(line, position), mask)

            apply_to_row(f, p["new_width"], complete)
    f.store(poison.get(), p["flags"])
    return compile_function(f)


def _combine(f: Function, values: list[Value], factors: list[Value]) -> Value:
    """Return a weighted sum of two values, or a single value."""
    return values[0] if len(values) == 1 else f.multiply_add(values[1], factors[1], values[0] * factors[0])


def can_permute() -> bool:
    """Return whether the processor permutes vectors by variable indices."""
    return has_feature("avx512f" if get_lanes() == 16 else "avx2")


def permute(f: Function, vector: Value, numbers: Value) -> Value:
    """Return the elements of a vector at indices, a vector of i32."""
    if f.lanes == 16:
        return f.call("llvm.x86.avx512.permvar.sf.512", f.vector, vector, numbers)
    return f.call("llvm.x86.avx2.permps", f.vector, vector, numbers)


def _gather(f: Function, pointer: Value, numbers: Value) -> Value:
    mask = f.mask_range(0, f.lanes)
    return f.gather(pointer, f.convert("sext", numbers, f.integers(64)), mask)


class InterpolateKernel(Interpolation, CompiledKernel):
    """The kernel of Interpolate.

    Args:
        site: The call site.
    """

    description = "compiled: interpolation, sums of two rows and columns"

    def combine_axes(self, rows: Array, columns: Array) -> Callable[[Array], Array | None] | None:
        """Return the function that resizes data; see `Interpolation`."""
        row_taps, column_taps = _find_taps(rows), _find_taps(columns)
        if row_taps is None or column_taps is None or (row_taps.is_identity and column_taps.is_identity):
            return super().combine_axes(rows, columns)
        if len(columns) * row_taps.size > MAX_BUFFER_SIZE:
            return super().combine_axes(rows, columns)
        return partial(_resize, _Plan(row_taps, column_taps))

    def compile_resizer(self, shape: tuple[int, ...], result_shape: tuple[int, ...]) -> None:
        """Compile the kernel for declared shapes of the data and of the result."""
        target, axes = self.site.get_constant(self.position), self.site.get_constant(self.axes_position)
        if target is None and self.site.attributes["shape_calculation_mode"] == "sizes":
            target = np.array(result_shape if axes is None else [result_shape[int(a)] for a in axes.reshape(-1)])
        if target is not None and (axes is not None or not self.site.has_input(self.axes_position)):
            self.make_resizer(shape, target, axes)


class _Plan:
    """The tables of a resizing, and its tasks by the number of planes."""

    def __init__(self, rows: _Taps, columns: _Taps) -> None:
        lanes = get_lanes()
        self.rows, self.columns = rows, columns
        self.shape = rows.indices.shape[1], columns.indices.shape[1]
        pad = -self.shape[1] % lanes
        indices = np.pad(columns.indices, ((0, 0), (0, pad)), mode="edge")
        groups = indices.reshape(len(indices), -1, lanes)
        self.starts = np.ascontiguousarray(groups.min(axis=(0, 2)))
        relative = groups - self.starts[:, np.newaxis]
        self.is_permuted = bool(can_permute() and relative.max() < lanes)
        self.indices = np.ascontiguousarray(relative.reshape(indices.shape).astype(np.int32))
        self.weights = np.ascontiguousarray(np.pad(columns.weights, ((0, 0), (0, pad))))
        self.row_indices = np.ascontiguousarray(rows.indices.T)
        self.row_weights = np.ascontiguousarray(rows.weights.T)
        self.line = columns.size if columns.is_identity else indices.shape[1]
        taps = 0 if columns.is_identity else len(indices)
        self.kernel = compile_resizing(taps, len(rows.indices), self.is_permuted)
        self.scratch_size = 4 * rows.size * self.line if taps else 0
        self.get_task = functools.lru_cache(maxsize=16)(self.make_task)

    def make_task(self, planes: int) -> tuple[Task, int]:
        """Return the task for the addresses of the data, of the result and of the flags, and the number of parts."""
        count = max(1, min(MAX_PARTS, planes, planes * math.prod(self.shape) // MIN_PART_SIZE))
        tables = (self.starts, self.indices, self.weights, self.row_indices, self.row_weights)
        sizes = (self.rows.size, self.columns.size, *self.shape, self.line)
        parts = []
        bounds = [planes * i // count for i in range(count + 1)]
        for number, bound in enumerate(itertools.pairwise(bounds)):
            flags = make_base(2).move(4 * get_lanes() * number)
            arguments = (make_base(0), make_base(1), SCRATCH, *map(get_address, tables), flags, *bound, *sizes)
            parts.append([Call(self.kernel, arguments)])
        return Task(parts, self.scratch_size), count


def _resize(plan: _Plan, data: Array) -> Array | None:
    """Resize planes, or return None if weights of 0 may have turned infinity into NaN."""
    shape = (*data.shape[:-2], *plan.shape)
    check_allocation(shape, F32)
    data = make_contiguous(data)
    result = np.empty(shape, F32)
    task, count = plan.get_task(math.prod(shape[:-2]))
    flags = np.empty(count * get_lanes(), F32)
    task.run(get_address(data), get_address(result), get_address(flags))
    return None if flags.any() else result
