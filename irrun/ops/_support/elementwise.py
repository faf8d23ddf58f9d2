"""Transitional."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.ops._support.axes import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.numerics import Array, elementwise, to_native

__all__ = ["binary", "compare", "reduce_along", "unary"]


def binary(
    function: Callable[[Array, Array], Array], a: Array, b: Array, auto_broadcast: AutoBroadcast, axis: int
) -> Array:
    x, y = apply_auto_broadcast(a, b, auto_broadcast, axis)
    return elementwise(function)(x, y)


def compare(
    function: Callable[[Array, Array], Array], a: Array, b: Array, auto_broadcast: AutoBroadcast, axis: int
) -> Array:
    x, y = apply_auto_broadcast(a, b, auto_broadcast, axis)
    return np.asarray(function(to_native(x), to_native(y)))


def unary(function: Callable[[Array], Array], data: Array) -> Array:
    return elementwise(function)(data)


def reduce_along(ufunc: Any, x: Array, axis: int) -> Array:
    """Reduce along one axis and keep it with length 1.

    Args:
        ufunc: A binary ufunc of NumPy.
        x: Any type that NumPy computes in, any shape.
        axis: An axis in [0, rank).
    """
    # Along a short last axis NumPy needs as long as for a hundred elements; reducing slice by slice is faster.
    if axis == x.ndim - 1 and 1 < x.shape[axis] <= 16 and x.size >= 2048:
        return np.expand_dims(functools.reduce(ufunc, np.moveaxis(x, axis, 0)), axis)
    return np.asarray(ufunc.reduce(x, axis, x.dtype, keepdims=True))
