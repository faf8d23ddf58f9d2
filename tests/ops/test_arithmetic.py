"""What the conformance suite does not reach of arithmetic, comparison, logical and bitwise operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.elements import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops import bitwise, comparison
from irrun.ops.arithmetic import accumulation, binary, trigonometry, unary

I4, U4 = ml_dtypes.int4, ml_dtypes.uint4


@pytest.mark.parametrize("kernel", [binary.divide_1, binary.mod_1, binary.floor_mod_1])
def test_integers_divided_by_zero(kernel) -> None:
    with pytest.raises(InputError, match="integer division by zero"):
        kernel(np.array([1, 2]), np.array([1, 0]))


def test_floats_divided_by_zero() -> None:
    with np.errstate(all="ignore"):
        found = binary.divide_1(np.array([1, -1, 0], np.float32), np.array(0, np.float32))
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("shapes", "mode"),
    [
        (((2, 3), (2,)), "numpy"),
        (((2, 3), (3,)), "none"),
        (((2, 3), (3,)), "pdpd"),
        (((3,), (2, 3)), "pdpd"),
    ],
)
def test_shapes_that_do_not_fit(shapes, mode) -> None:
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        binary.add_1(np.zeros(shapes[0]), np.zeros(shapes[1]), auto_broadcast=mode)


def test_nibbles_wrap() -> None:
    a, b = np.array([7, -8, 3], I4), np.array([1, -1, 2], I4)
    found = binary.add_1(a, b)
    assert found.dtype == I4
    assert found.astype(int).tolist() == [-8, 7, 5]
    assert binary.multiply_1(np.array([5, 15], U4), np.array([5, 2], U4)).astype(int).tolist() == [9, 14]
    assert bitwise.bitwise_not_13(np.array([5], U4)).astype(int).tolist() == [10]
    assert trigonometry.atanh_4(np.array([3, 0, -1], I4)).astype(int).tolist() == [7, 0, -8]


def test_bits_of_types_that_numpy_lacks() -> None:
    u1 = ELEMENT_TYPES["u1"].dtype
    a, b = np.array([0, 0, 1, 1], np.uint8).view(u1), np.array([0, 1, 0, 1], np.uint8).view(u1)
    assert bitwise.bitwise_xor_13(a, b).view(np.uint8).tolist() == [0, 1, 1, 0]
    assert bitwise.bitwise_not_13(a).view(np.uint8).tolist() == [1, 1, 0, 0]
    assert comparison.equal_1(a, b).tolist() == [True, False, False, True]


def test_arithmetic_on_nf4_is_refused() -> None:
    codes = np.zeros(2, np.uint8).view(ELEMENT_TYPES["nf4"].dtype)
    with pytest.raises(InputError, match="nf4"):
        binary.add_1(codes, codes)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_narrow_floats_stay_narrow(dtype) -> None:
    x = np.array([0.5, 1.5, -2], dtype)
    for found in (binary.multiply_1(x, x), unary.abs_1(x), binary.power_1(x, np.array(2, dtype)), unary.erf_1(x)):
        assert found.dtype == x.dtype
    assert comparison.less_1(x, np.array(1, dtype)).tolist() == [True, False, True]


def test_results_of_scalars_are_arrays() -> None:
    x = np.array(3.0, np.float32)
    for found in (binary.add_1(x, x), unary.sqrt_1(x), binary.maximum_1(x, x), comparison.equal_1(x, x)):
        assert isinstance(found, np.ndarray)
        assert found.shape == ()


def test_cum_sum_along_the_first_axis_by_default() -> None:
    assert accumulation.cum_sum_3(np.array([[1, 2], [3, 4]])).tolist() == [[1, 2], [4, 6]]
    with pytest.raises(InputError, match="axis 2"):
        accumulation.cum_sum_3(np.zeros((2, 2)), np.array(2))


@pytest.mark.parametrize(
    ("ids", "message"), [([0, 1], "first dimension"), ([1, 0, 2], "not sorted"), ([-1, 0, 0], "negative")]
)
def test_segments_that_do_not_fit(ids, message) -> None:
    with pytest.raises(InputError, match=message):
        accumulation.segment_max_16(np.zeros(3), np.array(ids), fill_mode="ZERO")


def test_inputs_are_not_changed() -> None:
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    x.flags.writeable = False
    for kernel in (unary.erf_1, unary.erf_inv_17, unary.round_5, trigonometry.tanh_1):
        kernel(x)
    accumulation.cum_sum_3(x, np.array(0), exclusive=True, reverse=True)
