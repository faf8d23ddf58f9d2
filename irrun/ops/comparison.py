"""Comparisons: of two tensors, and with the special values of floats."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.axes import AutoBroadcast
from irrun.ops._support.elementwise import compare
from irrun.ops._support.numerics import Array, to_native
from irrun.ops._support.registry import op

__all__ = [
    "equal_1",
    "greater_1",
    "greater_equal_1",
    "is_finite_10",
    "is_inf_10",
    "is_nan_10",
    "less_1",
    "less_equal_1",
    "not_equal_1",
]


@op("Equal", since=1, folding="elementwise")
def equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether `a` equals `b`; NaN equals nothing.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: Equal-1.
    """
    return compare(np.equal, a, b, auto_broadcast, auto_broadcast_axis)


@op("NotEqual", since=1, folding="elementwise")
def not_equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether `a` differs from `b`; NaN differs from everything.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: NotEqual-1.
    """
    return compare(np.not_equal, a, b, auto_broadcast, auto_broadcast_axis)


@op("Less", since=1, folding="elementwise")
def less_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether `a` is less than `b`.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: Less-1.
    """
    return compare(np.less, a, b, auto_broadcast, auto_broadcast_axis)


@op("LessEqual", since=1, folding="elementwise")
def less_equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether `a` is less than `b` or equal.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: LessEqual-1.
    """
    return compare(np.less_equal, a, b, auto_broadcast, auto_broadcast_axis)


@op("Greater", since=1, folding="elementwise")
def greater_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether `a` is greater than `b`.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: Greater-1.
    """
    return compare(np.greater, a, b, auto_broadcast, auto_broadcast_axis)


@op("GreaterEqual", since=1, folding="elementwise")
def greater_equal_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Whether `a` is greater than `b` or equal.

    a, b: any type but nf4, the same for both; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: GreaterEqual-1.
    """
    return compare(np.greater_equal, a, b, auto_broadcast, auto_broadcast_axis)


@op("IsFinite", since=10, folding="elementwise")
def is_finite_10(data: Array) -> Array:
    """Whether `data` is neither infinite nor NaN.

    data: any floating-point type, any shape.
    Returns boolean, the shape of data.
    Spec: IsFinite-10.
    """
    return np.asarray(np.isfinite(to_native(data)))


@op("IsInf", since=10, folding="elementwise")
def is_inf_10(data: Array, *, detect_negative: bool = True, detect_positive: bool = True) -> Array:
    """Whether `data` is one of the infinities looked for.

    data: any floating-point type, any shape.
    Returns boolean, the shape of data.
    Spec: IsInf-10.
    """
    values = to_native(data)
    found = np.asarray(np.isinf(values))
    if not detect_negative:
        found = found & (values > 0)
    if not detect_positive:
        found = found & (values < 0)
    return found


@op("IsNaN", since=10, folding="elementwise")
def is_nan_10(data: Array) -> Array:
    """Whether `data` is not a number.

    data: any floating-point type, any shape.
    Returns boolean, the shape of data.
    Spec: IsNaN-10.
    """
    return np.asarray(np.isnan(to_native(data)))
