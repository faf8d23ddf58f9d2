"""Elementwise functions of f32, computed in f32, in place and with few passes.

Every function has the form `f(x, out=None, scratch=None)`, so that callers can apply it to a block in the processor's
cache, also to the block itself:

- `x` is an array of f32 of any shape and strides.
- `out` receives the result: `x` itself, an array of its shape that does not overlap with it, or None for a new array.
- `scratch` is a contiguous one-dimensional array of f32 with at least `SCRATCH_FACTOR` times as many elements as `x`,
  which is overwritten; None allocates it.

Results are within 4 units in the last place of the exact value, or within 2e-7 of it where terms cancel.
Results that are too small for a normal number may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.support import F32, HAS_AVX512, ONE, ZERO, Array, clip, freeze

__all__ = [
    "FUNCTIONS",
    "HIGHEST",
    "LOWEST",
    "SCRATCH_FACTOR",
    "F32Function",
    "QuantizationScales",
    "create_fake_quantize",
    "find_function",
    "to_f32",
]

F32Function = Callable[..., Array]

#: Arrays of the size of `x` that a function needs at most in `scratch`.
SCRATCH_FACTOR = 2


def to_f32(value: float) -> Array:
    """Return a number as a scalar of f32."""
    with np.errstate(over="ignore"):
        return freeze(np.array(value, np.float32))


TWO = to_f32(2)
THREE = to_f32(3)
SIX = to_f32(6)
#: Limits of one side only: with a scalar, `clip` takes a third of the time of `np.maximum`.
LOWEST, HIGHEST = to_f32(-math.inf), to_f32(math.inf)
SIXTH = to_f32(1 / 6)
#: tanh(log(1 + exp(x))) is 1 from here on.
MISH_LIMIT = to_f32(20)

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


def _scale_polynomial(coefficients: Sequence[float], factor: float, power: float = 1.0) -> list[Array]:
    """Return scalars of the coefficients of factor * p(power * x), from the highest power down."""
    return [to_f32(factor * c * power**i) for i, c in enumerate(coefficients)][::-1]


#: The exponential function that NumPy computes fastest, and the factor of its exponents: with AVX-512, powers of two
#: take half the time of powers of e.
exponentiate, EXPONENT_FACTOR = (np.exp2, math.log2(math.e)) if HAS_AVX512 else (np.exp, 1.0)
#: Phi(x) = (1 + erf(x / sqrt(2))) / 2 = 1 / (1 + exp(x q(x^2))): q.
GELU_EXPONENT = _scale_polynomial(ERF_ARGUMENT, -math.sqrt(2) * EXPONENT_FACTOR, 0.5)
GELU_LIMIT = to_f32(2 * LARGEST_SQUARE)
#: The same for the approximation by tanh.
GELU_TANH_EXPONENT = [to_f32(-2 * math.sqrt(2 / math.pi) * EXPONENT_FACTOR * c) for c in (0.044715, 1.0)]
SWISH_FACTOR = to_f32(-EXPONENT_FACTOR)
ERF_POLYNOMIAL = _scale_polynomial(ERF_ARGUMENT_RELATIVE, 1.0)
ERF_LIMIT = to_f32(LARGEST_SQUARE)


def _reserve(x: Array, scratch: Array | None, position: int = 0) -> Array:
    """Return an array of the shape of `x` in the scratch memory, or a new one."""
    if scratch is None:
        return np.empty(x.shape, F32)
    size = x.size
    block: Array = scratch[position * size : (position + 1) * size].reshape(x.shape)
    return block


def _evaluate_horner(coefficients: Sequence[Array], x: Array, out: Array) -> Array:
    """Evaluate a polynomial with at least two coefficients, from the highest power down."""
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[-1], out)
    return out


def compute_sigmoid(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute 1 / (1 + exp(-x))."""
    t = np.empty(x.shape, F32) if out is None else out
    np.negative(x, t)
    np.exp(t, t)
    np.add(t, ONE, t)
    return np.reciprocal(t, t)


def compute_swish(
    x: Array, out: Array | None = None, scratch: Array | None = None, factor: Array = SWISH_FACTOR
) -> Array:
    """Compute x / (1 + exp(-beta x)), where `factor` is -beta times that of the exponents."""
    t = _reserve(x, scratch)
    np.multiply(x, factor, t)
    return _multiply_by_sigmoid(x, t, out)


def _multiply_by_sigmoid(x: Array, exponent: Array, out: Array | None) -> Array:
    """Compute x / (1 + exp(exponent)) for an exponent times `EXPONENT_FACTOR`, which is overwritten."""
    exponentiate(exponent, exponent)
    np.add(exponent, ONE, exponent)
    return np.divide(x, exponent, exponent if out is None else out)


def compute_gelu(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute x Phi(x)."""
    square, t = _reserve(x, scratch), _reserve(x, scratch, 1)
    np.square(x, square)
    clip(square, ZERO, GELU_LIMIT, square)
    _evaluate_horner(GELU_EXPONENT, square, t)
    np.multiply(t, x, t)
    return _multiply_by_sigmoid(x, t, out)


def compute_gelu_tanh(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    t = _reserve(x, scratch)
    np.square(x, t)
    np.multiply(t, GELU_TANH_EXPONENT[0], t)
    np.add(t, GELU_TANH_EXPONENT[1], t)
    np.multiply(t, x, t)
    return _multiply_by_sigmoid(x, t, out)


def compute_erf(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute the error function."""
    square, t = _reserve(x, scratch), _reserve(x, scratch, 1)
    np.square(x, square)
    clip(square, ZERO, ERF_LIMIT, square)
    _evaluate_horner(ERF_POLYNOMIAL, square, t)
    np.multiply(t, x, t)
    return np.tanh(t, t if out is None else out)


def compute_mish(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute x tanh(log(1 + exp(x))).

    With e = exp(x), the hyperbolic tangent is e (e + 2) / (e (e + 2) + 2), which is 1 from x = 20 on.
    """
    e, product = _reserve(x, scratch), _reserve(x, scratch, 1)
    clip(x, LOWEST, MISH_LIMIT, e)
    np.exp(e, e)
    np.add(e, TWO, product)
    np.multiply(product, e, product)
    np.add(product, TWO, e)
    np.divide(product, e, product)
    return np.multiply(product, x, product if out is None else out)


def compute_soft_plus(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|))."""
    t, positive = _reserve(x, scratch), _reserve(x, scratch, 1)
    np.abs(x, t)
    np.negative(t, t)
    np.exp(t, t)
    np.log1p(t, t)
    clip(x, ZERO, HIGHEST, positive)
    return np.add(t, positive, t if out is None else out)


def compute_soft_sign(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute x / (1 + |x|)."""
    t = _reserve(x, scratch)
    np.abs(x, t)
    np.add(t, ONE, t)
    return np.divide(x, t, t if out is None else out)


def compute_h_sigmoid(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute min(max(x + 3, 0), 6) / 6."""
    t = np.empty(x.shape, F32) if out is None else out
    np.add(x, THREE, t)
    clip(t, ZERO, SIX, t)
    return np.divide(t, SIX, t)


def compute_h_swish(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute x min(max(x + 3, 0), 6) / 6."""
    t = _reserve(x, scratch)
    np.add(x, THREE, t)
    clip(t, ZERO, SIX, t)
    np.multiply(t, SIXTH, t)
    return np.multiply(t, x, t if out is None else out)


def compute_elu(
    x: Array,
    out: Array | None = None,
    scratch: Array | None = None,
    alpha: Array | None = None,
    scale: Array | None = None,
) -> Array:
    """Compute max(x, 0) + alpha (exp(min(x, 0)) - 1), times `scale`.

    Without `alpha`, which is 1 then, x exceeds exp(x) - 1 only where it is positive.
    """
    t = _reserve(x, scratch)
    clip(x, LOWEST, ZERO, t)
    np.expm1(t, t)
    result = t if out is None else out
    if alpha is None:
        np.maximum(x, t, out=result)
    else:
        np.multiply(t, alpha, t)
        np.add(t, clip(x, ZERO, HIGHEST, _reserve(x, scratch, 1)), result)
    return result if scale is None else np.multiply(result, scale, result)


def compute_hard_sigmoid(
    x: Array, out: Array | None = None, scratch: Array | None = None, *, slope: Array, offset: Array
) -> Array:
    """Compute min(max(slope x + offset, 0), 1), where NaN becomes 1."""
    t = np.empty(x.shape, F32) if out is None else out
    np.multiply(x, slope, t)
    np.add(t, offset, t)
    np.fmin(t, ONE, t)
    return np.maximum(t, ZERO, out=t)


def compute_relu(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
    """Compute max(x, 0)."""
    result: Array = clip(x, ZERO, HIGHEST, out)
    return result


def compute_clamp(
    x: Array, out: Array | None = None, scratch: Array | None = None, *, low: Array, high: Array
) -> Array:
    """Compute min(max(x, low), high)."""
    result: Array = clip(x, low, high, out)
    return result


def _make_unary(ufunc: Any) -> F32Function:
    def compute(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        result: Array = ufunc(x, out)
        return result

    return compute


#: Operation -> function without parameters.
FUNCTIONS: dict[str, F32Function] = {
    "Abs-1": _make_unary(np.abs),
    "Ceiling-1": _make_unary(np.ceil),
    "Cos-1": _make_unary(np.cos),
    "Erf-1": compute_erf,
    "Exp-1": _make_unary(np.exp),
    "Floor-1": _make_unary(np.floor),
    "HSigmoid-5": compute_h_sigmoid,
    "HSwish-4": compute_h_swish,
    "Log-1": _make_unary(np.log),
    "Mish-4": compute_mish,
    "Negative-1": _make_unary(np.negative),
    "Relu-1": compute_relu,
    "Sigmoid-1": compute_sigmoid,
    "Sign-1": _make_unary(np.sign),
    "Sin-1": _make_unary(np.sin),
    "SoftPlus-4": compute_soft_plus,
    "SoftSign-9": compute_soft_sign,
    "Sqrt-1": _make_unary(np.sqrt),
    "Tanh-1": _make_unary(np.tanh),
}


def find_function(
    operation: str, attributes: Mapping[str, Any], constants: Sequence[Array | None] = ()
) -> F32Function | None:
    """Return the function that computes an operation of one variable input, or None where none is suitable.

    Args:
        operation: Type with version: "Gelu-7".
        attributes: Attributes of the operation.
        constants: One entry per input: its value if it is constant. The first input is the variable.
    """
    function = FUNCTIONS.get(operation)
    if function is not None:
        return function
    create = _FACTORIES.get(operation)
    return create(attributes, constants) if create else None


def _get_scalar(constants: Sequence[Array | None], position: int) -> float | None:
    """Return a constant of one element of f32, or None."""
    value = constants[position] if position < len(constants) else None
    return float(value.item()) if value is not None and value.size == 1 and value.dtype == F32 else None


def _create_gelu(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function:
    return compute_gelu_tanh if attributes.get("approximation_mode", "ERF") == "TANH" else compute_gelu


def _create_swish(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    beta = 1.0 if len(constants) < 2 else _get_scalar(constants, 1)
    if beta is None:
        return None
    return compute_swish if beta == 1 else partial(compute_swish, factor=to_f32(-beta * EXPONENT_FACTOR))


def _create_elu(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    alpha = float(attributes["alpha"])
    if not math.isfinite(alpha):
        return None
    return compute_elu if alpha == 1 else partial(compute_elu, alpha=to_f32(alpha))


def _create_selu(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    alpha, scale = _get_scalar(constants, 1), _get_scalar(constants, 2)
    if alpha is None or scale is None or not (math.isfinite(alpha) and math.isfinite(scale)):
        return None
    return partial(compute_elu, alpha=to_f32(alpha), scale=to_f32(scale))


def _create_hard_sigmoid(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    slope, offset = _get_scalar(constants, 1), _get_scalar(constants, 2)
    # With larger offsets, terms would cancel.
    if slope is None or offset is None or not (abs(offset) <= 1 and math.isfinite(slope)):
        return None
    return partial(compute_hard_sigmoid, slope=to_f32(slope), offset=to_f32(offset))


def _create_clamp(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    low, high = float(attributes["min"]), float(attributes["max"])
    return partial(compute_clamp, low=to_f32(low), high=to_f32(high)) if low <= high else None


def _create_round(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    return _ROUND if attributes.get("mode", "half_to_even") == "half_to_even" else None


def _create_fake_quantize(attributes: Mapping[str, Any], constants: Sequence[Array | None]) -> F32Function | None:
    limits = [value for i in range(1, 5) if (value := _get_scalar(constants, i)) is not None]
    if len(limits) < 4 or attributes.get("auto_broadcast", "numpy") != "numpy":
        return None
    return create_fake_quantize(*map(to_f32, limits), levels=int(attributes["levels"]))


def create_fake_quantize(
    in_low: Array, in_high: Array, out_low: Array, out_high: Array, *, levels: int
) -> F32Function | None:
    """Return the function of a FakeQuantize, or None for limits that are reversed, equal or not finite.

    Args:
        in_low: f32, one value or a shape that broadcasts to the blocks that the function is applied to.
        in_high: The same.
        out_low: The same.
        out_high: The same.
        levels: Number of levels.
    """
    scales = QuantizationScales.create(in_low, in_high, out_low, out_high, levels=levels)
    if scales is None:
        return None

    def compute(x: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        t = np.empty(x.shape, F32) if out is None else out
        return scales.quantize(x, t, in_low, scales.in_range, scales.step, scales.offset)

    return compute


class QuantizationScales(NamedTuple):
    """What a FakeQuantize computes with instead of its limits. Arrays are f32 and have the shapes of the limits.

    Attributes:
        in_range: Width of the input range.
        step: Distance of two levels in the output.
        offset: Number of levels below zero if `counts_from_zero`, else the lowest output.
        last_level: f32 scalar, the number of levels minus 1.
        is_shifted: Whether the lowest input is not 0.
        is_offset: Whether the lowest output is not 0.
        counts_from_zero: Whether a level is zero, as in symmetric ranges. Counting from there keeps it exact.
    """

    in_range: Array
    step: Array
    offset: Array
    last_level: Array
    is_shifted: bool
    is_offset: bool
    counts_from_zero: bool

    @classmethod
    def create(
        cls, in_low: Array, in_high: Array, out_low: Array, out_high: Array, *, levels: int
    ) -> QuantizationScales | None:
        """Return the scales of limits, or None for limits that are reversed, equal, not finite or do not broadcast.

        Args:
            in_low: f32.
            in_high: The same.
            out_low: The same.
            out_high: The same.
            levels: Number of levels.
        """
        try:
            np.broadcast_shapes(in_low.shape, in_high.shape, out_low.shape, out_high.shape)
        except ValueError:
            return None
        with np.errstate(all="ignore"):
            in_range, out_range = np.asarray(in_high - in_low), np.asarray(out_high - out_low)
            is_finite = np.isfinite(in_range).all() and np.isfinite(out_range).all() and np.isfinite(out_low).all()
            if levels < 2 or not is_finite or not (in_range > 0).all():
                return None
            last_level = to_f32(levels - 1)
            step = np.asarray(out_range / last_level)
            zero = np.asarray(np.rint(-out_low / np.where(step == 0, ONE, step)))
            error = np.abs(zero * step + out_low)
            counts_from_zero = bool((error <= 4 * np.finfo(np.float32).eps * np.abs(out_low)).all())
        return cls(
            in_range=in_range,
            step=step,
            offset=zero if counts_from_zero else out_low,
            last_level=last_level,
            is_shifted=bool(in_low.any()),
            is_offset=bool(out_low.any()),
            counts_from_zero=counts_from_zero,
        )

    def quantize(self, x: Array, out: Array, in_low: Array, in_range: Array, step: Array, offset: Array) -> Array:
        """Quantize a block.

        The level is computed with the operations of the plain kernel, so that it is the same. Only the product with
        the width of a level is computed at once.

        Args:
            x: f32.
            out: Receives the result; it may be `x`.
            in_low: The lowest input, broadcasting to the block.
            in_range: The part of `self.in_range` that belongs to the block; the same for the others.
            step: See `in_range`.
            offset: See `in_range`.
        """
        np.divide(np.subtract(x, in_low, out) if self.is_shifted else x, in_range, out)
        np.multiply(out, self.last_level, out)
        np.rint(out, out)
        clip(out, ZERO, self.last_level, out)
        if self.is_offset and self.counts_from_zero:
            np.subtract(out, offset, out)
        np.multiply(out, step, out)
        return np.add(out, offset, out) if self.is_offset and not self.counts_from_zero else out


_ROUND = _make_unary(np.rint)
_FACTORIES: dict[str, Callable[[Mapping[str, Any], Sequence[Array | None]], F32Function | None]] = {
    "Clamp-1": _create_clamp,
    "Elu-1": _create_elu,
    "FakeQuantize-1": _create_fake_quantize,
    "Gelu-2": _create_gelu,
    "Gelu-7": _create_gelu,
    "HardSigmoid-1": _create_hard_sigmoid,
    "Round-5": _create_round,
    "Selu-1": _create_selu,
    "Swish-4": _create_swish,
}
