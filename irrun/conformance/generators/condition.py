"""Conformance cases for Bucketize, NonZero and Select."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, sample_indices, sample_values


@register_cases("Bucketize", since=3)
def bucketize_3(rng):
    # Model.evaluate does not implement the operation.
    for right in (True, False):
        for output_type in ("i64", "i32"):
            attributes = {"output_type": output_type, "with_right_bound": right}
            data = np.array([[3, 50], [10, -1]], np.float32)
            yield Case([data, np.array([0, 5, 10], np.float32)], attributes)
            for shape in [(), (1,), (7,), (2, 3), (2, 3, 4), (2, 1, 2, 2)]:
                yield Case(
                    [sample_indices(rng, -2, 12, shape, np.float32), np.arange(10, dtype=np.float32)], attributes
                )
            for count in (0, 1, 2, 33):
                buckets = np.sort(rng.normal(size=count)).astype(np.float32)
                yield Case([rng.normal(size=(3, 5)).astype(np.float32), buckets], attributes)
            for dtype in (np.int32, np.int64):
                yield Case([sample_indices(rng, -5, 15, (4, 5), dtype), np.array([0, 3, 7, 10], dtype)], attributes)
            yield Case([sample_indices(rng, -5, 15, (9,), np.int32), np.array([-1, 2.5, 7], np.float32)], attributes)
            yield Case([rng.normal(size=9).astype(np.float32) * 5, np.array([-1, 2, 7], np.int32)], attributes)
            yield Case([rng.normal(size=(2, 3)).astype(np.float32), np.zeros(1, np.float32)], attributes, dynamic=(0,))
        data = np.array([np.inf, -np.inf, np.nan, -0.0, 0, 1], np.float32)
        buckets = np.array([-np.inf, 0, np.inf], np.float32)
        attributes = {"output_type": "i64", "with_right_bound": right}
        yield Case([data, buckets], attributes, note="NaN and infinities")


@register_cases("NonZero", since=3)
def non_zero_3(rng):
    for output_type in ("i64", "i32"):
        attributes = {"output_type": output_type}
        for shape in [(1,), (7,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (1, 2, 1, 2, 3)]:
            yield Case([sample_indices(rng, 0, 2, shape, np.float32)], attributes)
            yield Case([np.zeros(shape, np.float32)], attributes)
            yield Case([np.ones(shape, np.int32)], attributes)
        yield Case([np.array(3, np.float32)], attributes)
        yield Case([np.array(0, np.float32)], attributes, faults=("plugin-non-zero",))
        yield Case([np.array([0, -0.0, np.nan, 1e-45, -np.inf], np.float32)], attributes)
        for dtype in DTYPES:
            yield Case([sample_indices(rng, 0, 2, (3, 4), dtype)], attributes)
        yield Case([sample_indices(rng, 0, 2, (3, 4), np.float32)], attributes, dynamic=(0,))


@register_cases("Select", since=1)
def select_1(rng):
    for cond, then, other in [
        ((), (), ()),
        ((3,), (3,), (3,)),
        ((2, 3), (2, 3), (2, 3)),
        ((2, 3), (3,), (2, 1)),
        ((2, 1), (3,), (1,)),
        ((3,), (1,), (2, 3)),
        ((), (2, 3), (2, 3)),
        ((2, 3), (), ()),
        ((1, 3), (4, 2, 1), (2, 3)),
        ((4, 1, 1), (2, 3), (1,)),
        ((2, 1, 3, 1), (1, 4, 1, 2), (3, 1)),
        ((2, 1, 3, 1, 2), (2, 4, 3, 1, 2), (1,)),
    ]:
        inputs = [sample_values(rng, cond, bool), sample_values(rng, then), sample_values(rng, other)]
        yield ExactCase(inputs, {"auto_broadcast": "numpy"})
        yield ExactCase(inputs, {"auto_broadcast": "numpy"}, dynamic=(0, 1, 2))
        yield ExactCase(inputs, {"auto_broadcast": "numpy"}, constants=(1, 2))
        if cond == then == other:
            yield ExactCase(inputs, {"auto_broadcast": "none"})
    # NodeFactory leaves the axis of "pdpd" at 0, which aligns the first dimensions; the CPU plugin aligns the last.
    for cond, then, other in [
        ((2, 3), (2, 3), (2, 3)),
        ((2,), (2, 3), (2, 1)),
        ((2,), (2, 3), (2, 3)),
        ((2, 3), (2, 3), (2,)),
        ((2, 3), (2, 3, 4), (2, 1, 4)),
        ((1,), (2, 3), (1, 1)),
    ]:
        inputs = [sample_values(rng, cond, bool), sample_values(rng, then), sample_values(rng, other)]
        yield ExactCase(inputs, {"auto_broadcast": "pdpd"}, faults=("plugin-pdpd",))
    for dtype in DTYPES:
        inputs = [sample_values(rng, (3, 4), bool), sample_values(rng, (3, 4), dtype), sample_values(rng, (4,), dtype)]
        yield ExactCase(inputs, {"auto_broadcast": "numpy"})
    values = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    yield ExactCase([np.array([True, False, True, True]), values, values[::-1].copy()], {"auto_broadcast": "numpy"})
