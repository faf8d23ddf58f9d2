"""Tests of sparse operations: examples of the specification and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.openvino import opset13 as ops
from irrun.openvino import opset16
from irrun.ops._support import registry
from irrun.ops.sparse import (
    embedding_bag_offsets_15,
    embedding_bag_packed_15,
    embedding_segments_sum_3,
    sparse_fill_empty_rows_16,
)

TABLE = np.array([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]], np.float32)


def i64(*values):
    return np.array(values, np.int64)


HALVES = np.full(4, 0.5, np.float32)
BAGS = np.array([[0, 2], [1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("type", "version", "attributes", "inputs", "expected"),
    [
        (
            "EmbeddingBagOffsets",
            15,
            {"reduction": "sum"},
            (i64(0, 2, 3, 4), i64(0, 2, 2), np.array(0), HALVES),
            [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]],
        ),
        (
            "EmbeddingBagOffsets",
            15,
            {"reduction": "sum"},
            (i64(0, 2, 3, 4), i64(0, 2, 2), np.array(-1), np.array([0.5, 0.2, -2, 1], np.float32)),
            [[-0.48, -0.66], [0, 0], [2.8, -3.7]],
        ),
        (
            "EmbeddingBagOffsets",
            15,
            {"reduction": "mean"},
            (i64(0, 2, 3, 4), i64(0, 2, 2)),
            [[-1.05, -1.2], [0, 0], [-0.1, 0.4]],
        ),
        (
            "EmbeddingBagOffsetsSum",
            3,
            {},
            (i64(0, 2, 3, 4), i64(0, 2, 2), np.array(0), HALVES),
            [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]],
        ),
        ("EmbeddingBagPacked", 15, {"reduction": "sum"}, [BAGS], [[-2.1, -2.4], [-2, -2.2], [-0.2, 0.8]]),
        (
            "EmbeddingBagPacked",
            15,
            {"reduction": "sum"},
            (BAGS, HALVES[0].repeat(6).reshape(3, 2)),
            [[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]],
        ),
        ("EmbeddingBagPacked", 15, {"reduction": "mean"}, [BAGS], [[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]]),
        (
            "EmbeddingBagPackedSum",
            3,
            {},
            (BAGS, HALVES[0].repeat(6).reshape(3, 2)),
            [[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]],
        ),
    ],
)
def test_embedding_bags_match_specification(type, version, attributes, inputs, expected):
    operation = registry.find(type, f"opset{version}")
    assert not operation.find_unknown(attributes)
    result = operation.kernel(TABLE, *inputs, **operation.bind(attributes))
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)


def test_offsets_divide_indices_into_bags():
    table = np.eye(8, dtype=np.int32)
    result = embedding_bag_offsets_15(table, np.arange(8), i64(0, 3, 4, 4, 6))
    assert result.sum(axis=1).tolist() == [3, 1, 0, 2, 2]


def test_segments_match_specification():
    weights = np.full(4, 0.5, np.float32)
    inputs = (i64(0, 2, 3, 4), i64(0, 0, 2, 2), np.array(3), np.array(0), weights)
    result = embedding_segments_sum_3(TABLE, *inputs)
    np.testing.assert_allclose(result, [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], rtol=1e-6)


def test_segments_may_be_unsorted():
    result = embedding_segments_sum_3(TABLE, i64(0, 1, 2), i64(2, 0, 2), np.array(3))
    np.testing.assert_array_equal(result, [TABLE[1], [0, 0], TABLE[0] + TABLE[2]])


def test_offset_at_the_end_starts_an_empty_bag():
    result = embedding_bag_offsets_15(TABLE, i64(0, 1), i64(0, 2), np.array(3))
    np.testing.assert_array_equal(result, [TABLE[0] + TABLE[1], TABLE[3]])


def test_low_precision_sums_are_rounded_once():
    table = np.array([[256], [1], [1]], ml_dtypes.bfloat16)  # 256 + 1 rounds back to 256
    result = embedding_bag_packed_15(table, np.array([[0, 1, 2]]))
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(int).tolist() == [[258]]


def test_mean_of_integers_is_truncated():
    table = np.array([[-3], [2]], np.int8)
    assert embedding_bag_packed_15(table, np.array([[0, 1]]), reduction="mean").tolist() == [[0]]
    assert embedding_bag_packed_15(table, np.array([[0, 0, 1]]), reduction="mean").tolist() == [[-1]]


def test_sums_of_integers_wrap():
    assert embedding_bag_packed_15(np.array([[100]], np.int8), np.array([[0, 0]])).tolist() == [[-56]]


def test_empty_bags_are_zeros():
    assert embedding_bag_offsets_15(TABLE, i64(0), i64()).shape == (0, 2)
    assert embedding_bag_packed_15(TABLE, np.zeros((2, 0), int)).tolist() == [[0, 0], [0, 0]]


def test_sparse_fill_empty_rows_sorts_and_fills():
    values = np.array(["x", "y", "z"], object)
    positions = np.array([[3, 1], [0, 2], [3, 0]], np.int32)
    default = np.array("none", object)
    indices, filled, empty = sparse_fill_empty_rows_16(values, i64(5, 4), positions, default)
    assert indices.dtype == np.int32
    assert indices.tolist() == [[0, 2], [1, 0], [2, 0], [3, 0], [3, 1], [4, 0]]
    assert filled.tolist() == ["y", "none", "none", "z", "x", "none"]
    assert empty.tolist() == [False, True, True, False, True]


def test_sparse_fill_empty_rows_matches_specification():
    positions, values = np.array([[0, 1], [0, 3], [2, 0], [3, 1]]), np.array(["a", "b", "c", "d"], object)
    indices, filled, empty = sparse_fill_empty_rows_16(values, i64(5, 6), positions, np.array("-", object))
    assert indices.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert filled.tolist() == ["a", "b", "-", "c", "d", "-"]
    assert empty.tolist() == [False, True, False, False, True]
    positions = np.array([[0, 0], [2, 2]], np.int32)
    indices, filled, empty = sparse_fill_empty_rows_16(
        np.array([1, 3], np.float32), np.array([3, 3], np.int32), positions, np.float32(42).reshape(())
    )
    assert filled.tolist() == [1, 42, 3]
    assert (indices.dtype, filled.dtype, empty.dtype) == (np.int32, np.float32, np.bool_)


@pytest.mark.parametrize(
    "call",
    [
        lambda: embedding_bag_offsets_15(TABLE, i64(5), i64(0)),
        lambda: embedding_bag_offsets_15(TABLE, i64(0, -1), i64(0)),
        lambda: embedding_bag_offsets_15(TABLE, i64(0, 1), i64(0, 3)),
        lambda: embedding_bag_offsets_15(TABLE, i64(0, 1), i64(1, 0)),
        lambda: embedding_bag_offsets_15(TABLE, i64(0, 1), i64(0, 1), np.array(9)),
        lambda: embedding_bag_packed_15(TABLE, i64(0, 1)),
        lambda: embedding_bag_packed_15(TABLE, np.array([[0]]), TABLE[:1]),
        lambda: embedding_bag_packed_15(TABLE, np.array([[0]]), TABLE[:1, :1], reduction="mean"),
        lambda: embedding_segments_sum_3(TABLE, i64(0), i64(3), np.array(3)),
        lambda: embedding_segments_sum_3(TABLE, i64(0, 1), i64(0), np.array(3)),
        lambda: sparse_fill_empty_rows_16(TABLE[0], i64(2, 2), np.array([[0, 0], [2, 0]]), TABLE[0, 0].reshape(())),
        lambda: sparse_fill_empty_rows_16(TABLE[0], i64(2, 2), np.array([[0, 0]]), TABLE[0, 0].reshape(())),
    ],
)
def test_invalid_inputs_are_reported(call):
    with pytest.raises(InputError):
        call()


def test_number_of_filled_rows_is_dynamic():
    values, indices = ops.parameter([3], np.float32), ops.parameter([3, 2], np.int64)
    shape, default = ops.constant(i64(5, 4)), ops.constant(np.float32(0))
    filled = opset16.sparse_fill_empty_rows(values, shape, indices, default)
    assert [str(output.get_partial_shape()) for output in filled.outputs()] == ["[?,2]", "[?]", "[5]"]
