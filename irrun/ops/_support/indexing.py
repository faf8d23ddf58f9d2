"""What the data movement kernels share: blank arrays, index arithmetic, moving whole elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array

__all__ = ["allocate_blank", "check_indices", "get_fill_value", "to_indices", "wrap_negative_indices"]


def get_fill_value(dtype: np.dtype[Any]) -> Any:
    """What stands where there is no data: zero, or the empty string."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)


def allocate_blank(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A new array of zeros, or of empty strings."""
    if dtype.kind == "O":
        return np.full(tuple(shape), "", dtype)
    return np.zeros(tuple(shape), dtype)


def to_indices(indices: Array) -> Array:
    """`indices` of any integer type in i64; what i64 cannot hold becomes its largest value."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def wrap_negative_indices(indices: Array, size: int) -> Array:
    """`indices` in i64, negative ones counted from the end of an axis of `size` elements."""
    index = to_indices(indices)
    return np.where(index < 0, index + size, index)


def check_indices(indices: Array, size: int, *, negative: bool = True) -> Array:
    """`indices` in i64 counted from the front of an axis of `size` elements.

    Raises:
        InputError: one is out of range, or below 0 where `negative` is false.
    """
    index = wrap_negative_indices(indices, size) if negative else to_indices(indices)
    wrong = (index < 0) | (index >= size)
    if wrong.any():
        value = np.asarray(indices)[wrong].reshape(-1)[0]
        raise InputError(f"index {value} is out of range of an axis of {size} elements")
    return index
