"""Quantization operations: they round to what a narrower type could hold, and stay in the type they came in."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["fake_convert_13", "fake_quantize_1"]


@op("FakeQuantize", since=1, folding="elementwise")
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
    """`data` clamped to [input_low, input_high], rounded to `levels` steps, and mapped to the output range.

    data: floating point, any shape; the four limits: the same type, shapes that broadcast to that of data.
    Returns the shape and type of data.
    Raises InputError where shapes do not broadcast, or levels is below 2.
    Spec: FakeQuantize-1.
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
    width, reach = in_high - in_low, out_high - out_low
    if (width > 0).all() and np.isfinite(width).all() and np.isfinite(reach).all():
        # The lower end of clamped data comes out right by itself, the upper one but for what rounding adds.
        result = _quantized(np.clip(data, low, high), in_low, width, out_low, reach, levels)
        missing = out_high - (reach + out_low)
        if missing.any():
            result += (data > high) * missing
        return result
    result = _quantized(data, in_low, width, out_low, reach, levels)
    np.copyto(result, out_low, where=data <= low)
    np.copyto(result, out_high, where=data > high)
    return result


def _quantized(data: Array, in_low: Array, width: Array, out_low: Array, reach: Array, levels: int) -> Array:
    """The order of the operations is the reference's: every one of them rounds."""
    steps = data.dtype.type(levels - 1)
    result = np.empty(data.shape, data.dtype)
    np.subtract(data, in_low, out=result)
    result /= width
    result *= steps
    np.rint(result, out=result)
    result /= steps
    result *= reach
    result += out_low
    return result


@op("FakeConvert", since=13, folding="elementwise")
def fake_convert_13(
    data: Array,
    scale: Array,
    shift: Array | None = None,
    *,
    destination_type: Literal["f8e4m3", "f8e5m2"],
) -> Array:
    """`data * scale - shift` rounded to an 8-bit float, then scaled and shifted back.

    data: f16, bf16 or f32, any shape; scale, shift: the same type, shapes that broadcast to that of data.
    What the 8-bit type cannot hold becomes its largest number. Follows the reference, which passes through f16 and
    rounds subnormal numbers of f8e4m3 as if they were normal, then cuts the bits that do not fit.
    Returns the shape and type of data.
    Raises InputError where shapes do not broadcast.
    Spec: FakeConvert-13.
    """
    offset = np.zeros((), data.dtype) if shift is None else shift
    for limit in (scale, offset):
        _check_broadcast(data, limit)
    scaled = (data * scale - offset).astype(np.float16)
    rounded = _through_f8e4m3(scaled) if destination_type == "f8e4m3" else _through_f8e5m2(scaled)
    result: Array = (rounded.astype(data.dtype) + offset) / scale
    return result


def _check_broadcast(data: Array, x: Array) -> None:
    fits = x.ndim <= data.ndim and all(
        n in (1, m) for n, m in zip(reversed(x.shape), reversed(data.shape), strict=False)
    )
    if not fits:
        raise InputError(f"shape {list(x.shape)} does not broadcast to that of data, {list(data.shape)}")


def _through_f8e5m2(x: Array) -> Array:
    largest = 57344.0  # infinity saturates as well, NaN stays
    rounded: Array = x.clip(-largest, largest).astype(ml_dtypes.float8_e5m2)
    return rounded.astype(np.float16)


def _through_f8e4m3(x: Array) -> Array:
    """`x` (f16) with what f8e4m3 holds of it, worked out on the bits as the reference does."""
    tiny = np.abs(x.astype(np.float32)) < 2.0**-9  # below the smallest subnormal number
    bits = np.where(tiny, 0, x.view(np.uint16).astype(np.int32))
    sign, exponent, mantissa = bits & 0x8000, (bits >> 10 & 0x1F) - 15, bits & 0x3FF
    # The largest number is 1.75 * 2**8; NaN and infinity become it as well.
    saturated = (exponent > 8) | ((exponent == 8) & (mantissa >= 0x300))
    exponent, mantissa = np.where(saturated, 8, exponent), np.where(saturated, 0x300, mantissa)
    # Round to three bits of mantissa, to nearest even; a carry goes on into the exponent.
    up = ((mantissa & 0x7F) > 0x40) | ((mantissa & 0xC0) == 0xC0)
    mantissa = mantissa + (up.astype(np.int32) << 7)
    # Subnormal numbers have fewer bits: what is left of them is cut off.
    missing = np.maximum(-6 - exponent, 0)
    mantissa = (mantissa >> missing & 0xFF80) << missing
    result: Array = (sign | (mantissa + (exponent + 15 << 10))).astype(np.uint16).view(np.float16)
    return result
