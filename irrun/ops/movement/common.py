"""What the data movement kernels share: blank arrays, index arithmetic, moving whole elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ops.common import Array, is_narrow, normalize_axis, scalar, widen

__all__ = ["as_index", "axis_value", "blank", "fill_value", "from_end", "inside", "wide"]


def fill_value(dtype: np.dtype[Any]) -> Any:
    """What stands where there is no data: zero, or the empty string."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)


def blank(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A new array of zeros, or of empty strings."""
    if dtype.kind == "O":
        return np.full(tuple(shape), "", dtype)
    return np.zeros(tuple(shape), dtype)


def as_index(indices: Array) -> Array:
    """`indices` of any integer type in i64; what i64 cannot hold becomes its largest value."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def from_end(indices: Array, size: int) -> Array:
    """`indices` in i64, negative ones counted from the end of an axis of `size` elements."""
    index = as_index(indices)
    return np.where(index < 0, index + size, index)


def inside(indices: Array, size: int, *, negative: bool = True) -> Array:
    """`indices` in i64 counted from the front of an axis of `size` elements.

    Raises:
        InputError: one is out of range, or below 0 where `negative` is false.
    """
    index = from_end(indices, size) if negative else as_index(indices)
    wrong = (index < 0) | (index >= size)
    if wrong.any():
        value = np.asarray(indices)[wrong].reshape(-1)[0]
        raise InputError(f"index {value} is out of range of an axis of {size} elements")
    return index


def wide(x: Array) -> Array:
    """`x` in a type to add up in: f32 for narrow floats, i64 for integers below a byte, else `x` itself."""
    if is_narrow(x.dtype):
        return widen(x)
    return x.astype(np.int64) if x.dtype.kind == "V" else x


def axis_value(axis: Array, rank: int, name: str = "axis") -> int:
    """The axis that a run-time scalar (or a tensor of one element) names, counted from the front.

    Raises:
        InputError: it has several elements, or is out of range.
    """
    if axis.ndim > 1:
        raise InputError(f"{name} has shape {list(axis.shape)}, expected a scalar or [1]")
    return normalize_axis(int(scalar(axis, name)), rank, name)
