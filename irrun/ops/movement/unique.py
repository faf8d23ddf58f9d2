"""Unique: unique elements or slices of a tensor."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.axes import read_axis
from irrun.ops._support.numerics import Array, upcast_for_accumulation
from irrun.ops._support.registry import op

__all__ = ["unique_10"]

#: Columns that are sorted together. For each of them, np.lexsort allocates kilobytes.
MAX_COLUMNS = 256


@op(
    "Unique",
    since=10,
    scratch=8.5,
    kind="selection",
    shape="infer_unique",
    output_types=(0, "index_element_type", "index_element_type", "count_element_type"),
)
def unique_10(
    data: Array,
    axis: Array | None = None,
    *,
    sorted: bool = True,
    index_element_type: ElementType = ELEMENT_TYPES["i64"],
    count_element_type: ElementType = ELEMENT_TYPES["i64"],
) -> tuple[Array, Array, Array, Array]:
    """Find the unique elements of `data`, or its unique slices along `axis`.

    NaN is not equal to anything, including itself.

    Args:
        data: Any type, any shape.
        axis: Integer scalar or [1]. If omitted, elements are compared.
        sorted: Whether the unique elements are in ascending order. Otherwise they are in the order of their first
            occurrence.
        index_element_type: Type of the second and third output.
        count_element_type: Type of the fourth output.

    Returns:
        Four tensors: the unique elements [n], or `data` with n slices along `axis`; the index of the first occurrence
        of each, [n]; for each element or slice of `data` its index in the first output; and the number of occurrences
        of each, [n].

    Raises:
        InputError: `axis` is out of range.

    Spec:
        Unique-10
    """
    unique_axis = None if axis is None else read_axis(axis, data.ndim)
    if unique_axis is None:
        first, inverse, counts = _find_unique(_to_comparable(data).reshape(-1, 1))
    else:
        rows = np.moveaxis(_rank_elements(data), unique_axis, 0)
        rows = rows.reshape(rows.shape[0], int(np.prod(rows.shape[1:], dtype=np.int64)))
        first, inverse, counts = _find_unique(_join_columns(rows))
    if not sorted:
        order = np.argsort(first, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        first, inverse, counts = first[order], position[inverse], counts[order]
    values = data.reshape(-1)[first] if unique_axis is None else np.take(data, first, axis=unique_axis)
    index_type, count_type = index_element_type.dtype, count_element_type.dtype
    return values, first.astype(index_type), inverse.astype(index_type), counts.astype(count_type)


def _to_comparable(data: Array) -> Array:
    """Return the elements in a type that NumPy sorts. Types without arithmetic are ordered by their bits."""
    return data[data.dtype.names[0]] if data.dtype.names else upcast_for_accumulation(data)


def _rank_elements(data: Array) -> Array:
    """Return an integer for each element, in the order of the elements and equal for equal elements."""
    _, ranks = np.unique(_to_comparable(data).reshape(-1), return_inverse=True, equal_nan=False)
    return np.reshape(ranks, data.shape)


def _join_columns(rows: Array) -> Array:
    """Return rows of few integers in the same order, equal for equal rows: ranks of parts of the rows."""
    while rows.shape[1] > MAX_COLUMNS:
        starts = within_time(range(0, rows.shape[1], MAX_COLUMNS))
        rows = np.stack([_find_unique(rows[:, start : start + MAX_COLUMNS])[1] for start in starts], axis=1)
    return rows


def _find_unique(rows: Array) -> tuple[Array, Array, Array]:
    """Return the first index, the inverse and the count of the unique rows, in lexicographic order."""
    count = len(rows)
    # np.lexsort sorts by the last key first. It is stable, so the first of several equal rows stays in front.
    if rows.shape[1] == 1:
        order = np.argsort(rows[:, 0], kind="stable")
    else:
        order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(count)
    ordered = rows[order]
    is_first = np.ones(count, np.bool_)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(count, np.int64)
    inverse[order] = np.cumsum(is_first) - 1
    bounds = np.append(np.nonzero(is_first)[0], count)
    return order[is_first], inverse, np.diff(bounds)
