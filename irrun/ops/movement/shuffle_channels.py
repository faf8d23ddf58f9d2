"""ShuffleChannels."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["shuffle_channels_1"]


@op(
    "ShuffleChannels",
    since=1,
    kind="movement",
    shape="infer_shuffled_channels",
    shaped_by=(),
    keeps_values=True,
    flops=0,
)
def shuffle_channels_1(data: Array, *, axis: int = 1, group: int = 1) -> Array:
    """Divide the channels into groups and interleave them.

    Args:
        data: Any type, rank >= 1.
        axis: Axis of the channels, in [-rank, rank).
        group: Number of groups. It must divide the size of `axis`.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `axis` is out of range, or its size is not a multiple of `group`.

    Spec:
        ShuffleChannels-1
    """
    axis = normalize_axis(axis, data.ndim)
    size = data.shape[axis]
    if group < 1 or size % group:
        raise InputError(f"{size} channels cannot be divided into {group} groups")
    split = data.reshape([*data.shape[:axis], group, size // group, *data.shape[axis + 1 :]])
    return np.reshape(np.swapaxes(split, axis, axis + 1), data.shape)
