"""Reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.elementwise import reduce_along, unary
from irrun.ops._support.numerics import (
    Array,
    cast_to_integers,
    divide_toward_zero,
    get_integer_limits,
    get_lowest_float,
    is_float,
)
from irrun.ops._support.registry import op

__all__ = [
    "reduce_l1_4",
    "reduce_l2_4",
    "reduce_logical_and_1",
    "reduce_logical_or_1",
    "reduce_max_1",
    "reduce_mean_1",
    "reduce_min_1",
    "reduce_prod_1",
    "reduce_sum_1",
]

#: Takes the data, the axes and whether to keep them.
Reduction = Callable[[Array, tuple[int, ...], bool], Array]


@op("ReduceSum", since=1)
def reduce_sum_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The sum along `axes`.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims. Integers wrap.
    Raises InputError where an axis is out of range.
    Spec: ReduceSum-1.
    """
    return _reduce(_sum, data, axes, keep_dims)


@op("ReduceProd", since=1)
def reduce_prod_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The product along `axes`.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims. Integers wrap.
    Raises InputError where an axis is out of range.
    Spec: ReduceProd-1.
    """
    return _reduce(_product, data, axes, keep_dims)


@op("ReduceMean", since=1)
def reduce_mean_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The mean along `axes`.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    Means of integers are truncated; the mean of nothing is zero, as in the reference.
    Raises InputError where an axis is out of range.
    Spec: ReduceMean-1.
    """
    return _reduce(_mean, data, axes, keep_dims)


@op("ReduceMax", since=1)
def reduce_max_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The greatest along `axes`.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    As in the reference, NaN is passed over, and no result is below the lowest finite value.
    Raises InputError where an axis is out of range.
    Spec: ReduceMax-1.
    """
    return _reduce(partial(_max, lowest=_limits(data)[0]), data, axes, keep_dims)


@op("ReduceMin", since=1)
def reduce_min_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The least along `axes`.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    As in the reference, NaN is passed over; the least of nothing is infinity, or the greatest integer.
    Raises InputError where an axis is out of range.
    Spec: ReduceMin-1.
    """
    return _reduce(partial(_min, greatest=_limits(data)[1]), data, axes, keep_dims)


@op("ReduceL1", since=4)
def reduce_l1_4(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The sum of absolute values along `axes`; with no axis the absolute values, as in the reference.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims. Integers wrap.
    Raises InputError where an axis is out of range.
    Spec: ReduceL1-4.
    """
    return _reduce(_l1, data, axes, keep_dims)


@op("ReduceL2", since=4)
def reduce_l2_4(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """The root of the sum of squares along `axes`; with no axis the absolute values, as in the reference.

    data: any numeric type, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    Roots of integers are truncated.
    Raises InputError where an axis is out of range.
    Spec: ReduceL2-4.
    """
    return _reduce(_l2, data, axes, keep_dims)


@op("ReduceLogicalAnd", since=1)
def reduce_logical_and_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Whether all along `axes` are true.

    data: boolean, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    Raises InputError where an axis is out of range.
    Spec: ReduceLogicalAnd-1.
    """
    return _reduce(_all, data, axes, keep_dims)


@op("ReduceLogicalOr", since=1)
def reduce_logical_or_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Whether any along `axes` is true.

    data: boolean, any shape; axes: integer, scalar or [any], negative ones count from the back; none: no axis.
    Returns the type of data, its shape without the axes, or with 1 in their place with keep_dims.
    Raises InputError where an axis is out of range.
    Spec: ReduceLogicalOr-1.
    """
    return _reduce(_any, data, axes, keep_dims)


def _reduce(reduction: Reduction, data: Array, axes: Array, keep_dims: bool) -> Array:
    # The same axis may be given twice, and the only element of a scalar reduced along axis 0, as in the reference.
    where = tuple(dict.fromkeys(normalize_axis(axis, max(1, data.ndim), "axes") for axis in to_int_list(axes)))
    where = where if data.ndim else ()
    return unary(lambda x: np.asarray(reduction(x, where, keep_dims)), data)


def _fold(ufunc: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, **options: Any) -> Array:
    if len(axes) == 1 and x.shape[axes[0]]:
        result = reduce_along(ufunc, x, axes[0])
        if "initial" in options:
            result = ufunc(result, x.dtype.type(options["initial"]))
        return result if keep_dims else result.squeeze(axes[0])
    return np.asarray(ufunc.reduce(x, axes, x.dtype, keepdims=keep_dims, **options))


def _sum(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    return _fold(np.add, x, axes, keep_dims)


def _product(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    return _fold(np.multiply, x, axes, keep_dims)


def _mean(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    if x.dtype.kind != "f" and x.dtype.itemsize < 4:
        x = x.astype(np.int64)  # sums of so few bits would soon wrap
    total = _sum(x, axes, keep_dims)
    count = math.prod(x.shape[axis] for axis in axes)
    if count == 0:
        return total
    return np.asarray(total / x.dtype.type(count)) if x.dtype.kind == "f" else divide_toward_zero(total, count)


def _limits(data: Array) -> tuple[float, float]:
    """What the greatest and the least of nothing are, in the type that `data` is computed in."""
    if not is_float(data.dtype):
        return get_integer_limits(data.dtype)
    return get_lowest_float(np.dtype(np.float64 if data.dtype == np.float64 else np.float32)), np.inf


def _max(x: Array, axes: tuple[int, ...], keep_dims: bool, lowest: float) -> Array:
    return _fold(np.fmax, x, axes, keep_dims, initial=lowest)


def _min(x: Array, axes: tuple[int, ...], keep_dims: bool, greatest: float) -> Array:
    return _fold(np.fmin, x, axes, keep_dims, initial=greatest)


def _l1(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    return _sum(np.abs(x), axes, keep_dims)


def _l2(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    squares = _sum(np.multiply(x, x), axes, keep_dims)
    root = np.asarray(np.sqrt(squares))
    return root if x.dtype.kind == "f" else cast_to_integers(root, x.dtype)


def _all(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    return np.asarray(np.all(x, axes, keepdims=keep_dims))


def _any(x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    return np.asarray(np.any(x, axes, keepdims=keep_dims))
