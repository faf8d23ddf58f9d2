"""SearchSorted."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.numerics import Array, is_float, upcast
from irrun.ops._support.registry import op

__all__ = ["search_sorted_15"]


@op("SearchSorted", since=15)
def search_sorted_15(
    sorted_sequence: Array,
    values: Array,
    *,
    right_mode: bool = False,
    output_type: ElementType = ELEMENT_TYPES["i64"],
) -> Array:
    """Where each value would have to be inserted, so that its row of sorted_sequence stays sorted.

    sorted_sequence: any numeric type, [..., n], or [n] for all values; values: the same type, [..., m].
    Returns the number of elements below each value, or with right_mode not above it, in output_type, the
    shape of values.
    Raises InputError where the leading dimensions differ.
    The bisection is that of the reference, so that unsorted rows and NaN give the same result.
    Spec: SearchSorted-15.
    """
    if sorted_sequence.ndim == 0 or (sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]):
        raise InputError(
            f"sorted_sequence has shape {list(sorted_sequence.shape)} and values {list(values.shape)}, "
            "expected the same dimensions but the last, or a sorted_sequence of rank 1"
        )
    wanted, sought = _comparable(sorted_sequence), _comparable(values)
    low = np.zeros(values.shape, np.int64)
    count = np.full(values.shape, sorted_sequence.shape[-1])
    while count.any():  # bisects for all values at once; about log2(n) rounds
        half = count // 2
        middle = np.minimum(low + half, sorted_sequence.shape[-1] - 1)
        met = wanted[middle] if wanted.ndim == 1 else np.take_along_axis(wanted, middle, -1)
        right = (count > 0) & (met <= sought if right_mode else met < sought)
        low = np.where(right, low + half + 1, low)
        count = np.where(right, count - half - 1, half)
    return low.astype(output_type.dtype)


def _comparable(x: Array) -> Array:
    return upcast(x) if is_float(x.dtype) or x.dtype.kind in "iub" else x.astype(np.int8)
