"""Conformance cases for the operations outside the numbered opsets, registered as version 0.

OpenVINO cannot read most of them, so each is compared with a decomposition into standard operations.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from irrun.conformance.harness import COMPUTE, Case, build_model, register_cases, run_on_device
from irrun.conformance.layers import compute_nodes, define_layer

F32 = np.float32
CLOSE = (1e-5, 2e-6)
HALF = (4e-3, 2e-3)


def make_case(type, opset, inputs, attributes, expected, constants=(), tolerance=CLOSE, note=""):
    """Return a case of one layer of `type` with the outputs `expected`."""
    return Case(
        inputs,
        attributes,
        constants=constants,
        tolerance=tolerance,
        expected=expected,
        build=define_layer(type, opset, inputs, attributes, expected, constants),
        is_readable=False,
        note=note,
    )


def sample_normal(rng, *shape, dtype=F32):
    return rng.normal(size=shape).astype(dtype)


def create_constant(ops, x):
    """Return a Constant node."""
    return ops.constant(np.asarray(x))


@register_cases("RMSNorm", since=0)
def rms_norm(rng):
    from openvino import opset13 as ops

    for shape, axes, scale_shape, epsilon in [
        ((8,), [-1], None, 1e-5),
        ((2, 3), [-1], (3,), 1e-5),
        ((2, 3, 4), [1], None, 1e-3),
        ((2, 3, 4), [0, 2], (1,), 1e-6),
        ((2, 2, 2, 3), [3, -3], (2, 2, 3), 1e-5),
        ((1, 3, 3, 3), [3], (1, 1, 1, 3), 0.5),
        ((1, 64), -1, (64,), 1e-12),
        ((5, 1, 2), [1], None, 1e-5),
    ]:
        x = sample_normal(rng, *shape)
        scale = None if scale_shape is None else sample_normal(rng, *scale_shape)
        mean = ops.reduce_mean(create_constant(ops, x) * create_constant(ops, x), np.array(axes), True)
        result = create_constant(ops, x) / ops.sqrt(mean + create_constant(ops, F32(epsilon)))
        if scale is not None:
            result = result * create_constant(ops, scale)
        inputs = [x, np.array(axes)] if scale is None else [x, np.array(axes), scale]
        attributes = {"epsilon": epsilon, "compute_type": "undefined"}
        yield make_case("RMSNorm", "extension", inputs, attributes, compute_nodes(result), constants=(1,))


@register_cases("RMS", since=0)
def rms(rng):
    from openvino import opset13 as ops

    for shape, gamma_shape, epsilon in [
        ((2, 3, 8), (8,), 1e-5),
        ((1, 16), (1,), 1e-6),
        ((4,), (4,), 0.1),
        ((2, 2, 2, 5), (1, 1, 1, 5), 1e-5),
        ((3, 7), None, 1e-5),
        ((1, 5, 64), (64,), 1e-12),
    ]:
        x = sample_normal(rng, *shape)
        gamma = None if gamma_shape is None else sample_normal(rng, *gamma_shape)
        mean = ops.reduce_mean(create_constant(ops, x) * create_constant(ops, x), np.array([-1]), True)
        result = create_constant(ops, x) / ops.sqrt(mean + create_constant(ops, F32(epsilon)))
        if gamma is not None:
            result = result * create_constant(ops, gamma)
        for output_type in ("dynamic", "undefined", "f32"):
            attributes = {
                "epsilon": epsilon,
                "output_type": output_type,
                "elementwise_affine": gamma is not None,
            }
            inputs = [x] if gamma is None else [x, gamma]
            yield make_case("RMS", "ie_internal_opset", inputs, attributes, compute_nodes(result))
        (expected,) = compute_nodes(ops.convert(result, "f16"))
        attributes = {"epsilon": epsilon, "output_type": "f16", "elementwise_affine": gamma is not None}
        yield make_case("RMS", "ie_internal_opset", inputs, attributes, [expected], tolerance=HALF, note="to f16")
    x, gamma = sample_normal(rng, 2, 16, dtype=np.float16), sample_normal(rng, 16, dtype=np.float16)
    x_f32 = create_constant(ops, x.astype(F32))
    scale = ops.sqrt(ops.reduce_mean(x_f32 * x_f32, np.array([-1]), True) + create_constant(ops, F32(1e-5)))
    expected = compute_nodes(ops.convert(x_f32 / scale * create_constant(ops, gamma.astype(F32)), "f16"))
    yield make_case("RMS", "ie_internal_opset", [x, gamma], {"epsilon": 1e-5}, expected, tolerance=HALF, note="f16")


@register_cases("GLU", since=0)
def glu(rng):
    yield from generate_glu_cases(rng, "GLU", "ie_internal_opset")


@register_cases("SwiGLU", since=0)
def swiglu(rng):
    yield from generate_glu_cases(rng, "SwiGLU", "gpu_opset")


def generate_glu_cases(rng, type, opset):
    from openvino import opset13 as ops

    for (shape, axis), kind, index in product(
        [((2, 6), -1), ((3, 2, 8), 2), ((4, 3), 0)], ("swish", "gelu", "gelu_tanh", None), (0, 1)
    ):
        x = sample_normal(rng, *shape)
        length = shape[axis] // 2
        lengths = np.array([length, length])
        parts = ops.variadic_split(create_constant(ops, x), np.array(axis), lengths)
        gate, value = parts.output(index if kind else 0), parts.output(1 - index if kind else 1)
        if kind in ("swish", None):
            gate = ops.swish(gate)
        else:
            gate = ops.gelu(gate, "ERF" if kind == "gelu" else "TANH")
        attributes = {"axis": axis, "split_lengths": length, "output_type": "dynamic"}
        if kind:
            attributes |= {"glu_type": kind, "split_to_glu_idx": index}
        yield make_case(type, opset, [x], attributes, compute_nodes(ops.multiply(gate, value)))


@register_cases("SwishCPU", since=0)
def swish_cpu(rng):
    from openvino import opset13 as ops

    for shape, alpha in product([(), (3,), (2, 3), (1, 2, 3, 4)], (1.0, 0.5, -2.0)):
        x = sample_normal(rng, *shape)
        expected = compute_nodes(ops.swish(create_constant(ops, x), create_constant(ops, F32(alpha))))
        yield make_case("SwishCPU", "cpu_plugin_opset", [x], {"alpha": alpha}, expected)


@register_cases("PowerStatic", since=0)
def power_static(rng):
    from openvino import opset13 as ops

    for power, scale, shift in product((1.0, 2.0, 0.5, -1.0), (1.0, -0.5, 3.0), (0.0, 1.5)):
        x = sample_normal(rng, 2, 3)
        total = create_constant(ops, x) * create_constant(ops, F32(scale)) + create_constant(ops, F32(shift))
        expected = compute_nodes(ops.power(total, create_constant(ops, F32(power))))
        attributes = {"power": power, "scale": scale, "shift": shift, "out-type": "dynamic"}
        yield make_case("PowerStatic", "cpu_plugin_opset", [x], attributes, expected)
    integers = rng.integers(-9, 9, (2, 3)).astype(np.int32)
    attributes = {"power": 2.0, "scale": 1.0, "shift": 1.0, "out-type": "f32"}
    expected = [((integers + 1) ** 2).astype(F32)]
    yield make_case("PowerStatic", "cpu_plugin_opset", [integers], attributes, expected)


@register_cases("LeakyRelu", since=0)
def leaky_relu(rng):
    from openvino import opset13 as ops

    for shape, slope in product([(), (5,), (2, 3), (1, 2, 3, 4)], (0.0, 0.1, -0.5)):
        x = sample_normal(rng, *shape)
        expected = compute_nodes(ops.prelu(create_constant(ops, x), create_constant(ops, np.array([slope], F32))))
        attributes = {"negative_slope": slope, "out-type": "undefined"}
        yield make_case("LeakyRelu", "cpu_plugin_opset", [x], attributes, expected)


@register_cases("FullyConnected", since=0)
def fully_connected(rng):
    from openvino import opset13 as ops

    for x_shape, w_shape, bias_shape in [
        ((2, 3), (4, 3), None),
        ((2, 3), (4, 3), (0,)),
        ((2, 3), (4, 3), (4,)),
        ((1, 2, 5, 3), (4, 3), (1, 1, 1, 4)),
        ((3,), (4, 3), None),
        ((2, 5, 3), (2, 4, 3), (1, 1, 4)),
        ((1, 1), (1, 1), (1,)),
    ]:
        x, w = sample_normal(rng, *x_shape), sample_normal(rng, *w_shape)
        inputs = [x, w]
        result = ops.matmul(create_constant(ops, x), create_constant(ops, w), False, True)
        if bias_shape is not None:
            inputs.append(sample_normal(rng, *bias_shape))
            result = result + create_constant(ops, inputs[2]) if inputs[2].size else result
        for output_type in ("dynamic", "f32"):
            expected = compute_nodes(result)
            yield make_case("FullyConnected", "ie_internal_opset", inputs, {"output_type": output_type}, expected)


def sample_quantized(rng, shape, dtype):
    """Return random values of a quantized type."""
    name = np.dtype(dtype).name
    low, high = {"int8": (-128, 128), "uint8": (0, 256), "int4": (-8, 8), "uint4": (0, 16)}[name]
    return rng.integers(low, high, shape).astype(np.int16).astype(dtype)


def decompress(ops, weights, scale, zero_point, groups):
    """Return `(weights - zero_point) * scale`, with the weights split into `groups` along the last axis."""
    shape = weights.shape
    split = (*shape[:-1], groups, shape[-1] // groups)
    w = ops.reshape(create_constant(ops, weights.astype(F32)), np.array(split), False)
    per_group = np.array((*scale.shape, 1)) if scale.size > 1 else np.array([1])
    if zero_point is not None:
        zero_shape = np.array((*zero_point.shape, 1)) if zero_point.size > 1 else np.array([1])
        w = w - ops.reshape(create_constant(ops, zero_point.astype(F32)), zero_shape, False)
    w = w * ops.reshape(create_constant(ops, scale), per_group, False)
    return ops.reshape(w, np.array(shape), False)


def generate_quantized_weights(rng, rows, columns):
    """Yield weights, [rows, columns], with scales, zero points and numbers of groups of various shapes."""
    for dtype, groups, zero in product((np.uint8, np.int8), (1, 2, 4), ("none", "one", "each", "empty")):
        scale = (rng.random((rows, groups)) * 0.1 + 0.01).astype(F32)
        zero_point = {
            "none": None,
            "one": sample_quantized(rng, (1, 1), dtype),
            "each": sample_quantized(rng, (rows, groups), dtype),
            "empty": np.zeros((0,), dtype),
        }[zero]
        yield sample_quantized(rng, (rows, columns), dtype), scale, zero_point, groups
    yield sample_quantized(rng, (rows, columns), np.int8), np.array(0.05, F32), None, 1


@register_cases("FullyConnectedCompressed", since=0)
def fully_connected_compressed(rng):
    from openvino import opset13 as ops

    for weights, scale, zero_point, groups in generate_quantized_weights(rng, 3, 8):
        for bias in (sample_normal(rng, 3), np.zeros((0,), F32)):
            x = sample_normal(rng, 2, 8)
            used = None if zero_point is None or not zero_point.size else zero_point
            w = decompress(ops, weights, scale, used, groups)
            result = ops.matmul(create_constant(ops, x), w, False, True)
            result = result + create_constant(ops, bias) if bias.size else result
            inputs = [x, weights, bias, scale] + ([] if zero_point is None else [zero_point])
            expected = compute_nodes(result)
            yield make_case(
                "FullyConnectedCompressed",
                "ie_internal_opset",
                inputs,
                {"output_type": "dynamic"},
                expected,
                constants=range(1, len(inputs)),
                tolerance=(2e-5, 2e-5),
            )


@register_cases("FullyConnectedQuantizedLegacy", since=0)
def fully_connected_quantized_legacy(rng):
    from openvino import opset13 as ops

    for dtype, shape, rows, bias_shape, scale_shape in [
        (np.uint8, (2, 8), 3, (3,), (1, 3)),
        (np.int8, (1, 4), 2, (0,), (1,)),
        (np.uint8, (2, 3, 16), 5, (1, 1, 5), (1, 1, 5)),
        (np.int8, (3, 64), 4, (4,), ()),
        (F32, (2, 8), 3, (3,), (1, 3)),
        (np.uint8, (1, 5), 1, (1,), (1, 1)),
        (np.int8, (4, 2), 2, (0,), (2,)),
        (np.uint8, (1, 200), 2, (2,), (1, 2)),
    ]:
        x = sample_normal(rng, *shape) if dtype == F32 else sample_quantized(rng, shape, dtype)
        w = sample_quantized(rng, (rows, shape[-1]), np.int8)
        bias, scales = np.rint(sample_normal(rng, *bias_shape) * 50).astype(F32), sample_normal(rng, *scale_shape)
        data, weights = (ops.convert(create_constant(ops, y), "f32") for y in (x, w))
        result = ops.matmul(data, weights, False, True)
        result = result + create_constant(ops, bias) if bias.size else result
        expected = compute_nodes(result * create_constant(ops, scales))
        inputs = [x, w, bias, scales, np.zeros(0, F32)]
        attributes = {"output_type": "f32"}
        yield make_case("FullyConnectedQuantizedLegacy", "ie_internal_opset", inputs, attributes, expected)


@register_cases("FullyConnectedQuantized", since=0)
def fully_connected_quantized(rng):
    from openvino import opset13 as ops

    weights = [w for w in generate_quantized_weights(rng, 5, 8) if w[2] is None or w[2].size]
    for number, (data, scale, zero_point, groups) in enumerate(weights):
        rows, parts = ((3,), (2, 2))[number % 2], (1, 2)[number // 2 % 2]
        x, input_scale = sample_quantized(rng, (*rows, 8), np.int8), rng.random((*rows, parts)).astype(F32) / 50
        input_zero_point = sample_quantized(rng, (*rows, parts), np.int8) if number % 3 == 0 else np.zeros(0, np.int8)
        bias = sample_normal(rng, 5 if number % 2 else 0)
        values = ops.convert(create_constant(ops, x), "f32")
        if input_zero_point.size:
            values = values - create_constant(ops, np.repeat(input_zero_point.astype(F32), 8 // parts, axis=-1))
        values = values * create_constant(ops, np.repeat(input_scale, 8 // parts, axis=-1))
        result = ops.matmul(values, decompress(ops, data, scale, zero_point, groups), False, True)
        expected = compute_nodes(result + create_constant(ops, bias) if bias.size else result)
        nothing = np.zeros(0, F32)
        inputs = [x, data, bias, scale, nothing if zero_point is None else zero_point]
        inputs += [input_scale, input_zero_point, nothing, nothing]
        attributes = {"output_type": "f32"}
        yield make_case(
            "FullyConnectedQuantized", "ie_internal_opset", inputs, attributes, expected, tolerance=(2e-5, 2e-5)
        )


@register_cases("GatherCompressed", since=0)
def gather_compressed(rng):
    from openvino import opset13 as ops

    for (data, scale, zero_point, groups), axis in product(generate_quantized_weights(rng, 5, 8), (0, 1)):
        if zero_point is not None and not zero_point.size:
            continue
        indices = rng.integers(0, data.shape[axis], (2, 3))
        table = decompress(ops, data, scale, zero_point, groups)
        expected = compute_nodes(ops.gather(table, create_constant(ops, indices), np.array(axis)))
        inputs = [data, indices, np.array(axis), scale] + ([] if zero_point is None else [zero_point])
        yield make_case(
            "GatherCompressed",
            "ie_internal_opset",
            inputs,
            {"batch_dims": 0},
            expected,
            constants=[0, 2, *range(3, len(inputs))],
        )
    data, scale = sample_quantized(rng, (2, 4, 6), np.uint8), sample_normal(rng, 2, 4, 2)
    zero_point = sample_quantized(rng, (2, 4, 1), np.uint8)
    repeated = np.repeat(zero_point, 2, axis=2)
    for axis in (1, 2):
        indices = rng.integers(0, 4, (2, 3))
        table = decompress(ops, data, scale, repeated, 2)
        expected = compute_nodes(ops.gather(table, create_constant(ops, indices), np.array(axis), 1))
        inputs = [data, indices, np.array(axis), scale, zero_point]
        yield make_case(
            "GatherCompressed", "ie_internal_opset", inputs, {"batch_dims": 1}, expected, constants=[2, 3, 4]
        )


def build_augru_step(ops, x, h, weights, hidden, score):
    """Return the node that computes one step of a GRU with attention, gate by gate."""

    def get_rows(k):
        return np.arange(k * hidden, (k + 1) * hidden)

    W, R, B = ([ops.gather(create_constant(ops, t), get_rows(k), np.array(0)) for k in range(3)] for t in weights)

    def compute_gate(k, state):
        return ops.matmul(x, W[k], False, True) + ops.matmul(state, R[k], False, True) + B[k]

    one = create_constant(ops, F32(1))
    update, reset = ops.sigmoid(compute_gate(0, h)), ops.sigmoid(compute_gate(1, h))
    fresh = ops.tanh(compute_gate(2, reset * h))
    update = (one - score) * update
    return (one - update) * fresh + update * h


@register_cases("AUGRUCell", since=0)
def augru_cell(rng):
    from openvino import opset13 as ops

    for batch, size, hidden in [
        (1, 1, 1),
        (2, 3, 4),
        (3, 8, 5),
        (1, 16, 16),
        (5, 2, 2),
        (2, 7, 3),
        (4, 4, 4),
        (1, 3, 9),
    ]:
        x, h, score = (
            sample_normal(rng, batch, size),
            sample_normal(rng, batch, hidden),
            rng.random((batch, 1)).astype(F32),
        )
        weights = (
            sample_normal(rng, 3 * hidden, size),
            sample_normal(rng, 3 * hidden, hidden),
            sample_normal(rng, 3 * hidden),
        )
        expected = compute_nodes(
            build_augru_step(
                ops, create_constant(ops, x), create_constant(ops, h), weights, hidden, create_constant(ops, score)
            )
        )
        attributes = {
            "hidden_size": hidden,
            "activations": "sigmoid,tanh",
            "activations_alpha": "",
            "activations_beta": "",
            "clip": 0.0,
            "linear_before_reset": False,
        }
        yield make_case("AUGRUCell", "ie_internal_opset", [x, h, *weights, score], attributes, expected)


@register_cases("AUGRUSequence", since=0)
def augru_sequence(rng):
    from openvino import opset13 as ops

    for (batch, time, size, hidden), ragged in product(
        [(1, 1, 1, 1), (2, 4, 3, 4), (3, 5, 2, 3), (1, 6, 8, 2)], (False, True)
    ):
        x, h = sample_normal(rng, batch, time, size), sample_normal(rng, batch, 1, hidden)
        score = rng.random((batch, time, 1)).astype(F32)
        weights = (
            sample_normal(rng, 3 * hidden, size),
            sample_normal(rng, 3 * hidden, hidden),
            sample_normal(rng, 3 * hidden),
        )
        lengths = rng.integers(1, time + 1, batch) if ragged else np.full(batch, time)
        states = [create_constant(ops, h[:, 0])]
        for t in range(time):
            now, share = create_constant(ops, x[:, t]), create_constant(ops, score[:, t])
            states.append(build_augru_step(ops, now, states[-1], weights, hidden, share))
        values = np.stack(compute_nodes(*states[1:]), axis=1)
        last = values[np.arange(batch), lengths - 1][:, None]
        values[np.arange(time) >= lengths[:, None]] = 0
        attributes = {
            "hidden_size": hidden,
            "direction": "forward",
            "activations": "sigmoid,tanh",
            "clip": 0.0,
            "linear_before_reset": False,
        }
        inputs = [x, h, lengths.astype(np.int32), *(w[None] for w in weights), score]
        yield make_case("AUGRUSequence", "ie_internal_opset", inputs, attributes, [values[:, None], last])


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


def pad_rows(rows, length):
    """Return `rows` padded with rows of -1."""
    return np.concatenate([rows, np.full((length - len(rows), *rows.shape[1:]), -1, rows.dtype)])


def sample_boxes_and_scores(rng, batch, classes, boxes):
    corner = rng.random((batch, boxes, 2))
    return np.concatenate([corner, corner + rng.random((batch, boxes, 2))], axis=2).astype(F32), rng.permutation(
        batch * classes * boxes
    ).reshape(batch, classes, boxes).astype(F32) / (batch * classes * boxes)


@register_cases("NonMaxSuppressionIEInternal", since=0)
def non_max_suppression_ie_internal(rng):
    from openvino import opset9 as ops
    from openvino import opset13

    for center, descending, sigma in product((0, 1), (False, True), (None, 0.0, 0.5)):
        boxes, scores = sample_boxes_and_scores(rng, 2, 3, 6)
        limits = [np.array(2), np.array(0.3, F32), np.array(0.2, F32)]
        limits += [] if sigma is None else [np.array(sigma, F32)]
        encoding = "center" if center else "corner"
        options = {"box_encoding": encoding, "sort_result_descending": descending, "output_type": "i32"}
        constants = [ops.constant(x) for x in limits]
        indices, selected, count = compute_outputs(
            lambda *data, c=constants, o=options: ops.non_max_suppression(*data, *c, **o), boxes, scores
        )
        expected = [pad_rows(indices, 2 * 3 * 2), pad_rows(selected, 2 * 3 * 2), count]
        attributes = {
            "center_point_box": center,
            "sort_result_descending": descending,
            "output_type": "i32",
            "score_output_type": "f32",
            "rotation": 0,
        }
        yield make_case(
            "NonMaxSuppressionIEInternal", "ie_internal_opset", [boxes, scores, *limits], attributes, expected
        )
    for rotation in (1, 2):
        boxes, scores = sample_boxes_and_scores(rng, 1, 2, 5)
        boxes = np.concatenate([boxes, rng.random((1, 5, 1)).astype(F32)], axis=2)
        limits = [np.array(9), np.array(0.3, F32), np.array(0.2, F32)]
        constants = [ops.constant(x) for x in limits]
        indices, selected, count = compute_outputs(
            lambda *data, c=constants, r=rotation: opset13.nms_rotated(*data, *c, True, "i32", r == 1), boxes, scores
        )
        attributes = {"sort_result_descending": True, "output_type": "i32", "rotation": rotation}
        expected = [pad_rows(indices, 5 * 2), pad_rows(selected, 5 * 2), count]
        yield make_case(
            "NonMaxSuppressionIEInternal", "ie_internal_opset", [boxes, scores, *limits], attributes, expected
        )


def compute_outputs(make, boxes, scores):
    """Compute all outputs of the node that `make` creates from boxes and scores."""
    import openvino as ov

    parameters = [ov.op.Parameter(ov.Type.f32, ov.PartialShape(list(x.shape))) for x in (boxes, scores)]
    results = [ov.op.Result(o) for o in make(*parameters).outputs()]
    return COMPUTE["cpu"](ov.Model(results, parameters), [boxes, scores])


def pad_batches(outputs, length):
    """Pad the rows of each image with rows of -1."""
    ends = np.cumsum(outputs[2])
    images = list(zip(ends - outputs[2], ends, strict=True))
    return [*(np.concatenate([pad_rows(x[a:b], length) for a, b in images]) for x in outputs[:2]), outputs[2]]


@register_cases("MatrixNms", since=0)
def matrix_nms(rng):
    from openvino import opset8 as ops

    for background, nms_top_k, keep_top_k in product((-1, 0), (-1, 3), (-1, 4)):
        boxes, scores = sample_boxes_and_scores(rng, 2, 3, 6)
        attributes = {
            "sort_result_type": "score",
            "sort_result_across_batch": False,
            "output_type": "i32",
            "score_threshold": 0.1,
            "nms_top_k": nms_top_k,
            "keep_top_k": keep_top_k,
            "background_class": background,
            "decay_function": "linear",
            "gaussian_sigma": 2.0,
            "post_threshold": 0.1,
            "normalized": True,
        }
        outputs = compute_outputs(lambda *data, a=attributes: ops.matrix_nms(*data, **a), boxes, scores)
        rows = count_rows_per_image(6, 3, background, nms_top_k, keep_top_k)
        yield make_case("MatrixNms", "ie_internal_opset", [boxes, scores], attributes, pad_batches(outputs, rows))


@register_cases("MulticlassNmsIEInternal", since=0)
def multiclass_nms(rng):
    from openvino import opset9 as ops

    for background, nms_top_k, keep_top_k in product((-1, 0), (-1, 3), (-1, 4)):
        boxes, scores = sample_boxes_and_scores(rng, 2, 3, 6)
        attributes = {
            "sort_result_type": "score",
            "sort_result_across_batch": False,
            "output_type": "i32",
            "iou_threshold": 0.3,
            "score_threshold": 0.1,
            "nms_top_k": nms_top_k,
            "keep_top_k": keep_top_k,
            "background_class": background,
            "nms_eta": 1.0,
            "normalized": True,
        }
        outputs = compute_outputs(lambda *data, a=attributes: ops.multiclass_nms(*data, **a), boxes, scores)
        rows = count_rows_per_image(6, 3, background, nms_top_k, keep_top_k)
        expected = pad_batches(outputs, rows)
        yield make_case("MulticlassNmsIEInternal", "ie_internal_opset", [boxes, scores], attributes, expected)


def count_rows_per_image(boxes, classes, background, nms_top_k, keep_top_k):
    rows = (nms_top_k if 0 <= nms_top_k < boxes else boxes) * (classes - (0 <= background < classes))
    return min(rows, keep_top_k) if keep_top_k >= 0 else rows


@register_cases("GenerateProposalsIEInternal", since=0)
def generate_proposals_ie_internal(rng):
    for images, post, pre, threshold, count_type in [
        (1, 10, 40, 0.5, "i64"),
        (1, 100, 40, 0.7, "i32"),
        (2, 5, 30, 0.4, "i64"),
        (3, 1, 40, 0.7, "i64"),
        (2, 60, 1000, 1.0, "i32"),
        (1, 3, 2, 0.7, "i64"),
        (2, 20, 10, 0.1, "i64"),
        (1, 8, 40, 0.9, "i32"),
    ]:
        corner = rng.uniform(0, 30, (4, 5, 3, 2))
        size = rng.uniform(5, 20, corner.shape)
        inputs = [
            np.array([[50.0, 60.0, 1.0]] * images, F32),
            np.concatenate([corner, corner + size], axis=-1).astype(F32),
            sample_normal(rng, images, 12, 4, 5) * F32(0.3),
            rng.permutation(images * 60).reshape(images, 3, 4, 5).astype(F32) / (images * 60),
        ]
        attributes = {"min_size": 1.0, "nms_threshold": threshold, "post_nms_count": post, "pre_nms_count": pre}
        attributes |= {"normalized": True, "nms_eta": 1.0, "roi_num_type": count_type}
        model = build_model("GenerateProposals", 9, Case(inputs, attributes))
        boxes, scores, counts = run_on_device(model, inputs, "CPU")
        padding = images * post - len(scores)
        expected = [np.pad(boxes, [(0, padding), (0, 0)]), np.pad(scores, (0, padding)), counts]
        type_name = "GenerateProposalsIEInternal"
        yield make_case(type_name, "ie_internal_opset", inputs, attributes, expected, tolerance=(1e-4, 1e-3))


@register_cases("VLSDPA", since=0)
def vlsdpa(rng):
    from openvino import opset13 as ops

    for shape, ends, orders in [
        ((2, 5, 4), [0, 5], {}),
        ((2, 7, 4), [0, 3, 7], {}),
        ((1, 2, 6, 3), [0, 1, 1, 6], {}),
        ((3, 4, 8), [0, 1, 2, 3, 4], {}),
        ((6, 2, 4), [0, 2, 6], {"order_q": [1, 0, 2], "order_k": [1, 0, 2], "order_v": [1, 0, 2]}),
        ((6, 2, 4), [0, 4, 6], {f"order_{x}": [1, 0, 2] for x in ("q", "k", "v", "out")}),
        ((1, 5, 2, 4), [0, 2, 5], {f"order_{x}": [0, 2, 1, 3] for x in ("q", "k", "v", "out")}),
        ((2, 5, 4), [0, 2], {}),
    ]:
        q, k, v = (sample_normal(rng, *shape) for _ in range(3))
        nodes = []
        for x, name in ((q, "q"), (k, "k"), (v, "v")):
            order = np.array(orders.get(f"order_{name}", range(len(shape))))
            nodes.append(ops.transpose(create_constant(ops, x), order))
        length = nodes[0].get_output_shape(0)[-2]
        segment = np.searchsorted(np.array(ends[1:]), np.arange(length), side="right")
        mask = np.where(segment[:, None] == segment, 0.0, -1e30).astype(F32)
        valid = (segment < len(ends) - 1).astype(F32)[:, None]
        scores = ops.matmul(nodes[0], nodes[1], False, True) * create_constant(ops, F32(shape[-1] ** -0.5))
        weights = ops.softmax(scores + create_constant(ops, mask), len(shape) - 1)
        result = ops.matmul(weights, nodes[2], False, False) * create_constant(ops, valid)
        order = np.array(orders.get("order_out", range(len(shape))))
        expected = compute_nodes(ops.transpose(result, order))
        inputs = [q, k, v, np.array(ends, np.int32)]
        given = {name: ",".join(map(str, value)) for name, value in orders.items()}
        yield make_case("VLSDPA", "ie_internal_opset", inputs, given, expected)


@register_cases("PaKVReorder", since=0)
def pa_kv_reorder(rng):
    from openvino import opset13 as ops

    cases: list[tuple[Any, list[list[tuple[int, int]]], bool]] = [
        (F32, [[(0, 1)], []], True),
        (F32, [[(0, 5), (5, 2)], [(1, 0)]], True),
        (np.float16, [[], [(3, 7), (0, 3), (7, 1)]], False),
        (np.uint8, [[(2, 9), (-1, 0), (4, 4)], [(1, 8)]], True),
        (np.int8, [[(7, 0), (6, 1)], [(0, 7), (1, 6)]], False),
        (F32, [[], []], True),
        (F32, [[(100, 0), (0, 100)], [(0, 2)]], True),
        (F32, [[(3, 4)], [(4, 3)]], False),
    ]
    for dtype, copies, flat in cases:
        blocks = [[4, 1], [0, 3]]  # each of 4 tokens
        keys = (rng.random((5, 2, 3, 4)) * 100).astype(dtype)
        values = (rng.random((5, 2, 4, 6)) * 100).astype(dtype)
        sources = np.arange(5 * 4)  # the place that each place of all blocks gets its token from
        for own, pairs in zip(blocks, copies, strict=True):
            for source, target in pairs:
                if min(source, target) >= 0 and max(source, target) < 8:
                    old, new = (own[i // 4] * 4 + i % 4 for i in (source, target))
                    sources[new] = sources[old]
        places, axis = create_constant(ops, sources), create_constant(ops, 0)
        by_token = [ops.transpose(create_constant(ops, keys), np.array([0, 3, 1, 2]))]
        by_token.append(ops.transpose(create_constant(ops, values), np.array([0, 2, 1, 3])))
        rows = [ops.reshape(x, np.array([20, 2, n]), False) for x, n in zip(by_token, (3, 6), strict=True)]
        moved = [ops.gather(x, places, axis) for x in rows]
        moved = [ops.reshape(x, np.array([5, 4, 2, n]), False) for x, n in zip(moved, (3, 6), strict=True)]
        back = [ops.transpose(x, np.array(order)) for x, order in zip(moved, ([0, 2, 3, 1], [0, 2, 1, 3]), strict=True)]
        expected = [x.astype(dtype) for x in compute_nodes(*back)]
        updates = np.array([pair for own in copies for pair in own], np.int32).reshape(-1, 2)
        begins = np.cumsum([0, *map(len, copies)]).astype(np.int32)
        indices = np.concatenate(blocks).astype(np.int32)
        inputs = [
            keys,
            values,
            indices,
            np.array([0, 2, 4], np.int32),
            updates.reshape(-1) if flat else updates,
            begins,
        ]
        yield make_case("PaKVReorder", "extension", inputs, {}, expected, tolerance=(0.0, 0.0))
