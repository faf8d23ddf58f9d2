"""ScaledDotProductAttention."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.flops import count_attention
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

__all__ = ["scaled_dot_product_attention_13"]


@op(
    "ScaledDotProductAttention",
    since=13,
    scratch=3,
    kind="product",
    shape="infer_attention",
    shaped_by=(),
    flops=count_attention,
)
@compute_in_float32
def scaled_dot_product_attention_13(
    query: Array,
    key: Array,
    value: Array,
    attention_mask: Array | None = None,
    scale: Array | None = None,
    sink: Array | None = None,
    *,
    causal: bool = False,
) -> Array:
    """Compute `softmax(query * key^T * scale + attention_mask) * value`.

    Leading dimensions are broadcast as in NumPy. An example in the specification repeats them several times, which
    OpenVINO rejects, too.

    Args:
        query: Floating-point, shape [N, ..., L, E].
        key: The type of `query`, shape [N, ..., S, E].
        value: The type of `query`, shape [N, ..., S, Ev].
        attention_mask: Boolean, where false excludes a position, or a float that is added to the scores; broadcast to
            [N, ..., L, S]. Ignored if `causal` is true.
        scale: Scalar, 1 / sqrt(E) if omitted.
        sink: The type of `query`, broadcast to [N, ..., L, 1]: an additional score in the softmax, without a value.
        causal: Whether position l attends only to positions up to l.

    Returns:
        Shape [N, ..., L, Ev], the type of `query`; NaN for rows with all positions excluded.

    Raises:
        InputError: The shapes do not match.

    Spec:
        ScaledDotProductAttention-13
    """
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1]:
        raise InputError(
            f"query has shape {list(query.shape)} and key {list(key.shape)}, expected [..., L, E] and [..., S, E]"
        )
    factor = 1 / np.sqrt(query.shape[-1]) if scale is None else to_scalar(scale, "scale")
    try:
        scaled = query * query.dtype.type(factor)
        length, key_length = query.shape[-2], key.shape[-2]
        lead = get_broadcast_shape(query.shape[:-2], key.shape[:-2])
        check_allocation((*lead, length, key_length), query.dtype)
        scores = scaled @ key.swapaxes(-1, -2)
        if causal:
            np.copyto(scores, -np.inf, where=np.arange(key_length) > np.arange(length)[:, np.newaxis])
        elif attention_mask is not None:
            scores = _apply_mask(scores, attention_mask)
        result: Array = _softmax(scores, sink) @ value
        return result
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"the shapes of query, key, value, attention_mask and sink do not match: {error}") from None


def _apply_mask(scores: Array, mask: Array) -> Array:
    """Return the masked scores, computed in place if the shape of the mask allows it."""
    if get_broadcast_shape(scores.shape, mask.shape) != scores.shape:
        scores = np.broadcast_to(scores, get_broadcast_shape(scores.shape, mask.shape)).copy()
    if mask.dtype == np.bool_:
        np.copyto(scores, -np.inf, where=~mask)
    else:
        scores += mask
    return scores


def _softmax(scores: Array, sink: Array | None) -> Array:
    """Compute the softmax along the last axis in place; `sink` is an additional score that is not in the result."""
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        if sink.ndim and sink.shape[-1] != 1:
            raise InputError(f"sink has shape {list(sink.shape)}, expected [..., L or 1, 1]")
        highest = np.maximum(highest, sink)
    scores -= highest
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    if sink is not None:
        total += np.exp(sink - highest)
    scores /= total
    return scores
