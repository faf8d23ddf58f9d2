"""Bounds of values that are computed from shapes, compared with all values within the bounds of the operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.ops._support.registry import find
from irrun.ops.shape_rules import VALUE_LIMIT, Value
from irrun.ops.shape_rules.bounds import infer_bounds, make_shape_bounds
from irrun.shapes import PartialShape

INFINITY = np.inf
I64, F32, BOOLEAN = (ELEMENT_TYPES[name] for name in ("i64", "f32", "boolean"))


def bounded(low: Any, high: Any) -> Value:
    """Return what is known of a value between two arrays."""
    low, high = np.array(low, np.float64), np.array(high, np.float64)
    return Value(PartialShape(low.shape), bounds=(low, high))


def infer(name: str, *inputs: Value | None, element_type: Any = I64, **attributes: str) -> list[Any]:
    """Return the bounds of the results as pairs of lists."""
    operation = find(*name.split("-"))
    assert operation is not None
    defaults = {a.name: a.default for a in operation.attributes if not a.required}
    results = infer_bounds(operation, {**defaults, **operation.bind(attributes)}, inputs, element_type)
    return [None if bounds is None else (bounds[0].tolist(), bounds[1].tolist()) for bounds in results]


#: Functions of integers whose bounds are those of the results.
FUNCTIONS: dict[str, Callable[..., int]] = {
    "Add-opset1": lambda a, b: a + b,
    "Subtract-opset1": lambda a, b: a - b,
    "Multiply-opset1": lambda a, b: a * b,
    "Maximum-opset1": max,
    "Minimum-opset1": min,
    "Abs-opset1": abs,
    "Negative-opset1": lambda a: -a,
    "Relu-opset1": lambda a: max(a, 0),
    "Less-opset1": lambda a, b: a < b,
    "GreaterEqual-opset1": lambda a, b: a >= b,
    "Equal-opset1": lambda a, b: a == b,
    "NotEqual-opset1": lambda a, b: a != b,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_are_the_least_and_the_greatest_results(name: str) -> None:
    function = FUNCTIONS[name]
    element_type = BOOLEAN if "Equal" in name or "Less" in name else I64
    count = 1 if name.startswith(("Abs", "Negative", "Relu")) else 2
    intervals = [(-3, -3), (-4, -1), (-2, 3), (0, 2), (1, 4), (3, 3)]
    for chosen in itertools.product(intervals, repeat=count):
        points = [function(*point) for point in itertools.product(*(range(a, b + 1) for a, b in chosen))]
        found = infer(name, *(bounded([a], [b]) for a, b in chosen), element_type=element_type)
        assert found == [([min(points)], [max(points)])], chosen


UNKNOWN = ([0.0], [INFINITY])


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("Mod-opset1", [([7], [7]), ([3], [3])], ([1], [1])),
        ("Mod-opset1", [([7], [8]), ([3], [3])], UNKNOWN),
        ("FloorMod-opset1", [([7], [7]), ([3], [4])], UNKNOWN),
        ("Power-opset1", [([2], [3]), ([1], [2])], ([2], [9])),
        ("Power-opset1", [([-2], [3]), ([2], [2])], UNKNOWN),
        ("Power-opset1", [([-2], [-2]), ([2], [2])], ([4], [4])),
        ("Add-opset1", [([2], [INFINITY]), ([1], [1])], UNKNOWN),
        ("Add-opset1", [([1], [1]), ([2], [INFINITY])], UNKNOWN),
        ("Add-opset1", [([-INFINITY], [2]), ([1], [1])], UNKNOWN),
        ("Divide-opset1", [([0], [1]), ([0], [0])], UNKNOWN),
        ("Abs-opset1", [([2], [INFINITY])], ([2], [INFINITY])),
    ],
)
def test_bounds_are_unknown_where_results_may_be_elsewhere(name: str, operands: Any, expected: Any) -> None:
    assert infer(name, *itertools.starmap(bounded, operands)) == [expected]


def test_comparisons_of_unbounded_sizes_are_known() -> None:
    (found,) = infer("GreaterEqual-opset1", bounded([2], [INFINITY]), bounded([1], [1]), element_type=BOOLEAN)
    assert found == ([1], [1])


def test_each_element_has_bounds_of_its_own() -> None:
    (found,) = infer("Add-opset1", bounded([1, 2, 3], [1, 5, INFINITY]), bounded([2], [2]))
    assert found == ([3, 4, 0], [3, 7, INFINITY])
    (found,) = infer("Mod-opset1", bounded([7, 7], [7, 8]), bounded([3], [3]))
    assert found == ([1, 0], [1, INFINITY])


@pytest.mark.parametrize(("rounds_down", "expected"), [("true", ([-4], [1])), ("false", ([-3], [1]))])
def test_quotients_are_rounded_as_the_kernel_does(rounds_down: str, expected: Any) -> None:
    operands = bounded([-7], [3]), bounded([2], [2])
    assert infer("Divide-opset1", *operands, m_pythondiv=rounds_down) == [expected]
    assert infer("Divide-opset1", *operands, element_type=F32) == [([-3.5], [1.5])]
    assert infer("Divide-opset1", *operands, element_type=None) == [([-3.5], [1.5])]


def test_roots_of_integers_are_rounded_outward() -> None:
    assert infer("Sqrt-opset1", bounded([5], [10])) == [([2], [4])]
    (((low,), (high,)),) = infer("Sqrt-opset1", bounded([5], [10]), element_type=F32)
    assert (low, high) == (pytest.approx(5**0.5), pytest.approx(10**0.5))


def test_conversions_keep_bounds_and_truncate_to_integers() -> None:
    operand = bounded([-1.5], [2.5])
    assert infer("Convert-opset1", operand, destination_type="i64") == [([-1], [2])]
    assert infer("Convert-opset1", operand, element_type=F32, destination_type="f32") == [([-1.5], [2.5])]
    assert infer("Convert-opset1", operand, element_type=None, destination_type="f32") == [([-1.5], [2.5])]


def test_moved_elements_keep_their_bounds() -> None:
    pair, known = bounded([1, 2], [3, INFINITY]), Value.of_array(np.array([4]))
    assert infer("Concat-opset1", pair, known, bounded([5], [6]), axis="0") == [([1, 2, 4, 5], [3, INFINITY, 4, 6])]
    index, axis = Value.of_array(np.array([1])), Value.of_array(np.array(0))
    assert infer("Gather-opset8", pair, index, axis) == [([2], [INFINITY])]
    assert infer("Split-opset1", pair, axis, num_splits="2") == [([1], [3]), ([2], [INFINITY])]
    assert infer("Unsqueeze-opset1", pair, axis) == [([[1, 2]], [[3, INFINITY]])]


def test_nothing_is_known_without_all_operands() -> None:
    pair, scalar = bounded([1, 2], [3, 4]), Value.of_array(np.array(0))
    assert infer("Add-opset1", pair, Value(PartialShape([2]))) == []
    assert infer("Gather-opset8", pair, bounded([0], [1]), scalar) == []  # the index itself is needed
    assert infer("Gather-opset8", pair, Value.of_array(np.array([1])), Value.of_array(np.array(5))) == []
    assert infer("Sigmoid-opset1", pair) == []  # bounds are not inferred
    assert infer("Add-opset1", pair, bounded([1, 2, 3], [1, 2, 3])) == []
    for size, is_known in ((VALUE_LIMIT, True), (VALUE_LIMIT + 1, False)):
        large = bounded(np.zeros(size), np.ones(size))
        assert bool(infer("Negative-opset1", large)) == is_known


def test_sizes_have_the_bounds_of_their_dimensions() -> None:
    low, high = make_shape_bounds(PartialShape([3, -1, "2..", "..5"]))
    assert (low.tolist(), high.tolist()) == ([3, 0, 2, 0], [3, INFINITY, INFINITY, 5])
