"""Conversions where NumPy's `astype` agrees with the plain kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import BOOL, F32, NATIVE, NATIVE_FLOATS, NATIVE_INTEGERS, Array

__all__: list[str] = []

Dtype = np.dtype[Any]

#: Below this sum of squares, all elements fit into every signed integer type of 32 bits or more.
MAX_SQUARES = 2.0**61


@specializes("Convert-1")
def specialize_convert(site: CallSite) -> SpecializedKernel | None:
    """Convert to a known type."""
    target: ElementType = site.attributes["destination_type"]
    return _specialize_conversion(site, target.dtype)


@specializes("ConvertLike-1")
def specialize_convert_like(site: CallSite) -> SpecializedKernel | None:
    """Convert to a known type if `like` is constant."""
    like = site.get_constant(1)
    return None if like is None else _specialize_conversion(site, like.dtype)


def _specialize_conversion(site: CallSite, target: Dtype) -> SpecializedKernel:
    call_plain = site.call_plain
    checks_range = target in NATIVE_INTEGERS and target.kind == "i" and target.itemsize >= 4

    def compute(data: Array) -> Any:
        dtype = data.dtype
        if dtype is target:
            return data
        if _is_plain_cast(dtype, target):
            return data.astype(target)
        if checks_range and dtype is F32 and np.vdot(data, data) < MAX_SQUARES:  # false for NaN
            return data.astype(target)
        return call_plain(data)

    def convert_f32(data: Array) -> Any:
        return data.astype(F32) if data.dtype in NATIVE_INTEGERS else compute(data)

    return convert_f32 if target is F32 else compute


def _is_plain_cast(source: Dtype, target: Dtype) -> bool:
    """Return whether Convert does the same as `astype`."""
    if target is BOOL:
        return source in NATIVE
    if target in NATIVE_FLOATS:
        return source in NATIVE or source is BOOL
    if target in NATIVE_INTEGERS:
        return source in NATIVE_INTEGERS or source is BOOL
    return False
