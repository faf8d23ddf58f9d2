"""Activation functions of f32, computed in f32 and in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import (
    F32,
    ONE,
    ZERO,
    Array,
    clip,
    freeze,
    specialize_f32_function,
)

__all__: list[str] = []


def to_f32(value: float) -> Array:
    """Return a number as a scalar of f32."""
    return freeze(np.array(value, np.float32))


TWO = to_f32(2)
THREE = to_f32(3)
SIX = to_f32(6)
SIXTH = to_f32(1 / 6)

#: p in erf(z) = tanh(z p(z^2)), from the constant term up: within 6e-8 for all z. See benchmarks/fit_erf.py.
ERF_ARGUMENT = (
    1.1283797054298637,
    0.10276548189967301,
    -0.00018438493594667964,
    -0.0006257182409195285,
    8.971196140713349e-05,
    -5.985561909178796e-06,
    1.5895082552420201e-07,
)
#: The same with a small relative error, 3.1e-8.
ERF_ARGUMENT_RELATIVE = (
    1.1283792023171566,
    0.10277131499166799,
    -0.00020215182543404828,
    -0.0006036811601672955,
    7.648979532395943e-05,
    -1.8611601913580258e-06,
    -5.150727146828221e-07,
    5.391429585761952e-08,
    -1.6406726338638516e-09,
)
#: The largest z^2 that the polynomials are valid for. Beyond, erf is 1 in f32.
LARGEST_SQUARE = 16.0


def scale_polynomial(coefficients: Sequence[float], factor: float, power: float = 1.0) -> list[Array]:
    """Return scalars of the coefficients of factor * p(power * x), from the highest power down."""
    return [to_f32(factor * c * power**i) for i, c in enumerate(coefficients)][::-1]


#: Phi(x) = (1 + erf(x / sqrt(2))) / 2 = 1 / (1 + exp(x q(x^2))): q.
GELU_EXPONENT = scale_polynomial(ERF_ARGUMENT, -math.sqrt(2), 0.5)
GELU_LIMIT = to_f32(2 * LARGEST_SQUARE)
#: The same for the approximation by tanh.
GELU_TANH_EXPONENT = [to_f32(-2 * math.sqrt(2 / math.pi) * c) for c in (0.044715, 1.0)]
ERF_POLYNOMIAL = scale_polynomial(ERF_ARGUMENT_RELATIVE, 1.0)
ERF_LIMIT = to_f32(LARGEST_SQUARE)


def evaluate_horner(coefficients: Sequence[Array], x: Array) -> Array:
    """Evaluate a polynomial with at least two coefficients, from the highest power down."""
    result = np.multiply(x, coefficients[0])
    for coefficient in coefficients[1:-1]:
        np.add(result, coefficient, result)
        np.multiply(result, x, result)
    return np.add(result, coefficients[-1], result)


def apply_sigmoid_to_negative(exponent: Array, x: Array | None = None) -> Array:
    """Return (x or 1) / (1 + exp(exponent)), computed in `exponent`."""
    np.exp(exponent, exponent)
    np.add(exponent, ONE, exponent)
    return np.reciprocal(exponent, exponent) if x is None else np.divide(x, exponent, exponent)


def compute_sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x))."""
    t = np.negative(x)
    np.exp(t, t)
    np.add(t, ONE, t)
    return np.reciprocal(t, t)


def compute_swish(x: Array) -> Array:
    """Compute x / (1 + exp(-x))."""
    t = np.negative(x)
    np.exp(t, t)
    np.add(t, ONE, t)
    return np.divide(x, t, t)


def compute_scaled_swish(x: Array, negative_beta: Array) -> Array:
    """Compute x / (1 + exp(-beta x))."""
    return apply_sigmoid_to_negative(np.multiply(x, negative_beta), x)


def compute_gelu(x: Array) -> Array:
    """Compute x Phi(x)."""
    square = np.square(x)
    t = evaluate_horner(GELU_EXPONENT, np.minimum(square, GELU_LIMIT, out=square))
    np.multiply(t, x, t)
    return apply_sigmoid_to_negative(t, x)


def compute_gelu_tanh(x: Array) -> Array:
    """Compute x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    t = np.square(x)
    np.multiply(t, GELU_TANH_EXPONENT[0], t)
    np.add(t, GELU_TANH_EXPONENT[1], t)
    np.multiply(t, x, t)
    return apply_sigmoid_to_negative(t, x)


def compute_erf(x: Array) -> Array:
    """Compute the error function."""
    square = np.square(x)
    t = evaluate_horner(ERF_POLYNOMIAL, np.minimum(square, ERF_LIMIT, out=square))
    np.multiply(t, x, t)
    return np.tanh(t, t)


def compute_mish(x: Array) -> Array:
    """Compute x tanh(log(1 + exp(x))).

    With e = exp(x), the hyperbolic tangent is e (e + 2) / (e (e + 2) + 2), which is 1 from x = 20 on.
    """
    e = np.minimum(x, MISH_LIMIT)
    np.exp(e, e)
    product = np.add(e, TWO)
    np.multiply(product, e, product)
    np.add(product, TWO, e)
    np.divide(product, e, product)
    return np.multiply(product, x, product)


MISH_LIMIT = to_f32(20)


def compute_soft_plus(x: Array) -> Array:
    """Compute log(1 + exp(x))."""
    t = np.abs(x)
    np.negative(t, t)
    np.exp(t, t)
    np.log1p(t, t)
    return np.add(t, np.maximum(x, ZERO), t)


def compute_soft_sign(x: Array) -> Array:
    """Compute x / (1 + |x|)."""
    t = np.abs(x)
    np.add(t, ONE, t)
    return np.divide(x, t, t)


def compute_h_sigmoid(x: Array) -> Array:
    """Compute min(max(x + 3, 0), 6) / 6."""
    t = np.add(x, THREE)
    clip(t, ZERO, SIX, t)
    return np.divide(t, SIX, t)


def compute_h_swish(x: Array) -> Array:
    """Compute x min(max(x + 3, 0), 6) / 6."""
    t = np.add(x, THREE)
    clip(t, ZERO, SIX, t)
    np.multiply(t, SIXTH, t)
    return np.multiply(t, x, t)


def compute_elu(x: Array, alpha: Array, scale: Array | None = None) -> Array:
    """Compute max(x, 0) + alpha (exp(min(x, 0)) - 1), times `scale`."""
    t = np.minimum(x, ZERO)
    np.expm1(t, t)
    np.multiply(t, alpha, t)
    np.add(t, np.maximum(x, ZERO), t)
    return t if scale is None else np.multiply(t, scale, t)


#: Operation -> function of an f32 array with at least one dimension.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Erf-1": compute_erf,
    "HSigmoid-5": compute_h_sigmoid,
    "HSwish-4": compute_h_swish,
    "Mish-4": compute_mish,
    "Sigmoid-1": compute_sigmoid,
    "SoftPlus-4": compute_soft_plus,
    "SoftSign-9": compute_soft_sign,
}


@specializes(*FUNCTIONS)
def specialize_activation(site: CallSite) -> SpecializedKernel:
    """Compute in f32."""
    return specialize_f32_function(site, FUNCTIONS[str(site.operation)])


@specializes("Gelu-2", "Gelu-7")
def specialize_gelu(site: CallSite) -> SpecializedKernel:
    """Compute in f32."""
    is_tanh = site.attributes.get("approximation_mode", "ERF") == "TANH"
    return specialize_f32_function(site, compute_gelu_tanh if is_tanh else compute_gelu)


@specializes("Swish-4")
def specialize_swish(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32 if beta is constant."""
    if not site.has_input(1):
        return specialize_f32_function(site, compute_swish)
    beta = site.get_constant(1)
    if beta is None or beta.size != 1 or beta.dtype != F32:
        return None
    factor = float(beta.item())
    if factor == 1:
        return specialize_f32_function(site, compute_swish)
    return specialize_f32_function(site, partial(compute_scaled_swish, negative_beta=to_f32(-factor)))


@specializes("Elu-1")
def specialize_elu(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32."""
    alpha = float(site.attributes["alpha"])
    if not math.isfinite(alpha):
        return None
    return specialize_f32_function(site, partial(compute_elu, alpha=to_f32(alpha)))


@specializes("Selu-1")
def specialize_selu(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32 if both parameters are constant and finite."""
    alpha, scale = site.get_constant(1), site.get_constant(2)
    for value in (alpha, scale):
        if value is None or value.size != 1 or value.dtype != F32 or not np.isfinite(value).all():
            return None
    assert alpha is not None
    assert scale is not None
    return specialize_f32_function(site, partial(compute_elu, alpha=to_f32(alpha.item()), scale=to_f32(scale.item())))


@specializes("HardSigmoid-1")
def specialize_hard_sigmoid(site: CallSite) -> SpecializedKernel | None:
    """Compute in f32 if the offset is so small that nothing is lost by cancellation."""
    alpha, beta = site.get_constant(1), site.get_constant(2)
    if alpha is None or beta is None or alpha.size != 1 or beta.size != 1:
        return None
    if alpha.dtype != F32 or beta.dtype != F32 or not (abs(beta.item()) <= 1 and math.isfinite(alpha.item())):
        return None
    slope, offset = to_f32(alpha.item()), to_f32(beta.item())

    def compute(x: Array) -> Array:
        t = np.multiply(x, slope)
        np.add(t, offset, t)
        np.fmin(t, ONE, t)
        return np.maximum(t, ZERO, out=t)

    return specialize_f32_function(site, compute)


@specializes("Relu-1")
def specialize_relu(site: CallSite) -> SpecializedKernel:
    """Call the ufunc with a ready scalar."""
    call_plain, maximum, zero = site.call_plain, np.maximum, ZERO

    def compute(x: Array) -> Any:
        return maximum(x, zero) if x.dtype is F32 else call_plain(x)

    return compute


@specializes("Clamp-1")
def specialize_clamp(site: CallSite) -> SpecializedKernel | None:
    """Call the ufunc with ready scalars."""
    low, high = float(site.attributes["min"]), float(site.attributes["max"])
    if not low <= high:
        return None
    call_plain, ufunc = site.call_plain, clip
    with np.errstate(over="ignore"):
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

    def align(x: Array) -> Array | None:
        """Return the slope in the shape that broadcasts to `x`, or None if that depends on special rules."""
        axis = 1 if x.ndim > 1 else 0
        if slope.size == 1:
            return slope.reshape(()) if slope.ndim <= x.ndim else None
        if slope.ndim == 1 and x.ndim and slope.shape[0] == x.shape[axis]:
            return slope.reshape(-1, *[1] * (x.ndim - axis - 1))
        return None

    entry: tuple[Any, Array | None] = (None, None)

    def compute(x: Array) -> Any:
        nonlocal entry
        shape, operand = entry
        if x.shape != shape:
            operand = align(x)
            entry = x.shape, operand
        if operand is None or x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        if is_small:
            t = np.multiply(x, operand)
            return np.maximum(x, t, out=t)
        t = np.minimum(x, ZERO)
        np.multiply(t, operand, t)
        return np.add(t, np.maximum(x, ZERO), t)

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
