"""Checks of the structure of a model, and topological sorting."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from irrun.errors import ModelError
from irrun.ir.graph import Body, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.weights import MissingWeightsError

__all__ = [
    "Finding",
    "check_body_is_mapped",
    "check_model",
    "compare_shapes",
    "compare_types",
    "is_placeholder",
    "raise_findings",
    "sort_layers",
]


class Finding(NamedTuple):
    """An error in a model file.

    Attributes:
        line: The line in the file; 0 if it is unknown.
        layer: The description of the layer; empty if the error does not concern a single layer.
        message: The finding and the expectation.
    """

    line: int
    layer: str
    message: str

    def __str__(self) -> str:
        location = f"line {self.line}: " if self.line else ""
        return location + (f"{self.layer}: " if self.layer else "") + self.message


def raise_findings(findings: Sequence[Finding], path: Path | None) -> None:
    """Raise an error with the first finding and the number of other findings, if there are any.

    Args:
        findings: The findings.
        path: The model file.

    Raises:
        ModelError: There are findings.
    """
    if not findings:
        return
    first = findings[0]
    more = f" (and {len(findings) - 1} more, listed by irrun validate)" if len(findings) > 1 else ""
    raise ModelError(first.message + more, path=path, line=first.line or None, layer=first.layer or None)


def check_model(model: Model) -> list[Finding]:
    """Return all errors in the structure of a model: in its edges and port maps, cycles, and missing weights."""
    findings = list(_check_graph(model.graph))
    if not model.graph.find_layers("Result", "Assign"):
        findings.append(Finding(0, "", _describe_missing_result(model.graph)))
    constants_without_data = 0
    for _, layer in model.graph.walk():
        constants_without_data += layer.constant is not None and layer.constant.data is None
        for tag, body in layer.bodies.items():
            findings.extend(_check_graph(body.graph))
            findings.extend(_check_port_map(layer, tag, body))
    if constants_without_data:
        verb = "constant requires" if constants_without_data == 1 else "constants require"
        try:
            model.weights.check_exists()
        except MissingWeightsError as error:
            findings.append(Finding(0, "", f"{error.message}; {constants_without_data} {verb} it"))
    return findings


def is_placeholder(layer: Layer) -> bool:
    """Return whether a Constant represents an omitted input, which OpenVINO writes as a constant without a type."""
    port = layer.outputs[0]
    is_untyped = layer.attributes.get("element_type") in ("dynamic", "undefined")
    return is_untyped and port.element_type is None and (port.shape is None or 0 in port.shape)


def compare_types(source: Port, target: Port) -> tuple[str, str]:
    """Return the element types of two ports as text; empty if they agree or one is unknown."""
    if source.element_type is None or target.element_type is None or source.element_type == target.element_type:
        return "", ""
    return str(source.element_type), str(target.element_type)


def compare_shapes(source: Port, target: Port) -> tuple[str, str]:
    """Return the shapes of two ports as text; empty if the known parts agree."""
    if not source.shape or not target.shape:  # a port of unknown rank has no dimensions, exactly like a scalar
        return "", ""
    is_same = len(source.shape) == len(target.shape) and all(
        a == b or a.is_dynamic or b.is_dynamic for a, b in zip(source.shape, target.shape, strict=True)
    )
    return ("", "") if is_same else (f"the shape {source.shape}", f"the shape {target.shape}")


def sort_layers(graph: Graph) -> list[Layer]:
    """Return the layers in topological order, as close to the order of the file as possible.

    Args:
        graph: A graph. Edges from or to layers that do not exist are ignored.

    Raises:
        ModelError: The layers form a cycle.
    """
    order = {layer.id: i for i, layer in enumerate(graph.layers)}
    if len(order) == len(graph.layers) and all(
        order.get(e.from_layer, -1) < order.get(e.to_layer, -2) for e in graph.edges
    ):
        return graph.layers
    consumers: dict[int, list[int]] = {i: [] for i in order}
    pending_inputs = dict.fromkeys(order, 0)
    for edge in graph.edges:
        if edge.from_layer in consumers and edge.to_layer in pending_inputs:
            consumers[edge.from_layer].append(edge.to_layer)
            pending_inputs[edge.to_layer] += 1
    ready = [order[i] for i, count in pending_inputs.items() if not count]
    heapq.heapify(ready)
    layers: list[Layer] = []
    while ready:
        layer = graph.layers[heapq.heappop(ready)]
        layers.append(layer)
        for consumer in consumers[layer.id]:
            pending_inputs[consumer] -= 1
            if not pending_inputs[consumer]:
                heapq.heappush(ready, order[consumer])
    if len(layers) < len(order):
        cycle = [graph.layers[order[i]] for i, count in pending_inputs.items() if count]
        names = ", ".join(layer.describe() for layer in cycle[:5])
        raise ModelError(f"layers form a cycle: {names}", line=cycle[0].line or None)
    return layers


def _describe_missing_result(graph: Graph) -> str:
    message = "the model has no Result, so there is nothing to compute"
    if any("execOrder" in layer.attributes for layer in graph.layers):
        message += "; it is an execution graph, which describes how OpenVINO runs another model"
    return message


def _check_graph(graph: Graph) -> Iterator[Finding]:
    outputs: set[tuple[int, int]] = set()
    inputs: set[tuple[int, int]] = set()
    layers: dict[int, Layer] = {}
    for layer in graph.layers:
        if layer.id in layers:
            message = f"its id is already used by the layer at line {layers[layer.id].line}"
            yield Finding(layer.line, layer.describe(), message)
            continue
        layers[layer.id] = layer
        previous_count = len(outputs) + len(inputs)
        outputs.update([(layer.id, port.id) for port in layer.outputs])
        inputs.update([(layer.id, port.id) for port in layer.inputs])
        if len(outputs) + len(inputs) - previous_count != len(layer.outputs) + len(layer.inputs):
            yield Finding(layer.line, layer.describe(), "two of its ports have the same id")
    connected: set[tuple[int, int]] = set()
    has_invalid_edges = False
    for i, edge in enumerate(graph.edges):
        line = graph.get_edge_line(i)
        source, target = (edge.from_layer, edge.from_port), (edge.to_layer, edge.to_port)
        if source not in outputs:
            has_invalid_edges = True
            yield _make_port_finding(line, layers, *source, "output")
        if target not in inputs:
            has_invalid_edges = True
            yield _make_port_finding(line, layers, *target, "input")
        elif target in connected:
            layer = layers[edge.to_layer]
            yield Finding(line or layer.line, layer.describe(), f"its input port {edge.to_port} has two edges")
        connected.add(target)
    for layer in graph.layers:
        if layer.is_output and not any((layer.id, port.id) in connected for port in layer.inputs):
            yield Finding(layer.line, layer.describe(), "its input is not connected")
    if not has_invalid_edges:
        try:
            sort_layers(graph)
        except ModelError as error:
            yield Finding(error.line or 0, "", error.message)


def _make_port_finding(line: int, layers: dict[int, Layer], layer_id: int, port_id: int, side: str) -> Finding:
    """Return the finding for an edge from or to a port that does not exist."""
    layer = layers.get(layer_id)
    if layer is None:
        return Finding(line, "", f"an edge refers to layer {layer_id}, which does not exist")
    ports = layer.outputs if side == "output" else layer.inputs
    ids = ", ".join([*(str(p.id) for p in ports[:10]), *(["..."] if len(ports) > 10 else [])]) or "none"
    message = f"an edge refers to {side} port {port_id}, the layer has {side} ports {ids}"
    return Finding(line or layer.line, layer.describe(), message)


def check_body_is_mapped(layer: Layer, body: Body, consumed_ports: Container[int]) -> None:
    """Check that a port map covers every value that has a consumer.

    Args:
        layer: The layer that owns the body.
        body: The body.
        consumed_ports: The ids of the output ports of the layer that have a consumer.

    Raises:
        ModelError: It does not.
    """
    mapped_parameters = {e.internal_layer_id for e in body.inputs}
    consumed = {e.from_layer for e in body.graph.edges}
    for parameter in body.graph.find_layers("Parameter"):
        if parameter.id in consumed and parameter.id not in mapped_parameters:
            raise ModelError(f"its port map has no input for {parameter.describe()} of its body")
    mapped_ports = {e.external_port_id for e in body.outputs}
    for port in layer.outputs:
        if port.id in consumed_ports and port.id not in mapped_ports:
            raise ModelError(f"its port map has no entry for output port {port.id}")


def _check_port_map(layer: Layer, tag: str, body: Body) -> Iterator[Finding]:
    types = {inner.id: inner.type for inner in body.graph.layers}
    yield from _check_port_map_entries(layer, tag, types, body.inputs, "Parameter", "input")
    yield from _check_port_map_entries(layer, tag, types, body.outputs, "Result", "output")
    for edge in body.back_edges:
        for inner, expected in ((edge.from_layer, "Result"), (edge.to_layer, "Parameter")):
            if types.get(inner) != expected:
                message = f"a back edge refers to {_describe_inner(inner, tag, types)}, expected a {expected}"
                yield Finding(edge.line or layer.line, layer.describe(), message)


def _check_port_map_entries(
    layer: Layer, tag: str, types: dict[int, str], entries: list[PortMapEntry], expected: str, side: str
) -> Iterator[Finding]:
    port_ids = {port.id for port in (layer.inputs if side == "input" else layer.outputs)} | {-1}
    for entry in entries:
        line = entry.line or layer.line
        if types.get(entry.internal_layer_id) != expected:
            inner = _describe_inner(entry.internal_layer_id, tag, types)
            yield Finding(line, layer.describe(), f"its port map refers to {inner}, expected a {expected}")
        if entry.external_port_id not in port_ids:
            message = f"its port map refers to {side} port {entry.external_port_id}, which does not exist"
            yield Finding(line, layer.describe(), message)


def _describe_inner(layer_id: int, tag: str, types: dict[int, str]) -> str:
    problem = f"is a {types[layer_id]}" if layer_id in types else "does not exist"
    return f"layer {layer_id} of its {tag}, which {problem}"
