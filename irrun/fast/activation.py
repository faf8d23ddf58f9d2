"""Activation functions and other functions of one f32 value, computed in f32 and in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.expressions.numpy import Arrays, compile_expression, make_kernel
from irrun.fast.expressions.table import find_call, list_operations
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, ZERO, Array, Memo, clip

__all__: list[str] = []

HIGHEST = np.array(np.inf, np.float32)


@specializes(*(name for name in list_operations(operand_count=1) if name != "Power-1"))
def specialize_function(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32, if all other inputs are constant."""
    call = find_call(Arrays, str(site.operation), site.attributes, site.constants)
    return None if call is None else make_kernel(call, site.call_plain)


@specializes("Relu-1")
def specialize_relu(site: CallSite) -> SpecializedKernel:
    """Call the ufunc with prepared scalars."""
    call_plain, ufunc, zero, highest = site.call_plain, clip, ZERO, HIGHEST

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        result = ufunc(x, zero, highest)
        return np.add(result, zero, result)  # -0 becomes 0

    return compute


@specializes("PRelu-1")
def specialize_p_relu(site: CallSite) -> SpecializedKernel | None:
    """Use max(x, slope x) for slopes in (0, 1], and the sum of both halves for other slopes."""
    slope, call_plain = site.get_constant(1), site.call_plain
    if slope is None or slope.dtype != F32 or not np.isfinite(slope).all():
        return None

    @Memo
    def prepared(shape: tuple[int, ...]) -> tuple[Any, Array] | None:
        """Return the function and the slope in the shape that broadcasts to the data, or None."""
        call = find_call(Arrays, "PRelu-1", site.attributes, site.constants, len(shape))
        operand: Any = None if call is None else call.operands[1]
        if call is None or any(n not in (1, m) for n, m in zip(operand.shape[::-1], shape[::-1], strict=False)):
            return None
        return compile_expression(call.name, 2, call.parameters, reuses_operands=False).compute, operand

    def compute(x: Array) -> Any:
        found = prepared[x.shape]
        if found is None or x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        function, operand = found
        return function(x, operand)

    return compute
