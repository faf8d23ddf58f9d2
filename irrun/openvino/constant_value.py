"""The value of a Constant node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.ir.constant import Constant
from irrun.openvino.shape import Strides

if TYPE_CHECKING:
    from irrun.openvino.tensor import Tensor

__all__ = ["ConstantValue"]


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
        return self.get_tensor_view().data

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

    @property
    def tensor_view(self) -> Tensor:
        """The value as a tensor."""
        return self.get_tensor_view()

    def get_tensor_view(self) -> Tensor:
        """Return the value as a tensor."""
        from irrun.openvino.tensor import Tensor

        constant = self._get_constant()
        return Tensor._from_values(constant.to_array(), constant.element_type)

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
