"""Parts of a model with the values at their boundaries, for any set of layers, in bodies too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.inspection.connections import Connections, find_free_ids
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import LayerMatches, is_transparent
from irrun.ir.extract import extract_between
from irrun.ir.graph import Body, Edge, Graph, Layer, OutputAddress, Port
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers
from irrun.shapes import PartialShape

__all__ = ["Counterpart", "Frame", "Part", "add_probes"]

Array = np.ndarray[Any, Any]

#: The name of the Identity after a Parameter of a body, which makes its value recordable.
PROBE = "irrun/parameter/{}"


@dataclass
class Part:
    """A part of a model that can be run.

    Attributes:
        model: The part.
        inputs: Its inputs, in the order of the Parameters.
        keys: The keys of its layers, without layers that compute constants.
        counterpart: The corresponding part of another model, or None.
        counterpart_inputs: The inputs of the counterpart.
        positions: For each output, its position in the counterpart, or None.
    """

    model: Model
    inputs: list[Array]
    keys: list[str] = field(default_factory=list)
    counterpart: Model | None = None
    counterpart_inputs: list[Array] = field(default_factory=list)
    positions: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Counterpart:
    """The graph of another model that corresponds to a graph.

    Attributes:
        model: The other model, for its weights.
        graph: Its graph, or the graph of one of its bodies.
        matches: Layers of the model -> layers of the other model.
    """

    model: Model
    graph: Graph
    matches: LayerMatches


class Frame:
    """The graph of the model or of a body in one iteration, with the values of a run.

    Args:
        model: The model.
        graph: The graph.
        table: The keys of the model.
        values: The values of the run by key.
        prefix: The owners of the bodies that contain the graph, with their iterations.
        counterpart: The corresponding graph of another model, or None.

    Attributes:
        atoms: The ids of the layers in the order of execution. Layers that share a variable are in one group.
    """

    def __init__(
        self,
        model: Model,
        graph: Graph,
        table: KeyTable,
        values: Mapping[str, Array],
        prefix: str = "",
        counterpart: Counterpart | None = None,
    ) -> None:
        self.model = model
        self.graph = graph
        self.table = table
        self.values = values
        self.prefix = prefix
        self.counterpart = counterpart
        self._connections = Connections(graph)
        self.layers = self._connections.layers
        self.atoms = self._group_layers()
        self._consumers: dict[OutputAddress, list[int]] = {}
        for edge in graph.edges:
            self._consumers.setdefault((edge.from_layer, edge.from_port), []).append(edge.to_layer)
        self._partners = {} if counterpart is None else _match_parameters(graph, counterpart)

    def make_part(self, ids: Collection[int]) -> Part | None:
        """Return the part that consists of some layers and the constants that they depend on.

        Args:
            ids: The ids of the layers.

        Returns:
            The part. None if a value at its boundary was not reached, or is missing in the counterpart.
        """
        inputs = {address: self.get_key(address) for address in self._find_inputs(ids)}
        arrays = {address: value for address in inputs if (value := self._find_value(address)) is not None}
        targets = [(address, self.get_key(address)) for address in self._find_outputs(ids)]
        if not targets or len(arrays) < len(inputs):
            return None
        cuts = {a: key for a, key in inputs.items() if not self.layers[a[0]].is_input}
        source = Model(self.graph, self.model.weights)
        part = Part(extract_between(source, cuts, targets), [], self.get_keys(ids))
        addresses = {key: address for address, key in cuts.items()}
        for i, layer in enumerate(part.model.graph.layers):
            if layer.is_input:
                is_original = layer.id in self.layers
                address = (layer.id, layer.outputs[0].id) if is_original else addresses[layer.name]
                # The kernel may have returned another type than the declared one.
                value = _convert(arrays[address], layer.outputs[0].element_type)
                part.model.graph.layers[i] = _declare(layer, value)
                part.inputs.append(value)
        if self.counterpart is not None and not self._add_counterpart(part, arrays, [a for a, _ in targets]):
            return None
        return part

    def get_keys(self, ids: Collection[int]) -> list[str]:
        """Return the keys of layers in the order of execution.

        Args:
            ids: The ids of the layers.
        """
        return [self.prefix + self.table.get_key(self.layers[i]) for group in self.atoms for i in group if i in ids]

    def get_key(self, address: OutputAddress) -> str:
        """Return the key of a value without the owners of bodies.

        Args:
            address: The output port.
        """
        layer = self.layers[address[0]]
        return self.table.get_value_key(layer, [port.id for port in layer.outputs].index(address[1]))

    def enter(self, owner: Layer) -> Iterator[Frame]:
        """Iterate over the recorded iterations of the bodies of a layer.

        Args:
            owner: The layer.

        Yields:
            The frames of the bodies.
        """
        start = f"{self.prefix}{self.table.get_key(owner)}["
        pattern = re.compile(re.escape(start) + r"(\d+)\]/")
        matches = (pattern.match(key) for key in self.values)
        iterations = sorted({int(match[1]) for match in matches if match})
        counterparts = {tag: self._find_body(owner, tag) for tag in owner.bodies}
        for iteration in iterations:
            for tag, body in owner.bodies.items():
                if self.counterpart is None or counterparts[tag] is not None:
                    prefix = f"{start}{iteration}]/"
                    yield Frame(self.model, body.graph, self.table, self.values, prefix, counterparts[tag])

    def _group_layers(self) -> list[tuple[int, ...]]:
        constants = self._connections.constants
        groups: dict[object, list[int]] = {}
        for layer in sort_layers(self.graph):
            if layer.id in constants or layer.is_structural:
                continue
            variable = layer.attributes.get("variable_id") if layer.reads_variable or layer.writes_variable else None
            groups.setdefault(layer.id if variable is None else ("variable", variable), []).append(layer.id)
        return [tuple(group) for group in groups.values()]

    def _find_inputs(self, ids: Collection[int]) -> list[OutputAddress]:
        """Return the outside values that some layers use, in order of use."""
        constants = self._connections.constants
        addresses: dict[OutputAddress, None] = {}
        for group in self.atoms:
            for layer_id in group:
                if layer_id not in ids:
                    continue
                for port in self.layers[layer_id].inputs:
                    address = self._connections.addresses.get((layer_id, port.id))
                    if address is not None and address[0] not in ids and address[0] not in constants:
                        addresses[address] = None
        return list(addresses)

    def _find_outputs(self, ids: Collection[int]) -> list[OutputAddress]:
        """Return the values of some layers that other layers use; if there are none, the unused values."""
        ports = [(i, port.id) for group in self.atoms for i in group if i in ids for port in self.layers[i].outputs]
        used = [a for a in ports if any(consumer not in ids for consumer in self._consumers.get(a, ()))]
        return used or [a for a in ports if not self._consumers.get(a)]

    def _find_value(self, address: OutputAddress) -> Array | None:
        key = self.prefix + self.get_key(address)
        if key not in self.values:
            key = self.prefix + PROBE.format(address[0])
        return self.values.get(key)

    def _add_counterpart(
        self, part: Part, arrays: Mapping[OutputAddress, Array], targets: Sequence[OutputAddress]
    ) -> bool:
        """Add the corresponding part of the other model, and return whether there is one."""
        assert self.counterpart is not None
        cuts: dict[OutputAddress, str] = {}
        values: dict[str, Array] = {}
        for address, value in arrays.items():
            partner = self._find_partner(address)
            if partner is None:
                return False
            name = self.get_key(address)
            cuts.setdefault(partner, name)
            values[name] = value
        ends = [self._find_partner(address) for address in targets]
        names = [self.get_key(address) for address in targets]
        pairs = [(partner, name) for partner, name in zip(ends, names, strict=True) if partner is not None]
        if len(pairs) < len(targets):
            return False
        source = Model(self.counterpart.graph, self.counterpart.model.weights)
        other = extract_between(source, cuts, pairs)
        for i, layer in enumerate(other.graph.layers):
            if layer.is_input:
                if any(layer is original for original in self.counterpart.graph.layers):
                    return False  # the output depends on an input that the part does not have
                value = _convert(values[layer.name], layer.outputs[0].element_type)
                other.graph.layers[i] = _declare(layer, value)
                part.counterpart_inputs.append(value)
        part.counterpart = other
        part.positions = _pair_outputs(part.model, other)
        return True

    def _find_partner(self, address: OutputAddress) -> OutputAddress | None:
        """Return the output port in the other model that corresponds to a port of this graph."""
        assert self.counterpart is not None
        while True:
            layer = self.layers[address[0]]
            match = self.counterpart.matches.find(layer)
            partner = match.layer if match is not None else self._partners.get(layer.id)
            if partner is not None:
                position = [port.id for port in layer.outputs].index(address[1])
                return (partner.id, partner.outputs[position].id) if position < len(partner.outputs) else None
            if not is_transparent(layer) or not layer.inputs:
                return None
            source = self._connections.addresses.get((layer.id, layer.inputs[0].id))
            if source is None:
                return None
            address = source

    def _find_body(self, owner: Layer, tag: str) -> Counterpart | None:
        if self.counterpart is None:
            return None
        match = self.counterpart.matches.find(owner)
        if match is None or tag not in match.layer.bodies:
            return None
        return replace(self.counterpart, graph=match.layer.bodies[tag].graph)


def add_probes(model: Model) -> Model:
    """Return a model in which each Parameter of a body is followed by an Identity.

    A run records the inputs of a layer when it records its outputs. If the first layer of a body fails, only the
    Identity layers make its inputs recorded.

    Args:
        model: The model; it is not modified.
    """
    layers = [_add_probes_to_bodies(layer) for layer in model.graph.layers]
    return replace(model, graph=replace(model.graph, layers=layers))


def _add_probes_to_bodies(layer: Layer) -> Layer:
    if not layer.bodies:
        return layer
    bodies: dict[str, Body] = {}
    for tag, body in layer.bodies.items():
        graph = body.graph
        parameters = [n for n in graph.layers if n.is_input]
        free_ids = find_free_ids(graph)
        probes = {
            n.id: Layer(i, PROBE.format(n.id), "Identity", "opset16", {}, [Port(0)], [replace(n.outputs[0], id=1)])
            for i, n in zip(free_ids, parameters, strict=False)
        }
        edges = [
            Edge(probes[e.from_layer].id, 1, e.to_layer, e.to_port) if e.from_layer in probes else e
            for e in graph.edges
        ]
        edges += [Edge(n.id, n.outputs[0].id, probes[n.id].id, 0) for n in parameters]
        others = [_add_probes_to_bodies(n) for n in graph.layers if not n.is_input]
        bodies[tag] = replace(body, graph=replace(graph, layers=[*parameters, *probes.values(), *others], edges=edges))
    return replace(layer, bodies=bodies)


def _match_parameters(graph: Graph, counterpart: Counterpart) -> dict[int, Layer]:
    """Return the Parameters of a counterpart by the ids of the Parameters in the same position."""
    parameters, others = graph.find_layers("Parameter"), counterpart.graph.find_layers("Parameter")
    if len(parameters) != len(others) or any(counterpart.matches.find(layer) is not None for layer in parameters):
        return {}
    return {layer.id: other for layer, other in zip(parameters, others, strict=True)}


def _declare(layer: Layer, value: Array) -> Layer:
    """Return a Parameter with a declaration that fits a value and is as close to the file's as possible."""
    port = layer.outputs[0]
    element_type = ElementType.of(value.dtype)
    shape = port.shape
    if shape is None or not shape.is_compatible(value.shape):
        shape = PartialShape(value.shape)
    attributes = {**layer.attributes, "element_type": element_type.name, "shape": str(shape)[1:-1]}
    return replace(layer, attributes=attributes, outputs=[replace(port, element_type=element_type, shape=shape)])


def _convert(value: Array, element_type: ElementType | None) -> Array:
    """Return a floating-point value in the floating-point type that a model declares."""
    if element_type is None or not element_type.is_float or not ElementType.of(value.dtype).is_float:
        return value
    if value.dtype.fields or element_type.dtype.fields:
        return value
    with np.errstate(all="ignore"):
        return value.astype(element_type.dtype, copy=False)


def _pair_outputs(model: Model, other: Model) -> list[int | None]:
    """Return the position of each output in another part. The ids of Results ascend in both."""
    ids, other_ids = ([spec.layer.id for spec in m.outputs] for m in (model, other))
    ranks = sorted(range(len(other_ids)), key=other_ids.__getitem__)
    return [ranks[sorted(ids).index(layer_id)] for layer_id in ids]
