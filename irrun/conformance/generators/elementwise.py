"""Shapes, broadcasts, types and special values for the cases of elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
#: Integer types supported by most reference implementations.
WIDE_INTEGERS = [np.dtype(t) for t in ("i4", "i8", "u4", "u8")]
F32, F16, F64 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64)

SHAPES = [(), (1,), (7,), (0,), (2, 3), (2, 0, 3), (1, 3, 4), (2, 3, 2, 2), (1, 2, 1, 2, 3), (9000,)]
#: Values at which functions change their behavior.
MAGNITUDES = [0.5, 1, 1.5, 2.5, 3, 1e-10, 20, 87.5, 100, 1e10, 3e38]
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, *MAGNITUDES, *(-m for m in MAGNITUDES)], np.float32)

NUMPY_SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1, 4), (3, 1)),
    ((), (2, 2)),
    ((5,), ()),
    ((), ()),
    ((1,), (1, 1, 1)),
    ((0, 3), (1, 3)),
    ((2, 1, 0), (1, 4, 1)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((1, 1, 3), (2, 4, 1)),
]
EQUAL_SHAPES = [((2, 3), (2, 3)), ((4,), (4,)), ((), ())]
#: Shapes of a and b, auto_broadcast_axis, and the shape of b that has the same effect in NumPy.
PDPD_SHAPES = [
    ((2, 3, 4), (2, 3), 0, (2, 3, 1)),
    ((2, 3, 4, 5), (2,), 0, (2, 1, 1, 1)),
    ((2, 3), (2, 3), 0, (2, 3)),
    ((2, 3, 4), (2, 1), 0, (2, 1, 1)),
    ((2, 3, 4), (1,), 0, (1, 1, 1)),
    ((2, 3, 4, 5), (3, 4), 1, (1, 3, 4, 1)),
    ((2, 3, 4, 5), (3,), 1, (1, 3, 1, 1)),
    ((2, 3, 4, 5), (4, 5), 2, (1, 1, 4, 5)),
    ((2, 3, 4, 5), (4, 5), -1, (1, 1, 4, 5)),
]

#: Returns a random array.
Sampler = Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]

#: Known faults of functions of integers.
INTEGER_FUNCTIONS = ("plugin-64-bits", "plugin-integer-functions")

#: Options for f64, which OpenVINO's CPU plugin computes in f32.
F64_ON_CPU = {"tolerance": (2e-6, 2e-6), "note": "the CPU plugin computes f64 in f32"}


def create_sampler(low: float, high: float) -> Sampler:
    """Return a sampler of numbers between `low` and `high`."""

    def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind in "iu":
            return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        return rng.uniform(low, high, shape).astype(dtype)

    return sample


def create_rounding_sampler(sampler: Sampler) -> Sampler:
    """Return a sampler of values that repeat and include negative zero."""

    def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.round(sampler(rng, shape, F64) * 2).astype(dtype)

    return sample


def generate_binary_cases(
    rng: np.random.Generator,
    a: Sampler,
    b: Sampler,
    *,
    first: np.dtype = F32,
    types: Sequence[np.dtype] = (),
    attributes: dict[str, Any] | None = None,
    modes: bool = True,
    pdpd: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    **options: Any,
) -> Iterator[Case]:
    """Yield all forms of broadcasting in the type `first`, then one case for each further type.

    `pdpd` computes the expected outputs of operations if not all oracles implement their "pdpd" broadcasting.
    """
    attributes = attributes or {}
    for shapes in NUMPY_SHAPES:
        pair = [a(rng, shapes[0], first), b(rng, shapes[1], first)]
        yield Case(pair, attributes, **options)
    if modes:
        for sa, sb in EQUAL_SHAPES:
            yield Case([a(rng, sa, first), b(rng, sb, first)], {**attributes, "auto_broadcast": "none"}, **options)
        for sa, sb, axis, aligned in PDPD_SHAPES:
            x, y = a(rng, sa, first), b(rng, sb, first)
            mode = {**attributes, "auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": axis}
            if pdpd:
                faults = ("plugin-pdpd", "reference-pdpd")
                yield Case([x, y], mode, faults=faults, expected=[pdpd(x, y.reshape(aligned))])
            else:
                yield Case([x, y], mode, **options)
    yield Case([a(rng, (2, 3), first), b(rng, (3,), first)], attributes, constants=(1,), **options)
    yield Case([a(rng, (1, 3), first), b(rng, (2, 1), first)], attributes, dynamic=(0, 1), **options)
    for dtype in types:
        type_options = {**options, **F64_ON_CPU} if dtype == F64 else options
        yield Case([a(rng, (3, 4), dtype), b(rng, (4,), dtype)], attributes, **type_options)


def generate_unary_cases(
    rng: np.random.Generator,
    sampler: Sampler,
    *,
    attributes: dict[str, Any] | None = None,
    floats: Sequence[np.dtype] = (F16, BFLOAT16, F64),
    integers: Sequence[np.dtype] = (),
    integer_sampler: Sampler | None = None,
    special_faults: Sequence[str] | None = (),
    extra_inputs: Callable[[], Sequence[np.ndarray]] = lambda: (),
    **options: Any,
) -> Iterator[Case]:
    """Yield all shapes in f32, the other types, and special values unless `special_faults`, their faults, is None."""
    attributes = attributes or {}
    for shape in SHAPES:
        yield Case([sampler(rng, shape, F32), *extra_inputs()], attributes, **options)
    yield Case([sampler(rng, (2, 3), F32), *extra_inputs()], attributes, dynamic=(0,), **options)
    for dtype in floats:
        type_options = {**options, **F64_ON_CPU} if dtype == F64 else options
        yield Case(
            [sampler(rng, (3, 5), dtype), *(x.astype(dtype) for x in extra_inputs())], attributes, **type_options
        )
    for dtype in integers:
        values = (integer_sampler or sampler)(rng, (4, 5), dtype)
        yield Case([values], attributes, faults=INTEGER_FUNCTIONS)
    if special_faults is not None:
        yield Case([SPECIALS, *extra_inputs()], attributes, faults=special_faults, **options)
