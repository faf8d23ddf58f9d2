"""Inference of the shapes of all values of a graph from the shapes of its inputs.

Shapes are partial: dimensions that depend on a dynamic dimension or on tensor values are dynamic. The rules of
`shape_rules` give the shapes. Only the kernels of custom operations, which have no rule, run on examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from irrun.ir.graph import Graph, Layer
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.ops.shape_rules import ShapeError, Value
from irrun.runtime.body_shapes import infer_bodies
from irrun.runtime.layer_shapes import infer_layer

__all__ = ["Address", "Failure", "GraphInference", "infer_outputs"]

#: The layer id and the port id of an output port.
Address = tuple[int, int]


class Failure(NamedTuple):
    """A layer whose inputs do not fit.

    Attributes:
        layer: The layer.
        message: The finding and the expectation.
        owner: The layer of the graph that contains the layer in its body; the layer itself if it is not in a body.
    """

    layer: Layer
    message: str
    owner: Layer


class GraphInference:
    """Infers the facts about the values of a graph.

    Args:
        graph: The graph. It is not modified.
        arguments: The facts about Parameters by the id of the layer; by default their declared shapes.

    Attributes:
        graph: The graph.
        values: The facts about each output port.
        failures: The layers whose inputs do not fit, in bodies too, in the order of computation.
        body_inferences: The inferences of all bodies, also of nested ones, each with the layer of the graph that
            contains the body.
        sources: The output port that each connected input port reads, by the id of the layer and of the port.
    """

    def __init__(self, graph: Graph, arguments: Mapping[int, Value] | None = None) -> None:
        self.graph = graph
        self.values: dict[Address, Value] = {}
        self.failures: list[Failure] = []
        self.body_inferences: list[tuple[Layer, GraphInference]] = []
        self._arguments = arguments or {}
        self.sources = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
        for layer in sort_layers(graph):
            for port, value in zip(layer.outputs, self._infer_layer(layer), strict=False):
                self.values[layer.id, port.id] = value

    def get_inputs(self, layer: Layer) -> list[Value | None]:
        """Return the facts about the inputs of a layer; None for unconnected inputs."""
        keys = [self.sources.get((layer.id, port.id)) for port in layer.inputs]
        inputs = [None if key is None else self.values.get(key) for key in keys]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def _infer_layer(self, layer: Layer) -> list[Value]:
        if layer.is_input:
            declared = layer.outputs[0].shape if layer.outputs else None
            return [self._arguments.get(layer.id, Value(declared))]
        if layer.is_constant:
            if is_placeholder(layer):
                return []
            return [Value(None) if layer.constant is None else Value.of_constant(layer.constant)]
        if layer.is_output:
            return []
        try:
            return infer_outputs(layer, self.get_inputs(layer), self)
        except ShapeError as error:
            self.failures.append(Failure(layer, str(error), layer))
            return [Value(None) for _ in layer.outputs]

    def get_results(self) -> dict[int, Value | None]:
        """Return the facts about the Results by the id of the layer."""
        results = {}
        for result in self.graph.find_layers("Result"):
            inputs = self.get_inputs(result)
            results[result.id] = inputs[0] if inputs else None
        return results

    @property
    def has_failed(self) -> bool:
        """Whether the inputs of a layer do not fit."""
        return bool(self.failures)

    def keep_body(self, layer: Layer, inference: GraphInference) -> None:
        """Add the shapes and failures of a body.

        Args:
            layer: The layer that owns the body.
            inference: The inference of the body.
        """
        self.body_inferences.append((layer, inference))
        self.body_inferences.extend((layer, inner) for _, inner in inference.body_inferences)
        self.failures.extend(failure._replace(owner=layer) for failure in inference.failures)


def infer_outputs(layer: Layer, inputs: Sequence[Value | None], parent: GraphInference | None = None) -> list[Value]:
    """Infer the facts about the outputs of a layer.

    Args:
        layer: The layer. Declared shapes have no influence.
        inputs: The facts about its inputs; None for unconnected inputs.
        parent: The inference of the graph of the layer. It receives the shapes in its bodies.

    Raises:
        ShapeError: The inputs do not fit.
    """
    if not layer.bodies:
        return infer_layer(layer, inputs)
    ports = zip(layer.inputs, inputs, strict=False)
    known = {port.id: value for port, value in ports if value is not None}
    values, bodies = infer_bodies(lambda body, arguments: GraphInference(body.graph, arguments), layer, known)
    if parent is not None:
        for inference in bodies:
            parent.keep_body(layer, inference)
    return values
