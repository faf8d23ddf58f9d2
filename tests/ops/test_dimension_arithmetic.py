"""Arithmetic on dimensions, compared with all sizes that are within them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from irrun.ops.shape_rules import dimensions as d
from irrun.shapes import UNBOUNDED, PartialShape

#: A size above all bounds, which stands for any larger one.
LARGE = 1000
INTERVALS: list[tuple[int, int | None]] = [
    (low, high) for low in range(5) for high in (*range(low, 6), None)
]  # all with small bounds


def list_sizes(interval: tuple[int, int | None]) -> list[int]:
    low, high = interval
    return [*range(low, 12), LARGE, LARGE + 1] if high is None else list(range(low, high + 1))


def enclose(sizes: list[int]) -> d.Dimension:
    """Return the smallest dimension that contains sizes."""
    return d.make_dimension(min(sizes), None if max(sizes) > LARGE // 10 else max(sizes))


PAIRS: dict[str, tuple[Callable[..., d.Dimension | None], Callable[[int, int], int | None]]] = {
    "add": (d.add, lambda a, b: a + b),
    "subtract": (d.subtract, lambda a, b: max(a - b, 0)),
    "multiply": (d.multiply, lambda a, b: a * b),
    "unite": (d.unite, lambda a, b: None),
    "limit": (d.limit, min),
    "merge": (d.merge, lambda a, b: a if a == b else None),
    "broadcast": (d.broadcast, lambda a, b: max(a, b) if a == b or 1 in (a, b) else None),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_dimensions_contain_all_results(name: str) -> None:
    compute, expected = PAIRS[name]
    for first, second in itertools.product(INTERVALS, repeat=2):
        found = compute(d.make_dimension(*first), d.make_dimension(*second))
        pairs = list(itertools.product(list_sizes(first), list_sizes(second)))
        if name == "unite":
            results: list[int | None] = [n for pair in pairs for n in pair]
        elif name == "broadcast":  # a size of 0 and one of 1 give 0
            results = [min(a, b) if 0 in (a, b) and 1 in (a, b) else expected(a, b) for a, b in pairs]
        else:
            results = [expected(a, b) for a, b in pairs]
        sizes = [n for n in results if n is not None]
        if not sizes:
            assert found is None, (first, second)
        elif name == "broadcast":
            assert found is not None
            low, high = d.get_bounds(found)
            assert low <= min(sizes), (first, second)
            assert high is None or high >= max(sizes), (first, second)
        else:
            assert found == enclose(sizes), (first, second)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((3, 3), (1, 1), "3"),
        ((1, 1), (3, 3), "3"),
        ((2, 5), (1, 1), "2..5"),
        ((2, 5), (3, 9), "3..5"),
        ((2, 3), (4, 5), None),
        ((0, 3), (2, 5), "2..5"),
        ((2, 5), (0, None), "2..5"),
        ((0, 4), (1, 3), "..4"),
        ((1, 1), (1, 1), "1"),
    ],
)
def test_sizes_that_are_not_one_determine_the_broadcast_size(
    first: tuple[int, int | None], second: tuple[int, int | None], expected: str | None
) -> None:
    found = d.broadcast(d.make_dimension(*first), d.make_dimension(*second))
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize("number", range(-4, 5))
def test_offsets_and_quotients_contain_all_results(number: int) -> None:
    for interval in INTERVALS:
        size = d.make_dimension(*interval)
        sizes = list_sizes(interval)
        assert d.shift(size, number) == enclose([max(n + number, 0) for n in sizes])
        if number > 0:
            assert d.divide_down(size, number) == enclose([n // number for n in sizes])
            assert d.divide_up(size, number) == enclose([-(-n // number) for n in sizes])
            low, high = interval
            exact = [n for n in range(9) if low <= n * number and (high is None or n * number <= high)]
            expected = d.make_dimension(min(exact), None if high is None else max(exact)) if exact else None
            assert d.divide_exactly(size, number) == expected, interval
    assert d.divide_exactly(UNBOUNDED, 0) is None


def test_bounds_of_dimensions() -> None:
    assert str(d.make_dimension(-3, 4)) == "..4"
    assert str(d.make_dimension(2, None)) == "2.."
    assert str(d.make_dimension(0, None)) == "?"
    assert str(d.make_dimension(4, 3)) == "4"
    assert str(d.make_dimension(0, (1 << 63) - 2)) == f"..{(1 << 63) - 2}"
    assert str(d.make_dimension(0, (1 << 63) - 1)) == "?"
    assert d.make_static(-2) == 0
    assert d.make_static(7) == 7
    assert [d.get_bounds(size) for size in PartialShape([3, "2..", "..4", -1])] == [
        (3, 3),
        (2, None),
        (0, 4),
        (0, None),
    ]
    assert [d.is_one(size) for size in PartialShape([1, 2, "1..2", -1])] == [True, False, False, False]
    assert d.make_unknown(None) is None
    assert d.make_unknown(2) == PartialShape([-1, -1])
    assert d.count_elements(PartialShape([2, "3..4", 5])) == d.make_dimension(30, 40)
    assert d.count_elements(PartialShape([0, -1])) == 0
    assert d.count_elements(PartialShape([-1, 0])) == 0
    assert d.count_elements(PartialShape([])) == 1


def test_shapes_contain_each_other() -> None:
    outer = PartialShape([3, "2..5", "2..", "..4"])
    assert d.contains(outer, outer)
    for inner, expected in [
        ([3, 2, 2, 0], True),
        ([3, 5, 99, 4], True),
        ([3, "3..4", "3..9", "1..2"], True),
        ([4, 2, 2, 0], False),
        ([3, 1, 2, 0], False),
        ([3, "2..6", 2, 0], False),
        ([3, "2..", 2, 0], False),
        ([3, 2, 1, 0], False),
        ([3, 2, 2, 5], False),
        ([3, 2, 2], False),
    ]:
        assert d.contains(outer, PartialShape(inner)) == expected, inner
    assert d.contains(PartialShape([-1]), PartialShape([-1]))


def test_shapes_are_merged_and_broadcast() -> None:
    a, b = PartialShape([2, "1..4"]), PartialShape(["1..2", "3..6"])
    assert d.merge_shapes(a, b) == PartialShape([2, "3..4"])
    assert d.merge_shapes(a, None) is a
    assert d.merge_shapes(None, b) is b
    assert d.merge_shapes(None, None) is None
    for other in (PartialShape([2]), PartialShape([2, 5]), PartialShape([2, 4, 1])):
        with pytest.raises(ValueError, match=r"^the shapes .* and .* differ$"):
            d.merge_shapes(a, other)
    assert d.broadcast_shapes(PartialShape([3]), PartialShape([2, 1])) == PartialShape([2, 3])
    assert d.broadcast_shapes(PartialShape([5, 1, 3]), PartialShape([2, 1])) == PartialShape([5, 2, 3])
    assert d.broadcast_shapes(None, a) is None
    assert d.broadcast_shapes(a, None) is None
    with pytest.raises(
        ValueError, match=r"^the shapes \[2,3\] and \[4\] cannot be broadcast, found dimensions 3 and 4$"
    ):
        d.broadcast_shapes(PartialShape([2, 3]), PartialShape([4]))
