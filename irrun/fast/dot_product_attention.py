"""ScaledDotProductAttention of f32 by blocks of heads and rows, so that the scores stay in the processor's cache."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from irrun.fast.methods import MethodEntry, choose_method
from irrun.fast.panels import multiply_in_blocks
from irrun.fast.scratch import get_scratch
from irrun.fast.softmax import exponentiate_rows
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import BOOL, F32, Array
from irrun.limits import check_allocation
from irrun.threads import run_parallel

__all__: list[str] = []

#: Number of scores computed at a time.
MAX_SCORES = 1 << 18
#: Minimum number of multiplications per thread.
MIN_PART_PRODUCTS = 3 << 22
MAX_PARTS = 32


def _attend_by_blocks(site: CallSite) -> SpecializedKernel:
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
        keys, values = _repeat_heads(key, query.shape[:-2]), _repeat_heads(value, query.shape[:-2])
        used_mask = None if is_causal else mask
        if not _is_supported(query, keys, values, used_mask) or (scale is not None and scale.size != 1):
            return call_plain(query, key, value, *others)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale.item()
        return attend(query, keys, values, used_mask, factor, is_causal)

    return compute


METHODS = (
    MethodEntry[CallSite](
        "blocks of heads and rows",
        "variable queries, keys and values without a sink",
        lambda site: not site.has_input(5) and all(site.get_constant(i) is None for i in range(3)),
        _attend_by_blocks,
    ),
    MethodEntry[CallSite]("plain", "all others", lambda site: True, lambda site: None),
)


@specializes("ScaledDotProductAttention-13")
def specialize_attention(site: CallSite) -> SpecializedKernel | None:
    """Compute attention in blocks, unless it has a sink."""
    choice = choose_method(METHODS, site)
    site.set_choice(choice)
    kernel: SpecializedKernel | None = choice.entry.create(site)
    return kernel


def _repeat_heads(x: Array, lead: tuple[int, ...]) -> Array:
    """Return a view of keys or values in which dimensions of size 1 are repeated for all heads of queries.

    Other shapes stay as they are.
    """
    matches = x.ndim == len(lead) + 2 and all(a in (1, b) for a, b in zip(x.shape[:-2], lead, strict=True))
    return np.broadcast_to(x, (*lead, *x.shape[-2:])) if matches else x


def _is_supported(query: Array, key: Array, value: Array, mask: Array | None) -> bool:
    if not query.dtype is key.dtype is value.dtype is F32 or query.ndim < 3:
        return False
    lead = query.shape[:-2]
    if key.shape[:-2] != lead or value.shape[:-2] != lead or 0 in query.shape or not value.size:
        return False
    if mask is None:
        return True
    shape = (*query.shape[:-1], key.shape[-2])
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
        Shape [..., H, L, Ev]. Heads are stored side by side if the heads of the query are.
    """
    *lead, heads, length, size = query.shape
    key_length, value_size = value.shape[-2:]
    result = _allocate(query, value_size)
    if mask is not None:
        mask = _convert_mask(mask, (*query.shape[:-1], key_length))
    blocks = _divide((*lead, heads, length), key_length, size + value_size, MAX_SCORES, MIN_PART_PRODUCTS)
    scale = F32.type(factor)
    keys = key.swapaxes(-1, -2)

    def compute_block(number: int) -> None:
        place = blocks[number]
        rows = place[-1]
        queries = get_scratch("queries", *query[place].shape)
        np.multiply(query[place], scale, queries)
        shape = (*queries.shape[:-1], key_length)
        scores = get_scratch("scores", *shape)
        np.matmul(queries, keys[place[:-1]], out=scores)
        if is_causal:
            is_later = np.arange(key_length) > np.arange(rows.start, rows.stop)[:, np.newaxis]
            np.copyto(scores, -np.inf, where=is_later)
        elif mask is not None:
            np.add(scores, mask[place], scores)
        weights = get_scratch("weights", *shape)
        total = exponentiate_rows(scores.reshape(-1, key_length), weights.reshape(-1, key_length))
        target = result[place]
        multiply_in_blocks(weights, value[place[:-1]], target)
        np.divide(target, total.reshape(*shape[:-1], 1), target)

    run_parallel(compute_block, len(blocks))
    return result


def _convert_mask(mask: Array, shape: tuple[int, ...]) -> Array | None:
    """Return a mask of f32 that is broadcast to a shape, or None if it has no effect.

    Exporters pass a scalar 0 as the mask if they need the scale, which is the next input.
    """
    if mask.size == 1 and mask.dtype is F32 and not mask.any():
        return None
    if mask.dtype is BOOL:
        if mask.all():
            return None
        check_allocation(mask.shape, F32)
        mask = np.where(mask, F32.type(0), F32.type(-np.inf))
    return np.broadcast_to(mask, shape)


@functools.lru_cache(maxsize=256)
def _divide(
    shape: tuple[int, ...], key_length: int, inner: int, max_scores: int, min_products: int
) -> list[tuple[Any, ...]]:
    """Return the indices of blocks of about the same size.

    Args:
        shape: [..., H, L].
        key_length: S.
        inner: Multiplications per score.
        max_scores: Scores per block.
        min_products: Minimum multiplications per block, if there are enough scores for several blocks.
    """
    steps: list[int] = []
    space = max_scores // key_length
    for extent in reversed(shape):
        steps.insert(0, max(1, min(extent, space)))
        space //= extent
    # With fewer blocks, threads would wait.
    part_count = min(MAX_PARTS, math.prod(shape) * key_length * inner // min_products)
    while math.prod(_count_steps(shape, steps)) < part_count and max(steps[:-1]) > 1:
        axis = next(i for i, step in enumerate(steps) if step > 1)
        steps[axis] = -(-steps[axis] // 2)
    counts = _count_steps(shape, steps)
    ranges = [
        [slice(extent * i // count, extent * (i + 1) // count) for i in range(count)]
        for extent, count in zip(shape, counts, strict=True)
    ]
    return list(itertools.product(*ranges))


def _count_steps(shape: tuple[int, ...], steps: list[int]) -> list[int]:
    return [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]


def _allocate(query: Array, value_size: int) -> Array:
    """Return the array of the result, with its heads stored like the heads of the query."""
    *lead, heads, length, _ = query.shape
    check_allocation((*lead, heads, length, value_size), F32)
    is_side_by_side = query.strides[-2] > query.strides[-3]
    if not is_side_by_side:
        return np.empty((*lead, heads, length, value_size), F32)
    result = np.empty((*lead, length, heads, value_size), F32)
    swapped: Array = result.swapaxes(-2, -3)
    return swapped
