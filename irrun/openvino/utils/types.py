"""Conversions between element types, NumPy types and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.openvino.element_type import Type
from irrun.openvino.factories import as_outputs
from irrun.openvino.factories import make_constant as make_constant_node
from irrun.openvino.node import Node, Output, as_output
from irrun.openvino.shape import Shape

__all__ = [
    "as_node",
    "as_nodes",
    "get_dtype",
    "get_element_type",
    "get_element_type_str",
    "get_ndarray",
    "get_shape",
    "make_constant_node",
]


def get_element_type(data_type: Any, bitwidth: int | None = None) -> Type:
    """Return the element type of a type of Python or NumPy.

    Args:
        data_type: int, float, or what `Type` accepts.
        bitwidth: The width of a type that is int or float.
    """
    if data_type is int:
        return Type(np.dtype(f"i{(bitwidth or 32) // 8}"))
    if data_type is float:
        return Type(np.dtype(f"f{(bitwidth or 32) // 8}"))
    return Type(data_type)


def get_element_type_str(data_type: Any, bitwidth: int | None = None) -> str:
    """Return the name of the element type of a type of Python or NumPy."""
    return get_element_type(data_type, bitwidth).to_string()


def get_dtype(openvino_type: Type, bitwidth: int | None = None) -> Any:
    """Return the type of NumPy for an element type."""
    return openvino_type.to_dtype()


def get_ndarray(data: Any) -> Any:
    """Return a value as an array."""
    return np.asarray(data)


def get_shape(data: Any) -> Any:
    """Return the shape of a value as a list or `Shape`."""
    return data.shape if isinstance(data, (Node, Output)) else Shape(list(np.asarray(data).shape))


def as_node(input_value: Any, name: str | None = None) -> Any:
    """Return a node for a node, an output or a value."""
    if isinstance(input_value, (Node, Output)):
        return input_value
    return make_constant_node(input_value, name=name)


def as_nodes(*input_values: Any, name: str | None = None) -> Sequence[Any]:
    """Return nodes for nodes, outputs and values."""
    outputs = as_outputs(input_values)
    return [None if output is None else as_output(output) for output in outputs]
