"""Conversion of the caller's inputs to tensors, with OpenVINO's lossy casts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from irrun.openvino.node import ConstOutput, Output
from irrun.openvino.results import OVDict
from irrun.openvino.shape import PartialShape
from irrun.openvino.tensor import Tensor

__all__ = ["convert_value", "is_simple", "iterate_inputs"]


def is_simple(values: Sequence[Any]) -> bool:
    """Return whether a list has numbers and texts only, or lists of them, which are the values of one input."""
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return all(isinstance(value, (str, float, int, bytes)) for value in flat)


def iterate_inputs(inputs: Any, ports: Sequence[ConstOutput], share: bool) -> Iterator[tuple[ConstOutput, Any]]:
    """Yield each port that the caller sets, with its value.

    Args:
        inputs: An array, a tensor, a number, a sequence, a mapping, or None. A list of numbers or texts is the value of
            a single input.
        ports: The inputs of the model.
        share: Whether tensors may use the memory of arrays. The text of an error depends on it.

    Raises:
        RuntimeError: An input does not exist.
        TypeError: A key has the wrong type.
    """
    if inputs is None:
        return
    if isinstance(inputs, OVDict):  # the results of another model, in their order
        inputs = list(inputs.values())
    elif isinstance(inputs, list) and len(ports) == 1 and is_simple(inputs):
        inputs = [Tensor(inputs)]
    if isinstance(inputs, Mapping):
        for key, value in inputs.items():
            yield _find_port(key, ports, share), value
    elif isinstance(inputs, (list, tuple)):
        for i, value in enumerate(inputs):
            yield _find_port(i, ports, share), value
    elif isinstance(inputs, (np.ndarray, np.generic, Tensor, str, bytes, int, float)) or hasattr(inputs, "__array__"):
        if len(ports) != 1:
            raise RuntimeError(
                f"set_input_tensor() must be called on a model with exactly one input, found {len(ports)}"
            )
        yield ports[0], inputs
    else:
        raise TypeError(f"Incompatible inputs of type: {type(inputs)}")


def _find_port(key: Any, ports: Sequence[ConstOutput], share: bool) -> ConstOutput:
    if isinstance(key, str):
        for port in ports:
            if key in port.names:
                return port
        raise RuntimeError(
            "Check '::getPort(port, name, {_impl->get_inputs(), _impl->get_outputs()})' failed: "
            f"Port for tensor name {key} was not found."
        )
    if isinstance(key, (int, np.integer)) and key >= 0:
        if key >= len(ports):
            raise RuntimeError(f"vector::_M_range_check: __n (which is {key}) >= this->size() (which is {len(ports)})")
        return ports[int(key)]
    if isinstance(key, ConstOutput) and not isinstance(key, Output):
        for port in ports:
            if port == key:
                return port
        raise RuntimeError(f"Cannot find tensor for port {key!r}")
    if share:
        raise TypeError(f"Unsupported key type: {type(key)} for Tensor under key: {key}")
    raise TypeError(f"Incompatible key type for input: {key}")


def _fit(array: np.ndarray[Any, Any], port: ConstOutput) -> np.ndarray[Any, Any]:
    """Return a number as an array of one element, where the input is not a scalar."""
    shape = port._data.shape
    if array.ndim or shape is None or len(shape) == 0:
        return array
    lengths = tuple(PartialShape._from_irrun(shape).to_shape()) if shape.is_static else (1,)
    return array.reshape(lengths) if math.prod(lengths) == 1 else array


def convert_value(value: Any, port: ConstOutput, share: bool) -> Tensor:
    """Return a tensor of the element type of an input.

    Args:
        value: A tensor, an array, a list or a number. The elements of arrays are cast.
        port: The input.
        share: Whether the tensor may use the memory of an array.

    Raises:
        RuntimeError: A tensor has another element type.
        TypeError: The value is not an array.
    """
    declared = port._data.element_type
    if isinstance(value, Tensor):
        if declared is not None and value._element_type is not declared:
            raise RuntimeError(
                f"Can't set the input tensor with index: {port._index}, because the model input (element type "
                f"{declared.name}) and the tensor (element type {value._element_type.name}) are incompatible"
            )
        return value if value._shape else Tensor._from_values(_fit(value._to_values(), port), value._element_type)
    array = _fit(np.asarray(value), port)
    if array.dtype.kind in "USO" or declared is None or declared.kind == "string":
        if declared is not None and declared.kind != "string":
            array = array.astype(port.element_type.to_dtype())
        else:
            return Tensor(array)
    dtype = port.element_type.to_dtype()
    if declared.is_packed:
        return Tensor._from_values(array.astype(np.uint8).view(np.uint8).astype(declared.dtype), declared)
    if array.dtype != dtype and array.dtype != declared.dtype:
        with np.errstate(all="ignore"):
            array = array.astype(dtype)
    elif not (share and array.flags.c_contiguous and array.flags.writeable):
        array = np.array(array, order="C")
    if array.dtype != declared.dtype:
        array = array.view(declared.dtype)
    return Tensor._from_values(array, declared)
