"""Arithmetic on dimensions: integers or intervals of integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irrun.shapes import UNBOUNDED, DynamicDimension, PartialShape, StaticDimension

__all__ = [
    "ONE",
    "Dimension",
    "add",
    "broadcast",
    "broadcast_shapes",
    "contains",
    "count_elements",
    "divide_down",
    "divide_exactly",
    "divide_up",
    "get_bounds",
    "is_one",
    "limit",
    "make_dimension",
    "make_static",
    "make_unknown",
    "may_equal",
    "merge",
    "merge_shapes",
    "multiply",
    "shift",
    "subtract",
    "unite",
]

Dimension = StaticDimension | DynamicDimension

ONE = StaticDimension(1)

#: Larger upper bounds are none: no array is that long.
_LARGEST = (1 << 63) - 1


def make_dimension(minimum: int, maximum: int | None) -> Dimension:
    """Return the dimension with these bounds; a negative lower bound counts as 0."""
    minimum = max(minimum, 0)
    if maximum is None or maximum >= _LARGEST:
        return DynamicDimension(minimum, None) if minimum else UNBOUNDED
    return StaticDimension(minimum) if minimum >= maximum else DynamicDimension(minimum, maximum)


def make_static(size: int) -> Dimension:
    """Return the dimension of arrays with this size; a negative one counts as 0."""
    return make_dimension(size, size)


def make_unknown(rank: int | None) -> PartialShape | None:
    """Return a shape with unknown dimensions; None if the rank is unknown."""
    return None if rank is None else PartialShape([UNBOUNDED] * rank)


def get_bounds(dimension: Dimension) -> tuple[int, int | None]:
    """Return the bounds of a dimension; the upper one is None if there is none."""
    if isinstance(dimension, DynamicDimension):
        return dimension.minimum, dimension.maximum
    return int(dimension), int(dimension)


def is_one(dimension: Dimension) -> bool:
    """Return whether a dimension is 1."""
    return isinstance(dimension, int) and dimension == 1


def may_equal(first: Dimension, second: Dimension) -> bool:
    """Return whether some size is within both dimensions."""
    return merge(first, second) is not None


def merge(first: Dimension, second: Dimension) -> Dimension | None:
    """Return the sizes that are within both dimensions; None if there are none."""
    (low, high), (other_low, other_high) = get_bounds(first), get_bounds(second)
    low = max(low, other_low)
    high = other_high if high is None else high if other_high is None else min(high, other_high)
    return None if high is not None and low > high else make_dimension(low, high)


def unite(first: Dimension, second: Dimension) -> Dimension:
    """Return the smallest dimension that contains both."""
    (low, high), (other_low, other_high) = get_bounds(first), get_bounds(second)
    return make_dimension(min(low, other_low), None if high is None or other_high is None else max(high, other_high))


def broadcast(first: Dimension, second: Dimension) -> Dimension | None:
    """Return the size of two dimensions that are broadcast to each other; None if they cannot be."""
    has_one, other_has_one = may_equal(first, ONE), may_equal(second, ONE)
    if has_one and other_has_one:
        return unite(first, second)
    if has_one or other_has_one:
        return second if has_one else first
    return merge(first, second)


def broadcast_shapes(first: PartialShape | None, second: PartialShape | None) -> PartialShape | None:
    """Return the shape of two arrays that are broadcast by NumPy's rules.

    Raises:
        ValueError: They cannot be broadcast.
    """
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    dimensions = []
    for a, b in zip(_extend(first, rank), _extend(second, rank), strict=True):
        size = broadcast(a, b)
        if size is None:
            raise ValueError(f"the shapes {first} and {second} cannot be broadcast, found dimensions {a} and {b}")
        dimensions.append(size)
    return PartialShape(dimensions)


def _extend(shape: PartialShape, rank: int) -> Sequence[Dimension]:
    return (*[ONE] * (rank - len(shape)), *shape)


def merge_shapes(first: PartialShape | None, second: PartialShape | None) -> PartialShape | None:
    """Return the shape of two arrays that must have equal shapes.

    Raises:
        ValueError: They differ.
    """
    if first is None or second is None:
        return second if first is None else first
    sizes = [merge(a, b) for a, b in zip(first, second, strict=False)]
    known = [size for size in sizes if size is not None]
    if len(first) != len(second) or len(known) < len(sizes):
        raise ValueError(f"the shapes {first} and {second} differ")
    return PartialShape(known)


def contains(outer: PartialShape, inner: PartialShape) -> bool:
    """Return whether all arrays of one shape are within another one."""
    if len(outer) != len(inner):
        return False
    for a, b in zip(outer, inner, strict=True):
        (low, high), (other_low, other_high) = get_bounds(a), get_bounds(b)
        if other_low < low or (high is not None and (other_high is None or other_high > high)):
            return False
    return True


def add(first: Dimension, second: Dimension) -> Dimension:
    """Return the sum of two dimensions."""
    (low, high), (other_low, other_high) = get_bounds(first), get_bounds(second)
    return make_dimension(low + other_low, None if high is None or other_high is None else high + other_high)


def shift(dimension: Dimension, offset: int) -> Dimension:
    """Return a dimension plus an integer, at least 0."""
    low, high = get_bounds(dimension)
    return make_dimension(low + offset, None if high is None else max(high + offset, 0))


def subtract(first: Dimension, second: Dimension) -> Dimension:
    """Return the difference of two dimensions, at least 0."""
    (low, high), (other_low, other_high) = get_bounds(first), get_bounds(second)
    return make_dimension(
        0 if other_high is None else low - other_high, None if high is None else max(high - other_low, 0)
    )


def multiply(first: Dimension, second: Dimension | int) -> Dimension:
    """Return the product of two dimensions."""
    (low, high), (other_low, other_high) = get_bounds(first), get_bounds(second)  # type: ignore[arg-type]
    if high == 0 or other_high == 0:
        return StaticDimension(0)
    return make_dimension(low * other_low, None if high is None or other_high is None else high * other_high)


def limit(dimension: Dimension, most: Dimension) -> Dimension:
    """Return the smaller one of two dimensions."""
    (low, high), (most_low, most_high) = get_bounds(dimension), get_bounds(most)
    highs = [n for n in (high, most_high) if n is not None]
    return make_dimension(min(low, most_low), min(highs, default=None))


def divide_down(dimension: Dimension, divisor: int) -> Dimension:
    """Return a dimension divided by an integer, rounded down."""
    low, high = get_bounds(dimension)
    return make_dimension(low // divisor, None if high is None else high // divisor)


def divide_up(dimension: Dimension, divisor: int) -> Dimension:
    """Return a dimension divided by an integer, rounded up."""
    low, high = get_bounds(dimension)
    return make_dimension(-(-low // divisor), None if high is None else -(-high // divisor))


def divide_exactly(dimension: Dimension, divisor: int) -> Dimension | None:
    """Return the sizes that, times an integer, are within a dimension; None if there are none."""
    if divisor == 0:
        return None
    low, high = get_bounds(dimension)
    low, high = -(-low // divisor), None if high is None else high // divisor
    return None if high is not None and low > high else make_dimension(low, high)


def count_elements(dimensions: Iterable[Dimension]) -> Dimension:
    """Return the product of dimensions."""
    product: Dimension = ONE
    for dimension in dimensions:
        product = multiply(product, dimension)
    return product
