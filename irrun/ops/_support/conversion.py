"""Conversion between element types, by the rules of Convert."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.numerics import Array, cast_to_integers

__all__ = ["convert"]

#: The values of the codes of nf4: quantiles of the normal distribution, scaled to [-1, 1].
NF4_VALUES = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    np.float32,
)
#: The boundaries between adjacent codes; a value above a boundary is converted to the higher code.
NF4_BOUNDARIES = np.array(
    [
        -0.8480964004993439,
        -0.6106329262256622,
        -0.4599952697753906,
        -0.33967943489551544,
        -0.23460740596055984,
        -0.13791173323988914,
        -0.045525018125772476,
        0.03979014977812767,
        0.1202552504837513,
        0.2035212516784668,
        0.2920137718319893,
        0.3893125355243683,
        0.5016634166240692,
        0.6427869200706482,
        0.8614784181118011,
    ],
    np.float32,
)


def convert(data: Array, target: ElementType) -> Array:
    """Convert `data` to the element type `target`.

    Args:
        data: Any type, any shape.
        target: The element type of the result.

    Returns:
        An array of the shape of `data`; `data` itself if it has that type.

    Raises:
        InputError: Strings are converted to another type, or the reverse.
    """
    source = ElementType.of(data.dtype)
    if source == target:
        return data
    if "string" in (source.kind, target.kind):
        raise InputError(f"{source} cannot be converted to {target}")
    values = _decode(data, source)
    if target.kind == "boolean":
        return np.asarray(values != 0)
    if target.is_float:
        return np.asarray(_convert_to_float(values, target))
    if values.dtype.kind == "f":
        values = cast_to_integers(values, np.dtype(np.int32) if target.is_packed else target.dtype)
    if target.is_packed:
        codes = np.asarray(values.astype(np.uint8) & np.uint8((1 << target.bits) - 1))
        return codes.view(target.dtype)
    return np.asarray(values.astype(target.dtype, copy=False))


def _decode(data: Array, source: ElementType) -> Array:
    """Return `data` in a type of NumPy that holds every value of `source`; floats become f32 or f64."""
    if source.name == "nf4":
        return np.asarray(NF4_VALUES[data.view(np.uint8)])
    if source.is_packed and source.kind == "uint":
        return data.view(np.uint8)
    if source.name == "i4":
        return data.astype(np.int8)
    return data.astype(np.float32) if source.is_float and source.bits < 32 else data


def _convert_to_float(values: Array, target: ElementType) -> Array:
    if target.bits >= 32:
        return values.astype(target.dtype, copy=False)
    if target.name == "f16" and values.dtype == np.int32:
        values = np.clip(values, -65504, 65504)  # in the reference implementation, only i32 saturates
    # The reference implementation converts to narrower floats from f32: values of f64 and i64 are rounded twice.
    values = values.astype(np.float32, copy=False)
    if target.name == "nf4":
        codes = np.searchsorted(NF4_BOUNDARIES, np.where(np.isnan(values), -1, values)).astype(np.uint8)
        return np.asarray(codes.view(target.dtype))
    if target.name == "f8e8m0":
        return _convert_to_f8e8m0(values)
    if target.name in ("f8e4m3", "f8e5m2"):
        values = values.astype(np.float16)  # the reference implementation converts to these from f16
    elif target.name == "f4e2m1":  # has neither NaN nor infinity
        values = np.where(np.isnan(values), np.copysign(np.float32(6), values), np.clip(values, -6, 6))
    return values.astype(target.dtype)


def _convert_to_f8e8m0(values: Array) -> Array:
    """Round to the nearest power of two, ties to the even exponent; the type has no sign, zero or infinity."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    exponent = bits >> 23
    codes = np.where(exponent == 0, bits > 0x600000, bits + 0x3FFFFF + (exponent & 1) >> 23)
    codes = np.where(values > 0, np.minimum(codes, 254), np.where(np.isnan(values), 255, 0))
    packed = codes.astype(np.uint8).view(ELEMENT_TYPES["f8e8m0"].dtype)
    return np.asarray(packed.reshape(values.shape))
