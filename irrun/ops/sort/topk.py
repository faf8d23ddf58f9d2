"""TopK."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.numerics import Array, is_float, upcast
from irrun.ops._support.registry import op

__all__ = ["topk_1", "topk_11"]

Mode = Literal["min", "max"]
Sort = Literal["none", "value", "index"]


@op("TopK", since=1)
@op("TopK", since=3)
def topk_1(
    data: Array,
    k: Array,
    *,
    axis: int,
    mode: Mode,
    sort: Sort,
    index_element_type: ElementType = ELEMENT_TYPES["i32"],
) -> tuple[Array, Array]:
    """The `k` largest or smallest elements along `axis`.

    data: any numeric type and shape; k: integer scalar.
    Returns the elements in the type of data, and where they lie along `axis` in index_element_type. Of equal
    elements the one with the lower index comes first. With sort "none" they come in the order of "value".
    Raises InputError where axis or k does not fit data.
    NaN comes behind everything else, in both modes.
    Spec: TopK-1, TopK-3.
    """
    axis = normalize_axis(axis, data.ndim)
    count = int(to_scalar(k, "k"))
    if count < 0:
        raise InputError(f"k is {count}, expected no negative number")
    if count > data.shape[axis]:
        raise InputError(f"k is {count}, more than the {data.shape[axis]} elements along axis {axis}")
    rows = np.moveaxis(data, axis, -1)
    indices = _first(_ascending_keys(rows, mode), count)
    if sort == "index":
        indices.sort(axis=-1)
    values = np.take_along_axis(rows, indices, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis).astype(index_element_type.dtype)


@op("TopK", since=11)
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
    """The `k` largest or smallest elements along `axis`, equal ones in order where `stable` asks for it.

    data: any numeric type and shape; k: integer scalar.
    Returns and raises what TopK-3 does, whose order is stable anyway.
    Spec: TopK-11.
    """
    return topk_1(data, k, axis=axis, mode=mode, sort=sort, index_element_type=index_element_type)


def _ascending_keys(rows: Array, mode: Mode) -> Array:
    """Values whose ascending order, equal ones by index, is the order that `mode` asks for."""
    if is_float(rows.dtype):
        keys = upcast(rows)
        return -keys if mode == "max" else keys
    keys = rows if rows.dtype.kind in "iub" else rows.astype(np.int8)
    return ~keys if mode == "max" else keys


def _first(keys: Array, count: int) -> Array:
    """Indices of the `count` least of each row, least first, equal ones by index."""
    length = keys.shape[-1]
    has_nan = keys.dtype.kind == "f" and bool(np.isnan(keys).any())
    if count == 1 and not has_nan:
        return np.asarray(np.argmin(keys, axis=-1, keepdims=True))
    if 8 * count > length or count == 0 or has_nan:
        return np.argsort(keys, axis=-1, kind="stable")[..., :count]
    # Without a full sort: everything below the count-th least, then as many of its equals as are missing.
    limit = np.partition(keys, count - 1, axis=-1)[..., count - 1 : count]
    below, ties = keys < limit, keys == limit
    missing = count - below.sum(axis=-1, keepdims=True)
    chosen = below | (ties & (ties.cumsum(axis=-1) <= missing))
    indices = np.nonzero(chosen)[-1].reshape(*keys.shape[:-1], count)
    order = np.argsort(np.take_along_axis(keys, indices, -1), axis=-1, kind="stable")
    return np.take_along_axis(indices, order, -1)
