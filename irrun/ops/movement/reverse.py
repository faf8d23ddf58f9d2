"""Turning axes around: Reverse, ReverseSequence, Roll."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.indexing import to_indices
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["reverse_1", "reverse_sequence_1", "roll_7"]


@op("Reverse", since=1)
def reverse_1(data: Array, axis: Array, *, mode: Literal["index", "mask"]) -> Array:
    """`data` with the order along some axes turned around.

    data: any type and shape; axis: mode "index": integer [n], axes; mode "mask": boolean or integer
    [rank of data], true for the axes to reverse.
    Returns the type and shape of data, a view.
    Raises InputError where an axis is out of range or the mask has another length.
    Spec: Reverse-1.
    """
    if mode == "index":
        axes = {normalize_axis(a, data.ndim) for a in to_int_list(axis)}
    else:
        if axis.size != data.ndim:
            raise InputError(f"the mask has {axis.size} elements, expected {data.ndim}")
        axes = {i for i, chosen in enumerate(to_int_list(axis)) if chosen}
    return np.flip(data, tuple(axes)) if axes else data


@op("ReverseSequence", since=1)
def reverse_sequence_1(data: Array, seq_lengths: Array, *, batch_axis: int = 0, seq_axis: int = 1) -> Array:
    """`data` with the first `seq_lengths[b]` elements along `seq_axis` turned around in each batch b.

    data: any type, rank >= 2; seq_lengths: integer (or integers in floats), [size of batch_axis], of which 1
    and 0 (outside of the specification) turn nothing around.
    Returns the type and shape of data.
    Raises InputError where the axes are out of range or a length does not fit.
    Spec: ReverseSequence-1.
    """
    batch = normalize_axis(batch_axis, data.ndim, "batch_axis")
    along = normalize_axis(seq_axis, data.ndim, "seq_axis")
    size = data.shape[along]
    lengths = to_indices(seq_lengths).reshape(-1)
    if len(lengths) != data.shape[batch]:
        raise InputError(f"seq_lengths has {len(lengths)} elements, expected {data.shape[batch]}")
    if lengths.size and (lengths.min() < 0 or lengths.max() > size):
        raise InputError(f"seq_lengths {lengths.tolist()} must lie in 0 to {size}")
    shape = [1] * data.ndim
    shape[batch] = len(lengths)
    length = lengths.reshape(shape)
    position = np.arange(size).reshape([size if i == along else 1 for i in range(data.ndim)])
    source = np.where(position < length, length - 1 - position, position)
    return np.take_along_axis(data, source, axis=along)


@op("Roll", since=7)
def roll_7(data: Array, shift: Array, axes: Array) -> Array:
    """`data` with its elements moved along `axes` by `shift` places; what leaves at one end enters at the other.

    data: any type and shape, a scalar being a list of one; shift, axes: integer, scalar or [n]; a single shift
    serves all axes, an axis may occur several times.
    Returns the type and shape of data.
    Raises InputError where an axis is out of range or the numbers of shifts and axes differ.
    Spec: Roll-7.
    """
    shifts = to_int_list(shift)
    chosen = [normalize_axis(a, max(1, data.ndim), "axes") for a in to_int_list(axes)]
    if len(shifts) == 1:
        shifts *= len(chosen)
    if len(shifts) != len(chosen):
        raise InputError(f"there are {len(shifts)} shifts for {len(chosen)} axes")
    if data.ndim == 0:
        return data
    # Reduced here, since a shift may be as large as an i64 and shifts of one axis add up.
    moves = dict.fromkeys(chosen, 0)
    for axis, n in zip(chosen, shifts, strict=True):
        moves[axis] = (moves[axis] + n) % (data.shape[axis] or 1)
    return np.roll(data, tuple(moves.values()), tuple(moves))
