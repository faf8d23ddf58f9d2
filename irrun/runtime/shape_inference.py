"""Inference of the shapes of all values of a graph from the shapes of its inputs.

Shapes are partial: what depends on a dynamic dimension or on the values of tensors is dynamic. They follow from the
rules of `shape_rules`. Only operations without a rule, which users register, run on examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from irrun.errors import InputError
from irrun.ir.graph import Body, Graph, Layer
from irrun.ir.model import Model
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.runtime.body_shapes import infer_bodies
from irrun.runtime.layer_shapes import infer_layer
from irrun.runtime.shape_rules import ShapeError, Value
from irrun.runtime.shape_rules.dimensions import contains, may_equal
from irrun.shapes import PartialShape

__all__ = ["Failure", "GraphInference", "infer_outputs", "reshape_model"]

#: The layer id and the port id of an output port.
Address = tuple[int, int]


class Failure(NamedTuple):
    """A layer whose inputs do not fit.

    Attributes:
        layer: The layer.
        message: What was found and what was expected.
        owner: The layer of the graph in whose body the layer is; the layer itself if it is in no body.
    """

    layer: Layer
    message: str
    owner: Layer


class GraphInference:
    """Infers what is known about the values of a graph.

    Args:
        graph: The graph, which is not changed.
        arguments: What is known about Parameters by the id of the layer; by default their declared shapes.

    Attributes:
        graph: The graph.
        values: What is known about each output port.
        failures: The layers whose inputs do not fit, in the order of the computation, those in bodies included.
        bodies: The inferences of the bodies of layers.
    """

    def __init__(self, graph: Graph, arguments: Mapping[int, Value] | None = None) -> None:
        self.graph = graph
        self.values: dict[Address, Value] = {}
        self.failures: list[Failure] = []
        self.bodies: list[tuple[Layer, GraphInference]] = []
        self._arguments = arguments or {}
        self._sources = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
        for layer in sort_layers(graph):
            for port, value in zip(layer.outputs, self._infer_layer(layer), strict=False):
                self.values[layer.id, port.id] = value

    def get_inputs(self, layer: Layer) -> list[Value | None]:
        """Return what is known about the inputs of a layer; None for inputs that are not connected."""
        keys = [self._sources.get((layer.id, port.id)) for port in layer.inputs]
        inputs = [None if key is None else self.values.get(key) for key in keys]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _infer_layer(self, layer: Layer) -> list[Value]:
        if layer.type == "Parameter":
            declared = layer.outputs[0].shape if layer.outputs else None
            return [self._arguments.get(layer.id, Value(declared))]
        if layer.type == "Constant":
            if is_placeholder(layer):
                return []
            return [Value(None) if layer.constant is None else Value.of_constant(layer.constant)]
        if layer.type == "Result":
            return []
        try:
            return infer_outputs(layer, self.get_inputs(layer), self)
        except ShapeError as error:
            self.failures.append(Failure(layer, str(error), layer))
            return [Value(None) for _ in layer.outputs]

    def get_results(self) -> dict[int, Value | None]:
        """Return what is known about the Results by the id of the layer."""
        results = {}
        for result in self.graph.find_layers("Result"):
            inputs = self.get_inputs(result)
            results[result.id] = inputs[0] if inputs else None
        return results

    def infer_body(self, body: Body, arguments: Mapping[int, Value]) -> GraphInference:
        """Return the inference of a body.

        Args:
            body: The body.
            arguments: What is known about its Parameters by the id of the layer.
        """
        return GraphInference(body.graph, arguments)

    def keep_body(self, layer: Layer, inference: GraphInference) -> None:
        """Add the shapes and failures of a body.

        Args:
            layer: The layer that owns the body.
            inference: The inference of the body.
        """
        self.bodies.append((layer, inference))
        self.failures.extend(failure._replace(owner=layer) for failure in inference.failures)


def infer_outputs(layer: Layer, inputs: Sequence[Value | None], parent: GraphInference | None = None) -> list[Value]:
    """Infer what is known about the outputs of a layer.

    Args:
        layer: The layer. Declared shapes have no influence.
        inputs: What is known about its inputs; None for one that is not connected.
        parent: The inference of the graph of the layer, to which the shapes in its bodies are added.

    Raises:
        ShapeError: The inputs do not fit.
    """
    if not layer.bodies:
        return infer_layer(layer, inputs)
    parent = parent or GraphInference(Graph())
    ports = zip(layer.inputs, inputs, strict=False)
    return infer_bodies(parent, layer, {port.id: value for port, value in ports if value is not None})


def reshape_model(model: Model, shapes: Mapping[int, PartialShape | None]) -> None:
    """Change the declared shapes of Parameters and of all values that are computed from them.

    Layers whose inputs have not changed keep their declarations.

    Args:
        model: The model. If an error is raised, it is unchanged.
        shapes: The new shapes of Parameters by the id of the layer.

    Raises:
        InputError: The inputs of a layer do not fit.
    """
    from irrun.runtime.fixed_shapes import relax_fixed_shapes

    before = GraphInference(model.graph)
    graph = relax_fixed_shapes(model.graph, before)
    after = GraphInference(graph, {layer_id: Value(shape) for layer_id, shape in shapes.items()})
    changes = _Changes(before, after, shapes)
    for failure in after.failures:
        if changes.concern(failure.owner):
            raise InputError(
                f"{failure.message} (reshaping {_describe(model, shapes)})",
                path=model.path,
                line=failure.layer.line or None,
                layer=failure.layer.describe(),
            )
    changes.store()
    model.graph.layers, model.graph.edges, model.graph.edge_lines = graph.layers, graph.edges, graph.edge_lines


def _describe(model: Model, shapes: Mapping[int, PartialShape | None]) -> str:
    return ", ".join(
        f"{spec.names[0] if spec.names else 'an input'} to {shapes[spec.layer.id] or '[...]'}"
        for spec in model.inputs
        if spec.layer.id in shapes
    )


class _Changes:
    """The values whose shapes change when the inputs of a graph are reshaped.

    Args:
        before: What is known for the declared shapes.
        after: What is known for the new shapes.
        shapes: The new shapes of Parameters by the id of the layer.
    """

    def __init__(
        self, before: GraphInference, after: GraphInference, shapes: Mapping[int, PartialShape | None]
    ) -> None:
        self.before = before
        self.after = after
        self.shapes = shapes
        self.sources = after._sources
        previous = {id(layer) for layer in before.graph.layers}
        self.changed: set[Address] = set()
        self.changed_layers: set[int] = set()
        for layer in sort_layers(after.graph):
            has_changed = id(layer) not in previous or any(
                self.sources.get((layer.id, port.id)) in self.changed for port in layer.inputs
            )
            if layer.type == "Parameter":
                has_changed = layer.id in shapes
            if has_changed:
                self.changed_layers.add(id(layer))
                self.changed.update((layer.id, port.id) for port in layer.outputs if self._differs(layer, port.id))

    def _differs(self, layer: Layer, port_id: int) -> bool:
        """Return whether an output of a layer with changed inputs may differ."""
        old, new = (inference.values.get((layer.id, port_id)) for inference in (self.before, self.after))
        if old is None or new is None or not old.equals(new):
            return True
        if layer.type == "Parameter":
            return False
        return new.shape is None or not new.shape.is_static

    def concern(self, layer: Layer) -> bool:
        """Return whether a layer has changed inputs."""
        return id(layer) in self.changed_layers

    def store(self) -> None:
        """Write the shapes of changed values to the ports of the graph."""
        graph = self.after.graph
        for layer in graph.layers:
            for port in layer.outputs:
                shape = self.after.values.get((layer.id, port.id), Value(None)).shape
                is_affected = id(layer) in self.changed_layers
                if layer.type != "Constant" and (is_affected or _is_better(shape, port.shape)):
                    port.shape = shape
            if layer.type == "Parameter" and layer.id in self.shapes:
                layer.outputs[0].shape = self.shapes[layer.id]
                _declare(layer)
        _copy_to_inputs(graph, self.sources)
        for layer, inner in self.after.bodies:
            if id(layer) in self.changed_layers:
                _store_body(inner)


def _is_better(shape: PartialShape | None, declared: PartialShape | None) -> bool:
    """Return whether an inferred shape is within a declared one, or contradicts it."""
    if not declared:  # without dimensions, it may stand for any rank
        return True
    if shape is None:
        return False
    return contains(declared, shape) or len(shape) != len(declared) or not all(map(may_equal, shape, declared))


def _declare(parameter: Layer) -> None:
    shape = parameter.outputs[0].shape
    parameter.attributes["shape"] = "..." if shape is None else str(shape)[1:-1]


def _copy_to_inputs(graph: Graph, sources: Mapping[Address, Address]) -> None:
    """Declare the shapes of input ports as those of the output ports that they are connected to."""
    shapes = {(layer.id, port.id): port.shape for layer in graph.layers for port in layer.outputs}
    for layer in graph.layers:
        for port in layer.inputs:
            source = sources.get((layer.id, port.id))
            if source is not None and source in shapes:
                port.shape = shapes[source]


def _store_body(inference: GraphInference) -> None:
    """Write the shapes of all values of a body to its ports."""
    for layer in inference.graph.layers:
        if layer.type == "Constant":
            continue
        for port in layer.outputs:
            port.shape = inference.values.get((layer.id, port.id), Value(None)).shape
        if layer.type == "Parameter" and layer.outputs:
            _declare(layer)
    _copy_to_inputs(inference.graph, inference._sources)
    for _, inner in inference.bodies:
        _store_body(inner)
