"""Export of layers with bodies: TensorIterator and Loop become Loop, If becomes If."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Graph, Value, cast, constant, get_graph, op
from irrun.export.rules.helpers import (
    FIRST,
    LAST,
    concat,
    get_dimension,
    reshape,
    slice_axis,
    squeeze,
    transpose,
    where,
)
from irrun.ir.graph import Body, Layer, OutputAddress, PortMapEntry
from irrun.ir.graph import Graph as IRGraph
from irrun.ops.shape_rules import Value as Known
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import PartialShape

__all__ = ["BodyExporter", "export_bodies"]


class BodyExporter(Protocol):
    """Exports the layers of a graph or a body.

    Attributes:
        inference: The inferred facts about the values of the graph.
        prefix: The prefix of node names.
        values: The values that have been exported, by the addresses of the outputs that produce them.
    """

    inference: GraphInference
    prefix: str
    values: dict[OutputAddress, Value]

    def create(self, graph: IRGraph, inference: GraphInference, prefix: str) -> BodyExporter:
        """Return an exporter for the graph of a body."""

    def export(self) -> None:
        """Export all layers. The values of Parameters must be known."""

    def get_result(self, layer: Layer) -> Value | None:
        """Return the value of a Result; None if it could not be exported."""


def export_bodies(parent: BodyExporter, layer: Layer, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Export a layer with bodies.

    Args:
        parent: The exporter of the graph that contains the layer.
        layer: The layer.
        inputs: The values of its inputs.

    Returns:
        The values of its outputs.

    Raises:
        UnsupportedError: ONNX cannot express the layer.
    """
    known = {port.id: value for port, value in zip(layer.inputs, inputs, strict=False) if value is not None}
    if layer.type == "If":
        return _export_if(parent, layer, known)
    return _LoopExporter(parent, layer, known).export()


def _export_body(
    parent: BodyExporter, layer: Layer, body: Body, arguments: Mapping[int, Value], known: Mapping[int, Known]
) -> BodyExporter:
    """Export the layers of a body to the current graph.

    Args:
        parent: The exporter of the graph that contains the layer.
        layer: The layer that owns the body.
        body: The body.
        arguments: The values of its Parameters, by the id of the layer.
        known: The facts about Parameters, if the shapes of the body have not been inferred.
    """
    inference = next((i for _, i in parent.inference.body_inferences if i.graph is body.graph), None)
    if inference is None:
        inference = GraphInference(body.graph, known)
    exporter = parent.create(body.graph, inference, f"{parent.prefix}{layer.name}/")
    for parameter in body.graph.find_layers("Parameter"):
        if parameter.id in arguments:
            exporter.values[parameter.id, parameter.outputs[0].id] = arguments[parameter.id]
    exporter.export()
    return exporter


def _get_results(exporter: BodyExporter, body: Body) -> dict[int, Value]:
    results = {}
    for result in body.graph.find_layers("Result"):
        value = exporter.get_result(result)
        if value is None:
            raise UnsupportedError("a layer of the body cannot be exported")
        results[result.id] = value
    return results


def _export_if(parent: BodyExporter, layer: Layer, known: Mapping[int, Value]) -> list[Value | None]:
    outer = get_graph()
    condition = known[layer.inputs[0].id]
    branches: list[tuple[Graph, list[Value]]] = []

    def export_branch(name: str) -> list[Value]:
        body = layer.bodies[name]
        arguments = {e.internal_layer_id: known[e.external_port_id] for e in body.inputs if e.external_port_id in known}
        exporter = _export_body(parent, layer, body, arguments, {i: Known(v.shape) for i, v in arguments.items()})
        results = _get_results(exporter, body)
        ports = {e.external_port_id: results[e.internal_layer_id] for e in body.outputs}
        return [ports[port.id] for port in layer.outputs]

    chosen = condition.read()
    if chosen is not None:
        return list(export_branch("then_body" if chosen.reshape(-1)[0] else "else_body"))
    for name in ("then_body", "else_body"):
        graph = Graph(outer.opset, f"{layer.name}/{name}", parent=outer)
        with graph.activate():
            values = export_branch(name)
        branches.append((graph, values))
    types: list[ElementType] = [value.type for value in branches[0][1]]
    # A scalar gets the shape [1] if the other branch returns a tensor.
    ranks = [{value.rank for value in pair} for pair in zip(*(values for _, values in branches), strict=True)]
    for graph, values in branches:
        with graph.activate():
            for value, element_type, found in zip(values, types, ranks, strict=True):
                is_extended = value.rank == 0 and found > {0} and None not in found
                graph.add_output(cast(reshape(value, [1]) if is_extended else value, element_type))
    outputs = outer.add(
        "If", [cast(reshape(condition, []), "boolean")], types,
        {"then_branch": branches[0][0], "else_branch": branches[1][0]},
    )  # fmt: skip
    for value, found in zip(outputs, ranks, strict=True):
        if found > {0} and None not in found:
            value.shape = PartialShape([-1] * max(rank or 0 for rank in found))
    return list(outputs)


class _LoopExporter:
    """Exports a TensorIterator or a Loop.

    Args:
        parent: The exporter of the graph that contains the layer.
        layer: The layer.
        known: The values of its inputs, by the id of the port.
    """

    def __init__(self, parent: BodyExporter, layer: Layer, known: Mapping[int, Value]) -> None:
        self.parent = parent
        self.layer = layer
        self.known = known
        self.body = layer.bodies["body"]
        self.outer = get_graph()
        self.parameters = {p.id: p for p in self.body.graph.find_layers("Parameter")}

    def export(self) -> list[Value | None]:
        """Add the loop and return the values of the outputs of the layer."""
        graph = Graph(self.outer.opset, f"{self.layer.name}/body", parent=self.outer)
        iteration = graph.add_input(constant(0).type, PartialShape([]), f"{self.layer.name}/iteration")
        keep_going = graph.add_input(constant(True).type, PartialShape([]), f"{self.layer.name}/condition")
        states = {edge.to_layer: edge.from_layer for edge in self.body.back_edges}
        initial: dict[int, Value] = {}
        arguments: dict[int, Value] = {}
        counts: list[Value] = []
        with graph.activate():
            number = reshape(iteration, [1])
        for entry in self.body.inputs:
            parameter = self.parameters[entry.internal_layer_id]
            if entry.purpose == "current_iteration" or entry.external_port_id not in self.known:
                port = parameter.outputs[0]
                with graph.activate():
                    counter = number if port.shape is None or len(port.shape) else reshape(iteration, [])
                    arguments[parameter.id] = cast(counter, port.element_type or "i64")
                continue
            value = self.known[entry.external_port_id]
            if entry.axis is not None:
                arguments[parameter.id] = self.add_slice(graph, entry, value, number, counts)
            elif parameter.id in states:
                initial[parameter.id] = value
                state = graph.add_input(value.type, None, f"{self.layer.name}/{parameter.name}")
                arguments[parameter.id] = state
            else:
                arguments[parameter.id] = value
        self.set_state_shapes(arguments, initial)
        with graph.activate():
            exporter = _export_body(
                self.parent, self.layer, self.body, arguments, {i: Known(v.shape) for i, v in arguments.items()}
            )
            results = _get_results(exporter, self.body)
            goes_on = next(
                (results[e.internal_layer_id] for e in self.body.outputs if e.purpose == "execution_condition"), None
            )
            if goes_on is None:
                condition = op("Identity", keep_going)
            else:
                condition = cast(reshape(goes_on, []), "boolean")
            graph.add_output(condition)
            order = list(initial)
            for parameter_id in order:
                graph.add_output(cast(results[states[parameter_id]], initial[parameter_id].type))
            collected = [
                e for e in self.body.outputs if e.external_port_id >= 0 and self.is_collected(e, states, order)
            ]
            for entry in collected:
                value = results[entry.internal_layer_id]
                scalar = value.rank == 0 and entry.axis is not None
                graph.add_output(reshape(value, [1]) if scalar else value)
        if len(graph.inputs) > 2 + len(order):
            raise UnsupportedError("the body reads a variable")
        trips, first = self.get_limits(counts)
        types = [initial[p].type for p in order] + [results[e.internal_layer_id].type for e in collected]
        outputs = self.outer.add("Loop", [trips, first, *(initial[p] for p in order)], types, {"body": graph})
        finals = {states[p]: outputs[i] for i, p in enumerate(order)}
        ports: dict[int, Value] = {}
        for entry in self.body.outputs:
            if entry.external_port_id >= 0 and entry not in collected:
                ports[entry.external_port_id] = finals[entry.internal_layer_id]
        for entry, value in zip(collected, outputs[len(order) :], strict=True):
            ports[entry.external_port_id] = self.join(entry, value, results[entry.internal_layer_id])
        return [ports.get(port.id) for port in self.layer.outputs]

    def set_state_shapes(self, arguments: Mapping[int, Value], initial: Mapping[int, Value]) -> None:
        """Set the shapes of states, which may change in the body."""
        inference = next((i for _, i in self.parent.inference.body_inferences if i.graph is self.body.graph), None)
        if inference is None:
            return
        for parameter_id in initial:
            known = inference.values.get((parameter_id, self.parameters[parameter_id].outputs[0].id))
            if known is not None:
                arguments[parameter_id].shape = known.shape

    @staticmethod
    def is_collected(entry: PortMapEntry, states: Mapping[int, int], order: Sequence[int]) -> bool:
        """Return whether the values of all iterations are collected for an output."""
        return entry.axis is not None or entry.internal_layer_id not in {states[p] for p in order}

    def get_limits(self, counts: Sequence[Value]) -> tuple[Value | None, Value | None]:
        """Return the maximum number of iterations, and whether the first one runs."""
        if self.layer.type == "Loop":
            trips, first = (self.known[port.id] for port in self.layer.inputs[:2])
            limit: Value | None = cast(reshape(trips, []), "i64")
            if limit is not None and limit.array is not None:
                limit = None if limit.array < 0 else limit
            elif limit is not None:
                limit = where(limit < 0, LAST, limit)
            return limit, cast(reshape(first, []), "boolean")
        if counts:
            return reshape(counts[0], []), constant(True)
        entry = next((e for e in self.body.outputs if e.axis is not None), None)
        count = 1 if entry is None else abs(entry.end - entry.start) // entry.part_size
        return constant(count), constant(True)

    def add_slice(self, graph: Graph, entry: PortMapEntry, value: Value, number: Value, counts: list[Value]) -> Value:
        """Return the slice of an input for an iteration, and add the number of slices to `counts`."""
        axis = entry.axis or 0
        if value.rank is not None:
            axis %= value.rank
        elif axis < 0:
            raise UnsupportedError("the rank of a sliced input is dynamic")
        length = get_dimension(value, axis)
        start, end = (length + i if i < 0 else constant([i]) for i in (entry.start, entry.end))
        low, high = (start, end) if entry.stride > 0 else (end, start)
        counts.append((high - low + (1 - entry.part_size)) / abs(entry.stride) + 1)
        with graph.activate():
            if entry.stride > 0:
                begin = number * entry.stride + start
            else:
                begin = number * entry.stride + start - (entry.part_size - 1)
            part = slice_axis(value, begin, begin + entry.part_size, axis)
            if value.shape is not None:
                part.shape = type(value.shape)([*value.shape[:axis], entry.part_size, *value.shape[axis + 1 :]])
        return part

    def join(self, entry: PortMapEntry, stacked: Value, part: Value) -> Value:
        """Return an output of the layer for the stacked values of all iterations."""
        if entry.axis is None:
            return squeeze(slice_axis(stacked, -1, LAST), [0])
        if part.rank is None and entry.axis:
            raise UnsupportedError("the rank of a concatenated output is dynamic")
        rank = max(part.rank or 1, 1)
        axis = entry.axis % rank
        if entry.stride < 0:
            stacked = slice_axis(stacked, LAST, FIRST, 0, -1)
        moved = transpose(stacked, [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
        shape = op("Shape", moved, result="i64")
        parts = [slice_axis(shape, axis, axis + 1) * slice_axis(shape, axis + 1, axis + 2)]
        if axis:
            parts.insert(0, slice_axis(shape, 0, axis))
        if axis + 2 < rank + 1 or part.rank is None:
            parts.append(slice_axis(shape, axis + 2, LAST))
        return op("Reshape", moved, concat(parts), allowzero=1)
