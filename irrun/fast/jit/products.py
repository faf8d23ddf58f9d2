"""Matrix products with constant weights, completed by an expression.

The weights [K, N] are packed into panels as wide as a tile, so that they are read in order. A tile of
several rows and several vectors of columns stays in registers while all of K is summed up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution import get_epilogue_address
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, make_base
from irrun.fast.jit.tiles import prefetch_tile
from irrun.fast.jit.transposition import transpose_vectors
from irrun.fast.packing import allocate_kept

__all__ = [
    "Product",
    "compile_product",
    "count_packed",
    "divide_columns",
    "get_tile",
    "make_packing_calls",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Elements of the block of rows that is multiplied by one panel after another: 384 KiB.
BLOCK_SIZE = 96 << 10
#: Minimum number of rows per block, so that the weights are not read too often.
MIN_BLOCK_ROWS = 128
#: Number of parts below which blocks of rows are divided further, into at least as many rows.
FEW_PARTS, MIN_SHORT_ROWS = 8, 32
#: Minimum number of multiplications per part, minimum number of weights that a part reads, and maximum number of
#: parts.
MIN_PART_WORK, MIN_PART_WEIGHTS, MAX_PARTS = 1 << 20, 1 << 16, 16


def get_tile() -> tuple[int, int]:
    """Return the number of rows and of vectors of a tile."""
    return (8, 3) if get_lanes() == 16 else (4, 3)


@cache_kernel
def compile_product() -> Kernel:
    """Return the kernel that multiplies rows by panels and calls the epilogue for each tile.

    The rows of the data are `stride` elements apart, the rows of the result `distance`.
    """
    rows, vectors = get_tile()
    names = ("data", "weights", "block", "result", "operands", "epilogue")
    integers = ("count", "inner", "stride", "columns", "distance", "first", "last")
    f = Function("multiply", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    tile = vectors * f.lanes
    accumulators = [[f.variable(f.vector, 0.0) for _ in range(vectors)] for _ in range(rows)]

    def multiply_panel(column: Value, width: int) -> None:
        """Multiply all rows by one panel of some vectors."""
        panel = f.offset(p["weights"], column * p["inner"])
        valid = f.min(p["columns"] - column, width * f.lanes)
        start: Value = f.integer(0)
        heights = [rows // 2**i for i in range(rows.bit_length())]
        for height in heights:
            stop = p["count"] & -height
            with f.loop(start, stop, height) as row:
                lines = [line[:width] for line in accumulators[:height]]
                source = f.offset(p["data"], row * p["stride"])
                target = f.offset(p["result"], row * p["distance"] + column)
                prefetch_tile(f, (target, p["distance"]), height, width * f.lanes)
                emit_tile(f, lines, panel, (source, p["stride"]), (p["block"], tile), row)
                position = row * p["distance"] + column
                f.append(
                    f"call void {p['epilogue']}(ptr {p['block']}, i64 {tile}, ptr {p['result']}, i64 {position}, "
                    f"i64 {height}, i64 {valid}, i64 {p['distance']}, ptr {p['operands']}, i64 {column})"
                )
            start = stop

    emit_panels(f, multiply_panel)
    return compile_function(f)


def emit_panels(f: Function, multiply_panel: Callable[[Value, int], None]) -> None:
    """Append the products with all panels of the columns from `first` to `last`; see `divide_columns`.

    Args:
        f: A function with the parameters `first` and `last`.
        multiply_panel: Appends the products with a panel: its first column, and its number of vectors.
    """
    p = f.parameters
    vectors = get_tile()[1]
    tile = vectors * f.lanes
    with f.loop(p["first"], p["last"] - (tile + f.lanes), tile) as column:
        multiply_panel(column, vectors)
    # The rest has at most one vector more than a tile.
    total = p["last"] - p["first"]
    looped = f.max(total - (f.lanes + 1), 0)
    done = f.emit("i64", f"sdiv i64 {looped}, {tile}") * tile
    start = p["first"] + done
    rest = total - done
    is_long = f.compare("sgt", rest, tile)
    with f.when(is_long):
        multiply_panel(start, vectors - 1)
    start = f.select(is_long, start + (vectors - 1) * f.lanes, start)
    rest = p["last"] - start
    for width in range(1, vectors + 1):
        fits = f.compare("sle", rest, width * f.lanes) & f.compare("sgt", rest, (width - 1) * f.lanes)
        with f.when(fits):
            multiply_panel(start, width)


def get_tile_size() -> int:
    """Return the number of elements of a tile."""
    rows, vectors = get_tile()
    return rows * vectors * get_lanes()


def divide_columns(columns: int) -> list[tuple[int, int]]:
    """Return the first column and the number of columns of each panel, multiples of a vector.

    A panel of one vector would be slow, since its additions wait for each other. Two panels are narrower instead.
    """
    lanes, vectors = get_lanes(), get_tile()[1]
    total = -(-columns // lanes)
    widths = [vectors] * (total // vectors)
    if total % vectors == 1 and widths:
        widths[-1:] = [vectors - 1, 2]
    elif total % vectors:
        widths.append(total % vectors)
    starts = [sum(widths[:i]) * lanes for i in range(len(widths))]
    return [(start, width * lanes) for start, width in zip(starts, widths, strict=True)]


def emit_tile(
    f: Function,
    accumulators: Sequence[Sequence[Variable]],
    panel: Value,
    data: tuple[Value, Value],
    result: tuple[Value, Value | int],
    row: Value,
) -> None:
    """Append the products of a few rows with a panel of weights.

    Args:
        f: A function with the parameter `inner`.
        accumulators: For each row, the sums of each vector of columns.
        panel: The address of the panel.
        data: The address of the first row, and the elements between rows.
        result: The address of the first row of the result, and the elements between rows.
        row: The number of the first row.
    """
    p = f.parameters
    width = len(accumulators[0])
    for line in accumulators:
        for accumulator in line:
            accumulator.set(0.0)
    sources = [f.offset(data[0], data[1] * r) for r in range(len(accumulators))]
    # The first tiles of a panel load the next one from memory: one line for each k.
    third = f.min(f.emit("i64", f"sdiv i64 {row}, {get_tile()[0]}"), width - 1)
    following = f.offset(panel, (third + width) * p["inner"] * f.lanes)
    with f.loop(0, p["inner"]) as k:
        weights = f.offset(panel, k * (width * f.lanes))
        f.prefetch(f.offset(following, k * f.lanes))
        columns = [f.load(f.offset(weights, i * f.lanes), f.vector) for i in range(width)]
        for source, line in zip(sources, accumulators, strict=True):
            factor = f.splat(f.load(f.offset(source, k)), f.vector)
            for column, accumulator in zip(columns, line, strict=True):
                accumulator.set(f.multiply_add(column, factor, accumulator.get()))
    for r, line in enumerate(accumulators):
        for i, accumulator in enumerate(line):
            f.store(accumulator.get(), f.offset(result[0], result[1] * r + i * f.lanes))


@cache_kernel
def compile_packing() -> Kernel:
    """Return the kernel that copies columns of a matrix with any strides into a panel.

    The matrix may be unaligned, like constants in files.
    """
    integers = ("inner", "columns", "width", "row_stride", "column_stride")
    f = Function("pack_panel", [("source", "ptr"), ("panel", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters

    def copy(load: Callable[[Value, Value, Value], Value]) -> None:
        with f.loop(0, p["width"], f.lanes) as column:
            mask = f.mask_range(0, p["columns"] - column)
            with f.loop(0, p["inner"]) as k:
                target = f.offset(p["panel"], k * p["width"] + column)
                f.store(load(k * p["row_stride"], column, mask), target)

    def load_row(start: Value, column: Value, mask: Value) -> Value:
        return f.load(f.offset(p["source"], start + column), f.vector, mask, is_aligned=False)

    def gather(start: Value, column: Value, mask: Value) -> Value:
        lanes = f.convert("sext", f.lane_numbers(), f.integers(64))
        offsets = lanes * f.splat(p["column_stride"], f.integers(64))
        base = f.offset(p["source"], start + column * p["column_stride"])
        return f.gather(base, offsets, mask, is_aligned=False)

    def transpose() -> None:
        """Copy contiguous columns in square blocks."""
        with f.loop(0, p["width"], f.lanes) as column, f.loop(0, p["inner"], f.lanes) as k:
            mask = f.mask_range(0, p["inner"] - k)
            numbers = [f.max(f.min(column + i, p["columns"] - 1), 0) for i in range(f.lanes)]
            sources = [f.offset(p["source"], number * p["column_stride"] + k) for number in numbers]
            lines = transpose_vectors(f, [f.load(source, f.vector, mask, is_aligned=False) for source in sources])
            target = f.offset(p["panel"], k * p["width"] + column)
            for i, line in enumerate(lines):
                with f.when(f.compare("slt", k + i, p["inner"])):
                    f.store(line, f.offset(target, p["width"] * i))

    f.choose(
        f.compare("eq", p["column_stride"], 1),
        lambda: copy(load_row),
        lambda: f.choose(f.compare("eq", p["row_stride"], 1), transpose, lambda: copy(gather)),
    )
    return compile_function(f)


class Product:
    """The product of rows with constant weights.

    Args:
        weights: f32, shape [K, N], with any strides.
    """

    def __init__(self, weights: Array) -> None:
        self.inner, self.columns = weights.shape
        if weights.dtype != F32 or any(stride % 4 for stride in weights.strides):
            raise NoKernelError("expected f32")
        self.weights = allocate_kept((count_packed(self.inner, self.columns),))
        strides = weights.strides[0] // 4, weights.strides[1] // 4
        Task([make_packing_calls(weights.shape, strides, make_base(0), make_base(1))]).run(
            get_address(weights), get_address(self.weights)
        )

    def make_task(self, count: int, expression: Expression) -> tuple[Task, Array]:
        """Return the task for a number of rows, and the offsets of the operands for each block.

        Args:
            count: The number of contiguous rows of the data.
            expression: The epilogue. Its operands are "column" [N], "full" [M, N] or "scalar".

        Returns:
            The task, for the addresses of the data, the result, and a table with the operand addresses of each block;
            and the offsets of the operands in bytes, [BLOCKS, OPERANDS].
        """
        inner, columns = self.inner, self.columns
        blocks, sections = _divide(count, inner, columns, get_tile()[1] * get_lanes())
        sizes = [4 * columns if kind == "full" else 0 for kind in expression.kinds] or [0]
        parts = []
        for i, (first, last) in enumerate(blocks):
            table = make_base(2).move(8 * i * len(sizes))
            addresses = (make_base(0).move(4 * first * inner), get_address(self.weights), SCRATCH)
            places = (make_base(1).move(4 * first * columns), table, get_epilogue_address(expression, "any"))
            for left, right in sections:
                arguments = (*addresses, *places, last - first, inner, inner, columns, columns, left, right)
                parts.append([Call(compile_product(), arguments)])
        offsets = np.array([[first * size for size in sizes] for first, _ in blocks], np.int64)
        return Task(parts, 4 * get_tile_size()), offsets

    def make_rows_task(self, groups: Iterable[tuple[int, int, int, int, int]], expression: Expression) -> Task:
        """Return the task for rows that are not contiguous.

        Args:
            groups: Groups of rows: the number of rows, the first element in the data, the elements between rows, the
                first row of the result, and the distance of the rows in the result.
            expression: The epilogue. Its operands are "column" [N].

        Returns:
            The task, for the addresses of the data, the result, and a table with the operand addresses.
        """
        inner, columns = self.inner, self.columns
        parts = []
        for count, start, stride, target, distance in groups:
            blocks, sections = _divide(count, inner, columns, get_tile()[1] * get_lanes())
            for first, last in blocks:
                source = make_base(0).move(4 * (start + first * stride))
                result = make_base(1).move(4 * (target + first * distance) * columns)
                addresses = (source, get_address(self.weights), SCRATCH, result, make_base(2))
                for left, right in sections:
                    numbers = (last - first, inner, stride, columns, distance * columns, left, right)
                    arguments = (*addresses, get_epilogue_address(expression, "any"), *numbers)
                    parts.append([Call(compile_product(), arguments)])
        return Task(parts, 4 * get_tile_size())


def count_packed(inner: int, columns: int) -> int:
    """Return the number of elements of packed weights [K, N]."""
    return inner * (columns + -columns % get_lanes())


def make_packing_calls(
    shape: tuple[int, int], strides: tuple[int, int], source: Address, target: Address
) -> list[Call]:
    """Return the calls that pack weights.

    Args:
        shape: The shape of the weights, [K, N].
        strides: Elements between rows and between columns of the weights.
        source: The address of the weights.
        target: The address of the packed weights.
    """
    inner, columns = shape
    calls = []
    for start, width in divide_columns(columns):
        addresses = (source.move(4 * start * strides[1]), target.move(4 * start * inner))
        calls.append(Call(compile_packing(), (*addresses, inner, min(width, columns - start), width, *strides)))
    return calls


@functools.lru_cache(maxsize=1024)
def _divide(count: int, inner: int, columns: int, tile: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the blocks of rows and the sections of columns. Each pair of a block and a section is a part."""
    blocks = _divide_rows(count, max(MIN_BLOCK_ROWS, BLOCK_SIZE // max(1, inner)))
    sections = _divide_sections(blocks[0][1], inner, columns, tile, MAX_PARTS // len(blocks))
    parts = min(FEW_PARTS, count * inner * columns // MIN_PART_WORK)
    if len(blocks) * len(sections) < parts:
        # Too few parts for threads to finish at the same time.
        blocks = _divide_rows(count, max(MIN_SHORT_ROWS, -(-count * len(sections) // parts)))
    return blocks, sections


def _divide_rows(count: int, limit: int) -> list[tuple[int, int]]:
    """Return blocks of about the same number of rows, at most `limit` rounded up to a multiple of 8."""
    block = -(-count // -(-count // limit))
    block += -block % 8
    return [(i, min(i + block, count)) for i in range(0, count, block)]


def _divide_sections(rows: int, inner: int, columns: int, tile: int, limit: int) -> list[tuple[int, int]]:
    """Return at most `limit` sections of columns for a block of some rows."""
    work = rows * inner * columns
    by_work = max(work // MIN_PART_WORK, inner * columns // MIN_PART_WEIGHTS if work < MIN_PART_WORK * 4 else 0)
    section = -(-columns // max(1, min(limit, by_work)))
    section += -section % tile
    sections = [(i, min(i + section, columns)) for i in range(0, columns, section)]
    if len(sections) > 1 and sections[-1][1] - sections[-1][0] <= get_lanes():
        # A last panel of one vector is packed together with the one before.
        sections[-2:] = [(sections[-2][0], columns)]
    return sections
