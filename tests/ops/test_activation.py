"""What the conformance suite does not reach of activation functions."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops import activation as act


def test_softmax_1_refuses_a_negative_axis() -> None:
    with pytest.raises(InputError, match="axis is -1"):
        act.softmax_1(np.zeros((2, 3), np.float32), axis=-1)
    with pytest.raises(InputError, match="axis 2"):
        act.softmax_8(np.zeros((2, 3), np.float32), axis=2)


def test_elu_keeps_what_is_positive() -> None:
    x = np.array([-1, 2, np.inf], np.float32)
    with np.errstate(all="ignore"):
        for alpha in (np.inf, np.nan):
            np.testing.assert_array_equal(act.elu_1(x, alpha=alpha), [-alpha, 2, np.inf])
            scale = np.array([3], np.float32)
            np.testing.assert_array_equal(act.selu_1(x, np.array([alpha], np.float32), scale), [-alpha, 6, np.inf])


def test_softmax_without_axis_goes_along_the_second() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for kernel in (act.softmax_1, act.softmax_8, act.log_softmax_5):
        np.testing.assert_array_equal(kernel(x), kernel(x, axis=1))
        with pytest.raises(InputError, match="axis 1"):
            kernel(x[0, 0])


def test_softmax_sums_to_one_in_every_type() -> None:
    x = np.random.default_rng(0).normal(size=(4, 9))
    for dtype in (np.float64, np.float32, np.float16):
        found = act.softmax_8(x.astype(dtype), axis=-1)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(np.float64).sum(-1), 1, rtol=4 * np.finfo(dtype).eps)


def test_limits_of_clamp_in_the_wrong_order() -> None:
    with pytest.raises(InputError, match="greater than max"):
        act.clamp_1(np.zeros(3, np.float32), min=2, max=1)


@pytest.mark.parametrize(("low", "high", "expected"), [(300.0, 400.0, 255), (-9.0, -2.0, 0), (3.5, 300.0, 4)])
def test_limits_of_clamp_beyond_an_integer_type(low, high, expected) -> None:
    assert act.clamp_1(np.array([1], np.uint8), min=low, max=high).tolist() == [expected]


def test_scalars_must_be_scalars() -> None:
    with pytest.raises(InputError, match="beta has shape"):
        act.swish_4(np.zeros(3, np.float32), np.zeros(3, np.float32))


def test_slopes_of_p_relu_go_to_channels_before_they_broadcast() -> None:
    data, slope = np.full((1, 2, 2), -1, np.float32), np.array([2, 3], np.float32)
    assert act.p_relu_1(data, slope).tolist() == [[[-2, -2], [-3, -3]]]
    with pytest.raises(InputError, match="cannot be broadcast"):
        act.p_relu_1(data, np.zeros(3, np.float32))
    with pytest.raises(InputError, match="does not broadcast to data"):
        act.p_relu_1(data[0, 0], np.zeros((3, 2), np.float32))
