"""`Model.reshape`: other shapes of the inputs of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irrun.openvino import graph_conversion
from irrun.openvino.model_ports import ModelPorts, find_node
from irrun.openvino.node import ConstOutput, Node
from irrun.openvino.shape import PartialShape, Shape

__all__ = ["reshape_model"]


def reshape_model(model: ModelPorts, partial_shape: Any, variables_shapes: Mapping[str, Any] | None) -> None:
    """Change the shapes of inputs, and infer all other shapes anew; see `Model.reshape`."""
    new_shapes: list[tuple[Node, PartialShape]] = []
    for variable, shape in (variables_shapes or {}).items():
        if not isinstance(variable, str):
            raise TypeError(f"Incorrect key type {type(variable)} to reshape a model, expected values as str.")
        _to_shape(shape)
    if isinstance(partial_shape, Mapping):
        for key, shape in partial_shape.items():
            new_shapes.append((_find_input(model, key), _to_shape(shape)))
    elif isinstance(partial_shape, (PartialShape, Shape, list, tuple, str)):
        if len(model._parameters) != 1:
            raise RuntimeError("reshape() with one shape requires a model with one input")
        new_shapes.append((model._parameters[0], PartialShape(partial_shape)))
    else:
        raise TypeError(
            "reshape(): incompatible function arguments: expected a shape or a dict of shapes. "
            f"Invoked with: {partial_shape!r}"
        )
    if all(shape.is_static and node._ports[0].shape == shape._to_irrun() for node, shape in new_shapes):
        return
    previous = [(node, port.shape) for node, _ in new_shapes for port in node._ports]
    undo = _relax_fixed_shapes(model)
    try:
        for node, shape in new_shapes:
            node._declare(node._ports[0].element_type, shape._to_irrun())
        model.validate_nodes_and_infer_types()
    except RuntimeError:
        undo()
        for node, old in previous:
            node._declare(node._ports[0].element_type, old)
        model.validate_nodes_and_infer_types()
        raise


def _relax_fixed_shapes(model: ModelPorts) -> Callable[[], None]:
    """Adapt nodes that state sizes of the old shapes, and return a function that undoes it."""
    from irrun.runtime.fixed_shapes import relax_fixed_shapes
    from irrun.runtime.shape_inference import GraphInference

    nodes = graph_conversion.list_nodes(model._parameters, model._results, model._sinks)
    graph = model._to_ir().graph
    return graph_conversion.apply_edits(nodes, relax_fixed_shapes(graph, GraphInference(graph)))


def _find_input(model: ModelPorts, key: Any) -> Node:
    if isinstance(key, ConstOutput):
        port = key if find_node(model._parameters, key.node) >= 0 else model.input(key.any_name)
        node: Node = port.node
        return node
    if isinstance(key, (int, str)):
        found: Node = model.input(key).node
        return found
    shown = f"<class 'openvino._pyopenvino.op.{key._type}'>" if isinstance(key, Node) else type(key)
    raise TypeError(f"Incorrect key type {shown} to reshape a model, expected keys as openvino.Output, int or str.")


def _to_shape(value: Any) -> PartialShape:
    if not isinstance(value, (PartialShape, Shape, list, tuple, str)):
        raise TypeError(
            f"Incorrect value type {type(value)} to reshape a model, expected values as openvino.PartialShape, str, "
            "list or tuple."
        )
    return PartialShape(value)
