"""Products with the weights of experts and attention within sequences, where their generators of cases say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.internal.compressed_weights import fully_connected_quantized, fully_connected_quantized_legacy
from irrun.ops.internal.experts import (
    gather_matmul,
    gather_matmul_compressed,
    grouped_mat_mul_compressed,
    moe,
    moe_compressed,
)
from irrun.ops.internal.paged_attention import pa_kv_reorder
from irrun.ops.internal.variable_length_attention import vlsdpa

F32 = np.float32


def ones(*shape):
    return np.ones(shape, F32)


def attend(lengths, **orders):
    return vlsdpa(ones(2, 4, 3), ones(2, 4, 3), ones(2, 4, 3), lengths, **orders)


EXPERTS = [ones(4, 5, 6), ones(4, 5, 6), ones(4, 6, 5)]
INDICES = np.array([[0, 1], [2, 3], [3, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gather_matmul(ones(1, 3, 5), ones(4, 2, 6), INDICES), r"expected \[1 or 2, rows, K\]"),
        (lambda: gather_matmul(ones(3, 3, 6), ones(4, 2, 6), INDICES), r"expected \[1 or 2, rows, K\]"),
        (lambda: gather_matmul(ones(1, 4, 6), ones(4, 2, 6), INDICES), "A has shape"),
        (lambda: gather_matmul(ones(1, 3, 6), ones(3, 2, 6), INDICES), r"from 0 to 3, expected \[0, 3\)"),
        (
            lambda: gather_matmul_compressed(ones(1, 3, 6), ones(4, 2, 6), INDICES, None, ones(4, 3, 1)),
            r"the scale has shape \[4, 3, 1\], expected \[4, 2, groups\]",
        ),
        (lambda: grouped_mat_mul_compressed(ones(3, 6), ones(1, 2, 6), np.array([3])), "the scale of mat_b is missing"),
        (
            lambda: moe(ones(3, 6), ones(3, 2), INDICES, *EXPERTS[:2], expert_type="gemm3_swiglu"),
            "expected 3 for gemm3",
        ),
        (lambda: moe(ones(3, 6), ones(3, 2), INDICES, *EXPERTS), "found 3 inputs with weights, expected 4"),
        (lambda: moe(ones(3, 6), ones(5), INDICES, *EXPERTS, expert_type="gemm3_swiglu"), "routing_weights has shape"),
        (
            lambda: moe(ones(3, 6), ones(3, 2), INDICES + 1, *EXPERTS, expert_type="gemm3_swiglu"),
            r"found experts from 1 to 4, expected \[0, 4\)",
        ),
        (
            lambda: moe(ones(3, 7), ones(3, 2), INDICES, *EXPERTS, expert_type="gemm3_swiglu"),
            r"the weights of an expert have shape \[5, 6\], expected \[..., 7\]",
        ),
        (lambda: moe_compressed(ones(3, 6), ones(3, 2), INDICES, num_shared_expert=1), "num_shared_expert is 1"),
        (lambda: moe_compressed(ones(3, 6), ones(3, 2), INDICES, EXPERTS[0]), "input 5, a matrix, a scale or a bias"),
        (
            lambda: fully_connected_quantized_legacy(ones(2, 3), ones(4, 3), ones(0), ones(1), ones(1)),
            "deq_zero_points has shape",
        ),
        (
            lambda: fully_connected_quantized(ones(2, 3), ones(4, 3), ones(0), ones(1), None, ones(1), None, ones(1)),
            "output_scales has shape",
        ),
        (lambda: attend(np.array([0, 5])), r"cu_seqlens is \[0, 5\], expected ascending values"),
        (lambda: attend(np.array([0, 3, 2])), "expected ascending values"),
        (lambda: attend(np.array([0, 4]), order_q=[0, 0, 1]), "found the order"),
        (
            lambda: pa_kv_reorder(ones(3, 2), ones(3, 2, 8, 4), *[np.zeros(1, np.int32)] * 4),
            r"key_cache has shape \[3, 2\], expected a tensor of rank 4",
        ),
        (
            lambda: pa_kv_reorder(ones(3, 2, 4, 8), ones(3, 2), *[np.zeros(1, np.int32)] * 4),
            r"value_cache has shape \[3, 2\], expected a tensor of rank 4",
        ),
        (
            lambda: pa_kv_reorder(ones(3, 2, 4, 8), ones(3, 2, 8, 4), *[np.zeros(n, np.int32) for n in (1, 1, 1, 2)]),
            r"block_update_indices_begins has shape \[2\]",
        ),
        (
            lambda: pa_kv_reorder(ones(3, 2, 4, 8), ones(3, 2, 7, 4), *[np.zeros(1, np.int32)] * 4),
            "key_cache has shape",
        ),
        (lambda: pa_kv_reorder(ones(3, 2, 4, 0), ones(3, 2, 0, 4), *[np.zeros(1, np.int32)] * 4), "blocks with tokens"),
    ],
)
def test_arguments_are_checked(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_experts_without_weight_are_not_computed():
    experts = [np.array([w, w * np.inf]) for w in (ones(5, 6), ones(5, 6), ones(6, 5))]
    scattered = np.array([[1, 1, 0.5], [0, 0, 0]], F32)
    result = moe(ones(3, 6), scattered, np.zeros((3, 1), np.int32), *experts, expert_type="gemm3_swiglu")
    assert np.isfinite(result).all()
    np.testing.assert_allclose(result[2], result[0] / 2)


def test_caches_are_not_modified():
    keys, values = np.zeros((2, 1, 3, 4), F32), np.zeros((2, 1, 4, 3), F32)
    keys[0, :, :, 1] = 1
    index = [np.array(x, np.int32) for x in ([0], [0, 1], [1, 3], [0, 1])]
    new_keys, _ = pa_kv_reorder(keys, values, *index)
    assert new_keys[0, 0, :, 3].all()
    assert not keys[0, 0, :, 3].any()


def test_tokens_of_caches_are_copied_within_their_sequences():
    """Copies outside of the blocks of the sequence, or with a block that does not exist, are left out."""
    size, blocks = 4, 5
    keys = np.arange(blocks * 2 * 3 * size, dtype=F32).reshape(blocks, 2, 3, size)
    values = keys.swapaxes(2, 3) + 1000
    own = [[3, 0], [], [4, blocks, -1, 1]]  # the blocks of each sequence
    copies = [
        [(0, 5), (5, 2), (1, 1), (7, 8), (8, 0), (-1, 0), (0, -1)],
        [(0, 0)],
        [(2, 12), (2, 4), (4, 2), (8, 2), (2, 8)],
    ]
    begins = np.cumsum([0, *map(len, own)])
    updates = np.array([copy for of_sequence in copies for copy in of_sequence])
    expected_keys, expected_values = keys.copy(), values.copy()
    for rows, of_sequence in zip(own, copies, strict=True):
        for source, target in of_sequence:
            if not (0 <= source < size * len(rows) and 0 <= target < size * len(rows)):
                continue
            old, new = rows[source // size], rows[target // size]
            if old in range(blocks) and new in range(blocks):
                expected_keys[new, :, :, target % size] = expected_keys[old, :, :, source % size]
                expected_values[new, :, target % size] = expected_values[old, :, source % size]
    indices, update_begins = np.array([n for rows in own for n in rows]), np.cumsum([0, *map(len, copies)])
    for shape in ((-1, 2), (-1,)):
        result = pa_kv_reorder(keys, values, indices, begins, updates.reshape(shape), update_begins)
        np.testing.assert_array_equal(result[0], expected_keys)
        np.testing.assert_array_equal(result[1], expected_values)
    assert (expected_keys != keys).sum() == 2 * 3 * 3


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("has_zp", [False, True])
@pytest.mark.parametrize("expert_type", ["gemm3_swiglu", "gemm2_bias_swiglu_clamp"])
def test_compressed_experts_compute_what_experts_with_the_same_weights_compute(expert_type, has_zp, groups):
    rng = np.random.default_rng(5)
    is_triple = expert_type == "gemm3_swiglu"
    shapes = [(4, 6, 8), (4, 6, 8), (4, 8, 6)] if is_triple else [(4, 12, 8), (4, 8, 6)]
    biases = [rng.normal(size=(4, 1, n)).astype(F32) for n in (12, 8)]
    plain, compressed = [], []
    for number, shape in enumerate(shapes):
        codes = rng.integers(0, 16, (*shape[:2], groups, shape[2] // groups)).astype(np.uint8)
        scale = rng.uniform(0.1, 0.3, (*shape[:2], groups, 1)).astype(F32)
        zero = rng.integers(0, 16, scale.shape).astype(np.uint8)
        shift = zero.astype(F32) if has_zp else F32(0)
        plain.append(((codes - shift) * scale).reshape(shape))
        compressed += [codes if groups > 1 else codes.reshape(shape), scale.reshape(*shape[:2], groups)]
        if has_zp:
            compressed.append(zero.reshape(*shape[:2], groups))
        elif is_triple:
            compressed.append(np.zeros(0, np.uint8))
        if not is_triple:
            plain.append(biases[number])
            compressed.append(biases[number])
    data, indices = rng.normal(size=(5, 8)).astype(F32), rng.integers(0, 4, (5, 2))
    factors = rng.uniform(size=(5, 2)).astype(F32)
    options = {"expert_type": expert_type, "expert_alpha": 0.8, "expert_beta": 1.7, "gate_idx": 1}
    expected = moe(data, factors, indices, *plain, **options)
    result = moe_compressed(data, factors, indices, *compressed, has_zp=has_zp, **options)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    if is_triple and has_zp:  # an omitted zero point is 0
        compressed[-1] = np.zeros_like(compressed[-1])
        expected = moe_compressed(data, factors, indices, *compressed, has_zp=True, **options)
        result = moe_compressed(data, factors, indices, *compressed[:-1], has_zp=True, **options)
        np.testing.assert_array_equal(result, expected)


def compute_expert(x, weights, expert_type, activation, alpha, beta, gate_idx):
    """Return what an expert computes for a row."""
    if expert_type == "gemm3_swiglu":
        gate, up, down = weights
        g = gate @ x
        active = (
            g / (1 + np.exp(-(beta or 1) * g)) if activation == "swiglu" else np.array([gelu(v, activation) for v in g])
        )
        return down @ (active * (up @ x))
    matrix, bias, down, down_bias = weights
    y = matrix @ x + bias[0]
    g, u = np.minimum(y[gate_idx::2], alpha), np.clip(y[1 - gate_idx :: 2], -alpha, alpha)
    return down @ (g / (1 + np.exp(-beta * g)) * (u + 1)) + down_bias[0]


def gelu(x, activation):
    if activation == "geglu_tanh":
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


@pytest.mark.parametrize("beta", [0.0, 1.5])
@pytest.mark.parametrize(
    ("expert_type", "activation", "gate_idx"),
    [
        ("gemm3_swiglu", "swiglu", 0),
        ("gemm3_swiglu", "geglu_tanh", 0),
        ("gemm3_swiglu", "geglu_erf", 0),
        ("gemm2_bias_swiglu_clamp", "swiglu", 0),
        ("gemm2_bias_swiglu_clamp", "swiglu", 1),
    ],
)
def test_rows_are_sums_of_what_their_experts_compute(expert_type, activation, gate_idx, beta):
    rng = np.random.default_rng(6)
    is_triple = expert_type == "gemm3_swiglu"
    shapes = [(4, 6, 8), (4, 6, 8), (4, 8, 6)] if is_triple else [(4, 12, 8), (4, 1, 12), (4, 8, 6), (4, 1, 8)]
    weights = [rng.normal(size=shape).astype(F32) for shape in shapes]
    data, indices = rng.normal(size=(2, 3, 8)).astype(F32), rng.integers(0, 4, (6, 2))
    factors = rng.uniform(size=(6, 2)).astype(F32)
    options = {"expert_type": expert_type, "activation_type": activation, "expert_alpha": 0.7, "expert_beta": beta}
    result = moe(data, factors, indices, *weights, gate_idx=gate_idx, **options)
    expected = [
        sum(
            f * compute_expert(x, [w[e] for w in weights], expert_type, activation, 0.7, beta, gate_idx)
            for f, e in pairs
        )
        for x, pairs in zip(
            data.reshape(6, 8), [zip(*pair, strict=True) for pair in zip(factors, indices, strict=True)], strict=True
        )
    ]
    np.testing.assert_allclose(result, np.reshape(expected, data.shape), rtol=1e-4, atol=1e-4)
    scattered = np.zeros((4, 6), F32)
    np.add.at(scattered, (indices.T, np.arange(6)), factors.T)
    older = moe(data, scattered, indices, *weights, gate_idx=gate_idx, **options)
    np.testing.assert_allclose(older, result, rtol=1e-5, atol=1e-5)
