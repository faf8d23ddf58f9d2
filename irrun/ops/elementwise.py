"""How elementwise kernels compute: in which type, rounded how, broadcast how."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np

from irrun.elements import ElementType
from irrun.errors import InputError
from irrun.ops.common import Array, AutoBroadcast, align, is_float, is_narrow

__all__ = [
    "binary",
    "compare",
    "integer_limits",
    "numbers",
    "polynomial",
    "precise",
    "reduce_along",
    "reference_integers",
    "round_half_away",
    "truncated_quotient",
    "unary",
]

#: Elements that are computed at a time in f64, at least and at most: enough that NumPy's calls do not count, few
#: enough to stay in the processor's cache.
BLOCKS = (1 << 12, 1 << 14)


def binary(
    function: Callable[[Array, Array], Array],
    a: Array,
    b: Array,
    auto_broadcast: AutoBroadcast,
    axis: int,
) -> Array:
    """`function` of `a` and `b`, broadcast as `auto_broadcast` says, in the type of `a`.

    Narrow floats are computed in f32 and integers of less than a byte in 32 bits.
    Raises:
        InputError: the shapes do not fit.
    """
    return _narrowed(_broadcast(function, a, b, auto_broadcast, axis), a.dtype)


def compare(
    function: Callable[[Array, Array], Array],
    a: Array,
    b: Array,
    auto_broadcast: AutoBroadcast,
    axis: int,
) -> Array:
    """As `binary`, but the result keeps the type that `function` gives it, usually boolean."""
    return _broadcast(function, a, b, auto_broadcast, axis)


def _broadcast(
    function: Callable[[Array, Array], Array], a: Array, b: Array, auto_broadcast: AutoBroadcast, axis: int
) -> Array:
    x, y = align(a, b, auto_broadcast, axis)
    if x.shape != y.shape:
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise InputError(f"shapes {list(a.shape)} and {list(b.shape)} cannot be broadcast") from None
    return np.asarray(function(numbers(x), numbers(y)))


def unary(function: Callable[[Array], Array], data: Array) -> Array:
    """`function` of `data` in the type of `data`, with the same care for narrow types as `binary`."""
    return _narrowed(np.asarray(function(numbers(data))), data.dtype)


def _narrowed(result: Array, dtype: np.dtype[Any]) -> Array:
    """The inverse of `numbers`: rounded where `dtype` is a float, without the high bits where it is an integer."""
    if result.dtype == dtype:
        return result
    if dtype.fields is None:
        return result.astype(dtype)
    mask = (1 << ElementType.of(dtype).bits) - 1
    return np.asarray(np.asarray(result & mask).astype(np.uint8).view(dtype))


def numbers(x: Array) -> Array:
    """`x` in a type of NumPy's own that holds its values; `x` itself where it has one."""
    if x.dtype.kind != "V":
        return x.astype(np.float32) if x.dtype == np.float16 else x
    if x.dtype.fields is not None:
        if x.dtype.names == ("nf4",):
            raise InputError("arithmetic on nf4 is not defined")
        codes: Array = np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)
        return codes.astype(np.int32)
    return x.astype(np.float32 if is_narrow(x.dtype) else np.int32)


def precise(
    function: Callable[[Array], Array], data: Array, *, integers: Literal["round", "truncate"] = "round"
) -> Array:
    """`function` of `data` computed in f64 and rounded to the type of `data`.

    NumPy's own f32 functions are off by up to four units in the last place, and differ between processors.
    Args:
        function: takes and gives f64 arrays, elementwise.
        integers: how the results of integers become integers.
    """
    if not is_float(data.dtype):
        values = numbers(data)
        exact = np.asarray(function(values.astype(np.float64)))
        whole = round_half_away(exact) if integers == "round" else exact
        return _narrowed(reference_integers(whole, values.dtype), data.dtype)
    if data.dtype == np.float64:
        return np.asarray(function(data))
    at_a_time = min(max(data.size // 16, BLOCKS[0]), BLOCKS[1])  # the workspace stays well below the data
    if data.size <= at_a_time:
        return np.asarray(function(data.astype(np.float64))).astype(data.dtype)
    flat = data.reshape(-1)
    result = np.empty(flat.shape, data.dtype)
    for start in range(0, flat.size, at_a_time):
        block = slice(start, start + at_a_time)
        result[block] = function(flat[block].astype(np.float64))
    return np.asarray(result.reshape(data.shape))


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """A polynomial by Horner's scheme, in place; coefficients from the constant term up."""
    result: Array = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        result += c
        result *= x
    result += coefficients[0]
    return result


def reduce_along(ufunc: Any, x: Array, axis: int) -> Array:
    """`ufunc.reduce` along one axis, which is kept with length 1.

    Along a short last axis NumPy needs as long as for a hundred elements, and it is faster to go through its slices.
    """
    if axis == x.ndim - 1 and 1 < x.shape[axis] <= 16 and x.size >= 2048:
        return np.expand_dims(functools.reduce(ufunc, np.moveaxis(x, axis, 0)), axis)
    return np.asarray(ufunc.reduce(x, axis, x.dtype, keepdims=True))


def round_half_away(x: Array) -> Array:
    """To the nearest whole number, ties away from zero, as C's round()."""
    whole = np.trunc(x)
    return np.asarray(whole + np.copysign(np.abs(x - whole) >= 0.5, x))


def truncated_quotient(x: Array, y: Array | int) -> Array:
    """Integers divided towards zero, as in C; NumPy divides downwards."""
    quotient = np.asarray(x // y)
    return np.asarray(quotient + ((quotient < 0) & (quotient * y != x)))


def reference_integers(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers of `dtype`, fraction dropped.

    C leaves open what becomes of a float that does not fit. The reference on x86 gives the lowest integer, of 32
    bits for narrower types, and then drops high bits; for u64, zero where the float is too large. So does this,
    on every machine.
    """
    limit = 2.0 ** (63 if dtype.itemsize == 8 or dtype == np.uint32 else 31)
    fits = (x >= -limit) & (x < limit)
    if fits.all():
        return x.astype(np.int64).astype(dtype, copy=False)
    whole = np.where(fits, x, x.dtype.type(-limit)).astype(np.int64)
    if dtype == np.uint64:
        high = x - x.dtype.type(limit)
        upper = np.where((high >= 0) & (high < limit), high, 0).astype(np.uint64) + np.uint64(2**63)
        return np.where(x >= limit, np.where(high < limit, upper, np.uint64(0)), whole.astype(np.uint64))
    return whole.astype(dtype, copy=False)


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The lowest and the greatest value of an integer type, of whatever width."""
    element = ElementType.of(dtype)
    if element.kind == "uint":
        return 0, (1 << element.bits) - 1
    return -(1 << element.bits - 1), (1 << element.bits - 1) - 1


def lowest_float(dtype: np.dtype[Any]) -> float:
    """The lowest finite number that `dtype` holds, NumPy's or ml_dtypes'."""
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.min)
