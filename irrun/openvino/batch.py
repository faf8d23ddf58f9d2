"""The batch size of a model, which the layouts of its inputs determine."""

from __future__ import annotations

from typing import Any

from irrun.openvino.model import Model
from irrun.openvino.node import Node, Output
from irrun.openvino.shape import Dimension

__all__ = ["get_batch", "set_batch"]


def _find_batch_inputs(model: Model) -> list[tuple[Node, int]]:
    found = [(p, p.layout.get_index_by_name("N")) for p in model.parameters if p.layout.has_name("N")]
    if not found:
        names = "\n".join(
            f"{i}: {{ name='{port.get_any_name() if port.names else ''}', shape={port.partial_shape}, "
            f"layout={port.node.layout}, no batch specified }}"
            for i, port in enumerate(model.inputs)
        )
        raise RuntimeError(
            "Get original batch size fails due to batch is not set in any layout for any input. "
            f"Available inputs:\n{names}\n---\nPlease use 'set_layout' API to set layout with batch dimension, e.g. "
            '`Model->get_parameters()[index]->set_layout("NCHW");`'
        )
    return found


def get_batch(model: Model) -> Any:
    """Return the batch size as a `Dimension`, according to the layouts of the inputs.

    Raises:
        RuntimeError: No layout has a batch dimension.
    """
    node, axis = _find_batch_inputs(model)[0]
    return node.partial_shape[axis]


def set_batch(model: Model, batch_size: Any = -1) -> None:
    """Set the batch size of all inputs whose layouts have a batch dimension.

    Args:
        model: The model.
        batch_size: An integer or a `Dimension`.

    Raises:
        RuntimeError: No layout has a batch dimension.
    """
    new_shapes = {}
    for node, axis in _find_batch_inputs(model):
        shape = node.partial_shape
        shape[axis] = batch_size if isinstance(batch_size, Dimension) else Dimension(batch_size)
        new_shapes[Output(node, 0)] = shape
    model.reshape(new_shapes)
