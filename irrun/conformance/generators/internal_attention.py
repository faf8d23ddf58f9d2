"""Conformance cases for GroupQueryAttention and PagedAttentionExtension, registered as version 0.

OpenVINO cannot read them from files, so they are compared with their steps as standard operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.internal import HALF, create_constant, make_case, sample_normal
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


#: New tokens, tokens in the caches, heads, key heads, the sizes of keys and values, the size of blocks, and options.
PAGED: list[tuple[list[int], list[int], int, int, int, int, int, dict[str, Any]]] = [
    ([3], [0], 2, 2, 4, 4, 4, {}),
    ([3, 2], [5, 0], 4, 2, 4, 4, 4, {}),
    ([1, 1, 1], [7, 3, 12], 4, 1, 4, 6, 4, {}),
    ([2, 0, 1], [6, 2, 1], 3, 3, 2, 2, 3, {}),
    ([4, 3], [2, 9], 2, 1, 4, 4, 5, {"sliding_window": 3}),
    ([2, 2], [3, 4], 2, 2, 4, 4, 4, {"alibi_slopes": [0.5, 0.25]}),
    ([3, 1], [1, 8], 2, 1, 4, 4, 4, {"sinks": [1.0, -0.5]}),
    ([3, 2], [4, 1], 2, 2, 4, 4, 8, {"scale": 0.9, "windows": [2, 1]}),
]


@register_cases("PagedAttentionExtension", since=0)
def paged_attention_extension(rng):
    from openvino import opset13 as ops

    for lengths, past, heads, groups, size, value_size, block, options in PAGED:
        tokens, count = sum(lengths), 9
        q, k, v = (sample_normal(rng, tokens, n) for n in (heads * size, groups * size, groups * value_size))
        keys, values = (sample_normal(rng, count, groups, block, n) for n in (size, value_size))
        used = [-(-(a + b) // block) for a, b in zip(lengths, past, strict=True)]
        order = rng.permutation(count)[: sum(used)].astype(np.int32)
        begins, block_begins = (np.cumsum([0, *x]).astype(np.int32) for x in (lengths, used))
        scale, window = options.get("scale", size**-0.5), options.get("sliding_window", 0)
        outputs, sums = [], []
        for s, (length, old) in enumerate(zip(lengths, past, strict=True)):
            own, part = order[block_begins[s] : block_begins[s + 1]], slice(begins[s], begins[s + 1])
            if not length:
                sums.append(create_constant(ops, np.zeros(old, F32)))
                continue
            nodes = [_join(ops, rng_part[own], x[part], old, groups) for rng_part, x in ((keys, k), (values, v))]
            nodes = [_repeat(ops, x, heads // groups) for x in nodes]
            query = create_constant(ops, q[part].reshape(1, length, heads, size).transpose(0, 2, 1, 3))
            distance = np.arange(old, old + length)[:, None] - np.arange(old + length)
            mask = np.where((distance < 0) | (distance >= window) & (window > 0), -1e30, 0.0)[None, None]
            slopes = np.array(options.get("alibi_slopes", [0.0] * heads))
            mask = mask - slopes[None, :, None, None] * np.maximum(distance, 0)
            outputs.append(_attend(ops, query, nodes[0], nodes[1], mask, scale, options.get("sinks")))
            size_of_window = options.get("windows", [1] * len(lengths))[s]
            identity = np.broadcast_to(np.eye(old + length, dtype=F32), (1, heads, old + length, old + length))
            weights = _attend(ops, query, nodes[0], create_constant(ops, identity), mask, scale, options.get("sinks"))
            last = create_constant(ops, np.arange(max(length - size_of_window, 0), length))
            chosen = ops.gather(weights, last, create_constant(ops, 1))
            shape = create_constant(ops, np.array([-1, old + length]))
            sums.append(ops.reduce_sum(ops.reshape(chosen, shape, False), np.array([0]), False))
        result, scores = compute_nodes(ops.concat(outputs, 1), ops.concat(sums, 0))
        inputs = [q, k, v, keys, values, np.array(past, np.int32), begins, order, block_begins]
        inputs += [np.array(scale, F32), np.array(window, np.int32), F32(options.get("alibi_slopes", []))]
        inputs += [np.array(max(past), np.int32), np.array(options.get("windows", []), np.int32)]
        inputs += [np.zeros(0, x) for x in (np.int32, np.int32, F32, F32)] + [np.array(0, np.int32)] * 2
        inputs += [F32(options.get("sinks", [])), np.array(0, np.int32), *[np.zeros(0, np.int32)] * 4]
        inputs += [np.zeros(0, np.uint8), np.zeros(0, np.int32)]
        expected = [result[0], scores]
        yield make_case(
            "PagedAttentionExtension", "extension", inputs, {"write_kv_cache": True}, expected, tolerance=(2e-5, 4e-6)
        )


def _join(ops, blocks, new, old, groups):
    """Return [1, groups, old + new tokens, size] as a node."""
    cached = ops.reshape(
        ops.transpose(create_constant(ops, blocks), np.array([0, 2, 1, 3])), np.array([-1, *blocks.shape[1::2]]), False
    )
    cached = ops.gather(cached, create_constant(ops, np.arange(old)), create_constant(ops, 0))
    joined = ops.concat([cached, create_constant(ops, new.reshape(len(new), groups, -1))], 0)
    return ops.unsqueeze(ops.transpose(joined, np.array([1, 0, 2])), np.array([0]))
