"""From f32 to the type of an image, as C does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.ops.common import Array, is_integer

__all__ = ["round_away", "truncated"]


def round_away(x: Array) -> Array:
    """The nearest integers, halves away from zero, in the type of `x` (f32 or f64)."""
    # In f64 the sum is exact: in f32 0.49999997 + 0.5 would be 1.
    magnitude = np.floor(np.abs(x).astype(np.float64) + 0.5)
    return np.copysign(magnitude, x).astype(x.dtype)


def truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats `x` in `dtype`: fractions are cut off for integers, which wrap around."""
    if is_integer(dtype):
        x = x.astype(np.int64)
    return x.astype(dtype, copy=False)
