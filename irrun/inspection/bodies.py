"""Comparison of bodies with OpenVINO, which does not expose them: each body runs as a separate model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.inspection.comparing import compare_with
from irrun.inspection.comparison import LayerComparison
from irrun.inspection.keys import KeyTable
from irrun.inspection.openvino_reference import OpenVinoBody, OpenVinoReference
from irrun.inspection.replaying import isolate_layer
from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.observer import Scope
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = ["compare_bodies"]

Array = np.ndarray[Any, Any]


def compare_bodies(
    model: Model,
    table: KeyTable,
    reference: OpenVinoReference,
    owner: Layer,
    factor: float | None,
    settings: RunSettings = DEFAULT_SETTINGS,
) -> list[LayerComparison]:
    """Compare the layers in the bodies of a layer with OpenVINO.

    The layer runs on the reference's inputs. In each iteration, both sides start from the same
    Parameters of the body.

    Args:
        model: The model.
        table: Its keys.
        reference: The reference of the model.
        owner: The layer that owns the bodies.
        factor: The tolerance as a multiple of the rounding error, or None.
        settings: The settings for running the bodies.

    Returns:
        The comparisons in the order of execution; none if the reference does not have an input of the layer.
    """
    part, keys = isolate_layer(model, table, owner)
    arguments = []
    for key in keys:
        producer = table.find_layer(key)
        port = int(key.rpartition(".")[2]) if len(producer.outputs) > 1 else 0
        value = reference.find_value(producer, port)
        if value is None:
            return []
        arguments.append(value)
    collector = _ParameterCollector(table, owner)
    settings.infer(settings.compile(part, optimize=False), arguments, [collector])
    comparisons: list[LayerComparison] = []
    bodies: dict[tuple[int, frozenset[int]], tuple[CompiledModel, OpenVinoBody]] = {}
    try:
        for (graph_id, iteration), values in sorted(collector.values.items(), key=lambda item: item[0][1]):
            graph = next(body.graph for body in owner.bodies.values() if id(body.graph) == graph_id)
            identity = (graph_id, frozenset(values))
            if identity not in bodies:
                body_model = _make_body_model(model, graph, values)
                compiled_body = settings.compile(body_model, optimize=False)
                bodies[identity] = (compiled_body, OpenVinoBody(body_model, reference))
            compiled, body = bodies[identity]
            inputs = [values[spec.layer.id] for spec in compiled.inputs]
            body.run(inputs)
            prefix = f"{table.get_key(owner)}[{iteration}]/"
            layers = compare_with(compiled, body, inputs, factor, settings)
            comparisons += [replace(layer, key=prefix + layer.key) for layer in layers]
    finally:
        for _, body in bodies.values():
            body.close()
    return comparisons


class _ParameterCollector:
    """Observer that collects the values of a body's Parameters by body and iteration."""

    def __init__(self, table: KeyTable, owner: Layer) -> None:
        self.values: dict[tuple[int, int], dict[int, Array]] = {}
        self._sources: dict[int, tuple[int, list[int | None]]] = {}
        for body in owner.bodies.values():
            graph = body.graph
            parameters = {p.id for p in graph.find_layers("Parameter")}
            edges = {(e.to_layer, e.to_port): e.from_layer for e in graph.edges}
            for layer in graph.layers:
                sources = [edges.get((layer.id, port.id)) for port in layer.inputs]
                positions = [source if source in parameters else None for source in sources]
                self._sources[id(layer)] = (id(graph), positions)

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Collect the inputs of a layer that are Parameters of the body."""
        if id(layer) not in self._sources:
            return
        graph_id, positions = self._sources[id(layer)]
        values = self.values.setdefault((graph_id, scope[0][1]), {})
        for value, parameter in zip(inputs, positions, strict=False):
            if parameter is not None:
                assert value is not None
                values.setdefault(parameter, value)


def _make_body_model(model: Model, graph: Graph, values: dict[int, Array]) -> Model:
    """Return a body as a model with only the Parameters that have a value."""
    unused = {p.id for p in graph.find_layers("Parameter") if p.id not in values}
    dropped = unused | {e.to_layer for e in graph.edges if e.from_layer in unused}
    layers = [layer for layer in graph.layers if layer.id not in dropped]
    edges = [e for e in graph.edges if e.from_layer not in unused]
    return Model(Graph(layers, edges, "body"), model.weights)
