"""The weights of cubic interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.ops._support.numerics import Array

__all__ = ["cubic_weights"]


def cubic_weights(d: Array, a: Any) -> Array:
    """[4, ...]: weights of the four neighbours of places that lie `d` (0 to 1) behind the second of them.

    `a` is the slope of the kernel at 1. Computed in the type of `d`, in the order of the reference.
    """
    f = d.dtype.type
    a, one, two = f(a), f(1), f(2)

    def near(x: Array) -> Array:
        weight: Array = ((a + two) * x - (a + f(3))) * x * x + one
        return weight

    def far(x: Array) -> Array:
        weight: Array = ((a * x - f(5) * a) * x + f(8) * a) * x - f(4) * a
        return weight

    return np.stack([far(d + one), near(d), near(one - d), far(two - d)])
