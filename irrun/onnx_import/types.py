"""Element types and tensors of ONNX."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError, UnsupportedError
from irrun.export.graph import ONNX_TYPES
from irrun.ir.constant import Constant
from irrun.ir.weights import Weights
from irrun.limits import check_allocation
from irrun.ops.shape_rules import Value as Known
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["TensorReader", "get_element_type", "get_known", "get_onnx_type", "make_type_proto"]

#: ONNX's number of a type -> element type.
_BY_NUMBER: dict[int, str] = {number: name for name, number in ONNX_TYPES.items()} | {
    getattr(onnx.TensorProto, name, -1): element_type
    for name, element_type in (("FLOAT8E8M0", "f8e8m0"), ("FLOAT4E2M1", "f4e2m1"), ("UINT2", "u2"))
}
_NUMBERS = {name: number for number, name in _BY_NUMBER.items()}


def get_element_type(number: int) -> ElementType:
    """Return the element type for ONNX's number of a type.

    Raises:
        UnsupportedError: OpenVINO does not have the type.
    """
    if number not in _BY_NUMBER:
        known = number in onnx.TensorProto.DataType.values()
        name = onnx.TensorProto.DataType.Name(number) if known else str(number)
        raise UnsupportedError(f"OpenVINO does not have ONNX's element type {name}")
    return ELEMENT_TYPES[_BY_NUMBER[number]]


def get_onnx_type(element_type: ElementType) -> int:
    """Return ONNX's number of an element type."""
    return _NUMBERS[element_type.name]


def get_known(tensor_type: Any) -> Known:
    """Return the type and shape in a TypeProto.Tensor."""
    if not tensor_type.HasField("shape"):
        return Known(None)
    return Known(
        PartialShape(
            d.dim_value if d.WhichOneof("value") == "dim_value" and d.dim_value >= 0 else UNBOUNDED
            for d in tensor_type.shape.dim
        )
    )


def make_type_proto(element_type: ElementType, shape: PartialShape | None) -> Any:
    """Return the TypeProto of a value."""
    dimensions = None if shape is None else [int(d) if isinstance(d, int) else None for d in shape]
    return onnx.helper.make_tensor_type_proto(get_onnx_type(element_type), dimensions)


class TensorReader:
    """Reads tensors. Their data may be in other files in the folder of the model.

    Args:
        folder: The folder; None for a model that was not read from a file.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._files: dict[Path, Weights] = {}

    def read(self, tensor: Any) -> Constant:
        """Return the value of a TensorProto.

        Raises:
            ModelError: The data does not fit the shape, or is outside the folder.
            UnsupportedError: OpenVINO does not have the type.
        """
        element_type = get_element_type(tensor.data_type)
        shape = tuple(tensor.dims)
        name = f"tensor {tensor.name!r}"
        if any(d < 0 for d in shape):
            raise ModelError(f"{name} has the shape {list(shape)}, expected non-negative dimensions")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return self._read_file(tensor, element_type, shape)
        size = element_type.get_byte_size(int(np.prod(shape, dtype=object)))
        if tensor.HasField("raw_data") and element_type.kind != "string":
            if len(tensor.raw_data) != size:
                raise ModelError(
                    f"{name} has {len(tensor.raw_data)} bytes, expected {size} for {element_type}{list(shape)}"
                )
            return Constant(element_type, shape, tensor.raw_data, size)
        try:
            array = onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise ModelError(f"{name}: {error}") from None
        if element_type.kind == "string":
            array = np.array([_to_text(v) for v in array.reshape(-1)], object).reshape(shape)
        return Constant.from_array(np.asarray(array, element_type.dtype), element_type)

    def read_sparse(self, tensor: Any) -> Constant:
        """Return the value of a SparseTensorProto as a dense constant.

        Raises:
            ModelError: An index is out of range, or the shapes do not fit.
        """
        values, indices = self.read(tensor.values), self.read(tensor.indices).to_array()
        shape = tuple(tensor.dims)
        check_allocation(shape, values.element_type.dtype)
        dense = np.zeros(shape, values.element_type.dtype)
        try:
            if indices.ndim == 2:
                dense[tuple(indices.T)] = values.to_array()
            else:
                dense.reshape(-1)[indices] = values.to_array()
        except (IndexError, ValueError) as error:
            raise ModelError(f"sparse tensor {tensor.values.name!r}: {error}") from None
        return Constant.from_array(dense, values.element_type)

    def _read_file(self, tensor: Any, element_type: ElementType, shape: tuple[int, ...]) -> Constant:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        name = f"tensor {tensor.name!r}"
        if self.folder is None:
            raise ModelError(f"{name} is in the file {location!r}, expected a model that was read from a file")
        path = self.folder / location
        inside = Path(os.path.realpath(self.folder))
        if not location or Path(location).is_absolute() or inside not in Path(os.path.realpath(path)).parents:
            raise ModelError(f"{name} is in the file {location!r}, expected a file in the folder of the model")
        if not path.is_file():
            raise ModelError(f"{name}: the file {path} does not exist")
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries["length"]) if entries.get("length") else None
        except ValueError:
            raise ModelError(f"{name}: expected integers as offset and length of external data") from None
        if path not in self._files:
            self._files[path] = Weights.open(path)
        constant = Constant.from_weights(self._files[path], element_type, shape, offset, length)
        return replace(constant, offset=None)  # the position in the weights of the model


def _to_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
