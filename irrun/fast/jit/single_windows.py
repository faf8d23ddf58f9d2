"""Convolution with a single window that covers the data: a product of the images with the filters.

Squeeze-and-excitation blocks consist of such convolutions of 1x1 maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.products import Product

__all__ = ["SingleWindowConvolution", "has_single_window"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


def has_single_window(geometry: Geometry, filters: tuple[int, ...]) -> bool:
    """Return whether `SingleWindowConvolution` supports filters of shape [GROUPS, CO, CI, KH, KW]."""
    is_covering = geometry.output == (1, 1) and geometry.kernel == geometry.size
    return is_covering and not any((*geometry.pads_begin, *geometry.pads_end)) and filters[0] == 1


class SingleWindowConvolution:
    """A convolution of one group with constant weights, whose window covers the data.

    Args:
        filters: f32, shape [1, CO, CI, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self._product = Product(filters[0].reshape(filters.shape[1], -1).T)

    def bind(self, batch: int, geometry: Geometry, expression: Expression) -> Callable[[Array, Sequence[int]], Array]:
        """Return the convolution for data of one shape; see `Convolution.bind`."""
        # Operands with an element for each channel of each image have the shape of the result.
        kinds = tuple("full" if kind == "channel" else kind for kind in expression.kinds)
        task, offsets = self._product.bind(batch, Expression(kinds, expression.steps))
        shape = batch, self._product.columns

        def convolve(data: Array, operands: Sequence[int]) -> Array:
            result = np.empty(shape, F32)
            table = offsets + np.array(operands or (0,), np.int64)
            task.run(get_address(data), get_address(result), get_address(table))
            return result

        return convolve
