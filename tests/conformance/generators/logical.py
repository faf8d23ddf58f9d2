"""Configurations for the logical operations."""

from __future__ import annotations

import numpy as np

from conformance.generators.elementwise import NONE, NUMPY, PDPD, SHAPES
from conformance.harness import Case, configurations


def logical(type):
    """Register the configurations of a logical operation of two tensors."""

    @configurations(type, since=1)
    def generate(rng):
        def flags(shape):
            return rng.integers(0, 2, shape).astype(bool)

        for a, b in NUMPY:
            yield Case([flags(a), flags(b)])
        for a, b in NONE:
            yield Case([flags(a), flags(b)], {"auto_broadcast": "none"})
        for a, b, axis, _ in PDPD:
            pdpd = {"auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": axis}
            yield Case([flags(a), flags(b)], pdpd)
        yield Case([np.array([[False], [True]]), np.array([False, True])])
        yield Case([flags((2, 3)), flags((3,))], constants=(1,))
        yield Case([flags((2, 3)), flags((1, 3))], dynamic=(0, 1))

    return generate


for name in ("LogicalAnd", "LogicalOr", "LogicalXor", "Xor"):
    logical(name)


@configurations("LogicalNot", since=1)
def logical_not_1(rng):
    for shape in SHAPES:
        yield Case([rng.integers(0, 2, shape).astype(bool)])
    yield Case([rng.integers(0, 2, (2, 3)).astype(bool)], dynamic=(0,))
    for dtype in (np.int32, np.uint8, np.int64, np.float32):
        yield Case([rng.integers(0, 3, (2, 3)).astype(dtype)], oracles=("evaluate",), note="numbers stay numbers")
