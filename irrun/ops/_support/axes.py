"""Axes, small integer inputs and broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.ops._support.numerics import Array

__all__ = [
    "AutoBroadcast",
    "apply_auto_broadcast",
    "normalize_axes",
    "normalize_axis",
    "read_axis",
    "to_int_list",
    "to_scalar",
]

#: The broadcasting rules of the specification. "explicit" is a synonym of "none" that OpenVINO accepts.
AutoBroadcast = Literal["none", "explicit", "numpy", "pdpd"]


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
    try:
        return [int(v) for v in values.reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"expected integers, found {ElementType.of(values.dtype)}: {values}") from None


def to_scalar(value: Array, name: str) -> Any:
    """Return the only element of an input as a Python number.

    Args:
        value: A tensor of one element, of any rank.
        name: Name of the input, for the error message.

    Raises:
        InputError: The tensor does not have exactly one element.
    """
    if value.size != 1:
        raise InputError(f"{name} has shape {list(value.shape)}, expected a scalar")
    return value.reshape(-1)[0].item()


def read_axis(axis: Array, rank: int, name: str = "axis") -> int:
    """Return the axis that an input selects, as an index in [0, rank).

    Args:
        axis: Integer scalar or [1].
        rank: Rank of the tensor.
        name: Name of the input, for the error message.

    Raises:
        InputError: `axis` has several elements or is out of range.
    """
    if axis.ndim > 1:
        raise InputError(f"{name} has shape {list(axis.shape)}, expected a scalar or [1]")
    return normalize_axis(int(to_scalar(axis, name)), rank, name)


def apply_auto_broadcast(
    a: Array, b: Array, auto_broadcast: AutoBroadcast = "numpy", axis: int = -1
) -> tuple[Array, Array]:
    """Reshape `a` and `b` so that NumPy's broadcasting implements `auto_broadcast`.

    Args:
        a: Any type, any shape.
        b: Any type. "none" requires the shape of `a`, "numpy" a shape that broadcasts with it, "pdpd" a shape that
            matches the dimensions of `a` from `axis` on, apart from trailing dimensions of 1.
        auto_broadcast: The broadcasting rule.
        axis: First dimension of `a` that "pdpd" matches with `b`. -1 aligns the last dimensions. The
            specification's default is -1, but OpenVINO uses 0 for files that omit it, and so do the kernels.

    Returns:
        Views of `a` and `b`.

    Raises:
        InputError: The shapes do not match.
    """
    if auto_broadcast == "pdpd":
        return a, b.reshape(_get_pdpd_shape(a.shape, b.shape, axis))
    if a.shape == b.shape:
        return a, b
    if auto_broadcast != "numpy":
        raise InputError(f"shapes {list(a.shape)} and {list(b.shape)} differ, but auto_broadcast is {auto_broadcast}")
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise InputError(f"shapes {list(a.shape)} and {list(b.shape)} cannot be broadcast") from None
    return a, b


def _get_pdpd_shape(a: Sequence[int], b: Sequence[int], axis: int) -> tuple[int, ...]:
    start = len(a) - len(b) if axis == -1 else axis
    kept = list(b)
    while kept and start + len(kept) > len(a) and kept[-1] == 1:
        kept.pop()
    if start < 0 or start + len(kept) > len(a):
        raise InputError(f"shape {list(b)} does not fit into {list(a)} at axis {axis}")
    shape = (*kept, *[1] * (len(a) - start - len(kept)))
    for actual, expected in zip(shape, a[start:], strict=True):
        if actual not in (1, expected):
            raise InputError(f"shape {list(b)} does not broadcast to {list(a)} at axis {axis}")
    return shape
