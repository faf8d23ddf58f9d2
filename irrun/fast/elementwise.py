"""Specialized elementwise arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes

__all__: list[str] = []

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

BINARY_UFUNCS: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
}


@specializes("Add-1", "Subtract-1", "Multiply-1")
def specialize_binary(site: CallSite) -> SpecializedKernel | None:
    """Call the ufunc directly for f32 with NumPy's broadcasting."""
    if site.attributes.get("auto_broadcast", "numpy") != "numpy":
        return None
    ufunc = BINARY_UFUNCS[site.operation.type]
    left, right = site.get_constant(0), site.get_constant(1)
    call_plain = site.call_plain
    if left is None and right is None:

        def compute(a: Array, b: Array) -> Any:
            return ufunc(a, b) if a.dtype is F32 else call_plain(a, b)

        return compute
    if right is not None and right.dtype == F32:
        constant = right

        def compute_right(a: Array) -> Any:
            return ufunc(a, constant)

        return compute_right
    if left is not None and left.dtype == F32:
        constant = left

        def compute_left(b: Array) -> Any:
            return ufunc(constant, b)

        return compute_left
    return None
