"""FullyConnected, FullyConnectedCompressed, GatherCompressed: products and look-ups with quantized weights."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.output_type import convert_to_output_type
from irrun.ops._support.registry import op
from irrun.ops.movement.gather import gather_7

__all__ = ["fully_connected", "fully_connected_compressed", "gather_compressed"]


@op("FullyConnected", opset="ie_internal_opset")
def fully_connected(X: Array, W: Array, bias: Array | None = None, *, output_type: str = "dynamic") -> Array:
    """`X * W^T + bias`.

    X: float [..., I]; W: [O, I] or with leading dimensions that broadcast; bias: broadcast to the result, none
    where left out or empty.
    Returns [..., O], in output_type or the type of X.
    Raises InputError where the shapes do not fit.
    Defined by ov_ops/fully_connected.hpp.
    """
    return convert_to_output_type(_product(X, upcast(W), bias), output_type, X)


@op("FullyConnectedCompressed", opset="ie_internal_opset")
def fully_connected_compressed(
    X: Array,
    W: Array,
    bias: Array,
    weight_scales: Array,
    weight_zero_points: Array | None = None,
    *,
    output_type: str = "dynamic",
) -> Array:
    """`X * ((W - weight_zero_points) * weight_scales)^T + bias`.

    X: float [..., I]; W: any quantized type, [O, I]; weight_scales, weight_zero_points: one value, [O, 1], or
    [O, groups] for groups of I / groups neighbours; bias and weight_zero_points may be empty.
    Returns [..., O], in output_type or the type of X.
    Raises InputError where the shapes do not fit.
    Defined by ov_ops/fully_connected_compressed.hpp.
    """
    weights = _decompressed(W, weight_scales, weight_zero_points)
    return convert_to_output_type(_product(X, weights, bias), output_type, X)


@op("GatherCompressed", opset="ie_internal_opset")
def gather_compressed(
    data: Array,
    indices: Array,
    axis: Array,
    decompression_scale: Array,
    decompression_zero_point: Array | None = None,
    *,
    batch_dims: int = 0,
) -> Array:
    """`Gather((data - decompression_zero_point) * decompression_scale, indices, axis)`.

    data: any quantized type; indices, axis, batch_dims: those of Gather-8; decompression_scale,
    decompression_zero_point: one value, or as data with axes shortened to one value or one per group.
    Returns the shape that Gather gives, the type of decompression_scale.
    Raises InputError where the shapes do not fit or an index is out of range.
    Defined by ov_ops/gather_compressed.hpp.
    """
    (along,) = to_int_list(axis)
    along = normalize_axis(along, data.ndim)

    def picked(values: Array | None) -> Array | None:
        """Scales or zero points for the slices that are gathered, not for all of data."""
        if values is None or values.size <= 1:
            return values
        values = _aligned(values, data)
        if values.shape[along] == 1 and along >= batch_dims:
            values = np.broadcast_to(values, (*values.shape[:along], data.shape[along], *values.shape[along + 1 :]))
        elif values.shape[along] != data.shape[along]:
            values = np.repeat(values, data.shape[along] // values.shape[along], axis=along)
        for b in range(batch_dims):
            values = np.repeat(values, data.shape[b] // values.shape[b], axis=b)
        return gather_7(values, indices, axis, batch_dims=batch_dims)

    slices = gather_7(data, indices, axis, batch_dims=batch_dims)
    result = _decompressed(slices, _must(picked(decompression_scale)), picked(decompression_zero_point))
    return convert_to_output_type(result, "dynamic", decompression_scale)


def _must(values: Array | None) -> Array:
    assert values is not None
    return values


def _product(X: Array, weights: Array, bias: Array | None) -> Array:
    x = upcast(X)
    if weights.ndim < 2 or x.ndim == 0 or x.shape[-1] != weights.shape[-1]:
        raise InputError(f"X has shape {list(X.shape)} and W {list(weights.shape)}, expected [..., I] and [O, I]")
    result: Array = x @ weights.swapaxes(-1, -2)
    return result + upcast(bias) if bias is not None and bias.size else result


def _decompressed(quantized: Array, scale: Array, zero_point: Array | None) -> Array:
    """`(quantized - zero_point) * scale` in f32."""
    weights: Array = _in_f32(quantized)
    if zero_point is not None and zero_point.size:
        weights = weights - _spread(_in_f32(zero_point), weights)
    return np.multiply(weights, _spread(_in_f32(scale), weights))


def _in_f32(x: Array) -> Array:
    return convert(x, ELEMENT_TYPES["f32"]) if ElementType.of(x.dtype).name != "f32" else x


def _aligned(values: Array, data: Array) -> Array:
    """`values` with the rank of `data`: [O] is [O, 1 ...], and a last axis of one value is dropped."""
    while values.ndim > data.ndim and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim > data.ndim:
        raise InputError(f"scale or zero point has shape {list(values.shape)} for data {list(data.shape)}")
    return np.reshape(values, values.shape + (1,) * (data.ndim - values.ndim))


def _spread(values: Array, data: Array) -> Array:
    """`values`, one per group of neighbours along each axis, so that they broadcast to `data`.

    Raises:
        InputError: an axis of data is no multiple of the groups.
    """
    if values.size <= 1:
        return values.reshape(())
    values = _aligned(values, data)
    for axis, (have, want) in enumerate(zip(values.shape, data.shape, strict=True)):
        if have in (1, want):
            continue
        if have == 0 or want % have:
            raise InputError(f"scale or zero point has shape {list(values.shape)} for data {list(data.shape)}")
        values = np.repeat(values, want // have, axis=axis)
    return values
