"""Reductions: examples of the specification, element types and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops import reduction


def test_axis_out_of_range_is_rejected() -> None:
    with pytest.raises(InputError, match="axes 2"):
        reduction.reduce_sum_1(np.zeros((2, 3)), np.array([0, 2]))


def test_scalar_can_be_reduced_along_axis_0() -> None:
    x = np.array(-3, np.float32)
    for keep_dims in (False, True):
        assert reduction.reduce_sum_1(x, np.array([0, -1]), keep_dims=keep_dims).shape == ()
        assert reduction.reduce_l1_4(x, np.array(-1), keep_dims=keep_dims) == 3
    with pytest.raises(InputError, match="axes 1"):
        reduction.reduce_sum_1(x, np.array([1]))


@pytest.mark.parametrize(
    ("axes", "keep_dims", "shape"),
    [
        ([2, 3], True, (6, 12, 1, 1)),
        ([2, 3], False, (6, 12)),
        ([1], False, (6, 10, 24)),
        ([-2], False, (6, 12, 24)),
    ],
)
def test_shape_examples_of_the_specification(axes, keep_dims, shape) -> None:
    for name in reduction.__all__:
        data = np.ones((6, 12, 10, 24), np.bool_ if "logical" in name else np.float32)
        result = getattr(reduction, name)(data, np.array(axes), keep_dims=keep_dims)
        assert (result.shape, result.dtype) == (shape, data.dtype)


def test_sums_of_f16_are_rounded_once() -> None:
    x = np.full((4096,), 0.1, np.float16)
    result = reduction.reduce_sum_1(x, np.array([0]))
    assert result.dtype == np.float16
    assert result == np.float16(x.astype(np.float64).sum())


def test_means_of_integers_are_truncated_and_do_not_wrap() -> None:
    values = np.full((1000,), 200, np.uint8)
    assert reduction.reduce_mean_1(values, np.array([0])).tolist() == 200
    assert reduction.reduce_mean_1(values, np.array([0])).dtype == np.uint8
    lowest = np.array([[-(2**31), 0, 0], [-7, 0, 0]], np.int32)
    assert reduction.reduce_mean_1(lowest, np.array([1])).tolist() == [-715827882, -2]


def test_reductions_of_4_bit_integers() -> None:
    x = np.array([[7, 2], [-8, 1]], ml_dtypes.int4)
    assert reduction.reduce_max_1(x, np.array([1])).astype(int).tolist() == [7, 1]
    assert reduction.reduce_sum_1(x, np.array([1])).astype(int).tolist() == [-7, -7]
    empty = np.zeros((0,), ml_dtypes.int4)
    assert reduction.reduce_max_1(empty, np.array([0])).astype(int).tolist() == -8
    assert reduction.reduce_min_1(empty, np.array([0])).astype(int).tolist() == 7
