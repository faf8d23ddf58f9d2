"""Mathematical functions of vectors of f32, as instructions of LLVM.

Results are within 4 units in the last place, or within 2e-7 where terms cancel. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.fast.functions import ERF_ARGUMENT, ERF_ARGUMENT_RELATIVE
from irrun.fast.jit.code import Function, Operand, Value
from irrun.fast.jit.compiler import has_feature

__all__ = [
    "compute_elu",
    "compute_erf",
    "compute_exp",
    "compute_expm1",
    "compute_gelu",
    "compute_gelu_tanh",
    "compute_log",
    "compute_maximum",
    "compute_minimum",
    "compute_mish",
    "compute_sigmoid",
    "compute_soft_plus",
    "compute_swish",
    "compute_tanh",
]

LOG2_E = 1.4426950408889634
#: log(2) in two parts. The first has few bits, so that its products with small integers are exact.
LOG_2_HIGH, LOG_2_LOW = 0.693359375, -2.12194440e-4
#: Adding it rounds to an integer, which is then in the low bits.
ROUNDING = 12582912.0
ROUNDING_BITS = 0x4B400000
#: (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2, from the highest power down.
EXP_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
#: (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2), from the highest power down.
LOG_POLYNOMIAL = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
#: From here on, exp(x) is infinite, or 0 below the other.
EXP_LIMITS = (-104.0, 89.0)
#: tanh(x) is 1 from here on.
TANH_LIMIT = 9.5
#: The largest z^2 for which the polynomials of erf are valid.
LARGEST_SQUARE = 16.0


def evaluate_polynomial(f: Function, coefficients: Sequence[float], x: Value) -> Value:
    """Return the value of a polynomial, from the highest power down."""
    result = f.coerce(coefficients[0], x.type)
    for coefficient in coefficients[1:]:
        result = f.multiply_add(result, x, coefficient)
    return result


def compute_maximum(f: Function, a: Value, b: Operand) -> Value:
    """Return the maximum, or NaN if an operand is NaN."""
    larger = f.select(f.compare("ogt", a, b), a, b)
    return f.select(f.compare("uno", a, a), a, larger) if isinstance(b, Value) else _limit(f, "olt", a, b)


def compute_minimum(f: Function, a: Value, b: Operand) -> Value:
    """Return the minimum, or NaN if an operand is NaN."""
    smaller = f.select(f.compare("olt", a, b), a, b)
    return f.select(f.compare("uno", a, a), a, smaller) if isinstance(b, Value) else _limit(f, "ogt", a, b)


def _limit(f: Function, condition: str, x: Value, limit: Operand) -> Value:
    return f.select(f.compare(condition, x, limit), f.coerce(limit, x.type), x)


def _reduce_argument(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """Return n and r with x = n log(2) + r, and exp(r) - 1 - r; n is a vector of f32 to which `ROUNDING` is added."""
    shifted = f.multiply_add(x, LOG2_E, ROUNDING)
    rounded = shifted - ROUNDING
    r = f.multiply_add(rounded, -LOG_2_HIGH, x)
    r = f.multiply_add(rounded, -LOG_2_LOW, r)
    rest = evaluate_polynomial(f, EXP_POLYNOMIAL, r) * (r * r)
    return shifted, r, rest


def _make_power(f: Function, n: Value) -> Value:
    """Return 2^n for -126 <= n <= 127."""
    return f.convert("bitcast", (n + 127) << 23, f.vector)


def _scale(f: Function, x: Value, shifted: Value) -> Value:
    """Return x 2^n for 1/2 < x < 2, where the result may be a subnormal number or infinite."""
    if f.lanes == 16 or (f.lanes == 8 and has_feature("avx512vl")):
        return f.scale_by_power(x, shifted - ROUNDING)
    n = f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS
    half = f.emit(n.type, f"ashr {n.type} {n}, {f.coerce(1, n.type)}")
    return x * _make_power(f, half) * _make_power(f, n - half)  # the factors are neither


def compute_exp(f: Function, x: Value) -> Value:
    """Return exp(x)."""
    limited = _limit(f, "ogt", _limit(f, "olt", x, EXP_LIMITS[0]), EXP_LIMITS[1])
    shifted, r, rest = _reduce_argument(f, limited)
    return _scale(f, (r + rest) + 1.0, shifted)


def compute_expm1(f: Function, x: Value) -> Value:
    """Return exp(x) - 1 for x up to 80."""
    limited = _limit(f, "olt", x, -20.0)
    shifted, r, rest = _reduce_argument(f, limited)
    power = _make_power(f, f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS)
    return f.multiply_add(power, r + rest, power - 1.0)


def compute_log(f: Function, x: Value) -> Value:
    """Return log(x)."""
    is_tiny = f.compare("olt", x, 1.1754944e-38)
    scaled = f.select(is_tiny, x * 2.0**24, x)
    bits = f.convert("bitcast", scaled, f.integers())
    # The mantissa is moved to [sqrt(1/2), sqrt(2)).
    shifted = bits - 0x3F3504F3
    exponent = f.emit(shifted.type, f"ashr {shifted.type} {shifted}, {f.coerce(23, shifted.type)}")
    fraction = f.convert("bitcast", bits - (exponent << 23), f.vector) - 1.0
    e = f.convert("sitofp", exponent, f.vector) - f.select(is_tiny, f.coerce(24.0, f.vector), 0.0)
    square = fraction * fraction
    rest = evaluate_polynomial(f, LOG_POLYNOMIAL, fraction) * square * fraction
    rest = f.multiply_add(e, LOG_2_LOW, rest)
    rest = f.multiply_add(square, -0.5, rest)
    result = f.multiply_add(e, LOG_2_HIGH, fraction + rest)
    result = f.select(f.compare("oeq", x, math.inf), x, result)
    result = f.select(f.compare("oeq", x, 0.0), f.coerce(-math.inf, x.type), result)
    return f.select(f.compare("ult", x, 0.0), f.coerce(math.nan, x.type), result)


def compute_sigmoid(f: Function, x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (compute_exp(f, 0.0 - x) + 1.0)


def compute_swish(f: Function, x: Value, beta: Operand = 1.0) -> Value:
    """Return x / (1 + exp(-beta x))."""
    return _multiply_by_sigmoid(f, x, 0.0 - (x if beta == 1.0 else x * beta))


def _multiply_by_sigmoid(f: Function, x: Value, exponent: Value) -> Value:
    return x / (compute_exp(f, exponent) + 1.0)


def compute_tanh(f: Function, x: Value) -> Value:
    """Return tanh(x)."""
    limited = _limit(f, "ogt", _limit(f, "olt", x, -TANH_LIMIT), TANH_LIMIT)
    e = compute_expm1(f, limited + limited)
    return e / (e + 2.0)


def _evaluate_odd(f: Function, coefficients: Sequence[float], x: Value, factor: float, power: float) -> Value:
    """Return factor x p(power x^2) for coefficients from the constant term up."""
    square = _limit(f, "ogt", x * x, LARGEST_SQUARE / power)
    scaled = [factor * c * power**i for i, c in enumerate(coefficients)][::-1]
    return evaluate_polynomial(f, scaled, square) * x


def compute_erf(f: Function, x: Value) -> Value:
    """Return erf(x)."""
    return compute_tanh(f, _evaluate_odd(f, ERF_ARGUMENT_RELATIVE, x, 1.0, 1.0))


def compute_gelu(f: Function, x: Value) -> Value:
    """Return x (1 + erf(x / sqrt(2))) / 2."""
    return _multiply_by_sigmoid(f, x, _evaluate_odd(f, ERF_ARGUMENT, x, -math.sqrt(2), 0.5))


def compute_gelu_tanh(f: Function, x: Value) -> Value:
    """Return x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    factor = -2 * math.sqrt(2 / math.pi)
    return _multiply_by_sigmoid(f, x, f.multiply_add(x * x, factor * 0.044715, factor) * x)


def compute_elu(f: Function, x: Value, alpha: Operand) -> Value:
    """Return x, or alpha (exp(x) - 1) where x is negative."""
    negative = compute_expm1(f, _limit(f, "ogt", x, 0.0))
    return f.select(f.compare("ogt", x, 0.0), x, negative * alpha)


def compute_mish(f: Function, x: Value) -> Value:
    """Return x tanh(log(1 + exp(x)))."""
    e = compute_exp(f, _limit(f, "ogt", x, 20.0))
    product = e * (e + 2.0)
    return x * (product / (product + 2.0))


def compute_soft_plus(f: Function, x: Value) -> Value:
    """Return log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|))."""
    u = compute_exp(f, 0.0 - f.call_math("fabs", x))
    w = u + 1.0
    logarithm = compute_log(f, w) - ((w - 1.0) - u) / w  # corrects the rounding of w
    return compute_maximum(f, x, 0.0) + logarithm
