"""Conversion of f16 to f32, for which NumPy does not use the processor's instructions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row, make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Task, make_base, make_range_task
from irrun.limits import check_allocation

__all__ = ["WideningKernel"]

Array = np.ndarray[Any, Any]

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 16, 16


@cache_kernel
def compile_widening() -> Kernel:
    """Return the kernel that converts the elements from `first` to `last`.

    The bits of f16 are moved to their positions in f32. A multiplication by a power of two corrects the exponents and
    makes subnormal numbers normal. All steps are exact.
    """
    f = Function("widen", [("data", "ptr"), ("result", "ptr"), ("first", "i64"), ("last", "i64")], get_lanes())
    p = f.parameters

    def widen(position: Value, mask: Value | None) -> None:
        index = p["first"] + position
        bits = f.convert("zext", f.load(f.offset(p["data"], index, "i16"), f.integers(16), mask), f.integers())
        magnitude = (bits & 0x7FFF) << 13
        scaled = f.convert("bitcast", f.convert("bitcast", magnitude, f.vector) * 2.0**112, f.integers())
        is_finite = f.compare("slt", magnitude, 0x7C00 << 13)
        result = f.select(is_finite, scaled, magnitude | 0x7F800000) | ((bits & 0x8000) << 16)
        f.store(f.convert("bitcast", result, f.vector), f.offset(p["result"], index), mask)

    apply_to_row(f, p["last"] - p["first"], widen)
    return compile_function(f)


class WideningKernel(CompiledKernel):
    """The kernel of Convert from f16 to f32."""

    description = "compiled: conversion of f16 to f32"

    def __call__(self, data: Array) -> Array:
        """Convert; data in f32 stays as it is.

        Raises:
            NoKernelError: The data has another type.
        """
        if data.dtype == F32:
            return data
        if data.dtype != F16:
            raise NoKernelError("expected f16")
        check_allocation(data.shape, F32)
        data = make_contiguous(data)
        result = np.empty(data.shape, F32)
        _make_widening_task(data.size).run(get_address(data), get_address(result))
        return result


@functools.lru_cache(maxsize=256)
def _make_widening_task(size: int) -> Task:
    count = max(1, min(MAX_PARTS, size // MIN_PART_SIZE))
    return make_range_task(compile_widening(), (make_base(0), make_base(1)), size, count)
