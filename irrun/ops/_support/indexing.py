"""Indices and default-filled arrays for the kernels that move data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array, cast_to_integers, is_float, upcast

__all__ = ["allocate_zeros", "get_fill_value", "normalize_indices", "to_int64_indices", "wrap_negative_indices"]


def get_fill_value(dtype: np.dtype[Any]) -> Any:
    """Return the value of padding and of missing elements: zero, or the empty string."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)


def allocate_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return a new array of zeros, or of empty strings."""
    if dtype.kind == "O":
        return np.full(tuple(shape), "", dtype)
    return np.zeros(tuple(shape), dtype)


def to_int64_indices(indices: Array) -> Array:
    """Return indices in i64. Integers that i64 cannot hold become its largest value, and floats its smallest one."""
    if is_float(indices.dtype):
        return cast_to_integers(upcast(indices), np.dtype(np.int64))
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def wrap_negative_indices(indices: Array, size: int) -> Array:
    """Return indices in i64, with `size` added to negative ones. They may be out of range."""
    index = to_int64_indices(indices)
    return np.where(index < 0, index + size, index)


def normalize_indices(indices: Array, size: int, *, allow_negative: bool = True) -> Array:
    """Return indices in i64, in [0, size).

    Args:
        indices: Integer, any shape.
        size: Size of the axis that they address.
        allow_negative: Whether negative values count from the end. They are out of range otherwise.

    Raises:
        InputError: An index is out of range.
    """
    index = wrap_negative_indices(indices, size) if allow_negative else to_int64_indices(indices)
    outside = (index < 0) | (index >= size)
    if outside.any():
        value = np.asarray(indices)[outside].reshape(-1)[0]
        raise InputError(f"index {value} is out of range for an axis of size {size}")
    return index
