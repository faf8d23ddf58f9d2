"""Rules for normalizations."""

from __future__ import annotations

import numpy as np

from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, check_axis, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import reshape, scalar, unsqueeze, where

#: Maximum axis length of a CumProd.
MAX_LENGTH = 4096


@translate("BatchNormalization")
def translate_batch_normalization(node: Node) -> list[Value]:
    """BatchNormInference; the statistics of the batch in training mode."""
    x = node[0]
    scale, bias, mean, variance = (node[i] for i in range(1, 5))
    epsilon = node.get_float("epsilon", 1e-5)
    if not node.get_int("training_mode", 0) and not (node.version == 14 and node.has_output(1)):
        scale, bias, mean, variance = (cast(v, x.type) for v in (scale, bias, mean, variance))
        return [op("BatchNormInference", x, scale, bias, mean, variance, epsilon=epsilon)]
    rank, momentum = x.get_rank(), node.get_float("momentum", 0.9)
    axes = constant([axis for axis in range(rank) if axis != 1])
    wide = cast(x, "f32") if x.type.bits < 32 else x
    current = op("ReduceMean", wide, axes, keep_dims=False)
    shape = [1, -1, *[1] * (rank - 2)]
    centered = wide - reshape(current, shape)
    spread = op("ReduceMean", centered * centered, axes, keep_dims=False)
    result = centered / op("Sqrt", reshape(spread, shape) + epsilon)
    result = result * reshape(cast(scale, wide.type), shape) + reshape(cast(bias, wide.type), shape)
    updated = [
        cast(cast(old, wide.type) * momentum + new * (1 - momentum), old.type)
        for old, new in ((mean, current), (variance, spread))
    ]
    return [cast(result, x.type), *updated]


@translate("InstanceNormalization")
def translate_instance_normalization(node: Node) -> Value:
    """MVN over the spatial axes, scale and bias."""
    x, rank = node[0], node[0].get_rank()
    normalized = _normalize(x, list(range(2, rank)), node.get_float("epsilon", 1e-5))
    scale, bias = (reshape(node[i], [1, -1, *[1] * (rank - 2)]) for i in (1, 2))
    return normalized * scale + bias


def _normalize(x: Value, axes: list[int], epsilon: float) -> Value:
    return op("MVN", x, constant(axes), normalize_variance=True, eps=epsilon, eps_mode="inside_sqrt")


@translate("LayerNormalization")
def translate_layer_normalization(node: Node) -> list[Value]:
    """MVN over the last axes, scale and bias."""
    if node.has_output(1) or node.has_output(2):
        raise node.refuse("the output of mean and deviation")
    x, scale, bias = node[0], node[1], node.get(2)
    rank = x.get_rank()
    wide = cast(x, "f32") if x.type.bits < 32 else x
    axes = list(range(node.get_axis("axis", -1, rank), rank))
    result = cast(_normalize(wide, axes, node.get_float("epsilon", 1e-5)), x.type) * scale
    return [result if bias is None else result + bias]


@translate("SkipLayerNormalization", domain="com.microsoft")
def translate_skip_layer_normalization(node: Node) -> list[Value | None]:
    """MVN of a sum, scale and bias."""
    x = node[0] + node[1]
    if node.get(4) is not None:
        x = x + node[4]
    result = _normalize(x, [-1], node.get_float("epsilon", 1e-12)) * node[2]
    return [result if node.get(3) is None else result + node[3], None, None, x]


@translate("SimplifiedLayerNormalization")
@translate("SimplifiedLayerNormalization", domain="com.microsoft")
def translate_rms(node: Node) -> Value:
    """Division by the root mean square."""
    x, rank = node[0], node[0].get_rank()
    axes = list(range(node.get_axis("axis", -1, rank), rank))
    return divide_by_root(x, axes, node.get_float("epsilon", 1e-5)) * node[1]


def divide_by_root(x: Value, axes: list[int], epsilon: float) -> Value:
    """Divide values by their root mean square."""
    wide = cast(x, "f32") if x.type.bits < 32 else x
    mean = op("ReduceMean", wide * wide, constant(axes), keep_dims=True)
    return cast(wide / op("Sqrt", mean + epsilon), x.type)


@translate("GroupNormalization")
def translate_group_normalization(node: Node) -> Value:
    """GroupNormalization. With scales per group, the function is expanded instead."""
    x, scale, bias, groups = node[0], node[1], node[2], node.get_int("num_groups")
    if node.version < 21 or x.type.bits < 32:
        raise node.refuse("scales of groups")
    return op("GroupNormalization", x, scale, bias, num_groups=groups, epsilon=node.get_float("epsilon", 1e-5))


@translate("MeanVarianceNormalization")
def translate_mvn(node: Node) -> Value:
    """MVN."""
    if node.version < 9:
        axes = [0, 2, 3] if node.get_int("across_channels", 0) == 0 else [0, 1, 2, 3]
    else:
        axes = node.get_ints("axes", [0, 2, 3])
    return op("MVN", node[0], constant(axes), normalize_variance=True, eps=1e-9, eps_mode="outside_sqrt")


@translate("LRN")
def translate_lrn(node: Node) -> Value:
    """LRN over the channels."""
    return op(
        "LRN",
        node[0],
        constant([1]),
        alpha=node.get_float("alpha", 1e-4),
        beta=node.get_float("beta", 0.75),
        bias=node.get_float("bias", 1.0),
        size=node.get_int("size"),
    )


@translate("LpNormalization")
def translate_lp_normalization(node: Node) -> Value:
    """Division by the norm of an axis; 0 where it is 0."""
    x, p = node[0], node.get_int("p", 2)
    if p not in (1, 2):
        raise ModelError(f"the attribute p is {p}, expected 1 or 2")
    norm = op(f"ReduceL{p}", x, constant([node.get_int("axis", -1)]), keep_dims=True)
    zero = scalar(0, x)
    return where(op("Equal", norm, zero), zero, x / norm)


@translate("CumProd")
def translate_cum_prod(node: Node) -> Value:
    """Products of rows whose elements after each position are replaced by 1."""
    x, axis = node[0], node.read_integers(1)
    assert axis is not None
    rank = x.get_rank()
    length = x.get_dimension(axis[0])
    if length is None or length > MAX_LENGTH:
        raise node.refuse(f"CumProd of a dimension that is dynamic or longer than {MAX_LENGTH}")
    exclusive, is_reverse = bool(node.get_int("exclusive", 0)), bool(node.get_int("reverse", 0))
    kept = np.tri(length, k=-1 if exclusive else 0, dtype=bool)
    if is_reverse:
        kept = kept[::-1, ::-1]
    position = check_axis(axis[0], rank)
    mask = constant(kept.reshape(length, *[length if i == position else 1 for i in range(rank)]))
    rows = where(mask, unsqueeze(x, 0), 1)
    products = op("ReduceProd", rows, constant([position + 1]), keep_dims=False)
    order = [*range(1, position + 1), 0, *range(position + 1, rank)]
    return op("Transpose", products, constant(order))
