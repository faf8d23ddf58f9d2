"""Axes of reductions."""

from __future__ import annotations

from collections.abc import Iterable

from irrun.openvino.node import Node

__all__ = ["get_reduction_axes"]


def get_reduction_axes(node: Node, reduction_axes: Iterable[int] | None) -> set[int]:
    """Return axes as a set; by default all axes of the only output of a node."""
    return set(range(len(node.shape)) if reduction_axes is None else reduction_axes)
