"""Convolution of codes to codes with vectors of output channels: data and weights are 8-bit integers, sums i32.

Data has the layout [N, C / 4, H, W, 4], as in `quantized_convolution`. A tile of several neighboring pixels and a few
vectors of output channels stays in registers. For each tap it repeats the four codes of a pixel in a vector, and
multiplies them by the weights of the channels. As tiles end at the ends of rows, no vector is filled in part, which
makes small maps faster than vectors of pixels do.

An epilogue completes a tile: it scales the sums, quantizes them, and stores four pixels of four channels at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.dot_products import PORTABLE, DotProduct, find_saturating, get_dot_product
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.quantized_code import count_quads, get_tile, join_pixels
from irrun.fast.jit.quantized_convolution import MAX_SHARED_SIZE, order_taps
from irrun.fast.jit.quantized_panels import PanelLayout, divide_copies
from irrun.fast.jit.tasks import SCRATCH, Argument, Call, Task, make_base

__all__ = ["QuantizedChannelConvolution", "is_faster"]

Array = np.ndarray[Any, Any]

#: Minimum number of multiplications per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 19, 16
#: Channels per element.
QUAD = 4
#: Time of the epilogue of a vector beyond that of vectors of pixels, in the time of a dot product: measured with VNNI
#: and AVX2. There, the time of a dot product with vectors of pixels is 1, or PORTABLE_TIMES[0] in the portable form;
#: with vectors of channels, it is PAIRS_TIME or PORTABLE_TIMES[1].
EPILOGUE_TIMES = {16: 1, 8: 4}
PAIRS_TIME, PORTABLE_TIMES = 0.94, (1.32, 1.38)


def is_faster(filters: Array, geometry: Geometry) -> bool:
    """Return whether vectors of channels are faster than vectors of pixels.

    Args:
        filters: Codes of i8, shape [CO, CI, KH, KW].
        geometry: The windows.
    """
    lanes, g = get_lanes(), geometry
    if lanes not in EPILOGUE_TIMES:
        return False
    channels, in_channels = filters.shape[:2]
    taps, pixels = count_quads(in_channels) * math.prod(g.kernel), math.prod(g.output)
    copied = pixels if g.is_pointwise else g.output[0] * (g.output[1] + g.halo[1]) - g.halo[1]
    height, step = get_tile(channels)[0], _count_vectors(channels) * lanes
    times = [1.0, 1.0]
    if get_dot_product(can_saturate=True).saturates:
        share = _find_saturating_share(filters)
        shares = [1 - (1 - share) ** count for count in (height, step)]
        times = [x + (y - x) * s for x, y, s in zip((1, PAIRS_TIME), PORTABLE_TIMES, shares, strict=True)]
    by_pixels = -(-copied // lanes) * lanes * -(-channels // height) * height * taps * times[0]
    by_channels = pixels * -(-channels // step) * step * (taps * times[1] + EPILOGUE_TIMES[lanes])
    return bool(by_channels < by_pixels)


def _find_saturating_share(filters: Array) -> float:
    """Return the share of the groups of four weights that need the portable form."""
    channels, in_channels = filters.shape[:2]
    padded = np.zeros((channels, count_quads(in_channels) * QUAD, math.prod(filters.shape[2:])), np.int8)
    padded[:, :in_channels] = filters.reshape(channels, in_channels, -1)
    return float(find_saturating(padded.reshape(channels, -1, QUAD, padded.shape[2]).swapaxes(2, 3)).mean())


def _count_vectors(channels: int) -> int:
    """Return the number of vectors of channels of a tile: two, unless the last tile would fill only one."""
    return 2 if -(-channels // get_lanes()) % 2 == 0 else 1


def get_pixel_limit(vectors: int) -> int:
    """Return the maximum number of pixels of a tile with one or two vectors of channels."""
    if get_lanes() == 16:
        return 14
    return 12 if vectors == 1 else 6


@cache_kernel
def _compile_products(vectors: int, form: DotProduct) -> Kernel:
    """Return the kernel that multiplies the pixels of some rows by the weights of channels, and calls the epilogue.

    If the form saturates, the last taps of each tile are multiplied in the portable form, as in
    `quantized_code.compile_products`.
    """
    names = ["panel", "offsets", "weights", "bias", "block", "result", "operands", "epilogue"]
    names += ["places", "wide"] if form.saturates else []
    integers = ("count", "rows", "columns", "tiles", "size", "longer", "first", "last", "channel", "quads", "plane")
    more = ("start", "width")
    parameters = [*((n, "ptr") for n in names), *((n, "i64") for n in (*integers, *more))]
    f = Function("convolve_pixels", parameters, get_lanes())
    p = f.parameters
    limit, step = get_pixel_limit(vectors), vectors * f.lanes
    sums = [[f.variable(f.integers(), 0) for _ in range(vectors)] for _ in range(limit)]
    with f.loop(p["first"], p["last"], step) as channel:
        index = f.emit("i64", f"sdiv i64 {channel}, {step}")
        weights = f.offset(p["weights"], channel * p["count"])
        bias = f.offset(p["bias"], channel)
        offsets = f.offset(p["offsets"], index * p["count"], "i64") if form.saturates else p["offsets"]
        quad = f.emit("i64", f"sdiv i64 {channel}, {QUAD}")
        with f.loop(0, p["rows"]) as row, f.loop(0, p["tiles"]) as number:
            column = number * p["size"] + f.min(number, p["longer"])
            pixels = p["size"] + f.convert("zext", f.compare("slt", number, p["longer"]), "i64")
            source = f.offset(p["panel"], row * p["columns"] + column)
            for count in range(limit, 0, -1):
                with f.when(f.compare("eq", pixels, count)):
                    _emit_tile(f, form, sums[:count], (source, weights, bias, offsets), index)
            place = quad * p["plane"] + p["start"] + row * p["width"] + column
            arguments = (channel + p["channel"], p["quads"] - quad, place, pixels, p["plane"])
            shown = ", ".join(f"i64 {value}" for value in arguments)
            f.append(f"call void {p['epilogue']}(ptr {p['block']}, ptr {p['result']}, ptr {p['operands']}, {shown})")
    return compile_function(f)


def _emit_tile(
    f: Function, form: DotProduct, sums: Sequence[Sequence[Any]], sources: tuple[Value, ...], index: Value
) -> None:
    """Append the products of a tile of pixels, whose sums are stored in the block."""
    p = f.parameters
    source, weights, bias, offsets = sources
    vectors = len(sums[0])
    step = vectors * f.lanes
    for i in range(vectors):
        start = f.load(f.offset(bias, i * f.lanes), f.integers())
        for row in sums:
            row[i].set(start)

    def add_tap(form: DotProduct, tap: Value, factors: Sequence[tuple[Value, ...]]) -> None:
        pixel = f.offset(source, f.load(f.offset(offsets, tap, "i64"), "i64"))
        for number, row in enumerate(sums):
            data = form.prepare_data(f, f.splat(f.load(f.offset(pixel, number), "i32"), f.integers()))
            for factor, variable in zip(factors, row, strict=True):
                variable.set(form.add(f, variable.get(), data, factor))

    def load(factors: Value, number: int) -> Value:
        return f.load(f.offset(factors, number * f.lanes), f.integers())

    def add_taps(start: Value | int, stop: Value) -> None:
        with f.loop(start, stop) as tap:
            own = f.offset(weights, tap * step)
            add_tap(form, tap, [form.prepare_weights(f, load(own, i)) for i in range(vectors)])

    if form.saturates:
        limit, first = (f.load(f.offset(p["places"], index * 2 + i, "i64"), "i64") for i in range(2))
        add_taps(0, limit)
        with f.loop(limit, p["count"]) as tap:
            wide = f.offset(p["wide"], (first + tap - limit) * (2 * step))
            add_tap(PORTABLE, tap, [(load(wide, 2 * i), load(wide, 2 * i + 1)) for i in range(vectors)])
    else:
        add_taps(0, p["count"])
    for number, row in enumerate(sums):
        for i, variable in enumerate(row):
            f.store(variable.get(), f.offset(p["block"], number * step + i * f.lanes))


@cache_kernel
def _compile_epilogue(expression: Expression, vectors: int) -> Kernel:
    """Return the kernel that completes and stores the sums of a tile.

    Operands are "scalar", "channel", with one element for each channel and those that pad the last four, or "codes" of
    the shape of the result. `quads` is the number of groups of four channels from the first one of the tile on.
    """
    names = ("block", "result", "operands")
    integers = ("channel", "quads", "place", "pixels", "plane")
    f = Function("complete_pixels", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    addresses = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(expression.kinds))]
    count = f.lanes // QUAD
    for i in range(vectors):
        quads = p["quads"] - i * count
        with f.when(f.compare("sgt", quads, 0)):
            _emit_vector(f, expression, addresses, i, f.min(quads, count), vectors)
    return compile_function(f)


def _emit_vector(
    f: Function, expression: Expression, addresses: Sequence[Value], number: int, quads: Value, vectors: int
) -> None:
    """Append the completion of all pixels for a vector of channels, of which some groups of four are valid."""
    p, count = f.parameters, f.lanes // QUAD
    channel, place = p["channel"] + number * f.lanes, p["place"] + p["plane"] * (number * count)
    mask = f.mask_range(0, quads * QUAD)
    constants = [
        f.load(f.offset(q, channel), f.vector, mask) if kind == "channel" else f.splat(f.load(q), f.vector)
        for q, kind in zip(addresses, expression.kinds, strict=True)
        if kind != "codes"
    ]
    codes = [f.variable(f.integers(), 0) for kind in expression.kinds if kind == "codes"]
    coded = [q for q, kind in zip(addresses, expression.kinds, strict=True) if kind == "codes"]
    with f.loop(0, p["pixels"], QUAD) as pixel:
        rest = p["pixels"] - pixel
        is_whole = f.compare("sge", rest, QUAD) & f.compare("eq", quads, count)
        shape = "<4 x i32>"
        ranks = Value(f, shape, "<i32 0, i32 1, i32 2, i32 3>")
        valid = f.compare("slt", ranks, f.splat(f.convert("trunc", f.min(rest, QUAD), "i32"), shape))

        def load_codes(is_whole: bool, valid: Value = valid, pixel: Value = pixel) -> None:
            for q, variable in zip(coded, codes, strict=True):
                # Groups beyond the last one repeat it, and are not stored.
                numbers = [f.integer(i) if is_whole else f.min(f.integer(i), quads - 1) for i in range(count)]
                parts = [
                    f.load(f.offset(q, place + n * p["plane"] + pixel), shape, None if is_whole else valid)
                    for n in numbers
                ]
                while len(parts) > 1:
                    size = 2 * parts[0].lanes
                    parts = [f.shuffle(parts[i : i + 2], range(size)) for i in range(0, len(parts), 2)]
                variable.set(parts[0])

        if coded:
            f.choose(is_whole, lambda: load_codes(True), lambda: load_codes(False))
        joined = [variable.get() for variable in codes]
        levels = []
        for i in range(QUAD):
            position = (pixel + i) * (vectors * f.lanes) + number * f.lanes
            sums = f.load(f.offset(p["block"], position), f.integers())
            decoded = (f.convert("sitofp", _select_pixel(f, vector, i), f.vector) for vector in joined)
            others = iter(constants)
            operands = [next(decoded) if kind == "codes" else next(others) for kind in expression.kinds]
            levels.append(evaluate(f, expression, f.convert("sitofp", sums, f.vector), operands))
        result = join_pixels(f, levels)

        def store(is_whole: bool, valid: Value = valid, pixel: Value = pixel, result: Value = result) -> None:
            for i in range(count):
                part = f.shuffle((result, result), range(QUAD * i, QUAD * (i + 1)))
                target = f.offset(p["result"], place + p["plane"] * i + pixel)
                if is_whole:
                    f.store(part, target)
                else:
                    with f.when(f.compare("sgt", quads, i)):
                        f.store(part, target, valid)

        f.choose(is_whole, lambda: store(True), lambda: store(False))


def _select_pixel(f: Function, codes: Value, number: int) -> Value:
    """Return the codes of one of the four pixels of each 128-bit lane, in i32."""
    size = 4 * f.lanes
    bytes_ = f.convert("bitcast", codes, f"<{size} x i8>")
    zeros = Value(f, bytes_.type, "zeroinitializer")
    numbers = [
        lane + QUAD * number + c if i == 0 else size
        for lane in range(0, size, 16)
        for c in range(QUAD)
        for i in range(4)
    ]
    return f.convert("bitcast", f.shuffle((bytes_, zeros), numbers), f.integers())


class QuantizedChannelConvolution:
    """A convolution with constant codes of weights, whose result is codes.

    Args:
        filters: Codes of i8, shape [CO, CI, KH, KW].
        bias: Added to the sums: i32, shape [CO].
    """

    def __init__(self, filters: Array, bias: Array) -> None:
        self.channels, in_channels, *kernel = filters.shape
        lanes = get_lanes()
        self.vectors = _count_vectors(self.channels)
        self.tile = self.vectors * lanes
        self.in_quads, taps = count_quads(in_channels), math.prod(kernel)
        self.padded = self.channels + -self.channels % self.tile
        self.form = get_dot_product(can_saturate=True)
        padded = np.zeros((self.padded, self.in_quads * QUAD, taps), np.int8)
        padded[: self.channels, :in_channels] = filters.reshape(self.channels, in_channels, taps)
        order = padded.reshape(-1, self.tile, self.in_quads, QUAD, taps).transpose(0, 2, 4, 1, 3)
        self.weights = np.ascontiguousarray(order).reshape(-1)
        self.bias = np.zeros(self.padded, np.int32)
        self.bias[: self.channels] = bias
        self.bias += self.form.offset * padded.sum((1, 2), dtype=np.int32)
        #: The order, the places and the wide weights of the taps; see `order_taps`.
        self.ordered: tuple[Array, Array, Array] | None = None
        if self.form.saturates:
            self.weights, orders, places, wide = order_taps(self.weights, self.tile, self.in_quads * taps)
            # The two wide vectors of a vector of channels follow each other.
            split = wide.reshape(-1, self.vectors, lanes, 2).swapaxes(2, 3)
            self.ordered = orders, places, np.ascontiguousarray(split).reshape(-1)

    def make_tasks(self, batch: int, geometry: Geometry, pad: int, expression: Expression) -> tuple[list[Task], int]:
        """Return the convolution for contiguous data of one shape; see `QuantizedConvolution.make_tasks`.

        Raises:
            NoKernelError: The copied rows take too much memory, or an operand is of another kind.
        """
        if not set(expression.kinds) <= {"channel", "scalar", "codes"}:
            raise NoKernelError("expected operands of channels, or codes")
        g, layout = geometry, PanelLayout(geometry, self.in_quads)
        row_count, width = (1, math.prod(g.output)) if g.is_pointwise else g.output
        size = layout.get_size(row_count, self.in_quads)
        if batch * size > MAX_SHARED_SIZE:
            raise NoKernelError("the rows are too long")
        limit = get_pixel_limit(self.vectors)
        offsets = layout.make_offsets(row_count)
        own_offsets = offsets if self.ordered is None else np.ascontiguousarray(offsets[self.ordered[0]])
        addresses: list[Argument] = [get_address(x) for x in (own_offsets, self.weights, self.bias)]
        addresses += [SCRATCH, make_base(1), make_base(2), _compile_epilogue(expression, self.vectors).address]
        addresses += [] if self.ordered is None else [get_address(x) for x in self.ordered[1:]]
        quads, plane = count_quads(self.channels), math.prod(g.output)
        sections, blocks, spans = self._divide(batch, row_count, width, len(offsets))
        copies: list[list[Call]] = []
        parts: list[list[Call]] = []
        for image in range(batch):
            panel = (
                make_base(3).move(4 * image * size) if size else make_base(0).move(4 * image * self.in_quads * plane)
            )
            if size:
                copies += [
                    layout.copy(image * self.in_quads, panel, own, (0, row_count), pad)
                    for own in divide_copies(self.in_quads, size)
                ]
            for section, (first, last), (left, right) in itertools.product(sections, blocks, spans):
                source = panel.move(4 * (first * layout.columns + left))
                tiles = -(-(right - left) // limit)
                short, longer = divmod(right - left, tiles)
                columns = layout.columns if size else 0
                numbers = (len(offsets), last - first, columns, tiles, short, longer, *section)
                place = (image * quads * QUAD, quads, plane, image * quads * plane + first * width + left, width)
                parts.append([Call(_compile_products(self.vectors, self.form), (source, *addresses, *numbers, *place))])
        task = Task(parts, 4 * self.tile * (limit + -limit % QUAD))
        task.keep(own_offsets, self.weights, self.bias, *(self.ordered or ()))
        return [Task(copies), task] if copies else [task], batch * size

    def _divide(
        self, batch: int, rows: int, width: int, taps: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the sections of channels, the blocks of rows, and the spans of columns."""
        work = rows * width * self.channels * taps * QUAD
        count = -(-max(1, min(MAX_PARTS, work * batch // MIN_PART_WORK)) // batch)
        tiles = self.padded // self.tile
        sections = math.gcd(tiles, 16)
        while sections > count:
            sections //= 2
        rest = -(-count // sections)

        def divide(total: int, step: int, count: int) -> list[tuple[int, int]]:
            bounds = [min(total, step * (-(-total // step) * i // count)) for i in range(count + 1)]
            return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]

        blocks = divide(rows, 1, min(rows, rest))
        spans = divide(width, get_pixel_limit(self.vectors), rest if rows == 1 else 1)
        return divide(self.padded, self.tile, sections), blocks, spans
