"""Activation functions of f32, computed in f32 and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.functions import HIGHEST, LOWEST, find_function, to_f32
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, ZERO, Array, Memo, apply_in_tiles, clip

__all__: list[str] = []

#: Functions of several passes, which are computed in tiles.
FUNCTIONS = (
    *("Elu-1", "Erf-1", "Gelu-2", "Gelu-7", "HSigmoid-5", "HSwish-4", "HardSigmoid-1", "Mish-4", "Selu-1"),
    *("Sigmoid-1", "SoftPlus-4", "SoftSign-9", "Swish-4"),
)


@specializes(*FUNCTIONS)
def specialize_function(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32, if all other inputs are constant."""
    function = find_function(str(site.operation), site.attributes, site.constants)
    if function is None:
        return None
    call_plain = site.call_plain

    def compute(x: Array) -> Any:
        return apply_in_tiles(function, x) if x.dtype is F32 else call_plain(x)

    return compute


@specializes("Relu-1")
def specialize_relu(site: CallSite) -> SpecializedKernel:
    """Call the ufunc with ready scalars."""
    call_plain, ufunc, zero, highest = site.call_plain, clip, ZERO, HIGHEST

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        result = ufunc(x, zero, highest)
        return np.add(result, zero, result)  # -0 becomes 0

    return compute


@specializes("Clamp-1")
def specialize_clamp(site: CallSite) -> SpecializedKernel | None:
    """Call the ufunc with ready scalars."""
    low, high = float(site.attributes["min"]), float(site.attributes["max"])
    if not low <= high:
        return None
    call_plain, ufunc = site.call_plain, clip
    lowest, highest = to_f32(low), to_f32(high)

    def compute(x: Array) -> Any:
        return ufunc(x, lowest, highest) if x.dtype is F32 else call_plain(x)

    return compute


@specializes("PRelu-1")
def specialize_p_relu(site: CallSite) -> SpecializedKernel | None:
    """Use max(x, slope x) for slopes in (0, 1], and the sum of both halves for others."""
    slope = site.get_constant(1)
    if slope is None or slope.dtype != F32 or not np.isfinite(slope).all():
        return None
    is_small = bool(((slope > 0) & (slope <= 1)).all())
    call_plain = site.call_plain

    @Memo
    def operands(shape: tuple[int, ...]) -> Array | None:
        """Return the slope in the shape that broadcasts to the data, or None if that depends on special rules."""
        axis = 1 if len(shape) > 1 else 0
        if slope.size == 1:
            return slope.reshape(()) if slope.ndim <= len(shape) else None
        if slope.ndim == 1 and shape and slope.shape[0] == shape[axis]:
            return slope.reshape(-1, *[1] * (len(shape) - axis - 1))
        return None

    def compute(x: Array) -> Any:
        operand = operands[x.shape]
        if operand is None or x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        if is_small:
            t = np.multiply(x, operand)
            return np.maximum(x, t, out=t)
        t = clip(x, LOWEST, ZERO)
        np.multiply(t, operand, t)
        return np.add(t, clip(x, ZERO, HIGHEST), t)

    return compute


#: Functions of one pass. Those of f64 are the same in the plain kernels, but rarely occur.
UFUNCS: dict[str, Callable[..., Array]] = {
    "Abs-1": np.abs,
    "Ceiling-1": np.ceil,
    "Cos-1": np.cos,
    "Exp-1": np.exp,
    "Floor-1": np.floor,
    "Log-1": np.log,
    "Negative-1": np.negative,
    "Sign-1": np.sign,
    "Sin-1": np.sin,
    "Sqrt-1": np.sqrt,
    "Tanh-1": np.tanh,
}


@specializes(*UFUNCS)
def specialize_unary(site: CallSite) -> SpecializedKernel:
    """Call the ufunc."""
    call_plain, ufunc = site.call_plain, UFUNCS[str(site.operation)]

    def compute(x: Array) -> Any:
        return ufunc(x) if x.dtype is F32 else call_plain(x)

    return compute


@specializes("Round-5")
def specialize_round(site: CallSite) -> SpecializedKernel | None:
    """Call the ufunc for halves that are rounded to even."""
    if site.attributes.get("mode", "half_to_even") != "half_to_even":
        return None
    call_plain = site.call_plain

    def compute(x: Array) -> Any:
        return np.rint(x) if x.dtype is F32 else call_plain(x)

    return compute
