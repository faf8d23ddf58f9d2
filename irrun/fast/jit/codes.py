"""Codes of quantized values: their format, and the kernels that convert from and to f32.

The levels of a FakeQuantize are codes from 0. Arrays of codes have the layout [N, C / 4, spatial..., 4], in which the
codes of four channels of a pixel are next to each other.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, Binding
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.quantized_code import count_quads, join_codes
from irrun.fast.jit.tasks import Call, Task, make_base
from irrun.limits import check_allocation

__all__ = ["CodeFormat", "bind_decoding", "bind_encoding", "decode", "encode", "find_weight_codes"]

Array = np.ndarray[Any, Any]

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)

#: Minimum number of pixels (of four channels) per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 14, 16
#: Maximum distance of the code of 0 from an integer for 0 to count as exact.
ZERO_TOLERANCE = 1e-3
#: Maximum error of a weight's code in f32: twice the rounding error of a product of at most 127 steps.
WEIGHT_TOLERANCE = 127 * 2.0**-22


@dataclass(frozen=True, eq=False)
class CodeFormat:
    """The codes of a FakeQuantize.

    Attributes:
        low: The lowest input.
        high: The highest input.
        out_low: The value of code 0.
        out_high: The value of the last code. All limits are f32 of shape [] or [C].
        levels: The number of codes.
    """

    low: Array
    high: Array
    out_low: Array
    out_high: Array
    levels: int

    @staticmethod
    def create(limits: list[Array | None], levels: int, rank: int) -> CodeFormat | None:
        """Return the format for the limits of a FakeQuantize, or None if the limits are unsupported.

        Args:
            limits: The constant limits.
            levels: The number of levels.
            rank: The rank of the data [N, C, spatial...].
        """
        values: list[Array] = []
        for limit in limits:
            if limit is None or limit.dtype != F32 or limit.ndim > rank or not np.isfinite(limit).all():
                return None
            shape = (1,) * (rank - limit.ndim) + limit.shape
            if limit.size != 1 and limit.size != shape[1]:
                return None
            values.append(limit.reshape(()) if limit.size == 1 else limit.reshape(-1))
        if not 2 <= levels <= 256:
            return None
        shape = max((v.shape for v in values), key=len)
        low, high, out_low, out_high = (np.array(np.broadcast_to(v, shape)) for v in values)
        with np.errstate(all="ignore"):
            widths = high - low, out_high - out_low
        if not all(np.isfinite(width).all() and (width > 0).all() for width in widths):
            return None
        return CodeFormat(low, high, out_low, out_high, levels)

    @functools.cached_property
    def step(self) -> Array:
        """The distance between neighboring values, in f64."""
        step: Array = (self.out_high.astype(np.float64) - self.out_low) / (self.levels - 1)
        return step

    @functools.cached_property
    def zero(self) -> Array | None:
        """The code of 0, or None if 0 is not a level."""
        exact = -self.out_low / self.step
        rounded = np.rint(exact)
        is_exact = np.abs(exact - rounded) <= ZERO_TOLERANCE
        is_code = (rounded >= 0) & (rounded < self.levels)
        return rounded.astype(np.int64) if bool((is_exact & is_code).all()) else None

    @functools.cached_property
    def nearest_zero(self) -> Array:
        """The code of 0, or of the nearest value."""
        zero = np.rint(-self.out_low / self.step) if self.zero is None else self.zero
        return np.clip(zero, 0, self.levels - 1).astype(np.int64)

    def equals(self, other: CodeFormat) -> bool:
        """Return whether the codes of another format have the same values."""
        mine, others = (self.out_low, self.out_high), (other.out_low, other.out_high)
        return self.levels == other.levels and all(map(np.array_equal, mine, others))

    @property
    def is_uniform(self) -> bool:
        """Whether all channels have the same limits."""
        return not self.low.ndim


def find_weight_codes(weights: Array) -> tuple[Array, Array] | None:
    """Return the codes of weights and the scale of each output channel, or None if they are not quantized.

    Args:
        weights: f32, shape [CO, ...].

    Returns:
        The codes in i8 and the scales in f64. Their product equals the weights up to rounding.
    """
    rows = weights.reshape(len(weights), -1)
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
    if not np.isfinite(largest).all():
        return None
    scales = np.where(largest > 0, largest, 1.0)
    known = largest == 0
    sample = rows[:, :: max(1, rows.shape[1] // 64)]
    for count in (127, 128, *range(126, 0, -1)):
        pending = np.flatnonzero(~known)
        if not pending.size:
            break
        candidates = pending[_are_codes(sample[pending], largest[pending] / count)]
        matching = candidates[_are_codes(rows[candidates], largest[candidates] / count)]
        scales[matching] = largest[matching] / count
        known[matching] = True
    if not known.all():
        return None
    codes = np.rint(rows / scales[:, np.newaxis]).astype(np.int8)
    return codes.reshape(weights.shape), scales


def _are_codes(rows: Array, steps: Array) -> Array:
    """Return which rows are multiples of their step within i8."""
    quotients = rows / steps[:, np.newaxis]
    codes = np.rint(quotients)
    is_code = (np.abs(quotients - codes) <= WEIGHT_TOLERANCE) & (codes < 128)
    return np.asarray(is_code.all(axis=1))


@cache_kernel
def _compile_conversion(is_encoding: bool) -> Kernel:
    """Return the kernel that converts planes of four channels from or to codes."""
    names = [("data", "ptr"), ("result", "ptr"), ("limits", "ptr")]
    integers = ("first", "last", "channels", "plane", "begin", "length")
    f = Function("convert_codes", [*names, *((name, "i64") for name in integers), ("top", "float")], get_lanes())
    p = f.parameters
    channels, plane = p["channels"], p["plane"]
    quads = f.emit("i64", f"sdiv i64 {channels + 3}, 4")
    top = f.splat(p["top"], f.vector)
    with f.loop(p["first"], p["last"]) as number:
        image = f.emit("i64", f"sdiv i64 {number}, {quads}")
        first = (number - image * quads) * 4
        selected = [f.min(first + i, channels - 1) for i in range(4)]
        codes = f.offset(p["result" if is_encoding else "data"], number * plane + p["begin"])
        values = p["data" if is_encoding else "result"]
        planes = [f.offset(values, (image * channels + channel) * plane + p["begin"]) for channel in selected]
        limits = [
            [f.splat(f.load(f.offset(p["limits"], channels * i + channel)), f.vector) for i in range(3)]
            for channel in selected
        ]

        def encode_vector(position: Value, mask: Value | None, *, rows: Any = (codes, planes, limits)) -> None:
            codes, planes, limits = rows
            levels = []
            for source, (low, high, width) in zip(planes, limits, strict=True):
                x = f.load(f.offset(source, position), f.vector, mask)
                # As in the definition, each operation rounds. NaN becomes the lowest level.
                x = f.select(f.compare("ogt", x, low), x, low)
                x = f.select(f.compare("olt", x, high), x, high)
                levels.append((x - low) / width * top)
            f.store(join_codes(f, levels), f.offset(codes, position), mask)

        def decode_vector(position: Value, mask: Value | None, *, rows: Any = (codes, planes, limits)) -> None:
            codes, planes, limits = rows
            joined = f.load(f.offset(codes, position), f.integers(), mask)
            # Channels beyond the last channel repeat it; the last channel itself is written at the end.
            for i, (target, (low, _, width)) in reversed(list(enumerate(zip(planes, limits, strict=True)))):
                level = f.convert("sitofp", (joined >> (8 * i)) & 255, f.vector)
                f.store(level / top * width + low, f.offset(target, position), mask)

        apply_to_row(f, p["length"], encode_vector if is_encoding else decode_vector)
    return compile_function(f)


@functools.lru_cache(maxsize=256)
def bind_encoding(shape: tuple[int, ...], format_: CodeFormat) -> Binding:
    """Return the conversion of values of a shape to codes.

    Args:
        shape: [N, C, spatial...].
        format_: The format. Its limits have one element or C.

    Raises:
        NoKernelError: The value is empty, or has other channels than the limits.
    """
    _check(shape, format_)
    result = (shape[0], count_quads(shape[1]), *shape[2:], 1)
    return _make_binding(True, shape, result, (format_.low, format_.high, format_.levels))


@functools.lru_cache(maxsize=256)
def bind_decoding(shape: tuple[int, ...], format_: CodeFormat) -> Binding:
    """Return the conversion of codes to values of a shape.

    Args:
        shape: [N, C, spatial...].
        format_: The format.

    Raises:
        NoKernelError: The value is empty, or has other channels than the limits.
    """
    _check(shape, format_)
    return _make_binding(False, shape, shape, (format_.out_low, format_.out_high, format_.levels))


def _make_binding(
    is_encoding: bool, shape: tuple[int, ...], result: tuple[int, ...], format_: tuple[Array, Array, int]
) -> Binding:
    low, high, levels = format_
    limits = np.empty((3, shape[1]), F32)
    limits[0], limits[1] = low, high
    limits[2] = limits[1] - limits[0]
    task = _make_task(is_encoding, shape, get_address(limits), levels)
    return Binding(result, [task], (0, RESULT), constants=[limits])


def _make_task(is_encoding: bool, shape: tuple[int, ...], limits: int, levels: int) -> Task:
    """Return the task for the data and the result; the limits have a fixed address."""
    kernel = _compile_conversion(is_encoding)
    channels, plane = shape[1], math.prod(shape[2:])
    total = shape[0] * count_quads(channels)
    count = min(MAX_PARTS, max(1, total * plane // MIN_PART_SIZE))
    pieces = -(-count // total)
    rows = min(total, count)
    parts = []
    for row, piece in itertools.product(range(rows), range(pieces)):
        begin, end = plane * piece // pieces, plane * (piece + 1) // pieces
        first, last = total * row // rows, total * (row + 1) // rows
        sizes = (first, last, channels, plane, begin, end - begin, float(levels - 1))
        parts.append([Call(kernel, (make_base(0), make_base(1), limits, *sizes))])
    return Task(parts)


def encode(data: Array, format_: CodeFormat) -> Array:
    """Return the codes of values.

    Args:
        data: f32, shape [N, C, spatial...].
        format_: The format. Its limits have one element or C.

    Raises:
        NoKernelError: The data has another type or shape, or is empty.
    """
    if data.dtype != F32:
        raise NoKernelError("expected f32")
    binding = bind_encoding(data.shape, format_)
    check_allocation(binding.shape, F32)
    return binding.run([make_contiguous(data)]).view(U8)


def decode(codes: Array, format_: CodeFormat, channels: int) -> Array:
    """Return the values of codes.

    Args:
        codes: u8, shape [N, C / 4, spatial..., 4].
        format_: The format.
        channels: C.

    Raises:
        NoKernelError: The array has another type or shape.
    """
    if codes.dtype != U8 or codes.ndim < 3 or codes.shape[1] != count_quads(channels):
        raise NoKernelError("expected codes")
    shape = (codes.shape[0], channels, *codes.shape[2:-1])
    check_allocation(shape, F32)
    return bind_decoding(shape, format_).run([make_contiguous(codes)])


def _check(shape: tuple[int, ...], format_: CodeFormat) -> None:
    if len(shape) < 2 or (format_.low.ndim and format_.low.size != shape[1]):
        raise NoKernelError("expected the channels of the limits")
    if not math.prod(shape):
        raise NoKernelError("expected data")
