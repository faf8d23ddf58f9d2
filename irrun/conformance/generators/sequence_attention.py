"""Conformance cases for ScaledDotProductAttention."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases

F32 = np.float32
CLOSE = (1e-5, 2e-6)

SHAPES = [
    ((1, 2, 3), (1, 4, 3), (1, 4, 2)),
    ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 4)),
    ((2, 3, 4, 8), (2, 1, 4, 8), (1, 3, 4, 8)),
    ((1, 2, 1, 16), (1, 2, 9, 16), (1, 2, 9, 16)),
    ((2, 1, 2, 3, 4), (2, 1, 2, 3, 4), (2, 1, 2, 3, 4)),
    ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
]


@register_cases("ScaledDotProductAttention", since=13)
def scaled_dot_product_attention_13(rng):
    def sample_normal(*shape, dtype=F32):
        return rng.normal(size=shape).astype(dtype)

    for shapes, causal in product(SHAPES, (False, True)):
        yield Case([sample_normal(*s) for s in shapes], {"causal": causal}, tolerance=CLOSE)
    q, k, v = ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 4))
    for mask_shape in [(2, 3, 5, 6), (1, 1, 5, 6), (2, 1, 1, 6), (5, 6), (2, 3, 5, 1), (1, 6)]:
        for boolean in (True, False):
            mask = rng.random(mask_shape) < 0.7 if boolean else sample_normal(*mask_shape)
            if boolean:
                mask[..., 0] = True
            for causal in (False, True):
                yield Case(
                    [sample_normal(*q), sample_normal(*k), sample_normal(*v), mask],
                    {"causal": causal},
                    tolerance=CLOSE,
                    note="mask",
                )
    zero = np.array(0, F32)
    for mask, scale, causal in product((zero, sample_normal(2, 3, 5, 6)), (0.125, 2.0), (False, True)):
        yield Case(
            [sample_normal(*q), sample_normal(*k), sample_normal(*v), mask, np.array(scale, F32)],
            {"causal": causal},
            tolerance=CLOSE,
            note="scale",
        )
    for sink_shape, causal in product([(1, 3, 1, 1), (2, 3, 5, 1), (1, 1, 1, 1)], (False, True)):
        inputs = [
            sample_normal(*q),
            sample_normal(*k),
            sample_normal(*v),
            zero,
            np.array(0.5, F32),
            sample_normal(*sink_shape),
        ]
        yield Case(inputs, {"causal": causal}, tolerance=CLOSE, note="sink")
    holes = np.where(rng.random((5, 6)) < 0.5, -np.inf, 0).astype(F32)
    holes[2] = -np.inf
    yield Case(
        [sample_normal(*q), sample_normal(*k), sample_normal(*v), holes],
        {"causal": False},
        tolerance=CLOSE,
        note="fully masked rows are NaN",
    )
    large = [sample_normal(*q) * F32(100), sample_normal(*k) * F32(100), sample_normal(*v)]
    yield Case(large, {"causal": False}, tolerance=(1e-4, 1e-5), note="scores beyond the range of exp")
    yield Case(
        [sample_normal(*s, dtype=np.float16) for s in (q, k, v)], {"causal": False}, tolerance=(4e-3, 1e-3), note="f16"
    )
    yield Case([sample_normal(*s) for s in (q, k, v)], {"causal": False}, dynamic=range(3), tolerance=CLOSE)
    yield Case(
        [sample_normal(*q), sample_normal(*k), sample_normal(*v), rng.random((5, 6)) < 2],
        {"causal": False},
        constants=[3],
        tolerance=CLOSE,
    )
