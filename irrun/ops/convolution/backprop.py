"""Transposed convolution: ConvolutionBackpropData and GroupConvolutionBackpropData."""

from __future__ import annotations

import math

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_transposed_convolution
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, Windows, expand_attribute, pad_spatial

__all__ = ["convolution_backprop_data_1", "group_convolution_backprop_data_1"]

#: Number of window elements that are computed at a time before they are added to the output.
BLOCK_SIZE = 1 << 18


@op(
    "ConvolutionBackpropData",
    since=1,
    scratch=1.25,
    kind="window",
    shape="infer_transposed_convolution",
    is_overwritable=True,
    shaped_by=(2,),
    channel_axis=1,
    flops=count_transposed_convolution(),
)
def convolution_backprop_data_1(
    data: Array,
    filters: Array,
    output_shape: Array | None = None,
    *,
    strides: list[int],
    dilations: list[int],
    pads_begin: list[int] = [],
    pads_end: list[int] = [],
    auto_pad: AutoPad = "explicit",
    output_padding: list[int] = [],
) -> Array:
    """Compute a transposed convolution: the gradient of Convolution with respect to its input.

    Args:
        data: Numeric, shape [N, C_IN, spatial...].
        filters: The type of `data`, shape [C_IN, C_OUT, kernel...].
        output_shape: Integer, one value for each spatial axis. If `auto_pad` is "same_upper" or "same_lower", the
            padding is computed from it. With explicit padding, `pads_begin` still crops, although the specification
            ignores the pads, and the output is cropped or padded at its end.
        strides: Distance between neighboring windows of the output.
        dilations: Distance between neighboring elements of a window.
        pads_begin: Number of elements that are cropped before the output.
        pads_end: Number of elements that are cropped after the output.
        auto_pad: Padding mode.
        output_padding: Number of elements that are added after the output.

    Returns:
        Shape [N, C_OUT, output_shape...], the type of `data`.

    Raises:
        InputError: Ranks, channels or attributes do not match, or the output would be empty.

    Spec:
        ConvolutionBackpropData-1
    """
    if filters.ndim < 3:
        raise InputError(f"filters has shape {list(filters.shape)}, expected [C_IN, C_OUT, kernel...]")
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


@op(
    "GroupConvolutionBackpropData",
    since=1,
    kind="window",
    shape="infer_transposed_convolution",
    is_overwritable=True,
    shaped_by=(2,),
    flops=count_transposed_convolution(leading=2),
    has_groups=True,
)
@compute_in_float32
@describes_like(convolution_backprop_data_1)
def group_convolution_backprop_data_1(
    data: Array,
    filters: Array,
    output_shape: Array | None = None,
    *,
    strides: list[int],
    dilations: list[int],
    pads_begin: list[int] = [],
    pads_end: list[int] = [],
    auto_pad: AutoPad = "explicit",
    output_padding: list[int] = [],
) -> Array:
    """Compute a transposed convolution for each group of channels.

    Args:
        data: Numeric, shape [N, GROUPS * C_IN, spatial...].
        filters: The type of `data`, shape [GROUPS, C_IN, C_OUT, kernel...].
        output_shape: Integer, one value for each spatial axis; see ConvolutionBackpropData-1.

    Returns:
        Shape [N, GROUPS * C_OUT, output_shape...], the type of `data`.

    Spec:
        GroupConvolutionBackpropData-1
    """
    groups, c_in = filters.shape[:2] if filters.ndim > 3 else (0, 0)
    if data.ndim != filters.ndim - 1 or data.shape[1] != groups * c_in:
        raise InputError(
            f"data of shape {list(data.shape)} does not match filters [GROUPS, C_IN, C_OUT, kernel...] "
            f"of shape {list(filters.shape)}"
        )
    spatial, kernel, rank = data.shape[2:], filters.shape[3:], data.ndim - 2
    if 0 in (*spatial, *kernel):
        raise InputError(
            f"data has shape {list(data.shape)} and filters {list(filters.shape)}, expected no empty spatial axis"
        )
    no_pads = (0,) * rank
    windows = Windows(
        kernel,
        expand_attribute("strides", strides, rank, 1, minimum=1),
        expand_attribute("dilations", dilations, rank, 1, minimum=1),
        no_pads,
        no_pads,
        spatial,
    )
    padding = expand_attribute("output_padding", output_padding, rank, 0)
    extent = windows.get_extent()
    begin, end = no_pads, no_pads
    if auto_pad in ("explicit", "notset"):
        begin = expand_attribute("pads_begin", pads_begin, rank, 0)
        end = expand_attribute("pads_end", pads_end, rank, 0)
    if output_shape is None:
        out = tuple(n + p - b - e for n, p, b, e in zip(extent, padding, begin, end, strict=True))
    else:
        out = expand_attribute("output_shape", to_int_list(output_shape), rank, 1)
        if auto_pad in ("same_upper", "same_lower"):
            total = [max(n + p - o, 0) for n, p, o in zip(extent, padding, out, strict=True)]
            begin = tuple(t - t // 2 if auto_pad == "same_upper" else t // 2 for t in total)
    if min(out) <= 0:
        raise InputError(f"the output would have the spatial shape {list(out)}")
    channels = data.shape[0] * groups * filters.shape[2]
    for shape in (extent, out):
        check_allocation((channels, *shape), data.dtype)
    products = math.prod((*kernel, *spatial))  # of one channel, in the smallest block
    check_scratch((channels * (math.prod(extent) + math.prod(out)) + products) * data.itemsize)
    summed = _sum_windows(data.reshape(data.shape[0], groups, c_in, math.prod(spatial)), filters, windows)
    return pad_spatial(summed, [-b for b in begin], [o - n + b for o, n, b in zip(out, extent, begin, strict=True)])


def _sum_windows(data: Array, filters: Array, windows: Windows) -> Array:
    """Add up the windows of data [N, GROUPS, C_IN, positions]; the result is [N, GROUPS * C_OUT, extent...]."""
    groups, c_in, c_out = filters.shape[:3]
    batch = data.shape[0]
    result = np.zeros((batch, groups, c_out, *windows.get_extent()), data.dtype)
    taps = math.prod(windows.kernel)
    weights = filters.reshape(groups, c_in, c_out, taps).transpose(0, 2, 3, 1)
    for n, g, c in within_time(_split_into_blocks(batch, groups, c_out, taps * math.prod(windows.output_shape))):
        block = weights[g, c]
        products = matmul(block.reshape(block.shape[0], block.shape[1] * taps, c_in), data[n, g])
        products = products.reshape(-1, *block.shape[:3], *windows.output_shape)
        for tap, (_, target) in enumerate(windows.iterate_taps(result[n, g, c])):
            target += products[:, :, :, tap]
    return result.reshape(batch, groups * c_out, *result.shape[3:])


def _split_into_blocks(batch: int, groups: int, c_out: int, size: int) -> list[tuple[slice, slice, slice]]:
    """Return slices of the batch, the groups and output channels, about BLOCK_SIZE elements per block."""
    channel_step = max(1, BLOCK_SIZE // max(1, size))
    group_step = max(1, BLOCK_SIZE // max(1, size * c_out))
    batch_step = max(1, BLOCK_SIZE // max(1, size * c_out * groups))
    return [
        (slice(n, n + batch_step), slice(g, g + group_step), slice(c, c + channel_step))
        for n in range(0, batch, batch_step)
        for g in range(0, groups, group_step)
        for c in range(0, c_out, channel_step)
    ]
