"""Recurrences over matrices: GatedDeltaNet, SelectiveSSM, and their variants with a table of states.

The paged variants run sequences of a batch without padding. OpenVINO also writes the new states to the table, in place.
Kernels do not modify their inputs: only the outputs are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.checks import check_rank, check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["gated_delta_net", "paged_causal_conv_1d", "paged_gated_delta_net", "paged_selective_ssm", "selective_ssm"]


def _count_delta_rule(call: Call) -> int:
    """Count the decay, the two products with the state, and its update, for each element of the state and step."""
    return 7 * call.outputs[0].size * call.get_shape(0)[-1]


def _count_state_space(call: Call) -> int:
    """Count the decay, the update of the state and the product with it, for each element of the state and step."""
    return 5 * call.outputs[0].size * call.get_shape(2)[-1]


def _count_taps(call: Call) -> int:
    """Count a product and a sum for each tap, and the bias."""
    has_bias = bool(call.get_shape(3)[0])
    return call.outputs[0].size * (2 * call.get_shape(2)[-1] + has_bias)


@op("GatedDeltaNet", opset="extension", kind="recurrent", shape=(2, 3), flops=_count_delta_rule)
@compute_in_float32
def gated_delta_net(
    query: Array,
    key: Array,
    value: Array,
    recurrent_state: Array,
    gate: Array,
    beta: Array,
    *,
    fuse_qk_l2norm: bool = False,
    q_l2_norm_eps: float = 1e-6,
    k_l2_norm_eps: float = 1e-6,
) -> tuple[Array, Array]:
    """Run linear attention whose state forgets, and learns the difference between a value and what it recalls for it.

    In each step, with a state S of shape [D, V] for each head, `S = exp(gate) * S`, then
    `S = S + beta * k (v - S^T k)`, and the output is `S^T q / sqrt(D)`.

    Args:
        query: Floating-point, shape [batch, steps, H, D].
        key: The type and shape of `query`.
        value: The type of `query`, shape [batch, steps, G, V]. G is a multiple of H: neighboring heads share a key.
        recurrent_state: The type of `query`, shape [batch, G, D, V]: the state before the first step.
        gate: The type of `query`, shape [batch, steps, G]: logarithms of what the state keeps.
        beta: The type of `query`, shape [batch, steps, G]: how much of the difference is learnt.
        fuse_qk_l2norm: Whether queries and keys are divided by `sqrt(sum(x^2) + eps)`.
        q_l2_norm_eps: Added to the sum of squares of queries.
        k_l2_norm_eps: Added to the sum of squares of keys.

    Returns:
        The outputs, in the shape of `value`, and the state after the last step, both in the type of `query`.

    Raises:
        InputError: The shapes do not match.

    Spec:
        Defined by openvino/reference/gated_delta_net.hpp
    """
    check_rank("query", query, 4)
    check_rank("value", value, 4)
    batch, steps, heads, size = query.shape
    value_heads = value.shape[2]
    check_shape("key", key, *query.shape)
    check_shape("value", value, batch, steps, value_heads, value.shape[3])
    check_shape("recurrent_state", recurrent_state, batch, value_heads, size, value.shape[3])
    check_shape("gate", gate, batch, steps, value_heads)
    check_shape("beta", beta, batch, steps, value_heads)
    repeats = _divide_heads("value", value_heads, "query", heads)
    if fuse_qk_l2norm:
        query, key = _normalize(query, q_l2_norm_eps), _normalize(key, k_l2_norm_eps)
    query = query * query.dtype.type(1 / np.sqrt(size))
    query, key = np.repeat(query, repeats, axis=2), np.repeat(key, repeats, axis=2)
    decay = np.exp(gate)
    state = recurrent_state
    outputs = np.empty_like(value)
    for t in range(steps):
        state = state * decay[:, t, :, None, None]
        recalled = (key[:, t, :, None, :] @ state)[..., 0, :]
        difference = (value[:, t] - recalled) * beta[:, t, :, None]
        state = state + key[:, t, :, :, None] * difference[..., None, :]
        outputs[:, t] = (query[:, t, :, None, :] @ state)[..., 0, :]
    return outputs, np.array(state)


@op("PagedGatedDeltaNet", opset="extension", kind="recurrent", shape=(2,), flops=_count_delta_rule)
@compute_in_float32
def paged_gated_delta_net(
    query: Array,
    key: Array,
    value: Array,
    recurrent_state_table: Array,
    gate: Array,
    beta: Array,
    subsequence_begins: Array,
    la_block_indices: Array,
    la_block_indices_begins: Array,
    processed_tokens: Array,
    cache_interval: Array,
    *,
    use_qk_l2norm: bool = False,
    q_l2_norm_eps: float = 1e-6,
    k_l2_norm_eps: float = 1e-6,
) -> Array:
    """Run GatedDeltaNet on sequences of different lengths, with initial states in rows of a table.

    OpenVINO also writes new states to the table, in place, which does not affect the output.

    Args:
        query: Floating-point, shape [tokens, H, D]: the sequences one after another.
        key: The type and shape of `query`.
        value: The type of `query`, shape [tokens, G, V].
        recurrent_state_table: The type of `query`, shape [blocks, G, D, V].
        gate: The type of `query`, shape [tokens, G].
        beta: The type of `query`, shape [tokens, G].
        subsequence_begins: Integer, shape [sequences + 1]: where sequences begin, and the number of tokens.
        la_block_indices: Integer, shape [n]: rows of the table, sequence by sequence. The first one of a sequence has
            its first state.
        la_block_indices_begins: Integer, shape [sequences + 1]: where the rows of sequences begin, and n.
        processed_tokens: Integer, shape [sequences]: the number of tokens before, which does not affect the output.
        cache_interval: Integer, shape [sequences]: how often states are written, which has none either.
        use_qk_l2norm: As `fuse_qk_l2norm` of GatedDeltaNet.
        q_l2_norm_eps: As for GatedDeltaNet.
        k_l2_norm_eps: As for GatedDeltaNet.

    Returns:
        The shape of `value`, the type of `query`.

    Raises:
        InputError: The shapes do not match, or a row does not exist.

    Spec:
        Defined by openvino/op/paged_gated_delta_net.hpp and the CPU plugin's recurrent_linear_attn.cpp
    """
    check_rank("value", value, 3)
    outputs = np.zeros(value.shape, query.dtype)
    table = recurrent_state_table
    for part, row in _list_sequences(subsequence_begins, la_block_indices, la_block_indices_begins, len(table)):
        q, k, v, g, b = (x[None, part] for x in (query, key, value, gate, beta))
        result, _ = gated_delta_net(
            q,
            k,
            v,
            table[row : row + 1],
            g,
            b,
            fuse_qk_l2norm=use_qk_l2norm,
            q_l2_norm_eps=q_l2_norm_eps,
            k_l2_norm_eps=k_l2_norm_eps,
        )
        outputs[part] = result[0]
    return outputs


@op("SelectiveSSM", opset="extension", kind="recurrent", shape=(3, 5), flops=_count_state_space)
@compute_in_float32
def selective_ssm(A: Array, dt: Array, B: Array, x: Array, C: Array, recurrent_state: Array) -> tuple[Array, Array]:
    """Run the state space model of Mamba 2.

    In each step, with a state S of shape [P, N] for each head, `S = exp(A * dt) * S + x (dt * B)`, and the output is
    `S C`.

    Args:
        A: Floating-point, shape [heads]: logarithms of the decay, usually negative.
        dt: The type of `A`, shape [batch, steps, heads]: the sizes of the steps.
        B: The type of `A`, shape [batch, steps, groups, N]. Neighboring heads share a group.
        x: The type of `A`, shape [batch, steps, heads, P].
        C: The type and shape of `B`.
        recurrent_state: The type of `A`, shape [batch, heads, P, N]: the state before the first step.

    Returns:
        The outputs, in the shape of `x`, and the state after the last step.

    Raises:
        InputError: The shapes do not match.

    Spec:
        Defined by openvino/op/selective_ssm.hpp
    """
    check_rank("x", x, 4)
    check_rank("B", B, 4)
    batch, steps, heads, size = x.shape
    groups, states = B.shape[2:]
    check_shape("A", A, heads)
    check_shape("dt", dt, batch, steps, heads)
    check_shape("B", B, batch, steps, groups, states)
    check_shape("C", C, *B.shape)
    check_shape("recurrent_state", recurrent_state, batch, heads, size, states)
    repeats = _divide_heads("x", heads, "B", groups)
    decay = np.exp(A * dt)
    scaled = np.repeat(B, repeats, axis=2) * dt[..., None]
    readout = np.repeat(C, repeats, axis=2)
    state = recurrent_state
    outputs = np.empty_like(x)
    for t in range(steps):
        state = state * decay[:, t, :, None, None] + x[:, t, :, :, None] * scaled[:, t, :, None, :]
        outputs[:, t] = (state @ readout[:, t, :, :, None])[..., 0]
    return outputs, np.array(state)


@op("PagedSelectiveSSM", opset="extension", kind="recurrent", shape=(3,), flops=_count_state_space)
@compute_in_float32
@describes_like(paged_gated_delta_net)
def paged_selective_ssm(
    A: Array,
    dt: Array,
    B: Array,
    x: Array,
    C: Array,
    recurrent_state_table: Array,
    subsequence_begins: Array,
    la_block_indices: Array,
    la_block_indices_begins: Array,
    num_processed_tokens: Array,
    cache_interval: Array,
) -> Array:
    """Run SelectiveSSM on sequences of different lengths, with initial states in rows of a table.

    OpenVINO also writes new states to the table, in place, which does not affect the output.

    Args:
        A: Floating-point, shape [heads].
        dt: The type of `A`, shape [tokens, heads]: the sequences one after another.
        B: The type of `A`, shape [tokens, groups, N].
        x: The type of `A`, shape [tokens, heads, P].
        C: The type and shape of `B`.
        recurrent_state_table: The type of `A`, shape [blocks, heads, P, N].
        num_processed_tokens: Integer, shape [sequences]: the number of tokens before, which does not affect the output.

    Returns:
        The shape and type of `x`.

    Spec:
        Defined by openvino/op/paged_selective_ssm.hpp
    """
    check_rank("x", x, 3)
    outputs = np.zeros_like(x)
    table = recurrent_state_table
    for part, row in _list_sequences(subsequence_begins, la_block_indices, la_block_indices_begins, len(table)):
        result, _ = selective_ssm(A, dt[None, part], B[None, part], x[None, part], C[None, part], table[row : row + 1])
        outputs[part] = result[0]
    return outputs


@op("PagedCausalConv1D", opset="extension", kind="window", shape="keep_shape", flops=_count_taps)
@compute_in_float32
@describes_like(paged_gated_delta_net)
def paged_causal_conv_1d(
    input_embeds: Array,
    conv_state_table: Array,
    conv_weight: Array,
    conv_bias: Array,
    subsequence_begins: Array,
    la_block_indices: Array,
    la_block_indices_begins: Array,
    processed_tokens: Array,
    cache_interval: Array,
) -> Array:
    """Convolve each channel of sequences with a separate filter, over a token and the tokens before it.

    The tokens before a sequence are a row of a table. OpenVINO also writes the last tokens of sequences to the table,
    in place, which does not affect the output.

    Args:
        input_embeds: Floating-point, shape [tokens, channels]: the sequences one after another.
        conv_state_table: Floating-point, shape [blocks, channels, K]: the last K tokens before sequences. The oldest
            token is ignored.
        conv_weight: The type of `input_embeds`, shape [channels, 1, K].
        conv_bias: The type of `input_embeds`, shape [channels], or without elements.
        la_block_indices: Integer, shape [n]: rows of the table, sequence by sequence. The first one of a sequence has
            the tokens before it.

    Returns:
        The shape and type of `input_embeds`.

    Spec:
        Defined by openvino/op/paged_causal_conv1d.hpp and the CPU plugin's paged_causal_conv1d.hpp
    """
    check_rank("input_embeds", input_embeds, 2)
    check_rank("conv_state_table", conv_state_table, 3)
    channels = input_embeds.shape[1]
    blocks, _, taps = conv_state_table.shape
    check_shape("conv_state_table", conv_state_table, blocks, channels, taps)
    check_shape("conv_weight", conv_weight, channels, 1, taps)
    weights = conv_weight[:, 0].T
    outputs = np.zeros_like(input_embeds)
    for part, row in _list_sequences(subsequence_begins, la_block_indices, la_block_indices_begins, blocks):
        tokens = np.concatenate([conv_state_table[row, :, 1:].T, input_embeds[part]]).astype(input_embeds.dtype)
        count = part.stop - part.start
        for tap in range(taps):
            outputs[part] += tokens[tap : tap + count] * weights[tap]
    return outputs + conv_bias if conv_bias.size else outputs


def _normalize(x: Array, epsilon: float) -> Array:
    """Divide the vectors along the last axis by their length."""
    length: Array = np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + x.dtype.type(epsilon))
    return x / length


def _divide_heads(name: str, heads: int, other: str, groups: int) -> int:
    """Return how many heads share a group."""
    if not groups or heads % groups:
        raise InputError(f"{name} has {heads} heads, expected a multiple of the {groups} of {other}")
    return heads // groups


def _list_sequences(begins: Array, rows: Array, row_begins: Array, blocks: int) -> Iterator[tuple[slice, int]]:
    """Yield the tokens of each sequence that has some, and the row of the table with its first state."""
    check_rank("subsequence_begins", begins, 1)
    check_shape("la_block_indices_begins", row_begins, *begins.shape)
    for i in range(len(begins) - 1):
        part = slice(int(begins[i]), int(begins[i + 1]))
        if part.stop <= part.start:
            continue
        position = int(row_begins[i])
        if not 0 <= position < len(rows) or not 0 <= int(rows[position]) < blocks:
            raise InputError(f"sequence {i} has no row of the table, which has {blocks}")
        yield part, int(rows[position])
