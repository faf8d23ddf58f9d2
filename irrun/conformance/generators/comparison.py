"""Conformance cases for the comparison operations."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import (
    BFLOAT16,
    F16,
    F32,
    F64,
    INTEGERS,
    SHAPES,
    SPECIALS,
    create_rounding_sampler,
    create_sampler,
    generate_binary_cases,
)

REPEATED = create_rounding_sampler(create_sampler(-2, 2))


def register_comparison(type, pdpd=None):
    """Register the cases of a comparison, with many equal values."""

    @register_cases(type, since=1)
    def generate(rng):
        yield from generate_binary_cases(rng, REPEATED, REPEATED, types=[F16, BFLOAT16, F64, *INTEGERS[:4]], pdpd=pdpd)
        repeated = create_rounding_sampler(create_sampler(0, 2))
        yield from generate_binary_cases(rng, repeated, repeated, first=np.dtype("u1"), types=INTEGERS[4:], modes=False)
        finite = SPECIALS[~(np.abs(SPECIALS) > 6e4) | np.isinf(SPECIALS)]
        a, b = np.meshgrid(finite, finite)
        for dtype in (F32, F16):
            yield Case([a.astype(dtype), b.astype(dtype)], faults=("plugin-greater-nan",))
        if type in ("Equal", "NotEqual"):
            flags = np.array([True, False])
            yield Case([flags.reshape(2, 1), flags])

    return generate


for name in ("Equal", "NotEqual", "Less", "LessEqual"):
    register_comparison(name)
register_comparison("Greater", pdpd=np.greater)
register_comparison("GreaterEqual", pdpd=np.greater_equal)


def sample_special_values(rng, shape):
    return rng.choice(np.array([np.nan, np.inf, -np.inf, 0, 1, -3e4], F32), shape)


def register_classification(type, attributes=({},)):
    """Register the cases of an operation that detects special values."""

    @register_cases(type, since=10)
    def generate(rng):
        for attribute_set in attributes:
            for shape in SHAPES:
                yield Case([sample_special_values(rng, shape)], attribute_set)
            yield Case([sample_special_values(rng, (2, 3))], attribute_set, dynamic=(0,))
            for dtype in (F16, BFLOAT16):
                yield Case([sample_special_values(rng, (3, 4)).astype(dtype)], attribute_set)

    return generate


register_classification("IsFinite")
register_classification("IsNaN")
register_classification(
    "IsInf",
    [{"detect_negative": n, "detect_positive": p} for n in (True, False) for p in (True, False)],
)
