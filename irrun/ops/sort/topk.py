"""TopK."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.blocks import iterate_blocks
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["topk_1", "topk_11"]

Mode = Literal["min", "max"]
Sort = Literal["none", "value", "index"]

_top_k = partial(
    op,
    "TopK",
    scratch=5.25,
    kind="selection",
    shape="infer_top_k",
    shaped_by=(1,),
    output_types=(0, "index_element_type"),
)


@_top_k(since=1)
@_top_k(since=3)
@compute_in_float32
def topk_1(
    data: Array,
    k: Array,
    *,
    axis: int,
    mode: Mode,
    sort: Sort,
    index_element_type: ElementType = ELEMENT_TYPES["i32"],
) -> tuple[Array, Array]:
    """Find the largest or smallest elements along an axis.

    Equal elements are in order of index. NaN comes after all other elements, in both modes.

    Args:
        data: Numeric, any shape.
        k: Number of elements, integer scalar.
        axis: The axis. Negative values count from the last one.
        mode: Whether the largest or the smallest elements are selected.
        sort: The order of the result: "value" is descending for "max" and ascending for "min", "index" is
            ascending, "none" is the same as "value".
        index_element_type: Element type of the second output.

    Returns:
        The elements in the type of `data`, and their indices along `axis`. Both have the shape of `data`, with the
        dimension `axis` replaced by `k`.

    Raises:
        InputError: `axis` or `k` is out of range.

    Spec:
        TopK-1, TopK-3
    """
    axis = normalize_axis(axis, data.ndim)
    count = int(to_scalar(k, "k"))
    if not 0 <= count <= data.shape[axis]:
        raise InputError(f"k is {count}, expected [0, {data.shape[axis]}] for axis {axis} of {list(data.shape)}")
    rows = np.moveaxis(data, axis, -1)
    flat = rows.reshape(-1, rows.shape[-1]) if rows.size else rows
    indices = np.empty((*rows.shape[:-1], count), np.int64)
    flat_indices = indices.reshape(-1, count) if indices.size else indices
    if indices.size:
        for block in iterate_blocks(len(flat), flat.shape[1]):
            flat_indices[block] = _find_smallest(_to_ascending_keys(flat[block], mode), count)
    if sort == "index":
        indices.sort(axis=-1)
    values = np.take_along_axis(rows, indices, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis).astype(index_element_type.dtype)


@_top_k(since=11)
@describes_like(topk_1)
def topk_11(
    data: Array,
    k: Array,
    *,
    axis: int,
    mode: Mode,
    sort: Sort,
    index_element_type: ElementType = ELEMENT_TYPES["i32"],
    stable: bool = False,
) -> tuple[Array, Array]:
    """Find the largest or smallest elements along an axis, exactly as TopK-3, which is always stable.

    Args:
        sort: The order of the result; see TopK-3.
        stable: Whether equal elements are in order of index. Ignored: they always are.

    Returns:
        The outputs of TopK-3.

    Spec:
        TopK-11
    """
    return topk_1(data, k, axis=axis, mode=mode, sort=sort, index_element_type=index_element_type)


def _to_ascending_keys(rows: Array, mode: Mode) -> Array:
    """Return keys whose stable ascending order is the order of `mode`."""
    if rows.dtype.kind == "f":
        return -rows if mode == "max" else rows
    keys = rows if rows.dtype.kind in "iub" else rows.astype(np.int8)  # sub-byte integers
    return ~keys if mode == "max" else keys


def _find_smallest(keys: Array, count: int) -> Array:
    """Return the indices of the `count` smallest keys of each row [rows, length] in stable ascending order."""
    length = keys.shape[-1]
    has_nan = keys.dtype.kind == "f" and bool(np.isnan(keys).any())
    if count == 1 and not has_nan:
        return np.asarray(np.argmin(keys, axis=-1, keepdims=True))
    if 8 * count > length or count == 0 or has_nan:
        return np.argsort(keys, axis=-1, kind="stable")[..., :count]
    # A full sort is slower: select the keys below the count-th smallest, and the first keys equal to it.
    limit = np.partition(keys, count - 1, axis=-1)[..., count - 1 : count]
    is_selected = keys < limit
    tie_counts = count - np.count_nonzero(is_selected, axis=-1)
    row, column = np.nonzero(keys == limit)
    rank = np.arange(len(row)) - np.searchsorted(row, row)  # among the ties of the row
    is_first = rank < tie_counts[row]
    is_selected[row[is_first], column[is_first]] = True
    indices = np.nonzero(is_selected)[-1].reshape(*keys.shape[:-1], count)
    order = np.argsort(np.take_along_axis(keys, indices, -1), axis=-1, kind="stable")
    return np.take_along_axis(indices, order, -1)
