"""`Tensor`: the memory of inputs, outputs and constants."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun import packing
from irrun.element_types import ElementType
from irrun.openvino.element_type import Type, to_element_type, to_type
from irrun.openvino.getters import from_getter
from irrun.openvino.ports import ConstOutput
from irrun.openvino.shape import Coordinate, Shape, Strides

__all__ = ["RemoteTensor", "Tensor", "TensorVector"]

Array = np.ndarray[Any, Any]

TensorVector = list

_NOT_SHARED = "SHARED MEMORY MODE FOR THIS TENSOR IS NOT APPLICABLE!"


class Tensor:
    """The memory of a tensor.

    Args:
        source: An array, a list, an image of Pillow, or another tensor with `begin` and `end` of a region; or an
            element type with a shape; or a port of a model, optionally with an array.
        shape: The shape, or the array of a port.
        type: The element type, of a new tensor or of the bytes of an array.
        shared_memory: Whether the tensor uses the memory of the array instead of a copy. The array of a port is used.
        begin: The first corner of a region.
        end: The opposite corner of a region, exclusive.

    Raises:
        RuntimeError: The array cannot be shared, or the memory is too small.
        TypeError: The arguments have the wrong types.
    """

    #: Whether the memory belongs to an array or to another tensor.
    _is_shared = False
    #: The current array and the memory that it is a part of, where a new shape made it smaller.
    _resized: tuple[Array, Array] | None = None

    def __init__(
        self,
        source: Any = None,
        shape: Any = None,
        type: Any = None,
        *,
        shared_memory: bool = False,
        array: Any = None,
        begin: Any = None,
        end: Any = None,
        image: Any = None,
        port: Any = None,
        other: Any = None,
        list: Any = None,
    ) -> None:
        for alternative in (array, image, port, other, list):
            if source is None:
                source = alternative
        self._element_type: ElementType
        self._shape: tuple[int, ...]
        self._array: Array
        if isinstance(shape, bool):
            shape, shared_memory = None, shape
        if source is None and type is not None:
            self._allocate(_require_type(type), shape)
        elif isinstance(source, Tensor):
            self._init_region(source, begin if shape is None else shape, end if type is None else type)
        elif isinstance(source, ConstOutput):
            self._init_port(source, shape)
        elif isinstance(source, Type) or (isinstance(source, (str, builtin_type, np.dtype)) and shape is not None):
            self._allocate(_require_type(source), shape)
        elif shape is not None:
            self._init_packed(np.asarray(source), shape, type)
        else:
            self._init_array(_to_array(source), shared_memory)

    def _init_array(self, values: Array, shared_memory: bool) -> None:
        if values.dtype.kind in "USO":
            if shared_memory:
                raise RuntimeError(f"{_NOT_SHARED} String types can be only copied.")
            self._set_values(_to_strings(values), to_element_type(Type.string))
            return
        try:
            element_type = to_element_type(values.dtype)
        except RuntimeError:
            raise RuntimeError(f"Unsupported data type: {values.dtype}") from None
        assert element_type is not None
        if shared_memory and not values.flags.c_contiguous:
            raise RuntimeError(f"{_NOT_SHARED} Passed numpy array must be C contiguous.")
        self._set_values(values if shared_memory else np.array(values, order="C"), element_type)
        self._is_shared = shared_memory

    def _init_packed(self, values: Array, shape: Any, element_type: Any) -> None:
        """Interpret the bytes of an array as elements of another type and shape."""
        parsed = to_element_type(values.dtype if element_type is None else element_type)
        assert parsed is not None
        self._element_type, self._shape = parsed, tuple(Shape(shape))
        storage = np.ascontiguousarray(values).reshape(-1)
        size = parsed.get_byte_size(math.prod(self._shape))
        if storage.nbytes < size:
            raise RuntimeError(f"the array has {storage.nbytes} bytes, expected at least {size}")
        if parsed.is_packed:
            self._array = storage.view(to_type(parsed).to_dtype())[:size]
        else:
            self._array = storage.view(np.uint8)[:size].view(parsed.dtype).reshape(self._shape)

    def _init_port(self, port: ConstOutput, values: Any) -> None:
        element_type, shape = _require_type(port.element_type), port.partial_shape
        lengths = tuple(shape.to_shape()) if shape.is_static else (0,)
        if values is None or not shape.is_static:
            self._allocate(element_type, lengths)
            return
        if element_type.kind == "string":
            raise RuntimeError(f"{_NOT_SHARED} String types can be only copied.")
        source = np.asarray(values)
        if math.prod(lengths) > source.size:
            raise RuntimeError(f"Shape of the port exceeds shape of the array. {list(lengths)} > {list(source.shape)}")
        if math.prod(lengths) < source.size:
            message = "Shape of the port is smaller than shape of the array. Passed data will be cropped."
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        self._init_packed(source, lengths, element_type)
        self._is_shared = True

    def _init_region(self, other: Tensor, begin: Any, end: Any) -> None:
        if begin is None:
            self._element_type, self._shape, self._array = other._element_type, other._shape, other._array
            return
        if other._element_type.is_packed:
            raise RuntimeError("ROI Tensor for types with bitwidths less then 8 bit is not implemented.")
        first, last, lengths = tuple(Coordinate(begin)), tuple(Coordinate(end)), other._shape
        if not len(first) == len(last) == len(lengths) or any(
            b > length for b, length in zip(last, lengths, strict=True)
        ):
            raise RuntimeError(f"the region {list(first)} to {list(last)} does not fit the shape {list(lengths)}")
        region = tuple(map(slice, first, last))
        self._set_values(other._array[region], other._element_type)
        self._is_shared = True

    def _allocate(self, element_type: ElementType, shape: Any) -> None:
        self._element_type, self._shape = element_type, tuple(Shape(shape))
        if element_type.kind == "string":
            self._array = np.full(self._shape, "", object)
        elif element_type.is_packed:
            size = element_type.get_byte_size(math.prod(self._shape))
            self._array = np.zeros(size, to_type(element_type).to_dtype())
        else:
            self._array = np.zeros(self._shape, element_type.dtype)

    def _set_values(self, values: Array, element_type: ElementType | None) -> None:
        assert element_type is not None
        self._element_type, self._shape, self._array = element_type, values.shape, values

    @staticmethod
    def _from_values(values: Array, element_type: ElementType) -> Tensor:
        """Return a tensor for an array of irrun, which it shares unless elements must be packed."""
        tensor = object.__new__(Tensor)
        tensor._element_type, tensor._shape = element_type, values.shape
        if element_type.is_packed:
            packed = np.frombuffer(bytearray(packing.pack(element_type, values)), np.uint8)
            tensor._array = packed.view(to_type(element_type).to_dtype())
        else:
            tensor._array = values
        return tensor

    def _to_values(self) -> Array:
        """Return the values as an array of irrun."""
        if self._element_type.is_packed:
            return packing.unpack(self._element_type, self._array, self._shape)
        return self._array

    def _assign(self, values: Array) -> None:
        """Write values to the memory; a tensor of another shape gets new memory."""
        values = np.asarray(values)
        if self._shape != values.shape or self._element_type.is_packed:
            copy = Tensor._from_values(np.array(values), self._element_type)
            self._shape, self._array = copy._shape, copy._array
        else:
            self._array[...] = values

    def __repr__(self) -> str:
        return f"<Tensor: shape{self.shape} type: {self._element_type.name}>"

    # -- memory

    @property
    def data(self) -> Any:
        """The memory as an array. Strings are a copy, as bytes."""
        if self._element_type.kind == "string":
            message = "Data of string type will be copied! Please use dedicated properties `str_data` and `bytes_data`."
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return self.bytes_data
        dtype = to_type(self._element_type).to_dtype()
        return self._array if self._array.dtype == dtype else self._array.view(dtype)

    @property
    def bytes_data(self) -> Any:
        """A copy of the strings as an array of bytes."""
        self._check_strings()
        encoded = [s.encode("utf-8", "surrogateescape") for s in self._array.reshape(-1).tolist()]
        return np.array(encoded, np.bytes_).reshape(self._shape)

    @bytes_data.setter
    def bytes_data(self, values: Any) -> None:
        self._fill_strings(values)

    @property
    def str_data(self) -> Any:
        """A copy of the strings as an array of texts."""
        self._check_strings()
        return np.array(self._array.reshape(-1).tolist(), np.str_).reshape(self._shape)

    @str_data.setter
    def str_data(self, values: Any) -> None:
        self._fill_strings(values)

    def _fill_strings(self, values: Any) -> None:
        self._check_strings()
        source = np.asarray(values)
        if source.dtype.kind not in "USO":
            raise RuntimeError("Unknown string kind passed to fill the Tensor's data!")
        if source.size != self._array.size:
            raise RuntimeError("Passed array must have the same size (number of elements) as the Tensor!")
        self._array[...] = _to_strings(source).reshape(self._shape)

    def _check_strings(self) -> None:
        if self._element_type.kind != "string":
            raise RuntimeError(f"Tensor of type {self._element_type.name} has no strings")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.data, dtype)

    def copy_to(self, target_tensor: Tensor) -> None:
        """Copy the values to another tensor, which gets the shape of this one."""
        if target_tensor._element_type is not self._element_type:
            raise RuntimeError(
                "Tensor element types are not equal. "
                f"(src: {self._element_type.name} != dst: {target_tensor._element_type.name})"
            )
        target_tensor._assign(self._to_values())

    def copy_from(self, source_tensor: Any) -> None:
        """Copy the values and the shape of another tensor or array."""
        (source_tensor if isinstance(source_tensor, Tensor) else Tensor(source_tensor)).copy_to(self)

    # -- description

    def get_element_type(self) -> Type:
        """Return the element type."""
        return to_type(self._element_type)

    element_type = from_getter(get_element_type)

    def get_shape(self) -> Shape:
        """Return the shape."""
        return Shape(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Set the shape; the values are kept if the tensor does not become larger than ever before.

        Args:
            shape: The shape.

        Raises:
            RuntimeError: The memory belongs to an array or to another tensor, and is too small.
        """
        lengths = tuple(Shape(shape))
        if lengths == self._shape:
            return
        count = math.prod(lengths)
        memory = self._array
        if self._resized is not None and self._resized[0] is memory:
            memory = self._resized[1]
        if count <= memory.size and not self._element_type.is_packed and memory.flags.c_contiguous:
            self._array = memory.reshape(-1)[:count].reshape(lengths)
            self._resized = (self._array, memory)
            self._shape = lengths
        elif self._is_shared:
            message = f"Cannot set new shape {Shape(lengths)}: failed, since the tensor shares {memory.size} elements"
            raise RuntimeError(message)
        else:
            self._allocate(self._element_type, lengths)

    shape = from_getter(get_shape, set_shape)

    def get_size(self) -> int:
        """Return the number of elements."""
        return math.prod(self._shape)

    size = from_getter(get_size)

    def get_byte_size(self) -> int:
        """Return the number of bytes."""
        if self._element_type.kind == "string":
            return self.size * self.element_type.size
        return self._element_type.get_byte_size(self.size)

    byte_size = from_getter(get_byte_size)

    def get_strides(self) -> Strides:
        """Return the distances of the elements along each axis in bytes."""
        if self._element_type.is_packed:
            raise RuntimeError("Could not get strides for types with bitwidths less then 8 bit.")
        if self._element_type.kind == "string":
            return Strides(stride // self._array.itemsize * self.element_type.size for stride in self._array.strides)
        return Strides(self._array.strides)

    strides = from_getter(get_strides)

    def is_continuous(self) -> bool:
        """Return whether the elements are adjacent in memory."""
        return bool(self._array.flags.c_contiguous)


builtin_type = type


class RemoteTensor(Tensor):
    """The memory of a device, which irrun does not support."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("remote tensors are not supported: irrun has no devices with their own memory")


def _require_type(value: Any) -> ElementType:
    element_type = to_element_type(value)
    if element_type is None:
        raise RuntimeError("a tensor requires an element type, found dynamic")
    return element_type


def _to_array(source: Any) -> Array:
    if isinstance(source, (np.ndarray, np.generic)):
        return np.asarray(source)
    if isinstance(source, (list, tuple)) or hasattr(source, "__array_interface__"):
        return np.asarray(source)
    raise TypeError("Input argument must be a PIL.Image.Image/numpy.array/list[int, float, str] object")


def _to_strings(values: Array) -> Array:
    flat = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else str(v) for v in values.reshape(-1)]
    strings = np.empty(len(flat), object)
    strings[:] = flat
    shaped: Array = strings.reshape(values.shape)
    return shaped


def describe_shape(shape: Sequence[int]) -> str:
    """Return a shape as in messages."""
    return f"[{','.join(map(str, shape))}]"
