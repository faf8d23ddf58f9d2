"""Axes, and small integer inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.numerics import Array
from irrun.shapes import MAX_RANK

__all__ = ["normalize_axes", "normalize_axis", "read_axis", "to_int_list", "to_scalar", "to_shape"]

#: Bytes of a Python integer and of the lists that refer to it.
INTEGER_BYTES = 48


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return `axis` as an index in [0, rank).

    Args:
        axis: An axis. Negative values count from the last one.
        rank: Rank of the tensor.
        name: Name of the attribute or input, for the error message.

    Raises:
        InputError: `axis` is not in [-rank, rank).
    """
    axis = int(axis)
    if not -rank <= axis < rank:
        raise InputError(f"{name} {axis} is out of range [{-rank}, {rank - 1}] for a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Iterable[int], rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return `axes` as indices in [0, rank), in their order.

    Args:
        axes: Axes. Negative values count from the last one.
        rank: Rank of the tensor.
        name: Name of the attribute or input, for the error message.

    Raises:
        InputError: An axis is out of range or repeated.
    """
    normalized = tuple(normalize_axis(axis, rank, name) for axis in axes)
    if len(set(normalized)) != len(normalized):
        raise InputError(f"{name} {list(normalized)} contains an axis twice")
    return normalized


def to_int_list(values: Array) -> list[int]:
    """Return the elements of an integer input (axes, a shape, ...) as Python integers.

    Raises:
        InputError: The elements are not finite numbers.
    """
    check_scratch(INTEGER_BYTES * values.size)
    try:
        return [int(v) for v in values.reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"expected integers, found {ElementType.of(values.dtype)}: {values}") from None


def to_shape(values: Array, name: str) -> list[int]:
    """Return the elements of an integer input, one per axis of an array, as Python integers.

    Args:
        values: Integer, any shape.
        name: Name of the input, for the error message.

    Raises:
        InputError: There are more elements than an array can have axes, or they are not finite numbers.
    """
    if values.size > MAX_RANK:  # the product of millions of them takes minutes
        raise InputError(f"{name} has {values.size} elements, expected at most {MAX_RANK}, one per axis")
    return to_int_list(values)


def to_scalar(value: Array, name: str) -> Any:
    """Return the only element of an input as a Python number.

    Args:
        value: A tensor of one element, of any rank.
        name: Name of the input, for the error message.

    Raises:
        InputError: The tensor does not have exactly one element, or the element is not a number.
    """
    if value.size != 1:
        raise InputError(f"{name} has shape {list(value.shape)}, expected a scalar")
    if value.dtype.kind == "O" or value.dtype.fields is not None:
        raise InputError(f"{name} is {ElementType.of(value.dtype)}, expected a number")
    return value.reshape(-1)[0].item()


def read_axis(axis: Array, rank: int) -> int:
    """Return the axis that an input selects, as an index in [0, rank).

    Args:
        axis: Integer scalar or [1].
        rank: Rank of the tensor.

    Raises:
        InputError: `axis` has several elements or is out of range.
    """
    if axis.ndim > 1:
        raise InputError(f"axis has shape {list(axis.shape)}, expected a scalar or [1]")
    to_scalar(axis, "axis")
    return normalize_axis(to_int_list(axis)[0], rank)
