"""Functions of two integers or numbers, compared with Python's operators, with all kinds of broadcasting."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irrun.ops._support.registry import find

Array = np.ndarray[Any, Any]


def wrap(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Return a function of i8 whose results wrap."""
    return lambda a, b: (function(a, b) + 128) % 256 - 128


INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "Add-1": wrap(operator.add),
    "Subtract-1": wrap(operator.sub),
    "Multiply-1": wrap(operator.mul),
    "Divide-1": wrap(operator.floordiv),
    "FloorMod-1": operator.mod,
    "Mod-1": math.fmod,
    "Maximum-1": max,
    "Minimum-1": min,
    "SquaredDifference-1": wrap(lambda a, b: (a - b) ** 2),
    "BitwiseAnd-13": operator.and_,
    "BitwiseOr-13": operator.or_,
    "BitwiseXor-13": operator.xor,
    "BitwiseLeftShift-15": wrap(lambda a, b: a << b % 8),
    "BitwiseRightShift-15": lambda a, b: a >> b % 8,
    "Equal-1": operator.eq,
    "NotEqual-1": operator.ne,
    "Less-1": operator.lt,
    "LessEqual-1": operator.le,
    "Greater-1": operator.gt,
    "GreaterEqual-1": operator.ge,
}
BOOLEANS: dict[str, Callable[[bool, bool], bool]] = {
    "LogicalAnd-1": lambda a, b: a and b,
    "LogicalOr-1": lambda a, b: a or b,
    "LogicalXor-1": operator.xor,
    "LogicalNot-1": lambda a, b: not a,
    "Equal-1": operator.eq,
    "NotEqual-1": operator.ne,
    "BitwiseAnd-13": operator.and_,
    "BitwiseOr-13": operator.or_,
    "BitwiseXor-13": operator.xor,
}
#: Attributes, shapes of the operands, and the shape of the second one that has the same effect.
BROADCASTS: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ({}, (2, 3), (3,), (1, 3)),
    ({}, (3,), (2, 1), (2, 1)),
    ({"auto_broadcast": "none"}, (2, 3), (2, 3), (2, 3)),
    ({"auto_broadcast": "pdpd"}, (3, 2), (3,), (3, 1)),
    ({"auto_broadcast": "pdpd", "auto_broadcast_axis": 1}, (2, 3, 2), (3,), (3, 1)),
    ({"auto_broadcast": "pdpd", "auto_broadcast_axis": -1}, (2, 3), (3,), (1, 3)),
]


def compute(name: str, *operands: Array, **attributes: Any) -> Array:
    operation_type, version = name.split("-")
    operation = find(operation_type, f"opset{version}")
    assert operation is not None
    return np.asarray(operation.kernel(*operands, **attributes))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_computed_as_python_does(name: str) -> None:
    rng = np.random.default_rng(1)
    function = INTEGERS[name]
    for attributes, shape, other, view in BROADCASTS:
        a, b = rng.integers(-9, 10, shape).astype(np.int8), rng.integers(1, 6, other).astype(np.int8)
        expected = np.vectorize(lambda x, y: int(function(int(x), int(y))))(a, b.reshape(view))
        result = compute(name, a, b, **attributes)
        assert result.dtype == (np.bool_ if "qual" in name or "Less" in name or "Greater" in name else np.int8)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans_are_computed_by_truth_tables(name: str) -> None:
    a, b = np.array([[False], [True]]), np.array([False, True])
    operands = (a,) if name == "LogicalNot-1" else (a, b)
    expected = [[BOOLEANS[name](x, y) for y in (False, True)] for x in (False, True)]
    result = compute(name, *operands)
    assert result.dtype == np.bool_
    assert np.broadcast_to(result, (2, 2)).tolist() == expected


def test_quotients_of_negative_integers_are_rounded_down_or_toward_zero() -> None:
    a, b = np.array([-7, 7, -6]), np.array([2, -2, 3])
    assert compute("Divide-1", a, b).tolist() == [-4, -4, -2]
    assert compute("Divide-1", a, b, m_pythondiv=False).tolist() == [-3, -3, -2]
    assert compute("Mod-1", a, b).tolist() == [-1, 1, 0]
    assert compute("FloorMod-1", a, b).tolist() == [1, -1, 0]
    assert compute("Power-1", np.array([-2, 3]), np.array([3, 2])).tolist() == [-8, 9]


def test_bits_other_than_0_and_1_differ_from_all_bits() -> None:
    """BinaryConvolution counts equal bits minus different ones."""
    data, filters = np.array([[[[0.0, 1, 2, 1]]]], np.float32), np.array([[[[1, 0, 1]]]], np.uint8)
    attributes: dict[str, Any] = {
        "strides": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "mode": "xnor-popcount",
        "pad_value": 0.0,
    }
    # [0, 1, 2] and [1, 2, 1] against [1, 0, 1]: all three differ, and one of three.
    assert compute("BinaryConvolution-1", data, filters, **attributes).tolist() == [[[[-3.0, 1.0]]]]
