"""Weights of cubic interpolation."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.numerics import Array

__all__ = ["compute_cubic_weights"]


def compute_cubic_weights(distance: Array, coefficient: float) -> Array:
    """Compute the weights of the four samples around each coordinate.

    The weights are computed in the type of `distance`, in the order of operations of the reference implementation.

    Args:
        distance: Distance of each coordinate from the second sample, in [0, 1].
        coefficient: Slope of the kernel at 1, usually called a or cube_coeff.

    Returns:
        Shape [4, *distance.shape].
    """
    f = distance.dtype.type
    a, one, two = f(coefficient), f(1), f(2)

    def compute_inner(x: Array) -> Array:
        weight: Array = ((a + two) * x - (a + f(3))) * x * x + one
        return weight

    def compute_outer(x: Array) -> Array:
        weight: Array = ((a * x - f(5) * a) * x + f(8) * a) * x - f(4) * a
        return weight

    return np.stack(
        [
            compute_outer(distance + one),
            compute_inner(distance),
            compute_inner(one - distance),
            compute_outer(two - distance),
        ]
    )
