"""Repeating data: Broadcast, Tile."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["broadcast_1", "broadcast_3", "tile_1"]


@op("Broadcast", since=1, folding="linear")
def broadcast_1(
    data: Array,
    target_shape: Array,
    axes_mapping: Array | None = None,
    *,
    mode: Literal["numpy", "explicit", "pdpd", "none"] = "numpy",
    axis: int = 0,
) -> Array:
    """`data` repeated to fill `target_shape`.

    data: any type and shape; target_shape: integer [n]; axes_mapping: integer [rank of data], for mode
    "explicit" only: which axis of the result each axis of data is.
    Returns the type of data, a view.
    Raises InputError where data does not fit the target.
    Spec: Broadcast-1.
    """
    return _broadcast(data, to_int_list(target_shape), axes_mapping, mode, axis)


@op("Broadcast", since=3, folding="linear")
def broadcast_3(
    data: Array,
    target_shape: Array,
    axes_mapping: Array | None = None,
    *,
    mode: Literal["numpy", "explicit", "bidirectional", "pdpd", "none"] = "numpy",
    axis: int = 0,
) -> Array:
    """`data` repeated to fill `target_shape`, or in mode "bidirectional" the two broadcast to each other.

    data: any type and shape; target_shape: integer [n]; axes_mapping: integer [rank of data], for mode
    "explicit" only: which axis of the result each axis of data is.
    Returns the type of data, a view.
    Raises InputError where data does not fit the target.
    Spec: Broadcast-3.
    """
    target = to_int_list(target_shape)
    if mode == "bidirectional":
        try:
            target = list(np.broadcast_shapes(data.shape, tuple(target)))
        except ValueError:
            raise _misfit(data, target) from None
    return _broadcast(data, target, axes_mapping, mode, axis)


def _broadcast(data: Array, target: list[int], axes_mapping: Array | None, mode: str, axis: int) -> Array:
    if min(target, default=0) < 0:
        raise InputError(f"target_shape {target} holds a negative size")
    if mode in ("explicit", "none"):
        data = data.reshape(_spread(data, target, axes_mapping))
    elif mode == "pdpd":
        data = data.reshape(_placed(data, target, axis))
    check_allocation(target, data.dtype)
    try:
        return np.broadcast_to(data, tuple(target))
    except ValueError:
        raise _misfit(data, target) from None


def _spread(data: Array, target: list[int], axes_mapping: Array | None) -> list[int]:
    """The shape of `data` with ones put in, so that its axes are those that `axes_mapping` names."""
    if axes_mapping is None:
        raise InputError("mode 'explicit' needs the input axes_mapping")
    axes = to_int_list(axes_mapping)
    if data.ndim == 0 and len(axes) == 1:  # the reference implementation takes a scalar for a vector of one
        axes = []
    if len(axes) != data.ndim or axes != sorted(set(axes)) or any(not 0 <= a < len(target) for a in axes):
        raise InputError(
            f"axes_mapping {axes} does not map data of shape {list(data.shape)} to {target}:"
            " expected one axis of the target for each of data, in ascending order"
        )
    shape = [1] * len(target)
    for a, size in zip(axes, data.shape, strict=True):
        shape[a] = size
    return shape


def _placed(data: Array, target: list[int], axis: int) -> list[int]:
    """The shape of `data` with ones around it, so that it begins at `axis` of the target."""
    start = len(target) - data.ndim if axis == -1 else axis
    after = len(target) - start - data.ndim
    if start < 0 or after < 0:
        raise _misfit(data, target)
    return [1] * start + list(data.shape) + [1] * after


def _misfit(data: Array, target: list[int]) -> InputError:
    return InputError(f"data of shape {list(data.shape)} does not broadcast to {target}")


@op("Tile", since=1, folding="linear")
def tile_1(data: Array, repeats: Array) -> Array:
    """`data` repeated as a whole along each axis.

    data: any type and shape; repeats: integer [n]; the shorter of data's shape and repeats is filled with
    ones at the front.
    Returns the type of data. A negative number of repeats counts as 0, as in the reference implementation.
    Spec: Tile-1.
    """
    times = [max(0, n) for n in to_int_list(repeats)]
    rank = max(data.ndim, len(times))
    times = [1] * (rank - len(times)) + times
    sizes = [1] * (rank - data.ndim) + list(data.shape)
    pairs = list(zip(times, sizes, strict=True))
    shape = [n * size for n, size in pairs]
    check_allocation(shape, data.dtype)
    if math.prod(times) == 1:
        return data.reshape(shape)
    spread = data.reshape([d for size in sizes for d in (1, size)])
    return np.broadcast_to(spread, [d for pair in pairs for d in pair]).reshape(shape)
