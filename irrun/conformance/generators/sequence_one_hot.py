"""Conformance cases for OneHot."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

VALUES = [
    np.float32,
    np.float16,
    np.float64,
    ml_dtypes.bfloat16,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.int64,
    np.uint64,
    np.bool_,
]


def generate_one_hot_cases(rng, lowest, **attributes):
    for shape in [(), (0,), (4,), (2, 3), (2, 1, 3), (1, 2, 1, 2)]:
        for axis in range(-len(shape) - 1, len(shape) + 1):
            indices = rng.integers(lowest, 6, shape)
            inputs = [indices, np.array(4), np.array(2.5, np.float32), np.array(-1.0, np.float32)]
            yield Case(inputs, {"axis": axis, **attributes}, constants=[1])
    for values, indices_type in product(VALUES, (np.int32, np.int64)):
        indices = rng.integers(lowest, 4, (3, 2)).astype(indices_type)
        inputs = [indices, np.array(3, indices_type), np.array(1).astype(values), np.array(0).astype(values)]
        yield Case(inputs, {"axis": 1, **attributes}, constants=[1])
    inputs = [rng.integers(lowest, 4, (3, 2)), np.array(3), np.array(1.0, np.float32), np.array(0.5, np.float32)]
    yield Case(inputs, {"axis": -1, **attributes}, constants=[1, 2, 3], note="constant values")
    yield Case(inputs, {"axis": -1, **attributes}, dynamic=[0], note="depth as a Parameter")
    yield Case(inputs, {"axis": 0, **attributes}, constants=[1], dynamic=[0])


@register_cases("OneHot", since=1)
def one_hot_1(rng):
    yield from generate_one_hot_cases(rng, 0)
    yield from generate_one_hot_cases(rng, -3)


@register_cases("OneHot", since=16)
def one_hot_16(rng):
    yield from generate_one_hot_cases(rng, -3, negative_indices_mode="ignore_negative")
    yield from generate_one_hot_cases(rng, -6, negative_indices_mode="normalize")
