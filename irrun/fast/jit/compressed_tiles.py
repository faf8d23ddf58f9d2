"""Products of several rows with compressed weights.

A chunk of rows and columns of the weights is decompressed into the processor's cache, bit-identical to the model's
operations, and multiplied by all rows of the data. The data is packed into panels of one or two vectors of
rows, so that a tile of the transposed result stays in registers while the columns of a chunk are summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import keep_binding
from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.compressed_codes import WeightAddresses, get_width, load_codes, separate_pairs
from irrun.fast.jit.products import compile_packing
from irrun.fast.jit.tasks import SCRATCH, Call, Task, align_size, make_base

__all__ = ["TileProducts", "compile_tiles"]

Array = np.ndarray[Any, Any]

#: Maximum number of row counts for which tasks are kept.
MAX_TASKS = 16

F32 = np.dtype(np.float32)

#: Maximum number of vectors per panel.
VECTORS = 2
#: Rows per chunk of weights, a multiple of a tile's rows, and columns per chunk, a multiple of a vector.
CHUNK_ROWS, CHUNK_COLUMNS = 48, 512
#: Number of data rows for which the weights are decompressed once.
BLOCK_ROWS = 512
#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 21, 16


def get_tile_rows(width: int) -> int:
    """Return the number of rows of the weights in a tile of some vectors."""
    return (24 if get_lanes() == 16 else 12) // width


@cache_kernel
def compile_tiles(kind: str, has_zero_point: bool, has_scale: bool) -> Kernel:
    """Return the kernel that multiplies `count` packed rows by a range of rows of the weights [N, K].

    Zero points and scales have strides along rows and groups, which may be 0.
    """
    pointers = ("codes", "data", "zero_points", "scales", "chunk", "sums", "result")
    strides = ("zero_row", "zero_group", "scale_row", "scale_group")
    integers = ("first", "last", "inner", "columns", "size", *strides, "count")
    f = Function("multiply_tiles", [*((n, "ptr") for n in pointers), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    panel_rows = VECTORS * f.lanes
    accumulators = [f.variable(f.vector, 0.0) for _ in range(get_tile_rows(1))]
    with f.loop(p["first"], p["last"], CHUNK_ROWS) as row:
        stop = f.min(row + CHUNK_ROWS, p["last"])
        with f.loop(0, p["inner"], CHUNK_COLUMNS) as column:
            end = f.min(column + CHUNK_COLUMNS, p["inner"])
            _decompress(f, kind, has_zero_point, has_scale, (row, stop), (column, end))
            with f.loop(0, p["count"], panel_rows) as start:
                is_wide = f.compare("sgt", p["count"] - start, f.lanes)
                panel = f.offset(p["data"], start * p["inner"])
                sums = f.offset(p["sums"], start * CHUNK_ROWS)

                def multiply(width: int, panel: Value = panel, sums: Value = sums) -> None:
                    source = f.offset(panel, column * (width * f.lanes))
                    _multiply(f, accumulators, width, source, sums, stop - row, end - column, column)

                f.choose(is_wide, lambda: multiply(VECTORS), lambda: multiply(1))
        with f.loop(0, p["count"]) as m:
            panel = f.emit("i64", f"sdiv i64 {m}, {panel_rows}")
            place = m - panel * panel_rows
            source = f.offset(p["sums"], panel * (CHUNK_ROWS * panel_rows) + place)
            target = f.offset(p["result"], m * p["columns"] + row)
            with f.loop(0, stop - row) as n:
                f.store(f.load(f.offset(source, n * panel_rows)), f.offset(target, n))
    return compile_function(f)


def _decompress(
    f: Function,
    kind: str,
    has_zero_point: bool,
    has_scale: bool,
    rows: tuple[Value, Value],
    columns: tuple[Value, Value],
) -> None:
    """Decompress a chunk."""
    p = f.parameters
    column, end = columns
    first_group = f.emit("i64", f"sdiv i64 {column}, {p['size']}")
    last_group = f.emit("i64", f"sdiv i64 {end - 1}, {p['size']}")
    with f.loop(rows[0], rows[1]) as n:
        start = n * p["inner"]
        target = f.offset(p["chunk"], (n - rows[0]) * CHUNK_COLUMNS)
        with f.loop(first_group, last_group + 1) as group:
            parameters = []
            for name, exists in (("zero", has_zero_point), ("scale", has_scale)):
                index = n * p[f"{name}_row"] + group * p[f"{name}_group"]
                pointer = p["zero_points" if name == "zero" else "scales"]
                parameters.append(f.splat(f.load(f.offset(pointer, index)), f.vector) if exists else None)
            zero_point, scale = parameters
            left, right = f.max(group * p["size"], column), f.min((group + 1) * p["size"], end)
            with f.loop(left, right, get_width(kind) * f.lanes) as k:
                values = load_codes(f, kind, p["codes"], start + k, p["inner"] * CHUNK_ROWS)
                for i, value in enumerate(values):
                    if zero_point is not None:
                        value = value - zero_point
                    if scale is not None:
                        value = value * scale
                    f.store(value, f.offset(target, k - column + i * f.lanes))


def _multiply(
    f: Function,
    accumulators: list[Variable],
    width: int,
    panel: Value,
    sums: Value,
    rows: Value,
    columns: Value,
    column: Value,
) -> None:
    """Multiply a chunk by a panel, and add the products to the sums unless the chunk is the first."""
    tile = get_tile_rows(width)
    start: Value = f.integer(0)
    is_first = f.compare("eq", column, 0)
    for height in (tile, 4, 1):
        stop = start + f.emit("i64", f"sdiv i64 {rows - start}, {height}") * height
        with f.loop(start, stop, height) as row:
            lines = [accumulators[r * width : (r + 1) * width] for r in range(height)]
            places = [
                [f.offset(sums, (row + r) * (VECTORS * f.lanes) + i * f.lanes) for i in range(width)]
                for r in range(height)
            ]
            for line, pointers in zip(lines, places, strict=True):
                for accumulator, pointer in zip(line, pointers, strict=True):
                    known = f.load(pointer, f.vector)
                    accumulator.set(f.select(is_first, f.coerce(0.0, f.vector), known))
            sources = [f.offset(f.parameters["chunk"], (row + r) * CHUNK_COLUMNS) for r in range(height)]
            with f.loop(0, columns) as k:
                data = [f.load(f.offset(panel, k * (width * f.lanes) + i * f.lanes), f.vector) for i in range(width)]
                for source, line in zip(sources, lines, strict=True):
                    factor = f.splat(f.load(f.offset(source, k)), f.vector)
                    for x, accumulator in zip(data, line, strict=True):
                        accumulator.set(f.multiply_add(x, factor, accumulator.get()))
            for line, pointers in zip(lines, places, strict=True):
                for accumulator, pointer in zip(line, pointers, strict=True):
                    f.store(accumulator.get(), pointer)
        start = stop


class TileProducts:
    """Products of the same rows with several compressed weights.

    Args:
        matrices: The weights, with the same number of columns.
    """

    def __init__(self, matrices: Sequence[WeightAddresses]) -> None:
        self._matrices = matrices
        self._inner = matrices[0].inner
        #: Whether the weights need the data in its own order, and in the order of nibbles.
        self._orders = tuple(any(m.has_nibbles == order for m in matrices) for order in (False, True))
        self._tasks: dict[int, tuple[Task, Task]] = {}
        for matrix in matrices:
            compile_tiles(*matrix.variant)
        compile_packing()

    def __call__(self, rows: Array) -> list[Array]:
        """Compute `rows @ weights.T` for all weights.

        Args:
            rows: f32, contiguous, shape [M, K].

        Returns:
            For each matrix, shape [M, N].
        """
        results = [np.empty((len(rows), matrix.rows), F32) for matrix in self._matrices]
        for start in range(0, len(rows), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            self._multiply_block(rows[block], [result[block] for result in results])
        return results

    def _multiply_block(self, rows: Array, results: Sequence[Array]) -> None:
        count = len(rows)
        tasks = self._tasks.get(count)
        if tasks is None:
            tasks = self._make_packing(count), self._make_products(count)
            keep_binding(self._tasks, count, tasks, MAX_TASKS)
        panels = [np.empty(self._inner * (count + -count % get_lanes()) * needed, F32) for needed in self._orders]
        for has_nibbles, panel in enumerate(panels):
            if self._orders[has_nibbles]:
                source = separate_pairs(rows) if has_nibbles else rows
                tasks[0].run(get_address(source), get_address(panel))
        tasks[1].run(*map(get_address, (*panels, *results)))

    def _make_packing(self, count: int) -> Task:
        """Return the task that copies rows into transposed panels; the last panel may have fewer vectors."""
        inner, lanes = self._inner, get_lanes()
        parts = []
        for start in range(0, count, VECTORS * lanes):
            columns = min(VECTORS * lanes, count - start)
            source, target = (make_base(i).move(4 * start * inner) for i in range(2))
            sizes = (inner, columns, columns + -columns % lanes, 1, inner)
            parts.append([Call(compile_packing(), (source, target, *sizes))])
        return Task(parts)

    def _make_products(self, count: int) -> Task:
        """Return the task for the panels and the results."""
        padded = count + -count % (VECTORS * get_lanes())
        sums = align_size(4 * CHUNK_ROWS * CHUNK_COLUMNS)
        parts = []
        for number, weights in enumerate(self._matrices):
            codes, zero_points, scales = weights.pointers
            kernel = compile_tiles(*weights.variant)
            part_count = max(1, min(MAX_PARTS, weights.rows * weights.inner * padded // MIN_PART_WORK))
            step = -(-weights.rows // part_count)
            step += -step % CHUNK_ROWS
            data, result = make_base(int(weights.has_nibbles)), make_base(2 + number)
            pointers = (codes, data, zero_points, scales, SCRATCH, SCRATCH.move(sums), result)
            for first in range(0, weights.rows, step):
                integers = (first, min(first + step, weights.rows), weights.inner, weights.rows, weights.size)
                parts.append([Call(kernel, (*pointers, *integers, *weights.strides, count))])
        return Task(parts, sums + 4 * CHUNK_ROWS * padded)
