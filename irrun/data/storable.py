"""Conversion of arrays to types that files support."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.limits import check_allocation

__all__ = ["to_storable"]

Array = np.ndarray[Any, Any]


def to_storable(value: Array) -> Array:
    """Convert an array to a type that .npy files support.

    Args:
        value: An array of any element type.

    Returns:
        Low-precision floats that NumPy does not support as f32, sub-byte integers as 8-bit integers, strings as Unicode
        text, and all other types unchanged.
    """
    element_type = ElementType.of(value.dtype)
    if element_type.kind == "string":
        longest = max(map(len, value.reshape(-1).tolist()), default=0)
        check_allocation((value.size, longest, 4), np.dtype(np.uint8))  # each takes as much as the longest one
        return value.astype(np.str_)
    if value.dtype.fields:
        return value.view(np.uint8)
    if value.dtype.kind not in "V" and not value.dtype.name.startswith(
        ("bfloat", "float8", "float4", "int4", "uint4", "uint2")
    ):
        return value
    if element_type.is_float:
        return value.astype(np.float32)
    return value.astype(np.int8 if element_type.kind == "int" else np.uint8)
