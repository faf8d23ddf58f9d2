"""Matching of the layers of two models: by name, otherwise by order, type and shape."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from irrun.inspection.keys import find_constant_layers
from irrun.ir.graph import Graph, Layer
from irrun.ir.structure import sort_layers
from irrun.ops._support import registry

__all__ = ["LayerMatches", "Match", "is_transparent", "match_layers"]


def is_transparent(layer: Layer) -> bool:
    """Return whether one of two models may lack a layer and still have the same values up to rounding."""
    card = registry.get_card(layer.type, layer.version)
    return card.converts or card.quantizes


def _is_ordered(layer: Layer) -> bool:
    """Return whether a layer computes something, rather than belonging to the structure of the graph."""
    return not is_transparent(layer) and not layer.is_structural


class Match(NamedTuple):
    """A layer of the reference and how it was found.

    Attributes:
        layer: The layer of the reference.
        matched_by: "name" or "order".
    """

    layer: Layer
    matched_by: str


@dataclass
class LayerMatches:
    """The matches of all layers of a model, bodies included.

    Attributes:
        matches: The matches by the `id()` of the layer.
        constants: Pairs of layers with the same name in both models, with values that depend only on constants.
    """

    matches: dict[int, Match] = field(default_factory=dict)
    constants: list[tuple[Layer, Layer]] = field(default_factory=list)

    def find(self, layer: Layer) -> Match | None:
        """Return the match of a layer, or None.

        Args:
            layer: A layer of the model.
        """
        return self.matches.get(id(layer))


def match_layers(graph: Graph, reference: Graph) -> LayerMatches:
    """Match the layers of a graph with the layers of a reference.

    Args:
        graph: The graph.
        reference: The graph of the reference.
    """
    result = LayerMatches()
    _match_graphs(graph, reference, result)
    return result


def _match_graphs(graph: Graph, reference: Graph, result: LayerMatches) -> None:
    pairs = _match_by_name(graph, reference, result)
    matched = {id(layer): Match(other, "name") for layer, other in pairs}
    for layer, other in _match_by_order(graph, reference, matched):
        matched[id(layer)] = Match(other, "order")
    for layer, other in _match_other_types(graph, reference, matched):
        matched[id(layer)] = Match(other, "name")
    for layer, other in _match_by_sources(graph, reference, matched):
        matched[id(layer)] = Match(other, "order")
    result.matches.update(matched)
    for layer in graph.layers:
        match = matched.get(id(layer))
        if match is None:
            continue
        for tag, body in layer.bodies.items():
            if tag in match.layer.bodies:
                _match_graphs(body.graph, match.layer.bodies[tag].graph, result)


def _match_by_name(graph: Graph, reference: Graph, result: LayerMatches) -> list[tuple[Layer, Layer]]:
    constants = find_constant_layers(graph), find_constant_layers(reference)
    names = [Counter(layer.name for layer in g.layers) for g in (graph, reference)]
    others = {layer.name: layer for layer in reference.layers if layer.name and names[1][layer.name] == 1}
    pairs = []
    for layer in graph.layers:
        other = others.get(layer.name) if names[0][layer.name] == 1 else None
        if other is None or other.type != layer.type or len(other.outputs) != len(layer.outputs):
            continue
        if layer.id in constants[0] or other.id in constants[1]:
            result.constants.append((layer, other))
        else:
            pairs.append((layer, other))
    return pairs


def _match_other_types(graph: Graph, reference: Graph, matched: dict[int, Match]) -> list[tuple[Layer, Layer]]:
    """Match unmatched layers with layers of the same name and number of outputs, but another type."""
    taken = {id(match.layer) for match in matched.values()}
    constants = find_constant_layers(graph), find_constant_layers(reference)
    names = [Counter(layer.name for layer in g.layers) for g in (graph, reference)]
    others = {layer.name: layer for layer in reference.layers if layer.name and names[1][layer.name] == 1}
    return [
        (layer, other)
        for layer in graph.layers
        if id(layer) not in matched and layer.id not in constants[0] and not layer.is_structural
        for other in [others.get(layer.name)]
        if other is not None and id(other) not in taken and other.id not in constants[1] and not other.is_structural
        if names[0][layer.name] == 1 and len(layer.outputs) == len(other.outputs) and not layer.bodies
    ]


def _match_by_order(graph: Graph, reference: Graph, matched: dict[int, Match]) -> list[tuple[Layer, Layer]]:
    """Align the layers without a match; matched layers are fixed points."""
    taken = {id(match.layer): key for key, match in matched.items()}
    sequences = []
    for g in (graph, reference):
        constants = find_constant_layers(g)
        layers = [layer for layer in sort_layers(g) if _is_ordered(layer) and layer.id not in constants]
        sequences.append(layers)
    tokens = [
        [("match", id(layer)) if id(layer) in matched else _describe(layer) for layer in sequences[0]],
        [("match", taken[id(layer)]) if id(layer) in taken else _describe(layer) for layer in sequences[1]],
    ]
    matcher = difflib.SequenceMatcher(None, tokens[0], tokens[1], autojunk=False)
    pairs = []
    for start, other_start, size in matcher.get_matching_blocks():
        for i in range(size):
            layer, other = sequences[0][start + i], sequences[1][other_start + i]
            if id(layer) not in matched:
                pairs.append((layer, other))
    return pairs


def _match_by_sources(graph: Graph, reference: Graph, matched: dict[int, Match]) -> list[tuple[Layer, Layer]]:
    """Return unmatched layers with the same sources and shapes as a layer, preferably of the same type."""
    taken = {id(match.layer) for match in matched.values()}
    partners: dict[int, object] = {}
    pairs: list[tuple[Layer, Layer]] = []
    for layer in graph.layers:
        match = matched.get(id(layer))
        if match is not None:
            partners[layer.id] = match.layer.id
    parameters = [n.id for n in graph.layers if n.is_input], [n.id for n in reference.layers if n.is_input]
    if len(parameters[0]) == len(parameters[1]):
        partners.update(zip(*parameters, strict=True))
    constants = find_constant_layers(graph), find_constant_layers(reference)
    partners.update((number, "constant") for number in constants[0])
    candidates: dict[tuple[object, ...], list[Layer]] = {}
    shapes: dict[tuple[object, ...], list[Layer]] = {}
    sources = _list_sources(reference)
    for other in sort_layers(reference):
        if id(other) not in taken and other.id not in constants[1] and not other.is_structural:
            tokens: tuple[object, ...] = tuple(
                "constant" if number in constants[1] else number for number, _ in sources.get(other.id, ())
            )
            candidates.setdefault((*_describe(other), tokens), []).append(other)
            shapes.setdefault((_describe(other)[1], tokens), []).append(other)
    partner_ids = {id(n): n.id for n in graph.layers}
    origins = {id(match.layer): partner_ids[key] for key, match in matched.items() if key in partner_ids}
    users = (
        _list_users(graph, {n.id: n.id for n in graph.layers}),
        _list_users(reference, {n.id: origins[id(n)] for n in reference.layers if id(n) in origins}),
    )
    sources = _list_sources(graph)
    for layer in sort_layers(graph):
        if id(layer) in matched or layer.id in constants[0] or layer.is_structural:
            continue
        found = tuple(partners.get(number) for number, _ in sources.get(layer.id, ()))
        if None in found:
            continue
        others = candidates.get((*_describe(layer), found)) or shapes.get((_describe(layer)[1], found), [])
        free = [n for n in others if id(n) not in taken and len(n.outputs) == len(layer.outputs)]
        if free and free[0].type != layer.type:
            free = [n for n in free if not (is_transparent(layer) or is_transparent(n) or layer.bodies)]
            free = [n for n in free if users[0].get(layer.id, set()) & users[1].get(n.id, set())]
        if free:
            other = free[0]
            taken.add(id(other))
            partners[layer.id] = other.id
            pairs.append((layer, other))
    return pairs


def _list_sources(graph: Graph) -> dict[int, list[tuple[int, int]]]:
    """Return the ids of the layers and ports that the inputs of each layer are connected to."""
    sources: dict[int, list[tuple[int, int]]] = {}
    for edge in sorted(graph.edges, key=lambda edge: edge.to_port):
        sources.setdefault(edge.to_layer, []).append((edge.from_layer, edge.from_port))
    return sources


def _list_users(graph: Graph, ids: dict[int, int]) -> dict[int, set[int]]:
    """Return the consumers of each layer other than Results, under the ids of another graph."""
    results = {layer.id for layer in graph.layers if layer.is_output}
    users: dict[int, set[int]] = {}
    for edge in graph.edges:
        if edge.to_layer in ids and edge.to_layer not in results:
            users.setdefault(edge.from_layer, set()).add(ids[edge.to_layer])
    return users


def _describe(layer: Layer) -> tuple[str, object]:
    return layer.type, tuple("" if port.shape is None else str(port.shape) for port in layer.outputs)
