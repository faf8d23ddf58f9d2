"""Graphs in memory, from rows of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ir.constant import Constant
from irrun.ir.graph import Body, Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = ["Row", "make_graph", "make_model"]


class Row(NamedTuple):
    """A layer.

    Attributes:
        name: The name.
        type: The type.
        sources: The names of the producers; "name:1" is the second output, "" is an input that is not connected.
        attributes: The attributes.
        outputs: The number of outputs, which have no declared type or shape.
        value: The value of a Constant.
        version: The opset.
        shapes: The declared shapes of the outputs; the declared type is f32.
        bodies: The bodies.
    """

    name: str
    type: str
    sources: Sequence[str] = ()
    attributes: dict[str, Any] | None = None
    outputs: int = 1
    value: Any = None
    version: str = "opset1"
    shapes: Sequence[Sequence[int]] = ()
    bodies: dict[str, Body] | None = None


def make_graph(*rows: Row, name: str = "net") -> Graph:
    """Return the graph of some layers. Their ids are their positions, and the ids of ports are consecutive.

    A Parameter is of type f32 and of its first shape or any shape, unless its attributes say otherwise.
    """
    graph = Graph(name=name)
    positions = {row.name: i for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        attributes = dict(row.attributes or {})
        constant = None
        if row.type == "Parameter":
            shape = ",".join(map(str, row.shapes[0])) if row.shapes else "..."
            attributes = {"element_type": "f32", "shape": shape, **attributes}
        if row.type == "Constant":
            value = np.asarray(row.value)
            constant = Constant.from_array(value, ElementType.of(value.dtype))
        first, count = len(row.sources), 0 if row.type == "Result" else max(row.outputs, len(row.shapes))
        outputs = [Port(first + k) for k in range(count)]
        for port, shape in zip(outputs, row.shapes, strict=False):
            port.element_type, port.shape = ELEMENT_TYPES["f32"], PartialShape(shape)
        inputs = [Port(k) for k in range(first)]
        layer = Layer(i, row.name, row.type, row.version, attributes, inputs, outputs, row.bodies or {}, constant)
        graph.layers.append(layer)
        for k, source in enumerate(row.sources):
            producer, _, number = (source, "", "0") if source in positions else source.rpartition(":")
            if source:
                position = positions[producer]
                graph.edges.append(Edge(position, len(rows[position].sources) + int(number), i, k))
    return graph


def make_model(*rows: Row, name: str = "net") -> Model:
    """Return a model of some layers."""
    return Model(make_graph(*rows, name=name), Weights(), 11)
