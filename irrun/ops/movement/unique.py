"""Finding what differs: Unique."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.axes import read_axis
from irrun.ops._support.numerics import Array, is_integer, upcast
from irrun.ops._support.registry import op

__all__ = ["unique_10"]


@op("Unique", since=10)
def unique_10(
    data: Array,
    axis: Array | None = None,
    *,
    sorted: bool = True,
    index_element_type: ElementType = ELEMENT_TYPES["i64"],
    count_element_type: ElementType = ELEMENT_TYPES["i64"],
) -> tuple[Array, Array, Array, Array]:
    """The different elements of `data`, or its different slices along `axis`.

    data: any type and shape; axis: integer, scalar or [1]; without it, the elements of data are compared.
    Returns the unique elements [n] (or data with n slices along axis), in ascending or else in their first
    order; the index of the first occurrence of each [n]; for each element of data the index of its equal
    in the first output; the number of occurrences [n]. A NaN equals nothing, not even itself.
    Raises InputError where axis is out of range.
    Spec: Unique-10.
    """
    along = None if axis is None else read_axis(axis, data.ndim)
    codes = _ranks(data)
    if along is None:
        rows = codes.reshape(-1, 1)
    else:
        rows = np.moveaxis(codes, along, 0)
        rows = rows.reshape(rows.shape[0], int(np.prod(rows.shape[1:], dtype=np.int64)))

    first, inverse, counts = _unique_rows(rows)
    if not sorted:
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, inverse, counts = first[order], place[inverse], counts[order]
    values = data.reshape(-1)[first] if along is None else np.take(data, first, axis=along)
    index_type, count_type = index_element_type.dtype, count_element_type.dtype
    return values, first.astype(index_type), inverse.astype(index_type), counts.astype(count_type)


def _ranks(data: Array) -> Array:
    """For each element a number that orders and compares like it."""
    if data.dtype.names:  # opaque types order as their bits do
        data = data[data.dtype.names[0]]
    elif data.dtype.kind == "V":
        data = data.astype(np.int64) if is_integer(data.dtype) else upcast(data)
    _, ranks = np.unique(data.reshape(-1), return_inverse=True, equal_nan=False)
    return np.reshape(ranks, data.shape)


def _unique_rows(rows: Array) -> tuple[Array, Array, Array]:
    """First index, inverse and count of the different rows of integers, in lexicographic order."""
    count = len(rows)
    # The last key is the primary one; the stable sort keeps the first of equal rows in front.
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(count)
    ordered = rows[order]
    starts = np.ones(count, np.bool_)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(count, np.int64)
    inverse[order] = np.cumsum(starts) - 1
    bounds = np.append(np.nonzero(starts)[0], count)
    return order[starts], inverse, np.diff(bounds)
