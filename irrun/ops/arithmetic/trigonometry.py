"""Trigonometric and hyperbolic functions, and their inverses.

NumPy's sine and cosine of f32 are off by less than 1.5 units in the last place, and far faster than those of f64.
"""

from __future__ import annotations

import numpy as np

from irrun.ops._support.elementwise import unary
from irrun.ops._support.numerics import Array, get_integer_limits, is_float, to_native, via_float64
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


@op("Acos", since=1, folding="elementwise")
def acos_1(data: Array) -> Array:
    """The angle whose cosine is `data`; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Acos-1.
    """
    return via_float64(np.arccos, data)


@op("Acosh", since=4, folding="elementwise")
def acosh_4(data: Array) -> Array:
    """The inverse hyperbolic cosine; NaN below 1.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Acosh-3.
    """
    return via_float64(np.arccosh, data)


@op("Asin", since=1, folding="elementwise")
def asin_1(data: Array) -> Array:
    """The angle whose sine is `data`; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are truncated, as in the reference.
    Spec: Asin-1.
    """
    return via_float64(np.arcsin, data, integers="truncate")


@op("Asinh", since=4, folding="elementwise")
def asinh_4(data: Array) -> Array:
    """The inverse hyperbolic sine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Asinh-3.
    """
    return via_float64(np.arcsinh, data)


@op("Atan", since=1, folding="elementwise")
def atan_1(data: Array) -> Array:
    """The angle whose tangent is `data`.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Atan-1.
    """
    return via_float64(np.arctan, data)


@op("Atanh", since=4, folding="elementwise")
def atanh_4(data: Array) -> Array:
    """The inverse hyperbolic tangent; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data. Of integers only 0 has a finite result; the greatest and the lowest integer
    stand for the infinities, also beyond 1 and -1, as in the reference.
    Spec: Atanh-3.
    """
    if is_float(data.dtype):
        return via_float64(np.arctanh, data)
    values = to_native(data)
    lowest, greatest = get_integer_limits(data.dtype)
    limits = np.array([lowest, 0, greatest], np.int64 if lowest else np.uint64).astype(data.dtype)
    return np.asarray(limits[np.sign(values).astype(np.int8) + 1])


@op("Cos", since=1, folding="elementwise")
def cos_1(data: Array) -> Array:
    """The cosine of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Cos-1.
    """
    return unary(np.cos, data) if is_float(data.dtype) else via_float64(np.cos, data)


@op("Cosh", since=1, folding="elementwise")
def cosh_1(data: Array) -> Array:
    """The hyperbolic cosine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Cosh-1.
    """
    return via_float64(np.cosh, data)


@op("Sin", since=1, folding="elementwise")
def sin_1(data: Array) -> Array:
    """The sine of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are truncated, as in the reference.
    Spec: Sin-1.
    """
    return unary(np.sin, data) if is_float(data.dtype) else via_float64(np.sin, data, integers="truncate")


@op("Sinh", since=1, folding="elementwise")
def sinh_1(data: Array) -> Array:
    """The hyperbolic sine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Sinh-1.
    """
    return via_float64(np.sinh, data)


@op("Tan", since=1, folding="elementwise")
def tan_1(data: Array) -> Array:
    """The tangent of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Tan-1.
    """
    return via_float64(np.tan, data)


@op("Tanh", since=1, folding="elementwise")
def tanh_1(data: Array) -> Array:
    """The hyperbolic tangent.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Tanh-1.
    """
    return via_float64(np.tanh, data)
