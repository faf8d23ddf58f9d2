"""Arithmetic operations on one tensor: signs, rounding, roots, logarithms and the error function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from irrun.ops._support.docstrings import describes_unary
from irrun.ops._support.numerics import (
    Array,
    apply_in_float64,
    compute_in_float64,
    compute_in_native_type,
    is_float,
    round_half_away,
)
from irrun.ops._support.registry import op
from irrun.ops._support.special_functions import erf, erfinv

__all__ = [
    "abs_1",
    "ceiling_1",
    "erf_1",
    "erf_inv_17",
    "floor_1",
    "log_1",
    "negative_1",
    "round_5",
    "sign_1",
    "sqrt_1",
]

Kernel = Callable[..., Array]


def _round_floats(kernel: Kernel) -> Kernel:
    """Decorate a rounding kernel: floats are computed in their native type, other types are returned unchanged."""
    native_kernel = compute_in_native_type(kernel)

    @functools.wraps(kernel)
    def wrapper(data: Array, **attributes: Any) -> Array:
        return native_kernel(data, **attributes) if is_float(data.dtype) else data

    return wrapper


@op("Abs", since=1, kind="elementwise", extremes="ends or zero", flops=1)
@compute_in_native_type
@describes_unary("Numeric")
def abs_1(data: Array) -> Array:
    """Compute the absolute value; the lowest integer is unchanged.

    Spec:
        Abs-1
    """
    return np.asarray(np.abs(data))


@op("Negative", since=1, kind="elementwise", extremes="ends", flops=1)
@compute_in_native_type
@describes_unary("Numeric")
def negative_1(data: Array) -> Array:
    """Negate `data`; integers wrap.

    Spec:
        Negative-1
    """
    return np.asarray(np.negative(data))


@op("Sign", since=1, kind="elementwise", discontinuous=True, flops=1)
@compute_in_native_type
@describes_unary("Numeric")
def sign_1(data: Array) -> Array:
    """Return 1 for positive values, -1 for negative values, 0 for zero and NaN for NaN.

    Spec:
        Sign-1
    """
    return np.asarray(np.sign(data))


@op("Ceiling", since=1, kind="elementwise", extremes="ends", discontinuous=True, flops=1, aliases=("Ceil",))
@_round_floats
@describes_unary("Numeric")
def ceiling_1(data: Array) -> Array:
    """Round up to an integer.

    Spec:
        Ceiling-1
    """
    return np.asarray(np.ceil(data))


@op("Floor", since=1, kind="elementwise", extremes="ends", discontinuous=True, flops=1)
@_round_floats
@describes_unary("Numeric")
def floor_1(data: Array) -> Array:
    """Round down to an integer.

    Spec:
        Floor-1
    """
    return np.asarray(np.floor(data))


@op("Round", since=5, scratch=2, kind="elementwise", discontinuous=True, flops=1)
@_round_floats
def round_5(data: Array, *, mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even") -> Array:
    """Round to the nearest integer.

    Args:
        data: Numeric, any shape.
        mode: How halves are rounded.

    Returns:
        The shape and type of `data`.

    Spec:
        Round-5
    """
    return np.asarray(np.rint(data)) if mode == "half_to_even" else round_half_away(data)


@op("Sqrt", since=1, kind="elementwise", extremes="ends", flops=1)
@compute_in_float64(only_integers=True)
@describes_unary("Numeric", integers="rounded")
def sqrt_1(data: Array) -> Array:
    """Compute the square root; NaN below zero.

    Spec:
        Sqrt-1
    """
    return np.asarray(np.sqrt(data))


@op("Log", since=1, kind="elementwise", flops=1)
@compute_in_float64(integers="truncate")
@describes_unary("Numeric", integers="truncated")
def log_1(data: Array) -> Array:
    """Compute the natural logarithm; minus infinity at zero, NaN below.

    Spec:
        Log-1
    """
    return np.asarray(np.log(data))


@op("Erf", since=1, kind="elementwise", flops=1)
@describes_unary("Numeric", integers="rounded")
def erf_1(data: Array) -> Array:
    """Compute the error function.

    Spec:
        Erf-1
    """
    return apply_in_float64(partial(erf, single=data.dtype != np.float64), data)


@op("ErfInv", since=17, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Floating-point")
def erf_inv_17(data: Array) -> Array:
    """Compute the inverse of the error function; infinite at 1 and -1, NaN beyond.

    Spec:
        ErfInv-17
    """
    return erfinv(data)
