"""Rules for pooling."""

from __future__ import annotations

from irrun.element_types import ELEMENT_TYPES
from irrun.onnx_import.graph import Value, constant, op, ops
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import broadcast, concat, get_lengths, integers, reshape, shape_of
from irrun.onnx_import.rules.products import get_paddings

I64 = ELEMENT_TYPES["i64"]


def _get_rounding(node: Node) -> str:
    return "ceil_torch" if node.get_int("ceil_mode", 0) else "floor"


@translate("MaxPool")
def translate_max_pool(node: Node) -> list[Value]:
    """MaxPool."""
    x, kernel = node[0], node.get_ints("kernel_shape")
    count = len(kernel)
    pooled, indices = ops(
        "MaxPool",
        x,
        outputs=2,
        types=[x.type, I64],
        **get_paddings(node, count),
        kernel=kernel,
        dilations=node.get_ints("dilations", [1] * count),
        rounding_type=_get_rounding(node),
        index_element_type="i64",
        axis=0,
    )
    if node.has_output(1) and node.get_int("storage_order", 0):
        if count != 2:
            raise node.refuse(f"storage_order 1 of {count} spatial axes")
        height, width = get_lengths(x, 2), get_lengths(x, 3)
        inner = op("FloorMod", indices, height * width)
        row, column = op("Divide", inner, width, m_pythondiv=True), op("FloorMod", inner, width)
        indices = indices - inner + column * height + row
    return [pooled, indices]


@translate("AveragePool")
def translate_average_pool(node: Node) -> Value:
    """AvgPool."""
    kernel = node.get_ints("kernel_shape")
    attributes = get_paddings(node, len(kernel)) | {"kernel": kernel, "rounding_type": _get_rounding(node)}
    attributes["exclude-pad"] = not node.get_int("count_include_pad", 0)
    dilations = node.get_ints("dilations", [1] * len(kernel))
    if max(dilations) == 1:
        return op("AvgPool", node[0], version="opset14", **attributes)
    return op("AvgPool", node[0], dilations=dilations, **attributes)


@translate("LpPool")
def translate_lp_pool(node: Node) -> Value:
    """Convolution of powers by ones, channel by channel."""
    x, kernel, p = node[0], node.get_ints("kernel_shape"), node.get_float("p", 2.0)
    count = len(kernel)
    attributes = get_paddings(node, count)
    dilations = node.get_ints("dilations", [1] * count)
    if node.get_int("ceil_mode", 0):
        for i in range(count):
            length = x.get_dimension(2 + i)
            if length is None:
                raise node.refuse("ceil_mode of LpPool with dynamic dimensions")
            window, stride = (kernel[i] - 1) * dilations[i] + 1, attributes["strides"][i]
            padded = length + attributes["pads_begin"][i] + attributes["pads_end"][i]
            outputs = -(-(padded - window) // stride) + 1
            if (outputs - 1) * stride >= length + attributes["pads_begin"][i]:
                outputs -= 1
            attributes["pads_end"][i] += max((outputs - 1) * stride + window - padded, 0)
    powers = op("Abs", x)
    powers = powers * powers if p == 2 else powers if p == 1 else op("Power", powers, p)
    shape = shape_of(x)
    flat = reshape(powers, concat([integers(-1, 1), get_lengths(x, *range(2, 2 + count))]))
    weights = broadcast(constant(1, x.type), integers(1, 1, *kernel))
    sums = op("Convolution", flat, weights, **attributes, dilations=dilations)
    lengths = concat([op("Gather", shape, constant([0, 1]), constant(0)), get_lengths(sums, *range(2, 2 + count))])
    sums = op("Reshape", sums, lengths, special_zero=False)
    return op("Sqrt", sums) if p == 2 else sums if p == 1 else op("Power", sums, 1 / p)


def _get_spatial_axes(x: Value) -> Value:
    return constant(list(range(2, x.get_rank())))


@translate("GlobalAveragePool")
def translate_global_average_pool(node: Node) -> Value:
    """ReduceMean over the spatial axes."""
    return op("ReduceMean", node[0], _get_spatial_axes(node[0]), keep_dims=True)


@translate("GlobalMaxPool")
def translate_global_max_pool(node: Node) -> Value:
    """ReduceMax over the spatial axes."""
    return op("ReduceMax", node[0], _get_spatial_axes(node[0]), keep_dims=True)


@translate("GlobalLpPool")
def translate_global_lp_pool(node: Node) -> Value:
    """Return the norm over the spatial axes."""
    x, p = node[0], node.get_float("p", 2.0)
    if p in (1, 2):
        return op(f"ReduceL{int(p)}", x, _get_spatial_axes(x), keep_dims=True)
    sums = op("ReduceSum", op("Power", op("Abs", x), p), _get_spatial_axes(x), keep_dims=True)
    return op("Power", sums, 1 / p)


@translate("MaxRoiPool")
def translate_max_roi_pool(node: Node) -> Value:
    """ROIPooling."""
    return op(
        "ROIPooling",
        node[0],
        node[1],
        output_size=node.get_ints("pooled_shape"),
        spatial_scale=node.get_float("spatial_scale", 1.0),
        method="max",
    )
