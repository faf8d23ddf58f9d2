"""The batch size of a model, which the layouts of its inputs determine."""

from __future__ import annotations

from typing import Any

from irrun.openvino.dimension import Dimension
from irrun.openvino.model import Model
from irrun.openvino.node import Node, Output
from irrun.ops.shape_rules.dimensions import merge

__all__ = ["get_batch", "set_batch"]


def _find_batch_axes(model: Model) -> list[tuple[Node, int]]:
    """Return the Parameters of static rank with a batch, and its axis.

    Raises:
        RuntimeError: No layout has a batch dimension.
    """
    with_batch = [node for node in model.parameters if node.layout.has_name("N")]
    if not with_batch:
        inputs = "\n".join(_describe(model, i) for i in range(len(model.inputs)))
        raise RuntimeError(
            "Get original batch size fails due to batch is not set in any layout for any input. "
            f"Available inputs:\n{inputs}\n---\nPlease use 'set_layout' API to set layout with batch dimension, e.g. "
            '`Model->get_parameters()[index]->set_layout("NCHW");`'
        )
    found = []
    for node in with_batch:
        if node.partial_shape.rank.is_static:
            axis = node.layout.get_index_by_name("N")
            found.append((node, axis + len(node.partial_shape) if axis < 0 else axis))
    return found


def _describe(model: Model, index: int) -> str:
    port, layout = model.inputs[index], model.parameters[index].layout
    name = f"name='{port.get_any_name()}', " if port.names else ""
    batch = "" if layout.has_name("N") else ", no batch specified"
    return f"{index}: {{ {name}shape={port.partial_shape}, layout={layout}{batch} }}"


def get_batch(model: Model) -> Any:
    """Return the batch size as a `Dimension`, according to the layouts of the inputs.

    Raises:
        RuntimeError: No layout has a batch dimension, or inputs have different batch sizes.
    """
    batch = Dimension()
    merged: list[Node] = []
    for node, axis in _find_batch_axes(model):
        merged.append(node)
        common = merge(batch._value, node.partial_shape[axis]._value)
        if common is None:
            inputs = "\n".join(_describe(model, model.get_parameter_index(other)) for other in merged)
            raise RuntimeError(
                f"Get original batch size fails due to conflicting batch values for inputs:\n{inputs}\n---\n"
                "Please ensure that N(Batch) dimension is set correctly for listed parameters"
            )
        batch = Dimension(common)
    return batch


def set_batch(model: Model, batch_size: Any = -1) -> None:
    """Set the batch size of all inputs with a batch dimension in their layout.

    Args:
        model: The model. If an error is raised, its shapes are unchanged.
        batch_size: An integer or a `Dimension`.

    Raises:
        RuntimeError: No layout has a batch dimension, inputs have different batch sizes, or a layer does not accept the
            new shapes.
    """
    get_batch(model)
    new_shapes = {}
    batch = batch_size if isinstance(batch_size, Dimension) else Dimension(batch_size)
    for node, axis in _find_batch_axes(model):
        shape = node.partial_shape
        shape[axis] = batch
        new_shapes[Output(node, 0)] = shape
    try:
        model.reshape(new_shapes)
    except RuntimeError as error:
        raise RuntimeError(
            f"Failed to set batch size to {batch}. Possible reasons are:\n"
            "    1) Ensure that all inputs have valid layout set with batch dimension\n"
            "    2) Check model's documentation if batch size can be set to it at all\n"
            f"---\nOriginal error message is: {error}"
        ) from None
