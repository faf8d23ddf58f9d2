"""Reductions along axes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.docstrings import describes_reduction
from irrun.ops._support.flops import count_inputs
from irrun.ops._support.numerics import (
    Array,
    cast_to_integers,
    compute_in_native_type,
    divide_toward_zero,
    get_integer_limits,
    get_lowest_float,
    is_float,
    reduce_along,
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

_reduction = partial(op, kind="reduction", shape="infer_reduction", shaped_by=(1,))


@_reduction("ReduceSum", since=1, extremes="ends", flops=count_inputs(1))
@compute_in_native_type
@describes_reduction("Numeric")
def reduce_sum_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the sum along `axes`; integers wrap.

    Spec:
        ReduceSum-1
    """
    return _reduce(np.add, data, _read_axes(axes, data.ndim), keep_dims)


@_reduction("ReduceProd", since=1, extremes="ends if nonnegative", flops=count_inputs(1))
@compute_in_native_type
@describes_reduction("Numeric")
def reduce_prod_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the product along `axes`; integers wrap.

    Spec:
        ReduceProd-1
    """
    return _reduce(np.multiply, data, _read_axes(axes, data.ndim), keep_dims)


@_reduction("ReduceMean", since=1, extremes="ends", flops=count_inputs(1))
@compute_in_native_type
@describes_reduction("Numeric")
def reduce_mean_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the mean along `axes`.

    Means of integers are truncated. The mean of no elements is zero, as in the reference implementation.

    Spec:
        ReduceMean-1
    """
    reduced = _read_axes(axes, data.ndim)
    if data.dtype.kind != "f" and data.dtype.itemsize < 4:
        data = data.astype(np.int64)  # sums of 8 or 16 bits would soon wrap
    total = _reduce(np.add, data, reduced, keep_dims)
    count = math.prod(data.shape[axis] for axis in reduced)
    if count == 0:
        return total
    if data.dtype.kind == "f":
        total /= data.dtype.type(count)
        return total
    return divide_toward_zero(total, count)


@_reduction("ReduceMax", since=1, extremes="ends", flops=count_inputs(1))
@describes_reduction("Numeric")
def reduce_max_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the maximum along `axes`.

    As in the reference implementation, NaN is ignored, and no result is below the lowest finite value.

    Spec:
        ReduceMax-1
    """
    if is_float(data.dtype):
        lowest: float = get_lowest_float(np.dtype(np.float64 if data.dtype == np.float64 else np.float32))
    else:
        lowest = get_integer_limits(data.dtype)[0]
    return _reduce_from(data, axes, ufunc=np.fmax, initial=lowest, keep_dims=keep_dims)


@_reduction("ReduceMin", since=1, extremes="ends", flops=count_inputs(1))
@describes_reduction("Numeric")
def reduce_min_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the minimum along `axes`.

    As in the reference implementation, NaN is ignored. The minimum of no elements is infinity, or the greatest
    integer.

    Spec:
        ReduceMin-1
    """
    greatest = np.inf if is_float(data.dtype) else get_integer_limits(data.dtype)[1]
    return _reduce_from(data, axes, ufunc=np.fmin, initial=greatest, keep_dims=keep_dims)


@_reduction("ReduceL1", since=4, scratch=1, flops=count_inputs(2))
@compute_in_native_type
@describes_reduction("Numeric")
def reduce_l1_4(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the sum of absolute values along `axes`; integers wrap.

    Without axes, the result is the absolute values, as in the reference implementation.

    Spec:
        ReduceL1-4
    """
    return _reduce(np.add, np.abs(data), _read_axes(axes, data.ndim), keep_dims)


@_reduction("ReduceL2", since=4, scratch=1, flops=count_inputs(2))
@compute_in_native_type
@describes_reduction("Numeric")
def reduce_l2_4(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the square root of the sum of squares along `axes`.

    Roots of integers are rounded to the nearest integer, as in the reference implementation; OpenVINO's CPU plugin
    truncates them. Without axes, the result is the absolute values, as in the reference implementation.

    Spec:
        ReduceL2-4
    """
    squares = _reduce(np.add, np.multiply(data, data), _read_axes(axes, data.ndim), keep_dims)
    root = np.asarray(np.sqrt(squares))
    return root if data.dtype.kind == "f" else cast_to_integers(np.rint(root), data.dtype)


@_reduction("ReduceLogicalAnd", since=1, flops=count_inputs(1))
@compute_in_native_type
@describes_reduction("Boolean")
def reduce_logical_and_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the logical AND along `axes`.

    Spec:
        ReduceLogicalAnd-1
    """
    return np.asarray(np.all(data, _read_axes(axes, data.ndim), keepdims=keep_dims))


@_reduction("ReduceLogicalOr", since=1, flops=count_inputs(1))
@compute_in_native_type
@describes_reduction("Boolean")
def reduce_logical_or_1(data: Array, axes: Array, *, keep_dims: bool = False) -> Array:
    """Compute the logical OR along `axes`.

    Spec:
        ReduceLogicalOr-1
    """
    return np.asarray(np.any(data, _read_axes(axes, data.ndim), keepdims=keep_dims))


def _read_axes(axes: Array, rank: int) -> tuple[int, ...]:
    # As in the reference implementation, axes may repeat, and a scalar may be reduced along axis 0.
    normalized = dict.fromkeys(normalize_axis(axis, max(1, rank), "axes") for axis in to_int_list(axes))
    return tuple(normalized) if rank else ()


def _reduce(ufunc: Any, x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
    if len(axes) == 1 and x.shape[axes[0]]:
        result = reduce_along(ufunc, x, axes[0])
        return result if keep_dims else result.squeeze(axes[0])
    if not axes:
        check_allocation(x.shape, x.dtype)
    return np.asarray(ufunc.reduce(x, axes, x.dtype, keepdims=keep_dims))


@compute_in_native_type
def _reduce_from(data: Array, axes: Array, *, ufunc: Any, initial: float, keep_dims: bool) -> Array:
    """Reduce `data` and `initial`, which is in the range of the original type of `data`."""
    reduced = _read_axes(axes, data.ndim)
    if len(reduced) == 1 and data.shape[reduced[0]]:
        return np.asarray(ufunc(_reduce(ufunc, data, reduced, keep_dims), data.dtype.type(initial)))
    return np.asarray(ufunc.reduce(data, reduced, data.dtype, keepdims=keep_dims, initial=initial))
