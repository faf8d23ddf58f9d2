"""Joining and cutting along one axis: Concat, Split, VariadicSplit."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, read_axis, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["concat_1", "split_1", "variadic_split_1"]


@op("Concat", since=1, folding="linear")
def concat_1(*inputs: Array, axis: int) -> Array:
    """The inputs joined along `axis`.

    inputs: any one type, at least one, of equal shapes but for `axis`.
    Returns the type of the inputs, the sum of their sizes along `axis`.
    Raises InputError where the inputs do not fit together.
    Spec: Concat-1.
    """
    if not inputs:
        raise InputError("Concat has no inputs, expected at least one")
    first = inputs[0]
    along = normalize_axis(axis, first.ndim)
    for i, x in enumerate(inputs):
        same_rest = x.ndim == first.ndim and all(
            a == b for k, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if k != along
        )
        if not same_rest or x.dtype != first.dtype:
            raise InputError(
                f"input {i} is {x.dtype}{list(x.shape)}, expected {first.dtype}{list(first.shape)} but for axis {along}"
            )
    return first if len(inputs) == 1 else np.concatenate(inputs, axis=along)


@op("Split", since=1, folding="linear")
def split_1(data: Array, axis: Array, *, num_splits: int) -> tuple[Array, ...]:
    """`data` cut into `num_splits` pieces of equal length along `axis`.

    data: any type, rank >= 1; axis: integer, scalar or [1].
    Returns `num_splits` tensors of the type of data.
    Raises InputError where the length is no multiple of `num_splits`.
    Spec: Split-1.
    """
    along = read_axis(axis, data.ndim)
    length = data.shape[along]
    if num_splits < 1 or length % num_splits:
        raise InputError(f"{length} elements along axis {along} cannot be split into {num_splits} equal parts")
    return _cut(data, along, [length // num_splits] * num_splits)


@op("VariadicSplit", since=1, folding="linear")
def variadic_split_1(data: Array, axis: Array, split_lengths: Array) -> tuple[Array, ...]:
    """`data` cut along `axis` into pieces of the given lengths.

    data: any type, rank >= 1; axis: integer, scalar or [1]; split_lengths: integer [pieces], one of them
    may be -1 for what the others leave.
    Returns one tensor per length, of the type of data.
    Raises InputError where the lengths do not add up.
    Spec: VariadicSplit-1.
    """
    along = read_axis(axis, data.ndim)
    total = data.shape[along]
    lengths = to_int_list(split_lengths)
    if min(lengths, default=0) < -1 or lengths.count(-1) > 1:
        raise InputError(f"split_lengths {lengths} may hold one -1, and nothing else below 0")
    resolved = [total - sum(n for n in lengths if n != -1) if n == -1 else n for n in lengths]
    if sum(resolved) != total or min(resolved, default=0) < 0:
        raise InputError(f"split_lengths {lengths} do not add up to {total}, the size of axis {along}")
    return _cut(data, along, resolved)


def _cut(data: Array, axis: int, lengths: list[int]) -> tuple[Array, ...]:
    return tuple(np.split(data, np.cumsum(lengths)[:-1], axis)) if lengths else ()
