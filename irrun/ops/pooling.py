"""Pooling operations: the maximum or the mean over sliding or adaptive windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.elements import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops.common import Array, in_f32, normalize_axis
from irrun.ops.registry import op
from irrun.ops.windows import AutoPad, Rounding, Windows, place_windows

__all__ = ["max_pool_1", "max_pool_8"]

I64 = ELEMENT_TYPES["i64"]


@op("MaxPool", since=1)
@in_f32
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
    windows = place_windows(
        data.shape[2:], kernel, strides, [], pads_begin, pads_end, auto_pad, rounding_type
    )
    return _maximum(data, windows)


@op("MaxPool", since=14)
@op("MaxPool", since=8)
@in_f32
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
) -> tuple[Array, Array]:
    """The maximum of every sliding window, and where it stands.

    data: numeric [N, C, spatial...].
    Returns the maxima [N, C, windows...] in the type of data, and their positions in data flattened from
    `axis` on, in `index_element_type`; the first one where several are equal.
    Raises InputError where attributes do not fit the rank, or a window is larger than the padded data.
    Spec: MaxPool-14.
    """
    _check_rank(data, kernel)
    axis = normalize_axis(axis, data.ndim)
    windows = place_windows(
        data.shape[2:], kernel, strides, dilations, pads_begin, pads_end, auto_pad, rounding_type
    )
    values, places = _first_maximum(data, windows)
    planes = np.arange(math.prod(data.shape[:2])).reshape(*data.shape[:2], *[1] * (data.ndim - 2))
    places += planes * math.prod(data.shape[2:])
    if axis:
        places %= max(1, math.prod(data.shape[axis:]))
    return values, places.astype(index_element_type.dtype)


def _check_rank(data: Array, kernel: list[int]) -> None:
    if data.ndim < 3 or data.ndim != len(kernel) + 2:
        raise InputError(
            f"data has shape {list(data.shape)}, expected [N, C] and one axis for each of kernel {kernel}"
        )


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
    covered = windows.covered(data, lowest)
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
    best = np.full((*data.shape[:2], *windows.out), lowest, data.dtype)
    places = np.zeros(best.shape, np.int64)
    for position, tap in windows.taps(covered):
        offset = sum(p * d * s for p, d, s in zip(position, windows.dilations, steps, strict=True))
        greater = tap > best
        np.copyto(best, tap, where=greater)
        np.copyto(places, corners + offset, where=greater)
    return best, places
