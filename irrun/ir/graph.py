"""Graphs in memory: layers, ports, edges, and bodies with their port maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.shapes import PartialShape

__all__ = [
    "BackEdge",
    "Body",
    "Edge",
    "Graph",
    "Layer",
    "OutputAddress",
    "OutputNames",
    "Port",
    "PortMapEntry",
    "name_values",
]

#: The layer id and the port id of an output port.
OutputAddress = tuple[int, int]


@dataclass(slots=True)
class Port:
    """An input or output port of a layer.

    Attributes:
        id: The number of the port, unique within the layer.
        element_type: The declared element type, or None.
        shape: The declared shape; None if it is not declared or its rank is dynamic.
        names: The tensor names of an output port. On the input port of a Result, the names of the model's output.
        rt_info: The `rt_info` element as text, or None.
    """

    id: int
    element_type: ElementType | None = None
    shape: PartialShape | None = None
    names: tuple[str, ...] = ()
    rt_info: str | None = None


class Edge(NamedTuple):
    """A connection from an output port to an input port.

    Attributes:
        from_layer: The id of the producer.
        from_port: The id of its output port.
        to_layer: The id of the consumer.
        to_port: The id of its input port.
    """

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int


@dataclass(slots=True)
class PortMapEntry:
    """An `input` or `output` element of a port map.

    Attributes:
        external_port_id: A port of the layer that owns the body; -1 if the entry has none.
        internal_layer_id: A Parameter (input) or Result (output) of the body.
        axis: The axis to slice or concatenate; None for the whole value.
        start: The index of the first element on the axis.
        end: The index of the last element on the axis; -1 is the last one of the axis.
        stride: The distance between neighboring slices; negative for the reverse order.
        part_size: The length of a slice.
        purpose: "current_iteration", "execution_condition" or "".
        line: The line in the file; 0 if the entry was created by code.
    """

    external_port_id: int
    internal_layer_id: int
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1
    purpose: str = ""
    line: int = 0


@dataclass(slots=True)
class BackEdge:
    """A connection from a Result of a body to one of its Parameters in the next iteration.

    Attributes:
        from_layer: The id of the Result.
        to_layer: The id of the Parameter.
        line: The line in the file; 0 if the edge was created by code.
    """

    from_layer: int
    to_layer: int
    line: int = 0


@dataclass(slots=True, repr=False)
class Layer:
    """A node of a graph.

    Attributes:
        id: The number of the layer, unique within the graph.
        name: The name, which may be empty.
        type: The type as in the file, but "Constant" for "Const".
        version: The opset, such as "opset8" or "extension"; "opset1" if the file does not state it.
        attributes: Strings in a layer from a file; Python values (bool, int, float, str, list, ElementType,
            PartialShape) in a layer that was created by code. The value of a Constant is not among them.
        inputs: The input ports, in the order of the file.
        outputs: The output ports, in the order of the file.
        bodies: The bodies by element name: "body", "then_body", "else_body".
        constant: The value of a Constant; None for other layers, placeholders, and invalid constants.
        rt_info: The `rt_info` element as text, or None.
        line: The line in the file; 0 if the layer was created by code.
    """

    id: int
    name: str
    type: str
    version: str = "opset1"
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    constant: Constant | None = None
    rt_info: str | None = None
    line: int = 0

    def __repr__(self) -> str:
        return f"<Layer: {self.id} {self.name!r} ({self.type}, {self.version})>"

    def _repr_html_(self) -> str:
        from irrun._html import make_table

        rows = [
            (f"{kind} {i}", f"{port.element_type or 'any'}{'[...]' if port.shape is None else port.shape}", names)
            for kind, ports in (("input", self.inputs), ("output", self.outputs))
            for i, port in enumerate(ports)
            for names in [", ".join(port.names)]
        ]
        rows += [(name, str(value), "") for name, value in self.attributes.items()]
        rows += [(name, f"{len(body.graph.layers)} layers", "") for name, body in self.bodies.items()]
        line = f"line {self.line}" if self.line else ""
        return make_table(f"Layer {self.id}: {self.name}, {self.type} ({self.version})", ("", "", ""), rows, notes=line)

    @property
    def is_constant(self) -> bool:
        """Whether the layer is a Constant, which old files call "Const"; the reader renames it."""
        return self.type == "Constant"

    @property
    def is_input(self) -> bool:
        """Whether the layer is a Parameter: an input of the model or of a body."""
        return self.type == "Parameter"

    @property
    def is_output(self) -> bool:
        """Whether the layer is a Result: an output of the model or of a body."""
        return self.type == "Result"

    @property
    def is_structural(self) -> bool:
        """Whether the layer computes nothing: a Constant, a Parameter or a Result."""
        return self.is_constant or self.is_input or self.is_output

    @property
    def reads_variable(self) -> bool:
        """Whether the layer is a ReadValue."""
        return self.type == "ReadValue"

    @property
    def writes_variable(self) -> bool:
        """Whether the layer is an Assign."""
        return self.type == "Assign"

    def describe(self) -> str:
        """Return a description for error messages."""
        name = f" {self.name!r}" if self.name else ""
        return f"layer {self.id}{name} ({self.type}, {self.version})"


@dataclass(slots=True)
class Body:
    """The graph inside TensorIterator, Loop or If, and its connections to the layer that owns it.

    Attributes:
        graph: The graph.
        inputs: The inputs of the port map.
        outputs: The outputs of the port map.
        back_edges: The back edges.
    """

    graph: Graph
    inputs: list[PortMapEntry] = field(default_factory=list)
    outputs: list[PortMapEntry] = field(default_factory=list)
    back_edges: list[BackEdge] = field(default_factory=list)


@dataclass(slots=True, repr=False)
class Graph:
    """Layers and the edges between them.

    Attributes:
        layers: The layers, in the order of the file.
        edges: The edges.
        name: The name of the network, which may be empty.
        rt_info: The `rt_info` element of a body as text, or None.
        edge_lines: The lines of the first edges in the file; empty for a graph that was made by code.
    """

    layers: list[Layer] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    name: str = ""
    rt_info: str | None = None
    edge_lines: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Graph: {self.name!r}, {len(self.layers)} layers, {len(self.edges)} edges>"

    def get_edge_line(self, position: int) -> int:
        """Return the line of an edge in the file; 0 if it is unknown.

        Args:
            position: The position in `edges`.
        """
        return self.edge_lines[position] if position < len(self.edge_lines) else 0

    def find_layers(self, *types: str) -> list[Layer]:
        """Return the layers of some types, in the order of the file."""
        return [layer for layer in self.layers if layer.type in types]

    def walk(self) -> Iterator[tuple[Graph, Layer]]:
        """Iterate over all layers, bodies included, in the order of the file.

        Yields:
            The graph of the layer, and the layer.
        """
        stack = [(self, iter(self.layers))]
        while stack:
            graph, layers = stack[-1]
            layer = next(layers, None)
            if layer is None:
                stack.pop()
                continue
            yield graph, layer
            stack.extend((b.graph, iter(b.graph.layers)) for b in reversed(layer.bodies.values()))

    def add_result(self, name: str, address: OutputAddress) -> Layer:
        """Add a Result for an output port.

        Args:
            name: The name of the value. The name of the Result is derived from it.
            address: The output port.

        Returns:
            The Result.
        """
        result_id = max(layer.id for layer in self.layers) + 1
        producer = next(layer for layer in self.layers if layer.id == address[0])
        port = next(p for p in producer.outputs if p.id == address[1])
        result = Layer(result_id, f"{name}/result", "Result", inputs=[Port(0, port.element_type, port.shape)])
        self.layers.append(result)
        self.edges.append(Edge(*address, result_id, 0))
        return result


class OutputNames:
    """The output ports of a graph by name: a tensor name, the name of the producer, or `layer.port`.

    A tensor name takes precedence over the name of a layer. Among equal names, the first layer takes precedence.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._addresses: dict[str, OutputAddress] = {}
        outputs = [(layer, i, port) for layer in graph.layers for i, port in enumerate(layer.outputs)]
        for layer, _, port in outputs:
            for name in port.names:
                self._addresses.setdefault(name, (layer.id, port.id))
        for layer, i, port in outputs:
            for name in [layer.name, f"{layer.name}.{i}"] if i == 0 else [f"{layer.name}.{i}"]:
                self._addresses.setdefault(name, (layer.id, port.id))

    def find(self, name: str) -> OutputAddress:
        """Return the output port that has a name.

        Raises:
            ModelError: No output port has it. The message lists similar names.
        """
        if name not in self._addresses:
            import difflib

            similar = difflib.get_close_matches(name, self._addresses, 3)
            hint = f"; did you mean {', '.join(similar)}?" if similar else ""
            raise ModelError(f"unknown value {name!r}{hint}")
        return self._addresses[name]


def name_values(graph: Graph) -> dict[OutputAddress, str]:
    """Return a unique name for each value of a graph: its first tensor name, or the name of its layer.

    If several values have the same tensor name, inputs and outputs of the graph keep it, otherwise the first value.

    Args:
        graph: The graph.
    """
    reserved = {name for layer in graph.layers for port in layer.outputs for name in port.names[:1]}
    names: dict[OutputAddress, str] = {}
    taken: set[str] = set()
    results = {layer.id for layer in graph.layers if layer.is_output}
    outputs = {edge.from_layer for edge in graph.edges if edge.to_layer in results}
    for layer in sorted(graph.layers, key=lambda layer: (not layer.is_input, layer.id not in outputs)):
        for i, port in enumerate(layer.outputs):
            name = port.names[0] if port.names else ""
            if not name or name in taken:  # files may repeat tensor names, and use them as names of other layers
                name = layer.name if len(layer.outputs) == 1 else f"{layer.name}.{i}"
                if name in reserved or name in taken:
                    name = f"{layer.name}/{layer.type}_{layer.id}.{i}"
            taken.add(name)
            names[layer.id, port.id] = name
    return names
