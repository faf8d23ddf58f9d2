"""The value of a Constant node."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.constant import Constant
from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.getters import from_getter
from irrun.openvino.shape import Strides
from irrun.openvino.tensor import Tensor

__all__ = ["ConstantValue", "to_constant"]


class ConstantValue:
    """The methods that only Constants have; other nodes raise an AttributeError."""

    _constant: Constant | None

    def _get_constant(self) -> Constant:
        if self._constant is None:
            raise AttributeError(f"{self!r} is not a Constant")
        return self._constant

    @property
    def data(self) -> Any:
        """The value as an array."""
        tensor = self.get_tensor_view()
        return tensor.bytes_data if tensor._element_type.kind == "string" else tensor.data

    def get_data(self, *, dtype: Any = None, copy: bool = False) -> Any:
        """Return the value as an array.

        Args:
            dtype: The NumPy type of the array; by default the type of the Constant.
            copy: Whether to return a copy.
        """
        data = self.data  # bytes, for types of less than a byte
        if dtype is not None and data.dtype != dtype:
            data = self._get_values().astype(dtype)
        return data.copy() if copy else data

    def get_vector(self) -> Any:
        """Return the elements as a flat array."""
        return self.data.reshape(-1)

    def get_value_strings(self) -> list[str]:
        """Return the elements as texts."""
        constant, values = self._get_constant(), self._get_values().reshape(-1)
        if constant.element_type.kind == "string":
            return [str(value) for value in values]
        return [f"{value:g}" if constant.element_type.is_float else str(int(value)) for value in values.tolist()]

    def _get_values(self) -> np.ndarray[Any, Any]:
        """Return one element per element of the Constant, also for types of less than a byte."""
        values = self._get_constant().to_array()
        return values.view(np.uint8) if values.dtype.fields else values

    def get_tensor_view(self) -> Tensor:
        """Return the value as a tensor."""
        constant = self._get_constant()
        return Tensor._from_values(constant.to_array(), constant.element_type)

    tensor_view = from_getter(get_tensor_view)

    def get_byte_size(self) -> int:
        """Return the size in bytes."""
        return self.get_tensor_view().byte_size

    @property
    def strides(self) -> Strides:
        """The distances of the elements in bytes."""
        return self.get_strides()

    def get_strides(self) -> Strides:
        """Return the distances of the elements in bytes."""
        return Strides(self.data.strides)


def to_constant(value: Any, dtype: Any = None, shared_memory: bool | None = None, **keywords: Any) -> Constant:
    """Return the value of a Constant; see `make_constant`."""
    value = keywords.pop("tensor", value)
    if value is None or isinstance(value, Type):
        raise TypeError(f"The necessary overload for constant was not found: expected an array, found {value!r}")
    source = value._to_values() if isinstance(value, Tensor) else np.asarray(value)
    if isinstance(value, Tensor) and dtype is None:
        dtype = value.element_type
    if isinstance(dtype, type) and dtype in (int, float):
        dtype = np.int32 if dtype is int else np.float32
    element_type = ElementType.of(source.dtype) if dtype is None else to_element_type(dtype)
    if element_type is None:
        raise RuntimeError("a Constant requires an element type")
    if element_type.kind == "string":
        source = source.astype(object)
    elif source.dtype != element_type.dtype:
        source = (
            source.astype(np.uint8).view(element_type.dtype)
            if element_type.dtype.fields
            else source.astype(element_type.dtype)
        )
    if shared_memory and isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        raise RuntimeError(
            "SHARED MEMORY MODE FOR THIS CONSTANT IS NOT APPLICABLE! Passed numpy array must be C contiguous."
        )
    is_shared = isinstance(value, Tensor) if shared_memory is None else shared_memory
    return _share(source, element_type) if is_shared else Constant.from_array(source, element_type)


def _share(values: np.ndarray[Any, Any], element_type: ElementType) -> Constant:
    """Return a Constant that uses the memory of an array, where it has the encoding of files."""
    if element_type.is_packed or element_type.kind == "string" or not values.size or sys.byteorder == "big":
        return Constant.from_array(values, element_type)
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    return Constant(element_type, values.shape, data, len(data))
