"""Padding and cropping with a constant value."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.indexing import allocate_zeros
from irrun.ops._support.numerics import Array

__all__ = ["pad_with_constant"]


def pad_with_constant(data: Array, begins: Sequence[int], shape: Sequence[int], value: Array | None = None) -> Array:
    """Copy `data` into a new array of `shape` that is filled with `value`.

    Args:
        data: Any type, any shape.
        begins: Position of the first element of `data` in the result, per axis. Negative values crop.
        shape: Shape of the result. Larger data is cropped.
        value: A tensor of one element, of the type of `data`. By default zero or the empty string.

    Raises:
        InputError: `value` does not have exactly one element, or the result is too large.
    """
    check_allocation(shape, data.dtype)
    result = allocate_zeros(shape, data.dtype)
    if value is not None:
        if value.size != 1:
            raise InputError(f"pad_value has shape {list(value.shape)}, expected a scalar")
        result[...] = value.reshape(())
    target, source = [], []
    for begin, data_size, size in zip(begins, data.shape, shape, strict=True):
        first, last = max(0, begin), min(size, begin + data_size)
        last = max(first, last)
        target.append(slice(first, last))
        source.append(slice(first - begin, last - begin))
    result[tuple(target)] = data[tuple(source)]
    return result
