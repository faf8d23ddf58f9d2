"""Conformance cases for the activation functions."""

from __future__ import annotations

from functools import partial

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import (
    BFLOAT16,
    F16,
    F32,
    F64,
    F64_ON_CPU,
    INTEGER_FUNCTIONS,
    INTEGERS,
    SHAPES,
    SPECIALS,
    WIDE_INTEGERS,
    create_sampler,
    generate_unary_cases,
)

SAMPLER = create_sampler(-8, 8)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)


def register_activation(type, since, *, attributes=({},), **options):
    """Register the cases of an activation function for each set of attributes."""

    @register_cases(type, since=since)
    def generate(rng):
        for attribute_set in attributes:
            yield from generate_unary_cases(rng, SAMPLER, attributes=attribute_set, **options)

    return generate


register_activation("Relu", 1, integers=WIDE_INTEGERS, special_faults=("plugin-clamp-nan",))
register_activation(
    "Exp", 1, integers=WIDE_INTEGERS, integer_sampler=create_sampler(0, 12), special_faults=("plugin-subnormals",)
)


@register_cases("Sigmoid", since=1)
def sigmoid_1(rng):
    yield from generate_unary_cases(rng, SAMPLER, integers=WIDE_INTEGERS, integer_sampler=create_sampler(0, 12))
    for dtype in WIDE_INTEGERS:
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.min + 1, limits.max - 2, limits.max, limits.max // 2, limits.max // 2 + 1, 0, 1]
        yield Case([np.array(ends, dtype)], faults=INTEGER_FUNCTIONS, note="limits of the type")


register_activation("Gelu", 2, special_faults=None)
register_activation(
    "Gelu",
    7,
    attributes=[{"approximation_mode": "ERF"}, {"approximation_mode": "TANH"}],
    special_faults=("plugin-gelu",),
)
register_activation("Mish", 4)
register_activation("SoftPlus", 4, floats=(F16, BFLOAT16, F64), special_faults=("plugin-soft-plus",))
register_activation("SoftSign", 9)
register_activation("HSigmoid", 5, special_faults=("plugin-clamp-nan",))
# Only the CPU plugin implements Elu.
register_activation("Elu", 1, attributes=[{"alpha": a} for a in (1.0, 0.3, 0.0, -2.0)])


@register_cases("HSwish", since=4)
def h_swish_4(rng):
    yield from generate_unary_cases(rng, SAMPLER, special_faults=("reference-h-swish",))
    yield Case([SPECIALS[np.isnan(SPECIALS) | ~(np.abs(SPECIALS) > 5e37) | np.isinf(SPECIALS)]])


@register_cases("Identity", since=16)
def identity_16(rng):
    for shape in SHAPES:
        yield Case([SAMPLER(rng, shape, F32)])
    for dtype in [F16, *INTEGERS]:
        yield Case([create_sampler(0, 100)(rng, (2, 3), dtype)])
    yield Case([rng.integers(0, 2, (2, 3)).astype(bool)])
    yield Case([SAMPLER(rng, (2, 3), F32)], dynamic=(0,))


@register_cases("Clamp", since=1)
def clamp_1(rng):
    for low, high in [(-2.5, 3.5), (0, 6), (-1, -0.5), (2, 2), (-1e30, 1), (float("-inf"), float("inf"))]:
        attribute_set = {"min": low, "max": high}
        faults = ("plugin-clamp-nan",)
        yield from generate_unary_cases(
            rng, SAMPLER, attributes=attribute_set, floats=(F16, BFLOAT16), special_faults=faults
        )
    yield Case([SAMPLER(rng, (3, 4), F64)], {"min": -2.5, "max": 3.5}, **F64_ON_CPU)
    for low, high in [(-2.5, 3.5), (-1000.0, 1000.0), (1.0, 1e30), (3.0, 7.0), (-1e30, 2.0)]:
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            values = np.array([info.min, info.max, 0, 1, 2, 3, 4, 50, 100], dtype)
            yield Case([values], {"min": low, "max": high}, faults=("plugin-64-bits",))


@register_cases("PRelu", since=1)
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
            yield Case([SAMPLER(rng, data, dtype), create_sampler(-1, 1)(rng, slope, dtype)])
        yield Case([SAMPLER(rng, data, F32), create_sampler(-1, 1)(rng, slope, F32)], constants=(1,))
    yield Case([SAMPLER(rng, (2, 3, 4), F32), create_sampler(-1, 1)(rng, (3,), F32)], dynamic=(0,))
    yield Case([SAMPLER(rng, (2, 3, 4), BFLOAT16), create_sampler(-1, 1)(rng, (3,), BFLOAT16)])
    for slope in (0.5, 0.0, -2.0, np.inf, -np.inf, np.nan):
        yield Case([SPECIALS, np.array([slope], F32)], faults=("plugin-p-relu",))
    slopes = np.array([np.nan, np.inf, np.nan, -np.inf], F32)
    yield Case([np.array([-1, 0, 2, 3], F32), slopes], faults=("plugin-p-relu",))


def register_with_scalars(type, since, formula, pairs, shape=()):
    """Register the cases of an activation function with scalar inputs.

    Scalars are Constants and Parameters. Since few oracles support Parameters, these are also compared with
    `formula`, in f64.
    """

    @register_cases(type, since=since)
    def generate(rng):
        for numbers in pairs:
            scalars = [np.full(shape, n, F32) for n in numbers]
            positions = tuple(range(1, len(scalars) + 1))
            extra_inputs = partial(list, scalars)
            yield from generate_unary_cases(rng, SAMPLER, constants=positions, extra_inputs=extra_inputs)
            data = SAMPLER(rng, (3, 4), F32)
            expected = formula(data.astype(F64), *(n.astype(F64) for n in scalars)).astype(F32)
            yield Case([data, *scalars], expected=[expected])

    return generate


def hard_sigmoid(x, alpha, beta):
    return np.clip(alpha * x + beta, 0, 1)


def selu(x, alpha, scale):
    return scale * np.where(x > 0, x, alpha * (np.exp(x) - 1))


def swish(x, beta=1.0):
    return x / (1 + np.exp(-beta * x))


# Only the CPU plugin implements HardSigmoid, and it replaces an alpha or beta of 0 by the default.
register_with_scalars("HardSigmoid", 1, hard_sigmoid, [(0.2, 0.5), (-0.3, 0.1), (1, 0.25)])
register_with_scalars("Selu", 1, selu, [(1.67326, 1.0507), (0.5, 2)], shape=(1,))
register_with_scalars("Swish", 4, swish, [(), (1,), (0.4,), (2,), (0,)])


def register_softmax(type, since, axes):
    """Register the cases of a softmax function."""

    @register_cases(type, since=since)
    def generate(rng):
        for shape in [(5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 2, 2), (1, 1), (3, 1), (2, 0), ()]:
            for axis in axes(len(shape) or 1):
                yield Case([SAMPLER(rng, shape, F32)], {"axis": axis})
        yield Case([SAMPLER(rng, (2, 3, 4), F32)], {"axis": 2}, dynamic=(0,))
        yield Case([SAMPLER(rng, (2, 3), F32)], note="default axis")
        for dtype in (F16, BFLOAT16, F64):
            extra = F64_ON_CPU if dtype == F64 else {}
            yield Case([SAMPLER(rng, (3, 4), dtype)], {"axis": 1}, **extra)
        yield Case([np.array([[1000, 1001, 999], [-1000, -1001, -999], [80, -80, 0]], F32)], {"axis": 1})
        row = np.array([[-np.inf, 0, 1], [3, -np.inf, -np.inf]], F32)
        yield Case([row], {"axis": 1})
        yield Case([rng.normal(size=(4, 700)).astype(F32)], {"axis": 1})
        yield Case([rng.normal(size=(2, 350, 3)).astype(F32)], {"axis": 2})

    return generate


register_softmax("Softmax", 1, lambda rank: range(rank))
register_softmax("Softmax", 8, lambda rank: range(-rank, rank))
register_softmax("LogSoftmax", 5, lambda rank: range(-rank, rank))
