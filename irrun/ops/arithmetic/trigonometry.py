"""Trigonometric and hyperbolic functions, and their inverses.

NumPy's sine and cosine of f32 are off by less than 1.5 units in the last place, and far faster than those of f64.
"""

from __future__ import annotations

import numpy as np

from irrun.ops.common import Array, is_float
from irrun.ops.elementwise import integer_limits, numbers, precise, unary
from irrun.ops.registry import op

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


@op("Acos", since=1)
def acos_1(data: Array) -> Array:
    """The angle whose cosine is `data`; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Acos-1.
    """
    return precise(np.arccos, data)


@op("Acosh", since=4)
def acosh_4(data: Array) -> Array:
    """The inverse hyperbolic cosine; NaN below 1.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Acosh-3.
    """
    return precise(np.arccosh, data)


@op("Asin", since=1)
def asin_1(data: Array) -> Array:
    """The angle whose sine is `data`; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are truncated, as in the reference.
    Spec: Asin-1.
    """
    return precise(np.arcsin, data, integers="truncate")


@op("Asinh", since=4)
def asinh_4(data: Array) -> Array:
    """The inverse hyperbolic sine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Asinh-3.
    """
    return precise(np.arcsinh, data)


@op("Atan", since=1)
def atan_1(data: Array) -> Array:
    """The angle whose tangent is `data`.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Atan-1.
    """
    return precise(np.arctan, data)


@op("Atanh", since=4)
def atanh_4(data: Array) -> Array:
    """The inverse hyperbolic tangent; NaN outside of [-1, 1].

    data: any numeric type, any shape.
    Returns the shape and type of data. Of integers only 0 has a finite result; the greatest and the lowest integer
    stand for the infinities, also beyond 1 and -1, as in the reference.
    Spec: Atanh-3.
    """
    if is_float(data.dtype):
        return precise(np.arctanh, data)
    values = numbers(data)
    lowest, greatest = integer_limits(data.dtype)
    limits = np.array([lowest, 0, greatest], np.int64 if lowest else np.uint64).astype(data.dtype)
    return np.asarray(limits[np.sign(values).astype(np.int8) + 1])


@op("Cos", since=1)
def cos_1(data: Array) -> Array:
    """The cosine of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Cos-1.
    """
    return unary(np.cos, data) if is_float(data.dtype) else precise(np.cos, data)


@op("Cosh", since=1)
def cosh_1(data: Array) -> Array:
    """The hyperbolic cosine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Cosh-1.
    """
    return precise(np.cosh, data)


@op("Sin", since=1)
def sin_1(data: Array) -> Array:
    """The sine of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are truncated, as in the reference.
    Spec: Sin-1.
    """
    return unary(np.sin, data) if is_float(data.dtype) else precise(np.sin, data, integers="truncate")


@op("Sinh", since=1)
def sinh_1(data: Array) -> Array:
    """The hyperbolic sine.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Sinh-1.
    """
    return precise(np.sinh, data)


@op("Tan", since=1)
def tan_1(data: Array) -> Array:
    """The tangent of angles in radians.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Tan-1.
    """
    return precise(np.tan, data)


@op("Tanh", since=1)
def tanh_1(data: Array) -> Array:
    """The hyperbolic tangent.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Results of integers are rounded, as in the reference.
    Spec: Tanh-1.
    """
    return precise(np.tanh, data)
