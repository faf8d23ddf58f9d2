"""How models use integer inputs: as indices of tables, lengths of sequences, or cases to compare."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from irrun.ir.graph import Graph, Layer, OutputAddress
from irrun.ir.model import Model
from irrun.ops._support import registry

__all__ = ["IntegerUse", "find_integer_uses"]

Shape = tuple[int, ...]

#: Names of inputs that are the lengths of sequences.
LENGTH_NAMES = ("sequence_lengths", "sequence_length", "seq_lengths")
#: Maximum number of layers that are visited for one input.
MAX_VISITS = 20_000


@dataclass
class IntegerUse:
    """The use of an input's integers in a model.

    Attributes:
        limit: The values must be less than this; None if nothing limits them.
        minimum: The values must be at least this.
        cases: Constants that the values are compared with.
    """

    limit: int | None = None
    minimum: int = 0
    cases: list[int] = field(default_factory=list)

    def add_limit(self, limit: int, minimum: int = 0) -> None:
        """Limit the values; they are at least 0 in any case."""
        self.minimum = max(self.minimum, minimum)
        self.limit = max(1, limit if self.limit is None else min(self.limit, limit))


def find_integer_uses(model: Model, inferred: Mapping[OutputAddress, Shape]) -> list[IntegerUse]:
    """Return how a model uses the integers of each input.

    Args:
        model: The model.
        inferred: The shapes of output ports, by the ids of the layer and the port, as far as they are known.
    """
    connections: dict[int, _Connections] = {}
    return [_find_use(tensor.layer, model.graph, inferred, connections) for tensor in model.inputs]


class _Connections:
    """The consumers and producers of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.layers = {layer.id: layer for layer in graph.layers}
        self.sources: dict[tuple[int, int], OutputAddress] = {}
        self.consumers: dict[int, list[tuple[Layer, int]]] = {}
        for edge in graph.edges:
            consumer = self.layers.get(edge.to_layer)
            if consumer is None:
                continue
            self.sources[edge.to_layer, edge.to_port] = edge.from_layer, edge.from_port
            position = next((i for i, port in enumerate(consumer.inputs) if port.id == edge.to_port), -1)
            self.consumers.setdefault(edge.from_layer, []).append((consumer, position))

    def find_source(self, layer: Layer, position: int) -> OutputAddress | None:
        """Return the output port that an input of a layer is connected with."""
        if position >= len(layer.inputs):
            return None
        return self.sources.get((layer.id, layer.inputs[position].id))

    def find_constant(self, layer: Layer, position: int) -> list[int] | None:
        """Return the integers of a small Constant that is an input of a layer, or None."""
        address = self.find_source(layer, position)
        source = None if address is None else self.layers.get(address[0])
        while source is not None and source.type in ("Convert", "Reshape", "Squeeze", "Unsqueeze"):
            address = self.find_source(source, 0)
            source = None if address is None else self.layers.get(address[0])
        constant = None if source is None else source.constant
        if constant is None or constant.data is None or math.prod(constant.shape) > 64:
            return None
        values = constant.to_array()
        if values.dtype.kind not in "iu" and not (values.dtype.kind == "f" and np.all(values == np.trunc(values))):
            return None
        return [int(value) for value in values.reshape(-1)]


def _keeps_elements(layer: Layer, position: int) -> bool:
    """Return whether the outputs of a layer contain elements of an input, perhaps in another type."""
    operation = registry.find(layer.type, layer.version)
    if operation is None:
        return False
    if operation.kind in ("movement", "view"):
        return position == 0 or operation.concatenates
    names = [each.name for each in operation.inputs]
    return (operation.extremes == "kept" and position == 0) or names[position : position + 1] in (["then"], ["else_"])


def _find_use(
    parameter: Layer, graph: Graph, inferred: Mapping[OutputAddress, Shape], cache: dict[int, _Connections]
) -> IntegerUse:
    use = IntegerUse()
    queue: list[tuple[Graph, Layer, int]] = [(graph, parameter, 0)]  # layers with the values, and what was added
    seen = {id(parameter)}
    while queue and len(seen) < MAX_VISITS:
        owner, layer, offset = queue.pop()
        connections = cache.get(id(owner))
        if connections is None:
            connections = cache[id(owner)] = _Connections(owner)
        known = inferred if owner is graph else {}
        for consumer, position in connections.consumers.get(layer.id, ()):
            _describe(use, connections, consumer, position, offset, known)
            for next_graph, following, added in _follow(connections, owner, consumer, position):
                if id(following) not in seen:
                    seen.add(id(following))
                    queue.append((next_graph, following, offset + added))
    return use


def _describe(
    use: IntegerUse,
    connections: _Connections,
    layer: Layer,
    position: int,
    offset: int,
    inferred: Mapping[OutputAddress, Shape],
) -> None:
    """Add how a layer uses the values of one of its inputs."""
    operation = registry.find(layer.type, layer.version)
    names = [] if operation is None else [each.name for each in operation.inputs]
    name = names[position] if 0 <= position < len(names) else ""
    axes = _find_axes(connections, layer, names) if name == "indices" and position == 1 else None
    if axes is not None:
        size = _find_size(connections, layer, 0, axes[0], inferred) if axes else None
        use.add_limit((1 if size is None else size) - offset)  # index 0 exists in all tables
    elif "depth" in names and position == 0:
        depth = connections.find_constant(layer, names.index("depth"))
        if depth:
            use.add_limit(depth[0] - offset)
    elif name in LENGTH_NAMES:
        size = _find_size(connections, layer, 0, int(layer.attributes.get("seq_axis", 1)), inferred)
        use.add_limit((1 if size is None else size) + 1 - offset, 1)
    elif operation is not None and operation.extremes == "ends or equality":
        for value in connections.find_constant(layer, 1 - position) or ():
            if value - offset not in use.cases:
                use.cases.append(value - offset)


def _find_axes(connections: _Connections, layer: Layer, names: Sequence[str]) -> list[int] | None:
    """Return the axis of the first input that the second input indexes; none if it is not known.

    None means indices of several axes.

    Args:
        connections: The connections of the graph.
        layer: The layer.
        names: The names of its inputs.
    """
    if "axis" in names:
        return connections.find_constant(layer, names.index("axis")) or []
    if "axis" in layer.attributes:
        return [int(layer.attributes["axis"])]
    return [0] if names[0] == "emb_table" else None


def _find_size(
    connections: _Connections, layer: Layer, position: int, axis: int, inferred: Mapping[OutputAddress, Shape]
) -> int | None:
    """Return the size of an axis of an input of a layer, or None if it is not known."""
    address = connections.find_source(layer, position)
    if address is None:
        return None
    source = connections.layers[address[0]]
    if source.constant is not None:
        shape: Shape | None = source.constant.shape
    else:
        shape = inferred.get(address)
    declared = next((port.shape for port in source.outputs if port.id == address[1]), None)
    dimensions = shape if shape is not None else declared
    if dimensions is None or not -len(dimensions) <= axis < len(dimensions):
        return None
    size = dimensions[axis]
    return int(size) if isinstance(size, int) else None


def _follow(connections: _Connections, graph: Graph, layer: Layer, position: int) -> Iterator[tuple[Graph, Layer, int]]:
    """Yield the layers with outputs that contain the values, in bodies too, each with the added offset."""
    if _keeps_elements(layer, position):
        yield graph, layer, 0
    elif layer.type in ("Add", "Subtract") and (layer.type == "Add" or position == 0):
        added = connections.find_constant(layer, 1 - position)
        if added is not None and len(added) == 1:
            yield graph, layer, added[0] if layer.type == "Add" else -added[0]
    for body in layer.bodies.values():
        parameters = {parameter.id: parameter for parameter in body.graph.find_layers("Parameter")}
        for entry in body.inputs:
            is_passed = 0 <= position < len(layer.inputs) and entry.external_port_id == layer.inputs[position].id
            if is_passed and entry.internal_layer_id in parameters:
                yield body.graph, parameters[entry.internal_layer_id], 0
