"""Reductions along constant axes: one call of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.softmax import sum_rows
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import BOOL, F32, NATIVE_INTEGERS, Array, Memo, freeze, to_int_tuple

__all__: list[str] = []

#: Along a last axis of at most this many elements, the plain kernels reduce large arrays slice by slice.
SHORT_AXIS = 16
MIN_SIZE_OF_SHORT_AXIS = 2048
#: Minimum number of rows, and of elements per row, for summing up rows by a product.
MIN_ROWS, MIN_ROW_LENGTH = 2, 32

Reduce = Callable[..., Any]


def read_axes(site: CallSite) -> tuple[int, ...] | None:
    """Return the constant axes of a reduction without repetitions, or None."""
    axes = site.get_constant(1)
    if axes is None or axes.dtype.kind not in "iu":
        return None
    return tuple(dict.fromkeys(to_int_tuple(axes)))


def is_short_axis(shape: tuple[int, ...], axis: int) -> bool:
    """Return whether the plain kernels are faster than NumPy, by reducing slice by slice along an axis."""
    is_large = math.prod(shape) >= MIN_SIZE_OF_SHORT_AXIS
    return is_large and shape[axis] <= SHORT_AXIS and axis in (-1, len(shape) - 1)


@specializes("ReduceSum-1", ufunc=np.add)
@specializes("ReduceProd-1", ufunc=np.multiply)
def specialize_reduction(site: CallSite, ufunc: np.ufunc) -> SpecializedKernel | None:
    """Call the ufunc's method."""
    axes = read_axes(site)
    if axes is None:
        return None
    keep_dims, call_plain = _keeps_dims(site), site.call_plain
    reduce: Reduce = ufunc.reduce
    axis = axes[0] if len(axes) == 1 else None

    def compute(x: Array) -> Any:
        dtype = x.dtype
        if dtype is not F32 and dtype not in NATIVE_INTEGERS:
            return call_plain(x)
        if axis is not None and x.size >= MIN_SIZE_OF_SHORT_AXIS and is_short_axis(x.shape, axis):
            return call_plain(x)
        return reduce(x, axes, dtype, None, keep_dims)

    return compute


@specializes("ReduceMean-1")
def specialize_mean(site: CallSite) -> SpecializedKernel | None:
    """Divide the sum of f32 by a count that is computed once per shape."""
    axes = read_axes(site)
    if axes is None:
        return None
    keep_dims, call_plain = _keeps_dims(site), site.call_plain
    reduce: Any = np.add.reduce
    axis = axes[0] if len(axes) == 1 else None

    @Memo
    def counts(shape: tuple[int, ...]) -> Any:
        """Return the number of elements per sum, None for the plain kernel, and the shape of sums of rows."""
        is_plain = not math.prod(shape) or not shape or (axis is not None and is_short_axis(shape, axis))
        count = math.prod(shape[a] for a in axes)
        return None if is_plain else freeze(np.array(count, np.float32)), _find_kept_shape(shape, axes, keep_dims)

    def compute(x: Array) -> Any:
        count, kept = counts[x.shape]
        if count is None or x.dtype is not F32:
            return call_plain(x)
        if kept is None or not x.flags.c_contiguous:
            total = reduce(x, axes, F32, None, keep_dims)
        else:
            total = sum_rows(x.reshape(math.prod(kept), -1)).reshape(kept)
        return np.divide(total, count, total) if type(total) is np.ndarray else total / count

    return compute


def _find_kept_shape(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool) -> tuple[int, ...] | None:
    """Return the shape of a mean over the (last) spatial axes, or None for other axes."""
    rank = len(shape)
    first = rank - len(axes)
    if not 0 < first < rank - 1 or {a + rank if a < 0 else a for a in axes} != set(range(first, rank)):
        return None
    if math.prod(shape[:first]) < MIN_ROWS or math.prod(shape[first:]) < MIN_ROW_LENGTH:
        return None
    return shape[:first] + ((1,) * len(axes) if keep_dims else ())


@specializes("ReduceMax-1", ufunc=np.fmax, initial=np.finfo(np.float32).min)
@specializes("ReduceMin-1", ufunc=np.fmin, initial=np.float32(math.inf))
def specialize_extremum(site: CallSite, ufunc: np.ufunc, initial: np.float32) -> SpecializedKernel | None:
    """Call the ufunc's method, which ignores NaN."""
    axes = read_axes(site)
    if axes is None:
        return None
    keep_dims, call_plain = _keeps_dims(site), site.call_plain
    reduce: Reduce = ufunc.reduce
    axis = axes[0] if len(axes) == 1 else None

    def compute(x: Array) -> Any:
        dtype = x.dtype
        if axis is not None and x.size >= MIN_SIZE_OF_SHORT_AXIS and is_short_axis(x.shape, axis):
            return call_plain(x)
        if dtype is F32:
            return reduce(x, axes, F32, None, keep_dims, initial)
        return reduce(x, axes, dtype, None, keep_dims) if dtype in NATIVE_INTEGERS and x.size else call_plain(x)

    return compute


@specializes("ReduceL1-4", is_root=False)
@specializes("ReduceL2-4", is_root=True)
def specialize_norm(site: CallSite, is_root: bool) -> SpecializedKernel | None:
    """Reduce absolute values or squares."""
    axes = read_axes(site)
    if axes is None:
        return None
    keep_dims, call_plain = _keeps_dims(site), site.call_plain
    reduce: Any = np.add.reduce
    axis = axes[0] if len(axes) == 1 else None

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or not x.ndim or (axis is not None and is_short_axis(x.shape, axis)):
            return call_plain(x)
        total = reduce(np.square(x) if is_root else np.abs(x), axes, F32, None, keep_dims)
        return np.sqrt(total) if is_root else total

    return compute


@specializes("ReduceLogicalAnd-1", ufunc=np.logical_and)
@specializes("ReduceLogicalOr-1", ufunc=np.logical_or)
def specialize_logical(site: CallSite, ufunc: np.ufunc) -> SpecializedKernel | None:
    """Call the ufunc's method for boolean."""
    axes = read_axes(site)
    if axes is None:
        return None
    keep_dims, call_plain = _keeps_dims(site), site.call_plain
    reduce: Reduce = ufunc.reduce

    def compute(x: Array) -> Any:
        return reduce(x, axes, BOOL, None, keep_dims) if x.dtype is BOOL else call_plain(x)

    return compute


def _keeps_dims(site: CallSite) -> bool:
    return bool(site.attributes.get("keep_dims", False))
