"""Arithmetic of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.ops._support.axes import AutoBroadcast
from irrun.ops._support.elementwise import binary
from irrun.ops._support.numerics import Array, cast_to_integers, divide_toward_zero, via_float64
from irrun.ops._support.registry import op

__all__ = [
    "add_1",
    "divide_1",
    "floor_mod_1",
    "maximum_1",
    "minimum_1",
    "mod_1",
    "multiply_1",
    "power_1",
    "squared_difference_1",
    "subtract_1",
]


@op("Add", since=1, folding="elementwise")
def add_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """`a + b`; integers wrap.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: Add-1.
    """
    return binary(np.add, a, b, auto_broadcast, auto_broadcast_axis)


@op("Subtract", since=1, folding="elementwise")
def subtract_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """`a - b`; integers wrap.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: Subtract-1.
    """
    return binary(np.subtract, a, b, auto_broadcast, auto_broadcast_axis)


@op("Multiply", since=1, folding="elementwise")
def multiply_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """`a * b`; integers wrap.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: Multiply-1.
    """
    return binary(np.multiply, a, b, auto_broadcast, auto_broadcast_axis)


@op("Divide", since=1, folding="elementwise")
def divide_1(
    a: Array,
    b: Array,
    *,
    m_pythondiv: bool = True,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_axis: int = 0,
) -> Array:
    """`a / b`; quotients of integers are rounded down with m_pythondiv, and towards zero without.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Integers divided by zero are undefined; here they are what NaN is as an integer (see `reference_integers`).
    Raises InputError where the shapes do not fit.
    Spec: Divide-1.
    """

    def divide(x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.asarray(x / y)
        return _integers(np.floor_divide if m_pythondiv else divide_toward_zero, x, y)

    return binary(divide, a, b, auto_broadcast, auto_broadcast_axis)


@op("Mod", since=1, folding="elementwise")
def mod_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """The remainder of division towards zero: it has the sign of `a`.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Where b is infinite, finite a are their own remainders, as in C.
    Integers divided by zero are undefined; here they are what NaN is as an integer (see `reference_integers`).
    Raises InputError where the shapes do not fit.
    Spec: Mod-1.
    """
    return binary(_mod, a, b, auto_broadcast, auto_broadcast_axis)


@op("FloorMod", since=1, folding="elementwise")
def floor_mod_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """The remainder of division downwards: it has the sign of `b`.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Where b is infinite the result is NaN, as in the reference.
    Integers divided by zero are undefined; here they are what NaN is as an integer (see `reference_integers`).
    Raises InputError where the shapes do not fit.
    Spec: FloorMod-1.
    """
    return binary(_floor_mod, a, b, auto_broadcast, auto_broadcast_axis)


@op("Power", since=1, folding="elementwise")
def power_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """`a` to the power of `b`; powers of integers are computed in f64 and truncated, as in the reference.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: Power-1.
    """
    return binary(_power, a, b, auto_broadcast, auto_broadcast_axis)


@op("SquaredDifference", since=1, folding="elementwise")
def squared_difference_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """`(a - b)` squared; integers wrap.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: SquaredDifference-1.
    """
    return binary(_squared_difference, a, b, auto_broadcast, auto_broadcast_axis)


@op("Maximum", since=1, folding="elementwise")
def maximum_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """The greater of `a` and `b`.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Where either is NaN the result is that of a, as in the reference.
    Raises InputError where the shapes do not fit.
    Spec: Maximum-1.
    """
    return binary(_maximum, a, b, auto_broadcast, auto_broadcast_axis)


@op("Minimum", since=1, folding="elementwise")
def minimum_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """The lesser of `a` and `b`.

    a, b: any numeric type, the same for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Where either is NaN the result is that of a, as in the reference.
    Raises InputError where the shapes do not fit.
    Spec: Minimum-1.
    """
    return binary(_minimum, a, b, auto_broadcast, auto_broadcast_axis)


def _integers(divide: Callable[[Array, Array], Any], x: Array, y: Array) -> Array:
    # Not an error: models divide first and then select what was divided by something else (gcd, atan2).
    zero = y == 0
    if not zero.any():
        return np.asarray(divide(x, y))
    undefined = cast_to_integers(np.asarray(np.nan), x.dtype)
    return np.where(zero, undefined, divide(x, np.where(zero, y.dtype.type(1), y)))


def _mod(x: Array, y: Array) -> Array:
    return np.asarray(np.fmod(x, y)) if x.dtype.kind == "f" else _integers(np.fmod, x, y)


def _floor_mod(x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        return _integers(np.mod, x, y)
    return np.where(np.isinf(y), np.asarray(np.nan, x.dtype), np.mod(x, y))


def _power(x: Array, y: Array) -> Array:
    if y.size == 1 and x.dtype.kind == "f":
        shape = np.broadcast_shapes(x.shape, y.shape)
        return _power_of_one(x, y.item()).reshape(shape)
    power = np.asarray(np.power(x.astype(np.float64), y.astype(np.float64)))
    return power if x.dtype.kind == "f" else cast_to_integers(power, x.dtype)


def _power_of_one(x: Array, exponent: float) -> Array:
    """`x` to the power of one number; the usual numbers are much faster without logarithms."""
    if exponent == 2:
        return np.asarray(x * x)
    if exponent == 3:
        return np.asarray(x * x * x)
    if exponent == -1:
        return np.asarray(1 / x)
    if abs(exponent) == 0.5:  # of minus infinity C's pow gives infinity, and of -0 the same as of 0
        root = np.where(x == -np.inf, np.inf, np.sqrt(x + 0)).astype(x.dtype, copy=False)
        return root if exponent > 0 else np.asarray(1 / root)
    if not float(exponent).is_integer():
        return via_float64(lambda v: np.asarray(np.power(v, exponent)), x)
    # NumPy is slow for bases below zero.
    power = via_float64(lambda v: np.asarray(np.power(np.abs(v), exponent)), x)
    return np.copysign(power, x) if exponent % 2 else power


def _squared_difference(x: Array, y: Array) -> Array:
    difference = np.asarray(x - y)
    return np.asarray(difference * difference)


def _maximum(x: Array, y: Array) -> Array:
    return _where_nan(np.asarray(np.maximum(x, y)), x)


def _minimum(x: Array, y: Array) -> Array:
    return _where_nan(np.asarray(np.minimum(x, y)), x)


def _where_nan(result: Array, x: Array) -> Array:
    """`x` where `result` is NaN: C takes the first of two that do not compare, NumPy takes NaN."""
    if result.dtype.kind == "f" and (nan := np.isnan(result)).any():
        return np.where(nan, x, result)
    return result
