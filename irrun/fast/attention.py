"""Attention with keys and values shared by groups of heads."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.fast.errors import NoKernelError
from irrun.shapes import get_broadcast_shape

__all__ = ["attend_in_groups", "get_repeated_shape"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Number of scores computed at a time.
MAX_SCORES = 1 << 21


def get_repeated_shape(
    data: Array, broadcast_shape: Array, target: Array, *, special_zero: bool, dtype: Any = np.int64
) -> Array:
    """Return the shape of keys or values with heads repeated by Unsqueeze, Broadcast and Reshape.

    Args:
        data: Shape [B, H, S, E].
        broadcast_shape: The second input of Broadcast in the mode "bidirectional". Its first input is `data` with
            a new axis 2.
        target: The second input of Reshape.
        special_zero: The attribute of Reshape.
        dtype: Type of the result.

    Returns:
        [B, H * G, S, E], where G is the number of repetitions.

    Raises:
        NoKernelError: The instructions do not repeat heads.
    """
    return np.array(_repeat_heads(data.shape, *_list_pattern(broadcast_shape, target), special_zero), dtype)


def _list_pattern(broadcast_shape: Array, target: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(broadcast_shape.tolist()), tuple(target.tolist())


@functools.lru_cache(maxsize=16)
def _repeat_heads(
    shape: tuple[int, ...], broadcast_shape: tuple[int, ...], target: tuple[int, ...], special_zero: bool
) -> tuple[int, int, int, int]:
    """Return the shape of `get_repeated_shape`, which the layers of a decoder share."""
    batch, heads, length, size = shape
    repeated = get_broadcast_shape((batch, heads, 1, length, size), broadcast_shape)
    count = repeated[2] if len(repeated) == 5 else 0
    expected = (batch, heads * count, length, size)
    if repeated != (batch, heads, count, length, size) or not math.prod(repeated):
        raise NoKernelError("the heads are not repeated")
    requested = list(target)
    if special_zero:
        requested = [repeated[i] if n == 0 else n for i, n in enumerate(requested)]
    is_same = len(requested) == 4 and requested.count(-1) <= 1
    if not is_same or any(n not in (-1, e) for n, e in zip(requested, expected, strict=True)):
        raise NoKernelError("the heads are not repeated")
    return expected


def attend_in_groups(
    query: Array,
    key: Array,
    key_broadcast: Array,
    key_target: Array,
    value: Array,
    value_broadcast: Array,
    value_target: Array,
    mask: Array | None = None,
    scale: Array | None = None,
    *,
    causal: bool,
    key_special_zero: bool,
    value_special_zero: bool,
) -> Array:
    """Compute ScaledDotProductAttention with repeated heads of keys and values, without repeating them.

    Args:
        query: f32, shape [B, H * G, L, E].
        key: f32, shape [B, H, S, E].
        key_broadcast: See `get_repeated_shape`.
        key_target: See `get_repeated_shape`.
        value: f32, shape [B, H, S, Ev].
        value_broadcast: See `get_repeated_shape`.
        value_target: See `get_repeated_shape`.
        mask: Boolean or f32, broadcast to [B, H * G, L, S].
        scale: Scalar.
        causal: Whether position l attends only to positions up to l.
        key_special_zero: See `get_repeated_shape`.
        value_special_zero: See `get_repeated_shape`.

    Returns:
        Shape [B, H * G, L, Ev].

    Raises:
        NoKernelError: The inputs have other types or shapes.
    """
    shape = _repeat_heads(key.shape, *_list_pattern(key_broadcast, key_target), key_special_zero)
    value_shape = _repeat_heads(value.shape, *_list_pattern(value_broadcast, value_target), value_special_zero)
    if not query.dtype == key.dtype == value.dtype == F32 or query.ndim != 4 or not query.size:
        raise NoKernelError("expected f32 of rank 4")
    batch, all_heads, length, size = query.shape
    if (batch, all_heads, size) != (*shape[:2], shape[3]) or shape[:3] != value_shape[:3]:
        raise NoKernelError("the shapes do not match")
    heads, key_length = key.shape[1], key.shape[2]
    groups = all_heads // heads
    factor = 1 / math.sqrt(size) if scale is None else scale.item()
    masks = _group_mask(mask, causal, (batch, heads, groups, length, key_length))
    queries = (query * F32.type(factor)).reshape(batch, heads, groups, length, size)
    keys = key.swapaxes(-1, -2)
    step = max(1, MAX_SCORES // (batch * all_heads * key_length))
    if step >= length:
        attended = _attend(queries, keys, value, masks, slice(0, length), length)
        return attended.reshape(batch, all_heads, length, value.shape[3])
    result = np.empty((batch, heads, groups, length, value.shape[3]), F32)
    for start in within_time(range(0, length, step)):
        rows = slice(start, start + step)
        result[:, :, :, rows] = _attend(queries[:, :, :, rows], keys, value, masks, rows, length)
    return result.reshape(batch, all_heads, length, value.shape[3])


def _attend(queries: Array, keys: Array, value: Array, mask: Array | None, rows: slice, length: int) -> Array:
    """Return the attended values of some rows of the queries, shape [B, H, G, rows, Ev]."""
    batch, heads, groups, count, size = queries.shape
    scores = np.matmul(queries.reshape(batch, heads, groups * count, size), keys)
    _mask_scores(scores.reshape(batch, heads, groups, count, keys.shape[-1]), mask, rows, length)
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    total = np.add.reduce(scores, axis=-1, keepdims=True)
    attended: Array = np.matmul(scores, value)
    attended /= total
    return attended.reshape(batch, heads, groups, count, value.shape[3])


def _group_mask(mask: Array | None, causal: bool, shape: tuple[int, int, int, int, int]) -> Array | None:
    """Return a mask of rank 5 that broadcasts to the scores of the groups, or None if it has no effect."""
    _, heads, groups, length, key_length = shape
    if causal:
        return np.arange(key_length) <= np.arange(length)[:, np.newaxis]
    if mask is None:
        return None
    if mask.dtype != np.bool_ and mask.dtype != F32:
        raise NoKernelError("expected a boolean or f32 mask")
    full: Array = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    grouped = (heads, groups) if full.shape[1] != 1 else (1, 1)
    full = full.reshape(full.shape[0], *grouped, *full.shape[2:])
    if any(n not in (1, m) for n, m in zip(full.shape, shape, strict=True)):
        raise NoKernelError("the mask does not match")
    return None if full.dtype == np.bool_ and full.all() else full


def _mask_scores(scores: Array, mask: Array | None, rows: slice, length: int) -> None:
    """Apply a mask to some rows of the scores, in place."""
    if mask is None:
        return
    part = mask[..., rows, :] if mask.shape[-2] == length else mask
    if part.dtype == np.bool_:
        np.copyto(scores, -np.inf, where=~part)
    else:
        scores += part
