"""Validation of model files: everything that can be checked without running the model."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from irrun.activity import announce
from irrun.arguments import check_path
from irrun.errors import IrrunError, ModelError
from irrun.ir.graph import Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.reader import read_findings
from irrun.ir.schema import find_schema_violations
from irrun.ir.structure import Finding, check_body_is_mapped, compare_shapes, compare_types, is_placeholder
from irrun.ir.weights import WeightsSource
from irrun.ops._support import registry
from irrun.ops._support.context import BodyRunner
from irrun.ops._support.operation import Operation, check_operation_list
from irrun.ops.shape_rules import Value
from irrun.ops.shape_rules.dimensions import may_equal
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import PartialShape

__all__ = ["check_operations", "validate"]


def validate(
    path: str | os.PathLike[str], weights: WeightsSource | None = None, operations: Sequence[Operation] = ()
) -> list[Finding]:
    """Return all errors in a model file, ordered by line.

    Files of IR v10 and v11 are validated against a schema. For all versions, the structure, the operations, their
    attributes and inputs, and the declared types and shapes are checked.

    Args:
        path: The path of the .xml.
        weights: The weights, if they are not next to the .xml.
        operations: Custom operations; they take precedence over registered ones.

    Raises:
        ModelError: The file cannot be read, or is not well-formed XML.
    """
    path = check_path("path", path, "the path of an .xml file")
    operations = check_operation_list(operations)
    findings = find_schema_violations(Path(path))
    lines = {finding.line for finding in findings if finding.line}
    try:
        contradictions: list[Finding] = []
        model, others = read_findings(path, weights, contradictions=contradictions)
        others = [finding for finding in others if finding.line not in lines]  # the schema reports them already
        is_readable = not findings and not others
        findings += others + contradictions
        with announce("checking"):
            findings += check_operations(model, operations, check_shapes=is_readable)
    except ModelError as error:
        findings.append(Finding(error.line or 0, error.layer or "", error.message))
    except IrrunError as error:
        findings.append(Finding(0, "", str(error)))
    return sorted(dict.fromkeys(findings))


def check_operations(model: Model, operations: Sequence[Operation] = (), *, check_shapes: bool) -> Iterator[Finding]:
    """Find layers that cannot run: operations, attributes, inputs, and declarations that contradict each other.

    Args:
        model: The model.
        operations: Custom operations; they take precedence over registered ones.
        check_shapes: Whether to compare the declared shapes with the shapes that follow from the inputs.

    Yields:
        The findings.
    """
    checkers: dict[int, _GraphChecker] = {}
    invalid: set[int] = set()
    for graph, layer in model.graph.walk():
        if id(graph) not in checkers:
            checkers[id(graph)] = _GraphChecker(graph, operations)
        for message in checkers[id(graph)].check_layer(layer):
            invalid.add(id(layer))
            yield Finding(layer.line, layer.describe(), message)
    wrong_ports: set[tuple[int, int]] = set()
    if check_shapes and model.source_version >= 10:
        inference = GraphInference(model.graph)
        for layer, message, _ in inference.failures:
            if id(layer) not in invalid:
                yield Finding(layer.line, layer.describe(), message)
        for layer, port, shape in _find_wrong_shapes(inference):
            if id(layer) in invalid:
                continue
            wrong_ports.add((id(layer), port.id))
            message = f"its output port {port.id} declares the shape {port.shape}, its inputs determine {shape}"
            yield Finding(layer.line, layer.describe(), message)
    for checker in checkers.values():
        yield from _check_edges(checker.graph, wrong_ports)


class _GraphChecker:
    """Checks the layers of one graph.

    Args:
        graph: The graph.
        operations: Custom operations; they take precedence over registered ones.
    """

    def __init__(self, graph: Graph, operations: Sequence[Operation]) -> None:
        self.graph = graph
        self.operations = operations
        placeholders = {layer.id for layer in graph.find_layers("Constant") if is_placeholder(layer)}
        self.connected = {(e.to_layer, e.to_port) for e in graph.edges if e.from_layer not in placeholders}
        self.consumed: dict[int, set[int]] = {}
        for edge in graph.edges:
            self.consumed.setdefault(edge.from_layer, set()).add(edge.from_port)

    def check_layer(self, layer: Layer) -> Iterator[str]:
        """Yield a message for everything that prevents a layer from running."""
        operation = registry.find(layer.type, layer.version, self.operations)
        if operation is None:
            yield f"unsupported operation {layer.type} of {layer.version}{_suggest_operation(layer.type)}"
            return
        if layer.is_structural:  # the reader and the structural checks are enough
            return
        yield from operation.find_invalid_attributes(layer.attributes)
        connected = [(layer.id, port.id) in self.connected for port in layer.inputs]
        while connected and not connected[-1]:
            connected.pop()
        try:
            operation.check_inputs(connected)
        except ModelError as error:
            yield error.message
        for tag in [name for name, kind in operation.provided.items() if kind is BodyRunner]:
            if tag not in layer.bodies:
                yield f"{operation} requires a <{tag}>"
                continue
            try:
                check_body_is_mapped(layer, layer.bodies[tag], self.consumed.get(layer.id, ()))
            except ModelError as error:
                yield error.message


def _suggest_operation(operation_type: str) -> str:
    similar = difflib.get_close_matches(operation_type, _get_operation_types(), 3, 0.75)
    return f"; did you mean {', '.join(similar)}?" if similar else ""


@functools.lru_cache(maxsize=1)
def _get_operation_types() -> tuple[str, ...]:
    return tuple(sorted({operation.type for operation in registry.list_operations()}))


def _find_wrong_shapes(inference: GraphInference) -> Iterator[tuple[Layer, Port, PartialShape]]:
    """Yield each output port with a declared shape that the inputs of the graph cannot give."""
    for current in (inference, *(inner for _, inner in inference.body_inferences)):
        for layer in current.graph.layers:
            for port in layer.outputs:
                shape = current.values.get((layer.id, port.id), Value(None)).shape
                if shape is None or not port.shape:  # a port of unknown rank has no dimensions, exactly like a scalar
                    continue
                if len(shape) != len(port.shape) or not all(map(may_equal, shape, port.shape)):
                    yield layer, port, shape


def _check_edges(graph: Graph, wrong_ports: set[tuple[int, int]]) -> Iterator[Finding]:
    """Yield a finding for each edge with different declared types or shapes at its ends.

    Args:
        graph: The graph.
        wrong_ports: Output ports with a wrong declaration that is reported already, by the identity of the layer.
    """
    layers = {layer.id: layer for layer in graph.layers}
    outputs = {(layer.id, port.id): port for layer in graph.layers for port in layer.outputs}
    inputs = {(layer.id, port.id): port for layer in graph.layers for port in layer.inputs}
    for i, edge in enumerate(graph.edges):
        source = outputs.get((edge.from_layer, edge.from_port))
        target = inputs.get((edge.to_layer, edge.to_port))
        if source is None or target is None or (id(layers[edge.from_layer]), edge.from_port) in wrong_ports:
            continue
        for found, expected in (compare_types(source, target), compare_shapes(source, target)):
            if found:
                producer = layers[edge.from_layer]
                message = (
                    f"its input port {edge.to_port} declares {expected}, but output port {edge.from_port} of "
                    f"{producer.describe()} declares {found}"
                )
                consumer = layers[edge.to_layer]
                yield Finding(graph.get_edge_line(i) or consumer.line, consumer.describe(), message)
