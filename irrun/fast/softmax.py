"""Exponentials and sums of rows, the common part of Softmax and attention."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from irrun.fast.support import Array, freeze

__all__ = ["MAX_PRODUCT_LENGTH", "exponentiate_rows", "sum_rows"]

#: Exponents of at most this magnitude need not be shifted: sums of their exponentials are far from overflow.
MAX_EXPONENT = 32.0
#: If unshifted exponentials of a row have at least this sum, underflow does not matter in f32: lost values are below
#: 1e-38.
MIN_SUM = 1e-18
#: Rows of at most this length are summed up by products in f32; NumPy's sums of longer ones are more precise.
MAX_PRODUCT_LENGTH = 4096


@functools.lru_cache(maxsize=64)
def _get_ones(length: int) -> Array:
    return freeze(np.ones((length, 1), np.float32))


def sum_rows(x: Array) -> Array:
    """Return the sums of the rows of a matrix, shape [M, 1]; a product with a vector of ones is faster than a sum."""
    total: Array
    if x.shape[1] <= MAX_PRODUCT_LENGTH:
        total = x.dot(_get_ones(x.shape[1]))
    else:
        total = np.add.reduce(x, axis=1, keepdims=True)
    return total


def exponentiate_rows(x: Array, out: Array) -> Array:
    """Compute exponentials of rows up to a factor for each row, and return their sums.

    The maximum of each row is subtracted only if exponentials would overflow, or if all of a row would underflow.

    Args:
        x: f32, shape [M, N], not empty.
        out: f32, shape [M, N], not overlapping `x`.

    Returns:
        The sums of the rows of `out`, shape [M, 1].
    """
    if abs(x.max()) <= MAX_EXPONENT:  # False for NaN
        np.exp(x, out)
        total = sum_rows(out)
        if total.min() >= MIN_SUM:
            return total
    find_max: Any = np.maximum.reduce
    np.subtract(x, find_max(x, axis=1, keepdims=True), out)
    np.exp(out, out)
    return sum_rows(out)
