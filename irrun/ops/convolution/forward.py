"""Convolution and GroupConvolution."""

from __future__ import annotations

from functools import partial

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.convolve import convolve
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_convolution
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, create_windows

__all__ = ["convolution_1", "group_convolution_1"]

_convolution = partial(
    op,
    scratch=2,
    kind="window",
    shape="infer_convolution",
    convolves=True,
    is_overwritable=True,
    shaped_by=(),
    channel_axis=1,
)


@_convolution("Convolution", since=1, flops=count_convolution())
@compute_in_float32
def convolution_1(
    data: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute a 1D, 2D or 3D convolution.

    Args:
        data: Numeric, shape [N, C_IN, spatial...].
        filters: The type of `data`, shape [C_OUT, C_IN, kernel...].
        strides: Distance between neighboring windows along each spatial axis.
        pads_begin: Padding before the data. Negative values crop.
        pads_end: Padding after the data. Negative values crop.
        dilations: Distance between neighboring elements of a window.
        auto_pad: Padding mode.

    Returns:
        Shape [N, C_OUT, windows...], the type of `data`.

    Raises:
        InputError: Ranks, channels or attributes do not match, or a window exceeds the padded data.

    Spec:
        Convolution-1
    """
    if filters.ndim < 3:
        raise InputError(f"filters has shape {list(filters.shape)}, expected [C_OUT, C_IN, kernel...]")
    windows = create_windows(data.shape[2:], filters.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    return convolve(data, filters[np.newaxis], windows)


@_convolution("GroupConvolution", since=1, flops=count_convolution(leading=2), has_groups=True)
@compute_in_float32
@describes_like(convolution_1)
def group_convolution_1(
    data: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute a convolution for each group of channels.

    Args:
        data: Numeric, shape [N, GROUPS * C_IN, spatial...].
        filters: The type of `data`, shape [GROUPS, C_OUT, C_IN, kernel...].

    Returns:
        Shape [N, GROUPS * C_OUT, windows...], the type of `data`.

    Spec:
        GroupConvolution-1
    """
    if filters.ndim < 4:
        raise InputError(f"filters has shape {list(filters.shape)}, expected [GROUPS, C_OUT, C_IN, kernel...]")
    windows = create_windows(data.shape[2:], filters.shape[3:], strides, dilations, pads_begin, pads_end, auto_pad)
    return convolve(data, filters, windows)
