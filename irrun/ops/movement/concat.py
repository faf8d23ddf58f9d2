"""Concat: concatenation of tensors along one axis."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["concat_1"]


@op(
    "Concat",
    since=1,
    kind="movement",
    shape="infer_concat",
    concatenates=True,
    decompression="step",
    shaped_by=(),
    keeps_values=True,
    folding="linear",
    flops=0,
)
def concat_1(*inputs: Array, axis: int) -> Array:
    """Concatenate the inputs along `axis`.

    Args:
        *inputs: At least one tensor, all of the same type. Their shapes may differ only along `axis`.
        axis: Axis to concatenate along, in [-rank, rank).

    Returns:
        The type of the inputs. The sizes of the inputs along `axis` add up.

    Raises:
        InputError: No inputs are given, their shapes or types do not match, or `axis` is out of range.

    Spec:
        Concat-1
    """
    if not inputs:
        raise InputError("Concat has no inputs, expected at least one")
    first = inputs[0]
    axis = normalize_axis(axis, first.ndim)
    for i, x in enumerate(inputs):
        has_same_shape = x.ndim == first.ndim and all(
            a == b for k, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if k != axis
        )
        if not has_same_shape or x.dtype != first.dtype:
            raise InputError(
                f"input {i} is {x.dtype}{list(x.shape)}, expected {first.dtype}{list(first.shape)} except for axis"
                f" {axis}"
            )
    return first if len(inputs) == 1 else np.concatenate(inputs, axis=axis)
