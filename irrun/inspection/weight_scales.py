"""Weights of quantized models with one scale for each output channel, instead of one for the whole tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.inspection.connections import Connections, find_free_ids
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.metrics import widen
from irrun.inspection.replaying import isolate_layer
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.ops._support import registry
from irrun.runtime.compiled_model import compile_model

__all__ = ["use_channel_scales"]

Array = np.ndarray[Any, Any]

#: The largest code of symmetric 8-bit weights.
LARGEST = 127


def use_channel_scales(quantized: Model, exact: Model) -> tuple[Model, int]:
    """Requantize weights with a single scale to 8 bits, with a scale for each output channel.

    Args:
        quantized: The quantized model; it is not modified.
        exact: The floating-point model.

    Returns:
        The model, and the number of layers with changed weights.
    """
    graph = quantized.graph
    connections, table, exact_table = Connections(graph), KeyTable(quantized), KeyTable(exact)
    exact_connections = Connections(exact.graph)
    matches = match_layers(graph, exact.graph)
    free_ids = find_free_ids(graph)
    changed = Graph(list(graph.layers), list(graph.edges), graph.name)
    count = 0
    for layer in graph.layers:
        match = matches.find(layer)
        if match is None or match.layer.type != layer.type:
            continue
        axes = _find_channel_axes(layer)
        weights = _find_weights(connections, layer)
        exact_weights = _find_weights(exact_connections, match.layer)
        if not axes or weights is None or exact_weights is None or not _has_one_scale(connections, weights):
            continue
        before, value = _compute(table, weights), _compute(exact_table, exact_weights)
        if before is None or value is None or before.shape != value.shape or value.ndim < 2:
            continue
        port = layer.inputs[1]
        constant = Constant.from_array(_quantize(value, axes).astype(before.dtype), ElementType.of(before.dtype))
        number = next(free_ids)
        output = Port(0, port.element_type, port.shape)
        changed.layers.append(Layer(number, f"{layer.name}/channels", "Constant", outputs=[output], constant=constant))
        changed.edges = [e for e in changed.edges if (e.to_layer, e.to_port) != (layer.id, port.id)]
        changed.edges.append(Edge(number, 0, layer.id, port.id))
        count += 1
    return Model(changed, quantized.weights, 11, None), count


def _find_channel_axes(layer: Layer) -> tuple[int, ...]:
    """Return the output channel axes of the weights; () for layers without weights."""
    card = registry.get_card(layer.type, layer.version)
    if card.convolves:
        return (0, 1) if card.has_groups else (0,)
    if card.multiplies_matrices:
        return (-2,) if str(layer.attributes.get("transpose_b", "false")).lower() == "true" else (-1,)
    return ()


def _find_weights(connections: Connections, layer: Layer) -> Layer | None:
    """Return the layer that computes the constant second input of a layer."""
    sources = connections.find_sources(layer)
    source = sources[1] if len(sources) > 1 else None
    return source.layer if source is not None and source.layer.id in connections.constants else None


def _has_one_scale(connections: Connections, weights: Layer) -> bool:
    """Return whether weights are quantized with scalar scales."""
    sizes: list[int] = []
    stack, seen = [weights], {weights.id}
    while stack:
        layer = stack.pop()
        producers = connections.find_producers(layer)
        if registry.get_card(layer.type, layer.version).quantizes or layer.type == "Multiply":
            sizes += [math.prod(n.constant.shape) for n in producers[1:] if n.constant is not None]
            producers = producers[:1]
        new = [n for n in producers if n.id not in seen]
        seen.update(n.id for n in new)
        stack += new
    return bool(sizes) and max(sizes) == 1


def _compute(table: KeyTable, layer: Layer) -> Array | None:
    """Compute a value that depends only on constants; None if that fails."""
    if layer.constant is not None:
        return layer.constant.to_array()
    part, keys = isolate_layer(Model(Graph(), Weights()), table, layer)
    return None if keys else compile_model(part, optimize=False)([])[0]


def _quantize(value: Array, axes: tuple[int, ...]) -> Array:
    wide = widen(value)
    kept = {axis % value.ndim for axis in axes}
    others = tuple(axis for axis in range(value.ndim) if axis not in kept)
    scale = np.abs(wide).max(axis=others, keepdims=True) / LARGEST
    scale[scale == 0] = 1.0
    return np.asarray(np.round(wide / scale) * scale)
