"""Rearranging axes: Transpose."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["transpose_1"]


@op("Transpose", since=1, folding="linear")
def transpose_1(arg: Array, input_order: Array) -> Array:
    """`arg` with its axes in the order `input_order`; an empty order reverses them.

    arg: any type and shape; input_order: integer [rank of arg] or [0]; negative axes, which the specification
    does not have, count from the end.
    Returns the type of arg.
    Raises InputError where the order is no permutation of the axes.
    Spec: Transpose-1.
    """
    order = to_int_list(input_order)
    if not order:
        return np.transpose(arg)
    if len(order) != arg.ndim:
        raise InputError(f"input_order {order} has {len(order)} axes, expected {arg.ndim}")
    return np.transpose(arg, normalize_axes(order, arg.ndim, "input_order"))
