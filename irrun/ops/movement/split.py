"""Split and VariadicSplit: division of a tensor along one axis."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import read_axis, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["split_1", "variadic_split_1"]


@op("Split", since=1, kind="view", shape="infer_split", views="contiguous", shaped_by=(1,), folding="linear", flops=0)
def split_1(data: Array, axis: Array, *, num_splits: int) -> tuple[Array, ...]:
    """Split `data` into parts of equal length along `axis`.

    Args:
        data: Any type, rank >= 1.
        axis: Integer scalar or [1], in [-rank, rank).
        num_splits: Number of parts. It must divide the size of `axis`.

    Returns:
        `num_splits` tensors of equal shape, the type of `data`.

    Raises:
        InputError: The size is not a multiple of `num_splits`, or `axis` is out of range.

    Spec:
        Split-1
    """
    split_axis = read_axis(axis, data.ndim)
    size = data.shape[split_axis]
    if num_splits < 1 or size % num_splits:
        raise InputError(f"axis {split_axis} of size {size} cannot be split into {num_splits} equal parts")
    return _split(data, split_axis, [size // num_splits] * num_splits)


@op(
    "VariadicSplit",
    since=1,
    kind="view",
    shape="infer_variadic_split",
    views="contiguous",
    shaped_by=(1, 2),
    folding="linear",
    flops=0,
)
def variadic_split_1(data: Array, axis: Array, split_lengths: Array) -> tuple[Array, ...]:
    """Split `data` into parts of the lengths `split_lengths` along `axis`.

    Args:
        data: Any type, rank >= 1.
        axis: Integer scalar or [1], in [-rank, rank).
        split_lengths: Integer, shape [number of parts]. At most one of them is -1, which represents the remaining
            length.

    Returns:
        One tensor per length, of the type of `data`.

    Raises:
        InputError: The lengths do not add up to the size of `axis`, or `axis` is out of range.

    Spec:
        VariadicSplit-1
    """
    split_axis = read_axis(axis, data.ndim)
    size = data.shape[split_axis]
    lengths = to_int_list(split_lengths)
    if any(n < -1 for n in lengths) or lengths.count(-1) > 1:
        raise InputError(f"split_lengths is {lengths}, expected non-negative numbers and at most one -1")
    rest = size - sum(n for n in lengths if n != -1)
    resolved = [rest if n == -1 else n for n in lengths]
    if sum(resolved) != size or any(n < 0 for n in resolved):
        raise InputError(f"split_lengths {lengths} do not add up to {size}, the size of axis {split_axis}")
    return _split(data, split_axis, resolved)


def _split(data: Array, axis: int, lengths: list[int]) -> tuple[Array, ...]:
    return tuple(np.split(data, np.cumsum(lengths)[:-1], axis)) if lengths else ()
