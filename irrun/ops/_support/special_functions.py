"""The sigmoid, and the error function and its relatives, which NumPy does not provide.

The error functions take f64 arrays. Near zero, erf(x) / x is computed as a polynomial in x^2. Elsewhere,
(1 + 2x) exp(x^2) erfc(x) is a smooth function of t = (x - 3) / (x + 3), which maps [0, infinity) to [-1, 1), and is
computed as a polynomial in t. Both polynomials are Chebyshev interpolants of the exact functions.

For results that are rounded to f32 there are faster approximations. The polynomial in t is shorter and accurate up to
x = 10.2, beyond which erfc(x) is zero in f32. erf(x) / x is a ratio of two polynomials in x^2 for all x. Their
coefficients minimize the maximum relative error (3e-9).
"""

from __future__ import annotations

import numpy as np

from irrun.ops._support.numerics import Array, evaluate_polynomial

__all__ = ["erf", "erfc", "erfc_tail", "erfinv", "sigmoid"]

#: erf(x) / x for x in [0, 1], as a polynomial in x^2.
ERF_SERIES = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954882,
    -0.026866170645077334,
    0.005223977624823223,
    -0.0008548326981129666,
    0.00012055331122299266,
    -1.4925595519506043e-05,
    1.6461004480962034e-06,
    -1.6350354461959655e-07,
    1.4660051998394848e-08,
    -1.1373902296430911e-09,
    5.958930743134941e-11,
)
#: (1 + 2x) exp(x^2) erfc(x) as a polynomial in t.
ERFC_TAIL = (
    1.2530080582697296,
    -0.1356211061245812,
    -0.0475622943534492,
    0.12964515870276475,
    -0.11927366341538638,
    0.06830802734384515,
    -0.02377051491717134,
    0.0025293918180474668,
    0.0018886903449991718,
    -0.0007798322884823084,
    -0.00010515971958448065,
    0.0001250994355712812,
    4.949196649968345e-06,
    -2.0100843094844725e-05,
    -7.308281468783614e-07,
    3.473024167841533e-06,
    3.5576086684080595e-07,
    -6.175617678992323e-07,
    -1.4047654315428462e-07,
    1.0277997488271058e-07,
    4.1064013667940355e-08,
    -1.3906145791730994e-08,
    -8.217595058711455e-09,
    1.2019719440135793e-09,
    8.393734858690877e-10,
    -3.451497487664328e-11,
)
#: The same for results in f32.
ERFC_TAIL_SINGLE = (
    1.253008059215274,
    -0.13562114013717133,
    -0.047562409623458854,
    0.12964643380756735,
    -0.11927079599544184,
    0.06829574873970448,
    -0.023798536110498425,
    0.0025665670046445665,
    0.002003350829712313,
    -0.0007751270526228533,
    -0.00026718403454343816,
)
#: erf(x) / x for results in f32: the numerator, a polynomial in x^2.
ERF_NUMERATOR = (
    1.1283791699725394,
    0.19287887242148108,
    0.05574958781072359,
    0.004226497965398219,
    0.00041127931556811023,
    6.791410904444734e-06,
)
#: The denominator, a polynomial in x^2.
ERF_DENOMINATOR = (
    1.0,
    0.5042678839481768,
    0.11749543179323835,
    0.016295161012702862,
    0.0014212105099991343,
    7.256424072475453e-05,
    2.604881561395991e-07,
)


def sigmoid(x: Array) -> Array:
    """Compute `1 / (1 + exp(-x))` in the type of `x`.

    Args:
        x: A floating-point array of NumPy, any shape.
    """
    return np.asarray(1 / (1 + np.exp(-x)))


def erf(x: Array, *, single: bool = False) -> Array:
    """Compute the error function.

    Args:
        x: An f64 array.
        single: Whether the result is rounded to f32, so that a faster approximation suffices.
    """
    if single:
        x = np.minimum(np.maximum(x, -4), 4)  # beyond 4, the result rounds to 1 in f32
        square = x * x
        x *= evaluate_polynomial(ERF_NUMERATOR, square)
        x /= evaluate_polynomial(ERF_DENOMINATOR, square)
        return x
    magnitude = np.abs(x)
    near = x * evaluate_polynomial(ERF_SERIES, np.minimum(x * x, 1))
    far = np.copysign(1 - erfc(magnitude), x)
    return np.where(magnitude < 1, near, far)


def erfc(x: Array) -> Array:
    """Compute `1 - erf(x)` without the cancellation where erf(x) is close to 1.

    Args:
        x: An f64 array.
    """
    tail = erfc_tail(np.abs(x))
    return np.where(x < 0, 2 - tail, tail)


def erfc_tail(magnitude: Array, *, single: bool = False) -> Array:
    """Compute `1 - erf(magnitude)` for values that are not negative.

    Args:
        magnitude: An f64 array without negative values.
        single: Whether the result is rounded to f32, so that a faster approximation suffices.
    """
    magnitude = np.minimum(magnitude, 40)  # beyond 40, the result is zero in f64
    t = magnitude - 3
    t /= magnitude + 3
    tail = evaluate_polynomial(ERFC_TAIL_SINGLE if single else ERFC_TAIL, t)
    t = magnitude * magnitude
    tail *= np.exp(-t)
    magnitude *= 2
    magnitude += 1
    tail /= magnitude
    return tail


def erfinv(x: Array) -> Array:
    """Compute the inverse of the error function: infinite at 1 and -1, NaN beyond.

    Args:
        x: An f64 array.
    """
    magnitude = np.abs(x)
    # Winitzki's approximation is accurate to two digits; each of Halley's steps triples the number of digits.
    log = np.log1p(-magnitude * magnitude)
    half = 2 / (np.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    for _ in range(3):
        error = np.where(magnitude < 0.5, erf(y) - magnitude, (1 - magnitude) - erfc(y))
        step = error * np.exp(y * y) * (np.sqrt(np.pi) / 2)
        y = y - step / (1 + y * step)
    y = np.where(magnitude == 1, np.inf, y)
    return np.copysign(y, x)
