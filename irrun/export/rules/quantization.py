"""Export of quantization: FakeQuantize, FakeConvert, and the decompression of weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.export.graph import Value, cast, constant, get_graph, op
from irrun.export.rules.conversion import convert, get_limits
from irrun.export.rules.gathering import export_gather
from irrun.export.rules.helpers import align, where
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array

__all__: list[str] = []

#: Maximum distance of a zero point from an integer.
ZERO_POINT_TOLERANCE = 1e-3


class _Scheme(NamedTuple):
    """Quantization that ONNX can express.

    Attributes:
        scale: The scale, a scalar or 1D.
        zero_point: The zero point of the same shape, u8 or i8.
        axis: The axis of 1D parameters.
    """

    scale: Array
    zero_point: Array
    axis: int | None


def _find_scheme(site: Site) -> _Scheme | None:
    """Return the scale and zero point of a FakeQuantize; None if it does not map a range to itself."""
    limits = [site[i].read() for i in range(1, 5)]
    if site.levels not in (255, 256) or any(limit is None for limit in limits) or site.auto_broadcast == "pdpd":
        return None
    low, high, out_low, out_high = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in limits if x is not None))
    if not (np.array_equal(low, out_low) and np.array_equal(high, out_high)) or not (high > low).all():
        return None
    varying = [i for i, n in enumerate(low.shape) if n > 1]
    rank = site[0].rank
    if len(varying) > 1 or (varying and rank is None):
        return None
    axis = None if not varying or rank is None else rank - low.ndim + varying[0]
    scale = (high - low) / (site.levels - 1)
    offset = -low / scale  # the code of 0, from 0
    is_signed = site.levels == 255 or bool((low < 0).all() and np.allclose(offset, 128, atol=ZERO_POINT_TOLERANCE))
    first = (-127 if site.levels == 255 else -128) if is_signed else 0
    codes = offset + first
    rounded = np.rint(codes)
    limits_of_type = (-128, 127) if is_signed else (0, 255)
    if (abs(codes - rounded) > ZERO_POINT_TOLERANCE).any() or rounded.min() < limits_of_type[0]:
        return None
    if rounded.max() > limits_of_type[1]:
        return None
    if site.levels == 255 and (rounded != 0).any():  # the codes -127 to 127 exclude -128
        return None
    shape = (-1,) if axis is not None else ()
    zero_point = rounded.astype(np.int8 if is_signed else np.uint8).reshape(shape)
    return _Scheme(scale.astype(np.float32).reshape(shape), zero_point, axis)


@exports("FakeQuantize-1", compute="f32")
def export_fake_quantize(site: Site) -> Value:
    """Export FakeQuantize as QuantizeLinear and DequantizeLinear, or as elementwise operations for other ranges."""
    data = site[0]
    scheme = _find_scheme(site) if data.type.name == "f32" else None
    if scheme is None:
        return _quantize_in_steps(site)
    scale, zero_point = constant(scheme.scale), constant(scheme.zero_point)
    if site.levels == 255:  # QuantizeLinear would use -128 too
        limit = (scheme.scale.astype(np.float64) * 127).astype(np.float32)
        if scheme.axis is None:
            data = op("Clip", data, constant(-limit), constant(limit))
        else:
            shape = [1] * (data.rank or 1)
            shape[scheme.axis] = -1
            data = op("Max", op("Min", data, constant(limit.reshape(shape))), constant(-limit.reshape(shape)))
    known = data.read()
    if known is not None and known.size > 1:
        return _quantize_constant(known, scheme, scale, zero_point)
    codes = op("QuantizeLinear", data, scale, zero_point, axis=scheme.axis)
    return op("DequantizeLinear", codes, scale, zero_point, axis=scheme.axis)


def _quantize_constant(values: Array, scheme: _Scheme, scale: Value, zero_point: Value) -> Value:
    """Store constant weights as integers."""
    limits = np.iinfo(scheme.zero_point.dtype)
    shape = [1] * values.ndim
    if scheme.axis is not None:
        shape[scheme.axis] = -1
    scales, points = (np.asarray(x).reshape(shape if scheme.axis is not None else ()) for x in scheme[:2])
    codes = np.clip(np.rint(values / scales) + points.astype(np.float32), limits.min, limits.max)
    return op("DequantizeLinear", constant(codes.astype(limits.dtype)), scale, zero_point, axis=scheme.axis)


def _quantize_in_steps(site: Site) -> Value:
    data = site[0]
    in_low, in_high, out_low, out_high = (
        align(Site(site.layer, [data, site[i]], site.attributes))[1] for i in range(1, 5)
    )
    steps = float(site.levels - 1)
    low, high = op("Min", in_low, in_high), op("Max", in_low, in_high)
    limited = op("Max", op("Min", data, high), low)
    position = op("Round", (limited - in_low) / (in_high - in_low) * steps)
    result = position / steps * (out_high - out_low) + out_low
    result = where(data <= low, out_low, result)
    return where(data > high, out_high, result)


@exports("FakeConvert-13", compute="f32")
def export_fake_convert(site: Site) -> Value:
    """Export FakeConvert: a conversion to an 8-bit float and back."""
    data, scale, shift = site[0], site[1], site.get(2)
    scaled = data * scale
    if shift is not None:
        scaled = scaled - shift
    half = cast(cast(scaled, "f16"), "f32")
    if site.destination_type == "f8e5m2":
        limited = op("Clip", half, constant(-57344.0), constant(57344.0))
        rounded = cast(cast(cast(limited, "f16"), "f8e5m2"), data.type)
    else:
        rounded = cast(_round_to_f8e4m3(half), data.type)
    if shift is not None:
        rounded = rounded + shift
    return rounded / scale


def _round_to_f8e4m3(x: Value) -> Value:
    """Round to the values of f8e4m3. Subnormal numbers are rounded as if they were normal, then bits are dropped."""
    magnitude = op("Abs", x)
    tiny = magnitude < 2.0**-9
    magnitude = op("Min", where(op("IsNaN", x), 448.0, magnitude), constant(448.0))
    exponent = op("Floor", op("Log", op("Max", magnitude, constant(2.0**-10))) / float(np.log(2)) + 1e-6)
    unit = op("Pow", constant(2.0), exponent - 3.0)
    rounded = op("Round", magnitude / unit) * unit
    coarse = op("Pow", constant(2.0), op("Max", exponent, constant(-6.0)) - 3.0)
    result = op("Floor", op("Min", rounded, constant(448.0)) / coarse) * coarse
    return where(tiny, 0.0, where(x < 0.0, -result, result))


@exports("Multiply-1")
def export_multiply(site: Site) -> Value:
    """Export Multiply. The last step of a decompression of weights becomes a DequantizeLinear."""
    a, b = align(site)
    return _find_decompression(a, b) or a * b


def _find_decompression(data: Value, factor: Value) -> Value | None:
    """Return a DequantizeLinear for `(convert(weights) - zero) * scale` of constants; None for other products."""
    scale, node = factor.read() if factor.is_constant else None, data.node
    if scale is None or node is None or factor.type.name not in ("f32", "f16") or factor.type is not data.type:
        return None
    zero: Array | None = None
    if node.type == "Sub" and node.inputs[0] is not None and node.inputs[1] is not None:
        zero, node = _read_zero_point(node.inputs[1]), node.inputs[0].node
        if zero is None:
            return None
    weights = node.inputs[0] if node is not None and node.type == "Cast" else None
    if weights is None or not weights.is_constant or weights.type.name not in ("u8", "i8", "u4", "i4"):
        return None
    shape = tuple(d for d in weights.shape or () if isinstance(d, int))
    if scale.ndim not in (0, len(shape)) or (zero is not None and zero.ndim not in (0, len(shape))):
        return None
    varying = [i for i, n in enumerate(scale.shape) if n > 1]
    limits = get_limits(weights.type)
    if zero is not None:
        fits = all(n in (1, size) for n, size in zip(zero.shape, scale.shape, strict=False))
        if not fits or zero.min() < limits[0] or zero.max() > limits[1]:
            return None
    if len(shape) < 2 or scale.ndim == 0 or not varying:
        return None
    attributes: dict[str, int]
    if len(varying) == 1 and (zero is None or zero.shape in ((), scale.shape)):
        axis = varying[0]
        attributes, target = {"axis": axis}, (shape[axis],)
    elif scale.shape[:-1] == shape[:-1] and scale.shape[-1] == 1 and get_graph().opset >= 21:
        attributes, target = {"axis": len(shape) - 1, "block_size": shape[-1]}, scale.shape
    else:
        return None
    inputs: list[Value | None] = [weights, constant(scale.reshape(target), factor.type)]
    if zero is not None:
        full = np.broadcast_to(zero.reshape([1] * scale.ndim) if zero.ndim == 0 else zero, scale.shape)
        inputs.append(constant(full.reshape(target).astype(weights.type.dtype), weights.type))
    (result,) = get_graph().add("DequantizeLinear", inputs, [factor.type], attributes)
    result.shape = weights.shape
    return result


def _read_zero_point(value: Value) -> Array | None:
    """Return a constant zero point, or the integers that it is converted from, as integers."""
    if value.node is not None and value.node.type == "Cast" and value.node.inputs[0] is not None:
        value = value.node.inputs[0]
    array = value.read()
    if array is None:
        return None
    numbers = array.astype(np.float32)
    return numbers.astype(np.int64) if np.array_equal(numbers, np.rint(numbers)) else None


@exports("FullyConnectedCompressed-ie_internal_opset")
def export_compressed_product(site: Site) -> Value:
    """Export FullyConnectedCompressed: a product with decompressed weights."""
    x, w, bias, scale, zero = site[0], site[1], site.get(2), site[3], site.get(4)
    weights = _decompress(w, scale, zero, x)
    rank = site.get_rank(1)
    result = op("MatMul", x, op("Transpose", weights, perm=[*range(rank - 2), rank - 1, rank - 2]))
    if bias is not None and bias.shape is not None and 0 not in bias.shape:
        result = result + cast(bias, result.type)
    return result if site.types[0] is None else cast(result, site.types[0])


@exports("GatherCompressed-ie_internal_opset")
def export_compressed_gather(site: Site) -> Value:
    """Export GatherCompressed: slices of decompressed data."""
    weights = _decompress(site[0], site[3], site.get(4), site[3])
    return export_gather(Site(site.layer, [weights, site[1], site[2]], site.attributes, site.outputs, site.types))


def _decompress(weights: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """Return `(weights - zero) * scale`, with scales possibly per group of the last axis."""
    kind = like.type if like.type.is_float else ELEMENT_TYPES["f32"]
    values = convert(weights, kind)
    groups = scale.shape[-1] if scale.shape is not None and len(scale.shape) >= 2 else 1
    is_grouped = isinstance(groups, int) and groups > 1 and scale.rank == weights.rank
    rank = weights.rank or 0
    if is_grouped and isinstance(groups, int):
        values = op("Reshape", values, constant([*[0] * (rank - 1), int(groups), -1]))
        scale = op("Unsqueeze", scale, constant([-1]))
        zero = zero if zero is None or zero.rank != weights.rank else op("Unsqueeze", zero, constant([-1]))
    if zero is not None and (zero.shape is None or 0 not in zero.shape):
        values = values - convert(zero, kind)
    result = values * cast(scale, kind)
    return op("Reshape", result, constant([*[0] * (rank - 1), -1])) if is_grouped else result
