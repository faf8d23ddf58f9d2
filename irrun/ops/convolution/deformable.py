"""DeformableConvolution."""

from __future__ import annotations

import itertools
import math

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.checks import check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Windows, create_windows

__all__ = ["deformable_convolution_1", "deformable_convolution_8"]

#: Number of elements that are sampled at a time: few enough for the processor's cache.
BLOCK_SIZE = 1 << 16


def _count_flops(call: Call) -> int:
    """Count the convolution and the bilinear interpolation of its inputs."""
    filters, output = call.get_shape(2), call.outputs[0]
    samples = output.size // max(output.shape[1], 1) * call.get_shape(0)[1] * math.prod(filters[2:])
    return int(2 * output.size * math.prod(filters[1:])) + int(samples) * (8 + call.has_input(3))


@op(
    "DeformableConvolution",
    since=1,
    scratch=2,
    kind="window",
    shape="infer_deformable_convolution",
    shaped_by=(),
    flops=_count_flops,
)
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
    """Compute a deformable convolution: DeformableConvolution-8 without a mask and without interpolation padding.

    Args:
        data: Numeric, shape [N, C, Y, X].
        offsets: The type of `data`, shape [N, deformable_group * taps * 2, OY, OX].
        filters: The type of `data`, shape [C_OUT, C / group, KY, KX].
        strides: Distance between neighboring windows along each spatial axis.
        pads_begin: Padding before the data.
        pads_end: Padding after the data.
        dilations: Distance between neighboring elements of a window.
        auto_pad: Padding mode.
        group: Number of groups of channels.
        deformable_group: Number of groups of channels that share offsets.

    Returns:
        Shape [N, C_OUT, OY, OX], the type of `data`.

    Raises:
        InputError: Shapes or attributes do not match.

    Spec:
        DeformableConvolution-1
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


@op(
    "DeformableConvolution",
    since=8,
    scratch=2,
    kind="window",
    shape="infer_deformable_convolution",
    shaped_by=(),
    flops=_count_flops,
)
@compute_in_float32
@describes_like(deformable_convolution_1)
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
    """Compute a convolution that moves each element of each window by an offset.

    Values between pixels are interpolated bilinearly, and values outside of `data` are 0.

    Args:
        offsets: The type of `data`, shape [N, deformable_group * taps * 2, OY, OX]: the shift of each tap along Y
            and along X.
        mask: The type of `data`, shape [N, deformable_group * taps, OY, OX]: a factor for each tap.
        bilinear_interpolation_pad: Whether points less than one pixel outside of `data` are interpolated between the
            border and zeros. If not, such points have the value of the border pixel after the last pixel and 0 before
            the first pixel. The specification uses the border pixel on both sides.

    Spec:
        DeformableConvolution-8
    """
    if data.ndim != 4 or filters.ndim != 4:
        raise InputError(f"data and filters have shapes {list(data.shape)} and {list(filters.shape)}, expected rank 4")
    batch, channels = data.shape[:2]
    c_out = filters.shape[0]
    windows = create_windows(data.shape[2:], filters.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    if (
        min(group, deformable_group) < 1
        or channels != filters.shape[1] * group
        or c_out % group
        or channels % deformable_group
    ):
        raise InputError(
            f"{channels} channels and filters of shape {list(filters.shape)} do not match group {group} "
            f"and deformable_group {deformable_group}"
        )
    output_shape = windows.output_shape
    taps, positions = windows.kernel[0] * windows.kernel[1], output_shape[0] * output_shape[1]
    check_shape("offsets", offsets, batch, deformable_group * taps * 2, *output_shape)
    shifts = offsets.reshape(batch, deformable_group, taps, 2, positions)
    factors = np.ones((batch, deformable_group, taps, positions), data.dtype)
    if mask is not None:
        check_shape("mask", mask, batch, deformable_group * taps, *output_shape)
        factors = mask.reshape(factors.shape)
    planes = data.reshape(batch, deformable_group, channels // deformable_group, data.shape[2] * data.shape[3])
    grid = _compute_grid(windows).astype(data.dtype)
    weights = filters.reshape(group, c_out // group, channels // group * taps)
    result = np.empty((batch, group, c_out // group, positions), data.dtype)
    step = max(1, BLOCK_SIZE // max(1, channels * taps))
    for n, start in within_time(itertools.product(range(batch), range(0, positions, step))):
        block = slice(start, start + step)
        points = (grid[..., block] + shifts[n, ..., block]).astype(np.float32)
        samples = [
            _sample(plane, data.shape[2:], y, x, bilinear_interpolation_pad).astype(data.dtype) * factor
            for plane, (y, x), factor in zip(planes[n], points.swapaxes(1, 2), factors[n, ..., block], strict=True)
        ]
        columns = np.stack(samples).reshape(group, weights.shape[2], points.shape[-1])
        matmul(weights, columns, out=result[n, ..., block])
    return result.reshape(batch, c_out, *output_shape)


def _compute_grid(windows: Windows) -> Array:
    """Return the coordinates of the taps without offsets, shape [taps, (y, x), positions]."""
    y_along, x_along = (
        (np.arange(k) * d - b)[:, np.newaxis] + np.arange(n) * s
        for k, d, b, n, s in zip(
            windows.kernel, windows.dilations, windows.pads_begin, windows.output_shape, windows.strides, strict=True
        )
    )
    shape = (*windows.kernel, *windows.output_shape)
    y = np.broadcast_to(y_along[:, np.newaxis, :, np.newaxis], shape)
    x = np.broadcast_to(x_along[np.newaxis, :, np.newaxis, :], shape)
    taps = windows.kernel[0] * windows.kernel[1]
    return np.stack([y.reshape(taps, -1), x.reshape(taps, -1)], axis=1)


def _sample(planes: Array, size: tuple[int, ...], y: Array, x: Array, interpolate_padding: bool) -> Array:
    """Interpolate planes [C, Y * X] at the points (y, x) of shape P; the result is [C, *P] in f32."""
    height, width = size
    if interpolate_padding:  # points less than one pixel outside still have a neighbor inside
        inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    else:
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    y, x = np.where(inside, y, 0), np.where(inside, x, 0)
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    y_weight, x_weight = y - top, x - left
    # Without interpolation padding the last pixel extends beyond the border.
    bottom = top + 1 if interpolate_padding else np.minimum(top + 1, height - 1)
    right = left + 1 if interpolate_padding else np.minimum(left + 1, width - 1)
    planes = planes.astype(np.float32, copy=False)
    result: Array = np.zeros((planes.shape[0], *y.shape), np.float32)
    for row, row_weight in ((top, 1 - y_weight), (bottom, y_weight)):
        for column, column_weight in ((left, 1 - x_weight), (right, x_weight)):
            is_pixel = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = np.where(is_pixel, row * width + column, 0)
            result += planes[:, index] * np.where(is_pixel, row_weight * column_weight, 0)
    return result
