"""Packing and unpacking of sub-byte types."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun import packing
from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.shape import Shape

__all__ = ["pack_data", "unpack_data"]

#: Types that these functions pack from the highest bits down, in contrast to the memory of tensors.
_BIT_COUNTS = {"u1": 1, "u2": 2, "u4": 4, "i4": 4, "nf4": 4, "f4e2m1": 4}


def pack_data(array: Any, type: Type) -> Any:
    """Return the bytes of an array of small integers in a packed type.

    Args:
        array: An integer array.
        type: The element type.

    Raises:
        RuntimeError: The type is not packed.
    """
    element_type = to_element_type(type)
    if element_type is None or not element_type.is_packed:
        raise RuntimeError(f"Packing of the type {type} is not supported")
    codes = np.asarray(array).reshape(-1).astype(np.int8).view(np.uint8) & np.uint8((1 << element_type.bits) - 1)
    if element_type.name in _BIT_COUNTS:
        bits = np.unpackbits(codes[:, None], axis=1)[:, -element_type.bits :]
        return np.packbits(bits.reshape(-1))
    return np.frombuffer(packing.pack(element_type, codes.view(element_type.dtype)), np.uint8)


def unpack_data(array: Any, type: Type, shape: Any) -> Any:
    """Return the elements of a packed type as an array of integers.

    Args:
        array: The bytes.
        type: The element type.
        shape: The shape of the result.

    Raises:
        RuntimeError: The type is not packed.
    """
    element_type = to_element_type(type)
    if element_type is None or not element_type.is_packed:
        raise RuntimeError(f"Unpacking of the type {type} is not supported")
    lengths = list(Shape(shape))
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if element_type.name not in _BIT_COUNTS:
        return np.array(packing.unpack(element_type, data, lengths).view(np.uint8))
    bits = np.unpackbits(data).reshape(-1, element_type.bits)[: int(np.prod(lengths))]
    codes = np.packbits(bits, axis=1)[:, 0] >> np.uint8(8 - element_type.bits)
    if element_type.kind == "int":
        codes = np.where(codes > 7, codes.astype(np.int8) - 16, codes).astype(np.int8)
    return codes.reshape(lengths)
