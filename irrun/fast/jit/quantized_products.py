"""Products of rows of codes with constant codes of weights: sums in i32, completed by an expression.

Rows [M, K] hold one byte for each value. The weights [N, K] are packed into panels as wide as a tile, in
which four neighboring elements of K are next to each other. A tile of several rows and vectors of columns stays in
registers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, TABLE, Binding, Operand, Shape
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.codes import CodeFormat
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.dot_products import DotProduct, get_dot_product
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.quantized_code import round_to_integer
from irrun.fast.jit.tasks import SCRATCH, Call, Task, make_base, make_range_task
from irrun.limits import check_allocation

__all__ = ["QuantizedProduct", "bind_row_decoding", "bind_row_encoding", "decode_rows", "encode_rows"]

Array = np.ndarray[Any, Any]

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)

#: Bytes of the block of rows that is multiplied by one panel after another.
BLOCK_SIZE = 256 << 10
#: Minimum number of rows per block, minimum number of multiplications per part, and maximum number of parts.
MIN_BLOCK_ROWS, MIN_PART_WORK, MAX_PARTS = 128, 1 << 20, 16
#: Elements per part of a conversion.
PART_SIZE = 1 << 16


def get_tile() -> tuple[int, int]:
    """Return the number of rows and of vectors of a tile."""
    return (8, 3) if get_lanes() == 16 else (4, 2)


def round_to_bytes(f: Function, level: Value) -> Value:
    """Round levels from 0 to 255, and return their codes as bytes."""
    return f.convert("trunc", round_to_integer(f, level), f.integers(8))


@cache_kernel
def _compile_product(form: DotProduct) -> Kernel:
    """Return the kernel that multiplies rows by panels and calls the epilogue for each tile."""
    rows, vectors = get_tile()
    names = ("data", "weights", "bias", "block", "result", "operands", "epilogue")
    integers = ("count", "inner", "columns", "first", "last")
    f = Function("multiply_codes", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    tile = vectors * f.lanes
    sums = [[f.variable(f.integers(), 0) for _ in range(vectors)] for _ in range(rows)]

    def add_tile(column: Value, row: Value, height: int) -> None:
        for i in range(vectors):
            start = f.load(f.offset(p["bias"], column + i * f.lanes, "i32"), f.integers())
            for r in range(height):
                sums[r][i].set(start)
        panel = f.offset(p["weights"], column * p["inner"], "i32")
        sources = [f.offset(p["data"], (row + r) * p["inner"], "i32") for r in range(height)]
        with f.loop(0, p["inner"]) as k:
            place = f.offset(panel, k * tile, "i32")
            weights = [
                form.prepare_weights(f, f.load(f.offset(place, i * f.lanes, "i32"), f.integers()))
                for i in range(vectors)
            ]
            for r, source in enumerate(sources):
                data = f.splat(f.load(f.offset(source, k, "i32"), "i32"), f.integers())
                prepared = form.prepare_data(f, data)
                for vector, variable in zip(weights, sums[r], strict=True):
                    variable.set(form.add(f, variable.get(), prepared, vector))
        for r in range(height):
            for i in range(vectors):
                f.store(sums[r][i].get(), f.offset(p["block"], r * tile + i * f.lanes, "i32"))

    with f.loop(p["first"], p["last"], tile) as column:
        valid = f.min(p["columns"] - column, tile)
        start: Value = f.integer(0)
        for height in [rows // 2**i for i in range(rows.bit_length())]:
            stop = p["count"] & -height
            with f.loop(start, stop, height) as row:
                add_tile(column, row, height)
                position = row * p["columns"] + column
                f.append(
                    f"call void {p['epilogue']}(ptr {p['block']}, ptr {p['result']}, ptr {p['operands']}, "
                    f"i64 {position}, i64 {height}, i64 {valid}, i64 {p['columns']}, i64 {column})"
                )
            start = stop
    return compile_function(f)


@cache_kernel
def _compile_epilogue(expression: Expression, is_coded: bool) -> Kernel:
    """Return the kernel that completes the sums of a tile.

    "column" operands have one element per column, "full" and "codes" operands have the shape of the result, and
    "scalar" operands one element.
    """
    pointers = [("block", "ptr"), ("result", "ptr"), ("operands", "ptr")]
    integers = ("start", "rows", "width", "stride", "column")
    f = Function("complete_rows", [*pointers, *((name, "i64") for name in integers)], get_lanes())
    p = f.parameters
    tile = get_tile()[1] * f.lanes
    kinds = expression.kinds
    addresses = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(kinds))]
    scalars = [
        f.splat(f.load(q), f.vector) if kind == "scalar" else None for q, kind in zip(addresses, kinds, strict=True)
    ]
    with f.loop(0, p["rows"]) as row:
        source = f.offset(p["block"], row * tile, "i32")
        first = row * p["stride"] + p["start"]

        def complete(position: Value, mask: Value | None, source: Value = source, first: Value = first) -> None:
            number = first + position
            operands = []
            for q, kind, vector in zip(addresses, kinds, scalars, strict=True):
                if kind == "codes":
                    codes = f.load(f.offset(q, number, "i8"), f.integers(8), mask)
                    vector = f.convert("sitofp", f.convert("zext", codes, f.integers()), f.vector)
                elif vector is None:
                    index = p["column"] + position if kind == "column" else number
                    vector = f.load(f.offset(q, index), f.vector, mask)
                operands.append(vector)
            value = f.convert("sitofp", f.load(f.offset(source, position, "i32"), f.integers(), mask), f.vector)
            result = evaluate(f, expression, value, operands)
            if is_coded:
                f.store(round_to_bytes(f, result), f.offset(p["result"], number, "i8"), mask)
            else:
                f.store(result, f.offset(p["result"], number), mask)

        apply_to_row(f, p["width"], complete)
    return compile_function(f)


@functools.cache
def get_epilogue_address(expression: Expression, is_coded: bool) -> int:
    """Return the address of the code of an epilogue."""
    return _compile_epilogue(expression, is_coded).address


class QuantizedProduct:
    """The product of rows of codes with constant codes.

    Args:
        codes: i8, shape [N, K], where K is a multiple of 4.
        bias: Added to the sums: i32, shape [N].
    """

    def __init__(self, codes: Array, bias: Array) -> None:
        self.columns, self.inner = codes.shape
        tile = get_tile()[1] * get_lanes()
        padded = np.zeros((-(-self.columns // tile) * tile, self.inner), np.int8)
        padded[: self.columns] = codes
        order = padded.reshape(-1, tile, self.inner // 4, 4).transpose(0, 2, 1, 3)
        self.weights = np.ascontiguousarray(order).reshape(-1)
        self.bias = np.zeros(len(padded), np.int32)
        form = get_dot_product(can_saturate=False)
        self.bias[: self.columns] = bias + form.offset * codes.sum(1, dtype=np.int32)
        self._kernel = _compile_product(form)

    def make_binding(
        self,
        shape: Shape,
        expression: Expression,
        operands: Sequence[Operand],
        constants: Sequence[Array],
        is_coded: bool,
    ) -> Binding:
        """Return the product for a number of rows.

        Args:
            shape: The shape of the result, [..., N].
            expression: The epilogue; see `_compile_epilogue`.
            operands: The operands of the epilogue.
            constants: The operands that are constant, which must stay in memory.
            is_coded: Whether the result is codes.
        """
        inner, columns = self.inner, self.columns
        blocks, sections = _divide(math.prod(shape[:-1]), inner, columns, get_tile()[1] * get_lanes())
        sizes = [{"full": 4, "codes": 1}.get(kind, 0) * columns for kind in expression.kinds]
        itemsize = 1 if is_coded else 4
        epilogue = get_epilogue_address(expression, is_coded)
        weights = (get_address(self.weights), get_address(self.bias))
        parts = []
        for i, (first, last) in enumerate(blocks):
            table = make_base(2).move(8 * i * len(sizes))
            result = make_base(1).move(itemsize * first * columns)
            places = (make_base(0).move(first * inner), *weights, SCRATCH, result, table)
            for section in sections:
                own = (epilogue, last - first, inner // 4, columns, *section)
                parts.append([Call(self._kernel, (*places, *own))])
        task = Task(parts, 4 * get_tile()[0] * get_tile()[1] * get_lanes())
        # Each block of rows has its own table of operands.
        table_rows = [
            (number, offset + first * size)
            for first, _ in blocks
            for (number, offset), size in zip(operands, sizes, strict=True)
        ]
        stored = (*shape[:-1], columns // 4) if is_coded else shape
        return Binding(stored, [task], (0, RESULT, TABLE), table_rows, 0, (self.weights, self.bias, *constants))


@functools.lru_cache(maxsize=1024)
def _divide(count: int, inner: int, columns: int, tile: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the blocks of rows and the sections of columns. Each pair of a block and a section is a part."""
    block = max(MIN_BLOCK_ROWS, BLOCK_SIZE // inner)
    block = -(-count // -(-count // block))
    block += -block % 8
    blocks = [(i, min(i + block, count)) for i in range(0, count, block)]
    work = min(block, count) * inner * columns
    section_count = max(1, min(MAX_PARTS // len(blocks), work // MIN_PART_WORK))
    section = -(-columns // section_count)
    section += -section % tile
    return blocks, [(i, min(i + section, columns)) for i in range(0, columns, section)]


@cache_kernel
def _compile_conversion(is_encoding: bool) -> Kernel:
    """Return the kernel that converts f32 from or to bytes."""
    floats = ("low", "high", "width", "top")
    names = [("data", "ptr"), ("result", "ptr"), ("first", "i64"), ("last", "i64")]
    f = Function("convert_rows", [*names, *((name, "float") for name in floats)], get_lanes())
    p = f.parameters
    low, high, width, top = (f.splat(p[name], f.vector) for name in floats)

    def encode_vector(position: Value, mask: Value | None) -> None:
        x = f.load(f.offset(p["data"], p["first"] + position), f.vector, mask)
        # As in the definition, each operation rounds. NaN becomes the lowest level.
        x = f.select(f.compare("ogt", x, low), x, low)
        x = f.select(f.compare("olt", x, high), x, high)
        level = (x - low) / width * top
        f.store(round_to_bytes(f, level), f.offset(p["result"], p["first"] + position, "i8"), mask)

    def decode_vector(position: Value, mask: Value | None) -> None:
        codes = f.load(f.offset(p["data"], p["first"] + position, "i8"), f.integers(8), mask)
        level = f.convert("sitofp", f.convert("zext", codes, f.integers()), f.vector)
        f.store(level / top * width + low, f.offset(p["result"], p["first"] + position), mask)

    apply_to_row(f, p["last"] - p["first"], encode_vector if is_encoding else decode_vector)
    return compile_function(f)


@functools.lru_cache(maxsize=256)
def _make_conversion(is_encoding: bool, size: int, limits: tuple[float, ...]) -> Task:
    count = min(MAX_PARTS, max(1, size // PART_SIZE))
    return make_range_task(_compile_conversion(is_encoding), (make_base(0), make_base(1)), size, count, limits)


def _make_encoding(size: int, format_: CodeFormat) -> Task:
    limits = (float(format_.low), float(format_.high), float(format_.high - format_.low), float(format_.levels - 1))
    return _make_conversion(True, size, limits)


def _make_decoding(size: int, format_: CodeFormat) -> Task:
    low, high = format_.out_low, format_.out_high
    return _make_conversion(False, size, (float(low), float(high), float(high - low), float(format_.levels - 1)))


def _check_rows(shape: Shape) -> None:
    """Raise NoKernelError if a value is empty or its rows do not consist of groups of 4 codes."""
    if not math.prod(shape) or shape[-1] % 4:
        raise NoKernelError("expected rows of a multiple of 4")


def bind_row_encoding(shape: Shape, format_: CodeFormat) -> Binding:
    """Return the conversion of rows of values to codes.

    Args:
        shape: The shape of the values.
        format_: The format, with limits of shape [].

    Raises:
        NoKernelError: The value is empty, or the row length is not a multiple of 4.
    """
    _check_rows(shape)
    return Binding((*shape[:-1], shape[-1] // 4), [_make_encoding(math.prod(shape), format_)], (0, RESULT))


def bind_row_decoding(shape: Shape, format_: CodeFormat) -> Binding:
    """Return the conversion of rows of codes to values.

    Args:
        shape: The shape of the values.
        format_: The format, with limits of shape [].

    Raises:
        NoKernelError: The value is empty, or the row length is not a multiple of 4.
    """
    _check_rows(shape)
    return Binding(shape, [_make_decoding(math.prod(shape), format_)], (0, RESULT))


def encode_rows(data: Array, format_: CodeFormat) -> Array:
    """Return the codes of values, in bytes of the same shape.

    Args:
        data: f32.
        format_: The format, with limits of shape [].

    Raises:
        NoKernelError: The data has another type, or is empty.
    """
    if data.dtype != F32 or not data.size:
        raise NoKernelError("expected f32")
    check_allocation(data.shape, U8)
    result = np.empty(data.shape, U8)
    _make_encoding(data.size, format_).run(get_address(make_contiguous(data)), get_address(result))
    return result


def decode_rows(codes: Array, format_: CodeFormat) -> Array:
    """Return the values of codes in bytes.

    Args:
        codes: u8.
        format_: The format, with limits of shape [].

    Raises:
        NoKernelError: The array has another type.
    """
    if codes.dtype != U8:
        raise NoKernelError("expected codes")
    check_allocation(codes.shape, F32)
    result = np.empty(codes.shape, F32)
    if result.size:
        _make_decoding(codes.size, format_).run(get_address(make_contiguous(codes)), get_address(result))
    return result
