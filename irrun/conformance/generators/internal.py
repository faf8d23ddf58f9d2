"""Conformance cases for the operations outside the numbered opsets, registered as version 0.

OpenVINO cannot read most of them, so each is compared with a decomposition into standard operations.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from irrun.conformance.cases import Case, register_cases
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


@register_cases("GLU", since=0, type="GLU", opset="ie_internal_opset")
@register_cases("SwiGLU", since=0, type="SwiGLU", opset="gpu_opset")
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
