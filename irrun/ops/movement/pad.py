"""Pad: padding and cropping at the edges."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.padding import pad_with_constant
from irrun.ops._support.registry import op

__all__ = ["pad_1"]

Mode = Literal["constant", "edge", "reflect", "symmetric"]


_pad = partial(
    op,
    "Pad",
    kind="movement",
    shape="infer_pad",
    views="strided",
    shaped_by=(1, 2),
    checks_size=True,
    folding="linear",
    flops=0,
)


@_pad(since=12)
@_pad(since=1)
def pad_1(data: Array, pads_begin: Array, pads_end: Array, pad_value: Array | None = None, *, pad_mode: Mode) -> Array:
    """Pad `data` at both ends of each axis.

    Args:
        data: Any type, any shape.
        pads_begin: Integer, shape [rank of data], the number of elements to add before each axis. Negative values crop;
            they were introduced in version 12, but the reference implementation accepts them in both versions.
        pads_end: Integer, shape [rank of data], the number of elements to add after each axis. Negative values crop.
        pad_value: The type of `data`, scalar, for mode "constant" only. Zero or the empty string if omitted.
        pad_mode: How added elements are computed: from `pad_value`, or by repeating the edge, or by mirroring
            without ("reflect") or with ("symmetric") the edge.

    Returns:
        The type of `data`, with max(0, pads_begin[i] + data.shape[i] + pads_end[i]) elements along axis i.

    Raises:
        InputError: The pads do not have one element per axis, or a mode pads by more elements than it can copy.

    Spec:
        Pad-1, Pad-12
    """
    begins, ends = to_int_list(pads_begin), to_int_list(pads_end)
    if not len(begins) == len(ends) == data.ndim:
        raise InputError(
            f"pads_begin and pads_end have {len(begins)} and {len(ends)} elements, expected {data.ndim},"
            f" the rank of data"
        )
    shape = [max(0, b + n + e) for b, n, e in zip(begins, data.shape, ends, strict=True)]
    if not any(begins) and not any(ends):
        return data[...]
    if pad_mode == "constant":
        return pad_with_constant(data, begins, shape, pad_value)
    check_allocation(shape, data.dtype)
    for axis, (begin, end, size) in enumerate(zip(begins, ends, shape, strict=True)):
        if begin or end:
            index = _compute_source_index(pad_mode, begin, end, data.shape[axis], size)
            data = np.take(data, index, axis=axis, mode="clip")
    return data


def _compute_source_index(mode: Mode, begin: int, end: int, size: int, padded_size: int) -> Array:
    """Compute which element of an axis each element of the padded axis copies, the nearest one to an index outside."""
    index = np.arange(padded_size) - begin
    if padded_size == 0:
        return index
    limit = {"edge": None, "reflect": size - 1, "symmetric": size}[mode]
    if size == 0 or (limit is not None and max(begin, end) > limit):
        raise InputError(f"mode {mode!r} cannot pad {size} elements by {begin} and {end}")
    if mode == "edge":
        return index  # which is clipped
    shift = 1 if mode == "symmetric" else 0
    index = np.where(index < 0, -index - shift, index)
    return np.where(index >= size, 2 * (size - 1) - index + shift, index)
