"""BinaryConvolution."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support.convolve import convolve
from irrun.ops._support.flops import count_convolution
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, create_windows

__all__ = ["binary_convolution_1"]


@op("BinaryConvolution", since=1, kind="window", shape="infer_convolution", flops=count_convolution())
def binary_convolution_1(
    data: Array,
    filters: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    mode: Literal["xnor-popcount"],
    pad_value: float,
    auto_pad: AutoPad = "explicit",
) -> Array:
    """Compute a convolution of bits: the number of equal bits minus the number of different bits in each window.

    Args:
        data: Numeric, shape [N, C_IN, Y, X]; zeros and ones. Other values are equal to neither bit.
        filters: u1, shape [C_OUT, C_IN, kernel...].
        strides: Distance between neighboring windows along each spatial axis.
        pads_begin: Padding before the data. Negative values crop.
        pads_end: Padding after the data. Negative values crop.
        dilations: Distance between neighboring elements of a window.
        mode: How bits are combined.
        pad_value: The value of the padding. Values other than 0 and 1 differ from both bits.
        auto_pad: Padding mode.

    Returns:
        Shape [N, C_OUT, windows...], the type of `data`.

    Raises:
        InputError: Ranks, channels or attributes do not match, or a window exceeds the padded data.

    Spec:
        BinaryConvolution-1
    """
    if filters.ndim < 3:
        raise InputError(f"filters has shape {list(filters.shape)}, expected [C_OUT, C_IN, kernel...]")
    bits = filters["u1"] if filters.dtype == ELEMENT_TYPES["u1"].dtype else filters
    return _convolve_bits(
        data,
        bits,
        strides=strides,
        pads_begin=pads_begin,
        pads_end=pads_end,
        dilations=dilations,
        pad_value=pad_value,
        auto_pad=auto_pad,
    )


@compute_in_float32
def _convolve_bits(
    data: Array,
    bits: Array,
    *,
    strides: list[int],
    pads_begin: list[int],
    pads_end: list[int],
    dilations: list[int],
    pad_value: float,
    auto_pad: AutoPad,
) -> Array:
    windows = create_windows(data.shape[2:], bits.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    padded = windows.pad(data, np.array(pad_value).astype(data.dtype))
    windows = create_windows(padded.shape[2:], windows.kernel, strides, dilations, [], [])
    # Bits become -1 and 1, and other values 0: a product is 1 for equal bits and -1 for different ones.
    signs = (padded == 1).astype(np.float32) - (padded == 0)
    result = convolve(signs, (bits.astype(np.float32) * 2 - 1)[np.newaxis], windows)
    # Values other than 0 and 1 count as different from the filter, but their products are 0.
    is_other = signs == 0
    if is_other.any():
        ones = np.ones((1, 1, *bits.shape[1:]), np.float32)
        result -= convolve(is_other.astype(np.float32), ones, windows)
    return result.astype(data.dtype)
