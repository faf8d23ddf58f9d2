"""Results, tensors from files, and the conversion of inputs to tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from irrun.openvino.element_type import Type
from irrun.openvino.infer_request import InferRequest
from irrun.openvino.input_conversion import is_simple
from irrun.openvino.ports import ConstOutput
from irrun.openvino.results import OVDict as OVDict
from irrun.openvino.tensor import Tensor

__all__ = ["OVDict", "tensor_from_file"]

_InferRequestWrapper = InferRequest

_SCALARS = (np.number, int, float, str, bytes)


def tensor_from_file(path: str | Path) -> Tensor:
    """Return a tensor with the bytes of a file."""
    return Tensor(np.fromfile(path, np.uint8))


def _data_dispatch(request: InferRequest, inputs: Any = None, is_shared: bool = False) -> Any:
    """Convert inputs of a request to tensors, as `infer` does before it sets them.

    Args:
        request: The request.
        inputs: An array, a tensor, a number, a text, or a container of them.
        is_shared: Whether tensors use the memory of arrays. Otherwise arrays are copied to the request's tensors.

    Returns:
        A tensor for a single input, or tensors by key; without the inputs that were copied.

    Raises:
        TypeError: An input or a key has an unsupported type.
    """
    if inputs is None:
        return {}
    if isinstance(inputs, (Tensor, *_SCALARS)):
        return _make_tensor(inputs, request, None, is_shared)
    if isinstance(inputs, OVDict):
        inputs = list(inputs.values())
    elif isinstance(inputs, list) and len(request.input_tensors) == 1 and is_simple(inputs):
        inputs = [inputs]
    if isinstance(inputs, (Mapping, list, tuple)):
        items = list(inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs))
        if is_shared:
            return {key: _make_tensor(_to_array(value), request, key, True) for key, value in items}
        tensors = {}
        for key, value in items:
            if not isinstance(key, (str, int, ConstOutput)):
                raise TypeError(f"Incompatible key type for input: {key}")
            if isinstance(value, (Tensor, list)):
                tensors[key] = Tensor(value) if isinstance(value, list) else value
            elif isinstance(value, (np.ndarray, np.number, int, float, str)) or hasattr(value, "__array__"):
                _copy(value, request, key)
            else:
                raise TypeError(f"Incompatible inputs of type: {type(value)} under {key} key!")
        return tensors
    if not hasattr(inputs, "__array__"):
        raise TypeError(f"Incompatible inputs of type: {type(inputs)}")
    if is_shared:
        return _make_tensor(_to_array(inputs), request, None, True)
    _copy(inputs, request, None)
    return {}


def _to_array(value: Any) -> Any:
    """Return a contiguous array for an array or what converts to one; other values unchanged."""
    if isinstance(value, (Tensor, np.number)) or not hasattr(value, "__array__"):
        return value
    return np.asarray(value, order="C")


def _get_tensor(request: InferRequest, key: Any) -> Tensor:
    if key is None:
        return request.get_input_tensor()
    if isinstance(key, (int, str, ConstOutput)):
        return request.get_input_tensor(key) if isinstance(key, int) else request.get_tensor(key)
    raise TypeError(f"Unsupported key type: {type(key)} for Tensor under key: {key}")


def _make_tensor(value: Any, request: InferRequest, key: Any, is_shared: bool) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, list):
        return Tensor(value)
    if not isinstance(value, (np.ndarray, *_SCALARS)):
        raise TypeError(f"Incompatible inputs of type: {type(value)}")
    target = _get_tensor(request, key)
    if target.element_type == Type.string:
        return Tensor(np.asarray(value))
    dtype = target.element_type.to_dtype()
    array = np.asarray(value)
    if isinstance(value, _SCALARS):
        return Tensor(array.astype(dtype))
    if array.ndim == 0:  # the memory of dynamic inputs is empty before it is set
        array = array.reshape(tuple(target.shape) if target.size else 1)
    if target.element_type == Type.bf16 or not array.flags.writeable:
        tensor = Tensor(target.element_type, array.shape)
        tensor.data[...] = array.view(dtype) if target.element_type == Type.bf16 else array
        return tensor
    return Tensor(array, shared_memory=True) if is_shared and array.dtype == dtype else Tensor(array.astype(dtype))


def _copy(value: Any, request: InferRequest, key: Any) -> None:
    """Copy an array to the tensor of a request; the tensor is replaced for numbers and arrays of rank 0."""
    array = np.asarray(value) if hasattr(value, "__array__") else value
    if isinstance(array, np.ndarray) and array.ndim:
        target = _get_tensor(request, key)
        if target.element_type == Type.string:
            target.copy_from(array)
        else:
            target.set_shape(array.shape)
            target.data[...] = array
        return
    tensor = _make_tensor(array, request, key, False)
    if isinstance(key, (str, ConstOutput)):
        request.set_tensor(key, tensor)
    elif key is None:
        request.set_input_tensor(tensor)
    else:
        request.set_input_tensor(key, tensor)
