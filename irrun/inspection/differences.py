"""Differences between two models that are visible without running them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.formatting import format_number
from irrun.inspection.connections import ConnectionTable, Source
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import LayerMatches, is_transparent, match_layers
from irrun.inspection.metrics import measure
from irrun.ir.graph import BackEdge, Body, Layer, PortMapEntry
from irrun.ir.model import Model
from irrun.ops._support import registry

__all__ = ["LayerDifference", "LayerDifferences", "ModelDifferences", "diff"]


@dataclass(frozen=True)
class LayerDifference:
    """The differences of one layer.

    Attributes:
        key: The key of the layer, with iteration 0 of the bodies that contain it.
        type: The type of the layer.
        differences: The differences, one sentence each.
    """

    key: str
    type: str
    differences: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ModelDifferences:
    """The differences between two models.

    Attributes:
        layers: The layers that differ from their match.
        added: The layers that the other model does not have: keys and types.
        removed: The layers that only the other model has.
        matched: The number of matched layers.
    """

    layers: list[LayerDifference]
    added: list[tuple[str, str]]
    removed: list[tuple[str, str]]
    matched: int

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.layers or self.added or self.removed)

    def __repr__(self) -> str:
        counts = f"{len(self.layers)} layers differ, {len(self.added)} added, {len(self.removed)} removed"
        return f"<ModelDifferences: {counts}>"

    def to_json(self) -> dict[str, Any]:
        """Return the differences for JSON."""
        return {
            "equal": self.is_equal,
            "matched": self.matched,
            "layers": [
                {"key": layer.key, "type": layer.type, "differences": list(layer.differences)} for layer in self.layers
            ],
            "added": [{"key": key, "type": kind} for key, kind in self.added],
            "removed": [{"key": key, "type": kind} for key, kind in self.removed],
        }


def diff(model: Model, other: Model) -> ModelDifferences:
    """Compare two models without running them: layers, attributes, connections, port maps, shapes and constants.

    Layers are matched by name, and otherwise by order, type and shape.

    Args:
        model: The model.
        other: The model to compare it with.
    """
    tables = KeyTable(model), KeyTable(other)
    matches = match_layers(model.graph, other.graph)
    found = LayerDifferences(tables[0], tables[1], matches)
    constants = {id(layer): match for layer, match in matches.constants}
    layers: list[LayerDifference] = []
    added: list[tuple[str, str]] = []
    taken: set[int] = set()
    for key, layer in tables[0].iterate_layers():
        match = matches.find(layer)
        partner = match.layer if match is not None else constants.get(id(layer))
        if partner is None:
            added.append((key, layer.type))
            continue
        taken.add(id(partner))
        differences = found.list_all(layer, partner)
        if differences:
            layers.append(LayerDifference(key, layer.type, tuple(differences)))
    removed = [(key, layer.type) for key, layer in tables[1].iterate_layers() if id(layer) not in taken]
    return ModelDifferences(layers, added, removed, len(taken))


class LayerDifferences:
    """The differences between matched layers of two models.

    Args:
        table: The keys of the model.
        other: The keys of the other model.
        matches: Their matched layers.
    """

    def __init__(self, table: KeyTable, other: KeyTable, matches: LayerMatches) -> None:
        self._matches = matches
        self._connections, self._other_connections = ConnectionTable(table), ConnectionTable(other)
        self._paired = {*matches.matches, *(id(match.layer) for match in matches.matches.values())}
        self._constants = {id(layer): partner for layer, partner in matches.constants}

    def list_all(self, layer: Layer, other: Layer) -> list[str]:
        """Return all differences, including shapes, types and constants.

        Args:
            layer: A layer.
            other: Its match.
        """
        differences = [*self.list_attributes(layer, other), *self.list_connections(layer, other)]
        for i, (port, other_port) in enumerate(zip(layer.outputs, other.outputs, strict=True)):
            shown, other_shown = (
                f"{p.element_type}{'[...]' if p.shape is None else p.shape}" for p in (port, other_port)
            )
            if shown != other_shown:
                differences.append(f"output {i} is {shown}, but {other_shown} in the other model")
        if layer.constant is not None and other.constant is not None:
            differences += _list_values(layer, other)
        return differences

    def list_attributes(self, layer: Layer, other: Layer) -> list[str]:
        """Return the types, versions and attributes that differ in value, not just in spelling."""
        if layer.type != other.type:
            return [f"the type is {layer.type}, but {other.type} in the other model"]
        return [
            f"{name} is {value}, but {expected} in the other model"
            for name, value, expected in find_differing_values(layer, other)
        ]

    def list_connections(self, layer: Layer, other: Layer) -> list[str]:
        """Return the inputs, port maps and back edges that differ."""
        sources = self._find_sources(self._connections, layer), self._find_sources(self._other_connections, other)
        differing = [
            i for i, (a, b) in enumerate(zip(*sources, strict=False)) if not self._is_match(a, b, layer, other)
        ]
        if len(differing) == 2:
            i, k = differing
            if self._is_match(sources[0][i], sources[1][k], layer, other) and self._is_match(
                sources[0][k], sources[1][i], layer, other
            ):
                return [f"inputs {i} and {k} are exchanged", *self._list_bodies(layer, other)]
        texts = [
            f"input {i} comes from {_show(sources[0][i])}, but from {_show(sources[1][i])} in the other model"
            for i in differing
        ]
        if len(layer.inputs) != len(other.inputs):
            texts.append(f"{len(layer.inputs)} inputs, but {len(other.inputs)} in the other model")
        return [*texts, *self._list_bodies(layer, other)]

    def _find_sources(self, table: ConnectionTable, layer: Layer) -> list[Source | None]:
        """Return the sources of the inputs, looking through rounding layers that the other model does not have."""
        connections = table.get(layer)
        sources = []
        for source in connections.find_sources(layer):
            while (
                source is not None
                and id(source.layer) not in self._paired
                and source.layer.id not in connections.constants
                and is_transparent(source.layer)
            ):
                previous = connections.find_sources(source.layer)
                source = previous[0] if previous else None
            sources.append(source)
        return sources

    def _is_match(self, source: Source | None, other: Source | None, layer: Layer, other_layer: Layer) -> bool:
        if source is None or other is None:
            return source is other
        is_constant = source.layer.id in self._connections.get(layer).constants
        is_other_constant = other.layer.id in self._other_connections.get(other_layer).constants
        if is_constant != is_other_constant:
            return False
        if is_constant:
            partner = self._constants.get(id(source.layer))
            return partner is None or partner is other.layer
        match = self._matches.find(source.layer)
        return match is not None and match.layer is other.layer and source.port == other.port

    def _list_bodies(self, layer: Layer, other: Layer) -> list[str]:
        texts = []
        for tag, body in layer.bodies.items():
            expected = other.bodies.get(tag)
            if expected is None:
                texts.append(f"{tag} does not exist in the other model")
                continue
            names = self._name_layers(body), {n.id: n.name for n in expected.graph.layers}
            for kind in ("inputs", "outputs"):
                entries = [
                    {_describe_entry(e, owner, own) for e in getattr(b, kind)}
                    for b, owner, own in ((body, layer, names[0]), (expected, other, names[1]))
                ]
                for entry in sorted(entries[0] - entries[1]):
                    texts.append(f"the port map of {tag} has {entry}, which the other model does not have")
            texts += self._list_results(body, expected)
            edges = [
                {_describe_edge(e, own) for e in b.back_edges} for b, own in ((body, names[0]), (expected, names[1]))
            ]
            for edge in sorted(edges[0] - edges[1]):
                texts.append(f"the back edge {edge} does not exist in the other model")
        return texts

    def describe_result(self, result: Layer, other: Layer) -> str:
        """Return the difference between the sources of two Results, or "".

        Args:
            result: A Result.
            other: The Result in its place.
        """
        source = self._find_sources(self._connections, result)[0]
        expected = self._find_sources(self._other_connections, other)[0]
        if self._is_match(source, expected, result, other):
            return ""
        return f"{result.name} comes from {_show(source)}, but from {_show(expected)} in the other model"

    def _list_results(self, body: Body, other: Body) -> list[str]:
        """Return the differences between the sources of the Results of a body."""
        results, expected = (b.graph.find_layers("Result") for b in (body, other))
        return [t for a, b in zip(results, expected, strict=False) for t in [self.describe_result(a, b)] if t]

    def _name_layers(self, body: Body) -> dict[int, str]:
        """Return the names that the other model uses for the layers of a body, by id."""
        names = {}
        for layer in body.graph.layers:
            match = self._matches.find(layer)
            names[layer.id] = layer.name if match is None else match.layer.name
        return names


def find_differing_values(layer: Layer, other: Layer) -> Iterator[tuple[str, Any, Any]]:
    """Yield the attributes that differ: the name and both values. An attribute without a value has its default.

    Args:
        layer: A layer.
        other: A layer of the same type.
    """
    operation = registry.find(layer.type, layer.version)
    declared = {a.name: a for a in operation.attributes} if operation is not None else {}
    for name in dict.fromkeys((*layer.attributes, *other.attributes)):
        attribute = declared.get(name) or declared.get(name.replace("-", "_"))
        if attribute is None and not (name in layer.attributes and name in other.attributes):
            continue  # a note of the converter
        default = inspect.Parameter.empty if attribute is None else attribute.default
        values = [owner.attributes.get(name, default) for owner in (layer, other)]
        converted = []
        for value in values:
            try:
                converted.append(value if attribute is None else attribute.convert(value))
            except ValueError:
                converted.append(value)
        if inspect.Parameter.empty not in values and not _are_equal(*converted):
            yield name, values[0], values[1]


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    return bool(a == b) or str(a) == str(b)


def _show(source: Source | None) -> str:
    if source is None:
        return "nothing"
    port = f".{source.port}" if len(source.layer.outputs) > 1 else ""
    return f"{source.layer.name}{port} ({source.layer.type})"


def _describe_entry(entry: PortMapEntry, owner: Layer, names: dict[int, str]) -> str:
    ports: Sequence[Any] = [*owner.inputs, *owner.outputs]
    position = next((i for i, port in enumerate(ports) if port.id == entry.external_port_id), -1)
    text = f"{names.get(entry.internal_layer_id, '')} at port {position}"
    if entry.axis is not None:
        text += f", axis {entry.axis} from {entry.start} to {entry.end}, stride {entry.stride}, size {entry.part_size}"
    return text + (f", {entry.purpose}" if entry.purpose else "")


def _describe_edge(edge: BackEdge, names: dict[int, str]) -> str:
    return f"from {names.get(edge.from_layer, '')} to {names.get(edge.to_layer, '')}"


def _list_values(layer: Layer, other: Layer) -> list[str]:
    constant, expected = layer.constant, other.constant
    assert constant is not None
    assert expected is not None
    if constant.element_type != expected.element_type or constant.shape != expected.shape:
        return []  # reported as a difference of the output
    if constant.data is None or expected.data is None or bytes(constant.data) == bytes(expected.data):
        return []
    values, references = constant.to_array(), expected.to_array()
    metrics = measure(values, references)
    text = f"{metrics.differing} of {metrics.count} elements differ"
    largest = f", by at most {format_number(metrics.max_abs)}" if np.isfinite(metrics.max_abs) else ""
    return [text + largest]
