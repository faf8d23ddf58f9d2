"""Rules for matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import concat, get_lengths, integers, reshape, transpose, unsqueeze

__all__ = ["AUTO_PADS", "convolve", "get_paddings", "multiply_matrices"]

#: The attribute `auto_pad` of ONNX -> OpenVINO's.
AUTO_PADS = {"NOTSET": "explicit", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid"}


def multiply_matrices(a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """Return the product of matrices."""
    return op("MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@translate("MatMul")
def translate_matmul(node: Node) -> Value:
    """MatMul."""
    return multiply_matrices(node[0], node[1])


@translate("FusedMatMul", domain="com.microsoft")
def translate_fused_matmul(node: Node) -> Value:
    """MatMul times a factor."""
    a, b = node[0], node[1]
    for name, value in (("transBatchA", a), ("transBatchB", b)):
        if node.get_int(name, 0):
            order = list(range(value.get_rank()))
            moved = transpose(value, [*order[1:-1], 0, order[-1]])
            a, b = (moved, b) if value is a else (a, moved)
    result = multiply_matrices(a, b, bool(node.get_int("transA", 0)), bool(node.get_int("transB", 0)))
    alpha = node.get_float("alpha", 1.0)
    return result if alpha == 1 else result * alpha


@translate("Gemm")
def translate_gemm(node: Node) -> Value:
    """MatMul and Add."""
    a, b, c = node[0], node[1], node.get(2)
    alpha, beta = node.get_float("alpha", 1.0), node.get_float("beta", 1.0)
    result = multiply_matrices(a, b, bool(node.get_int("transA", 0)), bool(node.get_int("transB", 0)))
    if alpha != 1:
        result = result * alpha
    if c is None or beta == 0:
        return result
    return result + (c if beta == 1 else c * beta)


@translate("Einsum")
def translate_einsum(node: Node) -> Value:
    """Einsum."""
    return op("Einsum", *node.inputs, equation=node.get_text("equation").replace(" ", ""))


def get_paddings(node: Node, count: int) -> dict[str, Any]:
    """Return the attributes of a window: its strides and the padding.

    Args:
        node: The node.
        count: The number of spatial axes.
    """
    mode = node.get_text("auto_pad", "NOTSET")
    if mode not in AUTO_PADS:
        raise ModelError(f"the attribute auto_pad is {mode!r}, expected one of {', '.join(AUTO_PADS)}")
    pads = node.get_ints("pads", [0] * 2 * count) if mode == "NOTSET" else [0] * 2 * count
    strides = node.get_ints("strides", [1] * count)
    for name, values, expected in (("pads", pads, 2 * count), ("strides", strides, count)):
        if len(values) != expected:
            raise ModelError(f"the attribute {name} has {len(values)} values, expected {expected}")
    return {
        "strides": strides,
        "pads_begin": pads[:count],
        "pads_end": pads[count:],
        "auto_pad": AUTO_PADS[mode],
    }


def _count_axes(x: Value, weights: Value) -> int:
    rank = x.rank if x.rank is not None else weights.rank
    if rank is None or rank < 3:
        raise ModelError(f"the data has rank {rank}, expected at least 3")
    return rank - 2


def convolve(node: Node, x: Value, weights: Value) -> Value:
    """Return a convolution with the attributes of a node."""
    count = _count_axes(x, weights)
    attributes = get_paddings(node, count) | {"dilations": node.get_ints("dilations", [1] * count)}
    groups = node.get_int("group", 1)
    if groups == 1:
        return op("Convolution", x, weights, **attributes)
    return op("GroupConvolution", x, divide_groups(weights, groups), **attributes)


def divide_groups(weights: Value, groups: int) -> Value:
    """Return weights with an axis of groups in front."""
    channels = weights.get_dimension(0)
    if channels is not None and channels % groups == 0:
        lengths: Value = integers(groups, channels // groups)
    else:
        lengths = concat([integers(groups), get_lengths(weights, 0) / groups])
    return op(
        "Reshape",
        weights,
        concat([lengths, get_lengths(weights, *range(1, weights.get_rank()))]),
        special_zero=False,
    )


def add_bias(x: Value, bias: Value | None, count: int) -> Value:
    """Return a value with a bias added to its channels."""
    return x if bias is None else x + reshape(bias, [1, -1, *[1] * count])


@translate("Conv")
def translate_conv(node: Node) -> Value:
    """Convolution and GroupConvolution."""
    x, weights = node[0], node[1]
    return add_bias(convolve(node, x, weights), node.get(2), _count_axes(x, weights))


@translate("ConvTranspose")
def translate_conv_transpose(node: Node) -> Value:
    """ConvolutionBackpropData."""
    x, weights, groups = node[0], node[1], node.get_int("group", 1)
    count = _count_axes(x, weights)
    attributes = get_paddings(node, count)
    dilations = node.get_ints("dilations", [1] * count)
    extra = node.get_ints("output_padding", [0] * count)
    mode = attributes["auto_pad"]
    if node.has("output_shape") or mode.startswith("same"):
        begin, end, extra = _find_paddings(node, x, weights, attributes["strides"], dilations, extra)
        attributes |= {"pads_begin": begin, "pads_end": end, "auto_pad": "explicit"}
    elif mode == "valid":
        attributes["auto_pad"] = "explicit"
    attributes |= {"dilations": dilations, "output_padding": extra}
    if groups == 1:
        result = op("ConvolutionBackpropData", x, weights, **attributes)
    else:
        result = op("GroupConvolutionBackpropData", x, divide_groups(weights, groups), **attributes)
    return add_bias(result, node.get(2), count)


def _find_paddings(
    node: Node, x: Value, weights: Value, strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return the padding and the output padding of a ConvTranspose with a known output shape."""
    begin, end, rest = [], [], []
    shape = node.get_ints("output_shape")[-len(strides) :] if node.has("output_shape") else None
    for i, (stride, dilation, more) in enumerate(zip(strides, dilations, extra, strict=True)):
        kernel, length = weights.get_dimension(i + 2), x.get_dimension(i + 2)
        if kernel is None or (length is None and shape is not None):
            raise node.refuse("an output shape with dynamic dimensions")
        if length is None:
            total = more + (kernel - 1) * dilation + 1 - stride
        else:
            target = length * stride if shape is None else shape[i]
            total = stride * (length - 1) + more + (kernel - 1) * dilation + 1 - target
        rest.append(more + max(-total, 0))
        total = max(total, 0)
        half = total // 2
        is_upper = node.get_text("auto_pad", "NOTSET") == "SAME_UPPER"
        begin.append(half if is_upper else total - half)
        end.append(total - begin[-1])
    return begin, end, rest


@translate("DeformConv")
def translate_deform_conv(node: Node) -> Value:
    """DeformableConvolution."""
    x, weights, offsets, bias, mask = node[0], node[1], node[2], node.get(3), node.get(4)
    count = _count_axes(x, weights)
    result = op(
        "DeformableConvolution",
        x,
        offsets,
        weights,
        mask,
        **get_paddings(node, count),
        dilations=node.get_ints("dilations", [1] * count),
        group=node.get_int("group", 1),
        deformable_group=node.get_int("offset_group", 1),
        bilinear_interpolation_pad=True,
    )
    return add_bias(result, bias, count)


@translate("ConvInteger")
def translate_conv_integer(node: Node) -> Value:
    """Convolution in f32, after subtracting the zero points."""
    x, weights = (cast(node[i], "f32") for i in (0, 1))
    if node.get(2) is not None:
        x = x - cast(node[2], "f32")
    zero = node.get(3)
    if zero is not None:
        zero = cast(zero, "f32")
        weights = weights - (unsqueeze(zero, *range(1, weights.get_rank())) if zero.rank else zero)
    return cast(convolve(node, x, weights), "i32")


@translate("MatMulInteger")
def translate_matmul_integer(node: Node) -> Value:
    """MatMul after subtracting the zero points."""
    a, b = (cast(node[i], "i32") for i in (0, 1))
    first, second = node.get(2), node.get(3)
    if first is not None:
        first = cast(first, "i32")
        a = a - (unsqueeze(first, -1) if first.rank == 1 and a.rank != 1 and first.get_dimension(0) != 1 else first)
    if second is not None:
        b = b - cast(second, "i32")
    return multiply_matrices(a, b)
