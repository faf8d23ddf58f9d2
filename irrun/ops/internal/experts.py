"""Products with the weights of experts that a router selects: GatherMatmul, GroupedMatMulCompressed, MOE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.checks import check_rank, check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.output_type import convert_to_output_type
from irrun.ops._support.registry import op
from irrun.ops.activation.elementwise import gelu_7, swish_4
from irrun.ops.internal.compressed_weights import decompress
from irrun.ops.matrix import grouped_mat_mul_17

__all__ = ["gather_matmul", "gather_matmul_compressed", "grouped_mat_mul_compressed", "moe", "moe_compressed"]

#: How experts compute: two products with a bias, or three products.
ExpertType = Literal["gemm2_bias_swiglu_clamp", "gemm3_swiglu"]
#: The function of the gate.
ActivationType = Literal["swiglu", "geglu_tanh", "geglu_erf"]


def _count_gathered(call: Call) -> int:
    """Count the products and the bias."""
    has_bias = call.has_input(3) and math.prod(call.get_shape(3)) > 0
    return int(call.outputs[0].size * (2 * call.get_shape(0)[-1] + has_bias))


def _count_grouped(call: Call) -> int:
    return int(2 * call.outputs[0].size * call.get_shape(0)[-1])


@op("GatherMatmul", opset="extension", kind="product", shape="infer_gathered_product", flops=_count_gathered)
def gather_matmul(A: Array, B: Array, indices: Array, bias: Array | None = None) -> Array:
    """Multiply each row by the matrices of the experts selected for the row.

    Args:
        A: Floating-point, shape [1 or k, rows, K]: the rows, the same ones for all experts or others for each.
        B: Floating-point, shape [experts, N, K].
        indices: Integer, shape [rows, k]: the experts of each row.
        bias: Floating-point, shape [experts, 1, N], [N] or a scalar; ignored if omitted or empty.

    Returns:
        Shape [k, rows, N], the type of `A`.

    Raises:
        InputError: The shapes do not match, or an expert does not exist.

    Spec:
        Defined by ov_ops/gather_matmul.hpp
    """
    return _multiply_selected(A, B.shape, lambda expert: upcast(B[expert]), indices, bias)


@op("GatherMatmulCompressed", opset="extension", kind="product", shape="infer_gathered_product", flops=_count_gathered)
@describes_like(gather_matmul)
def gather_matmul_compressed(
    A: Array,
    B: Array,
    indices: Array,
    bias: Array | None,
    weight_scales: Array,
    weight_zero_points: Array | None = None,
) -> Array:
    """Compute GatherMatmul with the matrices `(B - weight_zero_points) * weight_scales`.

    Args:
        B: Any quantized type, shape [experts, N, K] or [experts, N, groups, K / groups].
        weight_scales: Numeric, shape [experts, N, 1] or [experts, N, groups], also with a last axis of one value.
        weight_zero_points: Numeric, as `weight_scales`; ignored if omitted or empty.

    Spec:
        Defined by ov_ops/gather_matmul_compressed.hpp
    """
    shape = (*B.shape[:2], math.prod(B.shape[2:]))
    return _multiply_selected(A, shape, _select(B, weight_scales, weight_zero_points), indices, bias)


@op("GroupedMatMulCompressed", opset="extension", kind="product", shape="infer_grouped_product", flops=_count_grouped)
def grouped_mat_mul_compressed(
    mat_a: Array, mat_b: Array, third: Array, fourth: Array | None = None, fifth: Array | None = None
) -> Array:
    """Compute GroupedMatMul-17 with the matrices `(mat_b - zero_point) * scale`.

    Args:
        mat_a: Floating-point, shape [ROWS, K] or [G, M, K].
        mat_b: Any quantized type, shape [G, N, K].
        third: The offsets of GroupedMatMul-17 if `mat_a` has rank 2, else the scale, which has the shape [G, N, 1] or
            [G, N, groups].
        fourth: The scale if `mat_a` has rank 2, else the zero point, as the scale; may be omitted.
        fifth: The zero point if `mat_a` has rank 2; may be omitted.

    Returns:
        As for GroupedMatMul-17.

    Raises:
        InputError: The shapes do not match, or the scale is missing.

    Spec:
        Defined by ov_ops/grouped_matmul_compressed.hpp
    """
    offsets, scale, zero_point = (third, fourth, fifth) if mat_a.ndim == 2 else (None, third, fourth)
    if scale is None:
        raise InputError("the scale of mat_b is missing")
    result = grouped_mat_mul_17(upcast(mat_a), decompress(mat_b, scale, zero_point), offsets)
    return convert_to_output_type(result, "dynamic", mat_a)


def _count_experts(call: Call) -> int:
    """Count the products of the experts of each row."""
    positions = (3, 4, 5) if call.attributes["expert_type"] == "gemm3_swiglu" else (3, 5)
    return _count_products(call, positions)


def _count_compressed_experts(call: Call) -> int:
    if call.attributes["expert_type"] == "gemm3_swiglu":
        return _count_products(call, (3, 6, 9))
    return _count_products(call, (3, 7 if call.attributes["has_zp"] else 6))


def _count_products(call: Call, positions: Sequence[int]) -> int:
    """Count the products with matrices, which each row is multiplied by several times."""
    sizes = [math.prod(call.get_shape(i)[1:]) for i in positions]
    return 2 * math.prod(call.get_shape(2)) * sum(sizes)


@op("MOE", opset="extension", kind="product", shape="keep_shape", flops=_count_experts)
def moe(
    hidden_states: Array,
    routing_weights: Array,
    router_topk_output_indices: Array,
    *weights: Array | None,
    expert_type: ExpertType = "gemm2_bias_swiglu_clamp",
    expert_alpha: float = 1.0,
    expert_beta: float = 0.0,
    gate_idx: int = 0,
    activation_type: ActivationType = "swiglu",
) -> Array:
    """Add up what experts compute for each row, multiplied by the weights of a router.

    An expert of the type gemm3_swiglu computes `(f(x * G^T) * (x * U^T)) * D^T`, where f is Swish or Gelu. One of the
    type gemm2_bias_swiglu_clamp computes `y = x * W^T + a`. Every second element of y is an element g of the gate, and
    the others u give `(swish(min(g, alpha), beta) * (clamp(u, -alpha, alpha) + 1)) * D^T + b`.

    Args:
        hidden_states: Floating-point, shape [..., H].
        routing_weights: Floating-point, shape [rows, k]: the weights of the experts of each row of the data. In older
            files [experts, ...], with the weights of all experts, most of them 0.
        router_topk_output_indices: Integer, shape [rows, k]: the experts of each row.
        weights: For gemm3_swiglu G and U, shape [experts, I, H], and D, shape [experts, H, I]. Else W, shape
            [experts, 2 * I, H], a, shape [experts, 1, 2 * I], D, and b, shape [experts, 1, H].
        expert_type: How experts compute.
        expert_alpha: The bound of values, for gemm2_bias_swiglu_clamp.
        expert_beta: The factor beta of Swish. 0, the default, is 1 for gemm3_swiglu.
        gate_idx: 0 if the even elements of y are the gate, 1 if the odd ones are.
        activation_type: The function of the gate of gemm3_swiglu.

    Returns:
        The shape and type of `hidden_states`.

    Raises:
        InputError: The shapes do not match, or weights are missing.

    Spec:
        Defined by openvino/op/moe.hpp; the patterns that it replaces are in moe_op_fusion.cpp
    """
    given = [None if w is None or not w.size else upcast(w) for w in weights]
    expected = 3 if expert_type == "gemm3_swiglu" else 4
    if len(given) < expected or any(w is None for w in given[:expected]):
        raise InputError(f"found {len(given)} inputs with weights, expected {expected} for {expert_type}")
    arrays = [w for w in given if w is not None]
    run = _Experts(expert_type, expert_alpha, expert_beta, gate_idx, activation_type, [w.__getitem__ for w in arrays])
    return run.add_up(hidden_states, routing_weights, router_topk_output_indices, len(arrays[0]), "dynamic")


@op("MOECompressed", opset="extension", kind="product", shape="keep_shape", flops=_count_compressed_experts)
@describes_like(moe)
def moe_compressed(
    hidden_states: Array,
    routing_weights: Array,
    router_topk_output_indices: Array,
    *weights: Array | None,
    expert_type: ExpertType = "gemm2_bias_swiglu_clamp",
    expert_alpha: float = 1.0,
    expert_beta: float = 0.0,
    gate_idx: int = 0,
    activation_type: ActivationType = "swiglu",
    hidden_size: int = 0,
    inter_size: int = 0,
    num_expert: int = 0,
    num_shared_expert: int = 0,
    top_k: int = 0,
    group_size: str = "0",
    has_batch_dim: bool = False,
    has_zp: bool = False,
    out_type: str = "dynamic",
    routing_type: Literal["softmax", "sigmoid_bias"] = "softmax",
) -> Array:
    """Compute MOE with the weights `(w - zero_point) * scale`.

    Args:
        weights: For gemm3_swiglu G, its scale and zero point, U, its scale and zero point, D, its scale and zero point.
            Zero points are empty if `has_zp` is false. Else W, its scale, a, D, its scale and b, with zero points after
            scales if `has_zp` is true. Weights may have an axis of groups before the last one.
        hidden_size: H. Ignored, like all attributes below except `has_zp` and `out_type`.
        inter_size: I, or 2 * I for gemm2_bias_swiglu_clamp.
        num_expert: The number of experts.
        num_shared_expert: The number of shared experts, which compute all rows; it must be 0.
        top_k: The number of experts of a row.
        group_size: The number of neighboring weights that share a scale, which may exceed 63 bits.
        has_batch_dim: Whether the data has an axis of batches.
        has_zp: Whether weights have zero points.
        out_type: Type of the result; "dynamic" for the type of `hidden_states`.
        routing_type: How the router computed its weights.

    Returns:
        The shape of `hidden_states`, the type `out_type`.

    Raises:
        InputError: The shapes do not match, weights are missing, or there are shared experts.

    Spec:
        Defined by ov_ops/moe_compressed.hpp
    """
    if num_shared_expert:
        raise InputError(f"num_shared_expert is {num_shared_expert}, expected 0: OpenVINO does not define their inputs")
    is_triple = expert_type == "gemm3_swiglu"
    step = 3 if is_triple or has_zp else 2  # inputs of a matrix, without the bias

    def get(position: int) -> Array:
        value = weights[position] if position < len(weights) else None
        if value is None:
            raise InputError(f"input {3 + position}, a matrix, a scale or a bias, is missing")
        return value

    def get_matrix(position: int) -> Callable[[int], Array]:
        zero_point = weights[position + 2] if has_zp and position + 2 < len(weights) else None
        return _select(get(position), get(position + 1), zero_point)

    if is_triple:
        rows = [get_matrix(0), get_matrix(3), get_matrix(6)]
    else:
        biases = [upcast(get(position)).__getitem__ for position in (step, 2 * step + 1)]
        rows = [get_matrix(0), biases[0], get_matrix(step + 1), biases[1]]
    first = get(0)
    run = _Experts(expert_type, expert_alpha, expert_beta, gate_idx, activation_type, rows)
    return run.add_up(hidden_states, routing_weights, router_topk_output_indices, len(first), out_type)


class _Experts:
    """Computes what experts compute.

    Args:
        expert_type: How experts compute.
        alpha: The bound of values.
        beta: The factor of Swish.
        gate: The position of the gate.
        activation: The function of the gate.
        weights: Return the weights of an expert by its number, in the order of the inputs of MOE.
    """

    def __init__(
        self,
        expert_type: str,
        alpha: float,
        beta: float,
        gate: int,
        activation: ActivationType,
        weights: list[Callable[[int], Array]],
    ) -> None:
        self._is_triple = expert_type == "gemm3_swiglu"
        self._alpha = np.float32(alpha)
        self._beta = np.array(beta or (1.0 if self._is_triple else 0.0), np.float32)
        self._gate, self._activation = gate, activation
        self._weights = weights

    def add_up(
        self, hidden_states: Array, routing_weights: Array, indices: Array, count: int, output_type: str
    ) -> Array:
        """Return the sum of what experts compute, multiplied by the weights of the router."""
        data = upcast(hidden_states).reshape(-1, hidden_states.shape[-1])
        factors = upcast(routing_weights)
        if factors.shape == indices.shape and factors.size == len(data) * factors.shape[-1]:
            experts, factors = indices.reshape(len(data), -1), factors.reshape(len(data), -1)
        elif factors.size == count * len(data):
            factors = factors.reshape(count, len(data)).T
            experts = np.broadcast_to(np.arange(count), factors.shape)
        else:
            raise InputError(
                f"routing_weights has shape {list(routing_weights.shape)}, expected {list(indices.shape)} or "
                f"{len(data)} weights for each of the {count} experts"
            )
        if experts.size and not 0 <= experts.min() <= experts.max() < count:
            raise InputError(f"found experts from {experts.min()} to {experts.max()}, expected [0, {count})")
        total = np.zeros(data.shape, np.float32)
        for expert in np.unique(experts):
            rows, places = np.nonzero((experts == expert) & (factors != 0))
            if rows.size:
                np.add.at(total, rows, factors[rows, places, np.newaxis] * self._compute(data[rows], int(expert)))
        return convert_to_output_type(total.reshape(hidden_states.shape), output_type, hidden_states)

    def _compute(self, x: Array, expert: int) -> Array:
        """Return what one expert computes."""
        if self._is_triple:
            gate, up, down = (weights(expert) for weights in self._weights)
            return _project(self._activate(_project(x, gate)) * _project(x, up), down)
        matrix, bias, down, down_bias = (weights(expert) for weights in self._weights)
        y = _project(x, matrix) + bias.reshape(-1)
        gate = swish_4(np.minimum(y[:, self._gate :: 2], self._alpha), self._beta)
        value = np.clip(y[:, 1 - self._gate :: 2], -self._alpha, self._alpha) + 1
        return _project(gate * value, down) + down_bias.reshape(-1)

    def _activate(self, gate: Array) -> Array:
        if self._activation == "swiglu":
            return swish_4(gate, self._beta)
        return gelu_7(gate, approximation_mode="TANH" if self._activation == "geglu_tanh" else "ERF")


def _project(x: Array, weights: Array) -> Array:
    if weights.ndim != 2 or weights.shape[1] != x.shape[1]:
        raise InputError(f"the weights of an expert have shape {list(weights.shape)}, expected [..., {x.shape[1]}]")
    result: Array = x @ weights.T
    return result


def _select(quantized: Array, scale: Array, zero_point: Array | None) -> Callable[[int], Array]:
    """Return a function that returns the decompressed matrix of an expert."""
    count, rows = quantized.shape[:2]

    def select(expert: int) -> Array:
        parts = [x if x is None or x.size <= 1 else x[expert].reshape(rows, -1) for x in (scale, zero_point)]
        assert parts[0] is not None
        return decompress(quantized[expert].reshape(rows, -1), parts[0], parts[1])

    for name, x in (("scale", scale), ("zero point", zero_point)):
        if x is not None and x.size > 1 and x.shape[:2] != (count, rows):
            raise InputError(f"the {name} has shape {list(x.shape)}, expected [{count}, {rows}, groups]")
    return select


def _multiply_selected(
    A: Array, shape: tuple[int, ...], select: Callable[[int], Array], indices: Array, bias: Array | None
) -> Array:
    """Multiply rows by the matrices of the experts that are selected for them."""
    check_rank("A", A, 3)
    check_rank("indices", indices, 2)
    rows, count = indices.shape
    if len(shape) != 3 or A.shape[2] != shape[2] or A.shape[0] not in (1, count):
        raise InputError(
            f"found shapes {list(A.shape)} and {list(shape)}, expected [1 or {count}, rows, K] and [experts, N, K]"
        )
    check_shape("A", A, A.shape[0], rows, shape[2])
    if indices.size and not 0 <= indices.min() <= indices.max() < shape[0]:
        raise InputError(f"indices has values from {indices.min()} to {indices.max()}, expected [0, {shape[0]})")
    data = np.broadcast_to(upcast(A), (count, rows, shape[2]))
    result = np.zeros((count, rows, shape[1]), np.float32)
    for expert in np.unique(indices):
        row, slot = np.nonzero(indices == expert)
        product = data[slot, row] @ select(int(expert)).T
        if bias is not None and bias.size:
            product = product + (upcast(bias)[expert].reshape(-1) if bias.ndim == 3 else upcast(bias))
        result[slot, row] = product
    return convert_to_output_type(result, "dynamic", A)
