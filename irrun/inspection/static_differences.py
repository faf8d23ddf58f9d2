"""Differences between models that are visible without running them: attributes, constants and orders of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.inspection.array_reference import ArrayReference
from irrun.inspection.comparison import LayerComparison
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.differences import LayerDifferences, find_differing_values
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import measure
from irrun.inspection.references import ModelReference, Reference
from irrun.inspection.replaying import isolate_layer
from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.runtime.compiled_model import compile_model

__all__ = ["OWNER", "StaticDifferences"]

Array = np.ndarray[Any, Any]

#: Maximum number of reasons shown per layer.
MAX_REASONS = 3
#: Prefix of reasons that concern the owner of the body that contains a layer.
OWNER = "its body: "


class StaticDifferences:
    """Differences between the attributes and constants of matched layers.

    Args:
        table: The keys of the model.
        reference: The reference; only other models have differences.
    """

    def __init__(self, table: KeyTable, reference: Reference) -> None:
        self.table = table
        self.reference = reference if isinstance(reference, ModelReference) and reference.name != "f64" else None
        self.arrays = reference if isinstance(reference, ArrayReference) else None
        self.connections = ConnectionTable(table)
        self.other_connections = ConnectionTable(table if self.reference is None else self.reference.table)
        self.differences: LayerDifferences | None = None
        if self.reference is not None:
            self.differences = LayerDifferences(table, self.reference.table, self.reference.matches)

    @property
    def has_other_variables(self) -> bool:
        """Whether the models name their variables differently, so that values cannot be assigned."""
        if self.reference is None:
            return False
        names = [
            {str(n.attributes.get("variable_id")) for _, n in table.iterate_layers() if n.reads_variable}
            for table in (self.table, self.reference.table)
        ]
        return names[0] != names[1]

    def describe(self, layer: Layer) -> str:
        """Return the differences between a layer and its match: attributes, and the constants that it uses."""
        match = self._find_match(layer)
        if self.differences is None or match is None:
            return ""
        reasons = self.differences.list_attributes(layer, match)
        assert self.reference is not None
        enters = not self.describe_owner(layer)
        constants = (
            _find_constants(self.table, self.connections, layer, enters),
            _find_constants(self.reference.table, self.other_connections, match, enters),
        )
        is_aligned = len(constants[0]) == len(constants[1])
        for constant, other in zip(*constants, strict=False):
            if constant.name == other.name or is_aligned:
                reasons += filter(None, [_describe_constants(constant, other)])
        return "; ".join(reasons[:MAX_REASONS]).replace("in the other model", "in the reference")

    def describe_connections(self, layer: Layer) -> str:
        """Return how the inputs of a layer differ from its match."""
        match = self._find_match(layer)
        if self.differences is None or match is None:
            return ""
        reasons = self.differences.list_connections(layer, match)
        return "; ".join(reasons[:MAX_REASONS]).replace("in the other model", "in the reference")

    def describe_owner(self, layer: Layer) -> str:
        """Return how the inputs, the port map and the back edges of the owner of a layer differ, after `OWNER`."""
        owner = self.table.get_owner(layer)
        text = "" if owner is None else self.describe_connections(owner) or self.describe_owner(owner)
        return OWNER + text.removeprefix(OWNER) if text else ""

    def describe_result(self, result: Layer) -> str:
        """Return how the connection of a Result of the model differs from the Result in the same position."""
        if self.arrays is not None:
            position = self.table.graph.find_layers("Result").index(result)
            key, source = self.arrays.output_keys[position], self.connections.get(result).find_sources(result)[0]
            name = "" if source is None else self.table.get_value_key(source.layer, source.port)
            is_known = self.arrays.find_match(source.layer) if source is not None else None
            return (
                f"{result.name} is {name}, but {key} in the reference" if is_known and key not in (name, None) else ""
            )
        if self.differences is None or self.reference is None:
            return ""
        results, others = (table.graph.find_layers("Result") for table in (self.table, self.reference.table))
        pairs = [(a, b) for a, b in zip(results, others, strict=False) if a is result]
        texts = [self.differences.describe_result(a, b) for a, b in pairs]
        return "; ".join(filter(None, texts)).replace("in the other model", "in the reference")

    def _find_match(self, layer: Layer) -> Layer | None:
        match = None if self.reference is None else self.reference.matches.find(layer)
        return None if match is None else match.layer

    def compare_constant_layers(self) -> list[LayerComparison]:
        """Compare layers that compute constants and differ from their match in attributes or inputs."""
        if self.reference is None:
            return []
        layers = []
        for layer, other in self.reference.matches.constants:
            attributes = [name for name, _, _ in find_differing_values(layer, other)]
            if layer.is_constant or not (attributes or self._has_other_order(layer, other)):
                continue
            values = _compute_constant(self.table, self.reference.table, layer, other)
            if values is None:
                continue
            metrics = measure(*values)
            if metrics.is_exact and values[0].dtype == values[1].dtype:
                continue
            path = self.table.get_path(layer)
            reason = f"{attributes[0]} differs" if attributes else "the order of its inputs differs"
            layers.append(LayerComparison(layer.name, layer.type, path, "name", metrics, metrics, "adds", 0.0, reason))
        return layers

    def _has_other_order(self, layer: Layer, other: Layer) -> bool:
        """Return whether two layers have the same inputs in a different order."""
        names = [n.name for n in self.connections.get(layer).find_producers(layer)]
        other_names = [n.name for n in self.other_connections.get(other).find_producers(other)]
        return names != other_names and sorted(names) == sorted(other_names)


def _find_constants(keys: KeyTable, table: ConnectionTable, layer: Layer, is_outside: bool) -> list[Layer]:
    """Return the Constants that a layer depends on through layers that compute constants, and outside its body."""
    constants: list[Layer] = []
    stack = table.get(layer).find_producers(layer)[::-1]
    seen: set[int] = set()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.is_constant:
            constants.append(current)
        elif current.is_input and is_outside:
            stack.extend(reversed(_find_outer(keys, table, current)))
        elif table.is_constant(current):
            stack.extend(reversed(table.get(current).find_producers(current)))
    return constants


def _find_outer(keys: KeyTable, table: ConnectionTable, layer: Layer) -> list[Layer]:
    """Return the layers outside a body that provide the first value of a Parameter."""
    owner = keys.get_owner(layer)
    if owner is None:
        return []
    graph = keys.get_graph(layer)
    body = next(body for body in owner.bodies.values() if body.graph is graph)
    ports = [entry.external_port_id for entry in body.inputs if entry.internal_layer_id == layer.id]
    sources = table.get(owner).find_sources(owner)
    found = [source for port, source in zip(owner.inputs, sources, strict=True) if port.id in ports]
    return [source.layer for source in found if source is not None]


def _describe_constants(layer: Layer, other: Layer) -> str:
    constant, expected = layer.constant, other.constant
    if constant is None or expected is None:
        return ""
    if constant.shape != expected.shape:
        return (
            f"constant {layer.name!r} has the shape {list(constant.shape)}, but {list(expected.shape)} in the reference"
        )
    if constant.element_type != expected.element_type:
        return f"constant {layer.name!r} is {constant.element_type}, but {expected.element_type} in the reference"
    if constant.data is None or expected.data is None or bytes(constant.data) == bytes(expected.data):
        return ""
    values, references = constant.to_array(), expected.to_array()
    metrics = measure(values, reference=references)
    return f"constant {layer.name!r} differs in {metrics.differing} of {metrics.count} elements"


def _compute_constant(table: KeyTable, other_table: KeyTable, layer: Layer, other: Layer) -> tuple[Array, Array] | None:
    """Return the first outputs of two layers that compute constants, or None if one of them cannot be computed."""
    values = []
    for owner, n in ((table, layer), (other_table, other)):
        part, keys = isolate_layer(Model(Graph(), Weights()), owner, n)
        if keys:
            return None
        values.append(compile_model(part, optimize=False)([])[0])
    return values[0], values[1]
