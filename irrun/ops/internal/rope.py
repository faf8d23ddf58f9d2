"""RoPE: rotary positional embeddings, in the variants that OpenVINO fuses."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError, UnsupportedError
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = ["rope"]


@op("RoPE", opset="ie_internal_opset")
def rope(
    data: Array,
    cos: Array,
    sin: Array | None = None,
    *more: Array,
    rotary_ndims: int = 0,
    slice_start: int = 0,
    slice_stop: int = 0,
    input_trans0213: bool = False,
    output_trans0213: bool | None = None,
    is_interleaved: bool = False,
    is_chatglm: bool = False,
    support_2d_rope: bool = False,
    support_3d_rope: bool = False,
    use_rope_cache: bool = True,
    is_qwen: bool = False,
    is_ltx_video: bool = False,
    head_cnt: int = 0,
    head_size: int = 0,
    gather_position_arg_id: int = 0,
) -> Array:
    """Turns pairs of features by angles that depend on the position, whose cosines and sines are given.

    data: float; its last axis is cut to [slice_start, slice_stop) where that is not empty, and what lies behind
    the first rotary_ndims features passes unchanged. The variants, in the order in which they are looked at:

    - is_qwen: data [B, L, heads*size], cos and sin [1, positions, 1, rotary]; the last L positions, or those
      that the input gather_position_arg_id names. Returns [B, L, head_cnt, head_size].
    - is_chatglm: data [L, B, heads*size], with support_2d_rope [B, L, heads*size]; cos holds pairs (cosine, sine)
      [.., .., rotary/2, 2], or without use_rope_cache cos and sin [.., 1, 1, rotary/2]; features 2i and 2i+1 are
      a pair. Returns [L, B, head_cnt, head_size], with support_2d_rope [B, head_cnt, L, head_size].
    - is_interleaved: data [B, L, H, S], cos [B, L, rotary]: sines, then cosines; features 2i and 2i+1 are a pair.
    - otherwise data [B, H, L, S] (with input_trans0213 [B, L, H, S]), cos and sin broadcast to [B, H, L, rotary]
      or [B, H, L, rotary/2]; features i and i + rotary/2 are a pair.

    With output_trans0213 (files that lack it: with is_interleaved) the result's axes 1 and 2 are exchanged.
    Raises InputError where an input is missing, UnsupportedError for is_ltx_video and support_3d_rope.
    Defined by ov_ops/rotary_positional_embeddings.hpp and its shape inference; what the flags mean is said by
    the patterns of fuse_rotary_positional_embeddings.cpp and the CPU plugin's rope.cpp.
    """
    if is_ltx_video or support_3d_rope:
        raise UnsupportedError("RoPE with is_ltx_video or support_3d_rope has no published definition")
    element_type = data.dtype
    data, cos, sin = upcast(data), upcast(cos), None if sin is None else upcast(sin)
    if slice_stop > slice_start:
        data = data[..., slice_start:slice_stop]
    positions = _position_input(more, gather_position_arg_id)
    if is_qwen:
        x = _heads(data, head_cnt, head_size)
        cos, sin = (_qwen_table(t, positions, x.shape[1]) for t in (cos, _given(sin)))
        result = _turn_halves(x, cos, sin, cos.shape[-1])
    elif is_chatglm:
        x = _heads(data, head_cnt, head_size)
        if use_rope_cache:
            table = cos.reshape(*cos.shape[:2], 1, -1, 2)[: x.shape[0], : x.shape[1]]
            cos, sin = table[..., 0], table[..., 1]
        result = _turn_neighbours(x, cos, _given(sin), rotary_ndims)
        result = result.swapaxes(1, 2) if support_2d_rope else result
    elif is_interleaved:
        sines, cosines = np.split(cos[:, : data.shape[1], None, :], 2, axis=-1)
        result = _turn_neighbours(data, cosines, sines, rotary_ndims)
        result = result.swapaxes(1, 2) if output_trans0213 in (None, True) else result
    else:
        x = data.reshape(1, *data.shape) if data.ndim == 3 else data
        if input_trans0213:
            x = x.swapaxes(1, 2)
        cos, sin = (_table(t, positions, x.shape[2]) for t in (cos, _given(sin)))
        result = _turn_halves(x, cos, sin, rotary_ndims)
        if output_trans0213 and not input_trans0213:
            result = result.swapaxes(1, 2)
        result = result.reshape(result.shape[1:]) if data.ndim == 3 else result
    return result.astype(element_type)


def _given(sin: Array | None) -> Array:
    if sin is None:
        raise InputError("RoPE lacks its input 2, the sines")
    return sin


def _position_input(more: tuple[Array, ...], argument: int) -> Array | None:
    if argument <= 0:
        return None
    if not 0 <= argument - 3 < len(more):
        raise InputError(f"gather_position_arg_id is {argument}, expected an input behind data, cos and sin")
    return more[argument - 3].astype(np.int64)


def _heads(data: Array, head_cnt: int, head_size: int) -> Array:
    """[.., .., heads*size] -> [.., .., heads, size]."""
    return data[..., : head_cnt * head_size].reshape(*data.shape[:2], head_cnt, head_size)


def _qwen_table(table: Array, positions: Array | None, length: int) -> Array:
    """Rows [B or 1, L, 1, rotary] of a table [1, positions, 1, rotary]."""
    if positions is None:
        return table[:, table.shape[1] - length :]
    where = positions[..., 0].swapaxes(1, 2) if positions.ndim == 4 else positions[:, :, None]
    picked: Array = table[0, :, 0][where]
    return picked


def _table(table: Array, positions: Array | None, length: int) -> Array:
    """A table of rank 2 to 4 as [B or 1, H or 1, L or 1, rotary], its rows at `positions` where they are given."""
    table = table.reshape((1,) * (4 - table.ndim) + table.shape)
    if positions is None:
        return table[:, :, :length]
    where = positions[..., 0] if positions.ndim == 4 else positions[:, None]
    lead = np.broadcast_shapes(table.shape[:2], where.shape[:2])
    table = np.broadcast_to(table, (*lead, *table.shape[2:]))
    where = np.broadcast_to(where, (*lead, where.shape[2]))
    picked: Array = np.take_along_axis(table, where[..., None], axis=2)
    return picked


def _turn_halves(x: Array, cos: Array, sin: Array, rotary: int) -> Array:
    half = rotary // 2
    first, second = x[..., :half], x[..., half:rotary]
    offset = 0 if cos.shape[-1] == half else half
    turned = [
        cos[..., :half] * first - sin[..., :half] * second,
        cos[..., offset : offset + half] * second + sin[..., offset : offset + half] * first,
    ]
    return np.concatenate([*turned, x[..., rotary:]], axis=-1)


def _turn_neighbours(x: Array, cos: Array, sin: Array, rotary: int) -> Array:
    even, odd = x[..., 0:rotary:2], x[..., 1:rotary:2]
    result: Array = x.copy()
    result[..., 0:rotary:2] = cos * even - sin * odd
    result[..., 1:rotary:2] = cos * odd + sin * even
    return result
