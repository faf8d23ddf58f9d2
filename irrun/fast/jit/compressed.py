"""Products of a few rows with compressed weights: one pass over the codes.

Codes are converted to f32 in registers and multiplied by the rows. Each group of columns is summed separately, and its
sum is corrected by the zero point and scaled. Reading the codes from memory limits the speed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.compressed import CompressedWeights
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, Binding, Layout
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.compressed_codes import (
    WeightAddresses,
    get_width,
    has_tables,
    load_codes,
    make_table,
    supports,
)
from irrun.fast.jit.compressed_tiles import TileProducts
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.reductions import add, fold
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, align_size, make_base
from irrun.limits import check_allocation

__all__ = ["CompressedKernel", "supports"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Number of weight rows that share the loaded elements of the data row.
ROWS = 8
#: Up to this many data rows, each row is multiplied separately by codes in the cache.
MAX_ROWS = 8
#: Codes of a cache line.
LINE_SIZE = 64
#: Minimum number of codes per part, and maximum number of parts per product.
MIN_PART_SIZE, MAX_PARTS = 1 << 19, 16


@cache_kernel
def compile_row(kind: str, has_zero_point: bool, has_scale: bool, step: int, has_table: bool) -> Kernel:
    """Return the kernel that multiplies a row by codes [N, K].

    Zero points and scales have strides along rows and groups, which may be 0.

    Args:
        kind: The kind of the codes; see `WeightAddresses`.
        has_zero_point: Whether there are zero points.
        has_scale: Whether there are scales.
        step: The columns that are computed together. They divide the size of a group.
        has_table: Whether a table holds the codes minus the only zero point.
    """
    pointers = ("codes", "data", "sums", "zero_points", "scales", "result")
    integers = ("first", "last", "inner", "size", "zero_row", "zero_group", "scale_row", "scale_group")
    f = Function("multiply_row", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    groups = f.emit("i64", f"sdiv i64 {p['inner']}, {p['size']}")
    width = get_width(kind)
    table = None
    if has_table:
        table = make_table(f, kind) - f.splat(f.load(p["zero_points"]), f.vector)
        has_zero_point = False
    totals = [f.variable(f.vector, 0.0) for _ in range(ROWS)]
    sums = [f.variable(f.vector, 0.0) for _ in range(ROWS)]

    def multiply_rows(row: Value, count: int) -> None:
        for total in totals[:count]:
            total.set(0.0)
        with f.loop(0, groups) as group:
            for total in sums[:count]:
                total.set(0.0)
            start = group * p["size"]
            with f.loop(start, start + p["size"], step) as first:
                for i in range(0, step, width * f.lanes):
                    places = [f.offset(p["data"], first + i + n * f.lanes) for n in range(width)]
                    vectors = [f.load(place, f.vector) for place in places]
                    for r, total in enumerate(sums[:count]):
                        index = (row + r) * p["inner"] + first + i
                        distance = None if i else p["inner"] * count
                        loaded = load_codes(f, kind, p["codes"], index, distance, table)
                        for codes, data in zip(loaded, vectors, strict=True):
                            total.set(f.multiply_add(codes, data, total.get()))
            group_sums = f.load(f.offset(p["sums"], group * f.lanes), f.vector) if has_zero_point else None
            for r in range(count):
                value = sums[r].get()
                if group_sums is not None:
                    index = (row + r) * p["zero_row"] + group * p["zero_group"]
                    zero_point = f.splat(f.load(f.offset(p["zero_points"], index)), f.vector)
                    value = f.multiply_add(-zero_point, group_sums, value)
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


@cache_kernel
def compile_sums() -> Kernel:
    """Return the kernel that sums groups of vectors of a row."""
    f = Function("sum_groups", [("row", "ptr"), ("sums", "ptr"), ("inner", "i64"), ("size", "i64")], get_lanes())
    p = f.parameters
    total = f.variable(f.vector, 0.0)
    with f.loop(0, p["inner"], p["size"]) as start:
        total.set(f.load(f.offset(p["row"], start), f.vector))
        with f.loop(start + f.lanes, start + p["size"], f.lanes) as k:
            total.add(f.load(f.offset(p["row"], k), f.vector))
        group = f.emit("i64", f"sdiv i64 {start}, {p['size']}")
        f.store(total.get(), f.offset(p["sums"], group * f.lanes))
    return compile_function(f)


@cache_kernel
def compile_separation() -> Kernel:
    """Return the kernel of `separate_pairs` for one row."""
    f = Function("separate_pairs", [("row", "ptr"), ("result", "ptr"), ("inner", "i64")], get_lanes())
    p = f.parameters
    with f.loop(0, p["inner"], 2 * f.lanes) as start:
        places = [start, start + f.lanes]
        vectors = [f.load(f.offset(p["row"], place), f.vector) for place in places]
        for parity, place in enumerate(places):
            f.store(f.shuffle(vectors, range(parity, 2 * f.lanes, 2)), f.offset(p["result"], place))
    return compile_function(f)


class RowProducts:
    """Products of a few rows with several compressed weights.

    Each part multiplies all rows by some rows of the weights, which stay in the cache meanwhile. It first prepares each
    row in the scratch memory of its thread, which takes less time than waiting for another thread.

    Args:
        matrices: The weights, with the same number of columns.

    Attributes:
        sums: The places of sums of a row in scratch memory, by the size of the summed groups.
    """

    def __init__(self, matrices: Sequence[WeightAddresses]) -> None:
        self._matrices = matrices
        self._inner = matrices[0].inner
        self._total = sum(matrix.rows for matrix in matrices)
        self.sums: dict[int, Address] = {}
        size = align_size(F32.itemsize * self._inner) if any(matrix.has_nibbles for matrix in matrices) else 0
        for weights in matrices:
            if _needs_sums(weights) and weights.size not in self.sums:
                self.sums[weights.size] = SCRATCH.move(size)
                size += align_size(F32.itemsize * get_lanes() * (self._inner // weights.size))
        self._scratch_size = size
        self._tasks: dict[int, Task] = {1: self._make_task(1)}

    def get_task(self, count: int) -> Task:
        """Return the task for the addresses of some rows and of the result, whose rows join those of all products."""
        if count not in self._tasks:
            self._tasks[count] = self._make_task(count)
        return self._tasks[count]

    def _make_task(self, count: int) -> Task:
        parts = []
        column = 0
        for weights in self._matrices:
            width = get_width(weights.variant[0])
            line = width * LINE_SIZE
            step = next((n for n in (line, LINE_SIZE) if weights.size % n == 0), width * get_lanes())
            kernel = compile_row(*weights.variant, step, _has_table(weights))
            codes, zero_points, scales = weights.pointers
            for part in _divide(weights.rows, self._inner):
                calls = []
                for row in range(count):
                    source = make_base(0).move(F32.itemsize * row * self._inner)
                    calls += self._prepare(weights, source)
                    data = SCRATCH if weights.has_nibbles else source
                    result = make_base(1).move(F32.itemsize * (row * self._total + column))
                    pointers = (codes, data, self.sums.get(weights.size, 0), zero_points, scales, result)
                    calls.append(Call(kernel, (*pointers, *part, self._inner, weights.size, *weights.strides)))
                parts.append(calls)
            column += weights.rows
        return Task(parts, self._scratch_size)

    def _prepare(self, weights: WeightAddresses, source: Address) -> list[Call]:
        """Return the calls that prepare a row in scratch memory."""
        calls = []
        if weights.has_nibbles:
            calls.append(Call(compile_separation(), (source, SCRATCH, self._inner)))
        if _needs_sums(weights):
            calls.append(Call(compile_sums(), (source, self.sums[weights.size], self._inner, weights.size)))
        return calls

    def __call__(self, rows: Array) -> list[Array]:
        """Compute `rows @ weights.T` for all weights.

        Args:
            rows: f32, contiguous, shape [M, K].

        Returns:
            For each matrix, shape [M, N].
        """
        result = np.empty((len(rows), self._total), F32)
        self.get_task(len(rows)).run(get_address(rows), get_address(result))
        return np.split(result, list(itertools.accumulate(matrix.rows for matrix in self._matrices[:-1])), axis=1)


def _needs_sums(weights: WeightAddresses) -> bool:
    """Return whether products are corrected by sums of the row."""
    return weights.variant[1] and not _has_table(weights)


def _has_table(weights: WeightAddresses) -> bool:
    """Return whether a table can hold the codes minus the zero point."""
    return weights.variant[1] and has_tables(weights.variant[0]) and weights.strides[:2] == (0, 0)


@functools.cache
def _divide(rows: int, inner: int) -> list[tuple[int, int]]:
    """Return the first row of each part, and the row after its last."""
    count = max(1, min(MAX_PARTS, rows * inner // MIN_PART_SIZE))
    step = -(-rows // count)
    step += -step % ROWS
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


class CompressedKernel(CompiledKernel):
    """The kernel of products of the same data with compressed weights.

    Args:
        weights: Weights that `supports` accepts, with the same number of columns.
    """

    description = "compiled: product with compressed weights, which are decompressed in registers or the cache"

    def __init__(self, *weights: CompressedWeights) -> None:
        self.weights = weights
        self._matrices = [WeightAddresses(w) for w in weights]
        self._inner = self._matrices[0].inner
        self._elements = sum(matrix.rows for matrix in self._matrices)
        if len(weights) > 1:
            self.output_sizes = [matrix.rows for matrix in self._matrices]
        self._multiply_few, self._multiply_rows = RowProducts(self._matrices), TileProducts(self._matrices)

    @property
    def unpacked_codes(self) -> list[Array]:
        """The codes that are not read as they are stored."""
        return [m.weights.codes for m in self._matrices if not m.has_nibbles]

    def __call__(self, data: Array) -> Array | tuple[Array, ...]:
        """Compute `data @ weights.T` for all weights."""
        if data.dtype != F32 or not data.size or not data.ndim or data.shape[-1] != self._inner:
            raise NoKernelError("expected f32 of shape [..., K]")
        rows = make_contiguous(data).reshape(-1, self._inner)
        count = len(rows)
        check_allocation((count, self._elements), F32)
        results = (self._multiply_few if count <= MAX_ROWS else self._multiply_rows)(rows)
        shaped = [r.reshape(*data.shape[:-1], m.rows) for r, m in zip(results, self._matrices, strict=True)]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the products of a few rows.

        Raises:
            NoKernelError: The data is empty or has many rows.
        """
        shape = layouts[0].shape
        count = math.prod(shape[:-1])
        if not 0 < count <= MAX_ROWS or shape[-1] != self._inner:
            raise NoKernelError("expected a few rows of the length of the weights")
        return Binding((*shape[:-1], self._elements), [self._multiply_few.get_task(count)], (0, RESULT))
