"""SearchSorted."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import check_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["search_sorted_15"]


@op("SearchSorted", since=15, scratch=7.5, kind="selection", shape="infer_search_sorted")
@compute_in_float32
def search_sorted_15(
    sorted_sequence: Array,
    values: Array,
    *,
    right_mode: bool = False,
    output_type: ElementType = ELEMENT_TYPES["i64"],
) -> Array:
    """Find the indices at which values are inserted into sorted rows to keep the rows sorted.

    The bisection follows the reference implementation, so that unsorted rows and NaN give the same result.

    Args:
        sorted_sequence: Numeric, shape [..., n], or [n] for all values.
        values: The type of `sorted_sequence`, shape [..., m].
        right_mode: Whether a value is inserted after equal elements instead of before them.
        output_type: Element type of the result.

    Returns:
        The shape of `values`, the type `output_type`: the number of elements that are less than each value, or less
        than or equal to it if `right_mode` is true.

    Raises:
        InputError: The leading dimensions differ.

    Spec:
        SearchSorted-15
    """
    if sorted_sequence.ndim == 0 or (sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]):
        raise InputError(
            f"sorted_sequence has shape {list(sorted_sequence.shape)} and values {list(values.shape)}, "
            "expected the same dimensions except for the last, or a sorted_sequence of rank 1"
        )
    elements, targets = _to_comparable(sorted_sequence), _to_comparable(values)
    low = np.zeros(values.shape, np.int64)
    count = np.full(values.shape, sorted_sequence.shape[-1])
    while count.any():  # bisects for all values at once, in about log2(n) iterations
        check_time()
        half = count // 2
        middle = np.minimum(low + half, sorted_sequence.shape[-1] - 1)
        element = elements[middle] if elements.ndim == 1 else np.take_along_axis(elements, middle, -1)
        goes_right = (count > 0) & (element <= targets if right_mode else element < targets)
        low = np.where(goes_right, low + half + 1, low)
        count = np.where(goes_right, count - half - 1, half)
    return low.astype(output_type.dtype)


def _to_comparable(x: Array) -> Array:
    """Convert sub-byte integers to i8, which NumPy can compare; return others unchanged."""
    return x if x.dtype.kind in "fiub" else x.astype(np.int8)
