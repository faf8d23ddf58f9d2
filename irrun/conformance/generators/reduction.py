"""Conformance cases for the reductions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import BFLOAT16, F16, F32, F64, INTEGERS, create_sampler

#: Shapes and axes.
SHAPES_AND_AXES = [
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


#: Known faults of sums of integers in the CPU plugin.
INTEGERS_OF_PLUGIN = ("plugin-64-bits", "plugin-integer-sums")


def get_tolerance(type, data, axes):
    """Return (rtol, atol) of a reduction of f32 that computes in any order.

    Each of n - 1 additions or multiplications rounds by half a unit in the last place of a partial result.
    """
    n = int(np.prod([data.shape[axis] for axis in axes]))
    rounding = max(n - 1, 1) * 2.0**-24
    if type in ("ReduceSum", "ReduceMean"):
        total = float(np.abs(data).sum(axis=tuple(axes)).max())
        return 4e-6, max(rounding * total / (n if type == "ReduceMean" else 1), 1e-6)
    return max(2 * rounding, 4e-6), 1e-6


def register_reduction(
    type, since, sampler, *, types=(), first=F32, integers=(), integer_sampler=None, cases=lambda: ()
):
    """Register the cases of a reduction.

    `integers` may be computed in i32 or f32 by the CPU plugin.
    """

    @register_cases(type, since=since)
    def generate(rng):
        for keep_dims in (False, True):
            attributes = {"keep_dims": keep_dims}
            for shape, axes in SHAPES_AND_AXES:
                data = sampler(rng, shape, first)
                tolerance = get_tolerance(type, data, axes) if first == F32 else None
                yield Case([data, np.array(axes)], attributes, constants=(1,), tolerance=tolerance)
            yield Case([sampler(rng, (2, 3), first), np.array([1])], attributes, note="axes as Parameters")
            yield Case([sampler(rng, (2, 3, 4), first), np.array([0, -1], np.int32)], attributes, dynamic=(0,))
            yield Case([sampler(rng, (2, 3), first), np.array(1)], attributes, constants=(1,), note="scalar axis")
            yield Case([sampler(rng, (2, 3), first), np.array([1, 1, -1])], attributes, constants=(1,))
            no_axes = np.array([], np.int64)
            yield Case([sampler(rng, (2, 3), first), no_axes], attributes, constants=(1,))
            for shape, axes in [((2, 0), [1]), ((0, 3), [1]), ((0,), [0])]:
                empty = np.zeros(shape, first)
                yield Case([empty, np.array(axes)], attributes, constants=(1,), faults=("plugin-reduce-empty",))
        yield Case([sampler(rng, (), first), np.array([], np.int64)], constants=(1,))
        # OpenVINO fails or crashes on scalars with keep_dims.
        for axes in ([0], [-1], [0, -1], 0):
            yield Case([sampler(rng, (), first), np.array(axes)], constants=(1,), note="scalar data")
        for dtype in types:
            # The oracles round each partial sum of low-precision floats.
            extra = {"tolerance": (0.03, 0.01)} if dtype in (F16, BFLOAT16) else {}
            extra = {"tolerance": (2e-6, 2e-6)} if dtype == F64 else extra
            yield Case([sampler(rng, (3, 4), dtype), np.array([1])], constants=(1,), **extra)
        for dtype in integers:
            values = (integer_sampler or sampler)(rng, (3, 4), dtype)
            yield Case([values, np.array([0])], constants=(1,), faults=INTEGERS_OF_PLUGIN)
        yield from cases()

    return generate


def make_case(values):
    return Case([np.asarray(values), np.array([1])], constants=(1,), faults=("plugin-reduce", *INTEGERS_OF_PLUGIN))


SPECIAL = np.array([[np.nan, 1, 2], [np.inf, 1, -np.inf], [3, np.nan, 1], [np.inf, np.inf, 1]], F32)
LOW = np.array([[-np.inf, -np.inf], [np.inf, np.inf], [np.nan, np.nan], [-np.inf, 1]], F32)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)
LARGE = np.array([[2**30, 2**30, 2**30], [-(2**31), -1, 0], [2**31 - 1, 1, 7]], np.int32)
FLOATS = [F16, BFLOAT16, F64]
SIGNED = create_sampler(-4, 4)
WIDE_INTEGERS = [I32, I64, np.dtype("u4"), np.dtype("u8")]
NATURAL = create_sampler(1, 9)

for _type in ("ReduceSum", "ReduceProd"):
    register_reduction(
        _type,
        1,
        SIGNED,
        types=[*FLOATS, *WIDE_INTEGERS[:2]],
        integers=WIDE_INTEGERS,
        integer_sampler=NATURAL,
        cases=lambda: [make_case(SPECIAL), make_case(LARGE)],
    )
register_reduction(
    "ReduceMean",
    1,
    SIGNED,
    types=FLOATS,
    integers=WIDE_INTEGERS,
    integer_sampler=NATURAL,
    cases=lambda: [make_case(SPECIAL), make_case([[3, -4, 5], [-7, 2, 1], [-7, -7, 0]]), make_case(LARGE)],
)
for _type in ("ReduceMax", "ReduceMin"):
    register_reduction(
        _type,
        1,
        SIGNED,
        types=[*FLOATS, *INTEGERS[:3]],
        integers=WIDE_INTEGERS,
        integer_sampler=NATURAL,
        cases=lambda: [make_case(SPECIAL), make_case(LOW), make_case(LOW.astype(F16)), make_case(LARGE)],
    )
register_reduction(
    "ReduceL1",
    4,
    SIGNED,
    types=[*FLOATS, *WIDE_INTEGERS[:2]],
    integers=WIDE_INTEGERS[:2],
    integer_sampler=NATURAL,
    cases=lambda: [make_case(SPECIAL), make_case([[3, -4, 5], [-7, 2, 1]])],
)
register_reduction(
    "ReduceL2",
    4,
    SIGNED,
    types=FLOATS,
    cases=lambda: [
        make_case(SPECIAL),
        replace(
            make_case(np.array([[3, -4, 5], [1, 1, 1], [5, 1, 1]], np.int32)),
            expected=[np.array([7, 2, 5], np.int32)],
            faults=("plugin-root-of-integers",),
        ),
    ],
)
FLAGS = create_sampler(0, 1)
register_reduction("ReduceLogicalAnd", 1, FLAGS, first=np.dtype(bool))
register_reduction("ReduceLogicalOr", 1, FLAGS, first=np.dtype(bool))
