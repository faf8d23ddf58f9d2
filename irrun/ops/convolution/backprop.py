"""ConvolutionBackpropData and GroupConvolutionBackpropData: transposed convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Windows, fill, pad_spatial

__all__ = ["convolution_backprop_data_1", "group_convolution_backprop_data_1"]

NOTHING: list[int] = []

#: Elements of the windows that are worked out at a time, before they are added up.
BLOCK = 1 << 18


@op("ConvolutionBackpropData", since=1)
def convolution_backprop_data_1(
    data: Array,
    filters: Array,
    output_shape: Array | None = None,
    *,
    strides: list[int],
    dilations: list[int],
    pads_begin: list[int] = NOTHING,
    pads_end: list[int] = NOTHING,
    auto_pad: AutoPad = "explicit",
    output_padding: list[int] = NOTHING,
) -> Array:
    """What Convolution hands back to its input: every element spreads over a window, weighted by the filters.

    data: numeric [N, C_IN, spatial...]; filters: the same type, [C_IN, C_OUT, kernel...]; output_shape: integer,
    one value for each spatial axis.
    With output_shape, padding is spread by `auto_pad` "same_upper" and "same_lower" alone: explicit pads count as
    well, where the specification has them ignored, and what is missing or left over is at the end.
    Returns [N, C_OUT, output_shape...], the type of data.
    Raises InputError where ranks, channels or attributes do not fit, or nothing would be left of an axis.
    Spec: ConvolutionBackpropData-1.
    """
    if filters.ndim < 3:
        raise InputError(f"filters have shape {list(filters.shape)}, expected [C_IN, C_OUT, kernel...]")
    return group_convolution_backprop_data_1(
        data,
        filters[np.newaxis],
        output_shape,
        strides=strides,
        dilations=dilations,
        pads_begin=pads_begin,
        pads_end=pads_end,
        auto_pad=auto_pad,
        output_padding=output_padding,
    )


@op("GroupConvolutionBackpropData", since=1)
@compute_in_float32
def group_convolution_backprop_data_1(
    data: Array,
    filters: Array,
    output_shape: Array | None = None,
    *,
    strides: list[int],
    dilations: list[int],
    pads_begin: list[int] = NOTHING,
    pads_end: list[int] = NOTHING,
    auto_pad: AutoPad = "explicit",
    output_padding: list[int] = NOTHING,
) -> Array:
    """ConvolutionBackpropData in which each group of channels is on its own.

    data: numeric [N, GROUPS * C_IN, spatial...]; filters: the same type, [GROUPS, C_IN, C_OUT, kernel...];
    output_shape: integer, one value for each spatial axis, as for ConvolutionBackpropData.
    Returns [N, GROUPS * C_OUT, output_shape...], the type of data.
    Raises InputError where ranks, channels or attributes do not fit, or nothing would be left of an axis.
    Spec: GroupConvolutionBackpropData-1.
    """
    groups, c_in = filters.shape[:2] if filters.ndim > 3 else (0, 0)
    if data.ndim != filters.ndim - 1 or data.shape[1] != groups * c_in:
        raise InputError(
            f"data of shape {list(data.shape)} does not fit filters [GROUPS, C_IN, C_OUT, kernel...] "
            f"of shape {list(filters.shape)}"
        )
    spatial, kernel, rank = data.shape[2:], filters.shape[3:], data.ndim - 2
    steps = fill("strides", strides, rank, 1, at_least=1)
    apart = fill("dilations", dilations, rank, 1, at_least=1)
    more = fill("output_padding", output_padding, rank, 0)
    none = (0,) * rank
    windows = Windows(kernel, steps, apart, none, none, spatial)
    if 0 in (*spatial, *kernel):
        raise InputError(f"data of shape {list(data.shape)} and filters of shape {list(filters.shape)} give no windows")
    full = windows.reach()
    begin, end = none, none
    if auto_pad in ("explicit", "notset"):
        begin, end = fill("pads_begin", pads_begin, rank, 0), fill("pads_end", pads_end, rank, 0)
    if output_shape is None:
        out = tuple(f + m - b - e for f, m, b, e in zip(full, more, begin, end, strict=True))
    else:
        out = fill("output_shape", to_int_list(output_shape), rank, 1)
        if auto_pad in ("same_upper", "same_lower"):
            total = [max(f + m - o, 0) for f, m, o in zip(full, more, out, strict=True)]
            begin = tuple(t - t // 2 if auto_pad == "same_upper" else t // 2 for t in total)
    if min(out) <= 0:
        raise InputError(f"the output would have the spatial shape {list(out)}")
    for touched in (full, out):
        check_allocation((data.shape[0], groups, filters.shape[2], *touched), data.dtype)
    canvas = _spread(data.reshape(data.shape[0], groups, c_in, math.prod(spatial)), filters, windows)
    return pad_spatial(canvas, [-b for b in begin], [o - f + b for o, f, b in zip(out, full, begin, strict=True)])


def _spread(data: Array, filters: Array, windows: Windows) -> Array:
    """The sum of all windows: data [N, groups, C_IN, positions] -> [N, groups * C_OUT, all that is touched]."""
    groups, c_in, c_out = filters.shape[:3]
    batch = data.shape[0]
    canvas = np.zeros((batch, groups, c_out, *windows.reach()), data.dtype)
    taps = math.prod(windows.kernel)
    weights = filters.reshape(groups, c_in, c_out, taps).transpose(0, 2, 3, 1)
    for n, g, c in _blocks(batch, groups, c_out, taps * math.prod(windows.out)):
        part = weights[g, c]
        spread = matmul(part.reshape(part.shape[0], part.shape[1] * taps, c_in), data[n, g])
        spread = spread.reshape(*part.shape[:3], *windows.out)
        for tap, (_, target) in enumerate(windows.taps(canvas[n, g, c])):
            target += spread[:, :, tap]
    return canvas.reshape(batch, groups * c_out, *canvas.shape[3:])


def _blocks(batch: int, groups: int, c_out: int, size: int) -> Sequence[tuple[int, slice, slice]]:
    """Each batch entry with slices of the groups and the output channels: a block has about BLOCK elements."""
    c_step = max(1, BLOCK // max(1, size))
    g_step = max(1, BLOCK // max(1, size * c_out))
    return [
        (n, slice(g, g + g_step), slice(c, c + c_step))
        for n in range(batch)
        for g in range(0, groups, g_step)
        for c in range(0, c_out, c_step)
    ]
