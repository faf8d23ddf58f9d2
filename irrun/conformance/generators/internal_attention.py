"""Conformance cases for GroupQueryAttention, registered as version 0.

OpenVINO cannot read it from files, so it is compared with its steps as standard operations.
"""

from __future__ import annotations

import numpy as np

from irrun.conformance.generators.internal import HALF, create_constant, make_case, sample_normal
from irrun.conformance.harness import register_cases
from irrun.conformance.layers import compute_nodes

F32 = np.float32
NOTHING = np.zeros(0, F32)


def _rotate(ops, x, angles):
    """Rotate the pairs (x[i], x[i + n / 2]) of the last axis as nodes."""
    first, second = ops.split(x, create_constant(ops, -1), 2).outputs()
    cos, sin = create_constant(ops, np.cos(angles)), create_constant(ops, np.sin(angles))
    left = ops.subtract(ops.multiply(first, cos), ops.multiply(second, sin))
    right = ops.add(ops.multiply(second, cos), ops.multiply(first, sin))
    return ops.concat([left, right], -1)


def _attend(ops, q, k, v, mask, scale, sink):
    """Compute attention of heads [1, H, length, size] as nodes; `sink` is a further score."""
    scores = ops.matmul(q, k, False, True) * create_constant(ops, F32(scale)) + create_constant(ops, mask.astype(F32))
    heads, length = (scores.get_output_shape(0)[i] for i in (1, 2))
    if sink is None:
        weights = ops.softmax(scores, 3)
    else:
        column = create_constant(ops, np.broadcast_to(F32(sink).reshape(1, -1, 1, 1), (1, heads, length, 1)))
        weights = ops.softmax(ops.concat([scores, column], 3), 3)
        last = create_constant(ops, np.array([-1]))
        weights = ops.slice(
            weights, create_constant(ops, np.array([0])), last, create_constant(ops, np.array([1])), last
        )
    result = ops.transpose(ops.matmul(weights, v, False, False), np.array([0, 2, 1, 3]))
    return ops.reshape(result, create_constant(ops, np.array([0, 0, -1])), True)


def _quantize(ops, x, scale):
    """Return values in i8 as nodes."""
    steps = ops.round(x / create_constant(ops, scale), "half_to_even")
    return ops.convert(ops.clamp(steps, -128.0, 127.0), "i8")


def _repeat(ops, x, count):
    """Repeat heads [1, G, length, size] as nodes."""
    heads = np.repeat(np.arange(x.get_output_shape(0)[1]), count)
    return ops.gather(x, create_constant(ops, heads), create_constant(ops, 1))


def _make_case(rng, heads, groups, size, length, past, *, dtype=F32, **options):
    from openvino import opset13 as ops

    window, causal = options.get("local_window_size", -1), options.get("causal", True)
    scale, do_rotary = options.get("scale", 0.0), options.get("do_rotary", True)
    q, k, v = (sample_normal(rng, 1, n, length, size, dtype=dtype) for n in (heads, groups, groups))
    angles = sample_normal(rng, past + length, size // 2)
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    is_quantized = options.get("k_quant_type", "NONE") != "NONE"
    capacity = past + length + options.pop("unused", 0)
    caches = [sample_normal(rng, 1, groups, capacity, size, dtype=dtype) for _ in range(2)]
    scales = [F32([0.02]), F32([0.03])]
    if is_quantized:
        caches = [rng.integers(-100, 100, x.shape).astype(np.int8) for x in caches]
    nodes = [create_constant(ops, x.astype(F32)) for x in (q, k, v)]
    if do_rotary:
        nodes = [*(_rotate(ops, x, angles[past:]) for x in nodes[:2]), nodes[2]]
    new = [_quantize(ops, x, s) for x, s in zip(nodes[1:], scales, strict=True)] if is_quantized else nodes[1:]
    old = [create_constant(ops, x[:, :, :past] if is_quantized else x[:, :, :past].astype(F32)) for x in caches]
    present = [ops.concat([a, b], 2) for a, b in zip(old, new, strict=True)]
    keys = present
    if is_quantized:
        keys = [ops.convert(x, "f32") * create_constant(ops, s) for x, s in zip(present, scales, strict=True)]
    keys = [_repeat(ops, x, heads // groups) for x in keys]
    distance = np.arange(past, past + length)[:, None] - np.arange(past + length)
    masked = (distance < 0) & causal | (distance >= window) & (window > 0)
    mask = np.where(masked, -1e30, 0.0)
    bias = options.pop("bias", None)
    sink = options.pop("sink", 0.0 if options.get("smooth_softmax") else None)
    if bias is not None:
        mask = mask + bias
    result = _attend(ops, nodes[0], keys[0], keys[1], mask, scale or size**-0.5, sink)
    output, *parts = compute_nodes(result, *present)
    rest = [x[:, :, past + length :] for x in caches]  # shapes are static, so that the caches are buffers
    expected = [output.astype(dtype)]
    expected += [np.concatenate([x.astype(y.dtype), y], axis=2) for x, y in zip(parts, rest, strict=True)]
    inputs = [q, k, v, *caches, np.array([[past + length - 1]], np.int32), np.array([past + length], np.int32), *tables]
    inputs += [NOTHING, NOTHING if bias is None else bias, F32(sink) if isinstance(sink, list) else NOTHING]
    inputs += scales if is_quantized else []
    attributes = {"num_heads": heads, "kv_num_heads": groups, "scale": scale, "do_rotary": do_rotary}
    attributes |= {"rotary_interleaved": False} | {k: v for k, v in options.items() if k not in attributes}
    tolerance = (2e-5, 4e-6) if dtype == F32 else HALF
    return make_case("GroupQueryAttention", "extension", inputs, attributes, expected, tolerance=tolerance)


@register_cases("GroupQueryAttention", since=0)
def group_query_attention(rng):
    yield _make_case(rng, 2, 2, 4, 3, 0)
    yield _make_case(rng, 4, 2, 8, 3, 5)
    yield _make_case(rng, 4, 1, 4, 1, 7)
    yield _make_case(rng, 2, 1, 4, 2, 3, unused=4)
    yield _make_case(rng, 4, 2, 4, 5, 2, do_rotary=False, scale=0.3)
    yield _make_case(rng, 4, 2, 8, 3, 5, local_window_size=3)
    yield _make_case(rng, 2, 2, 4, 4, 2, causal=False)
    yield _make_case(rng, 3, 1, 4, 4, 2, smooth_softmax=True)
    yield _make_case(rng, 2, 1, 4, 3, 2, sink=[0.5, -1.0])
    yield _make_case(rng, 2, 1, 4, 3, 2, bias=sample_normal(rng, 1, 2, 3, 5))
    quantized = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    yield _make_case(rng, 4, 2, 4, 3, 2, **quantized)
    yield _make_case(rng, 2, 1, 4, 3, 5, dtype=np.float16)
