"""Conformance cases for fully connected layers and compressed weights."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.internal import F32, create_constant, make_case, sample_normal
from irrun.conformance.layers import compute_nodes


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
