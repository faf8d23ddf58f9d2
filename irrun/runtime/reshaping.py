"""Changes of the declared shapes of a model: its inputs, and all values that depend on them."""

from __future__ import annotations

from collections.abc import Mapping

from irrun.errors import InputError
from irrun.ir.graph import Graph, Layer
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers
from irrun.ops.shape_rules import Value
from irrun.ops.shape_rules.dimensions import contains, may_equal
from irrun.runtime.fixed_shapes import relax_fixed_shapes
from irrun.runtime.shape_inference import Address, GraphInference
from irrun.shapes import PartialShape

__all__ = ["reshape_model"]


def reshape_model(model: Model, shapes: Mapping[int, PartialShape | None]) -> None:
    """Change the declared shapes of Parameters and of all values that are computed from them.

    Layers with unchanged inputs keep their declarations.

    Args:
        model: The model. If an error is raised, it is unchanged.
        shapes: The new shapes of Parameters by the id of the layer.

    Raises:
        InputError: The inputs of a layer do not fit.
    """
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
    """The values that change shape when the inputs of a graph are reshaped.

    Args:
        before: The facts for the declared shapes.
        after: The facts for the new shapes.
        shapes: The new shapes of Parameters by the id of the layer.
    """

    def __init__(
        self, before: GraphInference, after: GraphInference, shapes: Mapping[int, PartialShape | None]
    ) -> None:
        self.before = before
        self.after = after
        self.shapes = shapes
        self.sources = after.sources
        previous = {id(layer) for layer in before.graph.layers}
        self.changed: set[Address] = set()
        self.changed_layers: set[int] = set()
        for layer in sort_layers(after.graph):
            has_changed = id(layer) not in previous or any(
                self.sources.get((layer.id, port.id)) in self.changed for port in layer.inputs
            )
            if layer.is_input:
                has_changed = layer.id in shapes
            if has_changed:
                self.changed_layers.add(id(layer))
                self.changed.update((layer.id, port.id) for port in layer.outputs if self._differs(layer, port.id))

    def _differs(self, layer: Layer, port_id: int) -> bool:
        """Return whether an output of a layer with changed inputs may differ."""
        old, new = (inference.values.get((layer.id, port_id)) for inference in (self.before, self.after))
        if old is None or new is None or not old.equals(new):
            return True
        if layer.is_input:
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
                if not layer.is_constant and (is_affected or _is_better(shape, port.shape)):
                    port.shape = shape
            if layer.is_input and layer.id in self.shapes:
                layer.outputs[0].shape = self.shapes[layer.id]
                _declare(layer)
        _copy_to_inputs(graph, self.sources)
        for layer, inference in self.after.body_inferences:
            if id(layer) in self.changed_layers:
                _store_body(inference)


def _is_better(shape: PartialShape | None, declared: PartialShape | None) -> bool:
    """Return whether an inferred shape is within a declared one, or contradicts it."""
    if not declared:  # a shape without dimensions may mean any rank
        return True
    if shape is None:
        return False
    return contains(declared, shape) or len(shape) != len(declared) or not all(map(may_equal, shape, declared))


def _declare(parameter: Layer) -> None:
    shape = parameter.outputs[0].shape
    parameter.attributes["shape"] = "..." if shape is None else str(shape)[1:-1]


def _copy_to_inputs(graph: Graph, sources: Mapping[Address, Address]) -> None:
    """Copy the declared shapes of output ports to the connected input ports."""
    shapes = {(layer.id, port.id): port.shape for layer in graph.layers for port in layer.outputs}
    for layer in graph.layers:
        for port in layer.inputs:
            source = sources.get((layer.id, port.id))
            if source is not None and source in shapes:
                port.shape = shapes[source]


def _store_body(inference: GraphInference) -> None:
    """Write the shapes of all values of a body to its ports."""
    for layer in inference.graph.layers:
        if layer.is_constant:
            continue
        for port in layer.outputs:
            port.shape = inference.values.get((layer.id, port.id), Value(None)).shape
        if layer.is_input and layer.outputs:
            _declare(layer)
    _copy_to_inputs(inference.graph, inference.sources)
