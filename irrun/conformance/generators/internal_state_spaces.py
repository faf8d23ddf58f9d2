"""Conformance cases for GatedDeltaNet, SelectiveSSM and their paged variants, registered as version 0.

OpenVINO cannot read them from files, so each is compared with its steps as standard operations.
"""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.internal import HALF, create_constant, make_case, sample_normal
from irrun.conformance.layers import compute_nodes

F32, F16, I32 = np.float32, np.float16, np.int32
RECURRENT = (2e-5, 4e-6)


def _build_delta_rule(ops, state, epsilons, q, k, v, gate, beta):
    """Return the outputs [steps, G, V] and the last state [G, D, V] of one sequence as nodes."""
    steps, heads, size = q.shape
    value_heads = v.shape[1]
    groups = np.repeat(np.arange(heads), value_heads // heads)

    def take(x, t):
        return ops.gather(create_constant(ops, x.astype(F32)), create_constant(ops, t), create_constant(ops, 0))

    def scale(x, epsilon):
        return x / ops.sqrt(ops.reduce_sum(x * x, np.array([-1]), True) + create_constant(ops, F32(epsilon)))

    total, outputs = create_constant(ops, state.astype(F32)), []
    for t in range(steps):
        row_q, row_k = (ops.gather(take(x, t), create_constant(ops, groups), create_constant(ops, 0)) for x in (q, k))
        if epsilons is not None:
            row_q, row_k = scale(row_q, epsilons[0]), scale(row_k, epsilons[1])
        decay = ops.unsqueeze(ops.exp(take(gate, t)), np.array([1, 2]))
        total = total * decay
        column = ops.unsqueeze(row_k, np.array([2]))
        recalled = ops.reduce_sum(total * column, np.array([1]), False)
        learnt = (take(v, t) - recalled) * ops.unsqueeze(take(beta, t), np.array([1]))
        total = total + column * ops.unsqueeze(learnt, np.array([1]))
        output = ops.reduce_sum(total * ops.unsqueeze(row_q, np.array([2])), np.array([1]), True)
        outputs.append(output / create_constant(ops, F32(np.sqrt(size))))
    joined = ops.transpose(ops.concat(outputs, 1), np.array([1, 0, 2]))
    return joined, total


def _sample_delta_net(rng, tokens, heads, value_heads, size, value_size, dtype=F32):
    shapes = [(heads, size), (heads, size), (value_heads, value_size), (value_heads,), (value_heads,)]
    q, k, v, gate, beta = (sample_normal(rng, tokens, *shape) for shape in shapes)
    arrays = [q, k, v, -np.abs(gate) / 4, 1 / (1 + np.exp(-beta))]
    return [x.astype(dtype) for x in arrays]


@register_cases("GatedDeltaNet", since=0)
def gated_delta_net(rng):
    from openvino import opset13 as ops

    for batch, steps, heads, value_heads, size, value_size, epsilons, dtype in [
        (1, 1, 1, 1, 2, 3, None, F32),
        (1, 5, 2, 2, 4, 4, None, F32),
        (2, 3, 2, 4, 3, 5, None, F32),
        (1, 4, 1, 3, 8, 2, (1e-6, 1e-6), F32),
        (2, 6, 2, 2, 4, 3, (1e-3, 1e-5), F32),
        (1, 3, 4, 8, 2, 2, (0.5, 0.1), F32),
        (3, 1, 2, 2, 4, 4, None, F32),
        (1, 3, 2, 2, 4, 4, None, F16),
    ]:
        sequences = [_sample_delta_net(rng, steps, heads, value_heads, size, value_size, dtype) for _ in range(batch)]
        q, k, v, gate, beta = (np.stack(arrays) for arrays in zip(*sequences, strict=True))
        state = sample_normal(rng, batch, value_heads, size, value_size, dtype=dtype)
        nodes = [
            _build_delta_rule(ops, first, epsilons, *sequence) for first, sequence in zip(state, sequences, strict=True)
        ]
        outputs, states = zip(*(compute_nodes(*pair) for pair in nodes), strict=True)
        expected = [np.stack(outputs).astype(dtype), np.stack(states).astype(dtype)]
        attributes = {"fuse_qk_l2norm": epsilons is not None}
        if epsilons is not None:
            attributes |= {"q_l2_norm_eps": epsilons[0], "k_l2_norm_eps": epsilons[1]}
        tolerance = RECURRENT if dtype == F32 else HALF
        inputs = [q, k, v, state, gate, beta]
        yield make_case("GatedDeltaNet", "extension", inputs, attributes, expected, tolerance=tolerance)


#: Lengths of sequences, rows of the table of each, and the type of integers.
SEQUENCES = [
    ([3], [[0, 1]], I32),
    ([1, 1, 1], [[2, 3], [0, 1], [4, 5]], I32),
    ([4, 2], [[1, 2, 3], [5, 0]], I32),
    ([2, 0, 3], [[0, 1], [2, 3], [4, 4]], np.int64),
    ([5], [[3, 3, 1]], I32),
    ([1], [[5, 2]], np.int64),
    ([2, 2], [[1, 0], [1, 2]], I32),
    ([7, 1], [[0, 1, 2, 3], [4, 5]], I32),
]
BLOCKS = 6


def _list_rows(lengths, rows, dtype):
    """Return the inputs that describe sequences: their begins, rows, the begins of these, past tokens and intervals."""
    begins = np.cumsum([0, *lengths]).astype(dtype)
    row_begins = np.cumsum([0, *map(len, rows)]).astype(dtype)
    past = np.arange(len(lengths)).astype(dtype) * 3
    return [begins, np.concatenate(rows).astype(dtype), row_begins, past, np.full(len(lengths), 2, dtype)]


@register_cases("PagedGatedDeltaNet", since=0)
def paged_gated_delta_net(rng):
    from openvino import opset13 as ops

    for i, (lengths, rows, dtype) in enumerate(SEQUENCES):
        tokens = _sample_delta_net(rng, sum(lengths), 2, 4, 3, 5)
        table = sample_normal(rng, BLOCKS, 4, 3, 5)
        epsilons = (1e-4, 1e-3) if i % 2 else None
        begins = np.cumsum([0, *lengths])
        parts = []
        for s, length in enumerate(lengths):
            if length:
                part = [x[begins[s] : begins[s + 1]] for x in tokens]
                output, _ = _build_delta_rule(ops, table[rows[s][0]], epsilons, *part)
                parts.append(output)
        expected = compute_nodes(ops.concat(parts, 0))
        attributes = {"use_qk_l2norm": epsilons is not None}
        attributes |= {"q_l2_norm_eps": (epsilons or (1e-6,))[0], "k_l2_norm_eps": (epsilons or (1e-6,))[-1]}
        inputs = [*tokens[:3], table, *tokens[3:], *_list_rows(lengths, rows, dtype)]
        yield make_case("PagedGatedDeltaNet", "extension", inputs, attributes, expected, tolerance=RECURRENT)


def _build_state_space(ops, state, A, dt, B, x, C):
    """Return the outputs [steps, heads, P] and the last state [heads, P, N] of one sequence as nodes."""
    groups = np.repeat(np.arange(B.shape[1]), x.shape[1] // B.shape[1])

    def constant(value):
        return create_constant(ops, value.astype(F32))

    total, outputs = constant(state), []
    for t in range(len(x)):
        decay = ops.exp(constant(A) * constant(dt[t]))
        scaled = constant(B[t][groups]) * ops.unsqueeze(constant(dt[t]), np.array([1]))
        update = ops.unsqueeze(constant(x[t]), np.array([2])) * ops.unsqueeze(scaled, np.array([1]))
        total = total * ops.unsqueeze(decay, np.array([1, 2])) + update
        product = total * ops.unsqueeze(constant(C[t][groups]), np.array([1]))
        outputs.append(ops.unsqueeze(ops.reduce_sum(product, np.array([2]), False), np.array([0])))
    return ops.concat(outputs, 0), total


def _sample_state_space(rng, tokens, heads, groups, size, states, dtype=F32):
    """Return dt, B, x and C."""
    step = np.abs(sample_normal(rng, tokens, heads)) / 2
    B, C = sample_normal(rng, tokens, groups, states), sample_normal(rng, tokens, groups, states)
    return [y.astype(dtype) for y in (step, B, sample_normal(rng, tokens, heads, size), C)]


@register_cases("SelectiveSSM", since=0)
def selective_ssm(rng):
    from openvino import opset13 as ops

    for batch, steps, heads, groups, size, states, dtype in [
        (1, 1, 1, 1, 2, 3, F32),
        (1, 6, 2, 1, 4, 4, F32),
        (2, 3, 4, 2, 3, 5, F32),
        (3, 2, 2, 2, 1, 8, F32),
        (1, 4, 6, 3, 2, 2, F32),
        (2, 1, 3, 1, 5, 1, F32),
        (1, 9, 1, 1, 1, 1, F32),
        (1, 3, 2, 1, 4, 4, F16),
    ]:
        A = -np.abs(sample_normal(rng, heads)).astype(dtype)
        sequences = [_sample_state_space(rng, steps, heads, groups, size, states, dtype) for _ in range(batch)]
        dt, B, x, C = (np.stack(arrays) for arrays in zip(*sequences, strict=True))
        state = sample_normal(rng, batch, heads, size, states, dtype=dtype)
        results = [
            compute_nodes(*_build_state_space(ops, state[i], A, *sequence)) for i, sequence in enumerate(sequences)
        ]
        outputs, last = zip(*results, strict=True)
        expected = [np.stack(outputs).astype(dtype), np.stack(last).astype(dtype)]
        tolerance = RECURRENT if dtype == F32 else HALF
        yield make_case("SelectiveSSM", "extension", [A, dt, B, x, C, state], {}, expected, tolerance=tolerance)


@register_cases("PagedSelectiveSSM", since=0)
def paged_selective_ssm(rng):
    from openvino import opset13 as ops

    for lengths, rows, dtype in SEQUENCES:
        A = -np.abs(sample_normal(rng, 4))
        tokens = _sample_state_space(rng, sum(lengths), 4, 2, 3, 5)
        table = sample_normal(rng, BLOCKS, 4, 3, 5)
        begins = np.cumsum([0, *lengths])
        parts = []
        for s, length in enumerate(lengths):
            if length:
                part = [x[begins[s] : begins[s + 1]] for x in tokens]
                parts.append(_build_state_space(ops, table[rows[s][0]], A, *part)[0])
        expected = compute_nodes(ops.concat(parts, 0))
        inputs = [A, *tokens, table, *_list_rows(lengths, rows, dtype)]
        yield make_case("PagedSelectiveSSM", "extension", inputs, {}, expected, tolerance=RECURRENT)


@register_cases("PagedCausalConv1D", since=0)
def paged_causal_conv_1d(rng):
    from openvino import opset13 as ops

    for i, (lengths, rows, dtype) in enumerate(SEQUENCES):
        taps = (4, 3, 2, 1)[i % 4]
        tokens = sample_normal(rng, sum(lengths), 5)
        table, weights = sample_normal(rng, BLOCKS, 5, taps), sample_normal(rng, 5, 1, taps)
        bias = sample_normal(rng, 5 if i % 3 else 0)
        begins = np.cumsum([0, *lengths])
        parts = []
        for s, length in enumerate(lengths):
            if length:
                joined = np.concatenate([table[rows[s][0], :, 1:].T, tokens[begins[s] : begins[s + 1]]])
                data, axis = create_constant(ops, joined), create_constant(ops, 0)
                taken = [ops.gather(data, create_constant(ops, np.arange(k, k + length)), axis) for k in range(taps)]
                products = [x * create_constant(ops, weights[:, 0, k]) for k, x in enumerate(taken)]
                parts.append(ops.reduce_sum(ops.concat([ops.unsqueeze(x, axis) for x in products], 0), axis, False))
        result = ops.concat(parts, 0)
        expected = compute_nodes(result + create_constant(ops, bias) if bias.size else result)
        inputs = [tokens, table, weights, bias, *_list_rows(lengths, rows, dtype)]
        yield make_case("PagedCausalConv1D", "extension", inputs, {}, expected, tolerance=RECURRENT)
