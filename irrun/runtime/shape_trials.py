"""Trials of input shapes: the shapes and failures that would follow in a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from irrun.ir.graph import Graph, Layer, OutputAddress
from irrun.ops.shape_rules import Value
from irrun.runtime.shape_inference import GraphInference
from irrun.shapes import PartialShape

__all__ = ["ShapeTrial", "try_shapes"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ShapeTrial:
    """The result of a trial with certain shapes of a graph's Parameters.

    Attributes:
        shapes: The shapes of output ports by layer id and port id, except shapes that depend on values of tensors.
        unknown: The number of output ports whose rank cannot be inferred, such as ports after a layer that fails.
        failures: The layers that fail for all inputs of these shapes, and the messages.
    """

    shapes: dict[OutputAddress, Shape]
    unknown: int
    failures: list[tuple[Layer, str]]


def try_shapes(graph: Graph, shapes: Mapping[int, Shape]) -> ShapeTrial:
    """Infer shapes for other shapes of Parameters. The graph keeps its declarations.

    Args:
        graph: The graph.
        shapes: The shapes of Parameters by the id of the layer.
    """
    inference = GraphInference(graph, {i: Value(PartialShape(shape)) for i, shape in shapes.items()})
    inferred = {key: value.shape for key, value in inference.values.items()}
    return ShapeTrial(
        {key: shape.get_min_shape() for key, shape in inferred.items() if shape is not None and shape.is_static},
        sum(shape is None for shape in inferred.values()),
        [(failure.layer, failure.message) for failure in inference.failures],
    )
