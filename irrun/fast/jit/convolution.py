"""Convolution without columns: a block of padded rows is copied, and every tap reads it at an offset.

The innermost loop keeps a tile of several output channels and several vectors of neighboring pixels in registers. For
each input channel and tap it loads the pixels at the offset of the tap and multiplies them by the weights of the
channels. Strides are removed when rows are copied: rows and columns whose numbers have the same remainder form a
*phase*, in which neighboring windows read neighboring elements. Neighboring rows follow each other without a gap, so
that a tile may span several of them; the results at their ends that belong to no window are not stored.

Each block of a few channels is completed by an epilogue, an expression, while it is in the processor's cache.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.compiler import Kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.expressions import Expression, evaluate
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, align_size, make_base

__all__ = ["Convolution", "Geometry", "pack_weights"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Elements of a block of copied rows: 384 KiB, less than the second level of caches.
PANEL_SIZE = 96 << 10
#: Multiplications of a part that a thread computes at least, and parts at most.
MIN_PART_WORK, MAX_PARTS = 1 << 20, 16
#: Multiplications from which a convolution is divided: waking a thread takes as long as a small one.
MIN_DIVIDED_WORK = 1 << 21
#: Elements of the copied rows, and of the products of a tile of channels, at most: 64 MiB. Large pads exceed that.
MAX_PANEL_SIZE = 1 << 24
#: Blocks of all images and groups at most: each has its own arguments.
MAX_BLOCKS = 1 << 14

_buffers = threading.local()


def get_tile() -> tuple[int, int]:
    """Return the number of channels and of vectors of a tile, which fills the registers."""
    lanes = get_lanes()
    return (8, 3) if lanes == 16 else (4, 3)


def get_buffer(name: str, size: int) -> Array:
    """Return a buffer of f32 that belongs to the current thread."""
    buffer: Array | None = getattr(_buffers, name, None)
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, F32)
        setattr(_buffers, name, buffer)
    return buffer


@dataclass(frozen=True)
class Geometry:
    """The windows of a 2D convolution. Values are pairs for rows and columns."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads_begin: tuple[int, int]
    pads_end: tuple[int, int]

    @functools.cached_property
    def output(self) -> tuple[int, int]:
        """The number of windows along each axis."""
        height, width = (
            (n + before + after - d * (k - 1) - 1) // s + 1
            for n, before, after, d, k, s in zip(
                self.size, self.pads_begin, self.pads_end, self.dilations, self.kernel, self.strides, strict=True
            )
        )
        return height, width

    @functools.cached_property
    def halo(self) -> tuple[int, int]:
        """The number of rows and columns of a phase beyond one per window."""
        rows, columns = (d * (k - 1) // s for d, k, s in zip(self.dilations, self.kernel, self.strides, strict=True))
        return rows, columns

    @functools.cached_property
    def phases(self) -> tuple[tuple[int, int], ...]:
        """The remainders of rows and columns that taps read."""
        rows, columns = (
            sorted({d * i % s for i in range(k)})
            for d, k, s in zip(self.dilations, self.kernel, self.strides, strict=True)
        )
        return tuple((y, x) for y in rows for x in columns)

    @property
    def is_pointwise(self) -> bool:
        """Whether each window is one element, in place."""
        return self.kernel == self.strides == (1, 1) and self.pads_begin == self.pads_end == (0, 0)


def pack_weights(filters: Array) -> Array:
    """Return filters [CO, CI, kernel...] in the order in which tiles read them, [CO / R, CI * kernel, R].

    Missing channels of the last tile are 0.
    """
    rows, _ = get_tile()
    count = filters.shape[0]
    tiles = -(-count // rows)
    matrix = np.zeros((tiles * rows, math.prod(filters.shape[1:])), F32)
    matrix[:count] = filters.reshape(count, -1)
    return np.ascontiguousarray(matrix.reshape(tiles, rows, -1).transpose(0, 2, 1))


@functools.cache
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

    def copy_vectors(source: Value, target: Value) -> None:
        """Copy a row without a stride."""
        with f.loop(0, columns, f.lanes) as position:
            column = position + first
            mask = f.mask_range(0 - column, width - column)
            value = f.load(f.offset(source, column), f.vector, mask)
            f.store(value, f.offset(target, position), f.mask_range(0, columns - position))

    def copy_pairs(source: Value, target: Value) -> None:
        """Copy every second element of a row."""
        even = ", ".join(f"i32 {2 * i}" for i in range(f.lanes))
        with f.loop(0, columns, f.lanes) as position:
            column = position * 2 + first
            halves = []
            for half in range(2):
                start = column + half * f.lanes
                halves.append(f.load(f.offset(source, start), f.vector, f.mask_range(0 - start, width - start)))
            value = f.emit(
                f.vector,
                f"shufflevector {f.vector} {halves[0]}, {f.vector} {halves[1]}, <{f.lanes} x i32> <{even}>",
            )
            f.store(value, f.offset(target, position), f.mask_range(0, columns - position))

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

    emit_rows(f, p["channels"], copy_vectors, copy_pairs, copy_elements, clear)
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


@functools.cache
def compile_products() -> Kernel:
    """Return the kernel that multiplies a panel by the weights of channels and calls the epilogue for each of them."""
    rows, vectors = get_tile()
    f = Function(
        "convolve",
        [
            ("panel", "ptr"),
            ("offsets", "ptr"),  # of each input channel and tap in the panel
            ("weights", "ptr"),
            ("block", "ptr"),  # products of a tile's channels, [R, length]
            ("length", "i64"),
            ("result", "ptr"),
            ("operands", "ptr"),
            ("epilogue", "ptr"),
            ("count", "i64"),  # of the offsets
            ("pixels", "i64"),
            ("first", "i64"),  # channel, a multiple of R
            ("last", "i64"),
            ("plane", "i64"),  # elements between channels of the result
            ("start", "i64"),  # element of the plane
            ("row_count", "i64"),
            ("width", "i64"),
            ("columns", "i64"),  # elements between rows of products
            ("channel_offset", "i64"),
        ],
        get_lanes(),
    )
    p = f.parameters
    accumulators = [[f.variable(f.vector, 0.0) for _ in range(vectors)] for _ in range(rows)]
    tile = vectors * f.lanes
    with f.loop(p["first"], p["last"], rows) as channel:
        weights = f.offset(p["weights"], channel * p["count"])
        # Instead of a tile of one vector, which would wait for its sums, the last two tiles have one vector less.
        total = f.emit("i64", f"sdiv i64 {p['pixels'] + (f.lanes - 1)}, {f.lanes}")
        remainder = f.emit("i64", f"srem i64 {total}, {vectors}")
        is_single = f.compare("eq", remainder, 1) & f.compare("sgt", total, vectors)
        shorter = f.select(is_single, f.integer(vectors + 1), remainder)
        whole = (total - f.select(f.compare("eq", remainder, 0), f.integer(vectors), shorter)) * f.lanes
        with f.loop(0, whole, tile) as pixel:
            _emit_tile(f, accumulators, weights, pixel, None)
        start = f.select(is_single, whole + (vectors - 1) * f.lanes, whole)
        with f.when(is_single):
            _emit_tile(f, [row[:-1] for row in accumulators], weights, whole, None)
        rest = p["pixels"] - start
        for count in range(1, vectors + 1):
            fits = f.compare("sgt", rest, (count - 1) * f.lanes) & f.compare("sle", rest, count * f.lanes)
            with f.when(fits):
                mask = f.mask_range(0, rest - (count - 1) * f.lanes)
                _emit_tile(f, [row[:count] for row in accumulators], weights, start, mask)
        with f.loop(0, f.min(p["last"] - channel, rows)) as row:
            number = channel + row + p["channel_offset"]
            position = number * p["plane"] + p["start"]
            block = f.offset(p["block"], row * p["length"])
            f.append(
                f"call void {p['epilogue']}(ptr {block}, i64 {p['columns']}, ptr {p['result']}, i64 {position}, "
                f"i64 {p['row_count']}, i64 {p['width']}, i64 {p['width']}, ptr {p['operands']}, i64 {number})"
            )
    return compile_function(f)


def _emit_tile(
    f: Function, accumulators: Sequence[Sequence[Variable]], weights: Value, pixel: Value, mask: Value | None
) -> None:
    """Append the products of a tile; the last vector of pixels has a mask."""
    p = f.parameters
    rows, vectors = len(accumulators), len(accumulators[0])
    for row in accumulators:
        for accumulator in row:
            accumulator.set(0.0)
    base = f.offset(p["panel"], pixel)
    with f.loop(0, p["count"]) as tap:
        source = f.offset(base, f.load(f.offset(p["offsets"], tap, "i64"), "i64"))
        pixels = [
            f.load(f.offset(source, i * f.lanes), f.vector, mask if i == vectors - 1 else None) for i in range(vectors)
        ]
        factors = f.offset(weights, tap * rows)
        f.prefetch(f.offset(factors, p["count"] * rows))  # those of the next tile of channels
        for r, row in enumerate(accumulators):
            factor = f.splat(f.load(f.offset(factors, r)), f.vector)
            for vector, accumulator in zip(pixels, row, strict=True):
                accumulator.set(f.multiply_add(vector, factor, accumulator.get()))
    for r, row in enumerate(accumulators):
        target = f.offset(f.offset(p["block"], p["length"] * r), pixel)
        for i, accumulator in enumerate(row):
            f.store(accumulator.get(), f.offset(target, i * f.lanes), mask if i == vectors - 1 else None)


@functools.cache
def compile_epilogue(expression: Expression) -> Kernel:
    """Return the kernel that completes rows of products.

    It is called with the number of the channel or first column. Operands of the kind "channel" have one element for
    each channel, those of the kind "column" one for each column, those of the kind "full" the shape of the result, and
    those of the kind "scalar" one element.
    """
    names = [("block", "ptr"), ("columns", "i64"), ("result", "ptr"), ("start", "i64"), ("rows", "i64")]
    more = [("width", "i64"), ("stride", "i64"), ("operands", "ptr"), ("channel", "i64")]
    f = Function("epilogue", [*names, *more], get_lanes())
    p = f.parameters
    kinds = expression.kinds
    pointers = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(len(kinds))]
    repeated = [
        f.splat(f.load(f.offset(q, p["channel"] if kind == "channel" else 0)), f.vector)
        if kind in ("channel", "scalar")
        else None
        for q, kind in zip(pointers, kinds, strict=True)
    ]
    with f.loop(0, p["rows"]) as row:
        source = f.offset(p["block"], row * p["columns"])
        first = row * p["stride"] + p["start"]

        def complete(position: Value, mask: Value | None, source: Value = source, first: Value = first) -> None:
            value = f.load(f.offset(source, position), f.vector, mask)
            number = first + position
            numbers = {"full": number, "column": p["channel"] + position}
            operands = [
                f.load(f.offset(q, numbers[kind]), f.vector, mask) if vector is None else vector
                for q, kind, vector in zip(pointers, kinds, repeated, strict=True)
            ]
            result = evaluate(f, expression, value, operands)
            f.store(result, f.offset(p["result"], number), mask)

        apply_to_row(f, p["width"], complete)
    return compile_function(f)


@functools.cache
def get_epilogue_address(expression: Expression) -> int:
    """Return the address of the code of an epilogue."""
    return compile_epilogue(expression).address


class Convolution:
    """A convolution with constant weights.

    Args:
        filters: f32, shape [GROUPS, CO, CI, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.groups, self.out_channels, self.in_channels = filters.shape[:3]
        self.weights = [pack_weights(group) for group in filters]

    def bind(self, batch: int, geometry: Geometry, expression: Expression) -> Callable[[Array, Sequence[int]], Array]:
        """Return the convolution for data of one shape.

        Args:
            batch: N.
            geometry: The windows.
            expression: The epilogue, whose operands are addressed as `compile_epilogue` states.

        Returns:
            A function of the data (f32, contiguous, shape [N, GROUPS * CI, H, W]) and of the addresses of the operands
            of the epilogue, of which those of the kind "channel" have N * GROUPS * CO elements. It returns an array of
            shape [N, GROUPS * CO, output...].

        Raises:
            ValueError: The copied rows take too much memory, or the blocks are too many.
        """
        plan = _Plan(geometry, self.in_channels, self.out_channels, batch * self.groups)
        task = self._make_task(batch, plan, get_epilogue_address(expression))
        shape = (batch, self.groups * self.out_channels, *geometry.output)

        def convolve(data: Array, operands: Sequence[int]) -> Array:
            result = np.empty(shape, F32)
            pointers = np.array(operands or (0,), np.int64)
            task.run(get_address(data), get_address(result), get_address(pointers))
            return result

        return convolve

    def _make_task(self, batch: int, plan: _Plan, epilogue: int) -> Task:
        """Return the calls of the kernels for the data, the result, and the table of the epilogue's operands."""
        blocks, sections = plan.blocks, plan.sections
        count = batch * self.groups * len(blocks)
        in_plane = math.prod(plan.geometry.size)
        parts = []
        for number in range(plan.count_parts(count)):
            for section in sections:
                calls: list[Call] = []
                for item in plan.divide(count, number):
                    index, block = divmod(item, len(blocks))
                    image, group = divmod(index, self.groups)
                    source = make_base(0).move(4 * index * self.in_channels * in_plane)
                    first_channel = (image * self.groups + group) * self.out_channels
                    weights = get_address(self.weights[group])
                    calls += plan.make_calls(blocks[block], section, source, weights, epilogue, first_channel)
                parts.append(calls)
        task = Task(parts, plan.scratch_size)
        task.keep(*plan.offsets.values(), *self.weights)
        return task


class _Plan:
    """How a convolution is divided into blocks of rows and sections of channels, and these into parts.

    Attributes:
        blocks: First row and the row after the last of each block.
        sections: First channel and the channel after the last of each section.
        offsets: For each number of rows in the panel, the offsets of the input channels and taps.
        scratch_size: Bytes of the products of a tile's channels, followed by the panel.
    """

    def __init__(self, geometry: Geometry, in_channels: int, out_channels: int, images: int) -> None:
        self.geometry = geometry
        self.in_channels = in_channels
        height, width = geometry.output
        #: Windows of a row. Those of a pointwise convolution need not be divided at the ends of rows.
        self.row_size = 1 if geometry.is_pointwise else width
        row_count = height * width // self.row_size
        columns = self.row_size + geometry.halo[1]
        per_row = in_channels * len(geometry.phases) * columns
        # Long rows of small kernels are not divided: a panel may exceed the cache.
        rows = max(1, min(row_count, PANEL_SIZE // max(1, per_row) - geometry.halo[0]))
        multiple = get_tile()[1] * get_lanes() if geometry.is_pointwise else 1
        step = -(-row_count // -(-row_count // rows))
        step += -step % multiple
        panel_size = 0 if geometry.is_pointwise else per_row * (step + geometry.halo[0])
        block_size = get_tile()[0] * step * columns
        self._panel_offset = align_size(4 * get_tile()[0] * self._pad_length(step * columns))
        self.scratch_size = self._panel_offset + 4 * (panel_size + 64)
        if max(panel_size, block_size) > MAX_PANEL_SIZE or -(-row_count // step) * images > MAX_BLOCKS:
            raise ValueError("expected smaller rows and fewer blocks")
        bounds = [*range(0, row_count, step), row_count]
        count = len(bounds) - 1
        self.blocks = list(itertools.pairwise(bounds))
        work = out_channels * height * width * in_channels * math.prod(geometry.kernel)
        total = count * images
        is_divided = work * images >= MIN_DIVIDED_WORK
        self._parts = max(1, min(MAX_PARTS, total, work * images // MIN_PART_WORK)) if is_divided else 1
        section_count = 1
        if is_divided and self._parts < MAX_PARTS // 4:
            section_count = max(1, min(MAX_PARTS // 2 // self._parts, work * images // self._parts // MIN_PART_WORK))
        tile_rows = get_tile()[0]
        step = -(-out_channels // section_count)
        step += -step % tile_rows
        self.sections = [(i, min(i + step, out_channels)) for i in range(0, out_channels, step)]
        self.offsets: dict[int, Array] = {}
        if geometry.is_pointwise:
            self.offsets[0] = np.arange(in_channels, dtype=np.int64) * (height * width)
            return
        for first, last in self.blocks:
            panel_rows = last - first + geometry.halo[0]
            if panel_rows not in self.offsets:
                self.offsets[panel_rows] = self._make_offsets(in_channels, panel_rows, columns)

    def _make_offsets(self, in_channels: int, panel_rows: int, columns: int) -> Array:
        geometry = self.geometry
        (dy, dx), (sy, sx) = geometry.dilations, geometry.strides
        size = panel_rows * columns
        taps = [
            geometry.phases.index((dy * y % sy, dx * x % sx)) * size + dy * y // sy * columns + dx * x // sx
            for y in range(geometry.kernel[0])
            for x in range(geometry.kernel[1])
        ]
        starts = np.arange(in_channels, dtype=np.int64)[:, np.newaxis] * (size * len(geometry.phases))
        return (starts + np.array(taps, np.int64)).reshape(-1)

    @staticmethod
    def _pad_length(pixels: int) -> int:
        """Return the elements between the products of channels, which the last tile of pixels may exceed."""
        return pixels + -pixels % 16 + 64

    def make_calls(
        self,
        rows: tuple[int, int],
        section: tuple[int, int],
        source: Address,
        weights: int,
        epilogue: int,
        first_channel: int,
    ) -> list[Call]:
        """Return the calls of the kernels for some rows of the windows and some channels."""
        geometry = self.geometry
        first, last = rows
        width = self.row_size
        columns = width + geometry.halo[1]
        pixels = (last - first) * columns - geometry.halo[1]
        panel_rows = 0 if geometry.is_pointwise else last - first + geometry.halo[0]
        phase_size = panel_rows * columns
        step = phase_size * len(geometry.phases)
        calls = []
        panel = SCRATCH.move(self._panel_offset)
        for i, (y, x) in enumerate(() if geometry.is_pointwise else geometry.phases):
            first_row = first * geometry.strides[0] + y - geometry.pads_begin[0]
            lines = (first_row, geometry.strides[0], panel_rows, *geometry.size)
            line = (x - geometry.pads_begin[1], geometry.strides[1], columns)
            sizes = (self.in_channels, math.prod(geometry.size), step)
            calls.append(Call(compile_packing(), (source, panel.move(4 * i * phase_size), *sizes, *lines, *line)))
        if geometry.is_pointwise:
            panel = source.move(4 * first * columns)
        offsets = self.offsets[panel_rows]
        row_count, row_width = (1, pixels) if columns == width else (last - first, width)
        plane = math.prod(geometry.output)
        place = (plane, first * width, row_count, row_width, columns, first_channel)
        addresses = (
            panel,
            get_address(offsets),
            weights,
            SCRATCH,
            self._pad_length(pixels),
            make_base(1),
            make_base(2),
        )
        calls.append(Call(compile_products(), (*addresses, epilogue, len(offsets), pixels, *section, *place)))
        return calls

    def count_parts(self, total: int) -> int:
        """Return the number of parts of the blocks of all images, each of which is computed for each section."""
        return min(self._parts, total)

    def divide(self, total: int, part: int) -> range:
        """Return the numbers of the blocks of a part."""
        count = self.count_parts(total)
        return range(total * part // count, total * (part + 1) // count)
