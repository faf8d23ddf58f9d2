"""Broadcast."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list, to_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

__all__ = ["broadcast_1", "broadcast_3"]


@op("Broadcast", since=1, kind="view", shape="infer_broadcast", shaped_by=(1, 2), folding="linear", flops=0)
def broadcast_1(
    data: Array,
    target_shape: Array,
    axes_mapping: Array | None = None,
    *,
    mode: Literal["numpy", "explicit", "pdpd", "none"] = "numpy",
    axis: int = 0,
) -> Array:
    """Broadcast `data` to `target_shape`.

    Args:
        data: Any type, any shape.
        target_shape: Integer, shape [n].
        axes_mapping: Integer, shape [rank of data], for mode "explicit" only: the axis of the result that each axis of
            `data` becomes.
        mode: Broadcasting rule. "none" is a synonym of "explicit".
        axis: First axis of the result that "pdpd" matches with `data`. -1 aligns the last axes.

    Returns:
        Shape target_shape, the type of `data`.

    Raises:
        InputError: `data` does not broadcast to `target_shape`.

    Spec:
        Broadcast-1
    """
    return _broadcast(data, to_shape(target_shape, "target_shape"), axes_mapping, mode, axis)


@op("Broadcast", since=3, kind="view", shape="infer_broadcast", shaped_by=(1, 2), folding="linear", flops=0)
@describes_like(broadcast_1)
def broadcast_3(
    data: Array,
    target_shape: Array,
    axes_mapping: Array | None = None,
    *,
    mode: Literal["numpy", "explicit", "bidirectional", "pdpd", "none"] = "numpy",
    axis: int = 0,
) -> Array:
    """Broadcast `data` to `target_shape`, or both to each other.

    Args:
        mode: Broadcasting rule. "bidirectional" broadcasts the shape of `data` and `target_shape` to each other.
            "none" is a synonym of "explicit".

    Returns:
        Shape target_shape, or the common shape if `mode` is "bidirectional"; the type of `data`.

    Spec:
        Broadcast-3
    """
    target = to_shape(target_shape, "target_shape")
    if mode == "bidirectional":
        try:
            target = list(get_broadcast_shape(data.shape, tuple(target)))
        except ValueError:
            raise _create_mismatch_error(data, target) from None
    return _broadcast(data, target, axes_mapping, mode, axis)


def _broadcast(data: Array, target: list[int], axes_mapping: Array | None, mode: str, axis: int) -> Array:
    if any(n < 0 for n in target):
        raise InputError(f"target_shape is {target}, expected non-negative dimensions")
    if mode in ("explicit", "none"):
        data = data.reshape(_get_explicit_shape(data, target, axes_mapping))
    elif mode == "pdpd":
        data = data.reshape(_get_pdpd_shape(data, target, axis))
    check_allocation(target, data.dtype)
    try:
        return np.broadcast_to(data, tuple(target))
    except ValueError:
        raise _create_mismatch_error(data, target) from None


def _get_explicit_shape(data: Array, target: list[int], axes_mapping: Array | None) -> list[int]:
    """Return the shape of `data` with ones inserted so that its axes match `axes_mapping`."""
    if axes_mapping is None:
        raise InputError('mode "explicit" requires the input axes_mapping')
    axes = to_int_list(axes_mapping)
    if data.ndim == 0 and len(axes) == 1:  # the reference implementation treats a scalar as a vector of one element
        axes = []
    if len(axes) != data.ndim or axes != sorted(set(axes)) or any(not 0 <= a < len(target) for a in axes):
        raise InputError(
            f"axes_mapping is {axes}, expected one axis of the target {target} for each axis of data"
            f" {list(data.shape)}, in ascending order"
        )
    shape = [1] * len(target)
    for axis, size in zip(axes, data.shape, strict=True):
        shape[axis] = size
    return shape


def _get_pdpd_shape(data: Array, target: list[int], axis: int) -> list[int]:
    """Return the shape of `data` with ones added on both sides so that it starts at `axis` of the target."""
    before = len(target) - data.ndim if axis == -1 else axis
    after = len(target) - before - data.ndim
    if before < 0 or after < 0:
        raise _create_mismatch_error(data, target)
    return [1] * before + list(data.shape) + [1] * after


def _create_mismatch_error(data: Array, target: list[int]) -> InputError:
    return InputError(f"data of shape {list(data.shape)} does not broadcast to {target}")
