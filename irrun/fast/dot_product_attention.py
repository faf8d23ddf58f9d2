"""ScaledDotProductAttention of f32 by blocks of heads and rows, so that the scores stay in the processor's cache."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from irrun.fast.scratch import get_scratch
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import BOOL, F32, Array
from irrun.limits import check_allocation
from irrun.threads import run_parallel

__all__: list[str] = []

#: Scores that are computed at a time.
MAX_SCORES = 1 << 19
#: Multiplications that a thread computes at least.
MIN_PART_PRODUCTS = 1 << 23
MAX_PARTS = 32


@specializes("ScaledDotProductAttention-13")
def specialize_attention(site: CallSite) -> SpecializedKernel | None:
    """Compute by blocks if there is no sink."""
    if site.has_input(5) or any(site.get_constant(i) is not None for i in range(3)):
        return None
    call_plain, is_causal = site.call_plain, bool(site.attributes.get("causal", False))
    mask_constant, scale_constant = site.get_constant(3), site.get_constant(4)
    has_mask, has_scale = site.has_input(3), site.has_input(4)

    def compute(query: Array, key: Array, value: Array, *others: Array) -> Any:
        remaining = iter(others)
        mask = scale = None
        if has_mask:
            mask = mask_constant if mask_constant is not None else next(remaining)
        if has_scale:
            scale = scale_constant if scale_constant is not None else next(remaining)
        if not _is_supported(query, key, value, None if is_causal else mask) or (scale is not None and scale.size != 1):
            return call_plain(query, key, value, *others)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale.item()
        return attend(query, key, value, None if is_causal else mask, factor, is_causal)

    return compute


def _is_supported(query: Array, key: Array, value: Array, mask: Array | None) -> bool:
    if not query.dtype is key.dtype is value.dtype is F32 or query.ndim < 3:
        return False
    lead, length, size = query.shape[:-2], query.shape[-2], query.shape[-1]
    if key.shape[:-2] != lead or value.shape[:-2] != lead or key.shape[-1] != size or 0 in query.shape:
        return False
    if key.shape[-2] != value.shape[-2] or not key.size or not value.size:
        return False
    if mask is None or not mask.ndim or mask.size == 1:
        return mask is None
    shape = (*lead, length, key.shape[-2])
    is_broadcast = mask.ndim <= len(shape) and all(
        n in (1, m) for n, m in zip(mask.shape[::-1], shape[::-1], strict=False)
    )
    return is_broadcast and (mask.dtype is F32 or mask.dtype is BOOL)


def attend(query: Array, key: Array, value: Array, mask: Array | None, factor: float, is_causal: bool) -> Array:
    """Compute attention.

    Args:
        query: f32, shape [..., H, L, E].
        key: f32, shape [..., H, S, E].
        value: f32, shape [..., H, S, Ev].
        mask: Boolean or f32, broadcast to [..., H, L, S].
        factor: The scores are multiplied by it.
        is_causal: Whether position l attends only to positions up to l.

    Returns:
        Shape [..., H, L, Ev]. If the heads of the query are stored side by side, so are those of the result.
    """
    *lead, heads, length, size = query.shape
    key_length, value_size = value.shape[-2:]
    result = _allocate(query, value_size)
    if mask is not None:
        mask = np.broadcast_to(mask, (*query.shape[:-1], key_length))
        if mask.dtype is BOOL and mask.all():
            mask = None
    row_step = max(1, min(length, MAX_SCORES // key_length))
    head_step = max(1, min(heads, MAX_SCORES // (row_step * key_length)))
    blocks = list(
        itertools.product(
            np.ndindex(*lead),
            [slice(h, min(h + head_step, heads)) for h in range(0, heads, head_step)],
            [slice(r, min(r + row_step, length)) for r in range(0, length, row_step)],
        )
    )
    scale = F32.type(factor)
    keys = key.swapaxes(-1, -2)

    def compute_block(number: int) -> None:
        index, head_range, rows = blocks[number]
        place: tuple[Any, ...] = (*index, head_range)
        row_place: tuple[Any, ...] = (*place, rows)
        count, row_count = head_range.stop - head_range.start, rows.stop - rows.start
        queries = get_scratch("queries", count, row_count, size)
        np.multiply(query[row_place], scale, queries)
        scores = get_scratch("scores", count, row_count, key_length)
        np.matmul(queries, keys[place], out=scores)
        if is_causal:
            is_later = np.arange(key_length) > np.arange(rows.start, rows.stop)[:, np.newaxis]
            np.copyto(scores, -np.inf, where=is_later)
        elif mask is not None:
            part = mask[row_place]
            if part.dtype is BOOL:
                np.copyto(scores, -np.inf, where=~part)
            else:
                np.add(scores, part, scores)
        np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), scores)
        np.exp(scores, scores)
        total = np.add.reduce(scores, axis=-1, keepdims=True)
        target = result[row_place]
        np.matmul(scores, value[place], out=target)
        np.divide(target, total, target)

    work = math.prod(query.shape[:-1]) * key_length * (size + value_size)
    part_count = max(1, min(len(blocks), MAX_PARTS, work // MIN_PART_PRODUCTS))
    step = -(-len(blocks) // part_count)

    def compute_part(part: int) -> None:
        for number in range(part * step, min((part + 1) * step, len(blocks))):
            compute_block(number)

    run_parallel(compute_part, -(-len(blocks) // step))
    return result


def _allocate(query: Array, value_size: int) -> Array:
    """Return the array of the result, whose heads are stored as those of the query."""
    *lead, heads, length, _ = query.shape
    check_allocation((*lead, heads, length, value_size), F32)
    is_side_by_side = query.strides[-2] > query.strides[-3] and heads > 1
    if not is_side_by_side:
        return np.empty((*lead, heads, length, value_size), F32)
    result = np.empty((*lead, length, heads, value_size), F32)
    swapped: Array = result.swapaxes(-2, -3)
    return swapped
