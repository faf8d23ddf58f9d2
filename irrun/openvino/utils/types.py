"""Conversions between element types, NumPy types and nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.openvino.element_type import Type
from irrun.openvino.exceptions import OVTypeError
from irrun.openvino.factories import make_constant as make_constant_node
from irrun.openvino.node import Node, Output

__all__ = [
    "NodeInput",
    "NumericData",
    "NumericType",
    "ScalarData",
    "TensorShape",
    "as_node",
    "as_nodes",
    "get_dtype",
    "get_element_type",
    "get_element_type_str",
    "get_ndarray",
    "get_numpy_ctype",
    "get_shape",
    "make_constant_node",
    "openvino_to_numpy_types_map",
    "openvino_to_numpy_types_str_map",
]


TensorShape = list[int]
NumericData = int | float | np.ndarray[Any, Any]
NumericType = type | np.dtype[Any]
ScalarData = int | float
NodeInput = Node | NumericData

_NUMPY_TYPES: list[tuple[str, Any]] = [
    ("boolean", bool),
    ("boolean", np.bool_),
    ("f16", np.float16),
    ("f32", np.float32),
    ("f64", np.float64),
    ("i8", np.int8),
    ("i16", np.int16),
    ("i32", np.int32),
    ("i64", np.int64),
    ("u8", np.uint8),
    ("u16", np.uint16),
    ("u32", np.uint32),
    ("u64", np.uint64),
    ("bf16", np.uint16),
    ("string", str),
    ("string", np.str_),
    ("string", bytes),
    ("string", np.bytes_),
]

openvino_to_numpy_types_map: list[tuple[Type, Any]] = [(getattr(Type, name), dtype) for name, dtype in _NUMPY_TYPES]
openvino_to_numpy_types_str_map = [(name, dtype) for name, dtype in _NUMPY_TYPES if name != "bf16"]


def get_element_type(data_type: Any) -> Type:
    """Return the element type of a type of Python or NumPy.

    Args:
        data_type: int and float (32-bit types), bool, str, bytes, or anything that `np.dtype` accepts.

    Raises:
        OVTypeError: The element type does not exist.
    """
    if isinstance(data_type, type) and data_type in (int, float):
        return Type.i32 if data_type is int else Type.f32
    for element_type, dtype in openvino_to_numpy_types_map:
        if dtype == data_type:
            return element_type
    raise OVTypeError("Unidentified data type %s", data_type)


def get_element_type_str(data_type: Any) -> str:
    """Return the name of the element type of a type of Python or NumPy; see `get_element_type`."""
    return get_element_type(data_type).to_string()


def get_numpy_ctype(openvino_type: Type) -> Any:
    """Return the type of Python or NumPy for an element type.

    Raises:
        OVTypeError: The type does not exist.
    """
    for element_type, dtype in openvino_to_numpy_types_map:
        if element_type == openvino_type:
            return dtype
    raise OVTypeError("Unidentified data type %s", openvino_type)


def get_dtype(openvino_type: Type) -> Any:
    """Return the type of NumPy for an element type; see `get_numpy_ctype`."""
    return np.dtype(get_numpy_ctype(openvino_type))


def get_ndarray(data: Any) -> Any:
    """Return a value as an array."""
    return np.asarray(data)


def get_shape(data: Any) -> Any:
    """Return the shape of an array, the length of a list as a list, and an empty list for a number."""
    if isinstance(data, list):
        return [len(data)]
    return getattr(data, "shape", [])


def as_node(input_value: Any, name: str | None = None) -> Any:
    """Return a node for a node, an output or a value."""
    if isinstance(input_value, (Node, Output)):
        return input_value
    node = make_constant_node(input_value)
    if name:
        node.set_friendly_name(f"{name}/{node.get_name()}")
    return node


def as_nodes(*input_values: Any, name: str | None = None) -> list[Any]:
    """Return nodes for nodes, outputs and values."""
    return [as_node(value, name) for value in input_values]
