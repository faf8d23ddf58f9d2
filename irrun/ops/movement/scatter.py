"""Operations that write elements by index: ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate, SliceScatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import read_axis
from irrun.ops._support.flops import Call
from irrun.ops._support.indexing import normalize_indices
from irrun.ops._support.numerics import Array, is_float, is_integer, upcast_for_accumulation
from irrun.ops._support.registry import op
from irrun.ops._support.slicing import create_slices

__all__ = ["scatter_elements_update_3", "scatter_nd_update_4", "scatter_update_3", "slice_scatter_15"]


@op("ScatterUpdate", since=3, kind="movement", shape="infer_scatter", shaped_by=(), flops=0)
def scatter_update_3(data: Array, indices: Array, updates: Array, axis: Array) -> Array:
    """Replace slices of `data` along `axis`.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, any shape, in [0, size of axis). If an index occurs several times, its last slice is used.
        updates: The type of `data`, shape data.shape[:axis] + indices.shape + data.shape[axis+1:]. Dimensions of 1
            may be added or omitted.
        axis: Integer scalar or [1], in [-rank, rank).

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An index or `axis` is out of range, or the shape of `updates` does not match.

    Spec:
        ScatterUpdate-3
    """
    update_axis = read_axis(axis, data.ndim)
    index = normalize_indices(indices, data.shape[update_axis], allow_negative=False)
    expected = data.shape[:update_axis] + index.shape + data.shape[update_axis + 1 :]
    _check_updates(updates, expected)
    result: Array = data.copy()
    np.moveaxis(result, update_axis, 0)[index] = np.moveaxis(
        updates.reshape(expected), range(update_axis, update_axis + index.ndim), range(index.ndim)
    )
    return result


def _count_flops(call: Call) -> int:
    """Count the combination of each update with the element it changes."""
    return 0 if call.attributes["reduction"] == "none" else math.prod(call.get_shape(2))


_scatter_elements = partial(
    op,
    "ScatterElementsUpdate",
    scratch=2.5,
    kind="movement",
    shape="infer_scatter_of_elements",
    shaped_by=(),
    flops=_count_flops,
)


@_scatter_elements(since=12)
@_scatter_elements(since=3)
def scatter_elements_update_3(
    data: Array,
    indices: Array,
    updates: Array,
    axis: Array,
    *,
    reduction: Literal["none", "sum", "prod", "min", "max", "mean"] = "none",
    use_init_val: bool = True,
) -> Array:
    """Write each element of `updates` at its coordinates, with the coordinate along `axis` taken from `indices`.

    Version 3 has no attributes, and its specification does not allow negative indices. The reference implementation
    treats both versions alike.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, the rank of `data`. Negative values count from the end.
        updates: The type of `data`, the shape of `indices`.
        axis: Integer scalar or [1], in [-rank, rank).
        reduction: How updates of the same element are combined. "none" uses the last one. "mean" of integers is
            rounded down. "sum" and "prod" of booleans are OR and AND.
        use_init_val: Whether the reduction includes the element of `data`.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An index or `axis` is out of range, the shapes do not match, or the reduction is undefined for the
            type ("mean" of booleans).

    Spec:
        ScatterElementsUpdate-3, ScatterElementsUpdate-12
    """
    update_axis = read_axis(axis, data.ndim)
    if indices.shape != updates.shape or indices.ndim != data.ndim:
        raise InputError(
            f"indices and updates have shapes {list(indices.shape)} and {list(updates.shape)},"
            f" expected the same shape of rank {data.ndim}"
        )
    sizes = zip(indices.shape, data.shape, strict=True)
    if any(n > size for i, (n, size) in enumerate(sizes) if i != update_axis):
        raise InputError(
            f"indices has shape {list(indices.shape)}, expected at most {list(data.shape)} except for axis"
            f" {update_axis}"
        )
    coordinates = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    coordinates[update_axis] = normalize_indices(indices, data.shape[update_axis])
    positions = _flatten_coordinates(coordinates, data.shape, indices.shape)
    result = _scatter(
        data.reshape(-1),
        positions.reshape(-1),
        updates.reshape(-1),
        reduction,
        use_init_val=use_init_val,
        nan_ignored_in="data",
    )
    return np.reshape(result, data.shape)


_scatter_slices = partial(
    op,
    "ScatterNDUpdate",
    scratch=1.5,
    kind="movement",
    shape="infer_scatter_of_slices",
    shaped_by=(),
    flops=_count_flops,
)


@_scatter_slices(since=15)
@_scatter_slices(since=4)
def scatter_nd_update_4(
    data: Array,
    indices: Array,
    updates: Array,
    *,
    reduction: Literal["none", "sum", "sub", "prod", "min", "max"] = "none",
) -> Array:
    """Write elements or slices of `updates` at the coordinates `indices`.

    The first version has no attributes, and its specification does not allow negative indices. The reference
    implementation treats both versions alike.

    Args:
        data: Any type, rank >= 1.
        indices: Integer, shape [..., k], k <= rank of data. The last axis holds coordinates. Negative values count from
            the end.
        updates: The type of `data`, shape indices.shape[:-1] + data.shape[k:]. Dimensions of 1 may be added or
            omitted.
        reduction: How `data` and updates of the same element are combined. "none" uses the last update. "sum",
            "sub" and "prod" of booleans are OR, XOR and AND.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An index is out of range, the shapes do not match, or the reduction is undefined for the type.

    Spec:
        ScatterNDUpdate-3 (it belongs to opset 4), ScatterNDUpdate-15
    """
    if indices.ndim == 0 or indices.shape[-1] > data.ndim:
        raise InputError(f"indices of shape {list(indices.shape)} do not address data of shape {list(data.shape)}")
    depth = indices.shape[-1]
    outer, inner = data.shape[:depth], data.shape[depth:]
    _check_updates(updates, indices.shape[:-1] + inner)
    coordinates = [normalize_indices(indices[..., i], size) for i, size in enumerate(outer)]
    positions = _flatten_coordinates(coordinates, outer, indices.shape[:-1])
    result = _scatter(
        data.reshape(math.prod(outer), math.prod(inner)),
        positions.reshape(-1),
        updates.reshape(positions.size, math.prod(inner)),
        reduction,
        nan_ignored_in="updates",
    )
    return np.reshape(result, data.shape)


@op("SliceScatter", since=15, kind="movement", shape="keep_shape", flops=0)
def slice_scatter_15(
    data: Array, updates: Array, start: Array, stop: Array, step: Array, axes: Array | None = None
) -> Array:
    """Replace the slice `start:stop:step` of `data` by `updates`.

    Args:
        data: Any type, rank >= 1.
        updates: The type of `data`, the shape of the slice.
        start: Integer, shape [n], the first index on each axis.
        stop: Integer, shape [n], the index after the last one on each axis.
        step: Integer, shape [n], not 0.
        axes: Integer, shape [n], the axes to slice. The first n axes if omitted.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: The inputs differ in length, a step is 0, an axis is out of range or repeated, or `updates` does
            not have the shape of the slice.

    Spec:
        SliceScatter-15
    """
    slices = create_slices(data.shape, start, stop, step, axes)
    result: Array = data.copy()
    target = result[slices]
    if target.shape != updates.shape:
        raise InputError(f"updates has shape {list(updates.shape)}, expected {list(target.shape)}")
    target[...] = updates
    return result


def _check_updates(updates: Array, expected: tuple[int, ...]) -> None:
    """Check the shape of `updates`, apart from dimensions of 1."""
    if [n for n in updates.shape if n != 1] != [n for n in expected if n != 1]:
        raise InputError(f"updates has shape {list(updates.shape)}, expected {list(expected)}")


def _flatten_coordinates(coordinates: Sequence[Array], sizes: Sequence[int], shape: Sequence[int]) -> Array:
    """Return the positions of coordinates in a flattened tensor, as an array of `shape`."""
    positions = np.zeros(shape, np.int64)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        positions = positions * size + coordinate
    return positions


_REDUCTIONS = {
    "sum": np.add,
    "mean": np.add,
    "sub": np.subtract,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
_BOOLEAN_REDUCTIONS = {
    "sum": np.logical_or,
    "sub": np.logical_xor,
    "prod": np.logical_and,
    "min": np.logical_and,
    "max": np.logical_or,
}


def _scatter(
    data: Array,
    positions: Array,
    updates: Array,
    reduction: str,
    *,
    use_init_val: bool = True,
    nan_ignored_in: Literal["data", "updates"],
) -> Array:
    """Apply `updates[i]` to `data[positions[i]]` in a copy of `data`, for all i in order.

    In minimum and maximum, NaNs in the operand `nan_ignored_in` have no effect: the reference implementations of
    ScatterElementsUpdate and ScatterNDUpdate compare in opposite orders.
    """
    if reduction == "none":
        result: Array = data.copy()
        result[positions] = updates
        return result
    reductions = _BOOLEAN_REDUCTIONS if data.dtype == np.bool_ else _REDUCTIONS
    is_numeric = data.dtype == np.bool_ or is_float(data.dtype) or is_integer(data.dtype)
    if reduction not in reductions or not is_numeric:
        raise InputError(f"reduction {reduction!r} is undefined for {data.dtype}")
    # The conversion back to the type of data rounds floats once and wraps integers.
    result, source = upcast_for_accumulation(data), upcast_for_accumulation(updates)
    if result is data:
        result = data.copy()
    identity = _get_identity(reduction, result.dtype)
    if not use_init_val:
        result[positions] = identity
    elif reduction in ("min", "max") and is_float(result.dtype):
        if nan_ignored_in == "data":
            values = result[positions]
            result[positions] = np.where(np.isnan(values), identity, values)
        else:
            source = np.where(np.isnan(source), identity, source)
    reductions[reduction].at(result, positions, source)
    if reduction == "mean":
        _divide_by_counts(result, positions, int(use_init_val))
    return result.astype(data.dtype, copy=False)


def _divide_by_counts(sums: Array, positions: Array, initial_count: int) -> None:
    """Divide sums in place by the number of their terms. Integer quotients are rounded down."""
    counts = np.bincount(positions, minlength=len(sums))
    updated = np.flatnonzero(counts)
    divide = np.true_divide if is_float(sums.dtype) else np.floor_divide
    sums[updated] = divide(sums[updated], (counts[updated] + initial_count).astype(sums.dtype))


def _get_identity(reduction: str, dtype: np.dtype[Any]) -> Any:
    """Return the value that has no effect in a reduction."""
    if reduction in ("sum", "mean", "sub"):
        return dtype.type(0)
    if reduction == "prod":
        return dtype.type(1)
    if dtype == np.bool_:
        return reduction == "min"
    if is_float(dtype):
        return dtype.type(np.inf if reduction == "min" else -np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if reduction == "min" else limits.min)
