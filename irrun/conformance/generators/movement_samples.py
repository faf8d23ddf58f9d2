"""Random data for the cases of data movement operations."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case

#: A case without tolerance, because data movement does not change values.
ExactCase = partial(Case, tolerance=(0.0, 0.0))

#: Element types that are not packed and that NumPy can exchange with OpenVINO's tensors.
DTYPES = [
    np.dtype(t)
    for t in (
        np.float32,
        np.float16,
        np.float64,
        ml_dtypes.bfloat16,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.bool_,
    )
]


def sample_values(rng, shape, dtype=np.float32):
    """Return random finite values over the range of `dtype`, or strings for object.

    Values of f64, i64 and u64 are representable in f32 and i32, which the CPU plugin uses for them.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "O":
        words = np.array(["", "a", "bc", "ünïcode", "long enough to leave the small buffer"], object)
        return words[rng.integers(0, len(words), shape)]
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype if dtype.itemsize < 8 else np.int32)
        if dtype == np.uint64:
            return rng.integers(0, limits.max, shape).astype(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.asarray(rng.normal(size=shape) * 10).astype(np.float32).astype(dtype)


def sample_indices(rng, low, high, shape=(), dtype=np.int64):
    """Return random indices in [low, high)."""
    return np.asarray(rng.integers(low, high, shape)).astype(dtype)


def make_i64(*values):
    """Return a one-dimensional i64 array."""
    return np.array(values, np.int64)
