"""Variables that grow along one axis, such as the keys and values of a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.limits import check_allocation
from irrun.ops._support.context import Variables

__all__ = ["append_to_reordered_variable", "append_to_variable"]

Array = np.ndarray[Any, Any]

#: Minimum length of the growing axis of a buffer.
MIN_CAPACITY = 64


def append_to_variable(past: Array, new: Array, *, axis: int, variable_id: str, variables: Variables) -> Array:
    """Concatenate the value of a variable and new elements in a buffer that has room for more.

    If the value is a view of the beginning of the buffer, as the previous run leaves it, only the new elements are
    written. Elements beyond the value are leftovers of a failed run.

    Args:
        past: The value of the variable.
        new: The type of `past` and its shape, except along the axis.
        axis: The axis.
        variable_id: Name of the variable.
        variables: The variables of the infer request.

    Returns:
        A view of the buffer.

    Raises:
        NoKernelError: The types or shapes do not match.
    """
    axis = _check_operands(past, new, axis)
    length, total = past.shape[axis], past.shape[axis] + new.shape[axis]
    buffer = variables.buffers.get(variable_id)
    is_last = variables.appended.get(variable_id) is past
    if buffer is None or not (is_last or _is_beginning(past, buffer, axis)) or buffer.shape[axis] < total:
        buffer = _allocate_buffer(past.shape, axis, total, past.dtype)
        buffer[_make_index(axis, 0, length)] = past
    return _append(buffer, new, axis, length, variable_id, variables)


def append_to_reordered_variable(
    past: Array, order: Array, new: Array, *, axis: int, variable_id: str, variables: Variables
) -> Array:
    """Select rows of a variable by `order` and append new elements; see `append_to_variable`.

    Args:
        past: The value of the variable.
        order: Integers, shape [B]: indices of the first axis of `past`. If they are 0, 1, ..., nothing is copied.
        new: The type of `past` and its shape, except along the axis; the first dimension is B.
        axis: The axis; it is not the first axis.
        variable_id: Name of the variable.
        variables: The variables of the infer request.

    Returns:
        A view of the buffer.

    Raises:
        NoKernelError: The types or shapes do not match, or an index is out of range.
    """
    rows: list[int] = order.tolist()
    if order.ndim != 1 or order.dtype.kind not in "iu" or not past.ndim:
        raise NoKernelError("expected a vector of integers")
    count = past.shape[0]
    if rows == list(range(count)):
        return append_to_variable(past, new, axis=axis, variable_id=variable_id, variables=variables)
    if axis in (0, -past.ndim) or any(not 0 <= row < count for row in rows):
        raise NoKernelError("an index is out of range")
    axis = _check_operands(past[:1], new[:1], axis)
    if len(rows) != new.shape[0]:
        raise NoKernelError("the batch sizes differ")
    shape = (len(rows), *past.shape[1:])
    length, total = past.shape[axis], past.shape[axis] + new.shape[axis]
    buffer = _allocate_buffer(shape, axis, total, past.dtype)
    for i, row in enumerate(rows):
        buffer[i : i + 1][_make_index(axis, 0, length)] = past[row : row + 1]
    return _append(buffer, new, axis, length, variable_id, variables)


def _check_operands(past: Array, new: Array, axis: int) -> int:
    """Return the axis, counted from the front, if the operands can be concatenated along it."""
    rank = past.ndim
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank or new.ndim != rank or past.dtype != new.dtype:
        raise NoKernelError("the operands do not match")
    if past.shape[:axis] != new.shape[:axis] or past.shape[axis + 1 :] != new.shape[axis + 1 :]:
        raise NoKernelError("the operands do not match")
    return axis


def _is_beginning(past: Array, buffer: Array, axis: int) -> bool:
    """Return whether the value is a view of the beginning of the buffer."""
    return (
        past.base is buffer
        and past.strides == buffer.strides
        and past.__array_interface__["data"][0] == buffer.__array_interface__["data"][0]
        and all(past.shape[i] == buffer.shape[i] for i in range(past.ndim) if i != axis)
    )


def _allocate_buffer(shape: tuple[int, ...], axis: int, total: int, dtype: np.dtype[Any]) -> Array:
    capacity = max(MIN_CAPACITY, 2 * total)
    full_shape = (*shape[:axis], capacity, *shape[axis + 1 :])
    check_allocation(full_shape, dtype)
    return np.empty(full_shape, dtype)


def _append(buffer: Array, new: Array, axis: int, length: int, variable_id: str, variables: Variables) -> Array:
    total = length + new.shape[axis]
    buffer[_make_index(axis, length, total)] = new
    value: Array = buffer[_make_index(axis, 0, total)]
    variables.buffers[variable_id], variables.appended[variable_id] = buffer, value
    return value


def _make_index(axis: int, start: int, stop: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(start, stop))
