"""RoPE: rotary positional embeddings, in the variants that OpenVINO fuses."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError, UnsupportedError
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

__all__ = ["rope"]


@op("RoPE", opset="ie_internal_opset", shape="infer_rotary_embedding", flops=3)
def rope(
    data: Array,
    cos: Array,
    sin: Array | None = None,
    *position_inputs: Array,
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
    """Rotate pairs of features by angles that depend on the position.

    Features after the first `rotary_ndims` are not changed. The variants, in order of precedence:

    - `is_qwen`: `data` is [B, L, heads * size], `cos` and `sin` are [1, positions, 1, rotary]. The angles belong
      to the last L positions, or to the selected positions. The result is [B, L, head_cnt, head_size].
    - `is_chatglm`: `data` is [L, B, heads * size], or [B, L, heads * size] if `support_2d_rope` is true. `cos` contains
      pairs (cosine, sine), [.., .., rotary / 2, 2]; if `use_rope_cache` is false, `cos` and `sin` are
      [.., 1, 1, rotary / 2]. Features 2i and 2i + 1 are a pair. The result is [L, B, head_cnt, head_size], or
      [B, head_cnt, L, head_size] if `support_2d_rope` is true.
    - `is_interleaved`: `data` is [B, L, H, S], `cos` is [B, L, rotary] with the sines before the cosines. Features 2i
      and 2i + 1 are a pair.
    - Otherwise `data` is [B, H, L, S], or [B, L, H, S] if `input_trans0213` is true. `cos` and `sin` are broadcast to
      [B, H, L, rotary] or [B, H, L, rotary / 2]. Features i and i + rotary / 2 are a pair.

    Args:
        data: Floating-point, in the shape of the variant.
        cos: Floating-point, the cosines of the angles.
        sin: Floating-point, the sines of the angles.
        *position_inputs: Inputs after `sin`; see `gather_position_arg_id`.
        rotary_ndims: Number of features that are rotated.
        slice_start: First feature of `data` that is used.
        slice_stop: End of the features of `data` that are used; all are used if the range is empty.
        input_trans0213: Whether axes 1 and 2 of `data` are swapped.
        output_trans0213: Whether axes 1 and 2 of the result are swapped; by default the value of `is_interleaved`.
        is_interleaved: Whether neighboring features are a pair.
        is_chatglm: Whether this is the variant of ChatGLM.
        support_2d_rope: Whether the ChatGLM variant has the batch as its first axis.
        support_3d_rope: Not supported.
        use_rope_cache: Whether one input of the ChatGLM variant contains both cosines and sines.
        is_qwen: Whether this is the variant of Qwen.
        is_ltx_video: Not supported.
        head_cnt: Number of heads.
        head_size: Number of features of a head.
        gather_position_arg_id: Index of the input that selects the positions; 0 for none.

    Returns:
        The rotated features, the type of `data`.

    Raises:
        InputError: An input is missing.
        UnsupportedError: `is_ltx_video` or `support_3d_rope` is true.

    Spec:
        Defined by ov_ops/rotary_positional_embeddings.hpp and its shape inference; the meaning of the attributes
        follows from the patterns of fuse_rotary_positional_embeddings.cpp and the CPU plugin's rope.cpp
    """
    if is_ltx_video or support_3d_rope:
        raise UnsupportedError("RoPE with is_ltx_video or support_3d_rope has no published definition")
    dtype = data.dtype
    data, cos, sin = upcast(data), upcast(cos), None if sin is None else upcast(sin)
    if slice_stop > slice_start:
        data = data[..., slice_start:slice_stop]
    positions = _get_positions(position_inputs, gather_position_arg_id)
    if is_qwen:
        x = _split_heads(data, head_cnt, head_size)
        cos, sin = (_get_qwen_rows(table, positions, x.shape[1]) for table in (cos, _require(sin)))
        result = _rotate_halves(x, cos, sin, cos.shape[-1])
    elif is_chatglm:
        x = _split_heads(data, head_cnt, head_size)
        if use_rope_cache:
            table = cos.reshape(*cos.shape[:2], 1, -1, 2)[: x.shape[0], : x.shape[1]]
            cos, sin = table[..., 0], table[..., 1]
        result = _rotate_neighbors(x, cos, _require(sin), rotary_ndims)
        result = result.swapaxes(1, 2) if support_2d_rope else result
    elif is_interleaved:
        sines, cosines = np.split(cos[:, : data.shape[1], None, :], 2, axis=-1)
        result = _rotate_neighbors(data, cosines, sines, rotary_ndims)
        result = result.swapaxes(1, 2) if output_trans0213 in (None, True) else result
    else:
        swap_output = bool(output_trans0213) and not input_trans0213
        x = data.reshape(1, *data.shape) if data.ndim == 3 else data
        x = x.swapaxes(1, 2) if input_trans0213 else x
        cos, sin = (_get_rows(table, positions, x.shape[2]) for table in (cos, _require(sin)))
        result = _rotate_halves(x, cos, sin, rotary_ndims)
        result = result.swapaxes(1, 2) if swap_output else result
        result = result.reshape(result.shape[1:]) if data.ndim == 3 else result
    return result.astype(dtype)


def _require(sin: Array | None) -> Array:
    if sin is None:
        raise InputError("RoPE requires its input 2, the sines")
    return sin


def _get_positions(inputs: tuple[Array, ...], argument: int) -> Array | None:
    """Return the input that selects the positions, or None."""
    if argument <= 0:
        return None
    if not 0 <= argument - 3 < len(inputs):
        raise InputError(f"gather_position_arg_id is {argument}, expected the index of an input after sin")
    return inputs[argument - 3].astype(np.int64)


def _split_heads(data: Array, head_cnt: int, head_size: int) -> Array:
    """Reshape [.., .., heads * size] to [.., .., heads, size]."""
    return data[..., : head_cnt * head_size].reshape(*data.shape[:2], head_cnt, head_size)


def _get_qwen_rows(table: Array, positions: Array | None, length: int) -> Array:
    """Return the rows [B or 1, L, 1, rotary] of a table [1, positions, 1, rotary]."""
    if positions is None:
        return table[:, table.shape[1] - length :]
    index = positions[..., 0].swapaxes(1, 2) if positions.ndim == 4 else positions[:, :, None]
    rows: Array = table[0, :, 0][index]
    return rows


def _get_rows(table: Array, positions: Array | None, length: int) -> Array:
    """Return the rows [B or 1, H or 1, L or 1, rotary] of a table of rank 2 to 4."""
    table = table.reshape((1,) * (4 - table.ndim) + table.shape)
    if positions is None:
        return table[:, :, :length]
    index = positions[..., 0] if positions.ndim == 4 else positions[:, None]
    lead = get_broadcast_shape(table.shape[:2], index.shape[:2])
    table = np.broadcast_to(table, (*lead, *table.shape[2:]))
    index = np.broadcast_to(index, (*lead, index.shape[2]))
    rows: Array = np.take_along_axis(table, index[..., None], axis=2)
    return rows


def _rotate_halves(x: Array, cos: Array, sin: Array, rotary: int) -> Array:
    """Rotate the pairs (i, i + rotary / 2) of the last axis."""
    half = rotary // 2
    first, second = x[..., :half], x[..., half:rotary]
    offset = 0 if cos.shape[-1] == half else half
    rotated = [
        cos[..., :half] * first - sin[..., :half] * second,
        cos[..., offset : offset + half] * second + sin[..., offset : offset + half] * first,
    ]
    return np.concatenate([*rotated, x[..., rotary:]], axis=-1)


def _rotate_neighbors(x: Array, cos: Array, sin: Array, rotary: int) -> Array:
    """Rotate the pairs (2i, 2i + 1) of the last axis."""
    even, odd = x[..., 0:rotary:2], x[..., 1:rotary:2]
    result: Array = x.copy()
    result[..., 0:rotary:2] = cos * even - sin * odd
    result[..., 1:rotary:2] = cos * odd + sin * even
    return result
