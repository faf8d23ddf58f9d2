"""VLSDPA, attention within sequences of different lengths."""

from __future__ import annotations

import itertools

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops.sequence.attention import scaled_dot_product_attention_13

__all__ = ["vlsdpa"]


@op("VLSDPA", opset="ie_internal_opset", kind="product", shape="infer_variable_length_attention")
@compute_in_float32
def vlsdpa(
    query: Array,
    key: Array,
    value: Array,
    cu_seqlens: Array,
    *,
    order_q: list[int] = [],
    order_k: list[int] = [],
    order_v: list[int] = [],
    order_out: list[int] = [],
) -> Array:
    """Compute ScaledDotProductAttention-13 within each of the sequences that are joined along the axis of the tokens.

    Args:
        query: Floating-point, shape [..., heads, tokens, size] after `order_q`.
        key: The type of `query`, shape [..., heads, tokens, size] after `order_k`.
        value: The type of `query`, shape [..., heads, tokens, size] after `order_v`.
        cu_seqlens: Integer, shape [n + 1]: 0, and the tokens up to the end of each sequence.
        order_q: The axes that `query` is transposed to; by default, it is not transposed.
        order_k: As `order_q`.
        order_v: As `order_q`.
        order_out: The axes that the result is transposed to.

    Returns:
        The shape of the transposed query, transposed by `order_out`, and the type of `query`. Tokens outside of all
        sequences give 0.

    Raises:
        InputError: The shapes do not match, or the lengths are not ascending.

    Spec:
        Defined by ov_ops/vl_sdpa.hpp and sdpa_to_vlsdpa.cpp
    """
    q, k, v = (_transpose(x, order) for x, order in ((query, order_q), (key, order_k), (value, order_v)))
    if min(x.ndim for x in (q, k, v)) < 2:
        raise InputError(f"query has shape {list(q.shape)}, expected [..., tokens, size]")
    ends = cu_seqlens.reshape(-1).tolist()
    if any(b < a for a, b in itertools.pairwise(ends)) or (ends and not 0 <= ends[0] <= ends[-1] <= q.shape[-2]):
        raise InputError(f"cu_seqlens is {ends}, expected ascending values in [0, {q.shape[-2]}]")
    result = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    for start, end in itertools.pairwise(ends):
        if end > start:
            part = (..., slice(start, end), slice(None))
            result[part] = scaled_dot_product_attention_13(q[part], k[part], v[part])
    return _transpose(result, order_out)


def _transpose(x: Array, order: list[int]) -> Array:
    if not order:
        return x
    if sorted(order) != list(range(x.ndim)):
        raise InputError(f"found the order {order} of axes for the shape {list(x.shape)}")
    result: Array = x.transpose(order)
    return result
