"""A model in memory: graphs of layers that edges connect, bodies with port maps, and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = [
    "BackEdge",
    "Body",
    "Edge",
    "Graph",
    "Layer",
    "Model",
    "OutputAddress",
    "OutputNames",
    "Port",
    "PortMapEntry",
    "TensorSpec",
    "index_names",
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
        axis: The axis that is sliced or concatenated; None if the whole value is passed.
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


@dataclass(slots=True)
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
    """

    layers: list[Layer] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    name: str = ""
    rt_info: str | None = None

    def __repr__(self) -> str:
        return f"<Graph: {self.name!r}, {len(self.layers)} layers, {len(self.edges)} edges>"

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
            name: The name of the value, from which the name of the Result is derived.
            address: The output port.

        Returns:
            The Result.
        """
        result_id = max((layer.id for layer in self.layers), default=-1) + 1
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


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """The declaration of an input or output of a model, like OpenVINO's `ov::Output`.

    Attributes:
        names: All names: tensor names first, then the name of the layer.
        element_type: The declared element type, or None.
        partial_shape: The declared shape; None if its rank is dynamic.
        layer: The Parameter or Result.
        port: The output port that produces the value, or None.
    """

    names: tuple[str, ...]
    element_type: ElementType | None
    partial_shape: PartialShape | None
    layer: Layer
    port: Port | None = None

    def __hash__(self) -> int:  # a spec can be the key of an input
        return hash((self.names, self.layer.id))

    @property
    def tensor_names(self) -> frozenset[str]:
        """The tensor names, without the name of the layer."""
        ports = [*([self.port] if self.port else []), *self.layer.inputs[:1]]
        return frozenset(name for port in ports for name in port.names)

    @property
    def any_name(self) -> str:
        """The first name: a tensor name if there is one.

        Raises:
            ModelError: The tensor has no name.
        """
        if not self.names:
            raise ModelError("the tensor has no name", layer=self.layer.describe())
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape.

        Raises:
            ModelError: The shape is dynamic.
        """
        if self.partial_shape is None or not self.partial_shape.is_static:
            raise ModelError(f"{self.any_name} has the dynamic shape {self.partial_shape or '[...]'}")
        return tuple(int(d) for d in self.partial_shape if isinstance(d, int))

    def __repr__(self) -> str:
        return f"<Tensor: {self}>"

    def __str__(self) -> str:
        shape = "[...]" if self.partial_shape is None else str(self.partial_shape)
        return f"{self.names[0] if self.names else '(unnamed)'}: {self.element_type or 'any'}{shape}"


@dataclass(slots=True, repr=False)
class Model:
    """A graph and its weights.

    Attributes:
        graph: The graph.
        weights: The weights.
        version: The IR version, 10 or 11. Legacy IR is upgraded to 11 when it is read.
        path: The .xml that the model was read from, or None.
        rt_info: The `rt_info` element as text, or None.
        meta_data: The `meta_data` element as text, or None.
        source_version: The IR version of the file.
    """

    graph: Graph
    weights: Weights
    version: int = 11
    path: Path | None = None
    rt_info: str | None = None
    meta_data: str | None = None
    source_version: int = 11

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"<Model: {self.name!r}, {len(self.graph.layers)} layers, ({inputs}) -> ({outputs})>"

    @property
    def name(self) -> str:
        """The name of the network."""
        return self.graph.name

    @property
    def inputs(self) -> list[TensorSpec]:
        """The inputs, one per Parameter, in the order of the file."""
        specs = []
        for layer in self.graph.find_layers("Parameter"):
            port = layer.outputs[0] if layer.outputs else Port(0)
            names = _remove_duplicates(*port.names, layer.name)
            specs.append(TensorSpec(names, port.element_type, port.shape, layer, port))
        return specs

    @property
    def outputs(self) -> list[TensorSpec]:
        """The outputs, one per Result, in the order of the file, with names and type of the producer's port."""
        results = self.graph.find_layers("Result")
        result_ids = {layer.id for layer in results}
        sources = {e.to_layer: (e.from_layer, e.from_port) for e in self.graph.edges if e.to_layer in result_ids}
        producer_ids = {layer_id for layer_id, _ in sources.values()}
        producers = {layer.id: layer for layer in self.graph.layers if layer.id in producer_ids}
        ports = {
            (layer.id, port.id): (i, port)
            for layer in producers.values()
            for i, port in reversed(list(enumerate(layer.outputs)))
        }
        specs = []
        for result in results:
            declared = result.inputs[0] if result.inputs else Port(0)
            source = sources.get(result.id)
            position, port = ports.get(source, (-1, None)) if source else (-1, None)
            names = _remove_duplicates(result.name)
            if source is not None and port is not None:
                producer = producers[source[0]]
                layer_name = producer.name if len(producer.outputs) == 1 else f"{producer.name}.{position}"
                names = _remove_duplicates(*declared.names, *port.names, layer_name, result.name)
                declared = port
            specs.append(TensorSpec(names, declared.element_type, declared.shape, result, port))
        return specs

    def input(self, key: int | str = 0) -> TensorSpec:
        """Return an input.

        Args:
            key: Its position or one of its names.

        Raises:
            ModelError: There is no such input.
        """
        return _get_tensor(self.inputs, key, "input")

    def output(self, key: int | str = 0) -> TensorSpec:
        """Return an output.

        Args:
            key: Its position or one of its names.

        Raises:
            ModelError: There is no such output.
        """
        return _get_tensor(self.outputs, key, "output")

    def add_outputs(self, names: str | Sequence[str]) -> list[TensorSpec]:
        """Turn intermediate values into outputs. Values that are outputs already are not added again.

        Args:
            names: One or more names, each a tensor name, the name of the producer, or `layer.port`.

        Returns:
            One output per name.

        Raises:
            ModelError: A value does not exist.
        """
        output_names = OutputNames(self.graph)
        addresses = [(name, output_names.find(name)) for name in ([names] if isinstance(names, str) else names)]
        result_ids = {layer.id for layer in self.graph.find_layers("Result")}
        results = {
            (e.from_layer, e.from_port): e.to_layer for e in reversed(self.graph.edges) if e.to_layer in result_ids
        }
        for name, address in addresses:
            if address not in results:
                results[address] = self.graph.add_result(name, address).id
        tensors = {tensor.layer.id: tensor for tensor in self.outputs}
        return [tensors[results[address]] for _, address in addresses]

    def reshape(self, shapes: Sequence[Any] | Mapping[Any, Any]) -> None:
        """Change the declared shapes of inputs, and discard those of all values that are computed from them.

        Args:
            shapes: The shapes by name or position of the input, or the shape of the only input. Dimensions are those
                that `PartialShape` accepts: integers, -1 for a dynamic dimension, texts such as "1..8".

        Raises:
            ModelError: An input does not exist, or a single shape was passed but the model does not have one input.
            ValueError: A dimension is invalid.
        """
        if not isinstance(shapes, Mapping):
            if len(self.inputs) != 1:
                raise ModelError(
                    f"expected shapes by the names of inputs; the model has {_describe_tensors(self.inputs)}"
                )
            shapes = {0: shapes}
        new_shapes = [(self.input(key).layer, PartialShape(shape)) for key, shape in shapes.items()]
        inputs = {id(layer) for layer in self.graph.find_layers("Parameter")}
        for _, layer in self.graph.walk():
            if layer.type == "Constant":
                continue
            for port in (*layer.inputs, *(() if id(layer) in inputs else layer.outputs)):
                port.shape = None
            if layer.type == "Parameter" and id(layer) not in inputs:
                layer.attributes["shape"] = "..."
        for layer, shape in new_shapes:
            layer.outputs[0].shape = shape
            layer.attributes["shape"] = str(shape)[1:-1]


def index_names(tensors: Sequence[TensorSpec]) -> Mapping[str, int]:
    """Return the position of the tensor that each name refers to.

    A tensor name takes precedence over the name of a layer. Among equal names, the first tensor takes precedence.
    """
    positions: dict[str, int] = {}
    for position, tensor in enumerate(tensors):
        for name in tensor.tensor_names:
            positions.setdefault(name, position)
    for position, tensor in enumerate(tensors):
        for name in tensor.names:
            positions.setdefault(name, position)
    return positions


def _remove_duplicates(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for n in names if n))


def _get_tensor(tensors: list[TensorSpec], key: int | str, kind: str) -> TensorSpec:
    position = key if isinstance(key, int) else index_names(tensors).get(key, -1)
    if 0 <= position < len(tensors):
        return tensors[position]
    raise ModelError(f"unknown {kind} {key!r}; the model has {_describe_tensors(tensors)}")


def _describe_tensors(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "none"
