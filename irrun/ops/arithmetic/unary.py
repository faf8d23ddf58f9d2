"""Arithmetic of one tensor: signs, rounding, roots, logarithms and the error function."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irrun.ops._support.elementwise import unary
from irrun.ops._support.numerics import Array, is_float, round_half_away, via_float64
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


@op("Abs", since=1, folding="elementwise")
def abs_1(data: Array) -> Array:
    """The absolute value; the lowest integer stays as it is.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Abs-1.
    """
    return unary(np.abs, data)


@op("Negative", since=1, folding="elementwise")
def negative_1(data: Array) -> Array:
    """`-data`; integers wrap.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Negative-1.
    """
    return unary(np.negative, data)


@op("Sign", since=1, folding="elementwise")
def sign_1(data: Array) -> Array:
    """1 for positive values, -1 for negative ones, 0 for zero, NaN for NaN.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Sign-1.
    """
    return unary(np.sign, data)


@op("Ceiling", since=1, folding="elementwise")
def ceiling_1(data: Array) -> Array:
    """The least whole number that is not below.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Ceiling-1.
    """
    return unary(np.ceil, data) if is_float(data.dtype) else data


@op("Floor", since=1, folding="elementwise")
def floor_1(data: Array) -> Array:
    """The greatest whole number that is not above.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Floor-1.
    """
    return unary(np.floor, data) if is_float(data.dtype) else data


@op("Round", since=5, folding="elementwise")
def round_5(data: Array, *, mode: Literal["half_to_even", "half_away_from_zero"] = "half_to_even") -> Array:
    """The nearest whole number; `mode` says where halves go.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: Round-5.
    """
    if not is_float(data.dtype):
        return data
    return unary(np.rint if mode == "half_to_even" else round_half_away, data)


@op("Sqrt", since=1, folding="elementwise")
def sqrt_1(data: Array) -> Array:
    """The square root; NaN below zero.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Sqrt-1.
    """
    return unary(np.sqrt, data) if is_float(data.dtype) else via_float64(np.sqrt, data)


@op("Log", since=1, folding="elementwise")
def log_1(data: Array) -> Array:
    """The natural logarithm; minus infinity at zero, NaN below.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are truncated, as in the reference.
    Spec: Log-1.
    """
    return via_float64(np.log, data, integers="truncate")


@op("Erf", since=1, folding="elementwise")
def erf_1(data: Array) -> Array:
    """The error function.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Erf-1.
    """
    return via_float64(partial(erf, single=data.dtype != np.float64), data)


@op("ErfInv", since=17, folding="elementwise")
def erf_inv_17(data: Array) -> Array:
    """The inverse of the error function: infinite at 1 and -1, NaN beyond.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: ErfInv-17.
    """
    return via_float64(erfinv, data)
