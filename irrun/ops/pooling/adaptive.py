"""Adaptive pooling: the number of windows is given, not their size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.blocks import iterate_blocks
from irrun.ops._support.flops import count_inputs
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops.pooling.windows import divide_sums

__all__ = ["adaptive_avg_pool_8", "adaptive_max_pool_8"]

I64 = ELEMENT_TYPES["i64"]


@op(
    "AdaptiveAvgPool",
    since=8,
    scratch=4,
    kind="window",
    shape="infer_adaptive_pooling",
    shaped_by=(1,),
    flops=count_inputs(1),
)
@compute_in_float32
def adaptive_avg_pool_8(data: Array, output_shape: Array) -> Array:
    """Compute the mean of each window, where the windows are distributed evenly over the spatial axes.

    Args:
        data: Floating-point, shape [N, C, spatial...].
        output_shape: i32 or i64, the number of windows along each spatial axis.

    Returns:
        Shape [N, C, output_shape...], the type of `data`.

    Raises:
        InputError: `output_shape` does not match the rank, or a window is empty.

    Spec:
        AdaptiveAvgPool-8
    """
    counts = _read_output_shape(data, output_shape)
    if 0 in (*data.shape[:2], *counts):
        return np.empty((*data.shape[:2], *counts), data.dtype)
    result, size = data, np.ones((), np.int64)
    for axis, count in enumerate(counts, 2):
        start, end = _compute_adaptive_windows(data.shape[axis], count)
        # reduceat adds up the elements between neighboring bounds: every other sum belongs to a window.
        zeros = np.zeros((*result.shape[:axis], 1, *result.shape[axis + 1 :]), data.dtype)
        bounds = np.stack([start, end], axis=1).reshape(-1)
        result = np.add.reduceat(np.concatenate([result, zeros], axis), bounds, axis)
        result = result[(slice(None),) * axis + (slice(None, None, 2),)]
        size = size[..., np.newaxis] * (end - start)
    return divide_sums(result, size, data.dtype)


@op(
    "AdaptiveMaxPool",
    since=8,
    scratch=1.5,
    kind="window",
    shape="infer_adaptive_pooling",
    shaped_by=(1,),
    flops=count_inputs(1),
    output_types=(0, "index_element_type"),
)
@compute_in_float32
def adaptive_max_pool_8(
    data: Array, output_shape: Array, *, index_element_type: ElementType = I64
) -> tuple[Array, Array]:
    """Compute the maximum of each window and its index, where the windows are distributed evenly over the axes.

    Args:
        data: Numeric, shape [N, C, spatial...]. NaN is ignored unless it is the first element of a window.
        output_shape: i32 or i64, the number of windows along each spatial axis.
        index_element_type: Type of the indices.

    Returns:
        The maxima, shape [N, C, output_shape...], the type of `data`; and their indices in the flattened spatial
        axes, the same shape, `index_element_type`, the first one of equal maxima.

    Raises:
        InputError: `output_shape` does not match the rank, or a window is empty.

    Spec:
        AdaptiveMaxPool-8
    """
    counts = _read_output_shape(data, output_shape)
    if 0 in (*data.shape[:2], *counts):
        shape = (*data.shape[:2], *counts)
        return np.empty(shape, data.dtype), np.empty(shape, index_element_type.dtype)
    windows = [_compute_adaptive_windows(n, count) for n, count in zip(data.shape[2:], counts, strict=True)]
    planes = data.reshape(1, -1, *data.shape[2:])
    values = np.empty((1, planes.shape[1], *counts), data.dtype)
    indices = np.empty(values.shape, index_element_type.dtype)
    for block in iterate_blocks(planes.shape[1], math.prod(data.shape[2:])):
        values[:, block], indices[:, block] = _find_adaptive_maxima(planes[:, block], windows)
    return values.reshape(*data.shape[:2], *counts), indices.reshape(*data.shape[:2], *counts)


def _find_adaptive_maxima(data: Array, windows: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the maximum of each window and its index in the plane.

    Args:
        data: Shape [N, C, spatial...].
        windows: The first elements and the ends of the windows along each spatial axis.
    """
    is_nan = np.isnan(data) if data.dtype.kind == "f" else np.zeros(data.shape, bool)
    values = np.where(is_nan, -np.inf, data) if is_nan.any() else data
    starts: list[Array] = []
    positions = np.arange(math.prod(data.shape[2:])).reshape(data.shape[2:])
    indices = np.broadcast_to(positions, data.shape)
    for axis in reversed(range(2, data.ndim)):  # the last axis first: of equal maxima, row-major order decides
        start, end = windows[axis - 2]
        longest = int((end - start).max(initial=1))
        # Shorter windows repeat their last element.
        members = np.minimum(start[:, np.newaxis] + np.arange(longest), end[:, np.newaxis] - 1)
        starts.append(start)
        candidates = values.take(members, axis)
        best = np.expand_dims(candidates.argmax(axis + 1), axis + 1)
        values = np.take_along_axis(candidates, best, axis + 1).squeeze(axis + 1)
        indices = np.take_along_axis(indices.take(members, axis), best, axis + 1).squeeze(axis + 1)
    if is_nan.any():
        first: tuple[Any, ...] = (..., *np.ix_(*reversed(starts)))
        values = np.where(is_nan[first], np.nan, values)
        indices = np.where(is_nan[first], positions[first], indices)
    return values, indices


def _read_output_shape(data: Array, output_shape: Array) -> list[int]:
    """Return the number of windows of adaptive pooling along each spatial axis."""
    counts = to_int_list(output_shape)
    if data.ndim < 3 or len(counts) != data.ndim - 2 or min(counts) < 0:
        raise InputError(f"output_shape {counts} does not match data of shape {list(data.shape)}")
    if 0 in data.shape and 0 not in (*data.shape[:2], *counts):
        raise InputError(f"data has shape {list(data.shape)}, the value of empty windows is undefined")
    check_allocation((*data.shape[:2], *counts), np.dtype(np.int64))
    return counts


def _compute_adaptive_windows(size: int, count: int) -> tuple[Array, Array]:
    """Return the first element and the end of each window; neighboring windows may overlap."""
    number = np.arange(count)
    return number * size // count, -(-(number + 1) * size // count)
