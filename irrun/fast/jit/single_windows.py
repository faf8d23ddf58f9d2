"""Convolution with a single window that covers the data: a product by BLAS, and a compiled epilogue.

Squeeze-and-excitation blocks consist of such convolutions of 1x1 maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.convolution import Geometry, compile_epilogue
from irrun.fast.jit.expressions import Expression

__all__ = ["SingleWindowConvolution", "has_single_window"]

Array = np.ndarray[Any, Any]

#: Multiplications at most: larger products are divided between threads.
MAX_WORK = 1 << 21


def has_single_window(geometry: Geometry, batch: int, filters: tuple[int, ...]) -> bool:
    """Return whether `SingleWindowConvolution` supports filters of shape [GROUPS, CO, CI, KH, KW]."""
    is_covering = geometry.output == (1, 1) and geometry.kernel == geometry.size
    is_padded = any((*geometry.pads_begin, *geometry.pads_end))
    return is_covering and not is_padded and filters[0] == 1 and batch * math.prod(filters) <= MAX_WORK


class SingleWindowConvolution:
    """A convolution of one group with constant weights, whose window covers the data.

    Args:
        filters: f32, shape [1, CO, CI, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self.weights = np.ascontiguousarray(filters[0].reshape(filters.shape[1], -1))

    def bind(self, batch: int, geometry: Geometry, expression: Expression) -> Callable[[Array, Sequence[int]], Array]:
        """Return the convolution for data of one shape; see `Convolution.bind`."""
        channels, inner = self.weights.shape
        # There is one result for each channel of each image.
        kinds = tuple("full" if kind == "channel" else kind for kind in expression.kinds)
        complete = compile_epilogue(Expression(kinds, expression.steps))
        weights = self.weights

        def convolve(data: Array, operands: Sequence[int]) -> Array:
            result: Array
            if batch == 1:
                result = weights.dot(data.reshape(inner))
            else:
                result = data.reshape(batch, inner).dot(weights.T)
            target = get_address(result)
            pointers = np.array(operands or (0,), np.int64)
            complete(target, 0, target, 0, 1, batch * channels, 0, get_address(pointers), 0)
            return result

        return convolve
