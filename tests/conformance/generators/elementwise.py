"""What the generators of elementwise operations share: shapes, broadcasts, types, special values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from conformance.harness import Case

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
#: Integer types for which most reference implementations are instantiated.
WIDE = [np.dtype(t) for t in ("i4", "i8", "u4", "u8")]
F32, F16, F64 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float64)

SHAPES = [(), (1,), (7,), (0,), (2, 3), (2, 0, 3), (1, 3, 4), (2, 3, 2, 2), (1, 2, 1, 2, 3), (9000,)]
#: Values where functions change their ways.
MAGNITUDES = [0.5, 1, 1.5, 2.5, 3, 1e-10, 20, 87.5, 100, 1e10, 3e38]
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, *MAGNITUDES, *(-m for m in MAGNITUDES)], np.float32)

NUMPY = [
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
NONE = [((2, 3), (2, 3)), ((4,), (4,)), ((), ())]
#: With the axis that lines b up with a, and the shape of b that NumPy broadcasts the same way.
PDPD = [
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

#: Makes an array: (rng, shape, dtype) -> array.
Maker = Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]

#: Of f64, OpenVINO's CPU plugin computes in f32.
F64_ON_CPU = {"tolerance": (2e-6, 2e-6), "note": "the oracle computes f64 in f32"}


def uniform(low: float, high: float) -> Maker:
    """A maker of numbers between `low` and `high`."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind in "iu":
            return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        return rng.uniform(low, high, shape).astype(dtype)

    return make


def mixed(make: Maker) -> Maker:
    """A maker whose values are repeated and now and then negative zero."""

    def maker(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.round(make(rng, shape, F64) * 2).astype(dtype)

    return maker


def binary_cases(
    rng: np.random.Generator,
    a: Maker,
    b: Maker,
    *,
    first: np.dtype = F32,
    types: Sequence[np.dtype] = (),
    attributes: dict[str, Any] | None = None,
    modes: bool = True,
    pdpd: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    **options: Any,
) -> Iterator[Case]:
    """All ways to broadcast in the type `first`, then one case for each further type.

    Where no oracle knows how to broadcast as pdpd does, the function `pdpd` says what is expected.
    """
    attributes = attributes or {}
    for shapes in NUMPY:
        pair = [a(rng, shapes[0], first), b(rng, shapes[1], first)]
        yield Case(pair, attributes, **options)
    if modes:
        for sa, sb in NONE:
            yield Case([a(rng, sa, first), b(rng, sb, first)], {**attributes, "auto_broadcast": "none"}, **options)
        for sa, sb, axis, aligned in PDPD:
            x, y = a(rng, sa, first), b(rng, sb, first)
            mode = {**attributes, "auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": axis}
            if pdpd:
                yield Case([x, y], mode, oracles=(), expected=[pdpd(x, y.reshape(aligned))])
            else:
                yield Case([x, y], mode, **options)
    yield Case([a(rng, (2, 3), first), b(rng, (3,), first)], attributes, constants=(1,), **options)
    yield Case([a(rng, (1, 3), first), b(rng, (2, 1), first)], attributes, dynamic=(0, 1), **options)
    for dtype in types:
        extra = {**options, **F64_ON_CPU} if dtype == F64 else options
        yield Case([a(rng, (3, 4), dtype), b(rng, (4,), dtype)], attributes, **extra)


def unary_cases(
    rng: np.random.Generator,
    make: Maker,
    *,
    attributes: dict[str, Any] | None = None,
    floats: Sequence[np.dtype] = (F16, BFLOAT16, F64),
    integers: Sequence[np.dtype] = (),
    integer_make: Maker | None = None,
    specials: Sequence[str] = ("evaluate",),
    more: Callable[[], Sequence[np.ndarray]] = lambda: (),
    **options: Any,
) -> Iterator[Case]:
    """All shapes in f32, the other types, and special values for the oracles `specials`; `more` adds inputs."""
    attributes = attributes or {}
    for shape in SHAPES:
        yield Case([make(rng, shape, F32), *more()], attributes, **options)
    yield Case([make(rng, (2, 3), F32), *more()], attributes, dynamic=(0,), **options)
    for dtype in floats:
        extra = {**options, **F64_ON_CPU} if dtype == F64 else options
        yield Case([make(rng, (3, 5), dtype), *(x.astype(dtype) for x in more())], attributes, **extra)
    for dtype in integers:
        values = (integer_make or make)(rng, (4, 5), dtype)
        yield Case([values], attributes, oracles=("evaluate",))
    if specials:
        yield Case([SPECIALS, *more()], attributes, **{**options, "oracles": specials})
