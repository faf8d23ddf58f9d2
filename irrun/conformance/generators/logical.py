"""Conformance cases for the logical operations."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import EQUAL_SHAPES, NUMPY_SHAPES, PDPD_SHAPES, SHAPES


def register_logical(type):
    """Register the cases of a binary logical operation."""

    @register_cases(type, since=1)
    def generate(rng):
        def sample_flags(shape):
            return rng.integers(0, 2, shape).astype(bool)

        for a, b in NUMPY_SHAPES:
            yield Case([sample_flags(a), sample_flags(b)])
        for a, b in EQUAL_SHAPES:
            yield Case([sample_flags(a), sample_flags(b)], {"auto_broadcast": "none"})
        for a, b, axis, _ in PDPD_SHAPES:
            pdpd = {"auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": axis}
            yield Case([sample_flags(a), sample_flags(b)], pdpd)
        yield Case([np.array([[False], [True]]), np.array([False, True])])
        yield Case([sample_flags((2, 3)), sample_flags((3,))], constants=(1,))
        yield Case([sample_flags((2, 3)), sample_flags((1, 3))], dynamic=(0, 1))

    return generate


for name in ("LogicalAnd", "LogicalOr", "LogicalXor", "Xor"):
    register_logical(name)


@register_cases("LogicalNot", since=1)
def logical_not_1(rng):
    for shape in SHAPES:
        yield Case([rng.integers(0, 2, shape).astype(bool)])
    yield Case([rng.integers(0, 2, (2, 3)).astype(bool)], dynamic=(0,))
    for dtype in (np.int32, np.uint8, np.int64, np.float32):
        yield Case([rng.integers(0, 3, (2, 3)).astype(dtype)], note="numeric inputs")
