"""The machine that computes vectors of f32 with instructions of LLVM.

Primitives are accurate to 4 units in the last place. NaN stays NaN. sin and cos are missing, because large arguments
would need hundreds of bits to compute their remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from irrun.fast.expressions.machine import Machine
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import has_feature

__all__ = ["MIN_EXPONENT", "Vectors"]

Operand: TypeAlias = Value | float

LOG2_E = 1.4426950408889634
#: log(2) in two parts. The first has few bits, so that its products with small integers are exact.
LOG_2_HIGH, LOG_2_LOW = 0.693359375, -2.12194440e-4
#: Adding this number rounds to an integer, which is then in the low bits.
ROUNDING = 12582912.0
ROUNDING_BITS = 0x4B400000
#: (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2, from the highest power down.
EXP_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
#: 2^r for |r| <= 1/2, from the highest power down.
EXP2_POLYNOMIAL = (
    1.5353361960e-4,
    1.3398875017e-3,
    9.6184369177e-3,
    5.5503323674e-2,
    2.4022647738e-1,
    6.9314718246e-1,
    1.0,
)
#: Below the first limit, `exponentiate` is 2^-126; from the second one on, it is infinite.
EXP2_LIMITS = (-126.0, 128.0)
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
#: Below the first limit, exp(x) is 0; above the second, it is infinite.
EXP_LIMITS = (-104.0, 89.0)
#: From this value on, exp(x) is a normal number.
MIN_EXPONENT = -126 * math.log(2)
#: From this value on, tanh(x) is 1.
TANH_LIMIT = 9.5


def _call(name: str) -> Callable[[Vectors, Value], Value]:
    """Return the primitive that one intrinsic function computes."""
    return lambda machine, x: machine.function.call_math(name, x)


class Vectors(Machine):
    """Appends instructions to a function.

    Args:
        function: The function.
    """

    abs, ceil, floor, rint, sqrt = map(_call, ("fabs", "ceil", "floor", "rint", "sqrt"))

    def __init__(self, function: Function) -> None:
        self.function = function

    def select_greater(self, a: Value, b: Operand, then: Operand, other: Operand) -> Value:
        """Return `then` where a > b, else `other`."""
        return self._select("ogt", a, b, then, other)

    def _select(self, condition: str, a: Value, b: Operand, then: Operand, other: Operand) -> Value:
        f = self.function
        return f.select(f.compare(condition, a, b), f.coerce(then, a.type), other)

    def maximum(self, a: Value, b: Operand) -> Value:
        """Return b where it is greater, else a."""
        return self._select("olt", a, b, b, a)

    def minimum(self, a: Value, b: Operand) -> Value:
        """Return b where it is less, else a."""
        return self._select("ogt", a, b, b, a)

    def maximum_number(self, x: Value, limit: float) -> Value:
        """Return the maximum, or the limit where x is NaN."""
        return self._select("ogt", x, limit, x, limit)

    def minimum_number(self, x: Value, limit: float) -> Value:
        """Return the minimum, or the limit where x is NaN."""
        return self._select("olt", x, limit, x, limit)

    def clip(self, x: Value, low: Operand, high: Operand) -> Value:
        """Return min(max(x, low), high)."""
        return self.minimum(self.maximum(x, low), high)

    def multiply_add(self, a: Value, b: Operand, c: Operand) -> Value:
        """Return a * b + c, rounded once if the processor supports it."""
        return self.function.multiply_add(a, b, c)

    def sign(self, x: Value) -> Value:
        """Return -1, 0 or 1."""
        return self._select("ogt", x, 0.0, 1.0, self._select("olt", x, 0.0, -1.0, x + 0.0))  # -0 becomes 0

    def exp(self, x: Value) -> Value:
        """Return e^x."""
        shifted, r, rest = self._reduce_argument(self.clip(x, *EXP_LIMITS))
        return self._scale((r + rest) + 1.0, shifted)

    def exp_normal(self, x: Value) -> Value:
        """Return e^x for x up to 88; subnormal results are replaced by any numbers less than 2^-125."""
        f = self.function
        shifted, r, rest = self._reduce_argument(self.maximum(x, MIN_EXPONENT))
        return ((r + rest) + 1.0) * self._make_power(f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS)

    exponent_factor = LOG2_E

    def exponentiate(self, x: Value) -> Value:
        """Return 2^x; functions that use it add 1 to it, so that subnormal numbers make no difference."""
        f = self.function
        limited = self.clip(x, *EXP2_LIMITS)
        shifted = limited + ROUNDING
        fraction: Value = self.polynomial(EXP2_POLYNOMIAL, limited - (shifted - ROUNDING))
        # 128 has the bits of an infinite power.
        return fraction * self._make_power(f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS)

    def expm1(self, x: Value) -> Value:
        """Return e^x - 1 for x up to 80, and x for zeros of both signs."""
        f = self.function
        shifted, r, rest = self._reduce_argument(self.maximum(x, -20.0))
        power = self._make_power(f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS)
        return f.call_math("copysign", f.multiply_add(power, r + rest, power - 1.0), x)

    def _reduce_argument(self, x: Value) -> tuple[Value, Value, Value]:
        """Return n and r with x = n log(2) + r, and exp(r) - 1 - r; `ROUNDING` is added to n."""
        f = self.function
        shifted = f.multiply_add(x, LOG2_E, ROUNDING)
        rounded = shifted - ROUNDING
        r = f.multiply_add(rounded, -LOG_2_HIGH, x)
        r = f.multiply_add(rounded, -LOG_2_LOW, r)
        rest: Value = self.polynomial(EXP_POLYNOMIAL, r) * (r * r)
        return shifted, r, rest

    def _make_power(self, n: Value) -> Value:
        """Return 2^n for -126 <= n <= 127, and infinity for n = 128."""
        return self.function.convert("bitcast", (n + 127) << 23, self.function.vector)

    def _scale(self, x: Value, shifted: Value) -> Value:
        """Return x 2^n for 1/2 < x < 2, where the result may be a subnormal number or infinite."""
        f = self.function
        if f.lanes == 16 or (f.lanes == 8 and has_feature("avx512vl")):
            return f.scale_by_power(x, shifted - ROUNDING)
        n = f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS
        half = f.emit(n.type, f"ashr {n.type} {n}, {f.coerce(1, n.type)}")
        return x * self._make_power(half) * self._make_power(n - half)  # the factors are neither

    def log(self, x: Value) -> Value:
        """Return the logarithm of x."""
        f = self.function
        is_tiny = f.compare("olt", x, 1.1754944e-38)
        scaled = f.select(is_tiny, x * 2.0**24, x)
        bits = f.convert("bitcast", scaled, f.integers())
        # The mantissa is moved to [sqrt(1/2), sqrt(2)).
        shifted = bits - 0x3F3504F3
        exponent = f.emit(shifted.type, f"ashr {shifted.type} {shifted}, {f.coerce(23, shifted.type)}")
        fraction = f.convert("bitcast", bits - (exponent << 23), f.vector) - 1.0
        e = f.convert("sitofp", exponent, f.vector) - f.select(is_tiny, f.coerce(24.0, f.vector), 0.0)
        square = fraction * fraction
        rest: Value = self.polynomial(LOG_POLYNOMIAL, fraction) * square * fraction
        rest = f.multiply_add(e, LOG_2_LOW, rest)
        rest = f.multiply_add(square, -0.5, rest)
        result = f.multiply_add(e, LOG_2_HIGH, fraction + rest)
        result = self._select("oeq", x, math.inf, x, result)
        result = self._select("oeq", x, 0.0, -math.inf, result)
        return self._select("ult", x, 0.0, math.nan, result)

    def log1p(self, x: Value) -> Value:
        """Return log(1 + x) for x from 0 to 1."""
        w = x + 1.0
        return self.log(w) - ((w - 1.0) - x) / w  # corrects the rounding of w

    def tanh(self, x: Value) -> Value:
        """Return the hyperbolic tangent of x."""
        limited = self.clip(x, -TANH_LIMIT, TANH_LIMIT)
        e = self.expm1(limited + limited)
        return e / (e + 2.0)

    def grow(self, x: Value) -> Value:
        """Return e^2x - 1 for x limited to the range in which tanh is less than 1. Zeros lose their signs.

        tanh(x) is e / (e + 2) of the result e, and the sigmoid of 2x is (e + 1) / (e + 2).
        """
        f = self.function
        limit = 2 * LOG2_E * TANH_LIMIT
        power = self.clip(x * (2 * LOG2_E), -limit, limit)
        shifted = power + ROUNDING
        r = power - (shifted - ROUNDING)
        rest: Value = self.polynomial(EXP2_POLYNOMIAL[:-1], r) * r
        whole = self._make_power(f.convert("bitcast", shifted, f.integers()) - ROUNDING_BITS)
        return f.multiply_add(whole, rest, whole - 1.0)
