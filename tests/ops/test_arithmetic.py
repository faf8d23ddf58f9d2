"""Arithmetic, comparison, logical and bitwise operations: examples of the specification, types and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops import bitwise, comparison, logical, reduction
from irrun.ops.arithmetic import binary, cum_sum, segment_max, trigonometry, unary

I4, U4 = ml_dtypes.int4, ml_dtypes.uint4


@pytest.mark.parametrize("kernel", [binary.divide_1, binary.mod_1, binary.floor_mod_1])
def test_integer_division_by_zero_returns_converted_nan(kernel) -> None:
    defined = kernel(np.array([7]), np.array([2])).item()
    signed_results = [("i8", -(2**63)), ("i4", -(2**31)), ("i2", 0), ("i1", 0)]
    for dtype, undefined in [*signed_results, ("u8", 2**63), ("u4", 0), ("u1", 0)]:
        result = kernel(np.array([7, 8, 0, 7], dtype), np.array([2, 0, 0, 0], dtype))
        assert result.dtype == dtype
        assert result.tolist() == [defined, undefined, undefined, undefined]
    assert kernel(np.array([[7], [7]]), np.array([2, 0])).shape == (2, 2)


def test_float_division_by_zero_returns_infinity_or_nan() -> None:
    with np.errstate(all="ignore"):
        result = binary.divide_1(np.array([1, -1, 0], np.float32), np.array(0, np.float32))
    np.testing.assert_array_equal(result, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("shapes", "mode"),
    [
        (((2, 3), (2,)), "numpy"),
        (((2, 3), (3,)), "none"),
        (((2, 3), (3,)), "pdpd"),
        (((3,), (2, 3)), "pdpd"),
    ],
)
def test_mismatched_shapes_are_rejected(shapes, mode) -> None:
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        binary.add_1(np.zeros(shapes[0]), np.zeros(shapes[1]), auto_broadcast=mode)


#: The specification's examples of broadcasting: shapes of a and b, rule, axis, resulting shape or None for an error.
BROADCASTS = [
    ((8, 1, 6, 1), (7, 1, 5), "numpy", 0, (8, 7, 6, 5)),
    ((), (), "numpy", 0, ()),
    ((2, 3), (1,), "numpy", 0, (2, 3)),
    ((3,), (2, 3), "numpy", 0, (2, 3)),
    ((2, 3, 5), (), "numpy", 0, (2, 3, 5)),
    ((2, 1, 5), (1, 4, 5), "numpy", 0, (2, 4, 5)),
    ((6, 5), (2, 1, 5), "numpy", 0, (2, 6, 5)),
    ((2, 1, 5), (4, 1), "numpy", 0, (2, 4, 5)),
    ((3, 2, 1, 4), (5, 4), "numpy", 0, (3, 2, 5, 4)),
    ((1, 5, 3), (5, 2, 1, 3), "numpy", 0, (5, 2, 5, 3)),
    ((3,), (2,), "numpy", 0, None),
    ((3, 1, 5), (4, 4, 5), "numpy", 0, None),
    ((2, 3, 4, 5), (3, 4), "pdpd", 1, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (3, 1), "pdpd", 1, (2, 3, 4, 5)),
    ((2, 3), (3, 1), "pdpd", 1, (2, 3)),
    ((2, 3, 4, 5), (4, 5), "pdpd", -1, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (4, 5), "pdpd", 2, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (1, 3), "pdpd", 0, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (), "pdpd", -1, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (), "pdpd", 0, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (5,), "pdpd", -1, (2, 3, 4, 5)),
    ((2, 3, 4, 5), (5,), "pdpd", 3, (2, 3, 4, 5)),
    ((8, 1, 6, 1), (7, 1, 5), "pdpd", 1, None),
    ((2, 3), (2, 3), "explicit", 0, (2, 3)),
    ((2, 3), (3,), "explicit", 0, None),
]


@pytest.mark.parametrize(("a", "b", "mode", "axis", "expected"), BROADCASTS)
@pytest.mark.parametrize(
    "kernel", [binary.add_1, binary.power_1, comparison.less_1, logical.logical_xor_1, bitwise.bitwise_or_13]
)
def test_broadcasting_examples_of_the_specification(kernel, a, b, mode, axis, expected) -> None:
    dtype = bool if "logical" in kernel.__name__ else np.int32
    x, y = np.ones(a, dtype), np.ones(b, dtype)
    if expected is None:
        with pytest.raises(InputError):
            kernel(x, y, auto_broadcast=mode, auto_broadcast_axis=axis)
    else:
        assert kernel(x, y, auto_broadcast=mode, auto_broadcast_axis=axis).shape == expected


#: The specification's examples of unary operations: kernel, attributes, data, result.
VALUES = [
    (unary.sqrt_1, {}, np.float32([4, 7, 9, 10]), np.float32([2, 2.6457512, 3, 3.1622777])),
    (unary.sqrt_1, {}, np.int32([4, 7, 9, 10]), np.int32([2, 3, 3, 3])),
    (
        trigonometry.tan_1,
        {},
        np.float32([0, 0.25, -0.25, 0.5, -0.5]),
        np.float32([0, 0.25534192, -0.25534192, 0.54630249, -0.54630249]),
    ),
    (trigonometry.tan_1, {}, np.int32([-2, -1, 0, 1, 2]), np.int32([2, -2, 0, 2, -2])),
    (
        unary.round_5,
        {},
        np.float32([-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5]),
        np.float32([-4, -2, -2, 0, 1, 2, 2, 2]),
    ),
    (
        unary.round_5,
        {"mode": "half_away_from_zero"},
        np.float32([-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5]),
        np.float32([-5, -2, -2, 1, 1, 2, 2, 3]),
    ),
    (unary.erf_inv_17, {}, np.float32([0, 1, -1, 1.5]), np.float32([0, np.inf, -np.inf, np.nan])),
    (trigonometry.atanh_4, {}, np.int8([-2, -1, 0, 1, 2]), np.int8([-128, -128, 0, 127, 127])),
    (trigonometry.atanh_4, {}, np.uint8([0, 1, 9]), np.uint8([0, 255, 255])),
    (unary.sign_1, {}, np.float32([-2, 0, 3, np.nan]), np.float32([-1, 0, 1, np.nan])),
    (cum_sum.cum_sum_3, {}, np.float32([1, 2, 3, 4, 5]), np.float32([1, 3, 6, 10, 15])),
    (cum_sum.cum_sum_3, {"exclusive": True}, np.float32([1, 2, 3, 4, 5]), np.float32([0, 1, 3, 6, 10])),
    (cum_sum.cum_sum_3, {"reverse": True}, np.float32([1, 2, 3, 4, 5]), np.float32([15, 14, 12, 9, 5])),
    (
        cum_sum.cum_sum_3,
        {"exclusive": True, "reverse": True},
        np.float32([1, 2, 3, 4, 5]),
        np.float32([14, 12, 9, 5, 0]),
    ),
    (bitwise.bitwise_not_13, {}, np.array([True, False]), np.array([False, True])),
    (bitwise.bitwise_not_13, {}, np.uint8([1, 3]), np.uint8([254, 252])),
    (comparison.is_finite_10, {}, np.float32([np.nan, 2.1, 3.7, np.inf]), np.array([False, True, True, False])),
    (
        comparison.is_nan_10,
        {},
        np.float32([np.nan, 2.1, 3.7, np.nan, np.inf]),
        np.array([True, False, False, True, False]),
    ),
]


@pytest.mark.parametrize(("kernel", "attributes", "data", "expected"), VALUES)
def test_unary_examples_of_the_specification(kernel, attributes, data, expected) -> None:
    with np.errstate(all="ignore"):
        result = kernel(data, **attributes)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("kernel", "booleans", "integers"),
    [
        (bitwise.bitwise_and_13, [True, False, False], [1, 32]),
        (bitwise.bitwise_or_13, [True, True, False], [23, 125]),
        (bitwise.bitwise_xor_13, [False, True, False], [22, 93]),
    ],
)
def test_bitwise_examples_of_the_specification(kernel, booleans, integers) -> None:
    assert kernel(np.array([True, False, False]), np.array([True, True, False])).tolist() == booleans
    assert kernel(np.uint8([21, 120]), np.uint8([3, 37])).tolist() == integers


def test_remainders_have_the_specified_sign() -> None:
    for dtype in (np.int32, np.float32):
        a, b = np.array([7, -7, 7, -7], dtype), np.array([3, 3, -3, -3], dtype)
        np.testing.assert_array_equal(binary.mod_1(a, b), a - np.trunc(a / b) * b)
        np.testing.assert_array_equal(binary.floor_mod_1(a, b), a - np.floor(a / b) * b)


def test_strings_can_be_compared() -> None:
    a, b = np.array(["a", "b", ""], object), np.array(["b", "b", "z"], object)
    result = [kernel(a, b).tolist() for kernel in (comparison.equal_1, comparison.less_1, comparison.greater_equal_1)]
    assert result == [[False, True, False], [True, False, True], [False, True, False]]
    assert comparison.not_equal_1(a, b).dtype == bool


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_logical_operations_keep_the_type_of_numbers(dtype) -> None:
    x = np.array([0, 1, 2], dtype)
    for result, expected in [
        (logical.logical_not_1(x), [1, 0, 0]),
        (logical.logical_and_1(x, x), [0, 1, 1]),
        (reduction.reduce_logical_and_1(x, np.array([0]), keep_dims=True), [0]),
    ]:
        assert result.dtype == dtype
        assert result.tolist() == expected


@pytest.mark.parametrize("kernel", [unary.floor_1, unary.ceiling_1, unary.round_5])
def test_rounding_returns_other_types_unchanged(kernel) -> None:
    codes = np.arange(3, dtype=np.uint8)
    for element_type in ("nf4", "u1", "u3", "u8", "i8"):
        data = codes.view(ELEMENT_TYPES[element_type].dtype)
        assert kernel(data) is data


def test_4_bit_integers_wrap() -> None:
    a, b = np.array([7, -8, 3], I4), np.array([1, -1, 2], I4)
    result = binary.add_1(a, b)
    assert result.dtype == I4
    assert result.astype(int).tolist() == [-8, 7, 5]
    assert binary.multiply_1(np.array([5, 15], U4), np.array([5, 2], U4)).astype(int).tolist() == [9, 14]
    assert bitwise.bitwise_not_13(np.array([5], U4)).astype(int).tolist() == [10]
    assert trigonometry.atanh_4(np.array([3, 0, -1], I4)).astype(int).tolist() == [7, 0, -8]


def test_bitwise_operations_support_u1() -> None:
    u1 = ELEMENT_TYPES["u1"].dtype
    a, b = np.array([0, 0, 1, 1], np.uint8).view(u1), np.array([0, 1, 0, 1], np.uint8).view(u1)
    assert bitwise.bitwise_xor_13(a, b).view(np.uint8).tolist() == [0, 1, 1, 0]
    assert bitwise.bitwise_not_13(a).view(np.uint8).tolist() == [1, 1, 0, 0]
    assert comparison.equal_1(a, b).tolist() == [True, False, False, True]


def test_arithmetic_on_nf4_is_rejected() -> None:
    codes = np.zeros(2, np.uint8).view(ELEMENT_TYPES["nf4"].dtype)
    with pytest.raises(InputError, match="nf4"):
        binary.add_1(codes, codes)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_low_precision_floats_keep_their_type(dtype) -> None:
    x = np.array([0.5, 1.5, -2], dtype)
    for result in (binary.multiply_1(x, x), unary.abs_1(x), binary.power_1(x, np.array(2, dtype)), unary.erf_1(x)):
        assert result.dtype == x.dtype
    assert comparison.less_1(x, np.array(1, dtype)).tolist() == [True, False, True]


def test_results_of_scalars_are_arrays() -> None:
    x = np.array(3.0, np.float32)
    for result in (binary.add_1(x, x), unary.sqrt_1(x), binary.maximum_1(x, x), comparison.equal_1(x, x)):
        assert isinstance(result, np.ndarray)
        assert result.shape == ()


def test_cum_sum_uses_axis_0_by_default() -> None:
    assert cum_sum.cum_sum_3(np.array([[1, 2], [3, 4]])).tolist() == [[1, 2], [4, 6]]
    with pytest.raises(InputError, match="axis 2"):
        cum_sum.cum_sum_3(np.zeros((2, 2)), np.array(2))


def test_cum_sum_accepts_a_scalar() -> None:
    for axis in (0, -1):
        result = cum_sum.cum_sum_3(np.array(2.5, np.float32), np.array(axis))
        assert result.shape == ()
        assert result == np.float32(2.5)
    assert cum_sum.cum_sum_3(np.array(3), np.array(0), exclusive=True).tolist() == 0
    with pytest.raises(InputError, match="axis 1"):
        cum_sum.cum_sum_3(np.array(3), np.array(1))


@pytest.mark.parametrize(
    ("ids", "message"), [([0, 1], "first dimension"), ([1, 0, 2], "not sorted"), ([-1, 0, 0], "negative")]
)
def test_segment_max_rejects_invalid_segment_ids(ids, message) -> None:
    with pytest.raises(InputError, match=message):
        segment_max.segment_max_16(np.zeros(3), np.array(ids), fill_mode="ZERO")


def test_inputs_are_not_modified() -> None:
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    x.flags.writeable = False
    with np.errstate(all="ignore"):
        for kernel in (unary.erf_1, unary.erf_inv_17, unary.round_5, trigonometry.tanh_1):
            kernel(x)
    cum_sum.cum_sum_3(x, np.array(0), exclusive=True, reverse=True)
