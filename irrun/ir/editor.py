"""Edits of a graph that leave the original unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Graph, Layer, OutputAddress, Port
from irrun.shapes import PartialShape

__all__ = ["GraphEditor"]


class GraphEditor:
    """A copy of a graph that is edited. Layers are shared with the original until they are changed.

    Args:
        graph: The graph. It is not modified.

    Attributes:
        graph: The copy.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = replace(
            graph, layers=list(graph.layers), edges=list(graph.edges), edge_lines=list(graph.edge_lines)
        )
        self._positions = {layer.id: i for i, layer in enumerate(self.graph.layers)}
        self._edges = {(edge.to_layer, edge.to_port): i for i, edge in enumerate(self.graph.edges)}
        self._consumers: dict[OutputAddress, list[tuple[int, int]]] = {}
        for edge in self.graph.edges:
            self._consumers.setdefault((edge.from_layer, edge.from_port), []).append((edge.to_layer, edge.to_port))
        self._used = {layer_id for layer_id, _ in self._consumers}
        self._next_id = max(self._positions, default=-1) + 1

    def get_layer(self, layer_id: int) -> Layer:
        """Return a layer."""
        return self.graph.layers[self._positions[layer_id]]

    def get_source(self, layer: Layer, position: int) -> OutputAddress | None:
        """Return the output port that an input of a layer is connected to, or None."""
        if position >= len(layer.inputs):
            return None
        index = self._edges.get((layer.id, layer.inputs[position].id))
        return None if index is None else (self.graph.edges[index].from_layer, self.graph.edges[index].from_port)

    def get_producer(self, layer: Layer, position: int) -> Layer | None:
        """Return the layer that an input of a layer is connected to, or None."""
        source = self.get_source(layer, position)
        return None if source is None else self.get_layer(source[0])

    def get_consumers(self, address: OutputAddress) -> list[tuple[Layer, int]]:
        """Return the layers that an output port is connected to, with the positions of their inputs."""
        found = []
        for layer_id, port_id in self._consumers.get(address, ()):
            layer = self.get_layer(layer_id)
            found.append((layer, next(i for i, port in enumerate(layer.inputs) if port.id == port_id)))
        return found

    def add_layer(
        self,
        layer_type: str,
        version: str,
        inputs: Sequence[OutputAddress],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str,
        element_type: ElementType | None,
        shape: PartialShape | None = None,
        constant: Constant | None = None,
    ) -> OutputAddress:
        """Add a layer with one output.

        Args:
            layer_type: The type.
            version: The opset.
            inputs: The output ports that its inputs are connected to.
            attributes: The attributes.
            name: The name; a number is appended if another layer has it.
            element_type: The type of its output.
            shape: The shape of its output.
            constant: The value of a Constant.

        Returns:
            Its output port.
        """
        layer_id, count = self._next_id, len(inputs)
        self._next_id += 1
        ports = [self.get_port(address) for address in inputs]
        layer = Layer(
            layer_id,
            self._make_unique(name),
            layer_type,
            version,
            dict(attributes or {}),
            [Port(i, port.element_type, port.shape) for i, port in enumerate(ports)],
            [Port(count, element_type, shape)],
            constant=constant,
        )
        self._positions[layer_id] = len(self.graph.layers)
        self.graph.layers.append(layer)
        for i, address in enumerate(inputs):
            self._connect(address, layer_id, i)
        return layer_id, count

    def add_constant(self, value: Any, name: str, element_type: str = "i64") -> OutputAddress:
        """Add a Constant, and return its output port."""
        kind = ELEMENT_TYPES[element_type]
        array = np.asarray(value, kind.dtype)
        constant = Constant.from_array(array, kind)
        attributes = {"element_type": element_type, "shape": ",".join(map(str, array.shape))}
        return self.add_layer(
            "Constant",
            "opset1",
            (),
            attributes,
            name=name,
            element_type=kind,
            shape=PartialShape(array.shape),
            constant=constant,
        )

    def add_gather(
        self,
        data: OutputAddress,
        indices: OutputAddress,
        axis: int,
        name: str,
        element_type: ElementType | None,
        shape: PartialShape | None = None,
    ) -> OutputAddress:
        """Add a layer that takes elements along an axis.

        Args:
            data: The value.
            indices: The positions of the elements.
            axis: The axis.
            name: The name of the layer.
            element_type: The type of its output.
            shape: The shape of its output.

        Returns:
            Its output port.
        """
        inputs = (data, indices, self.add_constant(axis, f"{name}/axis"))
        attributes = {"batch_dims": "0"}
        return self.add_layer("Gather", "opset8", inputs, attributes, name=name, element_type=element_type, shape=shape)

    def set_input(self, layer: Layer, position: int, address: OutputAddress) -> None:
        """Connect an input of a layer to another output port."""
        self._connect(address, layer.id, layer.inputs[position].id)

    def set_attributes(self, layer: Layer, attributes: Mapping[str, Any]) -> None:
        """Change attributes of a layer."""
        copied = replace(layer, attributes={**layer.attributes, **attributes})
        copied.inputs = [replace(port) for port in layer.inputs]
        copied.outputs = [replace(port) for port in layer.outputs]
        self.graph.layers[self._positions[layer.id]] = copied

    def replace_output(self, old: OutputAddress, new: OutputAddress) -> None:
        """Connect the consumers of an output port to another port, which gets its tensor names."""
        self.get_port(new).names = self.get_port(old).names
        self.get_port(new).rt_info = self.get_port(old).rt_info
        for layer_id, port_id in list(self._consumers.get(old, ())):
            self._connect(new, layer_id, port_id)

    def finish(self) -> Graph:
        """Remove the layers that have lost all consumers, and return the graph."""
        while True:
            alive = {edge.from_layer for edge in self.graph.edges}
            dead = {
                layer.id
                for layer in self.graph.layers
                if layer.id in self._used and layer.id not in alive and not (layer.is_input or layer.writes_variable)
            }
            if not dead:
                return self.graph
            self._used -= dead
            self.graph.layers = [layer for layer in self.graph.layers if layer.id not in dead]
            kept = [i for i, edge in enumerate(self.graph.edges) if edge.to_layer not in dead]
            self.graph.edge_lines = [self.graph.edge_lines[i] for i in kept if i < len(self.graph.edge_lines)]
            self.graph.edges = [self.graph.edges[i] for i in kept]

    def get_port(self, address: OutputAddress) -> Port:
        """Return an output port."""
        return next(port for port in self.get_layer(address[0]).outputs if port.id == address[1])

    def _connect(self, address: OutputAddress, layer_id: int, port_id: int) -> None:
        edge = Edge(*address, layer_id, port_id)
        index = self._edges.get((layer_id, port_id))
        if index is None:
            self._edges[layer_id, port_id] = len(self.graph.edges)
            self.graph.edges.append(edge)
        else:
            old = self.graph.edges[index]
            self._consumers[old.from_layer, old.from_port].remove((layer_id, port_id))
            self.graph.edges[index] = edge
        self._consumers.setdefault(address, []).append((layer_id, port_id))
        self._used.add(address[0])

    def _make_unique(self, name: str) -> str:
        names = {layer.name for layer in self.graph.layers}
        candidates: Iterable[str] = (f"{name}.{i}" for i in range(1, len(names) + 2))
        return name if name not in names else next(c for c in candidates if c not in names)
