"""Arithmetic operations on two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.docstrings import describes_binary, describes_like
from irrun.ops._support.numerics import (
    Array,
    apply_in_float64,
    cast_to_integers,
    compute_in_native_type,
    divide_toward_zero,
)
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

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


@op(
    "Add", since=1, kind="elementwise", commutative=True, extremes="ends", decompression="step", channel_axis=1, flops=1
)
@compute_in_native_type
@describes_binary("Numeric")
def add_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Add two tensors; integers wrap.

    Spec:
        Add-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a + b)


@op("Subtract", since=1, kind="elementwise", extremes="ends", decompression="step", flops=1)
@compute_in_native_type
@describes_binary("Numeric")
def subtract_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Subtract `b` from `a`; integers wrap.

    Spec:
        Subtract-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a - b)


@op(
    "Multiply",
    since=1,
    kind="elementwise",
    commutative=True,
    extremes="ends",
    decompression="scale",
    channel_axis=1,
    flops=1,
)
@compute_in_native_type
@describes_binary("Numeric")
def multiply_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Multiply two tensors; integers wrap.

    Spec:
        Multiply-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a * b)


@op("Divide", since=1, scratch=1.5, kind="elementwise", extremes="ends", decompression="step", flops=1)
@compute_in_native_type
@describes_like(add_1)
def divide_1(
    a: Array,
    b: Array,
    *,
    m_pythondiv: bool = True,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_axis: int = 0,
) -> Array:
    """Divide `a` by `b`.

    The specification leaves the division of integers by zero undefined. The result is NaN converted to an integer
    (see `cast_to_integers`).

    Args:
        m_pythondiv: Whether quotients of integers are rounded down; if not, they are rounded toward zero.

    Spec:
        Divide-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return _divide_integers(np.floor_divide if m_pythondiv else divide_toward_zero, a, b)


@op("Mod", since=1, kind="elementwise", extremes="points", discontinuous=True, flops=1)
@compute_in_native_type
@describes_binary("Numeric")
def mod_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Compute the remainder of division toward zero, which has the sign of `a`.

    If `b` is infinite, the remainder of a finite `a` is `a`, as in C. The specification leaves integers modulo zero
    undefined. The result is NaN converted to an integer (see `cast_to_integers`).

    Spec:
        Mod-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    if a.dtype.kind == "f":
        return np.asarray(np.fmod(a, b))
    return _divide_integers(np.fmod, a, b)


@op("FloorMod", since=1, scratch=1, kind="elementwise", extremes="points", discontinuous=True, flops=1)
@compute_in_native_type
@describes_binary("Numeric")
def floor_mod_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Compute the remainder of division rounded down, which has the sign of `b`.

    If `b` is infinite, the result is NaN, as in the reference implementation. The specification leaves integers
    modulo zero undefined. The result is NaN converted to an integer (see `cast_to_integers`).

    Spec:
        FloorMod-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    if a.dtype.kind == "f":
        return np.where(np.isinf(b), np.asarray(np.nan, a.dtype), np.mod(a, b))
    return _divide_integers(np.mod, a, b)


@op("Power", since=1, scratch=3, kind="elementwise", extremes="ends if nonnegative", flops=1, aliases=("Pow",))
@compute_in_native_type
@describes_binary("Numeric")
def power_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Raise `a` to the power of `b`.

    Powers of integers are computed in f64 and truncated, as in the reference implementation.

    Spec:
        Power-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    if a.dtype.kind == "f" and b.size == 1:
        return _compute_power(a, b.item()).reshape(get_broadcast_shape(a.shape, b.shape))
    power = np.asarray(np.power(a.astype(np.float64), b.astype(np.float64)))
    return power if a.dtype.kind == "f" else cast_to_integers(power, a.dtype)


@op("SquaredDifference", since=1, scratch=1, kind="elementwise", flops=2)
@compute_in_native_type
@describes_binary("Numeric")
def squared_difference_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the square of `a - b`; integers wrap.

    Spec:
        SquaredDifference-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    difference = np.asarray(a - b)
    return np.asarray(difference * difference)


@op("Maximum", since=1, kind="elementwise", commutative=True, extremes="ends", flops=1)
@compute_in_native_type
@describes_binary("Numeric")
def maximum_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Compute the greater of `a` and `b`.

    If either is NaN, the result is `a`, as in the reference implementation.

    Spec:
        Maximum-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return _replace_nan(np.asarray(np.maximum(a, b)), a)


@op("Minimum", since=1, kind="elementwise", commutative=True, extremes="ends", flops=1)
@compute_in_native_type
@describes_binary("Numeric")
def minimum_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Compute the lesser of `a` and `b`.

    If either is NaN, the result is `a`, as in the reference implementation.

    Spec:
        Minimum-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return _replace_nan(np.asarray(np.minimum(a, b)), a)


def _divide_integers(divide: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    # Division by zero is not an error: models select valid quotients after the division (gcd, atan2).
    is_zero = b == 0
    if not is_zero.any():
        return np.asarray(divide(a, b))
    undefined = cast_to_integers(np.asarray(np.nan), a.dtype)
    return np.where(is_zero, undefined, divide(a, np.where(is_zero, b.dtype.type(1), b)))


def _compute_power(x: Array, exponent: float) -> Array:
    """Raise floats to the power of one number; common exponents are much faster without logarithms."""
    if exponent == 2:
        return np.asarray(x * x)
    if exponent == 3:
        return np.asarray(x * x * x)
    if exponent == -1:
        return np.asarray(1 / x)
    if abs(exponent) == 0.5:  # C's pow returns infinity for minus infinity, and treats -0 like 0
        root = np.where(x == -np.inf, np.inf, np.sqrt(x + 0)).astype(x.dtype, copy=False)
        return root if exponent > 0 else np.asarray(1 / root)
    if not float(exponent).is_integer():
        return apply_in_float64(lambda v: np.asarray(np.power(v, exponent)), x)
    # NumPy is slow for negative bases.
    power = apply_in_float64(lambda v: np.asarray(np.power(np.abs(v), exponent)), x)
    return np.copysign(power, x) if exponent % 2 else power


def _replace_nan(result: Array, a: Array) -> Array:
    """Replace NaN by `a`: in C, the comparison with NaN selects the first operand."""
    if result.dtype.kind == "f" and (is_nan := np.isnan(result)).any():
        return np.where(is_nan, a, result)
    return result
