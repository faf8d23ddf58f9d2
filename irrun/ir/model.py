"""A model as its file states it: graphs of layers with ports, joined by edges; bodies with their port maps."""

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
    "Place",
    "Places",
    "Port",
    "PortMapEntry",
    "TensorSpec",
]

#: An output port, by layer and port id.
Place = tuple[int, int]


@dataclass(slots=True)
class Port:
    """One input or output port of a layer.

    Attributes:
        id: its number, unique within the layer.
        element_type: as declared, or None.
        shape: as declared; None where the rank is unknown or nothing is declared.
        names: the tensor names (output ports; of a Result's input port, the names of the model's output).
        rt_info: the `rt_info` element as text, or None.
    """

    id: int
    element_type: ElementType | None = None
    shape: PartialShape | None = None
    names: tuple[str, ...] = ()
    rt_info: str | None = None


class Edge(NamedTuple):
    """From an output port to an input port, by layer and port ids."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int


@dataclass(slots=True)
class PortMapEntry:
    """One `input` or `output` of a port map, as the file writes it.

    Attributes:
        external_port_id: a port of the layer that owns the body; -1 for none.
        internal_layer_id: a Parameter (input) or Result (output) of the body.
        axis: the axis sliced or concatenated along; None where the whole value passes.
        purpose: "current_iteration", "execution_condition" or "".
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
    """From a Result of a body to one of its Parameters, by layer ids."""

    from_layer: int
    to_layer: int
    line: int = 0


@dataclass(slots=True)
class Layer:
    """One layer.

    Attributes:
        id: its number, unique within its graph.
        name: may be empty.
        type: as the file spells it, but "Constant" for "Const".
        version: "opset8", "extension", ...; "opset1" where the file names none.
        attributes: texts for a layer from a file; Python values (bool, int, float, str, list, ElementType) for a
            layer made by code.
        inputs, outputs: its ports in the order of the file.
        bodies: by element name: "body", "then_body", "else_body".
        constant: The value of a Constant; None for other layers, and for a Constant that is a placeholder or invalid.
        rt_info: the `rt_info` element as text, or None.
        line: where it begins in the file; 0 where it does not come from a file.
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
        """The layer in the words of error messages."""
        name = f" {self.name!r}" if self.name else ""
        return f"layer {self.id}{name} ({self.type}, {self.version})"


@dataclass(slots=True)
class Body:
    """A nested graph with the rules that join it to the layer that owns it."""

    graph: Graph
    inputs: list[PortMapEntry] = field(default_factory=list)
    outputs: list[PortMapEntry] = field(default_factory=list)
    back_edges: list[BackEdge] = field(default_factory=list)


@dataclass(slots=True, repr=False)
class Graph:
    """Layers and the edges between them."""

    layers: list[Layer] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    name: str = ""
    rt_info: str | None = None

    def __repr__(self) -> str:
        return f"<Graph: {self.name!r}, {len(self.layers)} layers, {len(self.edges)} edges>"

    def of_type(self, *types: str) -> list[Layer]:
        """The layers of these types, in the order of the file."""
        return [layer for layer in self.layers if layer.type in types]

    def walk(self) -> Iterator[tuple[Graph, Layer]]:
        """Every layer with its graph, bodies included, in the order of the file."""
        stack = [(self, iter(self.layers))]
        while stack:
            graph, layers = stack[-1]
            layer = next(layers, None)
            if layer is None:
                stack.pop()
                continue
            yield graph, layer
            stack.extend((b.graph, iter(b.graph.layers)) for b in reversed(layer.bodies.values()))

    def add_result(self, name: str, place: Place) -> Layer:
        """A new Result of the value at `place`, joined to it, called after `name`."""
        id = max((layer.id for layer in self.layers), default=-1) + 1
        maker = next(layer for layer in self.layers if layer.id == place[0])
        port = next(p for p in maker.outputs if p.id == place[1])
        result = Layer(id, f"{name}/result", "Result", inputs=[Port(0, port.element_type, port.shape)])
        self.layers.append(result)
        self.edges.append(Edge(*place, id, 0))
        return result


class Places:
    """Finds the values of a graph by name: a tensor name, the layer that makes it, or `layer.port`.

    Where one name means several values, a tensor name comes before the name of a layer, and the first layer first.
    """

    def __init__(self, graph: Graph) -> None:
        self.by_name: dict[str, Place] = {}
        places = [(layer, i, port) for layer in graph.layers for i, port in enumerate(layer.outputs)]
        for layer, _, port in places:
            for name in port.names:
                self.by_name.setdefault(name, (layer.id, port.id))
        for layer, i, port in places:
            for name in [layer.name, f"{layer.name}.{i}"] if i == 0 else [f"{layer.name}.{i}"]:
                self.by_name.setdefault(name, (layer.id, port.id))

    def find(self, name: str) -> Place:
        """Where the value is made.

        Raises:
            ModelError: there is none of that name; those of similar names are told.
        """
        if name not in self.by_name:
            import difflib

            near = difflib.get_close_matches(name, self.by_name, 3)
            raise ModelError(f"no value {name!r}" + (f"; is it {', '.join(near)}?" if near else ""))
        return self.by_name[name]


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """An input or output of a model as its users see it, after OpenVINO's `ov::Output`.

    Attributes:
        names: every name it is known by: tensor names first, then the layer's name.
        element_type: as declared, or None.
        partial_shape: as declared; None for an unknown rank.
        layer: the Parameter or Result that stands for it.
        port: the output port that makes it.
    """

    names: tuple[str, ...]
    element_type: ElementType | None
    partial_shape: PartialShape | None
    layer: Layer
    port: Port | None = None

    def __hash__(self) -> int:  # so that it can be the key of an input
        return hash((self.names, self.layer.id))

    @property
    def tensor_names(self) -> frozenset[str]:
        """Those of its names that the file gives the tensor itself, not the layer."""
        ports = [*([self.port] if self.port else []), *self.layer.inputs[:1]]
        return frozenset(name for port in ports for name in port.names)

    @property
    def any_name(self) -> str:
        """One of its names; the first tensor name where there is one.

        Raises:
            ModelError: it has none.
        """
        if not self.names:
            raise ModelError("the tensor has no name", layer=self.layer.describe())
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape.

        Raises:
            ModelError: the shape is dynamic.
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
    """A model: its graph, its weights, and what else the file holds.

    Attributes:
        version: of the IR, 10 or 11 (files of older versions are upgraded as they are read).
        path: the .xml it was read from, or None.
        rt_info, meta_data: these elements as text, or None.
        source_version: the version that the file itself states.
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
        """The name that the file gives the network."""
        return self.graph.name

    @property
    def inputs(self) -> list[TensorSpec]:
        """One per Parameter, in the order of the file."""
        found = []
        for layer in self.graph.of_type("Parameter"):
            port = layer.outputs[0] if layer.outputs else Port(0)
            names = _unique(*port.names, layer.name)
            found.append(TensorSpec(names, port.element_type, port.shape, layer, port))
        return found

    @property
    def outputs(self) -> list[TensorSpec]:
        """One per Result, in the order of the file; names and type are those of the port that feeds it."""
        results = self.graph.of_type("Result")
        wanted = {layer.id for layer in results}
        sources = {e.to_layer: (e.from_layer, e.from_port) for e in self.graph.edges if e.to_layer in wanted}
        needed = {layer_id for layer_id, _ in sources.values()}
        makers = {layer.id: layer for layer in self.graph.layers if layer.id in needed}
        ports = {
            (m.id, port.id): (i, port) for m in makers.values() for i, port in reversed(list(enumerate(m.outputs)))
        }
        found = []
        for result in results:
            source = sources.get(result.id, (-1, -1))
            position, port = ports.get(source, (-1, None))
            names = _unique(result.name)
            if port is not None:
                maker = makers[source[0]]
                own = (maker.name,) if len(maker.outputs) == 1 else (f"{maker.name}.{position}",)
                given = result.inputs[0].names if result.inputs else ()
                names = _unique(*given, *port.names, *own, result.name)
            declared = port or (result.inputs[0] if result.inputs else Port(0))
            found.append(TensorSpec(names, declared.element_type, declared.shape, result, port))
        return found

    def input(self, key: int | str = 0) -> TensorSpec:
        """The input at a position or of a name.

        Raises:
            ModelError: there is none.
        """
        return _pick(self.inputs, key, "input")

    def output(self, key: int | str = 0) -> TensorSpec:
        """The output at a position or of a name.

        Raises:
            ModelError: there is none.
        """
        return _pick(self.outputs, key, "output")

    def add_outputs(self, names: str | Sequence[str]) -> list[TensorSpec]:
        """Make values inside the model outputs, too; one that is an output already stays the one it is.

        Args:
            names: each a tensor name, the name of the layer that makes the value, or `layer.port`.

        Returns:
            The outputs, one per name.

        Raises:
            ModelError: there is no such value.
        """
        places = Places(self.graph)
        wanted = [(name, places.find(name)) for name in ([names] if isinstance(names, str) else names)]
        results = {layer.id for layer in self.graph.of_type("Result")}
        known = {(e.from_layer, e.from_port): e.to_layer for e in reversed(self.graph.edges) if e.to_layer in results}
        for name, place in wanted:
            if place not in known:
                known[place] = self.graph.add_result(name, place).id
        tensors = {tensor.layer.id: tensor for tensor in self.outputs}
        return [tensors[known[place]] for _, place in wanted]

    def reshape(self, shapes: Sequence[Any] | Mapping[Any, Any]) -> None:
        """Declare other shapes for inputs, and forget those of all that is computed from them.

        Args:
            shapes: {name or position: shape}, or the shape of the only input; dimensions as `PartialShape` takes
                them: integers, -1 for an open one, texts such as "1..8".

        Raises:
            ModelError: there is no such input, or a shape without a name where there are several.
            ValueError: a dimension cannot be read.
        """
        if not isinstance(shapes, Mapping):
            if len(self.inputs) != 1:
                raise ModelError(f"a shape needs the name of an input; the model has {_told(self.inputs)}")
            shapes = {0: shapes}
        wanted = [(self.input(key).layer, PartialShape(shape)) for key, shape in shapes.items()]
        inputs = {id(layer) for layer in self.graph.of_type("Parameter")}
        for _, layer in self.graph.walk():
            if layer.type == "Constant":
                continue
            for port in (*layer.inputs, *(() if id(layer) in inputs else layer.outputs)):
                port.shape = None
            if layer.type == "Parameter" and id(layer) not in inputs:
                layer.attributes["shape"] = "..."
        for layer, shape in wanted:
            layer.outputs[0].shape = shape
            layer.attributes["shape"] = str(shape)[1:-1]


def _unique(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for n in names if n))


def _pick(tensors: list[TensorSpec], key: int | str, what: str) -> TensorSpec:
    if isinstance(key, int):
        if 0 <= key < len(tensors):
            return tensors[key]
    else:
        position = index_names(tensors).get(key)
        if position is not None:
            return tensors[position]
    raise ModelError(f"no {what} {key!r}; the model has {_told(tensors)}")


def _told(tensors: Sequence[TensorSpec]) -> str:
    return "; ".join(map(str, tensors)) or "none"


def index_names(tensors: Sequence[TensorSpec]) -> Mapping[str, int]:
    """Every name -> the position it stands for; of two, a tensor name wins over a layer's, then the first one."""
    found: dict[str, int] = {}
    for position, tensor in enumerate(tensors):
        for name in tensor.tensor_names:
            found.setdefault(name, position)
    for position, tensor in enumerate(tensors):
        for name in tensor.names:
            found.setdefault(name, position)
    return found
