"""Inputs of graphs under construction."""

from __future__ import annotations

from irrun.element_types import ELEMENT_TYPES
from irrun.export.graph import get_graph
from irrun.shapes import PartialShape


def value(*shape, type="f32", name="x"):
    """Return an input of the current graph; without a shape if the only dimension is None."""
    known = None if shape == (None,) else PartialShape(shape)
    return get_graph().add_input(ELEMENT_TYPES[type], known, name)
