"""Trials of shapes: what would follow if the inputs of a model had them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from irrun.ir.graph import Graph, Layer, OutputAddress
from irrun.runtime.shape_inference import SAMPLES, _GraphInference, _Sample, _Value

__all__ = ["ShapeTrial", "try_shapes"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ShapeTrial:
    """What follows if the Parameters of a graph have certain shapes.

    Attributes:
        shapes: The shapes of output ports by layer id and port id, without those that depend on values of tensors.
        unknown: The number of output ports whose shape cannot be inferred, such as those after a layer that fails.
        failures: The layers that fail for all inputs of these shapes, and the messages.
    """

    shapes: dict[OutputAddress, Shape]
    unknown: int
    failures: list[tuple[Layer, str]]


def try_shapes(graph: Graph, shapes: Mapping[int, Shape]) -> ShapeTrial:
    """Infer shapes for other shapes of Parameters. The graph keeps its declarations.

    Args:
        graph: The graph.
        shapes: The shapes of Parameters by the id of the layer. Dynamic dimensions of others are sampled.
    """
    trials: list[ShapeTrial] = []
    for number in range(SAMPLES - 1):
        sample = _Sample(number)
        inference = _GraphInference(graph, sample, {}, {i: _Value(shape, None, True) for i, shape in shapes.items()})
        values = {key: value.shape for key, value in inference.infer().items() if value.shape is not None}
        unknown = sum(len(layer.outputs) for layer in graph.layers) - len(values)
        trials.append(ShapeTrial(values, unknown, inference.failures))
        if not sample.is_used:
            break
    common = [{id(layer) for layer, _ in trial.failures} for trial in trials]
    first = trials[0]
    return ShapeTrial(
        {key: shape for key, shape in first.shapes.items() if all(t.shapes.get(key) == shape for t in trials)},
        first.unknown,
        [(layer, text) for layer, text in first.failures if all(id(layer) in layers for layers in common)],
    )
