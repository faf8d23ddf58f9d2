"""Checks of axes and of the ranks and dimensions of inputs."""

from __future__ import annotations

from collections.abc import Iterable

from irrun.ops.shape_rules.dimensions import ONE, Dimension, divide_exactly, may_equal, merge
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import PartialShape, StaticDimension

__all__ = [
    "check_axis",
    "check_rank",
    "check_scalar",
    "check_size",
    "divide",
    "get_dimension",
    "match_sizes",
    "normalize_axes",
]


def check_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis in [0, rank).

    Raises:
        ShapeError: It is out of range.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"{name} {axis} is out of range for rank {rank}, expected it in [{-rank}, {rank})")
    return axis % rank


def normalize_axes(axes: Iterable[int], rank: int, name: str = "axes") -> list[int]:
    """Return axes in [0, rank).

    Raises:
        ShapeError: One is out of range.
    """
    return [check_axis(axis, rank, name) for axis in axes]


def check_rank(inputs: Inputs, position: int, *ranks: int) -> None:
    """Check the rank of an input as far as it is known.

    Raises:
        ShapeError: It is not one of `ranks`.
    """
    rank = inputs.get_rank(position)
    if rank is not None and rank not in ranks:
        expected = " or ".join(map(str, ranks))
        raise ShapeError(
            f"{inputs.get_name(position)} has the shape {inputs.get_shape(position)} of rank {rank}, "
            f"expected rank {expected}"
        )


def match_sizes(found: Dimension, expected: Dimension, message: str) -> Dimension:
    """Return the sizes that two dimensions have in common.

    Raises:
        ShapeError: They have none.
    """
    common = merge(found, expected)
    if common is None:
        raise ShapeError(message)
    return common


def divide(dimension: Dimension, divisor: int, message: str) -> Dimension:
    """Divide a dimension without remainder.

    Raises:
        ShapeError: It has a remainder.
    """
    quotient = divide_exactly(dimension, divisor)
    if quotient is None or (isinstance(dimension, int) and dimension % divisor):
        raise ShapeError(message)
    return quotient


def check_scalar(inputs: Inputs, *positions: int) -> None:
    """Check that inputs have one element, as far as their shapes are known.

    Raises:
        ShapeError: One has another number of elements, or a rank above 1.
    """
    for position in positions:
        shape = inputs.get_shape(position)
        if shape is not None and (len(shape) > 1 or not all(may_equal(size, ONE) for size in shape)):
            raise ShapeError(f"{inputs.get_name(position)} has the shape {shape}, expected a single element")


def check_size(inputs: Inputs, position: int, axis: int, *expected: int) -> None:
    """Check a dimension of an input as far as it is known.

    Raises:
        ShapeError: The dimension is none of `expected`.
    """
    size = get_dimension(inputs.get_shape(position), axis)
    if size is not None and not any(may_equal(size, StaticDimension(n)) for n in expected):
        wanted = " or ".join(map(str, expected))
        raise ShapeError(
            f"{inputs.get_name(position)} has the shape {inputs.get_shape(position)}, expected {wanted} in its "
            f"{'last dimension' if axis == -1 else f'dimension {axis}'}, found {size}"
        )


def get_dimension(shape: PartialShape | None, axis: int) -> Dimension | None:
    """Return a dimension of a shape; None if there is none."""
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
