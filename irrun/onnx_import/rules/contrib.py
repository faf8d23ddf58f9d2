"""Rules for operators of onnxruntime (com.microsoft) and of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.onnx_import.graph import Value, cast, constant, op
from irrun.onnx_import.node import Item, Node, translate
from irrun.onnx_import.rules.helpers import concat, gather, reshape, slice_axis, transpose, unsqueeze
from irrun.onnx_import.rules.normalization import divide_by_root
from irrun.onnx_import.rules.products import add_bias, convolve, multiply_matrices
from irrun.onnx_import.rules.quantization import quantize, shift
from irrun.onnx_import.rules.recurrent import translate_lstm

#: The domain of the operators of onnxruntime.
MICROSOFT = "com.microsoft"

#: Activations of one input without parameters.
_ACTIVATIONS = {"Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "HardSwish": "HSwish"}


@translate("FusedConv", domain=MICROSOFT)
def translate_fused_conv(node: Node) -> Value:
    """Convolution, addition of another value, and an activation."""
    x, weights, summand = node[0], node[1], node.get(3)
    result = add_bias(convolve(node, x, weights), node.get(2), x.get_rank() - 2)
    result = result if summand is None else result + summand
    name = node.get_text("activation", "")
    parameters = [float(v) for v in node.attributes.get("activation_params", [])]
    if not name:
        return result
    if name == "LeakyRelu" and len(parameters) == 1:
        return op("PRelu", result, constant(parameters, result.type))
    if name == "Clip" and len(parameters) == 2:
        return op("Clamp", result, min=parameters[0], max=parameters[1])
    if name == "HardSigmoid" and len(parameters) == 2:
        return op("HardSigmoid", result, *(constant(p, result.type) for p in parameters))
    if name not in _ACTIVATIONS:
        raise node.refuse(f"the activation {name!r}")
    return op(_ACTIVATIONS[name], result)


@translate("MatMulNBits", domain=MICROSOFT)
def translate_matmul_nbits(node: Node) -> Value:
    """MatMul with weights that are decompressed block by block."""
    x, packed, scales, zeros = node[0], node[1].constant, node[2], node.get(3)
    rows, columns, block = node.get_int("N"), node.get_int("K"), node.get_int("block_size")
    bits = node.get_int("bits", 4)
    if bits not in (4, 8) or (node.get(4) is not None):
        raise node.refuse(f"MatMulNBits of {bits} bits or with the indices of groups")
    if packed is None or packed.data is None:
        raise node.refuse("MatMulNBits of weights that are not constant")
    count = -(-columns // block)
    kind = ELEMENT_TYPES[f"u{bits}"]
    if packed.size != kind.get_byte_size(rows * count * block):
        raise ModelError(
            f"the weights have {packed.size} bytes, expected the size of [{rows}, {count}, {block}] of {kind}"
        )
    weights = cast(constant(Constant(kind, (rows, count, block), packed.data, packed.size)), x.type)
    if zeros is None:
        offset = constant(1 << (bits - 1), x.type)
    elif zeros.type.is_float:
        offset = reshape(cast(zeros, x.type), [rows, count, 1])
    else:
        offset = _unpack_zeros(node, zeros, kind.name, rows, count, x)
    weights = (weights - offset) * reshape(cast(scales, x.type), [rows, count, 1])
    weights = reshape(weights, [rows, count * block])
    if count * block != columns:
        weights = slice_axis(weights, 0, columns, 1)
    result = multiply_matrices(x, weights, False, True)
    return result if node.get(5) is None else result + node[5]


def _unpack_zeros(node: Node, zeros: Value, kind: str, rows: int, count: int, x: Value) -> Value:
    data = zeros.constant
    if data is None or data.data is None:
        raise node.refuse("MatMulNBits of zero points that are not constant")
    width = -(-count * ELEMENT_TYPES[kind].bits // 8) * 8 // ELEMENT_TYPES[kind].bits
    if data.size != ELEMENT_TYPES[kind].get_byte_size(rows * width):
        raise ModelError(f"the zero points have {data.size} bytes, expected the size of [{rows}, {width}] of {kind}")
    unpacked = Constant(ELEMENT_TYPES[kind], (rows, width), data.data, data.size).to_array()[:, :count]
    return unsqueeze(cast(constant(np.ascontiguousarray(unpacked), kind), x.type), 2)


@translate("MatMulIntegerToFloat", domain=MICROSOFT)
def translate_matmul_integer_to_float(node: Node) -> Value:
    """MatMul of dequantized matrices."""
    a, b = shift(node[0], node.get(4), None), shift(node[1], node.get(5), -1)
    result = multiply_matrices(a, b) * cast(node[2], "f32") * cast(node[3], "f32")
    return result if node.get(6) is None else result + node[6]


@translate("DynamicQuantizeMatMul", domain=MICROSOFT)
def translate_dynamic_quantize_matmul(node: Node) -> Value:
    """MatMul of a matrix quantized by its range with dequantized weights."""
    x = node[0]
    axes = constant(np.arange(x.get_rank()))
    high = op("Maximum", op("ReduceMax", x, axes, keep_dims=False), 0)
    low = op("Minimum", op("ReduceMin", x, axes, keep_dims=False), 0)
    scale = (high - low) / 255
    zero = cast(op("Round", (0 - low) / scale, mode="half_to_even"), "u8")
    a = shift(quantize(x, scale, zero, zero.type), zero, None)
    b = shift(node[1], node.get(3), -1)
    result = multiply_matrices(a, b) * scale * cast(node[2], "f32")
    return result if node.get(4) is None else result + node[4]


@translate("DynamicQuantizeLSTM", domain=MICROSOFT)
def translate_dynamic_quantize_lstm(node: Node) -> Value | Sequence[Item]:
    """LSTM with dequantized weights; the data is not quantized."""
    weights = []
    for position, scale, zero in ((1, 8, 9), (2, 10, 11)):
        factor = node[scale]
        factor = reshape(factor, [0, 1, -1] if factor.rank == 2 else [-1, 1, 1])
        offset = reshape(cast(node[zero], "f32"), [0, 1, -1] if node[zero].rank == 2 else [-1, 1, 1])
        value = (cast(node[position], "f32") - offset) * factor
        weights.append(transpose(value, [0, 2, 1]))
    items = [node.items[0], *weights, *node.items[3:8]]
    return translate_lstm(Node(node.proto, node.version, items, node.attributes, node.importer, node.is_in_function))


def _dequantize(node: Node, value: int, scale: int, zero: int) -> Value:
    return shift(node[value], node.get(zero), None) * cast(node[scale], "f32")


def _requantize(node: Node, value: Value, scale: int, zero: int) -> Value:
    target = node[zero].type if node.get(zero) is not None else node[0].type
    return quantize(value, cast(node[scale], "f32"), node.get(zero), target)


@translate("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def translate_qlinear_binary(node: Node) -> Value:
    """Dequantize values, add or multiply them, and quantize the result."""
    a, b = _dequantize(node, 0, 1, 2), _dequantize(node, 3, 4, 5)
    return _requantize(node, a + b if node.type == "QLinearAdd" else a * b, 6, 7)


@translate("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def translate_qlinear_activation(node: Node) -> Value:
    """Dequantize values, apply an activation, and quantize the result."""
    x = _dequantize(node, 0, 1, 2)
    if node.type == "QLinearSigmoid":
        return _requantize(node, op("Sigmoid", x), 3, 4)
    return _requantize(node, op("PRelu", x, constant([node.get_float("alpha", 0.01)])), 3, 4)


@translate("QLinearGlobalAveragePool", domain=MICROSOFT)
def translate_qlinear_global_average_pool(node: Node) -> Value:
    """Dequantize values, average them over the spatial axes, and quantize the result."""
    x = _dequantize(node, 0, 1, 2)
    rank = x.get_rank()
    axes = range(1, rank - 1) if node.get_int("channels_last", 0) else range(2, rank)
    return _requantize(node, op("ReduceMean", x, constant(list(axes)), keep_dims=True), 3, 4)


@translate("QLinearConcat", domain=MICROSOFT)
def translate_qlinear_concat(node: Node) -> Value:
    """Dequantization, Concat and quantization."""
    parts = [_dequantize(node, i, i + 1, i + 2) for i in range(2, len(node), 3)]
    return quantize(concat(parts, node.get_int("axis")), cast(node[0], "f32"), node[1], node[1].type)


@translate("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def translate_skip_rms(node: Node) -> list[Value | None]:
    """Addition, then division by the root mean square."""
    x = node[0] + node[1]
    x = x if node.get(3) is None else x + node[3]
    return [divide_by_root(x, [x.get_rank() - 1], node.get_float("epsilon", 1e-5)) * node[2], None, None, x]


@translate("ArrayFeatureExtractor", domain="ai.onnx.ml")
def translate_array_feature_extractor(node: Node) -> Value:
    """Gather along the last axis."""
    result = gather(node[0], reshape(node[1], [-1]), -1)
    return unsqueeze(result, 0) if node[0].rank == 1 else result


@translate("Binarizer", domain="ai.onnx.ml")
def translate_binarizer(node: Node) -> Value:
    """Return 1 where a value is greater than the threshold, else 0."""
    x = node[0]
    return cast(x > constant(node.get_float("threshold", 0.0), x.type), x.type)
