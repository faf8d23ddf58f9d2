"""The connections of the layers of a graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from irrun.inspection.keys import KeyTable, find_constant_layers
from irrun.ir.graph import Graph, Layer, OutputAddress

__all__ = ["ConnectionTable", "Connections", "Source", "find_free_ids"]


@dataclass(frozen=True)
class Source:
    """The source of an input: a layer and the position of its output port."""

    layer: Layer
    port: int


class Connections:
    """The sources of all layer inputs in a graph.

    Args:
        graph: The graph of a model or of a body.

    Attributes:
        graph: The graph.
        layers: The layers by id.
        addresses: Maps the layer and port ids of an input to the ids of its source.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layers = {layer.id: layer for layer in graph.layers}
        self.addresses: dict[tuple[int, int], OutputAddress] = {
            (e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges
        }

    @cached_property
    def constants(self) -> set[int]:
        """The ids of the layers whose values depend only on constants."""
        return find_constant_layers(self.graph)

    def find_sources(self, layer: Layer) -> list[Source | None]:
        """Return the sources of the inputs of a layer; None for an input that is not connected.

        Args:
            layer: A layer of the graph.
        """
        sources: list[Source | None] = []
        for port in layer.inputs:
            address = self.addresses.get((layer.id, port.id))
            if address is None:
                sources.append(None)
                continue
            producer = self.layers[address[0]]
            sources.append(Source(producer, [p.id for p in producer.outputs].index(address[1])))
        return sources

    def find_producers(self, layer: Layer) -> list[Layer]:
        """Return the layers that the connected inputs of a layer come from.

        Args:
            layer: A layer of the graph.
        """
        addresses = (self.addresses.get((layer.id, port.id)) for port in layer.inputs)
        return [self.layers[address[0]] for address in addresses if address is not None]


class ConnectionTable:
    """The connections of all graphs of a model.

    Args:
        table: The keys of the model.
    """

    def __init__(self, table: KeyTable) -> None:
        self._table = table
        self._connections: dict[int, Connections] = {}

    def get(self, layer: Layer) -> Connections:
        """Return the connections of the graph that contains a layer.

        Args:
            layer: A layer of the model.
        """
        graph = self._table.get_graph(layer)
        if id(graph) not in self._connections:
            self._connections[id(graph)] = Connections(graph)
        return self._connections[id(graph)]

    def is_constant(self, layer: Layer) -> bool:
        """Return whether the values of a layer depend only on constants.

        Args:
            layer: A layer of the model.
        """
        return layer.id in self.get(layer).constants


def find_free_ids(graph: Graph) -> Iterator[int]:
    """Iterate over unused layer ids of a graph, in ascending order.

    Args:
        graph: The graph.
    """
    used = {layer.id for layer in graph.layers}
    return (number for number in itertools.count() if number not in used)
