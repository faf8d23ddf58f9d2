"""Bucketize, NonZero and Select: cases that OpenVINO rejects or the conformance tests do not cover."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops.condition import bucketize_3, non_zero_3, select_1


def test_bucketize_example_of_the_specification():
    data, buckets = np.array([[3, 50], [10, -1]]), np.array([0, 5, 10])
    assert bucketize_3(data, buckets).tolist() == [[1, 3], [2, 0]]
    assert bucketize_3(data, buckets, with_right_bound=False).tolist() == [[1, 3], [3, 0]]


def test_non_zero_and_select_examples_of_the_specification():
    assert non_zero_3(np.array([[1, 0], [1, 1]])).tolist() == [[0, 1, 1], [0, 0, 1]]
    cond = np.array([[False, False], [True, False], [True, True]])
    then, other = np.array([[-1, 0], [1, 2], [3, 4]]), np.array([[11, 10], [9, 8], [7, 6]])
    assert select_1(cond, then, other).tolist() == [[11, 10], [1, 8], [3, 4]]


def test_bucketize_without_boundaries():
    assert bucketize_3(np.array([[3.0, np.nan]]), np.zeros(0)).tolist() == [[0, 0]]


def test_non_zero_ignores_empty_strings():
    assert non_zero_3(np.array(["", "a", ""], object)).tolist() == [[1]]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.int4, np.uint8, np.float64])
def test_bucketize_supports_other_types(dtype):
    result = bucketize_3(np.array([0, 1, 2, 5]).astype(dtype), np.array([1, 2]).astype(dtype))
    assert result.dtype == np.int64
    assert result.tolist() == [0, 0, 1, 2]


def test_bucketize_compares_large_integers_exactly():
    big = 2**60
    assert bucketize_3(np.array([big, big + 1]), np.array([big])).tolist() == [0, 1]


def test_bucketize_rejects_invalid_inputs():
    with pytest.raises(InputError, match="one dimension"):
        bucketize_3(np.zeros(2), np.zeros((1, 1)))
    with pytest.raises(InputError, match="expected a numeric type, found string"):
        bucketize_3(np.array(["a"], object), np.zeros(1))


@pytest.mark.parametrize("element", ["u1", "nf4", "u3", "i4", "f8e4m3", "bf16"])
def test_non_zero_supports_other_types(element):
    raw = np.array([[0, 1], [1, 0]], np.uint8)
    dtype = ELEMENT_TYPES[element].dtype
    data = raw.view(dtype) if dtype.names else raw.astype(dtype)
    assert non_zero_3(data).tolist() == [[0, 1], [1, 0]]


def test_select_supports_pdpd_with_an_axis():
    cond, then, other = np.array([True, False, True]), np.ones((2, 3, 4)), np.zeros((3, 4))
    result = select_1(cond, then, other, auto_broadcast="pdpd", auto_broadcast_axis=1)
    np.testing.assert_array_equal(result, np.broadcast_to([[1], [0], [1]], (2, 3, 4)))


def test_select_supports_nf4_and_strings():
    nf4 = ELEMENT_TYPES["nf4"].dtype
    a, b = np.array([1, 2], np.uint8).view(nf4), np.array([3, 4], np.uint8).view(nf4)
    result = select_1(np.array([True, False]), a, b)
    assert result.dtype == nf4
    assert result.view(np.uint8).tolist() == [1, 4]
    result = select_1(np.array([True, False]), np.array(["a", "b"], object), np.array("c", object))
    assert result.tolist() == ["a", "c"]


@pytest.mark.parametrize(
    ("shapes", "mode"),
    [(((2,), (3,), (3,)), "numpy"), (((3,), (2, 3), (2, 3)), "none"), (((3,), (2, 3), (2, 3)), "pdpd")],
)
def test_select_rejects_mismatched_shapes(shapes, mode):
    with pytest.raises(InputError):
        select_1(*(np.zeros(s, bool) for s in shapes), auto_broadcast=mode)
