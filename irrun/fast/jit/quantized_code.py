"""Code of convolutions of codes: the copy of padded rows, the products, and the epilogue of four channels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution import emit_rows
from irrun.fast.jit.dot_products import PORTABLE, DotProduct
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.expressions import Expression, evaluate

__all__ = [
    "compile_packing",
    "compile_products",
    "count_quads",
    "get_epilogue_address",
    "get_tile",
    "join_codes",
    "join_pixels",
    "round_to_integer",
]

#: The f32 1.5 * 2^23: adding it to a number rounds the number to an integer in the last bits of the sum.
MAGIC, MAGIC_BITS = 12582912.0, 0x4B400000


def count_quads(channels: int) -> int:
    """Return the number of groups of four channels."""
    return -(-channels // 4)


def get_tile(channels: int) -> tuple[int, int]:
    """Return the number of channels and of vectors that fill the registers."""
    if get_lanes() < 16:
        return (4, 2)
    return (8, 3) if channels > 4 else (4, 6)


def round_to_integer(f: Function, level: Value) -> Value:
    """Round f32 levels from 0 to 255; return i32 with the rounded levels in the low bits."""
    return f.convert("bitcast", level + MAGIC, f.integers())


def join_codes(f: Function, levels: Sequence[Value]) -> Value:
    """Round four vectors of f32 from 0 to 255, and return a vector with four codes in each i32."""
    joined = None
    for i, level in enumerate(levels):
        bits = round_to_integer(f, level)
        joined = bits if joined is None else joined + (bits << (8 * i))
    assert joined is not None
    excess = sum(MAGIC_BITS << (8 * i) for i in range(4)) & 0xFFFFFFFF
    return joined - (excess - (1 << 32) if excess >= 1 << 31 else excess)


def join_pixels(f: Function, levels: Sequence[Value]) -> Value:
    """Round four vectors of f32 from 0 to 255, and return their codes.

    Element 4i + j of the result holds the codes of the four elements of the 128-bit lane i of vector j.
    """
    codes = [round_to_integer(f, level) & 255 for level in levels]
    # Numbers known to fit in fewer bits: one instruction packs two vectors.
    for bits in (16, 8):
        codes = [_pack(f, a, b, bits) for a, b in zip(codes[::2], codes[1::2], strict=True)]
    return f.convert("bitcast", codes[0], f.integers())


def _pack(f: Function, a: Value, b: Value, bits: int) -> Value:
    """Join the lower halves of the elements of each 128-bit lane of two vectors."""
    size, count = 128 // bits, 32 * f.lanes // bits
    sources = [f.convert("bitcast", x, f"<{count} x i{bits}>") for x in (a, b)]
    numbers = [
        lane + i + source * count for lane in range(0, count, size) for source in range(2) for i in range(0, size, 2)
    ]
    return f.shuffle(sources, numbers)


@cache_kernel
def compile_packing() -> Kernel:
    """Return the kernel that copies one phase of the rows of several planes of i32, with padding.

    With a stride of 2, `pair` is the distance to the phase of the next columns. Unless it is 0, that phase is copied
    too.
    """
    pointers = [("data", "ptr"), ("panel", "ptr")]
    integers = ("planes", "plane", "step", "first_row", "row_stride", "rows", "height", "width")
    more = ("first_column", "stride", "columns", "pair", "pad")
    f = Function("pack_codes", [*pointers, *((name, "i64") for name in (*integers, *more))], get_lanes())
    p = f.parameters
    width, columns, first = p["width"], p["columns"], p["first_column"]
    pad = f.convert("trunc", p["pad"], "i32")
    pads = f.splat(pad, f.integers())

    def load(source: Value, column: Value, is_inside: bool) -> Value:
        """Load a vector of pixels, with pads in place of pixels beyond the row."""
        if is_inside:
            return f.load(f.offset(source, column), f.integers())
        mask = f.mask_range(0 - column, width - column)
        return f.select(mask, f.load(f.offset(source, column), f.integers(), mask), pads)

    def copy_vectors(source: Value, target: Value) -> None:
        with f.loop(0, columns, f.lanes) as position:
            column = position + first

            def copy(is_inside: bool) -> None:
                mask = None if is_inside else f.mask_range(0, columns - position)
                f.store(load(source, column, is_inside), f.offset(target, position), mask)

            choose(position, column, f.lanes, copy)

    def copy_pairs(source: Value, target: Value) -> None:
        type_ = f.integers()

        def take(halves: Sequence[Value], start: int) -> Value:
            numbers = ", ".join(f"i32 {2 * i + start}" for i in range(f.lanes))
            text = f"shufflevector {type_} {halves[0]}, {type_} {halves[1]}, <{f.lanes} x i32> <{numbers}>"
            return f.emit(type_, text)

        with f.loop(0, columns, f.lanes) as position:
            column = position * 2 + first

            def copy(is_inside: bool) -> None:
                mask = None if is_inside else f.mask_range(0, columns - position)
                halves = [load(source, column + half * f.lanes, is_inside) for half in range(2)]
                f.store(take(halves, 0), f.offset(target, position), mask)
                with f.when(f.compare("sgt", p["pair"], 0)):
                    f.store(take(halves, 1), f.offset(target, p["pair"] + position), mask)

            choose(position, column, 2 * f.lanes, copy)

    def choose(position: Value, column: Value, count: int, copy: Callable[[bool], None]) -> None:
        """Copy a vector, without masks if the vector and all pixels that it reads are inside."""
        is_read_inside = f.compare("sge", column, 0) & f.compare("sle", column + count, width)
        is_inside = is_read_inside & f.compare("sle", position + f.lanes, columns)
        f.choose(is_inside, lambda: copy(True), lambda: copy(False))

    def copy_elements(source: Value, target: Value) -> None:
        with f.loop(0, columns) as position:
            column = position * p["stride"] + first
            inside = f.compare("slt", column, width) & f.compare("sge", column, 0)

            def copy() -> None:
                f.store(f.load(f.offset(source, column), "i32"), f.offset(target, position))

            f.choose(inside, copy, lambda: f.store(pad, f.offset(target, position)))

    def clear(target: Value) -> None:
        with f.loop(0, columns, f.lanes) as position:
            valid = f.mask_range(0, columns - position)
            f.store(pads, f.offset(target, position), valid)
            with f.when(f.compare("sgt", p["pair"], 0)):
                f.store(pads, f.offset(target, p["pair"] + position), valid)

    emit_rows(f, p["planes"], copy_vectors, copy_pairs, copy_elements, clear)
    return compile_function(f)


#: Integers that the products pass to the epilogue: elements between channels of the result, the first element of a
#: plane, the rows and columns, and the elements between rows of sums.
PLACE = ("plane", "start", "row_count", "width", "columns")


@cache_kernel
def compile_products(rows: int, vectors: int, form: DotProduct) -> Kernel:
    """Return the kernel that multiplies a panel by the weights of channels and calls the epilogue for every four.

    If the form saturates, the last taps of each tile are multiplied in the portable form. `places` has the number of
    the other taps, and the place in `wide` of the weights of the last ones. Tiles have their own offsets.
    """
    names = ["panel", "offsets", "weights", "bias", "block", "result", "operands", "epilogue"]
    names += ["places", "wide"] if form.saturates else []
    integers = ("count", "pixels", "length", "first", "last", "channels", "panel_step", "channel", "row", *PLACE)
    f = Function("convolve_codes", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    sums = [[f.variable(f.integers(), 0) for _ in range(vectors)] for _ in range(rows)]
    tile = vectors * f.lanes
    with f.loop(p["first"], p["last"], rows) as channel:
        weights = f.offset(p["weights"], channel * p["count"])
        bias = f.offset(p["bias"], channel)
        index = f.emit("i64", f"sdiv i64 {channel}, {rows}")
        panel = f.offset(p["panel"], index * p["panel_step"])
        total = f.emit("i64", f"sdiv i64 {p['pixels'] + (f.lanes - 1)}, {f.lanes}")
        remainder = f.emit("i64", f"srem i64 {total}, {vectors}")
        # A tile of one vector would wait for its own sums, so the last two tiles are made narrower instead.
        is_single = f.compare("eq", remainder, 1) & f.compare("sgt", total, vectors)
        shorter = f.select(is_single, f.integer(vectors + 1), remainder)
        whole = (total - f.select(f.compare("eq", remainder, 0), f.integer(vectors), shorter)) * f.lanes

        def add_tile(
            count: int,
            pixel: Value,
            mask: Value | None,
            sources: tuple[Value, Value, Value, Value] = (panel, weights, bias, index),
        ) -> None:
            _emit_tile(f, form, [row[:count] for row in sums], sources, pixel, mask)

        with f.loop(0, whole, tile) as pixel:
            add_tile(vectors, pixel, None)
        start = f.select(is_single, whole + (vectors - 1) * f.lanes, whole)
        if vectors > 2:
            with f.when(is_single):
                add_tile(vectors - 1, whole, None)
        else:
            start = whole
        rest = p["pixels"] - start
        for count in range(1, vectors + 1 if vectors > 2 else vectors + 2):
            fits = f.compare("sgt", rest, (count - 1) * f.lanes) & f.compare("sle", rest, count * f.lanes)
            with f.when(fits):
                if count > vectors:
                    add_tile(vectors, start, None)
                    position, used = start + vectors * f.lanes, count - vectors
                else:
                    position, used = start, count
                add_tile(used, position, f.mask_range(0, rest - (count - 1) * f.lanes))
        with f.loop(0, f.min(p["last"] - channel, rows), 4) as quad:
            number = channel + quad
            valid = f.min(p["channels"] - number, 4)
            with f.when(f.compare("sgt", valid, 0)):
                block = f.offset(p["block"], quad * p["length"])
                arguments = (p["length"], number + p["channel"], number + p["row"], valid, *(p[name] for name in PLACE))
                shown = ", ".join(f"i64 {value}" for value in arguments)
                f.append(f"call void {p['epilogue']}(ptr {block}, ptr {p['result']}, ptr {p['operands']}, {shown})")
    return compile_function(f)


def _emit_tile(
    f: Function,
    form: DotProduct,
    sums: Sequence[Sequence[Variable]],
    sources: tuple[Value, Value, Value, Value],
    pixel: Value,
    mask: Value | None,
) -> None:
    """Append the products of a tile; the last vector of pixels has a mask."""
    p = f.parameters
    panel, weights, bias, index = sources
    rows, vectors = len(sums), len(sums[0])
    for r, row in enumerate(sums):
        start = f.splat(f.load(f.offset(bias, r), "i32"), f.integers())
        for variable in row:
            variable.set(start)
    base = f.offset(panel, pixel)

    offsets = f.offset(p["offsets"], index * p["count"], "i64") if form.saturates else p["offsets"]

    def repeat(factors: Value, number: int) -> Value:
        return f.splat(f.load(f.offset(factors, number), "i32"), f.integers())

    def add_tap(form: DotProduct, tap: Value, factors: Sequence[tuple[Value, ...]]) -> None:
        source = f.offset(base, f.load(f.offset(offsets, tap, "i64"), "i64"))
        data = [
            form.prepare_data(
                f, f.load(f.offset(source, i * f.lanes), f.integers(), mask if i == vectors - 1 else None)
            )
            for i in range(vectors)
        ]
        for factor, row in zip(factors, sums, strict=True):
            for vector, variable in zip(data, row, strict=True):
                variable.set(form.add(f, variable.get(), vector, factor))

    def load_factors(number: Value) -> list[tuple[Value, ...]]:
        factors = f.offset(weights, number * rows)
        return [form.prepare_weights(f, repeat(factors, r)) for r in range(rows)]

    if form.saturates:
        limit, first = (f.load(f.offset(p["places"], index * 2 + i, "i64"), "i64") for i in range(2))
        with f.loop(0, limit) as tap:
            add_tap(form, tap, load_factors(tap))
        with f.loop(limit, p["count"]) as tap:
            wide = f.offset(p["wide"], (first + tap - limit) * (2 * rows))
            add_tap(PORTABLE, tap, [(repeat(wide, 2 * r), repeat(wide, 2 * r + 1)) for r in range(rows)])
    else:
        with f.loop(0, p["count"]) as tap:
            add_tap(form, tap, load_factors(tap))
    for r, row in enumerate(sums):
        target = f.offset(f.offset(p["block"], p["length"] * r), pixel)
        for i, variable in enumerate(row):
            f.store(variable.get(), f.offset(target, i * f.lanes), mask if i == vectors - 1 else None)


@cache_kernel
def compile_epilogue(expression: Expression, is_coded: bool) -> Kernel:
    """Return the kernel that completes the sums of up to four channels.

    Two arguments are the number of the first channel in all images, counted with and without the channels that pad the
    last group of four. By kind, operands have one element per channel with padding ("channel"), the shape of the
    result ("full"), codes of this shape ("codes"), or one element ("scalar").

    Args:
        expression: The epilogue. With codes, its result is a level from 0 to 255 before rounding.
        is_coded: Whether the result is stored as codes.
    """
    pointers = [("block", "ptr"), ("result", "ptr"), ("operands", "ptr")]
    integers = ("length", "channel", "number", "valid", *PLACE)
    f = Function("complete_codes", [*pointers, *((name, "i64") for name in integers)], get_lanes())
    p = f.parameters
    kinds = expression.kinds
    addresses = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(kinds))]

    def load_repeated(shift: Value | int) -> list[Value | None]:
        """Load the operands that are the same for all pixels of a channel."""
        channel = p["channel"] + shift
        return [
            f.splat(f.load(f.offset(q, channel if kind == "channel" else 0)), f.vector)
            if kind in ("channel", "scalar")
            else None
            for q, kind in zip(addresses, kinds, strict=True)
        ]

    def compute(
        shift: Value | int,
        repeated: Sequence[Value | None],
        codes: Sequence[Value | None],
        source: Value,
        position: Value,
        mask: Value | None,
    ) -> Value:
        """Return the result for a vector of pixels of a channel."""
        sums = f.load(f.offset(source, p["length"] * shift), f.integers(), mask)
        limit = f.min(f.coerce(shift, "i64"), p["valid"] - 1)  # channels beyond the last are never used
        operands = []
        for q, kind, vector, code in zip(addresses, kinds, repeated, codes, strict=True):
            if kind == "full":
                vector = f.load(f.offset(q, (p["number"] + limit) * p["plane"] + position), f.vector, mask)
            elif kind == "codes":
                assert code is not None
                moved = (
                    code >> (shift * 8)
                    if isinstance(shift, int)
                    else code >> f.splat(f.convert("trunc", shift * 8, "i32"), f.integers())
                )
                vector = f.convert("sitofp", moved & 255, f.vector)
            assert vector is not None
            operands.append(vector)
        return evaluate(f, expression, f.convert("sitofp", sums, f.vector), operands)

    def load_codes(position: Value, mask: Value | None) -> list[Value | None]:
        """Load the codes of four channels."""
        quad = f.emit("i64", f"sdiv i64 {p['channel']}, 4")
        index = quad * p["plane"] + position
        return [
            f.load(f.offset(q, index), f.integers(), mask) if kind == "codes" else None
            for q, kind in zip(addresses, kinds, strict=True)
        ]

    def complete_row(row: Value, function: Callable[[Value, Value, Value | None], None]) -> None:
        source = f.offset(p["block"], row * p["columns"])
        first = row * p["width"] + p["start"]
        apply_to_row(f, p["width"], lambda at, mask: function(f.offset(source, at), first + at, mask))

    if is_coded:
        repeated = [load_repeated(i) for i in range(4)]
        quad = f.emit("i64", f"sdiv i64 {p['channel']}, 4")

        def complete_codes(source: Value, position: Value, mask: Value | None) -> None:
            codes = load_codes(position, mask)
            levels = [compute(i, repeated[i], codes, source, position, mask) for i in range(4)]
            f.store(join_codes(f, levels), f.offset(p["result"], quad * p["plane"] + position), mask)

        with f.loop(0, p["row_count"]) as row:
            complete_row(row, complete_codes)
    else:
        with f.loop(0, p["valid"]) as shift:
            own = load_repeated(shift)

            def complete(source: Value, position: Value, mask: Value | None) -> None:
                value = compute(shift, own, load_codes(position, mask), source, position, mask)
                f.store(value, f.offset(p["result"], (p["number"] + shift) * p["plane"] + position), mask)

            with f.loop(0, p["row_count"]) as row:
                complete_row(row, complete)
    return compile_function(f)


@functools.cache
def get_epilogue_address(expression: Expression, is_coded: bool) -> int:
    """Return the address of the code of an epilogue."""
    return compile_epilogue(expression, is_coded).address
