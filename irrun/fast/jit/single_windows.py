"""Convolution with a single window that covers the data: a product of the images with the filters.

Squeeze-and-excitation blocks consist of such convolutions of 1x1 maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.bindings import RESULT, TABLE, Binding, Operand
from irrun.fast.jit.convolution import Geometry
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.products import Product

__all__ = ["SingleWindowConvolution", "has_single_window"]

Array = np.ndarray[Any, Any]


def has_single_window(geometry: Geometry, filters: tuple[int, ...]) -> bool:
    """Return whether `SingleWindowConvolution` supports filters of shape [GROUPS, CO, CI, KH, KW]."""
    is_covering = geometry.output == (1, 1) and geometry.kernel == geometry.size
    return is_covering and not any((*geometry.pads_begin, *geometry.pads_end)) and filters[0] == 1


class SingleWindowConvolution:
    """A convolution of one group with constant weights and a window that covers the data.

    Args:
        filters: f32, shape [1, CO, CI, KH, KW].
    """

    def __init__(self, filters: Array) -> None:
        self._product = Product(filters[0].reshape(filters.shape[1], -1).T)

    def make_binding(
        self, batch: int, geometry: Geometry, expression: Expression, operands: Sequence[Operand] = ()
    ) -> Binding:
        """Return the convolution for data of one shape; see `Convolution.make_binding`."""
        # Operands with one element per channel and image have the shape of the result.
        kinds = tuple("full" if kind == "channel" else kind for kind in expression.kinds)
        task, offsets = self._product.make_task(batch, Expression(kinds, expression.steps))
        table = [(x, start + int(offset)) for row in offsets for (x, start), offset in zip(operands, row, strict=False)]
        return Binding((batch, self._product.columns, 1, 1), [task], (0, RESULT, TABLE), table)
