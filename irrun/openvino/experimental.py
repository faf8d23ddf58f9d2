"""Functions that OpenVINO calls experimental."""

from __future__ import annotations

from typing import Any

from irrun.openvino.element_type import to_element_type
from irrun.openvino.node import as_output
from irrun.openvino.shape import PartialShape

__all__ = ["evaluate_as_partial_shape", "set_element_type", "set_tensor_type"]


def set_element_type(tensor: Any, element_type: Any) -> None:
    """Set the element type of the tensor of a port."""
    tensor._port._data.element_type = to_element_type(element_type)


def set_tensor_type(tensor: Any, element_type: Any, shape: Any) -> None:
    """Set the element type and the shape of the tensor of a port."""
    set_element_type(tensor, element_type)
    tensor._port._data.shape = PartialShape(shape)._to_irrun()


def evaluate_as_partial_shape(output: Any, partial_shape: PartialShape) -> bool:
    """Write the value of an output to a shape; return whether the value is known."""
    from irrun.openvino.inference import get_known_value

    value = get_known_value(as_output(output))
    if value is None:
        return False
    partial_shape._dimensions = PartialShape(value.reshape(-1).tolist())._dimensions
    return True
