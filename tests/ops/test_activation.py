"""Activation functions: errors and edge cases that the conformance tests do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.activation import elementwise, softmax


def test_softmax_1_rejects_a_negative_axis() -> None:
    with pytest.raises(InputError, match="axis -1 is negative"):
        softmax.softmax_1(np.zeros((2, 3), np.float32), axis=-1)
    with pytest.raises(InputError, match="axis 2"):
        softmax.softmax_8(np.zeros((2, 3), np.float32), axis=2)


def test_elu_keeps_positive_values_for_non_finite_alpha() -> None:
    x = np.array([-1, 2, np.inf], np.float32)
    with np.errstate(all="ignore"):
        for alpha in (np.inf, np.nan):
            np.testing.assert_array_equal(elementwise.elu_1(x, alpha=alpha), [-alpha, 2, np.inf])
            scale = np.array([3], np.float32)
            np.testing.assert_array_equal(
                elementwise.selu_1(x, np.array([alpha], np.float32), scale), [-alpha, 6, np.inf]
            )


def test_softmax_uses_axis_1_by_default() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for kernel in (softmax.softmax_1, softmax.softmax_8, softmax.log_softmax_5):
        np.testing.assert_array_equal(kernel(x), kernel(x, axis=1))
        with pytest.raises(InputError, match="axis 1"):
            kernel(x[0, 0])


def test_softmax_sums_to_one_in_every_type() -> None:
    x = np.random.default_rng(0).normal(size=(4, 9))
    for dtype in (np.float64, np.float32, np.float16):
        result = softmax.softmax_8(x.astype(dtype), axis=-1)
        assert result.dtype == dtype
        np.testing.assert_allclose(result.astype(np.float64).sum(-1), 1, rtol=float(4 * np.finfo(dtype).eps))


def test_clamp_rejects_limits_in_the_wrong_order() -> None:
    with pytest.raises(InputError, match="greater than max"):
        elementwise.clamp_1(np.zeros(3, np.float32), min=2, max=1)


@pytest.mark.parametrize(("low", "high", "expected"), [(300.0, 400.0, 255), (-9.0, -2.0, 0), (3.5, 300.0, 4)])
def test_clamp_limits_outside_an_integer_type_are_saturated(low, high, expected) -> None:
    assert elementwise.clamp_1(np.array([1], np.uint8), min=low, max=high).tolist() == [expected]


def test_swish_rejects_a_beta_with_several_elements() -> None:
    with pytest.raises(InputError, match="beta has shape"):
        elementwise.swish_4(np.zeros(3, np.float32), np.zeros(3, np.float32))


def test_p_relu_matches_slopes_with_channels_before_broadcasting() -> None:
    data, slope = np.full((1, 2, 2), -1, np.float32), np.array([2, 3], np.float32)
    assert elementwise.p_relu_1(data, slope).tolist() == [[[-2, -2], [-3, -3]]]
    with pytest.raises(InputError, match="cannot be broadcast"):
        elementwise.p_relu_1(data, np.zeros(3, np.float32))
    with pytest.raises(InputError, match="does not broadcast to data"):
        elementwise.p_relu_1(data[0, 0], np.zeros((3, 2), np.float32))
