"""Rules for quantization."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.onnx_import.graph import Value, cast, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.elementwise import cast_value
from irrun.onnx_import.rules.helpers import get_lengths, reshape, unsqueeze
from irrun.onnx_import.rules.products import add_bias, convolve, multiply_matrices
from irrun.ops._support.numerics import get_integer_limits


def _align(node: Node, x: Value, parameter: Value) -> Value:
    """Broadcast scales or zero points to the data. There is one value, one per slice of an axis, or one per block."""
    rank = x.get_rank()
    block = node.get_int("block_size", 0)
    if not block:
        if parameter.rank == 0:
            return parameter
        if parameter.get_dimension(0) == 1 and parameter.rank == 1:
            return reshape(parameter, constant(np.zeros(0, np.int64)))
        axis = node.get_axis("axis", 1, rank)
        return reshape(parameter, [-1 if i == axis else 1 for i in range(rank)])
    axis = node.get_axis("axis", 1, rank)
    lengths = get_lengths(parameter, *range(rank))
    repeated = op(
        "Tile", unsqueeze(parameter, axis + 1), constant([block if i == axis + 1 else 1 for i in range(rank + 1)])
    )
    factors = constant([block if i == axis else 1 for i in range(rank)])
    result = op("Reshape", repeated, lengths * factors, special_zero=False)
    if x.get_dimension(axis) == result.get_dimension(axis):
        return result
    return op("Slice", result, constant([0]), get_lengths(x, axis), constant([1]), constant([axis]))


def quantize(x: Value, scale: Value, zero: Value | None, target: ElementType) -> Value:
    """Return values divided by a scale, rounded and shifted, within the range of an integer type."""
    low, high = get_integer_limits(target.dtype)
    rounded = op("Round", x / scale, mode="half_to_even")
    if zero is not None:
        rounded = rounded + cast(zero, x.type)
    limits = op("Minimum", op("Maximum", rounded, low), high)
    return cast(limits, target)


@translate("QuantizeLinear")
@translate("QuantizeLinear", domain="com.microsoft")
def translate_quantize_linear(node: Node) -> Value:
    """Division, rounding, and conversion within the range of the type."""
    x, scale, zero = node[0], node[1], node.get(2)
    target = zero.type if zero is not None else ELEMENT_TYPES["u8"]
    if node.get_int("output_dtype", 0):
        target = node.get_type("output_dtype")
    if node.get_int("precision", 0):
        kind = node.get_type("precision")
    else:
        kind = x.type if x.type.is_float and x.type.bits >= 32 else ELEMENT_TYPES["f32"]
    x, scale = cast(x, kind), cast(_align(node, x, scale), kind)
    zero = None if zero is None else _align(node, node[0], zero)
    if target.is_float:
        quotient = x / scale
        if zero is not None:
            quotient = quotient + cast(zero, kind)
        return cast_value(_Converted(node, quotient), target.name)
    return quantize(x, scale, zero, target)


class _Converted(Node):
    """A node with a replaced first input."""

    def __init__(self, node: Node, value: Value) -> None:
        super().__init__(node.proto, node.version, [value], node.attributes, node.importer, node.is_in_function)


@translate("DequantizeLinear")
@translate("DequantizeLinear", domain="com.microsoft")
def translate_dequantize_linear(node: Node) -> Value:
    """Conversion, subtraction of the zero point, and multiplication by the scale."""
    x, scale, zero = node[0], node[1], node.get(2)
    result = node.get_type("output_dtype") if node.get_int("output_dtype", 0) else scale.type
    kind = scale.type if scale.type.name in ("f32", "f16") else ELEMENT_TYPES["f32"]
    value = cast(x, kind)
    if zero is not None:
        value = value - cast(_align(node, x, zero), kind)
    return cast(value * cast(_align(node, x, scale), kind), result)


@translate("DynamicQuantizeLinear")
def translate_dynamic_quantize_linear(node: Node) -> list[Value]:
    """Quantization to u8 by the range of the data."""
    x = node[0]
    axes = constant(np.arange(x.get_rank()))
    highest = op("Maximum", op("ReduceMax", x, axes, keep_dims=False), 0)
    lowest = op("Minimum", op("ReduceMin", x, axes, keep_dims=False), 0)
    scale = (highest - lowest) / 255
    zero = op("Minimum", op("Maximum", op("Round", (0 - lowest) / scale, mode="half_to_even"), 0), 255)
    zero = cast(zero, "u8")
    return [quantize(x, scale, zero, ELEMENT_TYPES["u8"]), scale, zero]


def shift(x: Value, zero: Value | None, axis: int | None) -> Value:
    """Subtract a zero point, in f32.

    Args:
        x: Quantized values.
        zero: The zero point; None for 0.
        axis: The axis that a vector of zero points belongs to.
    """
    if zero is None:
        return cast(x, "f32")
    zero = cast(zero, "f32")
    if axis is not None and zero.rank == 1 and zero.get_dimension(0) != 1:
        rank = x.get_rank()
        zero = reshape(zero, [-1 if i == axis % rank else 1 for i in range(rank)])
    elif zero.rank == 1 and zero.get_dimension(0) == 1:
        zero = reshape(zero, constant(np.zeros(0, np.int64)))
    return cast(x, "f32") - zero


def _spread(scale: Value, rank: int, axis: int) -> Value:
    """Return a scale in f32; a vector of scales lies along an axis."""
    scale = cast(scale, "f32")
    if scale.rank != 1:
        return scale
    if scale.get_dimension(0) == 1:
        return reshape(scale, constant(np.zeros(0, np.int64)))
    return reshape(scale, [-1 if i == axis % rank else 1 for i in range(rank)])


@translate("QLinearMatMul")
def translate_qlinear_matmul(node: Node) -> Value:
    """MatMul after subtracting the zero points, then quantization."""
    a, b = shift(node[0], node[2], -2), shift(node[3], node[5], -1)
    product = multiply_matrices(a, b)
    rank = product.get_rank()
    scaled = product * _spread(node[1], rank, -2) * _spread(node[4], rank, -1)
    return quantize(scaled, _spread(node[6], rank, -2), node[7], node[7].type)


@translate("QLinearConv")
def translate_qlinear_conv(node: Node) -> Value:
    """Convolution after subtracting the zero points, then quantization."""
    x, weights, bias = shift(node[0], node[2], None), shift(node[3], node[5], 0), node.get(8)
    product = convolve(node, x, weights)
    rank = product.get_rank()
    if bias is not None:
        product = add_bias(product, cast(bias, "f32"), rank - 2)
    scaled = product * _spread(node[1], rank, 1) * _spread(node[4], rank, 1)
    return quantize(scaled, _spread(node[6], rank, 1), _spread_zero(node[7]), node[7].type)


def _spread_zero(zero: Value) -> Value:
    return reshape(zero, constant(np.zeros(0, np.int64))) if zero.rank == 1 else zero
