"""Growing and cropping at the edges: Pad."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.indexing import allocate_blank
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["pad_1", "pad_constant"]

Mode = Literal["constant", "edge", "reflect", "symmetric"]


@op("Pad", since=12, folding="linear")
@op("Pad", since=1, folding="linear")
def pad_1(data: Array, pads_begin: Array, pads_end: Array, pad_value: Array | None = None, *, pad_mode: Mode) -> Array:
    """`data` with elements added at both ends of each axis; a negative number takes elements away.

    data: any type and shape; pads_begin, pads_end: integer [rank of data]; pad_value: the type of data,
    scalar, for mode "constant" only (0 or the empty string when left out). Negative pads came with version 12;
    the reference implementation takes them in both.
    Returns the type of data, `max(0, pads_begin[i] + data.shape[i] + pads_end[i])` per axis.
    Raises InputError where the lists have the wrong length or a mode has no element to copy.
    Spec: Pad-1, Pad-12.
    """
    begins, ends = to_int_list(pads_begin), to_int_list(pads_end)
    if not len(begins) == len(ends) == data.ndim:
        raise InputError(
            f"pads_begin and pads_end have {len(begins)} and {len(ends)} elements, expected {data.ndim},"
            f" the rank of data"
        )
    sizes = [max(0, b + n + e) for b, n, e in zip(begins, data.shape, ends, strict=True)]
    if pad_mode == "constant":
        return pad_constant(data, begins, sizes, pad_value)
    check_allocation(sizes, data.dtype)
    for axis, (begin, end, size) in enumerate(zip(begins, ends, sizes, strict=True)):
        if begin or end:
            data = np.take(data, _source(pad_mode, begin, end, data.shape[axis], size), axis=axis, mode="clip")
    return data


def pad_constant(data: Array, begins: list[int], sizes: list[int], pad_value: Array | None) -> Array:
    """`data` placed at `begins` (negative: cropped) in a new array of `sizes`, elsewhere `pad_value` or zero."""
    check_allocation(sizes, data.dtype)
    result = allocate_blank(sizes, data.dtype)
    if pad_value is not None:
        if pad_value.size != 1:
            raise InputError(f"pad_value has shape {list(pad_value.shape)}, expected a scalar")
        result[...] = pad_value.reshape(())
    inside, source = [], []
    for begin, n, size in zip(begins, data.shape, sizes, strict=True):
        first, last = max(0, begin), min(size, begin + n)
        last = max(first, last)
        inside.append(slice(first, last))
        source.append(slice(first - begin, last - begin))
    result[tuple(inside)] = data[tuple(source)]
    return result


def _source(mode: Mode, begin: int, end: int, n: int, size: int) -> Array:
    """Which of the `n` elements of an axis each of the `size` elements of the result copies."""
    at = np.arange(size) - begin
    if size == 0:
        return at
    most = {"edge": None, "reflect": n - 1, "symmetric": n}[mode]
    if n == 0 or (most is not None and max(begin, end) > most):
        raise InputError(f"mode {mode!r} cannot pad {n} elements by {begin} and {end}")
    if mode == "edge":
        return np.clip(at, 0, n - 1)
    shift = 1 if mode == "symmetric" else 0
    at = np.where(at < 0, -at - shift, at)
    return np.where(at >= n, 2 * (n - 1) - at + shift, at)
