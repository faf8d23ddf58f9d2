"""Conformance cases for RoPE."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.internal import F32, HALF, create_constant, make_case, sample_normal
from irrun.conformance.layers import compute_nodes


def rotate_half(ops, x, cos, sin, rotary):
    """Return `x * cos + concat(-second half, first half) * sin`. Features after `rotary` are unchanged."""
    half = rotary // 2
    lengths = np.array([half, half, x.shape[-1] - rotary])
    first, second, unrotated = ops.variadic_split(create_constant(ops, x), np.array(-1), lengths).outputs()
    rotated = ops.concat([first, second], -1) * cos + ops.concat([ops.negative(second), first], -1) * sin
    return ops.concat([rotated, unrotated], -1) if x.shape[-1] > rotary else rotated


def rotate_pairs(ops, x, cos, sin, rotary):
    """Rotate features 2i and 2i+1 as pairs. cos and sin hold one value per pair."""
    pairs = ops.reshape(create_constant(ops, x[..., :rotary]), np.array((*x.shape[:-1], rotary // 2, 2)), False)
    even, odd = ops.split(pairs, np.array(-1), 2).outputs()
    last = np.array([-1])
    cos, sin = ops.unsqueeze(cos, last), ops.unsqueeze(sin, last)
    even, odd = ops.convert(even, "f32"), ops.convert(odd, "f32")
    rotated = ops.concat([even * cos - odd * sin, odd * cos + even * sin], -1)
    rotated = ops.reshape(rotated, np.array((*x.shape[:-1], rotary)), False)
    return ops.concat([rotated, create_constant(ops, x[..., rotary:])], -1) if x.shape[-1] > rotary else rotated


DEFAULT_FLAGS = (
    "slice_start",
    "slice_stop",
    "input_trans0213",
    "output_trans0213",
    "is_interleaved",
    "rotary_ndims",
    "is_chatglm",
    "support_2d_rope",
    "is_qwen",
    "head_cnt",
    "head_size",
    "gather_position_arg_id",
)


def make_flags(**overrides):
    """Return all flags as OpenVINO writes them, by default with their default values."""
    switches = ("input_trans0213", "output_trans0213", "support_2d_rope")
    defaults = {name: False if name.startswith("is_") or name in switches else 0 for name in DEFAULT_FLAGS}
    return defaults | overrides


@register_cases("RoPE", since=0)
def rope(rng):
    from openvino import opset13 as ops

    def make_rope_case(inputs, attributes, result, **options):
        return make_case("RoPE", "ie_internal_opset", inputs, attributes, compute_nodes(result), **options)

    exchange = np.array([0, 2, 1, 3])
    B, H, L, S = 2, 3, 4, 8
    for rotary, transposed, sliced in product((8, 4), (False, True), (False, True)):
        width = S + 4 if sliced else S
        x = sample_normal(rng, B, L, H, width) if transposed else sample_normal(rng, B, H, L, width)
        cos, sin = sample_normal(rng, 1, 1, L, rotary), sample_normal(rng, 1, 1, L, rotary)
        used = x[..., 2 : 2 + S] if sliced else x
        used = used.swapaxes(1, 2) if transposed else used
        result = rotate_half(ops, used, create_constant(ops, cos), create_constant(ops, sin), rotary)
        attributes = make_flags(rotary_ndims=rotary, input_trans0213=transposed)
        if sliced:
            attributes |= {"slice_start": 2, "slice_stop": 2 + S}
        yield make_rope_case([x, cos, sin], attributes, result)
        prefixed = {f"config.{name}": value for name, value in attributes.items()}
        yield make_case("RoPE", "ie_internal_opset", [x, cos, sin], prefixed, compute_nodes(result))
    x = sample_normal(rng, B, H, L, S)
    for shape in [(L, S), (1, L, S), (B, 1, L, S), (B, H, L, S), (1, 1, 1, S)]:
        cos, sin = sample_normal(rng, *shape), sample_normal(rng, *shape)
        result = rotate_half(ops, x, create_constant(ops, cos), create_constant(ops, sin), S)
        yield make_rope_case([x, cos, sin], make_flags(rotary_ndims=S), result, note="shape of cos and sin")
    half_x, (cos, sin) = x.astype(np.float16), (sample_normal(rng, L, S), sample_normal(rng, L, S))
    result = ops.convert(
        rotate_half(ops, half_x.astype(F32), create_constant(ops, cos), create_constant(ops, sin), S), "f16"
    )
    yield make_rope_case([half_x, cos, sin], make_flags(rotary_ndims=S), result, tolerance=HALF, note="f16")
    cos, sin = sample_normal(rng, 1, 1, L, S // 2), sample_normal(rng, 1, 1, L, S // 2)
    both = [ops.concat([create_constant(ops, t), create_constant(ops, t)], -1) for t in (cos, sin)]
    yield make_rope_case(
        [x, cos, sin],
        make_flags(rotary_ndims=S),
        rotate_half(ops, x, both[0], both[1], S),
        note="tables of half the size",
    )
    flat = x[0]
    result = ops.reshape(rotate_half(ops, x[:1], both[0], both[1], S), np.array([H, L, S]), False)
    yield make_rope_case([flat, cos, sin], make_flags(rotary_ndims=S), result, note="rank 3")
    cos, sin = sample_normal(rng, 1, 1, 10, S), sample_normal(rng, 1, 1, 10, S)
    positions = rng.integers(0, 10, (B, L)).astype(np.int32)
    for position_input in (positions, positions[:, None, :, None]):
        rows = [create_constant(ops, t[0, 0][positions][:, None]) for t in (cos, sin)]
        result = rotate_half(ops, x, rows[0], rows[1], S)
        attributes = make_flags(rotary_ndims=S, gather_position_arg_id=3)
        yield make_rope_case([x, cos, sin, position_input], attributes, result, note="positions")
    for rotary, output_trans0213 in product((8, 4), (True, False)):
        x = sample_normal(rng, B, L, H, S)
        sin_cos = sample_normal(rng, B, L, rotary)
        half = rotary // 2
        sin, cos = (create_constant(ops, t[:, :, None]) for t in (sin_cos[..., :half], sin_cos[..., half:]))
        result = rotate_pairs(ops, x, cos, sin, rotary)
        result = ops.transpose(result, exchange) if output_trans0213 else result
        attributes = make_flags(rotary_ndims=rotary, is_interleaved=True, output_trans0213=output_trans0213)
        yield make_rope_case([x, sin_cos, sin_cos], attributes, result, note="interleaved")
    for rotary, start, planar in product((8, 4), (0, 5), (False, True)):
        lead = (B, L) if planar else (L, B)
        x = sample_normal(rng, *lead, start + H * S + 3)
        cos_sin = sample_normal(rng, *lead, rotary // 2, 2)
        used = x[..., start : start + H * S].reshape(*lead, H, S)
        cos, sin = (create_constant(ops, cos_sin[:, :, None, :, k]) for k in (0, 1))
        result = rotate_pairs(ops, used, cos, sin, rotary)
        result = ops.transpose(result, exchange) if planar else result
        attributes = make_flags(
            rotary_ndims=rotary,
            is_chatglm=True,
            support_2d_rope=planar,
            head_cnt=H,
            head_size=S,
            slice_start=start,
            slice_stop=start + H * S,
        )
        yield make_rope_case([x, cos_sin, cos_sin], attributes, result, note="ChatGLM")
    for rotary, start, gathered in product((8, 4), (0, 24), (False, True)):
        x = sample_normal(rng, B, L, 3 * H * S)
        cos, sin = sample_normal(rng, 1, 10, 1, rotary), sample_normal(rng, 1, 10, 1, rotary)
        used = x[..., start : start + H * S].reshape(B, L, H, S)
        where = positions if gathered else np.broadcast_to(np.arange(10 - L, 10), (B, L))
        rows = [create_constant(ops, t[0, :, 0][where][:, :, None]) for t in (cos, sin)]
        result = rotate_half(ops, used, rows[0], rows[1], rotary)
        attributes = make_flags(
            rotary_ndims=rotary,
            is_qwen=True,
            head_cnt=H,
            head_size=S,
            slice_start=start,
            slice_stop=start + H * S,
            gather_position_arg_id=3 if gathered else 0,
        )
        inputs = [x, cos, sin] + ([positions] if gathered else [])
        yield make_rope_case(inputs, attributes, result, note="Qwen")
