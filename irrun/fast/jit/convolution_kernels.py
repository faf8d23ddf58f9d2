"""The compiled kernels of convolutions without columns; see `irrun.fast.jit.convolution`.

A tile of several output channels and several vectors of neighboring pixels stays in registers. For each input channel
and tap, it loads the pixels at the offset of the tap and multiplies them by the channels' weights. A few pixels
that do not fill a vector are *extras* of the tiles: the lanes of their vectors are the channels of the tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from irrun.fast.jit.affine import AFFINE_PARAMETERS, complete_extras, complete_vectors
from irrun.fast.jit.code import Function, Operand, Value, Variable
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution_tiles import TILE_FIELDS, get_tile, has_extras, list_forms
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.tiles import prefetch_tile

__all__ = [
    "compile_epilogue",
    "compile_packing",
    "compile_products",
    "emit_rows",
    "get_epilogue_address",
    "pack_weights",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

EpilogueRows: TypeAlias = Literal["any", "channels", "whole channels"]


def pack_weights(filters: Array, rows: int = 0) -> Array:
    """Return filters [CO, CI, kernel...] in the order that tiles read, [CO / R, CI * kernel, R].

    Missing channels in the last tile are 0.

    Args:
        filters: The filters.
        rows: R, the number of channels of a tile; by default that of `get_tile`.
    """
    rows = rows or get_tile()[0]
    count = filters.shape[0]
    tiles = -(-count // rows)
    matrix = filters.reshape(count, -1)
    if count % rows:
        matrix = np.zeros((tiles * rows, math.prod(filters.shape[1:])), F32)
        matrix[:count] = filters.reshape(count, -1)
    return np.array(matrix.reshape(tiles, rows, -1).transpose(0, 2, 1), F32, order="C")


@cache_kernel
def compile_packing() -> Kernel:
    """Return the kernel that copies one phase of the rows of all channels, with padding."""
    f = Function(
        "pack_rows",
        [
            ("data", "ptr"),
            ("panel", "ptr"),
            ("channels", "i64"),
            ("plane", "i64"),  # elements between channels of the data
            ("step", "i64"),  # elements between channels of the panel
            ("first_row", "i64"),  # of the data; may be negative
            ("row_stride", "i64"),
            ("rows", "i64"),
            ("height", "i64"),
            ("width", "i64"),
            ("first_column", "i64"),
            ("stride", "i64"),
            ("columns", "i64"),
        ],
        get_lanes(),
    )
    p = f.parameters
    width, columns, first = p["width"], p["columns"], p["first_column"]

    def copy_vectors(source: Value, target: Value, stride: int = 1) -> None:
        """Copy a row, or every second element of it."""
        even = ", ".join(f"i32 {2 * i}" for i in range(f.lanes))

        def copy(position: Value, has_masks: bool) -> None:
            column = position * stride + first
            vectors = []
            for i in range(stride):
                start = column + i * f.lanes
                mask = f.mask_range(0 - start, width - start) if has_masks else None
                vectors.append(f.load(f.offset(source, start), f.vector, mask))
            value = vectors[0]
            if stride == 2:
                text = f"shufflevector {f.vector} {vectors[0]}, {f.vector} {vectors[1]}, <{f.lanes} x i32> <{even}>"
                value = f.emit(f.vector, text)
            f.store(value, f.offset(target, position), f.mask_range(0, columns - position) if has_masks else None)

        with f.loop(0, columns, f.lanes) as position:
            column = position * stride + first
            is_inside = f.compare("sge", column, 0) & f.compare("sle", column + stride * f.lanes, width)
            is_inside &= f.compare("sle", position + f.lanes, columns)
            f.choose(is_inside, functools.partial(copy, position, False), functools.partial(copy, position, True))

    def copy_elements(source: Value, target: Value) -> None:
        with f.loop(0, columns) as position:
            column = position * p["stride"] + first
            inside = f.compare("slt", column, width) & f.compare("sge", column, 0)

            def copy() -> None:
                f.store(f.load(f.offset(source, column)), f.offset(target, position))

            f.choose(inside, copy, lambda: f.store(f.coerce(0.0, "float"), f.offset(target, position)))

    def clear(target: Value) -> None:
        with f.loop(0, columns, f.lanes) as position:
            f.store(f.coerce(0.0, f.vector), f.offset(target, position), f.mask_range(0, columns - position))

    emit_rows(f, p["channels"], copy_vectors, functools.partial(copy_vectors, stride=2), copy_elements, clear)
    return compile_function(f)


def emit_rows(
    f: Function,
    plane_count: Value,
    copy_vectors: Callable[[Value, Value], None],
    copy_pairs: Callable[[Value, Value], None],
    copy_elements: Callable[[Value, Value], None],
    clear: Callable[[Value], None],
) -> None:
    """Append the copies of all rows of a phase to the panel.

    Args:
        f: A function with the parameters of `compile_packing`.
        plane_count: The number of planes.
        copy_vectors: Copies a row without a stride from one address to another.
        copy_pairs: Copies every second element of a row.
        copy_elements: Copies a row with any other stride.
        clear: Fills a row beyond the data.
    """
    p = f.parameters
    with f.loop(0, plane_count) as number:
        plane = f.offset(p["data"], number * p["plane"])
        block = f.offset(p["panel"], number * p["step"])
        with f.loop(0, p["rows"]) as index:
            row = index * p["row_stride"] + p["first_row"]
            target = f.offset(block, index * p["columns"])
            source = f.offset(plane, row * p["width"])
            is_inside = f.compare("slt", row, p["height"]) & f.compare("sge", row, 0)

            def copy_row(source: Value = source, target: Value = target) -> None:
                def copy_strided() -> None:
                    is_pair = f.compare("eq", p["stride"], 2)
                    f.choose(is_pair, lambda: copy_pairs(source, target), lambda: copy_elements(source, target))

                f.choose(f.compare("eq", p["stride"], 1), lambda: copy_vectors(source, target), copy_strided)

            f.choose(is_inside, copy_row, functools.partial(clear, target))


@cache_kernel
def compile_products(is_affine: bool, packs_pixels: bool) -> Kernel:
    """Return the kernel that multiplies pixels by the weights of channels and calls the epilogue.

    The kernel calls the epilogue once per tile if a row of pixels is a row of the result, and otherwise once per
    channel.

    Args:
        is_affine: Whether the epilogue is affine and completes whole tiles in registers. Each row of pixels must then
            be a row of the result.
        packs_pixels: Whether the channels of a tile are computed one after another and read pixels that the first
            channel packed. Each row of pixels must then be a row of the result, and tiles must not have extras.
    """
    rows, vectors = get_tile()
    f = Function(
        "convolve",
        [
            ("panel", "ptr"),
            ("offsets", "ptr"),  # of each input channel and tap in the panel
            ("weights", "ptr"),
            ("tiles", "ptr"),
            ("block", "ptr"),  # products of a tile's channels, [R, length]
            ("length", "i64"),
            ("step", "i64"),  # elements of the block for each pixel: 0 if it holds one tile
            ("result", "ptr"),
            ("operands", "ptr"),
            ("epilogue", "ptr"),
            ("count", "i64"),  # of the offsets
            ("tile_count", "i64"),
            ("first", "i64"),  # channel, a multiple of R
            ("last", "i64"),
            ("plane", "i64"),  # elements between channels of the result
            ("start", "i64"),  # element of the plane
            ("row_count", "i64"),
            ("width", "i64"),
            ("columns", "i64"),  # elements between rows of products
            ("channel_offset", "i64"),
            *(AFFINE_PARAMETERS if is_affine else ()),
        ],
        get_lanes(),
    )
    p = f.parameters
    accumulators = [[f.variable(f.vector, 0.0) for _ in range(vectors)] for _ in range(rows)]
    forms = list_forms()
    extras = [f.variable(f"<{rows} x float>", 0.0) for _ in range(max(form.extras for form in forms))]
    is_direct = f.compare("eq", p["step"], 0)

    def compute_tile(channel: Value, index: Value) -> None:
        """Append the products of some channels and a tile of pixels, and their epilogue."""
        weights = f.offset(p["weights"], channel * p["count"])
        number = channel + p["channel_offset"]
        fields = [f.load(f.offset(p["tiles"], index * TILE_FIELDS + i, "i64"), "i64") for i in range(TILE_FIELDS)]
        pixel, kind, size = fields
        panel = f.offset(p["panel"], pixel)
        block = f.offset(p["block"], pixel * p["step"])
        packed = f.offset(p["block"], p["length"] * rows)
        position = number * p["plane"] + p["start"] + pixel
        live = f.min(p["last"] - channel, rows)
        is_whole = f.compare("eq", live, rows) & f.compare("slt", kind, sum(not form.is_masked for form in forms))
        if packs_pixels:
            prefetch_tile(f, (f.offset(p["result"], position), p["plane"]), rows, vectors * f.lanes)
        for i, form in enumerate(forms):
            with f.when(f.compare("eq", kind, i)):
                tile = _Tile([row[: form.vectors] for row in accumulators], extras[: form.extras])
                mask = f.mask_range(0, size - (form.vectors - 1) * f.lanes) if form.is_masked else None
                if packs_pixels:
                    f.choose(
                        f.compare("eq", channel, p["first"]),
                        functools.partial(_add_products, f, tile, weights, panel, mask, packed),
                        functools.partial(_add_products, f, tile, weights, None, None, packed),
                    )
                else:
                    _add_products(f, tile, weights, panel, mask)
                store = functools.partial(_store_tile, f, tile, block, mask)
                if is_affine:
                    first = position + form.vectors * f.lanes
                    f.choose(is_whole, functools.partial(complete_extras, f, tile.extras, first, number), store)
                else:
                    store()
        if is_affine:
            with f.when(is_whole):
                complete_vectors(f, accumulators, position, number)
        with f.when(f.compare("eq", is_whole, 0) if is_affine else is_direct):
            f.append(
                f"call void {p['epilogue']}(ptr {p['block']}, i64 {p['length']}, ptr {p['result']}, "
                f"i64 {position}, i64 {live}, i64 {size}, i64 {p['plane']}, ptr {p['operands']}, i64 {number})"
            )

    if packs_pixels:
        with f.loop(0, p["tile_count"]) as index, f.loop(p["first"], p["last"], rows) as channel:
            compute_tile(channel, index)
        return compile_function(f)
    with f.loop(p["first"], p["last"], rows) as channel:
        with f.loop(0, p["tile_count"]) as index:
            compute_tile(channel, index)
        number = channel + p["channel_offset"]
        whole = f.select(is_direct, f.integer(0), f.min(p["last"] - channel, rows))
        with f.loop(0, whole) as row:
            position = (number + row) * p["plane"] + p["start"]
            block = f.offset(p["block"], row * p["length"])
            f.append(
                f"call void {p['epilogue']}(ptr {block}, i64 {p['columns']}, ptr {p['result']}, i64 {position}, "
                f"i64 {p['row_count']}, i64 {p['width']}, i64 {p['width']}, ptr {p['operands']}, i64 {number + row})"
            )
    return compile_function(f)


class _Tile(NamedTuple):
    """The sums of a tile: a row of vectors for each channel, and for each extra, a vector with a lane per channel."""

    accumulators: Sequence[Sequence[Variable]]
    extras: Sequence[Variable]


def _add_products(
    f: Function,
    tile: _Tile,
    weights: Value,
    panel: Value | None,
    mask: Value | None = None,
    packed: Value | None = None,
) -> None:
    """Append the sums of the products of a tile.

    Args:
        f: The function.
        tile: The sums.
        weights: The address of the weights of the channels.
        panel: The address of the first pixel, or None if pixels are read where they are packed.
        mask: The mask of the last vector of pixels.
        packed: The address where pixels are packed, or None.
    """
    p = f.parameters
    accumulators, extras = tile
    rows, vectors = len(accumulators), len(accumulators[0])
    for variable in (*(accumulator for row in accumulators for accumulator in row), *extras):
        variable.set(0.0)
    with f.loop(0, p["count"]) as tap:
        place = None if packed is None else f.offset(packed, tap * (get_tile()[1] * f.lanes))
        source = place
        if panel is not None:
            source = f.offset(panel, f.load(f.offset(p["offsets"], tap, "i64"), "i64"))
        assert source is not None
        pixels = [
            f.load(f.offset(source, i * f.lanes), f.vector, mask if i == vectors - 1 else None) for i in range(vectors)
        ]
        if panel is not None and place is not None:
            for i, vector in enumerate(pixels):
                f.store(vector, f.offset(place, i * f.lanes))
        factors = f.offset(weights, tap * rows)
        f.prefetch(f.offset(factors, p["count"] * rows))  # the factors of the next tile of channels
        for i, extra in enumerate(extras):
            column = f.splat(f.load(f.offset(source, vectors * f.lanes + i)), extra.type)
            extra.set(f.multiply_add(f.load(factors, extra.type), column, extra.get()))
        for r, row in enumerate(accumulators):
            factor = f.splat(f.load(f.offset(factors, r)), f.vector)
            for vector, accumulator in zip(pixels, row, strict=True):
                accumulator.set(f.multiply_add(vector, factor, accumulator.get()))


def _store_tile(f: Function, tile: _Tile, block: Value, mask: Value | None) -> None:
    """Append the code that stores a tile for the epilogue."""
    for r, row in enumerate(tile.accumulators):
        target = f.offset(block, f.parameters["length"] * r)
        for i, accumulator in enumerate(row):
            f.store(accumulator.get(), f.offset(target, i * f.lanes), mask if i == len(row) - 1 else None)
        for i, extra in enumerate(tile.extras):
            vector = extra.get()
            value = f.emit("float", f"extractelement {vector.type} {vector}, i32 {r}")
            f.store(value, f.offset(target, len(row) * f.lanes + i))


@cache_kernel
def compile_epilogue(expression: Expression, rows: EpilogueRows) -> Kernel:
    """Return the kernel that completes rows of products.

    "channel" operands have one element per channel, "column" operands one per column, and "scalar" operands one.
    "full" operands have the shape of the result.

    Args:
        expression: The epilogue.
        rows: What rows are. "channels" are the channels of a tile, usually with as many vectors as a tile; "whole
            channels" have any number of vectors, and no extras; the kernel is called with the number of the first
            channel. "any" rows are lines of one channel, or of columns; it is called with the number of the channel, or
            of the first column.
    """
    names = [("block", "ptr"), ("columns", "i64"), ("result", "ptr"), ("start", "i64"), ("rows", "i64")]
    more = [("width", "i64"), ("stride", "i64"), ("operands", "ptr"), ("channel", "i64")]
    f = Function("epilogue", [*names, *more], get_lanes())
    p = f.parameters
    has_channels, is_tile = rows != "any", rows == "channels"
    kinds = expression.kinds
    pointers = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(kinds))]

    def repeat(kind: str, number: Operand) -> list[Value | None]:
        """Return a vector that repeats one element of each operand of a kind."""
        return [
            f.splat(f.load(f.offset(pointer, number)), f.vector) if own == kind else None
            for pointer, own in zip(pointers, kinds, strict=True)
        ]

    def repeat_constants(channel: Value) -> list[Value | None]:
        return [x or y for x, y in zip(scalars, repeat("channel", channel), strict=True)]

    scalars = repeat("scalar", 0)
    constants = scalars if has_channels else repeat_constants(p["channel"])
    with f.loop(0, p["rows"]) as row:
        source = f.offset(p["block"], row * p["columns"])
        first = row * p["stride"] + p["start"]
        vectors = constants
        if has_channels:
            vectors = repeat_constants(p["channel"] + row)

        def complete(
            position: Value,
            mask: Value | None,
            source: Value = source,
            first: Value = first,
            vectors: Sequence[Value | None] = vectors,
        ) -> None:
            value = f.load(f.offset(source, position), f.vector, mask)
            number = first + position
            places = {"full": number, "column": p["channel"] + position}
            operands = [
                f.load(f.offset(q, places[kind]), f.vector, mask) if vector is None else vector
                for q, kind, vector in zip(pointers, kinds, vectors, strict=True)
            ]
            result = evaluate(f, expression, value, operands)
            f.store(result, f.offset(p["result"], number), mask)

        (_apply_to_tile if is_tile else apply_to_row)(f, p["width"], complete)
    if is_tile and has_extras():
        _complete_extras(f, expression, pointers, scalars)
    return compile_function(f)


def _complete_extras(
    f: Function, expression: Expression, pointers: Sequence[Value], scalars: Sequence[Value | None]
) -> None:
    """Append the epilogue of a tile's extra pixels, in vectors with a lane per channel."""
    p = f.parameters
    mask = f.mask_range(0, p["rows"])
    lanes = f.convert("sext", f.lane_numbers(), f.integers(64))
    with f.loop(get_tile()[1] * f.lanes, p["width"]) as column:

        def gather(pointer: Value, stride: Value) -> Value:
            return f.gather(f.offset(pointer, column), lanes * f.splat(stride, f.integers(64)), mask)

        operands = [
            scalar
            or (
                gather(f.offset(pointer, p["start"]), p["stride"])
                if kind == "full"
                else f.load(f.offset(pointer, p["channel"]), f.vector, mask)
            )
            for pointer, kind, scalar in zip(pointers, expression.kinds, scalars, strict=True)
        ]
        value = evaluate(f, expression, gather(p["block"], p["columns"]), operands)
        with f.loop(0, p["rows"]) as row:
            element = f.emit("float", f"extractelement {value.type} {value}, i64 {row}")
            f.store(element, f.offset(p["result"], p["start"] + column + row * p["stride"]))


def _apply_to_tile(f: Function, width: Value, function: Callable[[Value, Value | None], None]) -> None:
    """Append the vectors of a row of a tile, without its extras. The loop is unrolled for their usual number."""
    count = get_tile()[1]

    def apply_to_vectors() -> None:
        for i in range(count):
            function(f.integer(i * f.lanes), None)

    f.choose(
        f.compare("sge", width, count * f.lanes),
        apply_to_vectors,
        lambda: apply_to_row(f, width, function),
    )


@functools.cache
def get_epilogue_address(expression: Expression, rows: EpilogueRows) -> int:
    """Return the address of the code of an epilogue; see `compile_epilogue`."""
    return compile_epilogue(expression, rows).address
