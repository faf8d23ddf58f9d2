"""Comparison operations, and tests for special values of floats."""

from __future__ import annotations

from functools import partial

import numpy as np

from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.docstrings import describes_binary, describes_like
from irrun.ops._support.numerics import Array, predicate
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

_comparison = partial(op, kind="elementwise", flops=1, output_types=("boolean",))


@_comparison("Equal", since=1, commutative=True, extremes="ends or equality")
@predicate
@describes_binary("Any type except nf4", "boolean")
def equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Return whether `a` equals `b`; NaN is not equal to anything.

    Spec:
        Equal-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a == b)


@_comparison("NotEqual", since=1, commutative=True, extremes="ends or equality")
@predicate
@describes_binary("Any type except nf4", "boolean")
def not_equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Return whether `a` differs from `b`; NaN differs from everything.

    Spec:
        NotEqual-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a != b)


@_comparison("Less", since=1, extremes="ends")
@predicate
@describes_binary("Any type except nf4", "boolean")
def less_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Return whether `a` is less than `b`.

    Spec:
        Less-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a < b)


@_comparison("LessEqual", since=1, extremes="ends")
@predicate
@describes_binary("Any type except nf4", "boolean")
def less_equal_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Return whether `a` is less than or equal to `b`.

    Spec:
        LessEqual-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a <= b)


@_comparison("Greater", since=1, extremes="ends")
@predicate
@describes_binary("Any type except nf4", "boolean")
def greater_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Return whether `a` is greater than `b`.

    Spec:
        Greater-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a > b)


@_comparison("GreaterEqual", since=1, extremes="ends")
@predicate
@describes_binary("Any type except nf4", "boolean")
def greater_equal_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Return whether `a` is greater than or equal to `b`.

    Spec:
        GreaterEqual-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a >= b)


@_comparison("IsFinite", since=10)
@predicate
def is_finite_10(data: Array) -> Array:
    """Return whether `data` is neither infinite nor NaN.

    Args:
        data: Floating-point, any shape.

    Returns:
        The shape of `data`, boolean.

    Spec:
        IsFinite-10
    """
    return np.asarray(np.isfinite(data))


@_comparison("IsInf", since=10)
@predicate
@describes_like(is_finite_10)
def is_inf_10(data: Array, *, detect_negative: bool = True, detect_positive: bool = True) -> Array:
    """Return whether `data` is infinite.

    Args:
        detect_negative: Whether minus infinity counts.
        detect_positive: Whether plus infinity counts.

    Spec:
        IsInf-10
    """
    is_inf = np.asarray(np.isinf(data))
    if not detect_negative:
        is_inf = is_inf & (data > 0)
    if not detect_positive:
        is_inf = is_inf & (data < 0)
    return is_inf


@_comparison("IsNaN", since=10)
@predicate
@describes_like(is_finite_10)
def is_nan_10(data: Array) -> Array:
    """Return whether `data` is NaN.

    Spec:
        IsNaN-10
    """
    return np.asarray(np.isnan(data))
