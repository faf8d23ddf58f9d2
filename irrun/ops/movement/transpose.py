"""Transpose: permutation of axes."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["transpose_1"]


@op(
    "Transpose",
    since=1,
    kind="view",
    shape="infer_transpose",
    views="strided",
    shaped_by=(1,),
    folding="linear",
    flops=0,
)
def transpose_1(arg: Array, input_order: Array) -> Array:
    """Permute the axes of `arg`.

    Args:
        arg: Any type, any shape.
        input_order: Integer, shape [rank of arg], a permutation of the axes, or [0] to reverse them. Negative values,
            which the specification does not allow, count from the last axis.

    Returns:
        The shape of `arg` permuted by `input_order`, the type of `arg`.

    Raises:
        InputError: `input_order` is not a permutation of the axes.

    Spec:
        Transpose-1
    """
    order = to_int_list(input_order)
    if not order:
        return np.transpose(arg)
    if len(order) != arg.ndim:
        raise InputError(f"input_order {order} has {len(order)} axes, expected {arg.ndim}")
    return np.transpose(arg, normalize_axes(order, arg.ndim, "input_order"))
