"""Sparse operations: worked examples and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.sparse import (
    embedding_bag_offsets_15,
    embedding_bag_packed_15,
    embedding_segments_sum_3,
    sparse_fill_empty_rows_16,
)

TABLE = np.array([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]], np.float32)


def i64(*values):
    return np.array(values, np.int64)


def test_example_of_segments():
    weights = np.full(4, 0.5, np.float32)
    inputs = (i64(0, 2, 3, 4), i64(0, 0, 2, 2), np.array(3), np.array(0), weights)
    result = embedding_segments_sum_3(TABLE, *inputs)
    np.testing.assert_allclose(result, [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], rtol=1e-6)


def test_unsorted_segments():
    result = embedding_segments_sum_3(TABLE, i64(0, 1, 2), i64(2, 0, 2), np.array(3))
    np.testing.assert_array_equal(result, [TABLE[1], [0, 0], TABLE[0] + TABLE[2]])


def test_offset_at_the_end_makes_an_empty_bag():
    result = embedding_bag_offsets_15(TABLE, i64(0, 1), i64(0, 2), np.array(3))
    np.testing.assert_array_equal(result, [TABLE[0] + TABLE[1], TABLE[3]])


def test_narrow_floats_are_rounded_once():
    table = np.array([[256], [1], [1]], ml_dtypes.bfloat16)  # 256 + 1 rounds back to 256
    result = embedding_bag_packed_15(table, np.array([[0, 1, 2]]))
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(int).tolist() == [[258]]


def test_mean_of_integers_is_cut_off():
    table = np.array([[-3], [2]], np.int8)
    assert embedding_bag_packed_15(table, np.array([[0, 1]]), reduction="mean").tolist() == [[0]]
    assert embedding_bag_packed_15(table, np.array([[0, 0, 1]]), reduction="mean").tolist() == [[-1]]


def test_integers_wrap_around():
    assert embedding_bag_packed_15(np.array([[100]], np.int8), np.array([[0, 0]])).tolist() == [[-56]]


def test_nothing():
    assert embedding_bag_offsets_15(TABLE, i64(0), i64()).shape == (0, 2)
    assert embedding_bag_packed_15(TABLE, np.zeros((2, 0), int)).tolist() == [[0, 0], [0, 0]]


def test_fill_empty_rows():
    values = np.array(["x", "y", "z"], object)
    places = np.array([[3, 1], [0, 2], [3, 0]], np.int32)
    default = np.array("none", object)
    indices, filled, empty = sparse_fill_empty_rows_16(values, i64(5, 4), places, default)
    assert indices.dtype == np.int32
    assert indices.tolist() == [[0, 2], [1, 0], [2, 0], [3, 0], [3, 1], [4, 0]]
    assert filled.tolist() == ["y", "none", "none", "z", "x", "none"]
    assert empty.tolist() == [False, True, True, False, True]


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
def test_what_does_not_fit_is_reported(call):
    with pytest.raises(InputError):
        call()
