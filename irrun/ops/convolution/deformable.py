"""DeformableConvolution: every element of a window is read where its offset says, between the pixels."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Windows, place_windows

__all__ = ["deformable_convolution_1", "deformable_convolution_8"]

#: Elements that are sampled at a time: all that a sample is made of stays in the caches.
BLOCK = 1 << 16


@op("DeformableConvolution", since=1)
def deformable_convolution_1(
    data: Array,
    offsets: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
    group: int = 1,
    deformable_group: int = 1,
) -> Array:
    """DeformableConvolution-8 without a mask, and with nothing read beyond the border.

    data: numeric [N, C, Y, X]; offsets: [N, deformable_group * taps * 2, OY, OX]; filters: [C_OUT, C / group, kernel].
    Returns [N, C_OUT, OY, OX], the type of data.
    Raises InputError where shapes or attributes do not fit.
    Spec: DeformableConvolution-1.
    """
    return deformable_convolution_8(
        data,
        offsets,
        filters,
        strides=strides,
        pads_begin=pads_begin,
        pads_end=pads_end,
        dilations=dilations,
        auto_pad=auto_pad,
        group=group,
        deformable_group=deformable_group,
    )


@op("DeformableConvolution", since=8)
@compute_in_float32
def deformable_convolution_8(
    data: Array,
    offsets: Array,
    filters: Array,
    mask: Array | None = None,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
    group: int = 1,
    deformable_group: int = 1,
    bilinear_interpolation_pad: bool = False,
) -> Array:
    """Convolution whose windows are bent: each of their elements is moved by an offset of its own.

    data: numeric [N, C, Y, X]; offsets: the same type, [N, deformable_group * taps * 2, OY, OX], the shift of
    each tap along Y and along X; filters: [C_OUT, C / group, KY, KX]; mask: [N, deformable_group * taps, OY, OX],
    a factor for each tap.
    What lies between pixels is interpolated; outside of data it is zero. What is less than a pixel outside counts as
    the border pixel behind the last one, but, unlike the specification says, not before the first one; with
    `bilinear_interpolation_pad` it is interpolated between the border and zeros on all sides.
    Returns [N, C_OUT, OY, OX], the type of data.
    Raises InputError where shapes or attributes do not fit.
    Spec: DeformableConvolution-8.
    """
    if data.ndim != 4 or filters.ndim != 4:
        raise InputError(f"data and filters have shapes {list(data.shape)} and {list(filters.shape)}, expected rank 4")
    batch, channels = data.shape[:2]
    c_out = filters.shape[0]
    windows = place_windows(data.shape[2:], filters.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    if (
        min(group, deformable_group) < 1
        or channels != filters.shape[1] * group
        or c_out % group
        or channels % deformable_group
    ):
        raise InputError(
            f"{channels} channels and filters of shape {list(filters.shape)} do not fit group {group} "
            f"and deformable_group {deformable_group}"
        )
    taps, positions = windows.kernel[0] * windows.kernel[1], windows.out[0] * windows.out[1]
    _check_shape("offsets", offsets, (batch, deformable_group * taps * 2, *windows.out))
    shifts = offsets.reshape(batch, deformable_group, taps, 2, positions)
    factors = np.ones((batch, deformable_group, taps, positions), data.dtype)
    if mask is not None:
        _check_shape("mask", mask, (batch, deformable_group * taps, *windows.out))
        factors = mask.reshape(factors.shape)
    planes = data.reshape(batch, deformable_group, channels // deformable_group, data.shape[2] * data.shape[3])
    corners = _corners(windows).astype(data.dtype)
    weights = filters.reshape(group, c_out // group, channels // group * taps)
    result = np.empty((batch, group, c_out // group, positions), data.dtype)
    step = max(1, BLOCK // max(1, channels * taps))
    for n, start in itertools.product(range(batch), range(0, positions, step)):
        part = slice(start, start + step)
        points = (corners[..., part] + shifts[n, ..., part]).astype(np.float32)
        seen = [
            _sample(plane, data.shape[2:], y, x, bilinear_interpolation_pad).astype(data.dtype) * factor
            for plane, (y, x), factor in zip(planes[n], points.swapaxes(1, 2), factors[n, ..., part], strict=True)
        ]
        columns = np.stack(seen).reshape(group, weights.shape[2], points.shape[-1])
        matmul(weights, columns, out=result[n, ..., part])
    return result.reshape(batch, c_out, *windows.out)


def _check_shape(name: str, x: Array, expected: tuple[int, ...]) -> None:
    if x.shape != expected:
        raise InputError(f"{name} has shape {list(x.shape)}, expected {list(expected)}")


def _corners(windows: Windows) -> Array:
    """Where the taps stand without offsets: [taps, (y, x), positions]."""
    along = [
        (np.arange(k) * d - b)[:, np.newaxis] + np.arange(n) * s
        for k, d, b, n, s in zip(
            windows.kernel, windows.dilations, windows.begin, windows.out, windows.strides, strict=True
        )
    ]
    shape = (*windows.kernel, *windows.out)
    y = np.broadcast_to(along[0][:, np.newaxis, :, np.newaxis], shape)
    x = np.broadcast_to(along[1][np.newaxis, :, np.newaxis, :], shape)
    taps = windows.kernel[0] * windows.kernel[1]
    return np.stack([y.reshape(taps, -1), x.reshape(taps, -1)], axis=1)


def _sample(planes: Array, size: tuple[int, ...], y: Array, x: Array, padded: bool) -> Array:
    """`planes` [C, Y * X] read at the points (y, x), each of shape P: [C, *P] in f32."""
    height, width = size
    if padded:  # what is less than a pixel outside still touches the border
        inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    else:
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    y, x = np.where(inside, y, 0), np.where(inside, x, 0)
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    low, right = y - top, x - left
    # Without padding, the last pixel goes on beyond the border.
    bottom = top + 1 if padded else np.minimum(top + 1, height - 1)
    end = left + 1 if padded else np.minimum(left + 1, width - 1)
    planes = planes.astype(np.float32, copy=False)
    result: Array = np.zeros((planes.shape[0], *y.shape), np.float32)
    for row, vertical in ((top, 1 - low), (bottom, low)):
        for column, horizontal in ((left, 1 - right), (end, right)):
            exists = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = np.where(exists, row * width + column, 0)
            result += planes[:, place] * np.where(exists, vertical * horizontal, 0)
    return result
