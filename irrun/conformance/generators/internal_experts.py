"""Conformance cases for products with the weights of experts, registered as version 0.

OpenVINO cannot read them from files, so each is compared with a decomposition into standard operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.internal import HALF, create_constant, make_case, sample_normal
from irrun.conformance.layers import compute_nodes

F32, F16, I32 = np.float32, np.float16, np.int32
PRODUCT = (1e-5, 4e-6)
NOTHING = np.zeros(0, F32)


def _sample_experts(rng, rows, count, experts, dtype=I32):
    """Return different experts for each row."""
    return np.stack([rng.permutation(experts)[:count] for _ in range(rows)]).astype(dtype)


def _sample_compressed(rng, experts, rows, size, groups, zero_point_type=None, with_axis=False):
    """Return weights, scales and zero points, and the decompressed weights as a node."""
    from openvino import opset13 as ops

    dtype = np.int8 if zero_point_type is None else zero_point_type
    limits = np.iinfo(dtype)
    quantized = rng.integers(limits.min, limits.max + 1, (experts, rows, groups, size // groups)).astype(dtype)
    scale = (rng.random((experts, rows, groups, 1)) / 100 + 0.001).astype(F32)
    zero_point = rng.integers(max(limits.min, -9), 9, (experts, rows, groups, 1)).astype(dtype)
    values = ops.convert(create_constant(ops, quantized), "f32")
    if zero_point_type is not None:
        values = values - ops.convert(create_constant(ops, zero_point), "f32")
    node = ops.reshape(values * create_constant(ops, scale), np.array([experts, rows, size]), False)
    shape = (experts, rows, groups) + (1,) * with_axis
    weights = quantized if with_axis else quantized.reshape(experts, rows, size)
    given = NOTHING if zero_point_type is None else zero_point.reshape(shape)
    return [weights, scale.reshape(shape), given], node


def _build_gathered(ops, A, weights, indices, bias=None):
    """Return [k, rows, N] as nodes: each row multiplied by the matrices of its experts."""
    axis = create_constant(ops, 0)
    selected = ops.gather(weights, create_constant(ops, indices.T), axis)  # [k, rows, N, K]
    result = ops.reduce_sum(ops.unsqueeze(A, np.array([2])) * selected, np.array([3]), False)
    if bias is None or not bias.size:
        return result
    if bias.ndim == 3:
        return result + ops.gather(create_constant(ops, bias[:, 0]), create_constant(ops, indices.T), axis)
    return result + create_constant(ops, bias)


#: Rows, experts of a row, all experts, N, K, whether rows differ between experts, and the shape of the bias.
GATHERED = [
    (1, 1, 1, 2, 3, False, (0,)),
    (4, 2, 3, 5, 4, False, (0,)),
    (4, 2, 3, 5, 4, True, (3, 1, 5)),
    (3, 3, 8, 2, 6, False, (8, 1, 2)),
    (6, 1, 2, 3, 3, True, (3,)),
    (2, 4, 4, 1, 2, True, ()),
    (5, 2, 6, 4, 8, False, None),
    (0, 2, 3, 5, 4, False, (0,)),
]


@register_cases("GatherMatmul", since=0)
def gather_matmul(rng):
    from openvino import opset13 as ops

    for i, (rows, count, experts, n, k, differs, bias_shape) in enumerate(GATHERED):
        A, B = sample_normal(rng, count if differs else 1, rows, k), sample_normal(rng, experts, n, k)
        indices = (
            _sample_experts(rng, rows, count, experts, I32 if i % 2 else np.int64) if rows else np.zeros((0, 2), I32)
        )
        bias = None if bias_shape is None else sample_normal(rng, *bias_shape)
        expected = compute_nodes(_build_gathered(ops, create_constant(ops, A), create_constant(ops, B), indices, bias))
        inputs = [A, B, indices, *([] if bias is None else [bias])]
        yield make_case("GatherMatmul", "extension", inputs, {}, expected, tolerance=PRODUCT)


@register_cases("GatherMatmulCompressed", since=0)
def gather_matmul_compressed(rng):
    from openvino import opset13 as ops

    for i, (rows, count, experts, n, k, differs, bias_shape) in enumerate(GATHERED[:-1]):
        A = sample_normal(rng, count if differs else 1, rows, k)
        zero_point_type = (None, np.uint8, np.int8)[i % 3]
        groups = 2 if k % 2 == 0 and i % 2 else 1
        weights, node = _sample_compressed(rng, experts, n, k, groups, zero_point_type, with_axis=i % 4 == 3)
        indices = _sample_experts(rng, rows, count, experts)
        bias = NOTHING if bias_shape is None else sample_normal(rng, *bias_shape)
        expected = compute_nodes(_build_gathered(ops, create_constant(ops, A), node, indices, bias))
        inputs = [A, weights[0], indices, bias, *weights[1:]]
        yield make_case("GatherMatmulCompressed", "extension", inputs, {}, expected, tolerance=PRODUCT)
    A = sample_normal(rng, 1, 3, 4, dtype=F16)
    weights, node = _sample_compressed(rng, 3, 5, 4, 1)
    indices = _sample_experts(rng, 3, 2, 3)
    (result,) = compute_nodes(_build_gathered(ops, create_constant(ops, A.astype(F32)), node, indices))
    inputs = [A, weights[0], indices, NOTHING, *weights[1:]]
    yield make_case("GatherMatmulCompressed", "extension", inputs, {}, [result.astype(F16)], tolerance=HALF)


@register_cases("GroupedMatMulCompressed", since=0)
def grouped_mat_mul_compressed(rng):
    from openvino import opset13 as ops

    for i, (groups_of_rows, n, k, groups) in enumerate(
        [([2, 3], 4, 6, 1), ([1, 0, 4], 2, 4, 2), ([5], 3, 8, 4), ([2, 2], 5, 2, 1)]
    ):
        zero_point_type = (None, np.uint8)[i % 2]
        weights, node = _sample_compressed(rng, len(groups_of_rows), n, k, groups, zero_point_type)
        scales = weights[1:] if zero_point_type is not None else weights[1:2]
        A = sample_normal(rng, sum(groups_of_rows), k)
        (matrices,) = compute_nodes(node)
        ends = np.cumsum(groups_of_rows)
        parts = [
            ops.matmul(create_constant(ops, A[end - length : end]), create_constant(ops, matrix), False, True)
            for matrix, end, length in zip(matrices, ends, groups_of_rows, strict=True)
            if length
        ]
        expected = compute_nodes(ops.concat(parts, 0))
        inputs = [A, weights[0], ends.astype(I32), *scales]
        yield make_case("GroupedMatMulCompressed", "extension", inputs, {}, expected, tolerance=PRODUCT)
        A = sample_normal(rng, len(groups_of_rows), 3, k)
        expected = compute_nodes(ops.matmul(create_constant(ops, A), node, False, True))
        inputs = [A, weights[0], *scales]
        yield make_case("GroupedMatMulCompressed", "extension", inputs, {}, expected, tolerance=PRODUCT)


def _build_experts(ops, data, routing, indices, weights, attributes):
    """Return what MOE computes as nodes, from the weights as nodes."""
    rows = create_constant(ops, data.reshape(1, -1, data.shape[-1]).astype(F32))
    beta, alpha = attributes.get("expert_beta", 0.0), attributes.get("expert_alpha", 1.0)
    if attributes["expert_type"] == "gemm3_swiglu":
        gate, up = (_build_gathered(ops, rows, weights[i], indices) for i in (0, 1))
        activation = attributes.get("activation_type", "swiglu")
        if activation == "swiglu":
            gate = ops.swish(gate, create_constant(ops, F32(beta or 1.0)))
        else:
            gate = ops.gelu(gate, "TANH" if activation == "geglu_tanh" else "ERF")
        result = _build_gathered(ops, gate * up, weights[2], indices)
    else:
        first = attributes.get("gate_idx", 0)
        y = _build_gathered(ops, rows, weights[0], indices, weights[1])
        limit = create_constant(ops, np.array([np.iinfo(np.int64).max]))
        two, axis = create_constant(ops, np.array([2])), create_constant(ops, np.array([2]))
        gate, up = (ops.slice(y, create_constant(ops, np.array([i])), limit, two, axis) for i in (first, 1 - first))
        gate = ops.swish(ops.minimum(gate, create_constant(ops, F32(alpha))), create_constant(ops, F32(beta)))
        value = ops.clamp(up, -float(alpha), float(alpha)) + create_constant(ops, F32(1))
        result = _build_gathered(ops, gate * value, weights[2], indices, weights[3])
    factors = create_constant(ops, routing.T[..., None].astype(F32))
    total = ops.reduce_sum(result * factors, np.array([0]), False)
    return ops.reshape(total, np.array(data.shape), False)


#: Attributes, the shape of the data, experts of a row, all experts, and I.
EXPERTS: list[tuple[dict[str, Any], tuple[int, ...], int, int, int]] = [
    ({"expert_type": "gemm3_swiglu", "expert_beta": 1.0}, (4, 6), 2, 3, 5),
    ({"expert_type": "gemm3_swiglu", "expert_beta": 0.5}, (2, 3, 4), 1, 4, 2),
    ({"expert_type": "gemm3_swiglu", "activation_type": "geglu_tanh"}, (5, 4), 3, 3, 4),
    ({"expert_type": "gemm3_swiglu", "activation_type": "geglu_erf"}, (1, 8), 2, 6, 2),
    ({"expert_type": "gemm2_bias_swiglu_clamp", "expert_alpha": 0.8, "expert_beta": 1.702}, (4, 6), 2, 3, 5),
    ({"expert_type": "gemm2_bias_swiglu_clamp", "expert_alpha": 7.0, "expert_beta": 1.0}, (2, 2, 4), 2, 4, 3),
    ({"expert_type": "gemm2_bias_swiglu_clamp", "expert_alpha": 0.5, "gate_idx": 1}, (3, 4), 1, 2, 4),
    ({"expert_type": "gemm3_swiglu"}, (4, 2), 4, 4, 2),
]


def _sample_routing(rng, shape, count, experts):
    rows = int(np.prod(shape[:-1]))
    routing = rng.random((rows, count)).astype(F32)
    return routing / routing.sum(axis=1, keepdims=True), _sample_experts(rng, rows, count, experts)


@register_cases("MOE", since=0)
def moe(rng):
    from openvino import opset13 as ops

    for number, (attributes, shape, count, experts, inner) in enumerate(EXPERTS):
        size = shape[-1]
        data = sample_normal(rng, *shape)
        routing, indices = _sample_routing(rng, shape, count, experts)
        if attributes["expert_type"] == "gemm3_swiglu":
            weights = [sample_normal(rng, experts, *s) for s in ((inner, size), (inner, size), (size, inner))]
            nodes = [create_constant(ops, w) for w in weights]
        else:
            shapes = ((2 * inner, size), (1, 2 * inner), (size, inner), (1, size))
            weights = [sample_normal(rng, experts, *s) for s in shapes]
            nodes = [create_constant(ops, w) if i % 2 == 0 else w for i, w in enumerate(weights)]
        expected = compute_nodes(_build_experts(ops, data, routing, indices, nodes, attributes))
        inputs = [data, routing, indices, *weights]
        yield make_case("MOE", "extension", inputs, attributes, expected, tolerance=(2e-5, 1e-5))
        if number in (0, 4):  # the layout of older files
            scattered = np.zeros((experts, len(routing)), F32)
            np.put_along_axis(scattered, indices.T, routing.T, axis=0)
            inputs[1] = scattered.reshape(experts, *shape[:-1], 1)
            yield make_case("MOE", "extension", inputs, attributes, expected, tolerance=(2e-5, 1e-5))


@register_cases("MOECompressed", since=0)
def moe_compressed(rng):
    from openvino import opset13 as ops

    for number, (attributes, shape, count, experts, inner) in enumerate(EXPERTS):
        size = shape[-1]
        data = sample_normal(rng, *shape)
        routing, indices = _sample_routing(rng, shape, count, experts)
        has_zp = number % 2 == 0
        zero_point_type = np.uint8 if has_zp else None
        is_triple = attributes["expert_type"] == "gemm3_swiglu"
        shapes = [(inner, size), (inner, size), (size, inner)] if is_triple else [(2 * inner, size), (size, inner)]
        matrices = [
            _sample_compressed(rng, experts, n, k, 2 if k % 2 == 0 else 1, zero_point_type, with_axis=number % 3 == 0)
            for n, k in shapes
        ]
        if is_triple:
            weights = [x for given, _ in matrices for x in given]
            nodes = [node for _, node in matrices]
        else:
            biases = [sample_normal(rng, experts, 1, 2 * inner), sample_normal(rng, experts, 1, size)]
            weights = [
                x for (given, _), bias in zip(matrices, biases, strict=True) for x in (*given[: 2 + has_zp], bias)
            ]
            nodes = [x for (_, node), bias in zip(matrices, biases, strict=True) for x in (node, bias)]
        (result,) = compute_nodes(_build_experts(ops, data, routing, indices, nodes, attributes))
        out_type = ("dynamic", "f16")[number % 2]
        expected = [result.astype(F16) if out_type == "f16" else result]
        others = {"hidden_size": size, "inter_size": inner, "num_expert": experts, "num_shared_expert": 0}
        others |= {"top_k": count, "group_size": 2**64 - 1, "has_batch_dim": False, "has_zp": has_zp}
        tolerance = HALF if out_type == "f16" else (2e-5, 1e-5)
        inputs = [data, routing, indices, *weights]
        given = {**attributes, **others, "out_type": out_type, "routing_type": "softmax"}
        given["group_size"] = str(given["group_size"])
        yield make_case("MOECompressed", "extension", inputs, given, expected, tolerance=tolerance)
