"""GroupQueryAttention, the attention of ONNX Runtime with a cache of keys and values."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.checks import check_minimum, check_rank, check_shape
from irrun.ops._support.context import InputShapes
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = ["group_query_attention"]

#: How the scales of quantized caches are shaped.
QuantType = Literal["NONE", "PER_TENSOR", "PER_CHANNEL"]
#: The declared shapes if a kernel is called without a model.
UNDECLARED = InputShapes()
F8 = np.dtype(ml_dtypes.float8_e4m3fn)


def _count_flops(call: Call) -> int:
    """Count two products, and scaling, mask and softmax of the scores. The output has a row of all heads per query."""
    batch, heads, length, size = call.get_shape(0)
    return int(batch * heads * length * call.outputs[1].shape[2] * (4 * size + 7))


@op("GroupQueryAttention", opset="extension", kind="product", shape="infer_group_query_attention", flops=_count_flops)
def group_query_attention(
    query: Array,
    key: Array,
    value: Array,
    past_key: Array,
    past_value: Array,
    seqlens_k: Array,
    total_sequence_length: Array,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    position_ids: Array | None = None,
    attention_bias: Array | None = None,
    head_sink: Array | None = None,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    *reserved: Array | None,
    num_heads: int,
    kv_num_heads: int,
    scale: float,
    do_rotary: bool,
    rotary_interleaved: bool,
    kv_cache_bit_width: int = 0,
    k_quant_type: QuantType = "NONE",
    v_quant_type: QuantType = "NONE",
    local_window_size: int = -1,
    sliding_window_cache: bool = False,
    smooth_softmax: bool = False,
    causal: bool = True,
    input_shapes: InputShapes = UNDECLARED,
) -> tuple[Array, Array, Array]:
    """Compute attention over cached and new keys, and append the new ones to the cache.

    Neighboring heads of the query share a head of the keys and values. The batch has one sequence. Optional inputs
    without elements count as omitted.

    Args:
        query: f32 or f16, shape [1, num_heads, length, size].
        key: The type of `query`, shape [1, kv_num_heads, length, size].
        value: The type and shape of `key`.
        past_key: The cache of keys, shape [1, kv_num_heads, capacity, size]: the type of `query`, or i8, f8e4m3 or u8
            (two values of 4 bits) if it is quantized.
        past_value: The cache of values, as `past_key`.
        seqlens_k: Integer, one value: the number of cached and new tokens, minus 1.
        total_sequence_length: Has no influence.
        cos_cache: The type of `query`, shape [positions, R / 2]: the cosines of the angles of rotation.
        sin_cache: The type and shape of `cos_cache`: the sines.
        position_ids: Integer, `length` values: the positions of new tokens; by default those after the cached ones.
        attention_bias: The type of `query`, shape [1, num_heads or 1, length, n]: added to the scores of the first n
            tokens.
        head_sink: Floating-point, `num_heads` values: an additional score of each head, without a value.
        k_scale: Floating-point, one value, or one for each element of the heads: the scale of a quantized cache.
        v_scale: As `k_scale`.
        reserved: Have no influence.
        num_heads: The number of heads of the query.
        kv_num_heads: The number of heads of the keys and values, which divides `num_heads`.
        scale: Factor of the scores; 0 for `1 / sqrt(size)`.
        do_rotary: Whether to rotate the first R elements of queries and keys.
        rotary_interleaved: Whether neighbors are rotated together, instead of elements of both halves.
        kv_cache_bit_width: 8 or 4 if the cache is quantized, else 0.
        k_quant_type: The shape of `k_scale`.
        v_quant_type: The shape of `v_scale`.
        local_window_size: The number of last tokens, itself included, that a token attends to; -1 for all.
        sliding_window_cache: Whether the cache has the last tokens only, as its capacity allows.
        smooth_softmax: Whether the softmax includes an additional score of 0.
        causal: Whether a token attends to itself and earlier ones only.
        input_shapes: The declared shapes. If `key` and `past_key` have static shapes, the cache has a constant length,
            else it grows.

    Returns:
        The result, shape [1, length, num_heads * size] in the type of `query`, and the new caches.

    Raises:
        InputError: The shapes do not match, or an input is missing.

    Spec:
        Defined by openvino/op/group_query_attention.hpp and group_query_attention_decomposition.cpp
    """
    _check(query, key, past_key, seqlens_k, num_heads, kv_num_heads)
    position_ids, attention_bias, head_sink = (
        None if x is None or not x.size else x for x in (position_ids, attention_bias, head_sink)
    )
    length, size = query.shape[2:]
    past = int(to_scalar(seqlens_k, "seqlens_k")) + 1 - length
    q, k, v = upcast(query), upcast(key), upcast(value)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise InputError("do_rotary requires cos_cache and sin_cache")
        positions = np.arange(past, past + length) if position_ids is None else position_ids.reshape(-1)
        cos, sin = (_take(table, positions, name) for table, name in ((cos_cache, "cos"), (sin_cache, "sin")))
        q, k = _rotate(q, cos, sin, rotary_interleaved), _rotate(k, cos, sin, rotary_interleaved)
    key_codec = _Codec(past_key, query, k_scale, k_quant_type, kv_cache_bit_width, kv_num_heads)
    value_codec = _Codec(past_value, query, v_scale, v_quant_type, kv_cache_bit_width, kv_num_heads)
    new = key_codec.encode(k), value_codec.encode(v)
    if sliding_window_cache:
        resident = _find_end(past, past_key.shape[2], local_window_size)
        kept = _find_end(past + length, past_key.shape[2], local_window_size)
        keys = np.concatenate([past_key[:, :, :resident], new[0]], axis=2)
        values = np.concatenate([past_value[:, :, :resident], new[1]], axis=2)
        present = _keep_last(keys, kept, past_key.shape[2]), _keep_last(values, kept, past_key.shape[2])
        first = past - resident
    else:
        is_buffer = input_shapes.are_static(1, 3)
        keys = _append(past_key, new[0], past, is_buffer=is_buffer)
        values = _append(past_value, new[1], past, is_buffer=is_buffer)
        present, resident, first = (keys, values), past, 0
    scores = _make_mask(length, keys.shape[2], resident, causal, local_window_size)
    if attention_bias is not None:
        scores = scores + _fit_bias(upcast(attention_bias), first, keys.shape[2])
    sink = np.zeros(num_heads, np.float32) if smooth_softmax and head_sink is None else head_sink
    k, v = key_codec.decode(keys), value_codec.decode(values)
    factor = scale or 1 / np.sqrt(size)
    result = _attend(q * np.float32(factor), k, v, scores, None if sink is None else upcast(sink).reshape(-1))
    output = result.transpose(0, 2, 1, 3).reshape(len(result), length, -1)
    return output.astype(query.dtype), present[0], present[1]


def _check(query: Array, key: Array, past_key: Array, seqlens_k: Array, num_heads: int, kv_num_heads: int) -> None:
    for name, x in (("query", query), ("key", key), ("past_key", past_key)):
        check_rank(name, x, 4)
    check_minimum("kv_num_heads", kv_num_heads, 1)
    if num_heads % kv_num_heads:
        raise InputError(f"num_heads is {num_heads}, expected a multiple of kv_num_heads ({kv_num_heads})")
    if seqlens_k.size != 1:
        raise InputError(f"seqlens_k has {seqlens_k.size} values, expected one: OpenVINO supports only one sequence")
    check_shape("query", query, query.shape[0], num_heads, *query.shape[2:])
    check_shape("key", key, query.shape[0], kv_num_heads, *query.shape[2:])


def _take(table: Array, positions: Array, name: str) -> Array:
    """Return the rows of a table of angles."""
    if positions.size and not 0 <= positions.min() <= positions.max() < len(table):
        raise InputError(f"positions are {positions.min()} to {positions.max()}, {name}_cache has only {len(table)}")
    result: Array = upcast(table)[positions]
    return result


def _rotate(x: Array, cos: Array, sin: Array, is_interleaved: bool) -> Array:
    """Rotate pairs among the first elements of vectors."""
    half = cos.shape[-1]
    if 2 * half > x.shape[-1]:
        raise InputError(f"cos_cache has {half} angles, expected at most half of the size {x.shape[-1]} of the heads")
    first = slice(0, 2 * half, 2) if is_interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if is_interleaved else slice(half, 2 * half)
    result: Array = x.copy()
    result[..., first] = x[..., first] * cos - x[..., second] * sin
    result[..., second] = x[..., second] * cos + x[..., first] * sin
    return result


class _Codec:
    """Converts keys or values to the type of a cache and back.

    Args:
        cache: The cache.
        query: The query. Caches without quantization have its type.
        scale: The scale, or None.
        quant_type: The shape of the scale.
        bits: The number of bits of a value, or 0.
        heads: The number of heads.
    """

    def __init__(
        self, cache: Array, query: Array, scale: Array | None, quant_type: QuantType, bits: int, heads: int
    ) -> None:
        self._dtype = cache.dtype
        self._bits = bits if quant_type != "NONE" else 0
        if not self._bits:
            return
        if scale is None:
            raise InputError("a quantized cache requires k_scale and v_scale")
        shape = (1, heads, 1, -1) if quant_type == "PER_CHANNEL" else (1, 1, 1, 1)
        self._scale = upcast(scale).reshape(shape)

    def encode(self, x: Array) -> Array:
        """Return values as the cache stores them."""
        if not self._bits:
            return x.astype(self._dtype)
        scaled = x * (np.float32(1) / np.where(self._scale == 0, np.float32(1), self._scale))
        if self._dtype == F8:
            return np.asarray(np.clip(scaled, -448, 448).astype(F8))
        if self._bits == 4:
            codes: Array = (np.clip(np.rint(scaled), -8, 7) + 8).astype(self._dtype)
            return codes[..., 0::2] & 15 | codes[..., 1::2] << 4
        return np.asarray(np.clip(np.rint(scaled), -128, 127).astype(np.int8).astype(self._dtype))

    def decode(self, x: Array) -> Array:
        """Return the values of a cache in f32."""
        if not self._bits:
            return upcast(x)
        if self._bits == 4:
            codes = np.stack([x & 15, x >> 4], axis=-1).reshape(*x.shape[:-1], -1)
            return np.multiply(codes.astype(np.float32) - 8, self._scale)
        return np.multiply(x.astype(np.float32), self._scale)


def _append(cache: Array, new: Array, past: int, *, is_buffer: bool) -> Array:
    """Return a cache with new tokens: in a buffer of constant length, or after the tokens that are used."""
    stop = past + new.shape[2]
    if past < 0 or past > cache.shape[2] or (is_buffer and stop > cache.shape[2]):
        raise InputError(f"the cache has {cache.shape[2]} tokens, expected {stop if is_buffer else past}")
    if not is_buffer:
        return np.concatenate([cache[:, :, :past], new], axis=2)
    result: Array = cache.copy()
    result[:, :, past:stop] = new
    return result


def _find_end(length: int, capacity: int, window: int) -> int:
    """Return how many tokens a cache holds that is emptied by blocks, down to the window, when it is full."""
    if length <= capacity:
        return length
    gap = max(capacity - window + 1, 1)
    return length - gap * -(-(length - capacity) // gap)


def _keep_last(x: Array, count: int, capacity: int) -> Array:
    """Return a cache with the last tokens at its start."""
    result = np.zeros((*x.shape[:2], capacity, *x.shape[3:]), x.dtype)
    result[:, :, :count] = x[:, :, x.shape[2] - count :]
    return result


def _make_mask(length: int, keys: int, past: int, is_causal: bool, window: int) -> Array:
    """Return the mask to add to the scores [length, keys]: the lowest number where a token is not attended to."""
    positions = np.arange(keys)
    if is_causal:
        distance = np.arange(past, past + length)[:, np.newaxis] - positions
        masked = distance < 0
        if window >= 1:
            masked |= distance >= window
    else:
        masked = (positions >= past + length)[np.newaxis]
    return np.asarray(np.where(masked, np.finfo(np.float32).min, np.float32(0)))


def _fit_bias(bias: Array, first: int, count: int) -> Array:
    """Return the bias of the tokens in the cache, 0 for those without one."""
    part = bias[..., first : first + count]
    return np.pad(part, [(0, 0)] * (bias.ndim - 1) + [(0, count - part.shape[-1])])


def _attend(query: Array, key: Array, value: Array, mask: Array, sink: Array | None) -> Array:
    """Compute attention, where neighboring heads of the query share a head of the keys and values."""
    batch, heads, length, size = query.shape
    groups = key.shape[1]
    check_allocation((batch, heads, length, key.shape[2]), query.dtype)
    grouped = query.reshape(batch, groups, heads // groups, length, size)
    scores = (grouped @ key[:, :, np.newaxis].swapaxes(-1, -2)).reshape(batch, heads, length, -1) + mask
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        check_shape("head_sink", sink, heads)
        highest = np.maximum(highest, sink[:, np.newaxis, np.newaxis])
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink[:, np.newaxis, np.newaxis] - highest)
    weights = (weights / total).reshape(batch, groups, heads // groups, length, -1)
    result: Array = weights @ value[:, :, np.newaxis]
    return result.reshape(batch, heads, length, -1)
