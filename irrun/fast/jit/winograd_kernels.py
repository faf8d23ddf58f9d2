"""The compiled kernels of Winograd's algorithm: transforms of data and products, and the products.

The lanes of vectors are channels, so tiles of any shape are transformed without waste. Data is transposed to this
form when loaded, and results are transposed back before the epilogue completes them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.products import emit_panels, emit_tile, get_tile
from irrun.fast.jit.transposition import transpose_vectors

__all__ = ["POINTS", "compile_data_transform", "compile_products", "compile_result_transform"]

#: For F(m x m, 3 x 3), the positive points of the interpolation; the others are their opposites, 0 and infinity.
#: These sums of few powers of two give F(4 x 4, 3 x 3) smaller errors than the usual points 1 and 2.
POINTS = {2: (1.0,), 4: (0.625, 1.5)}


def _transform_data(f: Function, d: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """Return the transform of m + 2 neighboring elements: at 0, at each point and its opposite, and at infinity."""
    if len(points) == 1:
        return [d[2] - d[0], d[2] + d[1], d[2] - d[1], d[3] - d[1]]
    a, b = points
    total, product = a * a + b * b, a * a * b * b
    result = [f.multiply_add(d[0], product, f.multiply_add(d[2], -total, d[4]))]
    for point, other in ((a, b), (b, a)):
        even = f.multiply_add(d[2], -other * other, d[4])
        odd = f.multiply_add(d[1], -other * other, d[3])
        result += [f.multiply_add(odd, point, even), f.multiply_add(odd, -point, even)]
    return [*result, f.multiply_add(d[1], product, f.multiply_add(d[3], -total, d[5]))]


def _transform_products(f: Function, p: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """Return the m results of m + 2 products."""
    if len(points) == 1:
        return [p[0] + (p[1] + p[2]), (p[1] - p[2]) + p[3]]
    a, b = points
    sums, differences = (p[1] + p[2], p[3] + p[4]), (p[1] - p[2], p[3] - p[4])

    def combine(pair: Sequence[Value], power: int) -> Value:
        return f.multiply_add(pair[1], b**power, pair[0] * a**power)

    return [
        p[0] + (sums[0] + sums[1]),
        combine(differences, 1),
        combine(sums, 2),
        combine(differences, 3) + p[5],
    ]


def _transform_both(transform: Callable[[Sequence[Value]], list[Value]], rows: list[list[Value]]) -> list[list[Value]]:
    """Transform the columns and then the rows of a tile."""
    columns = [transform([row[j] for row in rows]) for j in range(len(rows[0]))]
    return [transform([column[i] for column in columns]) for i in range(len(columns[0]))]


@cache_kernel
def compile_data_transform(size: int) -> Kernel:
    """Return the kernel that transforms the tiles of a block for some channels.

    Args:
        size: m, the rows and columns of the results of a tile.
    """
    names = ("data", "scratch", "target")
    integers = (
        *("first", "last", "channels", "plane", "height", "width"),
        *("first_row", "first_column", "rows", "columns"),  # of the data of the block, with padding
        *("padded", "tile_rows", "tile_columns", "stride", "step"),
    )
    f = Function("transform_data", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    width, lanes = p["width"], f.lanes
    with f.loop(p["first"], p["last"], lanes) as channel:
        last = p["channels"] - 1
        planes = [f.offset(p["data"], f.min(channel + i, last) * p["plane"]) for i in range(lanes)]
        with f.loop(0, p["rows"]) as row:
            y = row + p["first_row"]
            target = f.offset(p["scratch"], row * p["padded"] * lanes)

            def copy_row(y: Value = y, target: Value = target, planes: list[Value] = planes) -> None:
                with f.loop(0, p["columns"], lanes) as position:
                    x = position + p["first_column"]
                    mask = f.mask_range(0 - x, width - x)
                    vectors = [f.load(f.offset(plane, y * width + x), f.vector, mask) for plane in planes]
                    for i, vector in enumerate(transpose_vectors(f, vectors)):
                        f.store(vector, f.offset(target, (position + i) * lanes))

            def clear_row(target: Value = target) -> None:
                with f.loop(0, p["columns"]) as position:
                    f.store(f.coerce(0.0, f.vector), f.offset(target, position * lanes))

            f.choose(f.compare("sge", y, 0) & f.compare("slt", y, p["height"]), copy_row, clear_row)
        with f.loop(0, p["tile_rows"]) as tile_row, f.loop(0, p["tile_columns"]) as tile_column:
            source = f.offset(p["scratch"], (tile_row * p["padded"] + tile_column) * (size * lanes))
            tile = [
                [f.load(f.offset(source, (p["padded"] * i + j) * lanes), f.vector) for j in range(size + 2)]
                for i in range(size + 2)
            ]
            number = tile_row * p["tile_columns"] + tile_column
            target = f.offset(p["target"], number * p["stride"] + channel)
            transformed = _transform_both(lambda d: _transform_data(f, d, POINTS[size]), tile)
            for i, value in enumerate(itertools.chain.from_iterable(transformed)):
                f.store(value, f.offset(target, p["step"] * i))
    return compile_function(f)


@cache_kernel
def compile_products() -> Kernel:
    """Return the kernel that multiplies the transformed data of all tiles by the transformed filters."""
    rows, vectors = get_tile()
    names = ("data", "weights", "result")
    integers = (
        *("positions", "count", "inner", "data_stride", "data_step", "first", "last", "weights_step"),
        *("result_stride", "result_step"),
    )
    f = Function("multiply_tiles", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    accumulators = [[f.variable(f.vector, 0.0) for _ in range(vectors)] for _ in range(rows)]

    def multiply_panel(position: Value, column: Value, width: int) -> None:
        """Multiply all tiles by one panel of some vectors."""
        panel = f.offset(p["weights"], position * p["weights_step"] + column * p["inner"])
        start: Value = f.integer(0)
        for height in (rows, rows // 2):
            stop = p["count"] & -height
            with f.loop(start, stop, height) as row:
                lines = [line[:width] for line in accumulators[:height]]
                source = f.offset(p["data"], position * p["data_step"] + row * p["data_stride"])
                offset = position * p["result_step"] + row * p["result_stride"] + (column - p["first"])
                target = f.offset(p["result"], offset)
                emit_tile(f, lines, panel, (source, p["data_stride"]), (target, p["result_stride"]), row)
            start = stop

    with f.loop(0, p["positions"]) as position:
        emit_panels(f, functools.partial(multiply_panel, position))
    return compile_function(f)


@cache_kernel
def compile_result_transform(size: int) -> Kernel:
    """Return the kernel that transforms the products of a block and calls the epilogue for each channel.

    Args:
        size: m, the rows and columns of the results of a tile.
    """
    names = ("products", "scratch", "block", "result", "operands", "epilogue")
    integers = (
        *("first", "last", "stride", "step", "tile_rows", "tile_columns"),
        *("padded", "rows", "columns", "plane", "start", "width", "channel_offset"),
    )
    f = Function("transform_result", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    lanes = f.lanes
    size_of_channel = p["rows"] * p["padded"]
    with f.loop(p["first"], p["last"], lanes) as channel:
        with f.loop(0, p["tile_rows"]) as tile_row, f.loop(0, p["tile_columns"]) as tile_column:
            number = tile_row * p["tile_columns"] + tile_column
            source = f.offset(p["products"], number * p["stride"] + (channel - p["first"]))
            side = size + 2
            products = [
                [f.load(f.offset(source, p["step"] * (i * side + j)), f.vector) for j in range(side)]
                for i in range(side)
            ]
            target = f.offset(p["scratch"], (tile_row * p["padded"] + tile_column) * (size * lanes))
            for i, line in enumerate(_transform_both(lambda d: _transform_products(f, d, POINTS[size]), products)):
                for j, value in enumerate(line):
                    f.store(value, f.offset(target, (p["padded"] * i + j) * lanes))
        with f.loop(0, p["rows"]) as row, f.loop(0, p["columns"], lanes) as position:
            source = f.offset(p["scratch"], (row * p["padded"] + position) * lanes)
            vectors = [f.load(f.offset(source, i * lanes), f.vector) for i in range(lanes)]
            target = f.offset(p["block"], row * p["padded"] + position)
            for i, vector in enumerate(transpose_vectors(f, vectors)):
                f.store(vector, f.offset(target, size_of_channel * i))
        with f.loop(0, f.min(p["last"] - channel, lanes)) as lane:
            number = channel + lane + p["channel_offset"]
            block = f.offset(p["block"], lane * size_of_channel)
            f.append(
                f"call void {p['epilogue']}(ptr {block}, i64 {p['padded']}, ptr {p['result']}, "
                f"i64 {number * p['plane'] + p['start']}, i64 {p['rows']}, i64 {p['columns']}, i64 {p['width']}, "
                f"ptr {p['operands']}, i64 {number})"
            )
    return compile_function(f)
