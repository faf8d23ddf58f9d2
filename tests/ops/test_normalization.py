"""Normalization operations: edge cases and errors."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.normalization import (
    batch_norm_inference_1,
    batch_norm_inference_5,
    group_normalization_12,
    lrn_1,
    mvn_2,
    mvn_6,
    normalize_l2_1,
)

INSIDE = {"normalize_variance": True, "eps": 1e-6, "eps_mode": "inside_sqrt"}


def test_batch_norm_inference_1_has_data_as_third_input():
    rng = np.random.default_rng(5)
    data = rng.normal(size=(2, 3, 4))
    gamma, beta, mean, variance = rng.uniform(0.5, 2, (4, 3))
    new = batch_norm_inference_5(data, gamma, beta, mean, variance, epsilon=1e-3)
    old = batch_norm_inference_1(gamma, beta, data, mean, variance, epsilon=1e-3)
    np.testing.assert_array_equal(new, old)
    per_channel = np.s_[:, np.newaxis]
    expected = (
        gamma[per_channel] * (data - mean[per_channel]) / np.sqrt(variance[per_channel] + 1e-3) + beta[per_channel]
    )
    np.testing.assert_allclose(new, expected, rtol=1e-14, atol=1e-14)


def test_sums_of_f16_do_not_overflow():
    data = np.array([[300, -300, 300, -300]], np.float16)  # squares exceed the range of f16
    assert mvn_6(data, np.array([1]), **INSIDE).tolist() == [[1, -1, 1, -1]]
    assert normalize_l2_1(data, np.array([1]), eps=0.0, eps_mode="add").tolist() == [[0.5, -0.5, 0.5, -0.5]]


def test_normalize_l2_without_axes_divides_elements_by_themselves():
    data = np.array([-2, 0, 5], np.float32)
    assert normalize_l2_1(data, np.array([], np.int64), eps=1.0, eps_mode="add").tolist() == [1, 0, 1]


def test_empty_tensors_stay_empty():
    empty = np.zeros((2, 0, 3), np.float32)
    assert mvn_6(empty, np.array([2]), **INSIDE).shape == empty.shape
    assert lrn_1(empty, np.array([1]), alpha=1.0, beta=1.0, bias=1.0, size=3).shape == empty.shape


def test_inputs_are_not_modified():
    data = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    data.setflags(write=False)
    mvn_2(data, eps=1e-3)
    group_normalization_12(data, np.ones(2, np.float32), np.ones(2, np.float32), num_groups=1, epsilon=1e-3)


def test_mismatched_inputs_are_rejected():
    data = np.zeros((1, 4, 2))
    with pytest.raises(InputError, match="groups"):
        group_normalization_12(data, np.ones(4), np.ones(4), num_groups=3, epsilon=1e-3)
    with pytest.raises(InputError, match="groups"):
        group_normalization_12(np.ones(3), np.ones(0), np.ones(0), num_groups=1, epsilon=1e-3)
    with pytest.raises(InputError, match="bias"):
        group_normalization_12(data, np.ones(4), np.ones(3), num_groups=2, epsilon=1e-3)
    with pytest.raises(InputError, match="variance"):
        batch_norm_inference_5(data, np.ones(4), np.ones(4), np.ones(4), np.ones(1), epsilon=1e-3)
    with pytest.raises(InputError, match="axes"):
        mvn_6(data, np.array([3]), **INSIDE)
    with pytest.raises(InputError, match="size"):
        lrn_1(data, np.array([1]), alpha=1.0, beta=1.0, bias=1.0, size=0)
