"""Functions for the dimensions that layouts usually name, and for the layouts of ports."""

from __future__ import annotations

from typing import Any

from irrun.openvino.layout import Layout, to_layout

__all__ = [
    "batch_idx",
    "channels_idx",
    "depth_idx",
    "get_layout",
    "has_batch",
    "has_channels",
    "has_depth",
    "has_height",
    "has_width",
    "height_idx",
    "set_layout",
    "width_idx",
]


def has_batch(layout: Layout) -> bool:
    """Return whether the layout has a batch dimension."""
    return layout.has_name("N")


def has_channels(layout: Layout) -> bool:
    """Return whether the layout has a channel dimension."""
    return layout.has_name("C")


def has_depth(layout: Layout) -> bool:
    """Return whether the layout has a depth dimension."""
    return layout.has_name("D")


def has_height(layout: Layout) -> bool:
    """Return whether the layout has a height dimension."""
    return layout.has_name("H")


def has_width(layout: Layout) -> bool:
    """Return whether the layout has a width dimension."""
    return layout.has_name("W")


def batch_idx(layout: Layout) -> int:
    """Return the index of the batch dimension."""
    return layout.get_index_by_name("N")


def channels_idx(layout: Layout) -> int:
    """Return the index of the channel dimension."""
    return layout.get_index_by_name("C")


def depth_idx(layout: Layout) -> int:
    """Return the index of the depth dimension."""
    return layout.get_index_by_name("D")


def height_idx(layout: Layout) -> int:
    """Return the index of the height dimension."""
    return layout.get_index_by_name("H")


def width_idx(layout: Layout) -> int:
    """Return the index of the width dimension."""
    return layout.get_index_by_name("W")


def get_layout(port: Any) -> Layout:
    """Return the layout of an input or output of a model."""
    layout: Layout = port.get_node().layout
    return layout


def set_layout(port: Any, layout: Layout | str) -> None:
    """Set the layout of an input or output of a model."""
    port.get_node().layout = to_layout(layout)
