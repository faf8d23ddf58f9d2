"""Conformance cases for the arithmetic operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import (
    BFLOAT16,
    F16,
    F32,
    F64,
    INTEGER_FUNCTIONS,
    INTEGERS,
    SPECIALS,
    WIDE_INTEGERS,
    create_sampler,
    generate_binary_cases,
    generate_unary_cases,
)
from irrun.conformance.layers import define_layer

FLOATS = [F16, BFLOAT16, F64]
POSITIVE = create_sampler(1, 9)
ANY = create_sampler(-4, 4)
CUM_SUM = ("reference-cum-sum",)
I32, I64, U8 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)


def make_extreme_values(dtype):
    info = np.iinfo(dtype)
    return np.array([info.min, info.min, info.max, info.max, info.max // 3, 7, 0], dtype)


def generate_overflow_cases(types=(I32, I64, U8)):
    """Yield cases with integer overflow.

    Only the reference implementation wraps: the CPU plugin computes i64 in i32 and saturates u8.
    """
    for dtype in types:
        a = make_extreme_values(dtype)
        yield Case([a, np.roll(a, 1)], faults=("plugin-64-bits", "plugin-bytes"), note="integer overflow")


@register_cases("Add", since=1)
def add_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, *INTEGERS[:4]])
    yield from generate_binary_cases(rng, POSITIVE, POSITIVE, first=U8, types=INTEGERS[4:], modes=False)
    yield from generate_overflow_cases()
    yield Case([SPECIALS, SPECIALS[::-1].copy()])
    # OpenVINO reads but never writes these forms. Without auto_broadcast_axis it uses axis 0.
    a, b = np.arange(9, dtype=F32).reshape(3, 3), np.array([10, 20, 30], F32)
    for mode, inputs, expected in [("pdpd", [a, b], a + b[:, None]), ("explicit", [a, a], a + a)]:
        build = define_layer("Add", "opset1", inputs, {"auto_broadcast": mode}, [expected])
        yield Case(inputs, build=build, expected=[expected], note=f"auto_broadcast={mode} without an axis")


@register_cases("Subtract", since=1)
def subtract_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, *INTEGERS[:4]])
    yield from generate_binary_cases(rng, create_sampler(9, 20), POSITIVE, first=U8, types=INTEGERS[4:], modes=False)
    yield from generate_overflow_cases()
    yield Case([SPECIALS, SPECIALS[::-1].copy()])


@register_cases("Multiply", since=1)
def multiply_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, *INTEGERS[:4]])
    yield from generate_binary_cases(rng, POSITIVE, POSITIVE, first=U8, types=INTEGERS[4:], modes=False)
    yield from generate_overflow_cases([I32, I64])
    yield Case([SPECIALS, SPECIALS[::-1].copy()])


def make_division_by_zero_case(dtype, *faults):
    a, b = np.array([7, 7, 0, 100], dtype), np.array([2, 0, 0, 0], dtype)
    return Case([a, b], faults=faults, note="integer division by zero")


@register_cases("Divide", since=1)
def divide_1(rng):
    yield from generate_binary_cases(rng, ANY, POSITIVE, types=FLOATS)
    for python in (True, False):
        attributes = {"m_pythondiv": python}
        for dtype in WIDE_INTEGERS:
            low = -50 if dtype.kind == "i" else 0
            a = create_sampler(low, 50)(rng, (6, 5), dtype)
            b = create_sampler(1, 7)(rng, (5,), dtype) * np.array([1, -1, 1, -1, 1] if low else [1]).astype(dtype)
            yield Case([a, b], attributes, faults=("plugin-floor-division",))
        for dtype in INTEGERS:
            if python and dtype.kind == "i":
                continue
            yield Case([create_sampler(0, 50)(rng, (3, 4), dtype), POSITIVE(rng, (4,), dtype)], attributes)
    yield make_division_by_zero_case(I32, "reference-division-by-zero")
    yield Case([SPECIALS, SPECIALS[::-1].copy()])


def generate_remainder_cases(rng):
    """Yield the cases that Mod and FloorMod have in common."""
    signed = create_sampler(-30, 30)
    yield from generate_binary_cases(
        rng, signed, create_sampler(1, 9), first=I32, types=[I64, np.dtype("i1"), np.dtype("i2")]
    )
    yield from generate_binary_cases(
        rng, create_sampler(0, 90), create_sampler(1, 9), first=U8, types=INTEGERS[4:], modes=False
    )
    yield from generate_binary_cases(
        rng, signed, create_sampler(2, 9), tolerance=(4e-6, 2e-5), types=[F16], modes=False
    )
    a, b = np.array([7, -7, 7, -7, 6, -6], I32), np.array([3, 3, -3, -3, 3, -3], I32)
    yield Case([a, b])
    yield Case([a.astype(F32), b.astype(F32)])


@register_cases("Mod", since=1)
def mod_1(rng):
    yield from generate_remainder_cases(rng)
    yield Case(
        [np.array([1e10, 5.5, 1e30], F32), np.array([3, 0.1, 7], F32)], faults=("plugin-mod",), expected=[EXACT_MOD]
    )
    info = np.iinfo(np.int32)
    yield Case([np.array([info.min, info.max], I32), np.array([7, -9], I32)], faults=("plugin-mod",))
    yield make_division_by_zero_case(I32, "reference-division-by-zero")


EXACT_MOD = np.array([1, float(np.fmod(5.5, np.float64(np.float32(0.1)))), float(int(np.float32(1e30)) % 7)], F32)


@register_cases("FloorMod", since=1)
def floor_mod_1(rng):
    yield from generate_remainder_cases(rng)
    yield Case([np.array([1e10, 5.5, -1e10], F32), np.array([3, 0.1, 3], F32)], faults=("plugin-mod",))
    x, y = np.array([3, -3, np.inf, np.nan, 1, 0], F32), np.array([np.inf, -np.inf, 2, 1, np.nan, 0], F32)
    yield Case([x, y])
    yield make_division_by_zero_case(I32)
    for dtype in (I64, np.dtype("i1")):  # OpenVINO crashes for unsigned types
        yield make_division_by_zero_case(dtype, "plugin-64-bits", "plugin-bytes")


@register_cases("Power", since=1)
def power_1(rng):
    yield from generate_binary_cases(rng, create_sampler(0.1, 4), create_sampler(-3, 3), types=FLOATS)
    for dtype in WIDE_INTEGERS:
        yield Case([create_sampler(1, 6)(rng, (4, 5), dtype), create_sampler(0, 5)(rng, (5,), dtype)])
    for dtype in (I32, I64):
        a, b = np.array([7, -7, 7, -7, 0, -1, 0, 100, 3], dtype), np.array([3, 3, -3, -3, 0, -1, -1, 7, 39], dtype)
        yield Case([a, b], faults=("plugin-64-bits",), note="negative exponents and overflow")
    for exponent in (2, 0.5, 3, 1, 0, -1, -0.5, 4, 5, -3, 2.5, np.inf, np.nan):
        values = np.array([0.5, 2, 3.25, 10, 0, np.inf, -2, -0.0, -np.inf, np.nan, -0.3, 1], F32)
        yield Case([values, np.array(exponent, F32)])
        yield Case([values.reshape(2, 6), np.full((1, 1, 1), exponent, F32)], constants=(1,), faults=("plugin-power",))
    bases, exponents = np.meshgrid(np.array([-2, -0.5, -0.0, 0, 1, np.inf, -np.inf, np.nan], F32), SPECIALS[:17])
    yield Case([bases.copy(), exponents.copy()])


@register_cases("SquaredDifference", since=1)
def squared_difference_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, I32, I64, np.dtype("i2")])
    yield from generate_binary_cases(
        rng, create_sampler(5, 12), create_sampler(0, 5), first=np.dtype("u2"), types=WIDE_INTEGERS[2:], modes=False
    )
    a, b = np.array([9, 3, 200], np.uint8), np.array([4, 5, 190], np.uint8)
    squares = [np.array([25, 4, 100], np.uint8)]
    yield Case([a, b], faults=("plugin-squared-difference",), expected=squares, note="8-bit types")


@register_cases("Maximum", since=1)
def maximum_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, *INTEGERS[:4]])
    yield from generate_binary_cases(rng, POSITIVE, POSITIVE, first=U8, types=INTEGERS[4:], modes=False)
    yield from generate_nan_cases()


@register_cases("Minimum", since=1)
def minimum_1(rng):
    yield from generate_binary_cases(rng, ANY, ANY, types=[*FLOATS, *INTEGERS[:4]])
    yield from generate_binary_cases(rng, POSITIVE, POSITIVE, first=U8, types=INTEGERS[4:], modes=False)
    yield from generate_nan_cases()


def generate_nan_cases():
    a = np.array([np.nan, 1, np.nan, np.inf, -np.inf], F32)
    b = np.array([1, np.nan, np.nan, -np.inf, np.nan], F32)
    for dtype in (F32, F16):
        yield Case([a.astype(dtype), b.astype(dtype)], faults=("plugin-maximum-nan",), note="propagation of NaN")


def register_unary(type, since, low, high, *, integers=WIDE_INTEGERS, integer_range=(0, 12), signed=True, **options):
    """Register the cases of a unary operation without attributes."""

    @register_cases(type, since=since)
    def generate(rng):
        yield from generate_unary_cases(
            rng, create_sampler(low, high), integers=integers, integer_sampler=create_sampler(*integer_range), **options
        )
        if signed and integers:
            for dtype in (I32, I64):
                values = np.concatenate([np.arange(-12, 13), make_extreme_values(np.int16)]).astype(dtype)
                yield Case([values], faults=INTEGER_FUNCTIONS)

    return generate


register_unary("Abs", 1, -4, 4)
register_unary("Negative", 1, -4, 4, integers=(I32, I64))
register_unary("Sign", 1, -4, 4)
register_unary("Ceiling", 1, -4, 4, integers=INTEGERS)
register_unary("Floor", 1, -4, 4, integers=INTEGERS)
register_unary("Sqrt", 1, 0, 9, integer_range=(0, 300))
register_unary("Log", 1, 0.1, 9, integer_range=(1, 300))
register_unary("Erf", 1, -3, 3)
register_unary("Acos", 1, -1, 1)
register_unary("Acosh", 4, 1, 9, integer_range=(1, 300))
register_unary("Asin", 1, -1, 1)
register_unary("Asinh", 4, -9, 9)
register_unary("Atan", 1, -9, 9)
register_unary("Atanh", 4, -0.99, 0.99)
register_unary("Cos", 1, -9, 9)
register_unary("Cosh", 1, -4, 4)
register_unary("Sin", 1, -9, 9)
register_unary("Sinh", 1, -4, 4)
register_unary("Tan", 1, -1.4, 1.4)
register_unary("Tanh", 1, -4, 4)


@register_cases("ErfInv", since=17)
def erf_inv_17(rng):
    # Only the CPU plugin implements ErfInv. Its error is up to 1e-4, and larger near 1.
    for shape in [(), (1,), (0,), (9,), (2, 3), (1, 3, 2), (2, 1, 2, 3)]:
        values = rng.uniform(-0.9, 0.9, shape).astype(F32)
        yield Case([values], tolerance=(2e-4, 1e-6))
        yield Case([values], faults=("plugin-erf-inv",), expected=[compute_erf_inv(values)], tolerance=(2e-7, 0))
    values = rng.uniform(-0.9, 0.9, (2, 3))
    yield Case([values.astype(F32)], dynamic=(0,), tolerance=(2e-4, 1e-6))
    for dtype in (F16, BFLOAT16):
        yield Case([values.astype(dtype)])
    yield Case([values], faults=("plugin-erf-inv",), expected=[compute_erf_inv(values)], tolerance=(1e-14, 0))
    yield Case([np.array([0, 1, -1, 1.5, -1.5, np.nan, np.inf], F32)])
    near_one = np.array([0.9999, -0.9999, 0.999999, 1 - 2**-24, 1e-10, -1e-30], F32)
    yield Case([near_one], faults=("plugin-erf-inv",), expected=[compute_erf_inv(near_one)], tolerance=(2e-7, 0))


def compute_erf_inv(values):
    mpmath = pytest.importorskip("mpmath")
    exact = [float(mpmath.erfinv(float(x))) for x in values.reshape(-1)]
    return np.array(exact, values.dtype).reshape(values.shape)


@register_cases("Round", since=5)
def round_5(rng):
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 8388607.5, 8388609, 1e20], F32)
    for mode in ("half_to_even", "half_away_from_zero"):
        attributes = {"mode": mode}
        yield from generate_unary_cases(
            rng,
            create_sampler(-4, 4),
            attributes=attributes,
            integers=INTEGERS,
            integer_sampler=create_sampler(0, 100),
        )
        yield Case([halves], attributes, faults=("plugin-round",))
        yield Case([halves[:8].astype(F16)], attributes)
        yield Case([halves[:6].astype(BFLOAT16)], attributes)
    yield Case([halves])


@register_cases("CumSum", since=3)
def cum_sum_3(rng):
    for exclusive in (False, True):
        for reverse in (False, True):
            attributes = {"exclusive": exclusive, "reverse": reverse}
            yield Case([ANY(rng, (5,), F32), np.array(0)], attributes)
            for axis in (0, 1, 2, -1, -3):
                yield Case([ANY(rng, (2, 3, 4), F32), np.array(axis)], attributes)
            yield Case([ANY(rng, (2, 3), F32), np.array(1, np.int32)], attributes, constants=(1,), dynamic=(0,))
            yield Case([ANY(rng, (1, 4), F32), np.array(-1)], attributes)
            yield Case([ANY(rng, (2, 0, 3), F32), np.array(1)], attributes, constants=(1,), faults=CUM_SUM)
            for dtype in (I32, I64, U8, np.dtype("i1")):
                yield Case([POSITIVE(rng, (3, 4), dtype), np.array(1)], attributes)
        for axis in (0, -1):
            scalar = [ANY(rng, (), F32), np.array(axis)]
            yield Case(scalar, {"exclusive": exclusive}, constants=(1,), faults=CUM_SUM)
    # OpenVINO cannot build the operation without an axis.
    yield Case([ANY(rng, (3, 2), F32), np.array([1])], constants=(1,), note="axis of rank 1")
    for dtype in (F16, BFLOAT16):
        yield Case(
            [ANY(rng, (3, 4), dtype), np.array(0)], tolerance=(0.02, 0.02), note="the oracles round each partial sum"
        )
    yield Case([ANY(rng, (3, 4), F64), np.array(0)], tolerance=(2e-6, 2e-6))


@register_cases("SegmentMax", since=16)
def segment_max_16(rng):
    for fill in ("ZERO", "LOWEST"):
        attributes = {"fill_mode": fill}
        for shape in [(6,), (6, 3), (6, 2, 2), (6, 1, 2, 3)]:
            data = rng.uniform(-5, 5, shape).astype(F32)
            ids = np.array([0, 0, 2, 2, 2, 4])
            yield Case([data, ids], attributes, constants=(1,))
            yield Case([data, ids.astype(I32), np.array(7)], attributes, constants=(1, 2))
            yield Case(
                [data, ids, np.array(3)], attributes, constants=(1, 2), note="num_segments drops the last slices"
            )
            yield Case([data, ids, np.array(5, np.int32)], attributes, note="all inputs are Parameters")
        for dtype in (I32, np.dtype("i1"), U8):
            yield Case([create_sampler(0, 90)(rng, (4, 2), dtype), np.array([0, 1, 1, 3])], attributes, constants=(1,))
        yield Case([np.array([np.nan, 1, -np.inf, np.nan], F32), np.array([0, 0, 1, 2])], attributes, constants=(1,))
        half = rng.uniform(-5, 5, (4, 2)).astype(F16)
        lowest = 0 if fill == "ZERO" else float(ml_dtypes.finfo(F16).min)
        expected = np.stack([half[:2].max(0), np.full(2, lowest, F16), half[2:].max(0)])
        ids, faults = np.array([0, 0, 2, 2]), ("plugin-segment-max",)
        yield Case([half, ids], attributes, constants=(1,), faults=faults, expected=[expected], note="empty segments")
        inputs = [np.arange(1, 9, dtype=F32), np.array([0, 0, 0, 1, 1, 3, 5, 5], np.int32)]
        empty = 0 if fill == "ZERO" else np.finfo(F32).min
        expected = [np.array([3, 5, empty, 6, empty, 8], F32)]
        build = define_layer("SegmentMax", "opset16", inputs, {"empty_segment_value": fill}, expected)
        note = "OpenVINO does not support the specification's name of the attribute"
        yield Case(inputs, build=build, expected=expected, note=note)
