"""What the conformance suite does not reach of reductions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops import reduction


def test_axes_out_of_range() -> None:
    with pytest.raises(InputError, match="axes 2"):
        reduction.reduce_sum_1(np.zeros((2, 3)), np.array([0, 2]))


def test_a_scalar_may_be_reduced_along_its_only_place() -> None:
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
def test_shapes_of_the_specification(axes, keep_dims, shape) -> None:
    for name in reduction.__all__:
        data = np.ones((6, 12, 10, 24), np.bool_ if "logical" in name else np.float32)
        found = getattr(reduction, name)(data, np.array(axes), keep_dims=keep_dims)
        assert (found.shape, found.dtype) == (shape, data.dtype)


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    x = np.full((4096,), 0.1, np.float16)
    found = reduction.reduce_sum_1(x, np.array([0]))
    assert found.dtype == np.float16
    assert found == np.float16(x.astype(np.float64).sum())


def test_means_of_integers() -> None:
    bytes_ = np.full((1000,), 200, np.uint8)
    assert reduction.reduce_mean_1(bytes_, np.array([0])).tolist() == 200
    assert reduction.reduce_mean_1(bytes_, np.array([0])).dtype == np.uint8
    lowest = np.array([[-(2**31), 0, 0], [-7, 0, 0]], np.int32)
    assert reduction.reduce_mean_1(lowest, np.array([1])).tolist() == [-715827882, -2]


def test_nibbles() -> None:
    x = np.array([[7, 2], [-8, 1]], ml_dtypes.int4)
    assert reduction.reduce_max_1(x, np.array([1])).astype(int).tolist() == [7, 1]
    assert reduction.reduce_sum_1(x, np.array([1])).astype(int).tolist() == [-7, -7]
    empty = np.zeros((0,), ml_dtypes.int4)
    assert reduction.reduce_max_1(empty, np.array([0])).astype(int).tolist() == -8
    assert reduction.reduce_min_1(empty, np.array([0])).astype(int).tolist() == 7
