"""Products with the weights of experts and attention within sequences, where their generators of cases say nothing."""

from __future__ import annotations

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
        (lambda: pa_kv_reorder(ones(3, 2, 4), ones(3, 2, 8, 4), *[np.zeros(1, np.int32)] * 4), "key_cache has shape"),
        (lambda: pa_kv_reorder(ones(3, 2, 4, 8), ones(3, 2, 8), *[np.zeros(1, np.int32)] * 4), "value_cache has shape"),
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
