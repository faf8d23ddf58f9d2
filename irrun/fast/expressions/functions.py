"""Expressions of functions of one value, and of arithmetic.

Results are within 4 units in the last place of the exact value, or within 2e-7 of it where terms cancel. Results that
are too small for a normal number may be 0. NaN stays NaN, except in HardSigmoid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irrun.fast.expressions.machine import Machine, Value
from irrun.fast.expressions.table import Call, Site, elementwise

__all__ = ["uses_numpy_broadcasting"]

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


# Primitives


def _bind_round(site: Site) -> Call | None:
    return Call(site.name) if site.attributes.get("mode", "half_to_even") == "half_to_even" else None


elementwise("Abs-1", is_cheap=True)(lambda m, x: m.abs(x))
elementwise("Ceiling-1", is_cheap=True)(lambda m, x: m.ceil(x))
elementwise("Cos-1")(lambda m, x: m.cos(x))
elementwise("Exp-1")(lambda m, x: m.exp(x))
elementwise("Floor-1", is_cheap=True)(lambda m, x: m.floor(x))
elementwise("Log-1")(lambda m, x: m.log(x))
elementwise("Negative-1", is_cheap=True)(lambda m, x: -x)
elementwise("Relu-1", is_cheap=True)(lambda m, x: m.maximum(x, 0.0))
elementwise("Round-5", bind=_bind_round, is_cheap=True)(lambda m, x: m.rint(x))
elementwise("Sign-1", is_cheap=True)(lambda m, x: m.sign(x))
elementwise("Sin-1")(lambda m, x: m.sin(x))
elementwise("Sqrt-1", is_cheap=True)(lambda m, x: m.sqrt(x))
elementwise("Tanh-1")(lambda m, x: m.tanh(x))


# Activation functions


def _bind_clamp(site: Site) -> Call | None:
    with np.errstate(over="ignore"):
        low, high = (float(np.float32(site.attributes[name])) for name in ("min", "max"))
    return Call(site.name, (0,), (low, high)) if low <= high else None


@elementwise("Clamp-1", bind=_bind_clamp, is_cheap=True)
def clamp(m: Machine, x: Value, *, low: float, high: float) -> Value:
    """Compute min(max(x, low), high)."""
    return m.clip(x, low, high)


def _bind_elu(site: Site) -> Call | None:
    with np.errstate(over="ignore"):
        alpha = float(np.float32(site.attributes["alpha"]))
    return Call(site.name, (0,), (alpha,)) if math.isfinite(alpha) else None


def _bind_selu(site: Site) -> Call | None:
    alpha, scale = site.get_number(1), site.get_number(2)
    return None if alpha is None or scale is None else Call(site.name, (0,), (alpha, scale))


@elementwise("Selu-1", bind=_bind_selu)
@elementwise("Elu-1", bind=_bind_elu)
def elu(m: Machine, x: Value, *, alpha: float, scale: float = 1.0) -> Value:
    """Compute max(x, 0) + alpha (exp(min(x, 0)) - 1), times scale."""
    below = m.expm1(m.minimum(x, 0.0))
    # x exceeds exp(x) - 1 only where it is positive.
    result = m.maximum(x, below) if alpha == 1 else below * alpha + m.maximum(x, 0.0)
    return result if scale == 1 else result * scale


@elementwise("Erf-1")
def erf(m: Machine, x: Value) -> Value:
    """Compute the error function."""
    return m.tanh(_evaluate_odd(m, ERF_ARGUMENT_RELATIVE, x))


def _evaluate_odd(
    m: Machine, coefficients: Sequence[float], x: Value, factor: float = 1.0, power: float = 1.0
) -> Value:
    """Return factor x p(power x^2) for coefficients from the constant term up."""
    square = m.minimum(x * x, LARGEST_SQUARE / power)
    return m.polynomial([factor * c * power**i for i, c in enumerate(coefficients)][::-1], square) * x


def _bind_gelu(site: Site) -> Call | None:
    return Call("GeluTanh" if site.attributes.get("approximation_mode", "ERF") == "TANH" else "Gelu")


@elementwise("Gelu-2", "Gelu-7", bind=_bind_gelu)
def gelu(m: Machine, x: Value) -> Value:
    """Compute x (1 + erf(x / sqrt(2))) / 2, with (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z))."""
    exponent = _evaluate_odd(m, ERF_ARGUMENT, x, -math.sqrt(2) * m.exponent_factor, 0.5)
    return x / (m.exponentiate(exponent) + 1.0)


@elementwise(name="GeluTanh")
def gelu_tanh(m: Machine, x: Value) -> Value:
    """Compute x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    factor = -2 * math.sqrt(2 / math.pi) * m.exponent_factor
    exponent = m.multiply_add(x * x, factor * 0.044715, factor) * x
    return x / (m.exponentiate(exponent) + 1.0)


@elementwise("HSigmoid-5")
def h_sigmoid(m: Machine, x: Value) -> Value:
    """Compute min(max(x + 3, 0), 6) / 6."""
    return m.clip(x + 3.0, 0.0, 6.0) / 6.0


@elementwise("HSwish-4")
def h_swish(m: Machine, x: Value) -> Value:
    """Compute x min(max(x + 3, 0), 6) / 6."""
    return m.clip(x + 3.0, 0.0, 6.0) * (1 / 6) * x


def _bind_hard_sigmoid(site: Site) -> Call | None:
    slope, offset = site.get_number(1), site.get_number(2)
    # With larger offsets, terms would cancel.
    return None if slope is None or offset is None or abs(offset) > 1 else Call(site.name, (0,), (slope, offset))


@elementwise("HardSigmoid-1", bind=_bind_hard_sigmoid)
def hard_sigmoid(m: Machine, x: Value, *, slope: float, offset: float) -> Value:
    """Compute min(max(slope x + offset, 0), 1), where NaN becomes 1."""
    return m.maximum(m.minimum_number(m.multiply_add(x, slope, offset), 1.0), 0.0)


@elementwise("Mish-4")
def mish(m: Machine, x: Value) -> Value:
    """Compute x tanh(log(1 + exp(x))): with e = exp(x), it is e (e + 2) / (e (e + 2) + 2), and 1 from x = 20 on."""
    e = m.exp(m.minimum(x, 20.0))
    product = (e + 2.0) * e
    return product / (product + 2.0) * x


def _bind_p_relu(site: Site) -> Call | None:
    slope, rank = site.get_array(1), site.rank
    if slope is None or rank is None:
        return None
    if slope.size == 1:
        aligned = slope.reshape(())
    elif slope.ndim == 1 and rank > 1:
        aligned = slope.reshape(-1, *[1] * (rank - 2))
    else:
        aligned = slope
    is_small = bool(((slope > 0) & (slope <= 1)).all())
    return Call(site.name, (0, aligned), (is_small,)) if slope.size == 1 or aligned.ndim <= rank else None


@elementwise("PRelu-1", bind=_bind_p_relu)
def p_relu(m: Machine, x: Value, slope: Value, *, is_small: bool) -> Value:
    """Compute max(x, 0) + slope min(x, 0), which is max(x, slope x) for slopes in (0, 1]."""
    if is_small:
        return m.maximum(x, x * slope)
    return m.minimum(x, 0.0) * slope + m.maximum(x, 0.0)


@elementwise("Sigmoid-1")
def sigmoid(m: Machine, x: Value) -> Value:
    """Compute 1 / (1 + exp(-x))."""
    return 1.0 / (m.exp(-x) + 1.0)


@elementwise("SoftPlus-4")
def soft_plus(m: Machine, x: Value) -> Value:
    """Compute log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|))."""
    return m.log1p(m.exp(-m.abs(x))) + m.maximum(x, 0.0)


@elementwise("SoftSign-9")
def soft_sign(m: Machine, x: Value) -> Value:
    """Compute x / (1 + |x|)."""
    return x / (m.abs(x) + 1.0)


def _bind_swish(site: Site) -> Call | None:
    if len(site.constants) < 2:
        return Call(site.name)
    beta = site.get_number(1)
    return None if beta is None else Call(site.name, (0,), (beta,))


@elementwise("Swish-4", bind=_bind_swish)
def swish(m: Machine, x: Value, *, beta: float = 1.0) -> Value:
    """Compute x / (1 + exp(-beta x))."""
    return x / (m.exponentiate(x * (-beta * m.exponent_factor)) + 1.0)


# Arithmetic


def uses_numpy_broadcasting(site: Site) -> bool:
    """Return whether the inputs of an operation broadcast like NumPy's operands."""
    return bool(site.attributes.get("auto_broadcast", "numpy") == "numpy")


def _bind_two_inputs(site: Site) -> Call | None:
    return Call(site.name, (0, 1)) if uses_numpy_broadcasting(site) and len(site.constants) == 2 else None


elementwise("Add-1", bind=_bind_two_inputs, is_cheap=True)(lambda m, a, b: a + b)
elementwise("Divide-1", bind=_bind_two_inputs, is_cheap=True)(lambda m, a, b: a / b)
elementwise("Multiply-1", bind=_bind_two_inputs, is_cheap=True)(lambda m, a, b: a * b)
elementwise(name="MultiplyAdd")(lambda m, a, b, c: m.multiply_add(a, b, c))
#: x where a mask of 0 and -inf is 0, else -inf, also where x is infinite or NaN.
elementwise(name="Mask")(lambda m, x, mask: m.select_greater(mask, -1.0, x, mask))
elementwise("Subtract-1", bind=_bind_two_inputs, is_cheap=True)(lambda m, a, b: a - b)


@elementwise("SquaredDifference-1", bind=_bind_two_inputs, is_cheap=True)
def squared_difference(m: Machine, a: Value, b: Value) -> Value:
    """Compute (a - b)^2."""
    difference = a - b
    return difference * difference


def _bind_extremum(site: Site) -> Call | None:
    """Note whether the second input is a constant without NaN, so that fewer instructions suffice."""
    right = site.constants[1] if len(site.constants) == 2 else None
    is_number = right is not None and not np.isnan(right).any()
    return Call(site.name, (0, 1), (is_number,)) if _bind_two_inputs(site) else None


@elementwise("Maximum-1", bind=_bind_extremum, is_cheap=True)
def maximum(m: Machine, a: Value, b: Value, *, is_number: bool) -> Value:
    """Return b where it is greater, else a, also where b is NaN."""
    return m.maximum(a, b) if is_number else m.select_greater(b, a, b, a)


@elementwise("Minimum-1", bind=_bind_extremum, is_cheap=True)
def minimum(m: Machine, a: Value, b: Value, *, is_number: bool) -> Value:
    """Return b where it is less, else a, also where b is NaN."""
    return m.minimum(a, b) if is_number else m.select_greater(a, b, b, a)


def _bind_power(site: Site) -> Call | None:
    exponent = site.constants[1] if len(site.constants) == 2 else None
    if exponent is None or exponent.size != 1 or exponent.item() != 2 or not uses_numpy_broadcasting(site):
        return None
    is_aligned = not exponent.ndim or (site.rank is not None and exponent.ndim <= site.rank)
    return Call(site.name) if is_aligned and exponent.dtype == np.float32 else None


elementwise("Power-1", bind=_bind_power, is_cheap=True, name="Square")(lambda m, x: x * x)
