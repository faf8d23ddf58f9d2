"""Products and lookups with quantized weights or data: FullyConnected and its variants, GatherCompressed."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.conversion import convert
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.output_type import convert_to_output_type
from irrun.ops._support.registry import op
from irrun.ops.movement.gather import gather_7, get_gather_range

__all__ = [
    "decompress",
    "fully_connected",
    "fully_connected_compressed",
    "fully_connected_quantized",
    "fully_connected_quantized_legacy",
    "gather_compressed",
]


def _count_flops(call: Call) -> int:
    """Count the product and the bias; the decompression of weights does not depend on the input."""
    has_bias = call.has_input(2) and math.prod(call.get_shape(2)) > 0
    return call.outputs[0].size * (2 * call.get_shape(0)[-1] + has_bias)


_fully_connected = partial(
    op, opset="ie_internal_opset", kind="product", shape="infer_fully_connected", flops=_count_flops
)


@_fully_connected("FullyConnected")
def fully_connected(X: Array, W: Array, bias: Array | None = None, *, output_type: str = "dynamic") -> Array:
    """Compute `X * W^T + bias`.

    Args:
        X: Floating-point, shape [..., I].
        W: Floating-point, shape [O, I], or with leading dimensions that are broadcast.
        bias: Floating-point, broadcast to the result; ignored if omitted or empty.
        output_type: Type of the result; "dynamic" for the type of `X`.

    Returns:
        Shape [..., O], the type `output_type`.

    Raises:
        InputError: The shapes do not match.

    Spec:
        Defined by ov_ops/fully_connected.hpp
    """
    return convert_to_output_type(_multiply(X, upcast(W), bias), output_type, X)


@_fully_connected("FullyConnectedCompressed")
@describes_like(fully_connected)
def fully_connected_compressed(
    X: Array,
    W: Array,
    bias: Array,
    weight_scales: Array,
    weight_zero_points: Array | None = None,
    *,
    output_type: str = "dynamic",
) -> Array:
    """Compute `X * ((W - weight_zero_points) * weight_scales)^T + bias`.

    Args:
        W: Any quantized type, shape [O, I].
        bias: Floating-point, broadcast to the result; ignored if empty.
        weight_scales: Numeric, one value, shape [O, 1], or [O, groups] for groups of I / groups neighboring values.
        weight_zero_points: Numeric, as `weight_scales`; ignored if omitted or empty.

    Spec:
        Defined by ov_ops/fully_connected_compressed.hpp
    """
    weights = decompress(W, weight_scales, weight_zero_points)
    return convert_to_output_type(_multiply(X, weights, bias), output_type, X)


@_fully_connected("FullyConnectedQuantizedLegacy")
def fully_connected_quantized_legacy(
    X: Array,
    W: Array,
    bias: Array,
    deq_scales: Array,
    deq_zero_points: Array | None = None,
    *,
    output_type: str = "dynamic",
) -> Array:
    """Compute `(X * W^T + bias) * deq_scales`.

    Args:
        X: i8, u8 or floating-point, shape [..., I].
        W: i8 or floating-point, shape [O, I].
        bias: Numeric, broadcast to the result; ignored if empty.
        deq_scales: Floating-point, broadcast to the result.
        deq_zero_points: Omitted or empty; OpenVINO never sets them.
        output_type: Type of the result; "dynamic" for the type of `X`.

    Returns:
        Shape [..., O], the type `output_type`.

    Raises:
        InputError: The shapes do not match, or there are zero points.

    Spec:
        Defined by ov_ops/fully_connected_quantized_legacy.hpp and convert_fc_to_quantized_legacy.cpp
    """
    if deq_zero_points is not None and deq_zero_points.size:
        raise InputError(f"deq_zero_points has shape {list(deq_zero_points.shape)}, expected no zero points")
    product = _multiply(X.astype(np.float64), W.astype(np.float64), bias.astype(np.float64))  # exact for integers
    return convert_to_output_type((product * upcast(deq_scales)).astype(np.float32), output_type, X)


@_fully_connected("FullyConnectedQuantized")
@describes_like(fully_connected_compressed)
def fully_connected_quantized(
    X: Array,
    W: Array,
    bias: Array,
    weight_scales: Array,
    weight_zero_points: Array | None,
    input_scales: Array,
    input_zero_points: Array | None = None,
    output_scales: Array | None = None,
    output_zero_points: Array | None = None,
    *,
    output_type: str = "dynamic",
) -> Array:
    """Compute FullyConnectedCompressed with the data `(X - input_zero_points) * input_scales`.

    Args:
        X: Any quantized type, shape [..., I].
        input_scales: Numeric, one value, or the shape of `X` with axes shortened to one value or to one value per group
            of neighbors.
        input_zero_points: Numeric, as `input_scales`; ignored if omitted or empty.
        output_scales: Omitted or empty; OpenVINO never sets them.
        output_zero_points: Omitted or empty; OpenVINO never sets them.
        output_type: Type of the result; "dynamic" for the type of `X`.

    Returns:
        Shape [..., O], the type `output_type`.

    Raises:
        InputError: The shapes do not match, or the output has scales.

    Spec:
        Defined by ov_ops/fully_connected_quantized.hpp and the GPU plugin's dynamic_quantize_fully_connected.cpp
    """
    for name, x in (("output_scales", output_scales), ("output_zero_points", output_zero_points)):
        if x is not None and x.size:
            raise InputError(f"{name} has shape {list(x.shape)}, expected nothing")
    data = decompress(X, input_scales, input_zero_points)
    weights = decompress(W, weight_scales, weight_zero_points)
    return convert_to_output_type(_multiply(data, weights, bias), output_type, X)


@op(
    "GatherCompressed",
    opset="ie_internal_opset",
    kind="movement",
    shape="infer_gather",
    flops=2,
    index_range=get_gather_range,
)
@describes_like(gather_7)
def gather_compressed(
    data: Array,
    indices: Array,
    axis: Array,
    decompression_scale: Array,
    decompression_zero_point: Array | None = None,
    *,
    batch_dims: int = 0,
) -> Array:
    """Compute `Gather((data - decompression_zero_point) * decompression_scale, indices, axis)`.

    Args:
        data: Any quantized type, any shape.
        decompression_scale: Numeric, one value, or the shape of `data` with axes shortened to one value or to one
            value per group of neighbors.
        decompression_zero_point: Numeric, as `decompression_scale`; ignored if omitted or empty.

    Returns:
        The shape of the result of Gather-8, the type of `decompression_scale`.

    Raises:
        InputError: The shapes do not match, or an index is out of range.

    Spec:
        Defined by ov_ops/gather_compressed.hpp
    """
    (gather_axis,) = to_int_list(axis)
    gather_axis = normalize_axis(gather_axis, data.ndim)

    def gather_parameters(values: Array) -> Array:
        """Return the scales or zero points of the gathered slices."""
        if values.size <= 1:
            return values
        values = _align_rank(values, data)
        if values.shape[gather_axis] == 1 and gather_axis >= batch_dims:
            shape = (*values.shape[:gather_axis], data.shape[gather_axis], *values.shape[gather_axis + 1 :])
            values = np.broadcast_to(values, shape)
        elif values.shape[gather_axis] != data.shape[gather_axis]:
            values = np.repeat(values, data.shape[gather_axis] // values.shape[gather_axis], axis=gather_axis)
        for b in range(batch_dims):
            values = np.repeat(values, data.shape[b] // values.shape[b], axis=b)
        return gather_7(values, indices, axis, batch_dims=batch_dims)

    slices = gather_7(data, indices, axis, batch_dims=batch_dims)
    zero_point = None if decompression_zero_point is None else gather_parameters(decompression_zero_point)
    result = decompress(slices, gather_parameters(decompression_scale), zero_point)
    return convert_to_output_type(result, "dynamic", decompression_scale)


def _multiply(X: Array, weights: Array, bias: Array | None) -> Array:
    x = upcast(X)
    if weights.ndim < 2 or x.ndim == 0 or x.shape[-1] != weights.shape[-1]:
        raise InputError(f"X has shape {list(X.shape)} and W {list(weights.shape)}, expected [..., I] and [O, I]")
    result: Array = x @ weights.swapaxes(-1, -2)
    return result + upcast(bias) if bias is not None and bias.size else result


def decompress(quantized: Array, scale: Array, zero_point: Array | None) -> Array:
    """Compute `(quantized - zero_point) * scale` in f32."""
    weights: Array = _convert_to_f32(quantized)
    if zero_point is not None and zero_point.size:
        weights = weights - _expand_groups(_convert_to_f32(zero_point), weights)
    return np.multiply(weights, _expand_groups(_convert_to_f32(scale), weights))


def _convert_to_f32(x: Array) -> Array:
    return convert(x, ELEMENT_TYPES["f32"])


def _align_rank(values: Array, data: Array) -> Array:
    """Reshape `values` to the rank of `data`: [O] becomes [O, 1, ...], and a last axis of one value is removed."""
    while values.ndim > data.ndim and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim > data.ndim:
        raise InputError(f"scale or zero point of shape {list(values.shape)} does not match data {list(data.shape)}")
    return np.reshape(values, values.shape + (1,) * (data.ndim - values.ndim))


def _expand_groups(values: Array, data: Array) -> Array:
    """Repeat the value of each group of neighbors, so that `values` broadcasts to `data`."""
    values = _align_rank(values, data)
    for axis, (groups, size) in enumerate(zip(values.shape, data.shape, strict=True)):
        if groups in (1, size):
            continue
        if groups == 0 or size % groups:
            raise InputError(
                f"scale or zero point of shape {list(values.shape)} does not match data {list(data.shape)}"
            )
        values = np.repeat(values, size // groups, axis=axis)
    return values
