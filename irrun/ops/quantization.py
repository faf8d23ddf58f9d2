"""Quantization operations, which round to values of a narrower type and keep the element type."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["fake_convert_13", "fake_quantize_1"]


@op(
    "FakeQuantize",
    since=1,
    scratch=1.5,
    kind="elementwise",
    shape="infer_quantization",
    has_levels=True,
    decompression="scale",
    quantizes=True,
    discontinuous=True,
    flops=7,
)
@compute_in_float32
def fake_quantize_1(
    data: Array,
    input_low: Array,
    input_high: Array,
    output_low: Array,
    output_high: Array,
    *,
    levels: int,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_axis: int = 0,
) -> Array:
    """Limit `data` to [input_low, input_high], round it to `levels` steps, and map it to the output range.

    Args:
        data: Floating-point, any shape.
        input_low: The type of `data`, a shape that broadcasts to `data`.
        input_high: The type of `data`, a shape that broadcasts to `data`.
        output_low: The type of `data`, a shape that broadcasts to `data`.
        output_high: The type of `data`, a shape that broadcasts to `data`.
        levels: Number of values that the result can have, at least 2.
        auto_broadcast: Broadcasting rule.
        auto_broadcast_axis: First dimension that "pdpd" matches.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: A shape does not broadcast to `data`, or levels is below 2.

    Spec:
        FakeQuantize-1
    """
    if levels < 2:
        raise InputError(f"levels is {levels}, expected at least 2")
    limits = []
    for limit in (input_low, input_high, output_low, output_high):
        limit = apply_auto_broadcast(data, limit, auto_broadcast, auto_broadcast_axis)[1]
        _check_broadcast(data, limit)
        limits.append(limit)
    in_low, in_high, out_low, out_high = limits
    low, high = np.minimum(in_low, in_high), np.maximum(in_low, in_high)
    in_range, out_range = in_high - in_low, out_high - out_low
    if (in_range > 0).all() and np.isfinite(in_range).all() and np.isfinite(out_range).all():
        # Limited data maps to out_low exactly, and to out_high apart from the rounding error `correction`.
        result = _quantize(np.clip(data, low, high), in_low, in_range, out_low, out_range, levels)
        correction = out_high - (out_range + out_low)
        if correction.any():
            result += (data > high) * correction
        return result
    result = _quantize(data, in_low, in_range, out_low, out_range, levels)
    np.copyto(result, out_low, where=data <= low)
    np.copyto(result, out_high, where=data > high)
    return result


def _quantize(data: Array, in_low: Array, in_range: Array, out_low: Array, out_range: Array, levels: int) -> Array:
    # Each of these operations rounds, so they follow the order of the reference implementation.
    steps = data.dtype.type(levels - 1)
    result = np.empty(data.shape, data.dtype)
    np.subtract(data, in_low, out=result)
    result /= in_range
    result *= steps
    np.rint(result, out=result)
    result /= steps
    result *= out_range
    result += out_low
    return result


@op(
    "FakeConvert",
    since=13,
    scratch=7.5,
    kind="elementwise",
    shape="keep_shape",
    quantizes=True,
    discontinuous=True,
    flops=4,
    output_types=(0,),
)
def fake_convert_13(
    data: Array,
    scale: Array,
    shift: Array | None = None,
    *,
    destination_type: Literal["f8e4m3", "f8e5m2"] = "f8e4m3",
) -> Array:
    """Round `data * scale - shift` to an 8-bit float, then invert the scale and shift.

    Values that the 8-bit type cannot hold become its largest number. As in the reference implementation, values are
    converted through f16, and subnormal numbers of f8e4m3 are rounded as if they were normal before the bits that do
    not fit are dropped. OpenVINO's CPU plugin rounds subnormal numbers to nearest.

    Args:
        data: f16, bf16 or f32, any shape.
        scale: The type of `data`, a shape that broadcasts to `data`.
        shift: The type of `data`, a shape that broadcasts to `data`. 0 if omitted.
        destination_type: The 8-bit type.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: A shape does not broadcast to `data`.

    Spec:
        FakeConvert-13
    """
    offset = np.zeros((), data.dtype) if shift is None else shift
    for x in (scale, offset):
        _check_broadcast(data, x)
    scaled = (data * scale - offset).astype(np.float16)
    rounded = _round_to_f8e4m3(scaled) if destination_type == "f8e4m3" else _round_to_f8e5m2(scaled)
    result: Array = (rounded.astype(data.dtype) + offset) / scale
    return result


def _check_broadcast(data: Array, x: Array) -> None:
    fits = x.ndim <= data.ndim and all(
        n in (1, m) for n, m in zip(reversed(x.shape), reversed(data.shape), strict=False)
    )
    if not fits:
        raise InputError(f"shape {list(x.shape)} does not broadcast to the shape of data, {list(data.shape)}")


def _round_to_f8e5m2(x: Array) -> Array:
    import ml_dtypes

    largest = 57344.0  # infinity saturates too, NaN is unchanged
    rounded: Array = x.clip(-largest, largest).astype(ml_dtypes.float8_e5m2)
    return rounded.astype(np.float16)


def _round_to_f8e4m3(x: Array) -> Array:
    """Round f16 to the values of f8e4m3, bit by bit as the reference implementation does."""
    tiny = np.abs(x.astype(np.float32)) < 2.0**-9  # below the smallest subnormal number
    bits = np.where(tiny, 0, x.view(np.uint16).astype(np.int32))
    sign, exponent, mantissa = bits & 0x8000, (bits >> 10 & 0x1F) - 15, bits & 0x3FF
    # NaN and infinity become the largest number, 1.75 * 2**8, too.
    saturated = (exponent > 8) | ((exponent == 8) & (mantissa >= 0x300))
    exponent, mantissa = np.where(saturated, 8, exponent), np.where(saturated, 0x300, mantissa)
    # Round to nearest even with three bits of mantissa; a carry increments the exponent.
    up = ((mantissa & 0x7F) > 0x40) | ((mantissa & 0xC0) == 0xC0)
    mantissa = mantissa + (up.astype(np.int32) << 7)
    # Subnormal numbers have fewer bits; the others are dropped.
    dropped_bits = np.maximum(-6 - exponent, 0)
    mantissa = (mantissa >> dropped_bits & 0xFF80) << dropped_bits
    result: Array = (sign | (mantissa + (exponent + 15 << 10))).astype(np.uint16).view(np.float16)
    return result
