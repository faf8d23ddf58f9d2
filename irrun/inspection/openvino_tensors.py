"""Conversion between arrays and tensors of OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ElementType

__all__ = ["make_tensor", "read_tensor"]

Array = np.ndarray[Any, Any]


def make_tensor(openvino: Any, value: Array) -> Any:
    """Return an array as a tensor of OpenVINO.

    Args:
        openvino: The package of OpenVINO.
        value: The array.
    """
    element_type = ElementType.of(value.dtype)
    contiguous = np.asarray(value, order="C")
    if element_type.kind == "string":
        return openvino.Tensor(np.array(contiguous.tolist(), dtype=np.str_).reshape(contiguous.shape))
    if value.dtype.isbuiltin == 1:
        return openvino.Tensor(contiguous.copy())
    from irrun.packing import pack

    tensor = openvino.Tensor(getattr(openvino.Type, element_type.name), openvino.Shape(list(value.shape)))
    data = np.frombuffer(pack(element_type, contiguous), np.uint8)
    tensor.data.reshape(-1).view(np.uint8)[:] = data
    return tensor


def read_tensor(tensor: Any) -> Array:
    """Return a copy of the elements of a tensor of OpenVINO.

    Args:
        tensor: The tensor.
    """
    name = tensor.get_element_type().get_type_name()
    shape = tuple(tensor.get_shape())
    if name == "string":
        return np.array(tensor.str_data.tolist(), dtype=object).reshape(shape)
    element_type = ElementType.parse(name)
    if element_type.is_packed:
        from irrun.packing import unpack

        return np.array(unpack(element_type, tensor.data.reshape(-1).view(np.uint8), shape))
    data = np.array(tensor.data)
    if data.dtype != element_type.dtype:
        data = data.reshape(-1).view(element_type.dtype)
    return data.reshape(shape)
