"""Pooling operations: the maximum or the mean over sliding or adaptive windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.context import OutputCount
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Rounding, Windows, place_windows

__all__ = [
    "adaptive_avg_pool_8",
    "adaptive_max_pool_8",
    "avg_pool_1",
    "avg_pool_16",
    "max_pool_1",
    "max_pool_8",
]

I64 = ELEMENT_TYPES["i64"]
BOTH = OutputCount(2)


@op("MaxPool", since=1)
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
    """The maximum of every sliding window.

    data: numeric [N, C, spatial...].
    Returns [N, C, windows...], the type of data.
    Raises InputError where attributes do not fit the rank, or a window is larger than the padded data.
    Spec: MaxPool-1.
    """
    _check_rank(data, kernel)
    windows = place_windows(data.shape[2:], kernel, strides, [], pads_begin, pads_end, auto_pad, rounding_type)
    return _maximum(data, windows)


@op("MaxPool", since=14)
@op("MaxPool", since=8)
@compute_in_float32
def max_pool_8(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int] = [],  # noqa: B006  (never changed; empty means ones)
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
    index_element_type: ElementType = I64,
    axis: int = 0,
    outputs: OutputCount = BOTH,
) -> tuple[Array, ...]:
    """The maximum of every sliding window, and where it stands.

    data: numeric [N, C, spatial...].
    Returns the maxima [N, C, windows...] in the type of data, and their positions in data flattened from
    `axis` on, in `index_element_type`; the first one where several are equal. The maxima alone where nothing
    reads the positions.
    Raises InputError where attributes do not fit the rank, or a window is larger than the padded data.
    Spec: MaxPool-8, MaxPool-14.
    """
    _check_rank(data, kernel)
    axis = normalize_axis(axis, data.ndim)
    windows = place_windows(data.shape[2:], kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type)
    if outputs == 1:
        return (_maximum(data, windows),)
    values, places = _first_maximum(data, windows)
    planes = np.arange(math.prod(data.shape[:2])).reshape(*data.shape[:2], *[1] * (data.ndim - 2))
    places += planes * math.prod(data.shape[2:])
    if axis:
        places %= max(1, math.prod(data.shape[axis:]))
    return values, places.astype(index_element_type.dtype)


@op("AvgPool", since=14)
@op("AvgPool", since=1)
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
    """The mean of every sliding window.

    data: numeric [N, C, spatial...].
    Returns [N, C, windows...], the type of data.
    Raises InputError where attributes do not fit the rank, or a window is larger than the padded data.
    Spec: AvgPool-1, AvgPool-14.
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


@op("AvgPool", since=16)
@compute_in_float32
def avg_pool_16(
    data: Array,
    *,
    kernel: list[int],
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    exclude_pad: bool,
    dilations: list[int] = [],  # noqa: B006  (never changed; empty means ones)
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
) -> Array:
    """The mean of every sliding window, whose elements may stand apart.

    data: numeric [N, C, spatial...].
    With `exclude_pad` the mean is over the elements of data alone; otherwise padding counts as zeros, as does what
    a window has beyond the padding, unless there is no padding at all.
    Returns [N, C, windows...], the type of data.
    Raises InputError where attributes do not fit the rank, or a window is larger than the padded data.
    Spec: AvgPool-16.
    """
    _check_rank(data, kernel)
    windows = place_windows(data.shape[2:], kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type)
    # The sum of bytes is no byte.
    total = _sum(data.astype(np.int32) if data.dtype.itemsize == 1 else data, windows)
    if exclude_pad or not (any(windows.begin) or any(windows.end)):
        return _divide(total, np.maximum(_present(data.shape[2:], windows), 1), data.dtype)
    return _divide(total, np.array(math.prod(kernel)), data.dtype)


@op("AdaptiveAvgPool", since=8)
@compute_in_float32
def adaptive_avg_pool_8(data: Array, output_shape: Array) -> Array:
    """The mean of each of as many windows as `output_shape` says, spread evenly over the spatial axes.

    data: floating point [N, C, spatial...]; output_shape: i32 or i64, one value for each spatial axis.
    Returns [N, C, output_shape...], the type of data.
    Raises InputError where output_shape does not fit, or a window is empty.
    Spec: AdaptiveAvgPool-8.
    """
    out = _adaptive_shape(data, output_shape)
    if 0 in (*data.shape[:2], *out):
        return np.empty((*data.shape[:2], *out), data.dtype)
    result, count = data, np.ones((), np.int64)
    for axis, windows in enumerate(out, 2):
        start, end = _adaptive_windows(data.shape[axis], windows)
        # reduceat sums from each position to the next one: every other sum is a window.
        tail = np.zeros((*result.shape[:axis], 1, *result.shape[axis + 1 :]), data.dtype)
        bounds = np.stack([start, end], axis=1).reshape(-1)
        result = np.add.reduceat(np.concatenate([result, tail], axis), bounds, axis)
        result = result[(slice(None),) * axis + (slice(None, None, 2),)]
        count = count[..., np.newaxis] * (end - start)
    return _divide(result, count, data.dtype)


@op("AdaptiveMaxPool", since=8)
@compute_in_float32
def adaptive_max_pool_8(
    data: Array, output_shape: Array, *, index_element_type: ElementType = I64
) -> tuple[Array, Array]:
    """The maximum of each of as many windows as `output_shape` says, and where it stands.

    data: numeric [N, C, spatial...]; output_shape: i32 or i64, one value for each spatial axis.
    Returns the maxima [N, C, output_shape...] in the type of data, and their positions in the flattened spatial
    axes, in `index_element_type`; the first one where several are equal. NaN is passed over, but not in front.
    Raises InputError where output_shape does not fit, or a window is empty.
    Spec: AdaptiveMaxPool-8.
    """
    out = _adaptive_shape(data, output_shape)
    if 0 in (*data.shape[:2], *out):
        shape = (*data.shape[:2], *out)
        return np.empty(shape, data.dtype), np.empty(shape, index_element_type.dtype)
    passed_over = np.isnan(data) if data.dtype.kind == "f" else np.zeros(data.shape, bool)
    values = np.where(passed_over, -np.inf, data) if passed_over.any() else data
    corners: list[Array] = []
    numbers = np.arange(math.prod(data.shape[2:])).reshape(data.shape[2:])
    places = np.broadcast_to(numbers, data.shape)
    for axis in reversed(range(2, data.ndim)):  # the last axis first, so that the first maximum wins in row order
        start, end = _adaptive_windows(data.shape[axis], out[axis - 2])
        longest = int((end - start).max(initial=1))
        # Shorter windows repeat their last element.
        members = np.minimum(start[:, np.newaxis] + np.arange(longest), end[:, np.newaxis] - 1)
        corners.append(start)
        candidates = values.take(members, axis)
        best = np.expand_dims(candidates.argmax(axis + 1), axis + 1)
        values = np.take_along_axis(candidates, best, axis + 1).squeeze(axis + 1)
        places = np.take_along_axis(places.take(members, axis), best, axis + 1).squeeze(axis + 1)
    if passed_over.any():
        front: tuple[Any, ...] = (..., *np.ix_(*reversed(corners)))
        values = np.where(passed_over[front], np.nan, values)
        places = np.where(passed_over[front], numbers[front], places)
    return values, places.astype(index_element_type.dtype)


def _adaptive_shape(data: Array, output_shape: Array) -> list[int]:
    out = to_int_list(output_shape)
    if data.ndim < 3 or len(out) != data.ndim - 2 or min(out) < 0:
        raise InputError(f"output_shape {out} does not fit data of shape {list(data.shape)}")
    if 0 in data.shape[2:] and 0 not in (*data.shape[:2], *out):
        raise InputError(f"data has shape {list(data.shape)}, and its empty windows have no value")
    check_allocation((*data.shape[:2], *out), np.dtype(np.int64))
    return out


def _adaptive_windows(size: int, windows: int) -> tuple[Array, Array]:
    """First and last (exclusive) element of each window; neighbours may overlap."""
    number = np.arange(windows)
    return number * size // windows, -(-(number + 1) * size // windows)


def _sum(data: Array, windows: Windows) -> Array:
    """The sum of each window, one axis after the other; what is outside counts nothing."""
    result = windows.covered(data)
    first = data.ndim - len(windows.kernel)
    for axis, (count, size, stride, dilation) in enumerate(
        zip(windows.out, windows.kernel, windows.strides, windows.dilations, strict=True), first
    ):
        source = result
        result = np.zeros((*source.shape[:axis], count, *source.shape[axis + 1 :]), source.dtype)
        before = (slice(None),) * axis
        for start in range(0, size * dilation, dilation):
            picked: tuple[Any, ...] = (*before, slice(start, start + (count - 1) * stride + 1, stride))
            result += source[picked]
    return result


def _present(spatial: tuple[int, ...], windows: Windows) -> Array:
    """How many elements of the data each window has: [windows...]."""
    count = np.ones((), np.int64)
    for size, out, kernel, stride, dilation, begin in zip(
        spatial, windows.out, windows.kernel, windows.strides, windows.dilations, windows.begin, strict=True
    ):
        places = (np.arange(out) * stride - begin)[:, np.newaxis] + np.arange(kernel) * dilation
        count = count[..., np.newaxis] * ((places >= 0) & (places < size)).sum(axis=1)
    return count


def _divide(total: Array, count: Array, dtype: np.dtype[Any]) -> Array:
    """`total / count` as `dtype`: bytes are rounded to nearest even, wider integers towards zero."""
    quotient: Array
    if dtype.kind == "f":
        quotient = total / count.astype(dtype)
    elif dtype.itemsize == 1:
        quotient = np.rint(total / count).astype(dtype)
    else:
        quotient = np.abs(total) // count.astype(dtype)
        quotient = np.where(total < 0, -quotient, quotient).astype(dtype)
    return quotient


def _check_rank(data: Array, kernel: list[int]) -> None:
    if data.ndim < 3 or data.ndim != len(kernel) + 2:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, C] and one axis for each of kernel {kernel}")


def _lowest(dtype: np.dtype[Any]) -> Any:
    """What padding counts as, and what a window without any number gives."""
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _maximum(data: Array, windows: Windows) -> Array:
    """The maximum of each window, one axis after the other; NaN is passed over."""
    lowest = _lowest(data.dtype)
    result = windows.covered(data, lowest)
    first = data.ndim - len(windows.kernel)
    for axis, (count, size, stride, dilation) in enumerate(
        zip(windows.out, windows.kernel, windows.strides, windows.dilations, strict=True), first
    ):
        source = result
        result = np.full((*source.shape[:axis], count, *source.shape[axis + 1 :]), lowest, source.dtype)
        before = (slice(None),) * axis
        for start in range(0, size * dilation, dilation):
            picked: tuple[Any, ...] = (*before, slice(start, start + (count - 1) * stride + 1, stride))
            np.fmax(result, source[picked], out=result)
    return result


def _first_maximum(data: Array, windows: Windows) -> tuple[Array, Array]:
    """The maximum of each window and its position in the plane; 0 where nothing exceeds the lowest."""
    lowest = _lowest(data.dtype)
    values = _maximum(data, windows)
    spatial = data.shape[2:]
    steps = [math.prod(spatial[i + 1 :]) for i in range(len(spatial))]
    # The plane's position of each window's first element, padding counted as if the plane went on.
    corners = np.zeros(windows.out, np.int64)
    for axis, (count, stride, begin, step) in enumerate(
        zip(windows.out, windows.strides, windows.begin, steps, strict=True)
    ):
        along = [1] * len(spatial)
        along[axis] = count
        corners += ((np.arange(count) * stride - begin) * step).reshape(along)
    # Taps are numbered backwards, so that the greatest number that has the maximum is the first tap.
    taps = math.prod(windows.kernel)
    number = np.zeros(values.shape, np.min_scalar_type(taps))
    offsets = np.zeros(taps + 1, np.int64)
    for i, (position, tap) in enumerate(windows.taps(windows.covered(data, lowest))):
        offsets[taps - i] = sum(p * d * s for p, d, s in zip(position, windows.dilations, steps, strict=True))
        np.maximum(number, np.equal(tap, values).astype(number.dtype) * number.dtype.type(taps - i), out=number)
    places = offsets.take(number)
    places += corners
    places *= values > lowest
    return values, places
