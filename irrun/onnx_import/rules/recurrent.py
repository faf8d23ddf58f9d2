"""Rules for recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, constant, op, ops
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import broadcast, concat, gather, get_lengths, integers, split, squeeze, transpose

#: The attribute `direction` of ONNX -> OpenVINO's, and the number of directions.
_DIRECTIONS = {"forward": ("forward", 1), "reverse": ("reverse", 1), "bidirectional": ("bidirectional", 2)}
#: The activation functions of OpenVINO without parameters, in lower case. The other one is HardSigmoid.
_ACTIVATIONS = ("sigmoid", "tanh", "relu")


def _reorder(value: Value, count: int, order: Sequence[int]) -> Value:
    """Reorder the gates of weights or biases along axis 1."""
    parts = split(value, count, 1)
    return concat([parts[i] for i in order], 1)


def _translate(node: Node, operation: str, gates: int, states: int, defaults: Sequence[str]) -> list[Value]:
    if node.get_text("direction", "forward") not in _DIRECTIONS:
        raise ModelError(f"the attribute direction is {node.get_text('direction')!r}")
    direction, count = _DIRECTIONS[node.get_text("direction", "forward")]
    x, weights, recurrence = node[0], node[1], node[2]
    hidden = recurrence.get_dimension(-1) or node.get_int("hidden_size")
    batchwise = bool(node.get_int("layout", 0))
    if not batchwise:
        x = transpose(x, [1, 0, 2])
    batch = get_lengths(x, 0)
    lengths = node.get(4)
    lengths = broadcast(get_lengths(x, 1), batch) if lengths is None else lengths
    initial = []
    for position in range(5, 5 + states):
        state = node.get(position)
        if state is None:
            state = broadcast(constant(0, x.type), concat([batch, integers(count, hidden)]))
        elif not batchwise:
            state = transpose(state, [1, 0, 2])
        initial.append(state)
    bias = node.get(3)
    if bias is None:
        bias = broadcast(constant(0, x.type), integers(count, 2 * gates * hidden))
    first, second = split(bias, 2, 1)
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if operation == "LSTMSequence":
        order = [2, 0, 3, 1]
        weights, recurrence = _reorder(weights, 4, order), _reorder(recurrence, 4, order)
        biases = _reorder(first + second, 4, order)
    elif operation == "GRUSequence" and node.get_int("linear_before_reset", 0):
        attributes["linear_before_reset"] = True
        own, other = split(first, 3, 1), split(second, 3, 1)
        biases = concat([own[0] + other[0], own[1] + other[1], own[2], other[2]], 1)
    else:
        biases = first + second
    attributes |= _read_activations(node, defaults)
    if node.has("clip"):
        attributes["clip"] = node.get_float("clip")
    outputs = ops(
        operation,
        x,
        *initial,
        cast(lengths, "i32"),
        weights,
        recurrence,
        biases,
        outputs=1 + states,
        types=[x.type] * (1 + states),
        **attributes,
    )
    if batchwise:
        return [transpose(outputs[0], [0, 2, 1, 3]), *outputs[1:]]
    return [transpose(outputs[0], [2, 1, 0, 3]), *[transpose(state, [1, 0, 2]) for state in outputs[1:]]]


def _read_activations(node: Node, defaults: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of the activation functions of one direction.

    ONNX lists alpha and beta of those functions that have them, and OpenVINO of all functions.
    """
    names = [str(name).lower() for name in node.attributes.get("activations", [])] or [*defaults]
    alphas, betas = (list(node.attributes.get(f"activation_{name}", [])) for name in ("alpha", "beta"))
    functions = []
    for name in names:
        if name == "hardsigmoid":
            functions.append((name, *(float(v.pop(0)) if v else d for v, d in ((alphas, 0.2), (betas, 0.5)))))
        elif name in _ACTIVATIONS:
            functions.append((name, 0.0, 0.0))
        else:
            raise node.refuse(f"the activation function {name!r}")
    own = functions[: len(defaults)]
    if functions[len(defaults) :] not in ([], own):
        raise node.refuse("different activations for the directions")
    attributes: dict[str, Any] = {"activations": [name for name, *_ in own]}
    if "hardsigmoid" in attributes["activations"]:
        attributes |= {"activations_alpha": [f[1] for f in own], "activations_beta": [f[2] for f in own]}
    return attributes


@translate("LSTM")
def translate_lstm(node: Node) -> list[Value]:
    """LSTMSequence."""
    if node.get_int("input_forget", 0):
        raise node.refuse("input_forget of LSTM")
    if node.get(7) is not None:
        peepholes = node[7].read()
        if peepholes is None or peepholes.any():
            return _expand_lstm(node)
    return _translate(node, "LSTMSequence", 4, 2, ["sigmoid", "tanh", "tanh"])


def _expand_lstm(node: Node) -> list[Value]:
    """Return the outputs of an LSTM with peepholes, unrolled into one layer per step."""
    x, weights, recurrence, peepholes = node[0], node[1], node[2], node[7]
    steps = x.get_dimension(0)
    if steps is None or steps > 64 or node.get_text("direction", "forward") != "forward" or node.has("activations"):
        raise node.refuse("LSTM with peepholes, except forward over at most 64 steps")
    if node.get_int("layout", 0) or node.has("clip") or (node.get(4) is not None and node[4].read() is None):
        raise node.refuse("LSTM with peepholes and layout, clip or lengths")
    hidden = recurrence.get_dimension(-1) or node.get_int("hidden_size")
    shape = concat([get_lengths(x, 1), integers(hidden)])
    zeros = broadcast(constant(0, x.type), shape)
    h, c = (zeros if node.get(i) is None else squeeze(node[i], 0) for i in (5, 6))
    w, r = squeeze(weights, 0), squeeze(recurrence, 0)
    bias = node.get(3)
    total = None if bias is None else (lambda parts: squeeze(parts[0] + parts[1], 0))(split(bias, 2, 1))
    p_i, p_o, p_f = split(squeeze(peepholes, 0), 3, 0)
    outputs = []
    for step in range(steps):
        gates = op("MatMul", gather(x, step), w, transpose_a=False, transpose_b=True)
        gates = gates + op("MatMul", h, r, transpose_a=False, transpose_b=True)
        gates = gates if total is None else gates + total
        i, o, f, g = split(gates, 4, 1)
        i, f = op("Sigmoid", i + p_i * c), op("Sigmoid", f + p_f * c)
        c = f * c + i * op("Tanh", g)
        h = op("Sigmoid", o + p_o * c) * op("Tanh", c)
        outputs.append(op("Unsqueeze", h, constant([0, 1])))
    return [concat(outputs, 0), op("Unsqueeze", h, constant([0])), op("Unsqueeze", c, constant([0]))]


@translate("GRU")
def translate_gru(node: Node) -> list[Value]:
    """GRUSequence."""
    return _translate(node, "GRUSequence", 3, 1, ["sigmoid", "tanh"])


@translate("RNN")
def translate_rnn(node: Node) -> list[Value]:
    """RNNSequence."""
    return _translate(node, "RNNSequence", 1, 1, ["tanh"])
