"""Accuracy of elementwise functions in f32: at most two units in the last place from the exact value."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from irrun.ops.activation import elementwise
from irrun.ops.arithmetic import binary, trigonometry, unary

mpmath = pytest.importorskip("mpmath")

F32 = np.float32
LARGEST = float(np.finfo(F32).max)


def make_samples(low: float, high: float, count: int = 1200) -> np.ndarray:
    """Return values in [low, high], evenly and logarithmically spaced, including subnormal ones."""
    rng = np.random.default_rng(7)
    even = np.linspace(low, high, count // 3)
    scale = max(abs(low), abs(high))
    tiny = scale * 10.0 ** rng.uniform(-45, 0, count // 3) * rng.choice([-1, 1], count // 3)
    near = scale * 10.0 ** rng.uniform(-3, 0, count // 3) * rng.choice([-1, 1], count // 3)
    values = np.concatenate([even, tiny, near, [0, low, high]]).astype(F32)
    return values[(values >= low) & (values <= high)]


def compute_errors(result: np.ndarray, exact: list) -> np.ndarray:
    """Return errors in units in the last place of f32; infinity counts as the value after the largest finite one."""
    errors = []
    for value, exact_value in zip(result.tolist(), exact, strict=True):
        unit = float(np.spacing(F32(min(abs(float(exact_value)), LARGEST / 2))))
        if abs(float(exact_value)) > LARGEST / 2:
            unit = 2.0**104
        if abs(value) > LARGEST:
            value = np.copysign(LARGEST + unit, value)
        if mpmath.isinf(exact_value) or abs(exact_value) > LARGEST + unit:
            exact_value = mpmath.sign(exact_value) * (LARGEST + unit)
        errors.append(float(abs(mpmath.mpf(value) - exact_value) / unit))
    return np.array(errors)


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def normal_cdf(x):
    """Return the probability that a standard normal variable is less than x."""
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def gelu_tanh(x):
    z = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * z))


def clip(x, low, high):
    return min(max(x, low), high)


ALPHA, LAMBDA = F32(1.6732632), F32(1.050701)

FUNCTIONS: dict[str, tuple[Callable[..., Any], Any, float, float]] = {
    "Acos": (trigonometry.acos_1, mpmath.acos, -1, 1),
    "Acosh": (trigonometry.acosh_4, mpmath.acosh, 1, 1e30),
    "Acosh near 1": (trigonometry.acosh_4, mpmath.acosh, 1, 1.01),
    "Asin": (trigonometry.asin_1, mpmath.asin, -1, 1),
    "Asinh": (trigonometry.asinh_4, mpmath.asinh, -1e3, 1e3),
    "Atan": (trigonometry.atan_1, mpmath.atan, -1e3, 1e3),
    "Atanh": (trigonometry.atanh_4, mpmath.atanh, -0.99999994, 0.99999994),
    "Cos": (trigonometry.cos_1, mpmath.cos, -100, 100),
    "Cos of large angles": (trigonometry.cos_1, mpmath.cos, -1e30, 1e30),
    "Cosh": (trigonometry.cosh_1, mpmath.cosh, -90, 90),
    "Sin": (trigonometry.sin_1, mpmath.sin, -100, 100),
    "Sin of large angles": (trigonometry.sin_1, mpmath.sin, -1e30, 1e30),
    "Sinh": (trigonometry.sinh_1, mpmath.sinh, -90, 90),
    "Tan": (trigonometry.tan_1, mpmath.tan, -100, 100),
    "Tanh": (trigonometry.tanh_1, mpmath.tanh, -20, 20),
    "Erf": (unary.erf_1, mpmath.erf, -6, 6),
    "ErfInv": (unary.erf_inv_17, mpmath.erfinv, -0.99999994, 0.99999994),
    "Log": (unary.log_1, mpmath.log, 1e-40, 1e38),
    "Log near 1": (unary.log_1, mpmath.log, 0.5, 2),
    "Sqrt": (unary.sqrt_1, mpmath.sqrt, 0, 1e38),
    "Exp": (elementwise.exp_1, mpmath.exp, -104, 89),
    "Elu": (partial(elementwise.elu_1, alpha=0.7), lambda x: x if x > 0 else mpmath.mpf(0.7) * mpmath.expm1(x), -90, 5),
    "Selu": (
        lambda x: elementwise.selu_1(x, np.array([ALPHA]), np.array([LAMBDA])),
        lambda x: float(LAMBDA) * (x if x > 0 else float(ALPHA) * mpmath.expm1(x)),
        -90,
        5,
    ),
    "Gelu": (elementwise.gelu_7, lambda x: x * normal_cdf(x), -13, 10),
    "Gelu by tanh": (partial(elementwise.gelu_7, approximation_mode="TANH"), gelu_tanh, -10, 10),
    "Mish": (elementwise.mish_4, lambda x: x * mpmath.tanh(softplus(x)), -90, 50),
    "Sigmoid": (elementwise.sigmoid_1, lambda x: 1 / (1 + mpmath.exp(-x)), -90, 90),
    "SoftPlus": (elementwise.soft_plus_4, softplus, -90, 90),
    "SoftSign": (elementwise.soft_sign_9, lambda x: x / (1 + abs(x)), -1e3, 1e3),
    "Swish": (elementwise.swish_4, lambda x: x / (1 + mpmath.exp(-x)), -90, 90),
    "Swish with beta": (
        lambda x: elementwise.swish_4(x, np.array(F32(1.7))),
        lambda x: x / (1 + mpmath.exp(-float(F32(1.7)) * x)),
        -50,
        50,
    ),
    "HSigmoid": (elementwise.h_sigmoid_5, lambda x: clip(x + 3, 0, 6) / 6, -4, 4),
    "HSwish": (elementwise.h_swish_4, lambda x: x * clip(x + 3, 0, 6) / 6, -4, 4),
    "HardSigmoid": (
        lambda x: elementwise.hard_sigmoid_1(x, np.array(F32(0.2)), np.array(F32(0.5))),
        lambda x: clip(float(F32(0.2)) * x + mpmath.mpf(0.5), 0, 1),
        -4,
        4,
    ),
    "Square": (lambda x: binary.power_1(x, np.array(F32(2))), lambda x: x**2, -1e3, 1e3),
    "Cube": (lambda x: binary.power_1(x, np.array(F32(3))), lambda x: x**3, -1e12, 1e12),
    "Power by 4": (lambda x: binary.power_1(x, np.array(F32(4))), lambda x: x**4, -1e9, 1e9),
    "Power by -3": (lambda x: binary.power_1(x, np.array(F32(-3))), lambda x: x**-3, -1e3, -1e-3),
    "Power by -1": (lambda x: binary.power_1(x, np.array(F32(-1))), lambda x: 1 / x, 1e-30, 1e30),
    "Power by 0.5": (lambda x: binary.power_1(x, np.array(F32(0.5))), mpmath.sqrt, 0, 1e38),
    "Power by 2.5": (lambda x: binary.power_1(x, np.array(F32(2.5))), lambda x: x**2.5, 0, 1e10),
    "Power by -0.5": (lambda x: binary.power_1(x, np.array(F32(-0.5))), lambda x: x**-0.5, 1e-30, 1e30),
    "Power by x": (lambda x: binary.power_1(x, x), lambda x: x**x, 1e-3, 30),
    "Divide": (lambda x: binary.divide_1(np.array(F32(3)), x), lambda x: 3 / x, 1e-30, 1e30),
    "SquaredDifference": (
        lambda x: binary.squared_difference_1(x, np.array(F32(0.7))),
        lambda x: (x - mpmath.mpf(float(F32(0.7)))) ** 2,
        -9,
        9,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate_to_two_units_in_the_last_place(name: str) -> None:
    function, exact, low, high = FUNCTIONS[name]
    x = make_samples(low, high)
    # The exact formulas cancel terms that differ by 45 orders of magnitude.
    with np.errstate(all="ignore"), mpmath.workdps(60):
        result = function(x)
        errors = compute_errors(result, [exact(mpmath.mpf(v)) for v in x.tolist()])
    assert result.dtype == F32
    worst = int(errors.argmax())
    assert errors[worst] <= 2, f"{name}({x[worst]!r}) is {result[worst]!r}, off by {errors[worst]:.2f} units"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["Exp", "Log near 1", "Erf", "Gelu", "Mish", "Tanh", "Sin"])
def test_low_precision_floats_are_rounded_once(name: str, dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    function, exact, low, high = FUNCTIONS[name]
    x = make_samples(max(low, -9), min(high, 9), 300).astype(kind)
    with np.errstate(all="ignore"):
        result = function(x)
        best = np.array([float(exact(mpmath.mpf(float(v)))) for v in x]).astype(kind)
    assert result.dtype == kind
    np.testing.assert_array_equal(result, best)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], F32)
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Exp", [NAN, INF, 0, 1, 1, math.e, 1 / math.e]),
        ("Log", [NAN, INF, NAN, -INF, -INF, 0, NAN]),
        ("Sqrt", [NAN, INF, NAN, 0, 0, 1, NAN]),
        ("Erf", [NAN, 1, -1, 0, 0, 0.8427008, -0.8427008]),
        ("ErfInv", [NAN, NAN, NAN, 0, 0, INF, -INF]),
        ("Acos", [NAN, NAN, NAN, np.pi / 2, np.pi / 2, 0, np.pi]),
        ("Atanh", [NAN, NAN, NAN, 0, 0, INF, -INF]),
        ("Tanh", [NAN, 1, -1, 0, 0, 0.7615942, -0.7615942]),
        ("Sin", [NAN, NAN, NAN, 0, 0, 0.841471, -0.841471]),
        ("Sigmoid", [NAN, 1, 0, 0.5, 0.5, 0.7310586, 0.26894143]),
        ("SoftPlus", [NAN, INF, 0, np.log(2), np.log(2), 1.3132617, 0.3132617]),
        ("Gelu", [NAN, INF, NAN, 0, 0, 0.8413447, -0.15865526]),
        ("Mish", [NAN, INF, NAN, 0, 0, 0.865098, -0.3034015]),
        ("SoftSign", [NAN, NAN, NAN, 0, 0, 0.5, -0.5]),
        ("HSigmoid", [NAN, 1, 0, 0.5, 0.5, 2 / 3, 1 / 3]),
    ],
)
def test_special_values(name: str, expected: list[float]) -> None:
    with np.errstate(all="ignore"):
        result = FUNCTIONS[name][0](SPECIAL)
    np.testing.assert_allclose(result, np.array(expected, F32), rtol=1e-6)
    negative_zero = result[4]
    if expected[4] == 0:
        assert np.signbit(negative_zero), "odd functions keep the sign of zero"


@pytest.mark.parametrize("name", ["Exp", "Erf", "Gelu", "Mish"])
def test_blocks_do_not_change_results(name: str) -> None:
    x = np.linspace(-5, 5, 60_000, dtype=F32).reshape(3, 200, 100)
    function = FUNCTIONS[name][0]
    parts = np.concatenate([function(part) for part in x.reshape(-1, 1000)]).reshape(x.shape)
    np.testing.assert_array_equal(function(x), parts)
    np.testing.assert_array_equal(function(x.transpose(2, 0, 1)), parts.transpose(2, 0, 1))
