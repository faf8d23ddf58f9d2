"""Specialized arithmetic, comparison and selection against the plain kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fast.harness import (
    INTEGERS,
    calls_plain,
    check,
    compare_with_exact,
    is_specialized,
    iterate_constants,
    make_floats,
    make_values,
)

F32 = np.float32
SHAPES = [((4, 64), (4, 64)), ((4, 64), (64,)), ((2, 3), (2, 1)), ((3,), (1, 1)), ((1,), ()), ((), ()), ((0, 3), (3,))]
SHAPES += [((2, 1, 3), (4, 1)), ((), (1, 1, 1)), ((2, 3), (2, 4)), ((2, 3), ()), ((2, 3), (1, 1))]
BINARY = ["Add-1", "Subtract-1", "Multiply-1", "SquaredDifference-1", "Divide-1", "Maximum-1", "Minimum-1"]
MODULO = ["Mod-1", "FloorMod-1"]
COMPARISONS = ["Equal-1", "NotEqual-1", "Less-1", "LessEqual-1", "Greater-1", "GreaterEqual-1"]
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, *INTEGERS]


@pytest.mark.parametrize("name", [*BINARY, *MODULO, *COMPARISONS])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_binary_operation_equals_plain_kernel(name, shapes):
    for dtype in TYPES:
        for left, right in (shapes, shapes[::-1]):
            a, b = make_values(left, dtype, 1), make_values(right, dtype, 2)
            for constants in iterate_constants(2):
                check(name, [a, b], constants=constants)


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (1, 3, 1, 1), (1, 1, 1, 1)], ids=str)
def test_values_per_channel_equal_plain_kernel(shape):
    gate, data = make_floats(shape, 1), make_floats((2, 3, 30, 20), 2)
    for x in (data, data.transpose(0, 1, 3, 2), data[..., :1, :1], data[..., ::2]):
        check("Multiply-1", [gate, x])
        check("Multiply-1", [x, gate])


@pytest.mark.parametrize("name", [*BINARY, *MODULO, *COMPARISONS])
def test_special_floats_equal_plain_kernel(name):
    a = make_floats((16, 1), 3, special=True)
    b = make_floats((1, 16), 4, special=True)
    for constants in iterate_constants(2):
        check(name, [a, b], constants=constants)
        for value in (0.0, -0.0, np.inf, np.nan, 2.5):
            check(name, [a, np.array([[value]], F32)], constants=constants)
            check(name, [np.array(value, F32), b], constants=constants)


@pytest.mark.parametrize("name", ["Divide-1", *MODULO])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_of_integers_equals_plain_kernel(name, dtype):
    a = make_values((5, 8), dtype)
    a[0, :3] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0
    for divisor in (3, -3, 1, -1, 0, [1, 2, 3, 4, 5, 6, 7, 0]):
        if np.min(divisor) < 0 and dtype.kind == "u":
            continue
        b = np.array(divisor, dtype)
        for constants in ((), (1,), (0,)):
            check(name, [a, b], constants=constants)
            if name == "Divide-1":
                check(name, [a, b], {"m_pythondiv": False}, constants=constants)


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
@pytest.mark.parametrize("rule", ["none", "explicit", "pdpd"])
def test_other_broadcasting_rules_equal_plain_kernel(name, rule):
    for shapes in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2,))):
        a, b = (make_floats(shape) for shape in shapes)
        for constants in iterate_constants(2):
            check(name, [a, b], {"auto_broadcast": rule, "auto_broadcast_axis": 0}, constants=constants)


@pytest.mark.parametrize("name", BINARY)
def test_mixed_types_equal_plain_kernel(name):
    a, b = make_values((2, 3), np.float32), make_values((2, 3), np.float64)
    for inputs in ([a, b], [b, a]):
        for constants in iterate_constants(2):
            check(name, inputs, constants=constants)


@pytest.mark.parametrize("name", ["LogicalAnd-1", "LogicalOr-1", "LogicalXor-1", "Xor-1"])
def test_logical_operation_equals_plain_kernel(name):
    for shapes in SHAPES:
        for dtype in (np.bool_, np.uint8):
            a, b = (make_values(shape, dtype, i) for i, shape in enumerate(shapes))
            for constants in iterate_constants(2):
                check(name, [a, b], constants=constants)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float32])
def test_logical_not_equals_plain_kernel(dtype):
    for shape in ((3, 4), (), (0,)):
        check("LogicalNot-1", [make_values(shape, dtype)])


@pytest.mark.parametrize("exponent", [2, 3, -1, 0.5, -0.5, 0, 1, 1.7, -2, 0.25, np.inf, np.nan, 10])
def test_power_equals_exact_value(exponent):
    positive = np.exp(make_floats((30, 64), 5, 4))
    anything = make_floats((3, 64), 6, 3, special=True)
    for base in (positive, anything, anything[:0], anything[0, 0]):
        for shape in ((), (1,), (1, 1)):
            b = np.full(shape, exponent, F32)
            compare = compare_with_exact("Power-1", cancels=False)
            for constants in ((), (1,)):
                check("Power-1", [base, b], constants=constants, compare=compare)


def test_power_of_tensors_equals_exact_value():
    a, b = np.exp(make_floats((8, 64), 5)), make_floats((8, 64), 6, 3)
    compare = compare_with_exact("Power-1", cancels=False)
    for constants in iterate_constants(2):
        check("Power-1", [a, b], constants=constants, compare=compare)
        check("Power-1", [a, b[:1]], constants=constants, compare=compare)
        check("Power-1", [make_floats((4, 16), 7, special=True), b[:4, :16]], constants=constants, compare=compare)
    for dtype in (np.float64, np.float16, np.int32):
        check("Power-1", [a.astype(dtype), np.array(2, dtype)], constants=(1,))


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), ()), ((), (2,), (1,)), ((0,), (1,), ())])
def test_select_equals_plain_kernel(shapes):
    for dtype in TYPES:
        cond = make_values(shapes[0], np.bool_)
        a, b = make_values(shapes[1], dtype, 1), make_values(shapes[2], dtype, 2)
        for constants in iterate_constants(3):
            check("Select-1", [cond, a, b], constants=constants)
            check("Select-1", [cond.astype(np.uint8), a, b], constants=constants)


@pytest.mark.parametrize("constants", [(), (1,), (2,), (1, 2)], ids=str)
def test_select_by_booleans_is_specialized(constants):
    x = make_floats((2, 3))
    assert not calls_plain("Select-1", [x > 0, x, -x], constants=constants)
    assert calls_plain("Select-1", [(x > 0).astype(np.uint8), x, -x], constants=constants)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_sums_of_native_types_are_specialized(dtype):
    x = np.ones((2, 3), dtype)
    assert not calls_plain("Add-1", [x, x])
    assert calls_plain("Add-1", [x.astype(np.float16), x.astype(np.float16)])


def test_operands_of_known_types_are_specialized():
    x = make_floats((2, 3))
    assert is_specialized("Add-1", [x, x])
    assert is_specialized("Add-1", [x, x], (1,))
    assert not is_specialized("Add-1", [x, x.astype(np.float16)], (1,))
    assert not is_specialized("Add-1", [x, x], auto_broadcast="pdpd")
    assert not is_specialized("Divide-1", [np.ones(3, np.int32), np.array([1, 0, 2], np.int32)], (1,))
