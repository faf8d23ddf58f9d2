"""OneHot."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["one_hot_1", "one_hot_16"]


@op("OneHot", since=1)
def one_hot_1(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int) -> Array:
    """A new axis of length `depth`, where on_value marks the place that each index names.

    indices: integer, any shape; depth: integer scalar; on_value, off_value: scalars of any one type.
    Returns shape indices.shape with `depth` inserted at `axis`, the type of on_value; a row whose index is
    outside [0, depth) is off_value throughout.
    Raises InputError where depth is negative or axis is out of range.
    Spec: OneHot-1.
    """
    return one_hot_16(indices, depth, on_value, off_value, axis=axis)


@op("OneHot", since=16)
def one_hot_16(
    indices: Array,
    depth: Array,
    on_value: Array,
    off_value: Array,
    *,
    axis: int,
    negative_indices_mode: Literal["ignore_negative", "ignore-negative", "normalize"] = "ignore_negative",
) -> Array:
    """A new axis of length `depth`, where on_value marks the place that each index names.

    indices: integer, any shape; depth: integer scalar; on_value, off_value: scalars of any one type.
    With negative_indices_mode "normalize" negative indices count from the end.
    Returns shape indices.shape with `depth` inserted at `axis`, the type of on_value; a row whose index names
    no place is off_value throughout.
    Raises InputError where depth is negative or axis is out of range.
    Spec: OneHot-16.
    """
    length = int(to_scalar(depth, "depth"))
    if length < 0:
        raise InputError(f"depth is {length}, expected no negative number")
    axis = normalize_axis(axis, indices.ndim + 1)
    for name, value in (("on_value", on_value), ("off_value", off_value)):
        if value.size != 1:
            raise InputError(f"{name} has shape {list(value.shape)}, expected a scalar")
    check_allocation((*indices.shape, length), on_value.dtype)
    places = indices.astype(np.int64)
    if negative_indices_mode == "normalize":
        places = np.where(places < 0, places + length, places)
    places = places.reshape(-1)
    result = np.empty((places.size, length), on_value.dtype)
    result[...] = off_value.reshape(())
    (named,) = np.nonzero((places >= 0) & (places < length))
    result[named, places[named]] = on_value.reshape(())
    return np.moveaxis(result.reshape(*indices.shape, length), -1, axis)
