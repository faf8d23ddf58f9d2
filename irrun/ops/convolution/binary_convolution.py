"""BinaryConvolution: data and filters of zeros and ones that stand for -1 and 1."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.windows import AutoPad, place_windows
from irrun.ops.convolution.forward import convolve

__all__ = ["binary_convolution_1"]


@op("BinaryConvolution", since=1)
@compute_in_float32
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
    """Convolution of bits: per window the number of data elements that equal the filter's, minus those that do not.

    data: numeric [N, C_IN, Y, X] of zeros and ones; filters: u1 [C_OUT, C_IN, kernel...].
    Padding counts as the bit `pad_value`; a value that is neither 0 nor 1 equals no bit.
    Returns [N, C_OUT, windows...], the type of data.
    Raises InputError where ranks, channels or attributes do not fit, or a window exceeds the padded data.
    Spec: BinaryConvolution-1.
    """
    if filters.ndim < 3:
        raise InputError(f"filters have shape {list(filters.shape)}, expected [C_OUT, C_IN, kernel...]")
    bits = filters["u1"] if filters.dtype.names else filters
    windows = place_windows(data.shape[2:], bits.shape[2:], strides, dilations, pads_begin, pads_end, auto_pad)
    padded = windows.covered(data, np.array(pad_value).astype(data.dtype))
    inside = place_windows(padded.shape[2:], windows.kernel, strides, dilations, [], [])
    # With data as -1 and 1, zero where it is no bit, and filters as -1 and 1, a product says whether they agree.
    signs = (padded == 1).astype(np.float32) - (padded == 0)
    agreeing = convolve(signs, (bits.astype(np.float32) * 2 - 1)[np.newaxis], inside)
    # What is no bit agrees with none: it is in no product, so it is taken off here.
    foreign = np.abs(signs) == 0
    if foreign.any():
        ones = np.ones((1, 1, *bits.shape[1:]), np.float32)
        agreeing -= convolve(foreign.astype(np.float32), ones, inside)
    return agreeing.astype(data.dtype)
