"""Export of a model's graph: a walk over its layers that calls the rule of each operation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import IrrunError, UnsupportedError
from irrun.export.control_flow import export_bodies
from irrun.export.graph import ONNX_TYPES, Graph, Value, cast, constant, get_graph, has_type, op
from irrun.export.rules import find_rule
from irrun.export.site import NotConstantError, Rule, Site
from irrun.ir.graph import Graph as IRGraph
from irrun.ir.graph import Layer, OutputAddress, name_values
from irrun.ir.model import Model, name_inputs, name_outputs
from irrun.ir.structure import sort_layers
from irrun.ops._support import registry
from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules import Value as Known
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import PartialShape

__all__ = ["PARTIAL_DOMAIN", "GraphExporter", "export_model"]

Array = np.ndarray[Any, Any]

#: The domain of nodes for layers that cannot be exported.
PARTIAL_DOMAIN = "org.openvinotoolkit"

#: Maximum number of elements of values computed during export, even if their inputs are smaller.
FOLDING_LIMIT = 1 << 12
#: The same for steps of weight decompression, which stay in the model.
DECOMPRESSION_LIMIT = 64
#: Maximum size of a value computed during export, in bytes.
FOLDING_MEMORY = 1 << 28


def export_model(model: Model, opset: int, *, partial: bool) -> tuple[Graph, list[str]]:
    """Export the graph of a model.

    Args:
        model: The model.
        opset: The ONNX opset version.
        partial: Whether layers that cannot be exported become nodes of `PARTIAL_DOMAIN`.

    Returns:
        The graph, and descriptions of the layers that could not be exported.

    Raises:
        UnsupportedError: `partial` is False, and some layers cannot be exported. The message lists all of them.
    """
    failures: list[str] = []
    graph = Graph(opset, model.name or "model")
    with graph.activate():
        exporter = GraphExporter(model.graph, GraphInference(model.graph), failures)
        for name, spec in zip(name_inputs(model.inputs), model.inputs, strict=True):
            exporter.add_parameter(spec.layer, name)
        exporter.export()
        specs = model.outputs
        for name, spec in zip(name_outputs(specs), specs, strict=True):
            value = exporter.get_result(spec.layer)
            if value is not None:
                graph.add_output(value, name)
        exporter.add_states()
    if failures and not partial:
        count = len(failures)
        raise UnsupportedError(
            f"{count} layer{'s' if count > 1 else ''} cannot be exported to ONNX: {'; '.join(failures)}",
            path=model.path,
        )
    return graph, failures


class GraphExporter:
    """Exports the layers of a graph to the current ONNX graph.

    Args:
        graph: The graph.
        inference: The inferred facts about its values.
        failures: Receives descriptions of layers that cannot be exported.
        prefix: The prefix of node names.
    """

    def __init__(self, graph: IRGraph, inference: GraphInference, failures: list[str], prefix: str = "") -> None:
        self.graph = graph
        self.inference = inference
        self.failures = failures
        self.prefix = prefix
        self.values: dict[OutputAddress, Value] = {}
        self.states: dict[str, tuple[Value, ...]] = {}
        self.assigned: dict[str, Value] = {}
        self.names = name_values(graph)

    def create(self, graph: IRGraph, inference: GraphInference, prefix: str) -> GraphExporter:
        """Return an exporter for the graph of a body."""
        return GraphExporter(graph, inference, self.failures, prefix)

    def add_parameter(self, layer: Layer, name: str) -> None:
        """Add an input of the ONNX graph for a Parameter."""
        port = layer.outputs[0]
        try:
            self.values[layer.id, port.id] = get_graph().add_input(_check_type(port.element_type), port.shape, name)
        except UnsupportedError as error:
            self.failures.append(f"{layer.describe()}: {error.message}")

    def get_result(self, layer: Layer) -> Value | None:
        """Return the value of a Result; None if it could not be exported."""
        source = self.inference.sources.get((layer.id, layer.inputs[0].id)) if layer.inputs else None
        return None if source is None else self.values.get(source)

    def export(self) -> None:
        """Export all layers. The values of Parameters must be known."""
        for layer in sort_layers(self.graph):
            if layer.is_input or layer.is_output:
                continue
            if layer.is_constant:
                self._export_constant(layer)
                continue
            try:
                self._export_layer(layer)
            except (IrrunError, ArithmeticError, ValueError, LookupError, TypeError, NotImplementedError) as error:
                message = error.message if isinstance(error, IrrunError) else f"{type(error).__name__}: {error}"
                self.failures.append(f"{layer.describe()}: {message}")
                self._replace(layer)

    def _export_constant(self, layer: Layer) -> None:
        if layer.constant is None or not layer.outputs:
            return
        value = layer.constant
        result = Value(value.element_type, PartialShape(value.shape), constant=value)
        is_stored = value.element_type.name in ONNX_TYPES
        if not is_stored or not (value.element_type.is_packed or has_type(value.element_type)):
            result.array = value.to_array()
        elif not has_type(value.element_type):
            wide = ELEMENT_TYPES["i8" if value.element_type.kind == "int" else "u8"]
            result = constant(value.to_array().astype(wide.dtype), wide)
        self.values[layer.id, layer.outputs[0].id] = result

    def _get_inputs(self, layer: Layer) -> list[Value | None]:
        sources = [self.inference.sources.get((layer.id, port.id)) for port in layer.inputs]
        inputs = [None if source is None else self.values.get(source) for source in sources]
        for source, value in zip(sources, inputs, strict=True):
            if source is not None and value is None:
                raise UnsupportedError("an input comes from a layer that cannot be exported")
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _export_layer(self, layer: Layer) -> None:
        inputs = self._get_inputs(layer)
        graph = get_graph()
        with graph.rename(self.prefix + (layer.name or f"{layer.type}_{layer.id}")):
            if layer.bodies:
                self._keep(layer, export_bodies(self, layer, inputs))
                return
            operation = registry.find(layer.type, layer.version)
            if operation is None:
                raise UnsupportedError("the operation is unknown")
            attributes = {a.name: a.default for a in operation.attributes if not a.required}
            attributes.update(operation.bind(layer.attributes))
            known = [self.inference.values.get((layer.id, port.id)) for port in layer.outputs]
            if layer.reads_variable:
                self._read_variable(layer, inputs, attributes)
                return
            if layer.writes_variable:
                if inputs and inputs[0] is not None:
                    self.assigned[attributes["variable_id"]] = inputs[0]
                    self._keep(layer, inputs[:1])
                return
            folded = _fold(operation, attributes, inputs, known, layer)
            if folded is not None:
                self._keep(layer, folded)
                return
            rule = find_rule(str(operation))
            if rule is None:
                raise UnsupportedError("ONNX cannot express the operation")
            shapes = [None if value is None else value.shape for value in known]
            site = Site(layer, inputs, attributes, shapes, [port.element_type for port in layer.outputs])
            results = _apply_rule(rule, site, operation)
            for value, shape in zip(results, site.outputs, strict=False):
                value.shape = shape if value.shape is None else value.shape
            self._keep(layer, results)

    def _keep(self, layer: Layer, results: Sequence[Value | None]) -> None:
        """Keep the values of the outputs of a layer, and name them."""
        for port, value in zip(layer.outputs, results, strict=False):
            if value is None:
                continue
            known = self.inference.values.get((layer.id, port.id))
            inferred = None if known is None else known.shape
            if inferred is not None:
                found = inferred if value.rank != len(inferred) else value.shape or inferred
                value.shape = PartialShape(a if isinstance(a, int) else b for a, b in zip(inferred, found, strict=True))
            elif value.shape is None:
                value.shape = port.shape or None  # in files, a dynamic rank looks like a scalar
            if not value.name and value.graph is get_graph():
                value.name = self.prefix + self.names[layer.id, port.id]
            self.values[layer.id, port.id] = value

    def _replace(self, layer: Layer) -> None:
        """Add a node of `PARTIAL_DOMAIN` for a layer that cannot be exported."""
        sources = [self.inference.sources.get((layer.id, port.id)) for port in layer.inputs]
        inputs = [None if source is None else self.values.get(source) for source in sources]
        types = [port.element_type for port in layer.outputs]
        if any(t is None or t.name not in ONNX_TYPES for t in types):
            return
        attributes = {"version": layer.version} | {name: str(value) for name, value in layer.attributes.items()}
        with get_graph().rename(self.prefix + layer.name):
            outputs = get_graph().add(layer.type, inputs, [t for t in types if t], attributes, PARTIAL_DOMAIN)
        self._keep(layer, outputs)

    def _read_variable(self, layer: Layer, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> None:
        """Export a ReadValue as an input with the value of the variable. Its default is the initial value."""
        name = attributes["variable_id"]
        initial = inputs[0] if inputs else None
        declared = attributes.get("variable_type") or layer.outputs[0].element_type
        element_type = _check_type(initial.type if initial is not None else declared)
        shape = attributes.get("variable_shape") or layer.outputs[0].shape
        if name not in self.states:
            if initial is None:
                dimensions = [] if shape is None else [d.min_length for d in shape]
                initial = constant(np.zeros(dimensions, element_type.dtype), element_type)
            if shape is None or shape.is_static:
                shape = initial.shape if initial.is_constant else shape
            state = get_graph().add_input(element_type, shape, name)
            self.states[name] = (state, initial)
            if initial.is_constant:
                self.values[layer.id, layer.outputs[0].id] = state
                return
            # The initial value depends on inputs: an empty state represents it.
            state.shape = None if shape is None else PartialShape([-1] * len(shape))
            then, other = (Graph(get_graph().opset, n, parent=get_graph()) for n in ("initial", "kept"))
            then.add_output(initial)
            other.add_output(state)
            is_empty = op("Equal", op("Size", state), 0)
            value = op("If", is_empty, result=element_type, then_branch=then, else_branch=other)
            value.shape = None if initial.rank is None else PartialShape([-1] * initial.rank)
            self._keep(layer, [value])
            self.states[name] = (state, initial, value)
        else:
            self.values[layer.id, layer.outputs[0].id] = self.states[name][-1 if len(self.states[name]) > 2 else 0]

    def add_states(self) -> None:
        """Add the outputs that hold the new values of variables."""
        graph = get_graph()
        graph.defaults = {
            state[0]: state[1] if state[1].is_constant else _make_empty(state[0]) for state in self.states.values()
        }
        for name, value in self.assigned.items():
            with graph.activate():
                graph.add_output(op("Identity", value), f"{name}.new")


def _apply_rule(rule: Rule, site: Site, operation: Operation) -> list[Value]:
    """Return the outputs of a layer. If the axis is not constant, export a branch for each axis."""
    graph = get_graph()
    count = len(graph.nodes)
    try:
        result = rule(site)
        return [result] if isinstance(result, Value) else list(result)
    except NotConstantError as error:
        del graph.nodes[count:]
        position = error.position
        declared = operation.inputs[position] if position < len(operation.inputs) else None
        rank = site[0].rank
        is_axis = declared is not None and declared.name == "axis" and site[position].type.is_integer
        if not is_axis or not rank:
            raise
    axis = cast(op("Reshape", site[position], constant(np.zeros(0, np.int64))), "i64")
    axis = op("Where", axis < 0, axis + rank, axis)
    if rank == 1:
        inputs = [*site.inputs]
        inputs[position] = constant(0)
        return _apply_rule(rule, Site(site.layer, inputs, site.attributes, site.outputs, site.types), operation)
    other: Graph | None = None
    for number in reversed(range(rank)):
        branch = _export_branch(rule, site, position, number)
        if other is None:
            other = branch
            continue
        types = [value.type for value in branch.outputs]
        node = "If", [op("Equal", axis, number)], types, {"then_branch": branch, "else_branch": other}
        if number == 0:
            return graph.add(*node)
        other = Graph(graph.opset, f"{graph.scope}/from_{number}", scope=graph.scope, parent=graph)
        for value in other.add(*node):
            other.add_output(value)
    raise AssertionError


def _export_branch(rule: Rule, site: Site, position: int, axis: int) -> Graph:
    """Return a graph that computes a layer for one axis."""
    graph = get_graph()
    branch = Graph(graph.opset, f"{graph.scope}/axis_{axis}", scope=graph.scope, parent=graph)
    inputs: list[Value | None] = [*site.inputs]
    inputs[position] = constant(axis)
    with branch.activate():
        outputs = rule(Site(site.layer, inputs, site.attributes, site.outputs, site.types))
        for value in [outputs] if isinstance(outputs, Value) else outputs:
            branch.add_output(value)
    return branch


def _make_empty(state: Value) -> Value:
    rank = 1 if state.rank is None else max(state.rank, 1)
    return constant(np.zeros([0] * rank, state.type.dtype), state.type)


def _check_type(element_type: ElementType | None) -> ElementType:
    """Check that ONNX has an element type, and return it.

    Raises:
        UnsupportedError: ONNX does not have the type, or the type is unknown.
    """
    if element_type is None:
        raise UnsupportedError("the element type is dynamic")
    if not has_type(element_type):
        raise UnsupportedError(f"ONNX opset {get_graph().opset} does not have the element type {element_type}")
    return element_type


def _fold(
    operation: Operation,
    attributes: Mapping[str, Any],
    inputs: Sequence[Value | None],
    known: Sequence[Known | None],
    layer: Layer,
) -> list[Value] | None:
    """Return the outputs of a layer if it depends only on constants and static shapes; otherwise None."""
    if operation.folding == "never" or not layer.outputs:
        return None
    is_decompression = operation.decompression is not None or operation.converts
    limit = DECOMPRESSION_LIMIT if is_decompression else FOLDING_LIMIT
    is_narrow = any(t is not None and t.is_float and t.bits < 32 for t in (p.element_type for p in layer.outputs))
    if (is_decompression and is_narrow) or any(v is not None and v.type.is_float and v.is_derived for v in inputs):
        limit = 1  # the known value is rounded in each step, unlike decompression in f32
    arrays = [None if value is None else value.get_array() for value in known]
    if all(a is not None and a.size <= limit for a in arrays):
        return _make_constants(arrays, [port.element_type for port in layer.outputs])
    if not inputs or not all(value is None or value.is_constant for value in inputs):
        return None
    if operation.provided or operation.has_levels:
        return None
    sizes = [
        math.prod(int(d) for d in value.shape if isinstance(d, int))
        if value is not None and value.shape is not None and value.shape.is_static
        else FOLDING_MEMORY
        for value in known
    ]
    given = sum(math.prod(v.shape.get_max_shape()) for v in inputs if v is not None and v.shape is not None)
    if max(sizes) > limit and (is_decompression or max(sizes) > 2 * given) and operation.kind != "generation":
        return None
    if max(sizes) >= FOLDING_MEMORY:
        return None
    results = operation.kernel(*(None if v is None else v.read() for v in inputs), **attributes)
    return _make_constants([results] if isinstance(results, np.ndarray) else list(results))


def _make_constants(arrays: Sequence[Array | None], types: Sequence[ElementType | None] = ()) -> list[Value] | None:
    values = []
    for i, array in enumerate(arrays):
        if array is None:
            return None
        declared = types[i] if i < len(types) else None
        element_type = declared if declared is not None else ElementType.of(array.dtype)
        if declared is not None and array.dtype != declared.dtype and array.dtype.kind not in "biuf":
            return None
        values.append(constant(array.astype(element_type.dtype, copy=False), element_type))
    return values
