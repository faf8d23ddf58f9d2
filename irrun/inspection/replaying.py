"""Runs of one layer on recorded inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.errors import InputError
from irrun.inspection.connections import Connections, find_free_ids
from irrun.inspection.keys import KeyTable
from irrun.inspection.trace import Trace
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.options import RunOptions, RunSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["isolate_layer", "replay"]

Array = np.ndarray[Any, Any]


def replay(
    trace: Trace | str | os.PathLike[str],
    model: Model | CompiledModel | str | os.PathLike[str],
    layer: str,
    **options: Unpack[RunOptions],
) -> dict[str, Array]:
    """Run one layer on its recorded inputs.

    Args:
        trace: The trace, or the path of its file.
        model: The model, or the path of its .xml file. It may differ from the one that was recorded.
        layer: The key of the layer, such as "conv1" or "loop[3]/lstm".
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, and `timeout`, the time
            limit of the run in seconds; or a `RunSettings` as `settings`.

    Returns:
        The outputs by key.

    Raises:
        InputError: The layer does not exist, or the trace does not contain all of its inputs.
        ExecutionError: The kernel failed.
    """
    settings = RunSettings.choose(options)
    if not isinstance(trace, Trace):
        with Trace.open(trace) as opened:
            return _replay(opened, model, layer, settings)
    return _replay(trace, model, layer, settings)


def _replay(
    trace: Trace, model: Model | CompiledModel | str | os.PathLike[str], layer: str, settings: RunSettings
) -> dict[str, Array]:
    source = model.model if isinstance(model, CompiledModel) else model
    source = source if isinstance(source, Model) else read_model(source)
    table = KeyTable(source)
    target = table.find_layer(layer)
    local = table.get_key(target)
    prefix = ""
    if table.get_owner(target) is not None:
        prefix = layer[: layer.rindex("]/" + local) + len("]/")]
    part, keys = isolate_layer(source, table, target)
    arguments = []
    for key in keys:
        if prefix + key not in trace:
            raise InputError(f"the trace does not contain {prefix + key!r}, an input of {layer!r}")
        arguments.append(trace[prefix + key])
    outputs = settings.infer(settings.compile(part, optimize=False), arguments).to_tuple()
    return {prefix + table.get_value_key(target, i): value for i, value in enumerate(outputs)}


def isolate_layer(
    model: Model, table: KeyTable, layer: Layer, is_absorbed: Callable[[Layer], bool] = lambda layer: False
) -> tuple[Model, list[str]]:
    """Return a model of one layer and the constants that it depends on.

    Args:
        model: The model that contains the layer.
        table: The keys of the model.
        layer: The layer, which may be in a body.
        is_absorbed: Whether a preceding layer becomes part of the model.

    Returns:
        The model, with one Result per output of the layer; and the keys of the values that became its Parameters,
        without the owners of bodies.
    """
    graph = table.get_graph(layer)
    connections = Connections(graph)
    part = Graph(name=layer.name)
    required = {layer.id}
    stack = [layer]
    while stack:
        current = stack.pop()
        for port in current.inputs:
            address = connections.addresses.get((current.id, port.id))
            if address is None or address[0] in required:
                continue
            producer = connections.layers[address[0]]
            if address[0] in connections.constants or is_absorbed(producer):
                required.add(address[0])
                stack.append(producer)
    free_ids = find_free_ids(graph)
    parameters: dict[tuple[int, int], int] = {}
    keys: list[str] = []
    for edge in graph.edges:
        if edge.to_layer not in required:
            continue
        address = (edge.from_layer, edge.from_port)
        producer = connections.layers[edge.from_layer]
        if edge.from_layer not in required or is_placeholder(producer):
            if address not in parameters:
                port = next(p for p in producer.outputs if p.id == edge.from_port)
                parameter = _make_parameter(next(free_ids), f"input{len(parameters)}")
                part.layers.append(parameter)
                parameters[address] = parameter.id
                keys.append(table.get_value_key(producer, producer.outputs.index(port)))
            address = (parameters[address], 0)
        part.edges.append(Edge(*address, edge.to_layer, edge.to_port))
    part.layers += [candidate for candidate in graph.layers if candidate.id in required]
    for i, port in enumerate(layer.outputs):
        part.add_result(f"output{i}", (layer.id, port.id))
    part.layers = list(sort_layers(part))
    return Model(part, model.weights, path=model.path), keys


def _make_parameter(layer_id: int, name: str) -> Layer:
    """Return a Parameter of any type and shape, since declarations may be wrong."""
    return Layer(layer_id, name, "Parameter", attributes={"element_type": "dynamic", "shape": "..."}, outputs=[Port(0)])
