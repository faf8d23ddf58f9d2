"""ScaledDotProductAttention."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["scaled_dot_product_attention_13"]

#: Rows of the query whose scores are held at a time, at least: enough for BLAS.
ROWS = 32


@op("ScaledDotProductAttention", since=13)
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
    """`softmax(query * key^T * scale + mask) * value`.

    query: float [N, ..., L, E]; key: [N, ..., S, E]; value: [N, ..., S, Ev]. Leading dimensions broadcast as in
    NumPy; repeating them several times, as an example of the specification does, OpenVINO refuses as well.
    attention_mask: boolean (true takes part) or float (added), broadcast to [N, ..., L, S]; with `causal` it is
    ignored, and place l attends to places up to l. scale: scalar, 1 / sqrt(E) where left out.
    sink: broadcast to [N, ..., L, 1], a score that takes its share of the softmax but has no value.
    Returns [N, ..., L, Ev], the type of query; NaN where nothing takes part.
    Raises InputError where the shapes do not fit.
    Spec: ScaledDotProductAttention-13.
    """
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1]:
        raise InputError(
            f"query has shape {list(query.shape)} and key {list(key.shape)}, expected [..., L, E] and [..., S, E]"
        )
    factor = 1 / np.sqrt(query.shape[-1]) if scale is None else to_scalar(scale, "scale")
    try:
        scaled = query * query.dtype.type(factor)
        length, places = query.shape[-2], key.shape[-2]
        per_row = math.prod(np.broadcast_shapes(query.shape[:-2], key.shape[:-2])) * places
        held = query.size + key.size + value.size
        step = max(ROWS, held // max(2 * per_row, 1))  # scores grow with the square of the sequence
        parts = []
        for start in range(0, max(length, 1), step):
            rows = slice(start, start + step)
            scores = scaled[..., rows, :] @ key.swapaxes(-1, -2)
            if causal:
                later = np.arange(places) > np.arange(length)[rows, np.newaxis]
                np.copyto(scores, -np.inf, where=later)
            elif attention_mask is not None:
                scores = _masked(scores, _rows(attention_mask, rows, length))
            parts.append(_softmax(scores, None if sink is None else _rows(sink, rows, length)) @ value)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"query, key, value, mask and sink do not fit together: {error}") from None


def _rows(x: Array, rows: slice, length: int) -> Array:
    """The part of a mask or a sink that belongs to some rows of the query; all of it where it is the same for each."""
    return x[..., rows, :] if x.ndim > 1 and x.shape[-2] == length else x


def _masked(scores: Array, mask: Array) -> Array:
    """The scores with the mask applied, in place where its shape allows."""
    if np.broadcast_shapes(scores.shape, mask.shape) != scores.shape:
        scores = np.broadcast_to(scores, np.broadcast_shapes(scores.shape, mask.shape)).copy()
    if mask.dtype == np.bool_:
        np.copyto(scores, -np.inf, where=~mask)
    else:
        scores += mask
    return scores


def _softmax(scores: Array, sink: Array | None) -> Array:
    """Softmax along the last axis, in place; `sink` is one more score, whose share is dropped."""
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
