"""The structure of a model for the page: layers, graphs of bodies, and groups."""

from __future__ import annotations

import re
from typing import Any

from irrun.inspection.connections import ConnectionTable, Source
from irrun.inspection.keys import KeyTable
from irrun.inspection.modules import find_modules
from irrun.inspection.report.groups import Group, build_groups
from irrun.inspection.report.summaries import shorten
from irrun.ir.graph import Body, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers

__all__ = ["Structure", "name_model"]

#: Generic file names, which are shown with their folder.
GENERIC_STEMS = ("model", "openvino_model", "saved_model")
#: Maximum number of layers of a page.
MAX_LAYERS = 50_000
#: Maximum number of attributes and of ports listed per layer.
MAX_ATTRIBUTES = 60
MAX_PORTS = 200


class Structure:
    """The layers and graphs of a model, numbered in the order of execution, bodies after the layer that owns them.

    Args:
        model: The model.
        first: The number of the first layer, if other layers precede it.
        first_graph: The number of the first graph.

    Attributes:
        model: The model.
        first: The number of the first layer.
        first_graph: The number of the first graph.
        table: The keys of the model.
        layers: The layers by number, at most `MAX_LAYERS`.
        graphs: The graphs by number; number 0 is the model's.
        numbers: The numbers of the layers by `id`.
        omitted: The number of layers beyond the maximum.
    """

    def __init__(self, model: Model, first: int = 0, first_graph: int = 0) -> None:
        self.model = model
        self.first, self.first_graph = first, first_graph
        self.table = KeyTable(model)
        self.layers: list[Layer] = []
        self.graphs: list[Graph] = []
        self.numbers: dict[int, int] = {}
        self.omitted = 0
        self._tags: list[str] = []
        self._owners: list[Layer | None] = []
        self._graph_numbers: dict[int, int] = {}
        self._connections = ConnectionTable(self.table)
        self._add_graph(model.graph, None, "")

    def get_sources(self, layer: Layer) -> list[Source | None]:
        """Return the source of each input: a layer and the position of its output port.

        Args:
            layer: The layer.
        """
        return self._connections.get(layer).find_sources(layer)

    def is_constant(self, layer: Layer) -> bool:
        """Return whether a layer depends only on constants; the page then draws it as a part of its consumers.

        Args:
            layer: The layer.
        """
        return self._connections.is_constant(layer)

    def get_depth(self, layer: Layer) -> int:
        """Return the number of bodies that contain a layer."""
        depth, owner = 0, self.table.get_owner(layer)
        while owner is not None:
            depth, owner = depth + 1, self.table.get_owner(owner)
        return depth

    def describe_layers(self) -> list[dict[str, Any]]:
        """Return the layers for JSON."""
        return [self._describe_layer(layer) for layer in self.layers]

    def describe_graphs(self) -> list[dict[str, Any]]:
        """Return the graphs and their groups for JSON."""
        paths = find_modules(self.model)
        result = []
        for graph, tag, owner in zip(self.graphs, self._tags, self._owners, strict=True):
            layers = [n for n in sort_layers(graph) if id(n) in self.numbers and not self.is_constant(n)]
            number = None if owner is None else self.numbers[id(owner)]
            edges = [(source.layer, n) for n in layers for source in self.get_sources(n) if source is not None]
            root = self._describe_group(build_groups(layers, paths, edges))
            description = {"owner": number, "tag": tag, "members": root["members"]}
            if owner is not None:
                description.update(self._describe_port_map(owner, owner.bodies[tag]))
            result.append(description)
        return result

    def _describe_port_map(self, owner: Layer, body: Body) -> dict[str, Any]:
        """Return the connections of a body, with positions of ports and numbers of layers."""
        numbers = {layer.id: self.numbers.get(id(layer)) for layer in body.graph.layers}

        def describe(entries: list[PortMapEntry], ports: list[Port]) -> list[list[int | None]]:
            positions = {port.id: i for i, port in enumerate(ports)}
            return [
                [positions[entry.external_port_id], numbers[entry.internal_layer_id], entry.axis]
                for entry in entries[:MAX_PORTS]
                if entry.external_port_id in positions and numbers.get(entry.internal_layer_id) is not None
            ]

        edges = [[numbers.get(edge.from_layer), numbers.get(edge.to_layer)] for edge in body.back_edges[:MAX_PORTS]]
        return {
            "inputs": describe(body.inputs, owner.inputs),
            "outputs": describe(body.outputs, owner.outputs),
            "back_edges": [edge for edge in edges if None not in edge],
        }

    def _add_graph(self, graph: Graph, owner: Layer | None, tag: str) -> None:
        self._graph_numbers[id(graph)] = self.first_graph + len(self.graphs)
        self.graphs.append(graph)
        self._tags.append(tag)
        self._owners.append(owner)
        for layer in sort_layers(graph):
            if len(self.layers) >= MAX_LAYERS:
                self.omitted += 1
                continue
            self.numbers[id(layer)] = self.first + len(self.layers)
            self.layers.append(layer)
            for name, body in layer.bodies.items():
                self._add_graph(body.graph, layer, name)

    def _describe_layer(self, layer: Layer) -> dict[str, Any]:
        inputs = [
            None
            if source is None or id(source.layer) not in self.numbers
            else [self.numbers[id(source.layer)], source.port]
            for source in self.get_sources(layer)[:MAX_PORTS]
        ]
        attributes = list(layer.attributes.items())[:MAX_ATTRIBUTES]
        description: dict[str, Any] = {
            "key": shorten(self.table.get_path(layer)),
            "name": shorten(layer.name),
            "type": shorten(layer.type, 80),
            "version": shorten(layer.version, 40),
            "graph": self._graph_numbers[id(self.table.get_graph(layer))],
            "inputs": inputs,
            "outputs": [_describe_port(port) for port in layer.outputs[:MAX_PORTS]],
        }
        if attributes:
            description["attributes"] = {shorten(name, 80): shorten(str(value)) for name, value in attributes}
        if layer.bodies:
            numbers = [self._graph_numbers.get(id(body.graph)) for body in layer.bodies.values()]
            description["bodies"] = [number for number in numbers if number is not None]
        if self.is_constant(layer):
            description["constant"] = True
        if layer.constant is not None and layer.constant.data is not None:
            description["bytes"] = len(layer.constant.data)
        return description

    def _describe_group(self, group: Group) -> dict[str, Any]:
        members = [
            self._describe_group(member) if isinstance(member, Group) else self.numbers[id(member)]
            for member in group.members
        ]
        return {"label": group.label, "members": members}


def name_model(model: Model) -> list[str]:
    """Return the name of a model's file, with its folder if the name is generic, and the model's name if it differs.

    Generated names such as OpenVINO's "Model27" are omitted if there is a file name.

    Args:
        model: The model.
    """
    names = []
    if model.path is not None:
        path = model.path.absolute() if model.path.stem in GENERIC_STEMS else model.path
        names.append(f"{path.parent.name}/{path.name}" if path.stem in GENERIC_STEMS else path.name)
    is_generated = model.path is not None and re.fullmatch(r"Model\d+", model.name or "")
    if model.name and not is_generated and (model.path is None or model.name != model.path.stem):
        names.append(model.name)
    return [shorten(name, 200) for name in names or ["model"]]


def _describe_port(port: Port) -> dict[str, Any]:
    description: dict[str, Any] = {
        "type": str(port.element_type or "any"),
        "shape": "[...]" if port.shape is None else shorten(str(port.shape), 120),
    }
    if port.names:
        description["names"] = [shorten(name) for name in port.names[:8]]
    return description
