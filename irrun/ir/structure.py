"""Structural checks of a Model: what no single element shows to be wrong."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from irrun.errors import ModelError
from irrun.ir.model import Body, Graph, Layer, Model
from irrun.ir.weights import MissingWeightsError

__all__ = ["Finding", "check_model", "raise_first", "sort_layers"]


class Finding(NamedTuple):
    """Something that is wrong with a file: the line (0: none), the layer it is about (or ""), what it is."""

    line: int
    layer: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return where + (f"{self.layer}: " if self.layer else "") + self.message


def raise_first(findings: Sequence[Finding], path: Path | None) -> None:
    """Raise the first finding, if there is one, and say how many more there are.

    Raises:
        ModelError: there is one.
    """
    if not findings:
        return
    first = findings[0]
    more = f" (and {len(findings) - 1} more: irrun validate lists them)" if len(findings) > 1 else ""
    raise ModelError(first.message + more, path=path, line=first.line or None, layer=first.layer or None)


def check_model(model: Model) -> list[Finding]:
    """Everything that is wrong with the structure of a model and the places of its constants."""
    findings = list(_check_graph(model.graph))
    if not model.graph.of_type("Result") and not model.graph.of_type("Assign"):
        findings.append(Finding(0, "", "the model has no Result, so there is nothing to compute" + _why(model.graph)))
    graphs: list[Graph] = [model.graph]
    without_data = 0
    while graphs:
        graph = graphs.pop()
        for layer in graph.layers:
            without_data += layer.constant is not None and layer.constant.data is None
            for tag, body in layer.bodies.items():
                findings.extend(_check_graph(body.graph))
                findings.extend(_check_port_map(layer, tag, body))
                graphs.append(body.graph)
    if without_data:
        require = "1 constant requires" if without_data == 1 else f"{without_data} constants require"
        try:
            model.weights.check_exists()
        except MissingWeightsError as error:
            findings.append(Finding(0, "", f"{error.message}; {require} it"))
    return findings


def _why(graph: Graph) -> str:
    """What a graph without a Result is, where that can be told."""
    if any("execOrder" in layer.attributes for layer in graph.layers):
        return ": it is an execution graph, which tells how OpenVINO runs another model"
    return ""


def sort_layers(graph: Graph) -> list[Layer]:
    """The layers in topological order, as close to the file's order as that allows.

    Raises:
        ModelError: they form a cycle.
    """
    order = {layer.id: i for i, layer in enumerate(graph.layers)}
    if len(order) == len(graph.layers) and all(
        order.get(e.from_layer, -1) < order.get(e.to_layer, -2) for e in graph.edges
    ):
        return graph.layers
    followers: dict[int, list[int]] = {i: [] for i in order}
    missing = dict.fromkeys(order, 0)
    for edge in graph.edges:
        if edge.from_layer in followers and edge.to_layer in missing:
            followers[edge.from_layer].append(edge.to_layer)
            missing[edge.to_layer] += 1
    ready = [order[i] for i, count in missing.items() if not count]
    heapq.heapify(ready)
    done: list[Layer] = []
    while ready:
        layer = graph.layers[heapq.heappop(ready)]
        done.append(layer)
        for follower in followers[layer.id]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, order[follower])
    if len(done) < len(order):
        stuck = [graph.layers[order[i]] for i, count in missing.items() if count]
        names = ", ".join(layer.describe() for layer in stuck[:5])
        raise ModelError(f"layers feed each other in a cycle: {names}", line=stuck[0].line or None)
    return done


def _check_graph(graph: Graph) -> Iterator[Finding]:
    outputs: set[tuple[int, int]] = set()
    inputs: set[tuple[int, int]] = set()
    layers: dict[int, Layer] = {}
    for layer in graph.layers:
        id = layer.id
        if id in layers:
            message = f"has the id of the layer at line {layers[id].line}"
            yield Finding(layer.line, layer.describe(), message)
            continue
        layers[id] = layer
        before = len(outputs) + len(inputs)
        outputs.update([(id, port.id) for port in layer.outputs])
        inputs.update([(id, port.id) for port in layer.inputs])
        if len(outputs) + len(inputs) - before != len(layer.outputs) + len(layer.inputs):
            yield Finding(layer.line, layer.describe(), "two of its ports have the same id")
    taken: set[tuple[int, int]] = set()
    broken = False
    for edge in graph.edges:
        source, target = (edge.from_layer, edge.from_port), (edge.to_layer, edge.to_port)
        if source not in outputs:
            broken = True
            yield _no_port(layers, *source, "output")
        if target not in inputs:
            broken = True
            yield _no_port(layers, *target, "input")
        elif target in taken:
            layer = layers[edge.to_layer]
            yield Finding(layer.line, layer.describe(), f"two edges lead into its input port {edge.to_port}")
        taken.add(target)
    for layer in graph.layers:
        if layer.type == "Result" and not any((layer.id, port.id) in taken for port in layer.inputs):
            yield Finding(layer.line, layer.describe(), "no edge leads into it")
    if not broken:
        try:
            sort_layers(graph)
        except ModelError as error:
            yield Finding(error.line or 0, "", error.message)


def _no_port(layers: dict[int, Layer], layer_id: int, port_id: int, side: str) -> Finding:
    layer = layers.get(layer_id)
    if layer is None:
        return Finding(0, "", f"an edge names layer {layer_id}, which does not exist")
    ports = layer.outputs if side == "output" else layer.inputs
    known = ", ".join([*(str(p.id) for p in ports[:10]), *(["..."] if len(ports) > 10 else [])]) or "none"
    return Finding(
        layer.line,
        layer.describe(),
        f"an edge names {side} port {port_id}, the layer has {side} ports {known}",
    )


def is_placeholder(layer: Layer) -> bool:
    """Whether a constant stands for an input that is left out: OpenVINO writes those without a type."""
    port = layer.outputs[0]
    untyped = layer.attributes.get("element_type") in ("dynamic", "undefined")
    return untyped and port.element_type is None and (port.shape is None or 0 in port.shape)


def _check_port_map(layer: Layer, tag: str, body: Body) -> Iterator[Finding]:
    types = {inner.id: inner.type for inner in body.graph.layers}
    sides = (
        (body.inputs, "Parameter", {p.id for p in layer.inputs}, "input"),
        (body.outputs, "Result", {p.id for p in layer.outputs}, "output"),
    )
    for entries, wanted, ports, side in sides:
        for entry in entries:
            where = entry.line or layer.line
            inner = entry.internal_layer_id
            if types.get(inner) != wanted:
                what = f"is a {types[inner]}" if inner in types else "does not exist"
                message = f"its port map names layer {inner} of its {tag}, which {what}, expected a {wanted}"
                yield Finding(where, layer.describe(), message)
            if entry.external_port_id not in ports and entry.external_port_id != -1:
                message = f"its port map names {side} port {entry.external_port_id}, which it does not have"
                yield Finding(where, layer.describe(), message)
    for edge in body.back_edges:
        where = edge.line or layer.line
        for inner, wanted in ((edge.from_layer, "Result"), (edge.to_layer, "Parameter")):
            if types.get(inner) != wanted:
                what = f"is a {types[inner]}" if inner in types else "does not exist"
                message = f"a back edge names layer {inner} of its {tag}, which {what}, expected a {wanted}"
                yield Finding(where, layer.describe(), message)
