"""Configurations for the activation functions."""

from __future__ import annotations

import numpy as np

from conformance.generators.elementwise import (
    BFLOAT16,
    F16,
    F32,
    F64,
    F64_ON_CPU,
    INTEGERS,
    SHAPES,
    SPECIALS,
    WIDE,
    unary_cases,
    uniform,
)
from conformance.harness import Case, configurations

WIDTH = uniform(-8, 8)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)


def activation(type, since, *, attributes=({},), **options):
    """Register the configurations of an activation function, for each of some sets of attributes."""

    @configurations(type, since=since)
    def generate(rng):
        for given in attributes:
            yield from unary_cases(rng, WIDTH, attributes=given, **options)

    return generate


activation("Relu", 1, integers=WIDE)
activation("Exp", 1, integers=WIDE, integer_make=uniform(0, 12))


@configurations("Sigmoid", since=1)
def sigmoid_1(rng):
    yield from unary_cases(rng, WIDTH, integers=WIDE, integer_make=uniform(0, 12))
    for dtype in WIDE:
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.min + 1, limits.max - 2, limits.max, limits.max // 2, limits.max // 2 + 1, 0, 1]
        yield Case([np.array(ends, dtype)], oracles=("evaluate",), note="ends of the range")


activation("Gelu", 2, specials=())
activation("Gelu", 7, attributes=[{"approximation_mode": "ERF"}, {"approximation_mode": "TANH"}])
activation("Mish", 4)
activation("SoftPlus", 4, floats=(F16, BFLOAT16, F64))
activation("SoftSign", 9)
activation("HSigmoid", 5)
# Only the CPU plugin computes Elu.
activation("Elu", 1, attributes=[{"alpha": a} for a in (1.0, 0.3, 0.0, -2.0)], specials=("cpu",))


@configurations("HSwish", since=4)
def h_swish_4(rng):
    yield from unary_cases(rng, WIDTH, specials=())
    # Beyond that the reference overflows on its way to a result that f32 holds.
    yield Case([SPECIALS[np.isnan(SPECIALS) | ~(np.abs(SPECIALS) > 5e37) | np.isinf(SPECIALS)]], oracles=("evaluate",))


@configurations("Identity", since=16)
def identity_16(rng):
    for shape in SHAPES:
        yield Case([WIDTH(rng, shape, F32)])
    for dtype in [F16, *INTEGERS]:
        yield Case([uniform(0, 100)(rng, (2, 3), dtype)], oracles=("cpu",))
    yield Case([rng.integers(0, 2, (2, 3)).astype(bool)])
    yield Case([WIDTH(rng, (2, 3), F32)], dynamic=(0,))


@configurations("Clamp", since=1)
def clamp_1(rng):
    for low, high in [(-2.5, 3.5), (0, 6), (-1, -0.5), (2, 2), (-1e30, 1), (float("-inf"), float("inf"))]:
        given = {"min": low, "max": high}
        yield from unary_cases(rng, WIDTH, attributes=given, floats=(F16, BFLOAT16))
    yield Case([WIDTH(rng, (3, 4), F64)], {"min": -2.5, "max": 3.5}, **F64_ON_CPU)
    for low, high in [(-2.5, 3.5), (-1000.0, 1000.0), (1.0, 1e30), (3.0, 7.0), (-1e30, 2.0)]:
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            values = np.array([info.min, info.max, 0, 1, 2, 3, 4, 50, 100], dtype)
            yield Case([values], {"min": low, "max": high}, oracles=("evaluate",))


@configurations("PRelu", since=1)
def p_relu_1(rng):
    shapes = [
        ((4,), (1,)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((3, 4), (1,)),
        ((2, 3, 4), (3,)),
        ((2, 3, 4), (3, 1)),
        ((2, 3, 4), (1, 3, 1)),
        ((2, 3, 4), (2, 3, 4)),
        ((2, 3, 3), (3,)),
        ((2, 3, 4, 5), (3,)),
        ((2, 3, 4, 5), (1,)),
        ((2, 3, 4, 5), (3, 1, 1)),
        ((2, 3, 4, 5), (1, 3, 1, 1)),
        ((1, 2, 3, 2, 2), (2,)),
        ((2, 0, 3), (1,)),
        ((), (1,)),
        ((), ()),
        ((), (1, 1)),
        ((3,), (1, 1, 3)),
        ((2, 2), (1, 2, 2)),
    ]
    for data, slope in shapes:
        for dtype in (F32, F16):
            yield Case([WIDTH(rng, data, dtype), uniform(-1, 1)(rng, slope, dtype)])
        yield Case([WIDTH(rng, data, F32), uniform(-1, 1)(rng, slope, F32)], constants=(1,))
    yield Case([WIDTH(rng, (2, 3, 4), F32), uniform(-1, 1)(rng, (3,), F32)], dynamic=(0,))
    yield Case([WIDTH(rng, (2, 3, 4), BFLOAT16), uniform(-1, 1)(rng, (3,), BFLOAT16)])
    for slope in (0.5, 0.0, -2.0, np.inf, -np.inf, np.nan):
        yield Case([SPECIALS, np.array([slope], F32)], oracles=("evaluate",))
    yield Case([np.array([-1, 0, 2, 3], F32), np.array([np.nan, np.inf, np.nan, -np.inf], F32)])


def with_scalars(type, since, formula, pairs, shape=(), specials=("cpu",), run_time=()):
    """Register the configurations of an activation function that takes scalars besides its data.

    Scalars that come at run time are asked of the oracles `run_time`, or else of `formula` in f64.
    """

    @configurations(type, since=since)
    def generate(rng):
        for numbers in pairs:
            scalars = [np.full(shape, n, F32) for n in numbers]
            places = tuple(range(1, len(scalars) + 1))
            yield from unary_cases(rng, WIDTH, constants=places, more=lambda given=scalars: given, specials=specials)
            data = WIDTH(rng, (3, 4), F32)
            expected = formula(data.astype(F64), *(n.astype(F64) for n in scalars)).astype(F32)
            yield Case([data, *scalars], oracles=run_time, expected=[expected])

    return generate


def hard_sigmoid(x, alpha, beta):
    return np.clip(alpha * x + beta, 0, 1)


def selu(x, alpha, scale):
    return scale * np.where(x > 0, x, alpha * (np.exp(x) - 1))


def swish(x, beta=1.0):
    return x / (1 + np.exp(-beta * x))


# The CPU plugin, the only one of the oracles that knows HardSigmoid, takes 0 for alpha and beta as "not given".
with_scalars("HardSigmoid", 1, hard_sigmoid, [(0.2, 0.5), (-0.3, 0.1), (1, 0.25)])
with_scalars("Selu", 1, selu, [(1.67326, 1.0507), (0.5, 2)], shape=(1,))
with_scalars("Swish", 4, swish, [(), (1,), (0.4,), (2,), (0,)], specials=("evaluate",), run_time=("evaluate",))


def softmax(type, since, axes, specials):
    """Register the configurations of a function along one axis."""

    @configurations(type, since=since)
    def generate(rng):
        for shape in [(5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 2, 2), (1, 1), (3, 1), (2, 0), ()]:
            for axis in axes(len(shape) or 1):
                yield Case([WIDTH(rng, shape, F32)], {"axis": axis})
        yield Case([WIDTH(rng, (2, 3, 4), F32)], {"axis": 2}, dynamic=(0,))
        yield Case([WIDTH(rng, (2, 3), F32)], note="the axis that OpenVINO writes where none is given")
        for dtype in (F16, BFLOAT16, F64):
            extra = F64_ON_CPU if dtype == F64 else {}
            yield Case([WIDTH(rng, (3, 4), dtype)], {"axis": 1}, **extra)
        yield Case([np.array([[1000, 1001, 999], [-1000, -1001, -999], [80, -80, 0]], F32)], {"axis": 1})
        row = np.array([[-np.inf, 0, 1], [3, -np.inf, -np.inf]], F32)
        yield Case([row], {"axis": 1}, oracles=specials)
        yield Case([rng.normal(size=(4, 700)).astype(F32)], {"axis": 1})
        yield Case([rng.normal(size=(2, 350, 3)).astype(F32)], {"axis": 2})

    return generate


softmax("Softmax", 1, lambda rank: range(rank), ("evaluate",))
softmax("Softmax", 8, lambda rank: range(-rank, rank), ("evaluate",))
softmax("LogSoftmax", 5, lambda rank: range(-rank, rank), ("cpu",))
