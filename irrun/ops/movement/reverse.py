"""Operations that reverse axes: Reverse, ReverseSequence."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.indexing import to_int64_indices
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["reverse_1", "reverse_sequence_1"]


@op("Reverse", since=1, kind="movement", shape="infer_along_axes", keeps_values=True, flops=0)
def reverse_1(data: Array, axis: Array, *, mode: Literal["index", "mask"]) -> Array:
    """Reverse the order of elements along some axes.

    Args:
        data: Any type, any shape.
        axis: For mode "index": integer [n], the axes to reverse. For mode "mask": boolean or integer [rank of data],
            nonzero for the axes to reverse.
        mode: How `axis` selects axes.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis is out of range, or the mask does not have one element per axis.

    Spec:
        Reverse-1
    """
    if mode == "index":
        axes = {normalize_axis(a, data.ndim) for a in to_int_list(axis)}
    else:
        if axis.size != data.ndim:
            raise InputError(f"the mask has {axis.size} elements, expected {data.ndim}")
        axes = {i for i, is_selected in enumerate(to_int_list(axis)) if is_selected}
    return np.flip(data, tuple(axes)) if axes else data


@op(
    "ReverseSequence",
    since=1,
    scratch=4.25,
    kind="movement",
    shape="infer_reverse_sequence",
    shaped_by=(),
    keeps_values=True,
    flops=0,
)
def reverse_sequence_1(data: Array, seq_lengths: Array, *, batch_axis: int = 0, seq_axis: int = 1) -> Array:
    """Reverse the first `seq_lengths[b]` elements along `seq_axis` in each batch b.

    Args:
        data: Any type, rank >= 2.
        seq_lengths: Numeric, integer values, shape [size of batch_axis]. A length of 0, which the specification does
            not allow, has no effect, like a length of 1.
        batch_axis: Axis of the batches, in [-rank, rank).
        seq_axis: Axis of the sequences, in [-rank, rank).

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis or a length is out of range, or the number of lengths differs from the batch size.

    Spec:
        ReverseSequence-1
    """
    batch_axis = normalize_axis(batch_axis, data.ndim, "batch_axis")
    seq_axis = normalize_axis(seq_axis, data.ndim, "seq_axis")
    size = data.shape[seq_axis]
    lengths = to_int64_indices(seq_lengths).reshape(-1)
    if len(lengths) != data.shape[batch_axis]:
        raise InputError(f"seq_lengths has {len(lengths)} elements, expected {data.shape[batch_axis]}")
    if lengths.size and (lengths.min() < 0 or lengths.max() > size):
        raise InputError(f"seq_lengths is {lengths.tolist()}, expected 0 to {size}")
    length = lengths.reshape([-1 if i == batch_axis else 1 for i in range(data.ndim)])
    position = np.arange(size).reshape([-1 if i == seq_axis else 1 for i in range(data.ndim)])
    index = np.where(position < length, length - 1 - position, position)
    return np.take_along_axis(data, index, axis=seq_axis)
