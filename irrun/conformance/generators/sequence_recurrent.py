"""Conformance cases for the recurrent cells and sequences."""

from __future__ import annotations

from itertools import product

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.layers import compute_nodes, define_layer

F32 = np.float32


def sample_normal(rng, *shape, dtype=F32):
    return rng.normal(size=shape).astype(dtype)


def get_tolerance(dtype, terms=16):
    """Return (rtol, atol) for gates that are sums of products of standard normal values.

    With the unit roundoff u, the error of such a sum is about sqrt(n) u sum(|x w|), where the mean of |x w| is 2 / pi
    (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). The order of the terms, and so
    the error, depends on the processor. The reference implementation rounds f16 after each operation.

    Args:
        dtype: The element type.
        terms: The number of terms n of a gate.
    """
    if dtype == np.float16:
        return 1e-2, 5e-3
    unit_roundoff = np.finfo(F32).eps / 2
    return 1e-5, terms**0.5 * unit_roundoff * terms * 2 / np.pi


def sample_cell_inputs(rng, gates, states, batch=3, size=5, hidden=4, dtype=F32, biases=None):
    """Return random inputs of a cell: X, states, W, R, B."""
    return [
        sample_normal(rng, batch, size, dtype=dtype),
        *(sample_normal(rng, batch, hidden, dtype=dtype) for _ in range(states)),
        sample_normal(rng, gates * hidden, size, dtype=dtype),
        sample_normal(rng, gates * hidden, hidden, dtype=dtype),
        sample_normal(rng, (biases or gates) * hidden, dtype=dtype),
    ]


@register_cases("RNNCell", since=1, gates=1, states=1, activations=["tanh"])
@register_cases("LSTMCell", since=4, gates=4, states=2, activations=["sigmoid", "tanh", "tanh"])
def generate_cell_cases(rng, gates, states, activations, **fixed):
    """Yield the cases that all cells have in common. NodeFactory has no default for activations."""
    fixed = {"activations": activations, **fixed}
    for batch, size, hidden in [(1, 1, 1), (3, 5, 4), (2, 16, 128), (7, 3, 2)]:
        inputs = sample_cell_inputs(rng, gates, states, batch, size, hidden)
        terms = size + hidden + 2
        yield Case(inputs, {"hidden_size": hidden, **fixed}, tolerance=get_tolerance(F32, max(terms, 16)))
    yield Case(
        sample_cell_inputs(rng, gates, states, dtype=np.float16),
        {"hidden_size": 4, **fixed},
        tolerance=get_tolerance(np.float16),
    )
    inputs = sample_cell_inputs(rng, gates, states)
    yield Case(
        inputs,
        {"hidden_size": 4, **fixed},
        constants=range(states + 1, len(inputs)),
        dynamic=range(states + 1),
        tolerance=get_tolerance(F32),
        note="constant weights, dynamic data",
    )
    for clip in (0.3, 1.5, 100.0):
        inputs = sample_cell_inputs(rng, gates, states)
        yield Case(inputs, {"hidden_size": 4, "clip": clip, **fixed}, tolerance=get_tolerance(F32))
    for names in product(["relu", "sigmoid", "tanh"], repeat=len(activations)):
        yield Case(
            sample_cell_inputs(rng, gates, states),
            {"hidden_size": 4, **fixed, "activations": list(names)},
            tolerance=get_tolerance(F32),
        )


@register_cases("GRUCell", since=3)
def gru_cell_3(rng):
    yield from generate_cell_cases(rng, 3, 1, ["sigmoid", "tanh"])
    for clip, names in product((0.0, 0.4), (["sigmoid", "tanh"], ["relu", "sigmoid"])):
        yield Case(
            sample_cell_inputs(rng, 3, 1, biases=4),
            {"hidden_size": 4, "linear_before_reset": True, "clip": clip, "activations": names},
            tolerance=get_tolerance(F32),
        )
    yield Case(
        sample_cell_inputs(rng, 3, 1, biases=4, dtype=np.float16),
        {"hidden_size": 4, "linear_before_reset": True, "activations": ["sigmoid", "tanh"]},
        tolerance=get_tolerance(np.float16),
    )


@register_cases("LSTMCell", since=1)
def lstm_cell_1(rng):
    # By default OpenVINO writes the weights_format "ifco", but the order is f, i, c, o in any case.
    yield from generate_cell_cases(rng, 4, 2, ["sigmoid", "tanh", "tanh"])
    for weights_format in ("fico", "icof", "ifco", "ifoc", "iofc"):
        attributes = {"hidden_size": 4, "weights_format": weights_format, "activations": ["sigmoid", "tanh", "tanh"]}
        yield Case(sample_cell_inputs(rng, 4, 2), attributes, tolerance=get_tolerance(F32))
    # OpenVINO never writes the input P. It is tested in tests/ops/test_sequence.py.
    for forget, clip in product((False, True), (0.0, 0.5)):
        inputs = sample_cell_inputs(rng, 4, 2)
        expected = compute_peephole_lstm([*inputs, np.zeros(12, F32)], clip, forget)
        attributes = {
            "hidden_size": 4,
            "input_forget": forget,
            "clip": clip,
            "activations": "sigmoid,tanh,tanh",
        }
        yield Case(
            inputs,
            attributes,
            tolerance=get_tolerance(F32),
            expected=expected,
            build=define_layer("LSTMCell", "opset1", inputs, attributes, expected),
            note="the CPU plugin ignores input_forget",
        )


def compute_peephole_lstm(inputs, clip, input_forget):
    """Compute the formula of the specification gate by gate, in standard operations of OpenVINO."""
    from openvino import opset8 as ops

    X, H, C, W, R, B, P = (ops.constant(x) for x in inputs)

    def compute_gate(k, peephole=None, cell=None):
        gate_weights = [ops.gather(x, get_range(k, 4), ops.constant(0)) for x in (W, R, B)]
        total = (
            ops.matmul(X, gate_weights[0], False, True) + ops.matmul(H, gate_weights[1], False, True) + gate_weights[2]
        )
        if peephole is not None:
            total = total + ops.gather(P, get_range(peephole, 4), ops.constant(0)) * cell
        return ops.clamp(total, -clip, clip) if clip else total

    def get_range(k, size):
        return ops.constant(np.arange(k * size, (k + 1) * size))

    forget = ops.sigmoid(compute_gate(0, 0, C))
    admit = ops.constant(F32(1)) - forget if input_forget else ops.sigmoid(compute_gate(1, 1, C))
    cell = forget * C + admit * ops.tanh(compute_gate(2))
    hidden = ops.sigmoid(compute_gate(3, 2, cell)) * ops.tanh(cell)
    return compute_nodes(hidden, cell)


def sample_sequence_inputs(
    rng, gates, states, batch, time, size, hidden, directions, dtype=F32, biases=None, lengths=None
):
    """Return random inputs of a sequence: X, states, sequence_lengths, W, R, B.

    The weights are small, so that Relu does not diverge.
    """
    if lengths is None:
        lengths = np.full(batch, time, np.int32)
    return [
        sample_normal(rng, batch, time, size, dtype=dtype),
        *(sample_normal(rng, batch, directions, hidden, dtype=dtype) for _ in range(states)),
        np.asarray(lengths),
        sample_normal(rng, directions, gates * hidden, size, dtype=dtype) / dtype(2),
        sample_normal(rng, directions, gates * hidden, hidden, dtype=dtype) / dtype(2),
        sample_normal(rng, directions, (biases or gates) * hidden, dtype=dtype),
    ]


@register_cases("RNNSequence", since=5, gates=1, states=1, activations=["tanh"])
@register_cases("LSTMSequence", since=5, gates=4, states=2, activations=["sigmoid", "tanh", "tanh"])
def generate_sequence_cases(rng, gates, states, activations, biases=None, **fixed):
    """Yield the cases that all sequences have in common. NodeFactory has no default for activations."""
    fixed = {"activations": activations, **fixed}

    def make_case(direction, shape=(2, 5, 3, 4), dtype=F32, lengths=None, case_options=None, **attributes):
        directions = 2 if direction == "bidirectional" else 1
        batch, time, size, hidden = shape
        inputs = sample_sequence_inputs(
            rng, gates, states, batch, time, size, hidden, directions, dtype, biases, lengths
        )
        return Case(
            inputs,
            {"hidden_size": shape[3], "direction": direction, **fixed, **attributes},
            tolerance=get_tolerance(dtype),
            **(case_options or {}),
        )

    for direction in ("forward", "reverse", "bidirectional"):
        for shape in [(1, 1, 1, 1), (2, 5, 3, 4), (4, 2, 7, 16), (1, 12, 2, 3)]:
            yield make_case(direction, shape)
        yield make_case(direction, (3, 6, 2, 3), lengths=np.array([2, 6, 1], np.int32))
        yield make_case(direction, (3, 6, 2, 3), lengths=np.array([4, 3, 3], np.int64))
        yield make_case(direction, dtype=np.float16)
        yield make_case(direction, clip=0.5)
        weights = range(states + 2, states + 5)
        yield make_case(direction, case_options={"constants": weights, "dynamic": range(states + 2)})
        for i, name in product(range(len(activations)), ("relu", "sigmoid", "tanh")):
            yield make_case(direction, activations=[*activations[:i], name, *activations[i + 1 :]])


@register_cases("GRUSequence", since=5)
def gru_sequence_5(rng):
    yield from generate_sequence_cases(rng, 3, 1, ["sigmoid", "tanh"])
    yield from generate_sequence_cases(rng, 3, 1, ["sigmoid", "tanh"], biases=4, linear_before_reset=True)
