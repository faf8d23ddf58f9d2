"""Writing elements by index: ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate, SliceScatter."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import read_axis
from irrun.ops._support.indexing import check_indices
from irrun.ops._support.numerics import Array, is_float, is_integer, upcast_for_accumulation
from irrun.ops._support.registry import op
from irrun.ops.movement.slice import slices

__all__ = ["scatter_elements_update_3", "scatter_nd_update_4", "scatter_update_3", "slice_scatter_15"]


@op("ScatterUpdate", since=3)
def scatter_update_3(data: Array, indices: Array, updates: Array, axis: Array) -> Array:
    """A copy of `data` with the slices that `indices` picks along `axis` replaced by those of `updates`.

    data: any type, rank >= 1; indices: integer, any shape, none below 0; updates: the type
    of data, `data.shape[:axis] + indices.shape + data.shape[axis+1:]`; axis: integer, scalar or [1].
    Returns the type and shape of data; of slices written twice, the last one stays.
    Raises InputError where an index or axis is out of range, or updates do not fit.
    Spec: ScatterUpdate-3.
    """
    along = read_axis(axis, data.ndim)
    index = check_indices(indices, data.shape[along], negative=False)
    expected = data.shape[:along] + index.shape + data.shape[along + 1 :]
    _check_updates(updates, expected)
    result: Array = data.copy()
    np.moveaxis(result, along, 0)[index] = np.moveaxis(
        updates.reshape(expected), range(along, along + index.ndim), range(index.ndim)
    )
    return result


@op("ScatterElementsUpdate", since=12)
@op("ScatterElementsUpdate", since=3)
def scatter_elements_update_3(
    data: Array,
    indices: Array,
    updates: Array,
    axis: Array,
    *,
    reduction: Literal["none", "sum", "prod", "min", "max", "mean"] = "none",
    use_init_val: bool = True,
) -> Array:
    """A copy of `data` where each element of `updates` goes to the place that has its own index, but for `axis`.

    data: any type, rank >= 1; indices: integer, the rank of data, negative ones from the end; updates: the
    type of data, the shape of indices; axis: integer, scalar or [1].
    Returns the type and shape of data. What meets in one place is combined by `reduction`, with the
    element of data if `use_init_val`; "none" keeps the last; the mean of integers is rounded down; sum and
    prod of booleans are OR and AND. Version 3 has no attributes, and its specification no negative indices; the
    reference implementation is one for both.
    Raises InputError where an index is out of range, shapes do not fit, or the mean of booleans is asked for.
    Spec: ScatterElementsUpdate-3, ScatterElementsUpdate-12.
    """
    along = read_axis(axis, data.ndim)
    if indices.shape != updates.shape or indices.ndim != data.ndim:
        raise InputError(
            f"indices and updates have shapes {list(indices.shape)} and {list(updates.shape)},"
            f" expected the same, of rank {data.ndim}"
        )
    if any(n > size for i, (n, size) in enumerate(zip(indices.shape, data.shape, strict=True)) if i != along):
        raise InputError(f"indices of shape {list(indices.shape)} go beyond data {list(data.shape)} off axis {along}")
    coordinates = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    coordinates[along] = check_indices(indices, data.shape[along])
    places = np.zeros(indices.shape, np.int64)
    for coordinate, size in zip(coordinates, data.shape, strict=True):
        places = places * size + coordinate
    result: Array = _scatter(
        data.reshape(-1),
        places.reshape(-1),
        updates.reshape(-1),
        reduction,
        use_init_val=use_init_val,
        nan_loses="data",
    )
    return np.reshape(result, data.shape)


@op("ScatterNDUpdate", since=15)
@op("ScatterNDUpdate", since=4)
def scatter_nd_update_4(
    data: Array,
    indices: Array,
    updates: Array,
    *,
    reduction: Literal["none", "sum", "sub", "prod", "min", "max"] = "none",
) -> Array:
    """A copy of `data` with the elements or slices at the coordinates `indices` changed by `updates`.

    data: any type, rank >= 1; indices: integer [..., k], k <= rank of data, negative ones from the end;
    updates: the type of data, `indices.shape[:-1] + data.shape[k:]`.
    Returns the type and shape of data. What meets in one place is combined by `reduction`; "none" keeps the
    last; sum, sub and prod of booleans are OR, XOR and AND. The first version has no attributes, and its
    specification no negative indices; the reference implementation is one for both.
    Raises InputError where an index is out of range or shapes do not fit.
    Spec: ScatterNDUpdate-3 (the opset it comes with is 4), ScatterNDUpdate-15.
    """
    if indices.ndim == 0 or indices.shape[-1] > data.ndim:
        raise InputError(f"indices of shape {list(indices.shape)} do not address data {list(data.shape)}")
    k = indices.shape[-1]
    outer, inner = data.shape[:k], data.shape[k:]
    expected = indices.shape[:-1] + inner
    _check_updates(updates, expected)
    places = np.zeros(indices.shape[:-1], np.int64)
    for i, size in enumerate(outer):
        places = places * size + check_indices(indices[..., i], size)
    rows = data.reshape(math.prod(outer), math.prod(inner))
    result: Array = _scatter(
        rows, places.reshape(-1), updates.reshape(places.size, math.prod(inner)), reduction, nan_loses="updates"
    )
    return np.reshape(result, data.shape)


@op("SliceScatter", since=15)
def slice_scatter_15(
    data: Array, updates: Array, start: Array, stop: Array, step: Array, axes: Array | None = None
) -> Array:
    """A copy of `data` with `data[start:stop:step]` on the given axes replaced by `updates`.

    data: any type, rank >= 1; updates: the type of data, the shape of the slice; start, stop, step:
    integer [n]; axes: integer [n], 0 to n-1 when left out.
    Returns the type and shape of data.
    Raises InputError where the lists differ in length, a step is 0, axes are out of range or repeated, or
    updates do not have the shape of the slice.
    Spec: SliceScatter-15.
    """
    chosen = slices(data.shape, start, stop, step, axes)
    result: Array = data.copy()
    target = result[chosen]
    if target.shape != updates.shape:
        raise InputError(f"updates have shape {list(updates.shape)}, expected {list(target.shape)}")
    target[...] = updates
    return result


def _check_updates(updates: Array, expected: tuple[int, ...]) -> None:
    """Raise InputError where updates do not have the shape expected; dimensions of 1 may come or go."""
    if [n for n in updates.shape if n != 1] != [n for n in expected if n != 1]:
        raise InputError(f"updates have shape {list(updates.shape)}, expected {list(expected)}")


_UFUNCS = {
    "sum": np.add,
    "mean": np.add,
    "sub": np.subtract,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
_OF_BOOLEANS = {
    "sum": np.logical_or,
    "sub": np.logical_xor,
    "prod": np.logical_and,
    "min": np.logical_and,
    "max": np.logical_or,
}


def _scatter(
    data: Array,
    places: Array,
    updates: Array,
    reduction: str,
    *,
    use_init_val: bool = True,
    nan_loses: Literal["data", "updates"],
) -> Array:
    """A copy of `data` with `updates[i]` applied to `data[places[i]]`, for all i in order.

    `nan_loses` says where a NaN is without effect on minimum and maximum: the reference implementation
    compares the two the other way round in ScatterElementsUpdate than in ScatterNDUpdate.
    """
    if reduction == "none":
        result: Array = data.copy()
        result[places] = updates
        return result
    table = _OF_BOOLEANS if data.dtype == np.bool_ else _UFUNCS
    numeric = data.dtype == np.bool_ or is_float(data.dtype) or is_integer(data.dtype)
    if reduction not in table or not numeric:
        raise InputError(f"reduction {reduction!r} is not defined for {data.dtype}")
    # Narrow types are combined in wider ones; going back rounds floats once and wraps integers.
    result, source = upcast_for_accumulation(data), upcast_for_accumulation(updates)
    if result is data:
        result = data.copy()
    if not use_init_val:
        result[places] = _neutral(reduction, result.dtype)
    elif reduction in ("min", "max") and result.dtype.kind == "f":
        neutral = _neutral(reduction, result.dtype)
        if nan_loses == "data":
            touched = result[places]
            result[places] = np.where(np.isnan(touched), neutral, touched)
        else:
            source = np.where(np.isnan(source), neutral, source)
    table[reduction].at(result, places, source)
    if reduction == "mean":
        counts = np.bincount(places, minlength=len(data))
        hit = np.flatnonzero(counts)
        divide = np.true_divide if result.dtype.kind == "f" else np.floor_divide
        result[hit] = divide(result[hit], (counts[hit] + use_init_val).astype(result.dtype))
    return result.astype(data.dtype, copy=False)


def _neutral(reduction: str, dtype: np.dtype[Any]) -> Any:
    if reduction in ("sum", "mean", "sub"):
        return dtype.type(0)
    if reduction == "prod":
        return dtype.type(1)
    if dtype == np.bool_:
        return reduction == "min"
    if dtype.kind == "f":
        return dtype.type(np.inf if reduction == "min" else -np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if reduction == "min" else limits.min)
