"""Convolution of codes: the data and the weights are 8-bit integers, the sums i32.

Data has the layout [N, C / 4, H, W, 4]: an element of i32 holds the codes of four channels of a pixel. As in the module
`convolution`, a block of padded rows is copied to phases, and every tap reads it at an offset. A tile of several output
channels and several vectors of neighboring pixels stays in registers. An epilogue completes four channels at a time: it
scales the sums and either stores f32 [N, C, H, W], or quantizes them and stores codes.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import compile_function, get_lanes
from irrun.fast.jit.convolution import Geometry, get_buffer
from irrun.fast.jit.dot_products import DotProduct, get_dot_product
from irrun.fast.jit.elementwise import apply_to_row, get_address
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.threads import run_parallel

__all__ = ["MAX_PANEL_SIZE", "QuantizedConvolution", "count_quads", "join_codes"]

Array = np.ndarray[Any, Any]

#: Elements of i32 of a block of copied rows: 256 KiB.
PANEL_SIZE = 64 << 10
#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 23, 16
#: Elements of the copied rows, and of the sums of a tile of channels, at most: 64 MiB.
MAX_PANEL_SIZE = 1 << 24
#: The f32 1.5 * 2^23: adding it to a number rounds the number to an integer, which is in the last bits of the sum.
MAGIC, MAGIC_BITS = 12582912.0, 0x4B400000


def count_quads(channels: int) -> int:
    """Return the number of groups of four channels."""
    return -(-channels // 4)


def get_tile(channels: int) -> tuple[int, int]:
    """Return the number of channels and of vectors of a tile, which fills the registers."""
    if get_lanes() < 16:
        return (4, 2)
    return (8, 3) if channels > 4 else (4, 6)


def join_codes(f: Function, levels: Sequence[Value]) -> Value:
    """Return a vector of four codes in each i32, from four vectors of f32 within 0 and 255, which are rounded."""
    joined = None
    for i, level in enumerate(levels):
        bits = f.convert("bitcast", level + MAGIC, f.integers())
        joined = bits if joined is None else joined + (bits << (8 * i))
    assert joined is not None
    excess = sum(MAGIC_BITS << (8 * i) for i in range(4)) & 0xFFFFFFFF
    return joined - (excess - (1 << 32) if excess >= 1 << 31 else excess)


@functools.cache
def compile_packing() -> Callable[..., None]:
    """Return the kernel that copies one phase of the rows of several planes of i32, with padding."""
    pointers = [("data", "ptr"), ("panel", "ptr")]
    integers = ("planes", "plane", "step", "first_row", "row_stride", "rows", "height", "width")
    more = ("first_column", "stride", "columns", "pad")
    f = Function("pack_codes", [*pointers, *((name, "i64") for name in (*integers, *more))], get_lanes())
    p = f.parameters
    width, columns, first = p["width"], p["columns"], p["first_column"]
    pad = f.convert("trunc", p["pad"], "i32")
    pads = f.splat(pad, f.integers())

    def copy_vectors(source: Value, target: Value) -> None:
        with f.loop(0, columns, f.lanes) as position:
            column = position + first
            mask = f.mask_range(0 - column, width - column)
            value = f.select(mask, f.load(f.offset(source, column), f.integers(), mask), pads)
            f.store(value, f.offset(target, position), f.mask_range(0, columns - position))

    def copy_pairs(source: Value, target: Value) -> None:
        even = ", ".join(f"i32 {2 * i}" for i in range(f.lanes))
        with f.loop(0, columns, f.lanes) as position:
            column = position * 2 + first
            halves = []
            for half in range(2):
                start = column + half * f.lanes
                mask = f.mask_range(0 - start, width - start)
                halves.append(f.select(mask, f.load(f.offset(source, start), f.integers(), mask), pads))
            type_ = f.integers()
            text = f"shufflevector {type_} {halves[0]}, {type_} {halves[1]}, <{f.lanes} x i32> <{even}>"
            f.store(f.emit(type_, text), f.offset(target, position), f.mask_range(0, columns - position))

    def copy_elements(source: Value, target: Value) -> None:
        with f.loop(0, columns) as position:
            column = position * p["stride"] + first
            inside = f.compare("slt", column, width) & f.compare("sge", column, 0)

            def copy() -> None:
                f.store(f.load(f.offset(source, column), "i32"), f.offset(target, position))

            f.choose(inside, copy, lambda: f.store(pad, f.offset(target, position)))

    def clear(target: Value) -> None:
        with f.loop(0, columns, f.lanes) as position:
            f.store(pads, f.offset(target, position), f.mask_range(0, columns - position))

    with f.loop(0, p["planes"]) as number:
        plane = f.offset(p["data"], number * p["plane"])
        block = f.offset(p["panel"], number * p["step"])
        with f.loop(0, p["rows"]) as index:
            row = index * p["row_stride"] + p["first_row"]
            target = f.offset(block, index * columns)
            source = f.offset(plane, row * width)
            is_inside = f.compare("slt", row, p["height"]) & f.compare("sge", row, 0)

            def copy_row(source: Value = source, target: Value = target) -> None:
                def copy_strided() -> None:
                    is_pair = f.compare("eq", p["stride"], 2)
                    f.choose(is_pair, lambda: copy_pairs(source, target), lambda: copy_elements(source, target))

                f.choose(f.compare("eq", p["stride"], 1), lambda: copy_vectors(source, target), copy_strided)

            f.choose(is_inside, copy_row, lambda target=target: clear(target))  # type: ignore[misc]
    return compile_function(f)


#: Integers that the products pass to the epilogue: elements between channels of the result, the first element of a
#: plane, the rows and columns, and the elements between rows of sums.
PLACE = ("plane", "start", "row_count", "width", "columns")


def compile_products(rows: int, vectors: int) -> Callable[..., None]:
    """Return the kernel that multiplies a panel by the weights of channels and calls the epilogue for each four."""
    return _compile_products(rows, vectors, get_dot_product())


@functools.cache
def _compile_products(rows: int, vectors: int, form: DotProduct) -> Callable[..., None]:
    names = ("panel", "offsets", "weights", "bias", "block", "result", "operands", "epilogue")
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
        # Instead of a tile of one vector, which would wait for its sums, the last two tiles have one vector less.
        is_single = f.compare("eq", remainder, 1) & f.compare("sgt", total, vectors)
        shorter = f.select(is_single, f.integer(vectors + 1), remainder)
        whole = (total - f.select(f.compare("eq", remainder, 0), f.integer(vectors), shorter)) * f.lanes

        def add_tile(
            count: int, pixel: Value, mask: Value | None, sources: tuple[Value, Value, Value] = (panel, weights, bias)
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
    sources: tuple[Value, Value, Value],
    pixel: Value,
    mask: Value | None,
) -> None:
    """Append the products of a tile; the last vector of pixels has a mask."""
    p = f.parameters
    panel, weights, bias = sources
    rows, vectors = len(sums), len(sums[0])
    for r, row in enumerate(sums):
        start = f.splat(f.load(f.offset(bias, r), "i32"), f.integers())
        for variable in row:
            variable.set(start)
    base = f.offset(panel, pixel)
    with f.loop(0, p["count"]) as tap:
        source = f.offset(base, f.load(f.offset(p["offsets"], tap, "i64"), "i64"))
        data = [
            form.prepare_data(
                f, f.load(f.offset(source, i * f.lanes), f.integers(), mask if i == vectors - 1 else None)
            )
            for i in range(vectors)
        ]
        factors = f.offset(weights, tap * rows)
        for r, row in enumerate(sums):
            factor = form.prepare_weights(f, f.splat(f.load(f.offset(factors, r), "i32"), f.integers()))
            for vector, variable in zip(data, row, strict=True):
                variable.set(form.add(f, variable.get(), vector, factor))
    for r, row in enumerate(sums):
        target = f.offset(f.offset(p["block"], p["length"] * r), pixel)
        for i, variable in enumerate(row):
            f.store(variable.get(), f.offset(target, i * f.lanes), mask if i == vectors - 1 else None)


@functools.cache
def compile_epilogue(expression: Expression, is_coded: bool) -> Callable[..., None]:
    """Return the kernel that completes the sums of up to four channels.

    It is called with the number of the first channel of all images, counted with and without the channels that fill
    the last four. Operands of the kind "channel" have one element for each of the former, those of the kind "full" have
    the shape of the result, those of the kind "codes" are codes of that shape, and those of the kind "scalar" have
    one element.

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
    function: Any = compile_epilogue(expression, is_coded)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@dataclass(frozen=True)
class _Call:
    """The arguments of the kernels for one block of rows and one section of channels.

    Attributes:
        source: The offset of the data in bytes.
        packing: For each phase, its offset in the panel in bytes, and the arguments of the kernel.
        offsets: The offsets of the taps.
        weights: The packed weights of the group.
        bias: The bias of the group.
        panel_size: Elements of the buffer for rows.
        length: Elements of the sums of a channel.
        arguments: The other arguments of the products.
    """

    source: int
    packing: tuple[tuple[int, tuple[int, ...]], ...]
    offsets: Array
    weights: Array
    bias: Array
    panel_size: int
    length: int
    arguments: tuple[int, ...]


class QuantizedConvolution:
    """A convolution with constant codes of weights.

    Args:
        filters: Codes of i8, shape [GROUPS, CO, CI, KH, KW]. With several groups, CI and CO are multiples of 4, unless
            both are 1.
        bias: What is added to the sums: i32, shape [GROUPS * CO].

    Raises:
        ValueError: The channels of the groups are of other numbers.
    """

    def __init__(self, filters: Array, bias: Array) -> None:
        groups, out_channels, in_channels, *kernel = filters.shape
        self.channels = groups * out_channels
        self.is_depthwise = groups > 1 and out_channels == in_channels == 1
        if self.is_depthwise:
            quads = count_quads(groups)
            spread = np.zeros((quads, 4, 4, *kernel), np.int8)
            padded = np.zeros((quads * 4, *kernel), np.int8)
            padded[:groups] = filters[:, 0, 0]
            for i in range(4):
                spread[:, i, i] = padded[i::4]
            filters = spread
        elif groups > 1 and (in_channels % 4 or out_channels % 4):
            raise ValueError("expected groups of multiples of four channels")
        self.groups, self.out_channels, self.in_quads = (
            filters.shape[0],
            filters.shape[1],
            count_quads(filters.shape[2]),
        )
        self.tile = get_tile(self.out_channels)
        rows = self.tile[0]
        self.padded = self.out_channels + -self.out_channels % max(rows, 4)
        self.weights = [_pack_weights(group, rows) for group in filters]
        self.bias = np.zeros((self.groups, self.padded), np.int32)
        own = np.zeros(self.groups * self.out_channels, np.int32)
        own[: self.channels] = bias
        self.bias[:, : self.out_channels] = own.reshape(self.groups, self.out_channels)
        if self.is_depthwise:
            # All groups are channels of one, each tile of which reads its own data.
            self.weights = [np.concatenate(self.weights)]
            self.bias = self.bias.reshape(1, -1)

    def bind(
        self, batch: int, geometry: Geometry, pad: int, expression: Expression, is_coded: bool
    ) -> Callable[[Array, Sequence[int]], Array]:
        """Return the convolution for data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            pad: The four codes of a padded pixel.
            expression: The epilogue; see `compile_epilogue`.
            is_coded: Whether the result is codes.

        Returns:
            A function of the data (contiguous codes) and of the addresses of the operands of the epilogue.

        Raises:
            ValueError: The copied rows take too much memory.
        """
        parts = list(_divide(self, batch, geometry, pad))
        output = geometry.output
        shape = (batch, count_quads(self.channels), *output, 4) if is_coded else (batch, self.channels, *output)
        epilogue = get_epilogue_address(expression, is_coded)
        multiply, pack = compile_products(*self.tile), compile_packing()
        rows = self.tile[0]

        def convolve(data: Array, operands: Sequence[int]) -> Array:
            result = np.empty(shape, np.uint8 if is_coded else np.float32)
            pointers = np.array(operands or (0,), np.int64)
            source, target, table = get_address(data), get_address(result), get_address(pointers)

            def compute(part: int) -> None:
                for call in parts[part]:
                    block = get_address(get_buffer("block", rows * call.length))
                    panel = source + call.source
                    if call.packing:
                        panel = get_address(get_buffer("panel", call.panel_size))
                        for start, arguments in call.packing:
                            pack(source + call.source, panel + start, *arguments)
                    fixed = (get_address(call.offsets), get_address(call.weights), get_address(call.bias), block)
                    multiply(panel, *fixed, target, table, epilogue, *call.arguments)

            if len(parts) == 1:
                compute(0)
            else:
                run_parallel(compute, len(parts))
            return result

        return convolve


def _pack_weights(codes: Array, rows: int) -> Array:
    """Return codes [CO, CI, KH, KW] in the order in which tiles read them, [CO / R, CI / 4 * KH * KW, R, 4]."""
    count, channels, *kernel = codes.shape
    quads, taps = count_quads(channels), math.prod(kernel)
    tiles = -(-count // rows)
    padded = np.zeros((tiles * rows, quads * 4, taps), np.int8)
    padded[:count, :channels] = codes.reshape(count, channels, taps)
    order = padded.reshape(tiles, rows, quads, 4, taps).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(order).reshape(-1)


def _divide(convolution: QuantizedConvolution, batch: int, geometry: Geometry, pad: int) -> list[list[_Call]]:
    """Return the calls of each part."""
    c, g = convolution, geometry
    height, width = g.output
    is_pointwise = g.is_pointwise
    row_size = 1 if is_pointwise else width
    row_count = height * width // row_size
    columns = row_size + g.halo[1]
    planes = c.groups * c.in_quads if c.is_depthwise else c.in_quads
    group_count = 1 if c.is_depthwise else c.groups
    out_channels = c.groups * 4 if c.is_depthwise else c.out_channels
    tile_rows, vectors = c.tile
    # Depthwise convolutions are divided by channels, so that panels are small.
    work = height * width * c.channels * c.in_quads * 4 * math.prod(g.kernel)
    if c.is_depthwise:
        work *= 2
    per_row = c.in_quads * len(g.phases) * columns
    limit = max(1, PANEL_SIZE // per_row - g.halo[0])
    rows = max(1, min(row_count, limit))
    step = -(-row_count // -(-row_count // rows))
    if is_pointwise:
        multiple = vectors * get_lanes()
        step += -step % multiple
    bounds = [*range(0, row_count, step), row_count]
    blocks = list(itertools.pairwise(bounds))
    parts = max(1, min(MAX_PARTS, work * batch // MIN_PART_WORK))
    if c.is_depthwise:
        panel_rows = min(step, row_count) + g.halo[0]
        fitting = max(1, PANEL_SIZE // (panel_rows * columns * len(g.phases)))
        section_count = max(-(-c.groups // fitting), min(parts, c.groups) if len(blocks) * batch < parts else 1)
    else:
        section_count = max(1, -(-parts // (len(blocks) * batch * group_count)))
    section = -(-out_channels // section_count)
    section += -section % tile_rows
    sections = [(i, min(i + section, out_channels)) for i in range(0, out_channels, section)]
    offsets: dict[int, Array] = {}
    calls = []
    plane_in, plane_out = math.prod(g.size), height * width
    channel_step = count_quads(c.channels) * 4
    for image in range(batch):
        for group in range(group_count):
            for first, last in blocks:
                for left, right in sections:
                    panel_rows = 0 if is_pointwise else last - first + g.halo[0]
                    size = panel_rows * columns
                    quad_size = plane_in if is_pointwise else size * len(g.phases)
                    if panel_rows not in offsets:
                        offsets[panel_rows] = _make_offsets(g, c.in_quads, quad_size, size, columns)
                    first_plane = image * c.groups * c.in_quads + group * c.in_quads
                    panel_planes, panel_step = planes, 0
                    if c.is_depthwise:
                        first_plane += left // 4
                        panel_planes, panel_step = (right - left) // 4, quad_size * c.in_quads
                    packing = []
                    for i, (y, x) in enumerate(() if is_pointwise else g.phases):
                        row = first * g.strides[0] + y - g.pads_begin[0]
                        line = (x - g.pads_begin[1], g.strides[1], columns, pad)
                        place = (panel_planes, plane_in, quad_size, row, g.strides[0], panel_rows, *g.size, *line)
                        packing.append((4 * i * size, place))
                    source = 4 * (first_plane * plane_in + (first if is_pointwise else 0))
                    pixels = (last - first) * columns - g.halo[1]
                    length = pixels + -pixels % 16 + 16 * vectors + 16
                    # The kernel starts at channel 0 of a section, so that its panel is that of the section.
                    shape = (1, pixels) if columns == row_size else (last - first, row_size)
                    channel = image * channel_step + group * c.out_channels + left
                    number = image * c.channels + group * c.out_channels + left
                    taps = c.in_quads * math.prod(g.kernel)
                    valid = (c.channels if c.is_depthwise else c.out_channels) - left
                    arguments = (
                        *(taps, pixels, length, 0, right - left, valid, panel_step, channel, number),
                        *(plane_out, first * row_size, *shape, columns),
                    )
                    weights = c.weights[group][left * taps * 4 :]
                    panel_size = 0 if is_pointwise else panel_planes * quad_size + 64
                    if max(panel_size, tile_rows * length) > MAX_PANEL_SIZE:
                        raise ValueError("expected smaller rows")
                    calls.append(
                        _Call(
                            source,
                            tuple(packing),
                            offsets[panel_rows],
                            weights,
                            c.bias[group, left:],
                            panel_size,
                            length,
                            arguments,
                        )
                    )
    count = min(parts, len(calls))
    return [calls[len(calls) * i // count : len(calls) * (i + 1) // count] for i in range(count)]


def _make_offsets(g: Geometry, quads: int, quad_size: int, size: int, columns: int) -> Array:
    """Return the offset of each tap of each four channels in the panel."""
    (dy, dx), (sy, sx) = g.dilations, g.strides
    taps = [
        g.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * columns + dx * x // sx
        for y in range(g.kernel[0])
        for x in range(g.kernel[1])
    ]
    starts = np.arange(quads, dtype=np.int64)[:, np.newaxis] * quad_size
    return (starts + np.array(taps, np.int64)).reshape(-1)
