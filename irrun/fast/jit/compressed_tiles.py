"""Products of several rows with weights that stay compressed.

A chunk of rows and columns of the weights is decompressed into the processor's cache, with the bits that the operations
of the model compute, and multiplied by all rows of the data. These are packed into panels of one or two vectors of
rows, so that a tile of the transposed result stays in registers while the columns of a chunk are summed up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import compile_function, get_lanes
from irrun.fast.jit.compressed_codes import WeightAddresses, load_codes
from irrun.fast.jit.convolution import get_buffer
from irrun.fast.jit.elementwise import get_address
from irrun.fast.jit.products import compile_packing
from irrun.threads import run_parallel

__all__ = ["compile_tiles", "multiply_rows"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Vectors of a panel at most.
VECTORS = 2
#: Rows of the weights in a chunk, a multiple of those of a tile, and columns of a chunk, a multiple of a vector.
CHUNK_ROWS, CHUNK_COLUMNS = 48, 512
#: Rows of the data for which the weights are decompressed once.
BLOCK_ROWS = 512
#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 23, 16


def get_tile_rows(width: int) -> int:
    """Return the number of rows of the weights in a tile of some vectors."""
    return (24 if get_lanes() == 16 else 12) // width


@functools.cache
def compile_tiles(kind: str, has_zero_point: bool, has_scale: bool) -> Callable[..., None]:
    """Return the kernel that multiplies `count` packed rows by some rows of the weights [N, K].

    Zero points and scales are addressed by their strides along rows and groups, which may be 0.
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
            with f.loop(left, right, f.lanes) as k:
                value = load_codes(f, kind, p["codes"], start + k, p["inner"] * CHUNK_ROWS)
                if zero_point is not None:
                    value = value - zero_point
                if scale is not None:
                    value = value * scale
                f.store(value, f.offset(target, k - column))


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


def multiply_rows(matrices: Sequence[WeightAddresses], rows: Array) -> list[Array]:
    """Compute `rows @ weights.T` for several weights with the same number of columns.

    Args:
        matrices: The weights.
        rows: f32, contiguous, shape [M, K].

    Returns:
        For each of them, shape [M, N].
    """
    results = [np.empty((len(rows), weights.rows), F32) for weights in matrices]
    for start in range(0, len(rows), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        _multiply_block(matrices, rows[block], [result[block] for result in results])
    return results


def _multiply_block(matrices: Sequence[WeightAddresses], rows: Array, results: Sequence[Array]) -> None:
    count, lanes = len(rows), get_lanes()
    packed = _pack(rows)
    source = get_address(packed)
    padded = count + -count % (VECTORS * lanes)
    parts: list[Callable[[int, int], None]] = []
    for weights, result in zip(matrices, results, strict=True):
        codes, *parameters = weights.pointers
        kernel = functools.partial(compile_tiles(*weights.variant), codes, source, *parameters)
        target = get_address(result)
        part_count = max(1, min(MAX_PARTS, weights.rows * weights.inner * padded // MIN_PART_WORK))
        step = -(-weights.rows // part_count)
        step += -step % CHUNK_ROWS
        for first in range(0, weights.rows, step):
            integers = (first, min(first + step, weights.rows), weights.inner, weights.rows, weights.size)
            parts.append(functools.partial(_call, kernel, (target, *integers, *weights.strides, count)))

    def compute(part: int) -> None:
        chunk = get_address(get_buffer("chunk", CHUNK_ROWS * CHUNK_COLUMNS))
        parts[part](chunk, get_address(get_buffer("sums", CHUNK_ROWS * padded)))

    run_parallel(compute, len(parts))


def _call(kernel: Callable[..., None], arguments: tuple[int, ...], chunk: int, sums: int) -> None:
    kernel(chunk, sums, *arguments)


def _pack(rows: Array) -> Array:
    """Return panels of rows, each transposed; the last one has fewer vectors if that suffices."""
    count, inner = rows.shape
    lanes = get_lanes()
    packed = np.empty(inner * (count + -count % lanes), F32)
    pack, source, target = compile_packing(), get_address(rows), get_address(packed)
    for start in range(0, count, VECTORS * lanes):
        columns = min(VECTORS * lanes, count - start)
        pack(
            source + 4 * start * inner, target + 4 * start * inner, inner, columns, columns + -columns % lanes, 1, inner
        )
    return packed
