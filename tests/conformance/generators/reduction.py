"""Configurations for the reductions."""

from __future__ import annotations

import numpy as np

from conformance.generators.elementwise import BFLOAT16, F16, F32, F64, INTEGERS, uniform
from conformance.harness import Case, configurations

#: Shapes and the axes that are reduced.
PLACES = [
    ((4,), [0]),
    ((4,), [-1]),
    ((2, 3), [0]),
    ((2, 3), [1]),
    ((2, 3), [0, 1]),
    ((2, 3, 4), [-2]),
    ((2, 3, 4), [2, 0]),
    ((2, 3, 4), [-1, -3]),
    ((2, 3, 4, 5), [2, 3]),
    ((2, 3, 4, 5), [0, 1, 2, 3]),
    ((1, 3, 1, 2), [0, 2]),
    ((2, 1, 2, 3, 2), [1, -1]),
    ((2, 350, 3), [-1]),
]


def reduction(type, since, make, *, types=(), first=F32, integers=(), integer_make=None, cases=lambda: ()):
    """Register the configurations of a reduction; `types` are asked of both oracles, `integers` of the reference."""

    @configurations(type, since=since)
    def generate(rng):
        for keep_dims in (False, True):
            attributes = {"keep_dims": keep_dims}
            for shape, axes in PLACES:
                yield Case([make(rng, shape, first), np.array(axes)], attributes, constants=(1,))
            yield Case([make(rng, (2, 3), first), np.array([1])], attributes, note="axes at run time")
            yield Case([make(rng, (2, 3, 4), first), np.array([0, -1], np.int32)], attributes, dynamic=(0,))
            yield Case([make(rng, (2, 3), first), np.array(1)], attributes, constants=(1,), note="one axis, no list")
            yield Case([make(rng, (2, 3), first), np.array([1, 1, -1])], attributes, constants=(1,))
            no_axes = np.array([], np.int64)
            yield Case([make(rng, (2, 3), first), no_axes], attributes, constants=(1,), oracles=("evaluate",))
            for shape, axes in [((2, 0), [1]), ((0, 3), [1]), ((0,), [0])]:
                empty = np.zeros(shape, first)
                yield Case([empty, np.array(axes)], attributes, constants=(1,), oracles=("evaluate",))
        yield Case([make(rng, (), first), np.array([], np.int64)], constants=(1,), oracles=("evaluate",))
        # OpenVINO fails, or crashes, where the axes of a scalar are kept.
        for axes in ([0], [-1], [0, -1], 0):
            yield Case([make(rng, (), first), np.array(axes)], constants=(1,), note="axes of a scalar")
        for dtype in types:
            # The oracles round every partial sum of narrow floats.
            extra = {"tolerance": (0.03, 0.01)} if dtype in (F16, BFLOAT16) else {}
            extra = {"tolerance": (2e-6, 2e-6)} if dtype == F64 else extra
            yield Case([make(rng, (3, 4), dtype), np.array([1])], constants=(1,), **extra)
        for dtype in integers:
            values = (integer_make or make)(rng, (3, 4), dtype)
            yield Case([values, np.array([0])], constants=(1,), oracles=("evaluate",))
        yield from cases()

    return generate


def case(values, oracles=("evaluate",)):
    return Case([np.asarray(values), np.array([1])], constants=(1,), oracles=oracles)


SPECIAL = np.array([[np.nan, 1, 2], [np.inf, 1, -np.inf], [3, np.nan, 1], [np.inf, np.inf, 1]], F32)
LOW = np.array([[-np.inf, -np.inf], [np.inf, np.inf], [np.nan, np.nan], [-np.inf, 1]], F32)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)
LARGE = np.array([[2**30, 2**30, 2**30], [-(2**31), -1, 0], [2**31 - 1, 1, 7]], np.int32)
FLOATS = [F16, BFLOAT16, F64]
SIGNED = uniform(-4, 4)
WIDE = [I32, I64, np.dtype("u4"), np.dtype("u8")]
NATURAL = uniform(1, 9)

reduction(
    "ReduceSum",
    1,
    SIGNED,
    types=[*FLOATS, *WIDE[:2]],
    integers=WIDE,
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case(LARGE)],
)
reduction(
    "ReduceProd",
    1,
    SIGNED,
    types=[*FLOATS, *WIDE[:2]],
    integers=WIDE,
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case(LARGE)],
)
reduction(
    "ReduceMean",
    1,
    SIGNED,
    types=FLOATS,
    integers=WIDE,
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case([[3, -4, 5], [-7, 2, 1], [-7, -7, 0]]), case(LARGE)],
)
reduction(
    "ReduceMax",
    1,
    SIGNED,
    types=[*FLOATS, *INTEGERS[:3]],
    integers=WIDE,
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case(LOW), case(LOW.astype(F16)), case(LARGE)],
)
reduction(
    "ReduceMin",
    1,
    SIGNED,
    types=[*FLOATS, *INTEGERS[:3]],
    integers=WIDE,
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case(LOW), case(LOW.astype(F16)), case(LARGE)],
)
reduction(
    "ReduceL1",
    4,
    SIGNED,
    types=[*FLOATS, *WIDE[:2]],
    integers=WIDE[:2],
    integer_make=NATURAL,
    cases=lambda: [case(SPECIAL), case([[3, -4, 5], [-7, 2, 1]])],
)
reduction(
    "ReduceL2",
    4,
    SIGNED,
    types=FLOATS,
    cases=lambda: [case(SPECIAL), case(np.array([[3, -4, 5], [1, 1, 1], [5, 1, 1]], np.int32), ("cpu",))],
)
FLAGS = uniform(0, 1)
reduction("ReduceLogicalAnd", 1, FLAGS, first=np.dtype(bool))
reduction("ReduceLogicalOr", 1, FLAGS, first=np.dtype(bool))
