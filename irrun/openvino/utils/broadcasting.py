"""Axes of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.openvino.shape import AxisSet

__all__ = ["get_broadcast_axes"]


def get_broadcast_axes(output_shape: Sequence[int], input_shape: Sequence[int], axis: int | None = None) -> AxisSet:
    """Return the axes of the output that the input does not have.

    Args:
        output_shape: The shape after broadcasting.
        input_shape: The shape before broadcasting.
        axis: The first axis of the output that the input has; by default the last axes are aligned.
    """
    first = len(output_shape) - len(input_shape) if axis is None else axis
    return AxisSet(set(range(len(output_shape))) - set(range(first, first + len(input_shape))))
