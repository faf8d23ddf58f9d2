"""Configurations for the comparison operations."""

from __future__ import annotations

import numpy as np

from conformance.generators.elementwise import (
    BFLOAT16,
    F16,
    F32,
    F64,
    INTEGERS,
    SHAPES,
    SPECIALS,
    binary_cases,
    mixed,
    uniform,
)
from conformance.harness import Case, configurations

FEW = mixed(uniform(-2, 2))


def comparison(type, pdpd=None):
    """Register the configurations of a comparison of two tensors, on values of which many are equal."""

    @configurations(type, since=1)
    def generate(rng):
        yield from binary_cases(rng, FEW, FEW, types=[F16, BFLOAT16, F64, *INTEGERS[:4]], pdpd=pdpd)
        few = mixed(uniform(0, 2))
        yield from binary_cases(rng, few, few, first=np.dtype("u1"), types=INTEGERS[4:], modes=False)
        finite = SPECIALS[~(np.abs(SPECIALS) > 6e4) | np.isinf(SPECIALS)]
        a, b = np.meshgrid(finite, finite)
        for dtype in (F32, F16):
            # On the CPU plugin NaN is greater than everything.
            yield Case([a.astype(dtype), b.astype(dtype)], oracles=("evaluate",))
        if type in ("Equal", "NotEqual"):
            flags = np.array([True, False])
            yield Case([flags.reshape(2, 1), flags])

    return generate


for name in ("Equal", "NotEqual", "Less", "LessEqual"):
    comparison(name)
# The oracles exchange the inputs of these two, and then line up the wrong one.
comparison("Greater", pdpd=np.greater)
comparison("GreaterEqual", pdpd=np.greater_equal)


def special(rng, shape):
    return rng.choice(np.array([np.nan, np.inf, -np.inf, 0, 1, -3e4], F32), shape)


def classification(type, attributes=({},)):
    """Register the configurations of an operation that looks for special values."""

    @configurations(type, since=10)
    def generate(rng):
        for given in attributes:
            for shape in SHAPES:
                yield Case([special(rng, shape)], given)
            yield Case([special(rng, (2, 3))], given, dynamic=(0,))
            for dtype in (F16, BFLOAT16):
                yield Case([special(rng, (3, 4)).astype(dtype)], given)

    return generate


classification("IsFinite")
classification("IsNaN")
classification(
    "IsInf",
    [{"detect_negative": n, "detect_positive": p} for n in (True, False) for p in (True, False)],
)
