"""Pooling with windows of a given size: AvgPool and MaxPool."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.context import OutputCount
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_taps
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Rounding, Windows, create_windows

__all__ = [
    "avg_pool_1",
    "avg_pool_16",
    "divide_sums",
    "max_pool_1",
    "max_pool_8",
]

I64 = ELEMENT_TYPES["i64"]
ALL_OUTPUTS = OutputCount(2)

_avg_pool = partial(
    op,
    "AvgPool",
    scratch=2.5,
    kind="window",
    shape="infer_pooling",
    is_overwritable=True,
    shaped_by=(),
    flops=count_taps,
)

_max_pool = partial(
    op, "MaxPool", scratch=2, kind="window", shape="infer_pooling", shaped_by=(), keeps_values=True, flops=count_taps
)


@_max_pool(since=1)
@compute_in_float32
def max_pool_1(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute the maximum of each window.

    Args:
        data: Numeric, shape [N, C, spatial...]. NaN is ignored, as in the reference implementation and the CPU plugin:
            the maximum of a window that contains nothing else is the lowest finite number of the type.
        kernel: Number of elements of a window along each spatial axis.
        strides: Distance between neighboring windows.
        pads_begin: Padding before the data.
        pads_end: Padding after the data.
        rounding_type: Rounding of the number of windows.
        auto_pad: Padding mode.

    Returns:
        Shape [N, C, windows...], the type of `data`.

    Raises:
        InputError: Attributes do not match the rank, or a window exceeds the padded data.

    Spec:
        MaxPool-1
    """
    _check_rank(data, kernel)
    windows = create_windows(data.shape[2:], kernel, strides, [], pads_begin, pads_end, auto_pad, rounding_type)
    return _compute_maxima(data, windows)


@_max_pool(since=14, output_types=(0, "index_element_type"))
@_max_pool(since=8, output_types=(0, "index_element_type"))
@compute_in_float32
@describes_like(max_pool_1)
def max_pool_8(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int] = [],
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
    index_element_type: ElementType = I64,
    axis: int = 0,
    outputs: OutputCount = ALL_OUTPUTS,
) -> tuple[Array, ...]:
    """Compute the maximum of each window and its index.

    Args:
        dilations: Distance between neighboring elements of a window.
        index_element_type: Type of the indices.
        axis: First axis of `data` that the indices count along, flattened with all later axes.
        outputs: Number of outputs to compute.

    Returns:
        The maxima, shape [N, C, windows...], the type of `data`; and their indices, the same shape,
        `index_element_type`, the first one of equal maxima. The indices are omitted if they are not used.

    Spec:
        MaxPool-8, MaxPool-14
    """
    _check_rank(data, kernel)
    axis = normalize_axis(axis, data.ndim)
    windows = create_windows(data.shape[2:], kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type)
    if outputs == 1:
        return (_compute_maxima(data, windows),)
    values, indices = _find_first_maxima(data, windows)
    planes = np.arange(math.prod(data.shape[:2])).reshape(*data.shape[:2], *[1] * (data.ndim - 2))
    indices += planes * math.prod(data.shape[2:])
    if axis:
        indices %= max(1, math.prod(data.shape[axis:]))
    return values, indices.astype(index_element_type.dtype)


@_avg_pool(since=14)
@_avg_pool(since=1)
@describes_like(max_pool_1)
def avg_pool_1(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    exclude_pad: bool,
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute the mean of each window.

    Args:
        data: Numeric, shape [N, C, spatial...].
        exclude_pad: Whether the mean excludes the padding; see AvgPool-16.

    Spec:
        AvgPool-1, AvgPool-14
    """
    return avg_pool_16(
        data,
        kernel=kernel,
        strides=strides,
        pads_begin=pads_begin,
        pads_end=pads_end,
        exclude_pad=exclude_pad,
        rounding_type=rounding_type,
        auto_pad=auto_pad,
    )


@_avg_pool(since=16)
@compute_in_float32
def avg_pool_16(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    exclude_pad: bool,
    dilations: list[int] = [],
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute the mean of each window.

    Args:
        data: Numeric, shape [N, C, spatial...].
        kernel: Number of elements of a window along each spatial axis.
        strides: Distance between neighboring windows.
        pads_begin: Padding before the data.
        pads_end: Padding after the data.
        exclude_pad: Whether the mean includes only elements of `data`. If not, padding counts as zeros, and so do
            elements beyond the padding unless all pads are 0.
        dilations: Distance between neighboring elements of a window.
        rounding_type: Rounding of the number of windows.
        auto_pad: Padding mode.

    Returns:
        Shape [N, C, windows...], the type of `data`. 8-bit integers are rounded to nearest even, wider ones toward
        zero.

    Raises:
        InputError: Attributes do not match the rank, or a window exceeds the padded data.

    Spec:
        AvgPool-16
    """
    _check_rank(data, kernel)
    windows = create_windows(data.shape[2:], kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type)
    # Sums of 8-bit integers do not fit into 8 bits.
    total = _compute_sums(data.astype(np.int32) if data.dtype.itemsize == 1 else data, windows)
    if exclude_pad or not (any(windows.pads_begin) or any(windows.pads_end)):
        return divide_sums(total, np.maximum(_count_elements(data.shape[2:], windows), 1), data.dtype)
    return divide_sums(total, np.array(math.prod(kernel)), data.dtype)


def _check_rank(data: Array, kernel: list[int]) -> None:
    if data.ndim < 3 or data.ndim != len(kernel) + 2:
        raise InputError(
            f"data has shape {list(data.shape)}, expected rank {len(kernel) + 2} (at least 3) for the kernel {kernel}"
        )


def _reduce_windows(data: Array, windows: Windows, initial: Any, accumulate: Callable[[Array, Array], object]) -> Array:
    """Reduce each window, one axis after the other.

    Args:
        data: Shape [N, C, spatial...].
        windows: The windows over `data`.
        initial: Value of the padding and of empty results.
        accumulate: Adds its second argument to its first one, in place.
    """
    windows = windows.crop_kernel(data.shape[2:])
    if not data.size:
        return np.full((*data.shape[:2], *windows.output_shape), initial, data.dtype)
    result = windows.pad(data, initial)
    first_axis = data.ndim - len(windows.kernel)
    for axis, (count, size, stride, dilation) in enumerate(
        zip(windows.output_shape, windows.kernel, windows.strides, windows.dilations, strict=True), first_axis
    ):
        source = result
        result = np.full((*source.shape[:axis], count, *source.shape[axis + 1 :]), initial, source.dtype)
        for start in within_time(range(0, size * dilation, dilation)):
            index: tuple[Any, ...] = (
                *(slice(None),) * axis,
                slice(start, start + (count - 1) * stride + 1, stride),
            )
            accumulate(result, source[index])
    return result


def _compute_sums(data: Array, windows: Windows) -> Array:
    """Return the sum of each window, without the padding."""
    return _reduce_windows(data, windows, 0, lambda result, x: np.add(result, x, out=result))


def _compute_maxima(data: Array, windows: Windows) -> Array:
    """Return the maximum of each window, ignoring NaN."""
    lowest = _get_lowest(data.dtype)
    return _reduce_windows(data, windows, lowest, lambda result, x: np.fmax(result, x, out=result))


def _get_lowest(dtype: np.dtype[Any]) -> Any:
    """Return the value of padding, and of windows that contain no number."""
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _find_first_maxima(data: Array, windows: Windows) -> tuple[Array, Array]:
    """Return the maximum of each window and its index in the plane; 0 if all elements are the lowest value."""
    windows = windows.crop_kernel(data.shape[2:])
    lowest = _get_lowest(data.dtype)
    values = _compute_maxima(data, windows)
    if not values.size:
        return values, np.zeros(values.shape, np.int64)
    spatial = data.shape[2:]
    steps = [math.prod(spatial[i + 1 :]) for i in range(len(spatial))]
    # Indices of the first element of each window, as if the plane extended into the padding.
    corners = np.zeros(windows.output_shape, np.int64)
    for axis, (count, stride, begin, step) in enumerate(
        zip(windows.output_shape, windows.strides, windows.pads_begin, steps, strict=True)
    ):
        shape = [1] * len(spatial)
        shape[axis] = count
        corners += ((np.arange(count) * stride - begin) * step).reshape(shape)
    # Taps are numbered backward, so that the first tap with the maximum has the greatest number.
    taps = math.prod(windows.kernel)
    number = np.zeros(values.shape, np.min_scalar_type(taps))
    offsets = np.zeros(taps + 1, np.int64)
    for i, (position, tap) in enumerate(windows.iterate_taps(windows.pad(data, lowest))):
        offsets[taps - i] = sum(p * d * s for p, d, s in zip(position, windows.dilations, steps, strict=True))
        np.maximum(number, np.equal(tap, values).astype(number.dtype) * number.dtype.type(taps - i), out=number)
    indices = offsets.take(number)
    indices += corners
    indices *= values > lowest
    return values, indices


def _count_elements(spatial: tuple[int, ...], windows: Windows) -> Array:
    """Return the number of elements of the data in each window, shape [output_shape...]."""
    windows = windows.crop_kernel(spatial)
    count = np.ones((), np.int64)
    for size, windows_count, kernel, stride, dilation, begin in zip(
        spatial,
        windows.output_shape,
        windows.kernel,
        windows.strides,
        windows.dilations,
        windows.pads_begin,
        strict=True,
    ):
        positions = (np.arange(windows_count) * stride - begin)[:, np.newaxis] + np.arange(kernel) * dilation
        count = count[..., np.newaxis] * ((positions >= 0) & (positions < size)).sum(axis=1)
    return count


def divide_sums(total: Array, count: Array, dtype: np.dtype[Any]) -> Array:
    """Return `total / count` as `dtype`: 8-bit integers are rounded to nearest even, wider ones toward zero."""
    quotient: Array
    if dtype.kind == "f":
        quotient = total / count.astype(dtype)
    elif dtype.itemsize == 1:
        quotient = np.rint(total / count).astype(dtype)
    else:
        quotient = np.abs(total) // count.astype(dtype)
        quotient = np.where(total < 0, -quotient, quotient).astype(dtype)
    return quotient
