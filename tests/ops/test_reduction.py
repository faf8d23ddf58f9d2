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
