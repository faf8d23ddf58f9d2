"""Trigonometric and hyperbolic functions, and their inverses.

NumPy's sine and cosine of f32 are accurate to 1.5 units in the last place, and far faster than in f64.
"""

from __future__ import annotations

import numpy as np

from irrun.ops._support.docstrings import describes_unary
from irrun.ops._support.numerics import (
    Array,
    apply_in_float64,
    compute_in_float64,
    get_integer_limits,
    is_float,
    to_native,
)
from irrun.ops._support.registry import op

__all__ = [
    "acos_1",
    "acosh_4",
    "asin_1",
    "asinh_4",
    "atan_1",
    "atanh_4",
    "cos_1",
    "cosh_1",
    "sin_1",
    "sinh_1",
    "tan_1",
    "tanh_1",
]


@op("Acos", since=1, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def acos_1(data: Array) -> Array:
    """Compute the inverse cosine; NaN outside [-1, 1].

    Spec:
        Acos-1
    """
    return np.asarray(np.arccos(data))


@op("Acosh", since=4, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def acosh_4(data: Array) -> Array:
    """Compute the inverse hyperbolic cosine; NaN below 1.

    Spec:
        Acosh-3
    """
    return np.asarray(np.arccosh(data))


@op("Asin", since=1, kind="elementwise", flops=1)
@compute_in_float64(integers="truncate")
@describes_unary("Numeric", integers="truncated")
def asin_1(data: Array) -> Array:
    """Compute the inverse sine; NaN outside [-1, 1].

    Spec:
        Asin-1
    """
    return np.asarray(np.arcsin(data))


@op("Asinh", since=4, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def asinh_4(data: Array) -> Array:
    """Compute the inverse hyperbolic sine.

    Spec:
        Asinh-3
    """
    return np.asarray(np.arcsinh(data))


@op("Atan", since=1, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def atan_1(data: Array) -> Array:
    """Compute the inverse tangent.

    Spec:
        Atan-1
    """
    return np.asarray(np.arctan(data))


@op("Atanh", since=4, kind="elementwise", flops=1)
@describes_unary("Numeric")
def atanh_4(data: Array) -> Array:
    """Compute the inverse hyperbolic tangent; NaN outside [-1, 1].

    For integers, only 0 has a finite result. The lowest and the greatest integer represent the infinities, also for
    values beyond -1 and 1, as in the reference implementation.

    Spec:
        Atanh-3
    """
    if is_float(data.dtype):
        return apply_in_float64(np.arctanh, data)
    lowest, greatest = get_integer_limits(data.dtype)
    limits = np.array([lowest, 0, greatest], np.int64 if lowest else np.uint64).astype(data.dtype)
    return np.asarray(limits[np.sign(to_native(data)).astype(np.int8) + 1])


@op("Cos", since=1, kind="elementwise", flops=1)
@compute_in_float64(only_integers=True)
@describes_unary("Numeric", integers="rounded")
def cos_1(data: Array) -> Array:
    """Compute the cosine of angles in radians.

    Spec:
        Cos-1
    """
    return np.asarray(np.cos(data))


@op("Cosh", since=1, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def cosh_1(data: Array) -> Array:
    """Compute the hyperbolic cosine.

    Spec:
        Cosh-1
    """
    return np.asarray(np.cosh(data))


@op("Sin", since=1, kind="elementwise", flops=1)
@compute_in_float64(integers="truncate", only_integers=True)
@describes_unary("Numeric", integers="truncated")
def sin_1(data: Array) -> Array:
    """Compute the sine of angles in radians.

    Spec:
        Sin-1
    """
    return np.asarray(np.sin(data))


@op("Sinh", since=1, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def sinh_1(data: Array) -> Array:
    """Compute the hyperbolic sine.

    Spec:
        Sinh-1
    """
    return np.asarray(np.sinh(data))


@op("Tan", since=1, kind="elementwise", flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def tan_1(data: Array) -> Array:
    """Compute the tangent of angles in radians.

    Spec:
        Tan-1
    """
    return np.asarray(np.tan(data))


@op("Tanh", since=1, kind="elementwise", channel_axis=1, flops=1)
@compute_in_float64()
@describes_unary("Numeric", integers="rounded")
def tanh_1(data: Array) -> Array:
    """Compute the hyperbolic tangent.

    Spec:
        Tanh-1
    """
    return np.asarray(np.tanh(data))
