"""Recurrent cells and sequences. The blob `weights` holds the weights for the data and for the state side by side."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I64, LegacyLayer, Value

__all__: list[str] = []

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_ACTIVATIONS = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}
_CELL_VERSIONS = {"lstm": "opset4", "gru": "opset3", "rnn": "opset1"}


def _get_weights(builder: Builder, layer: LegacyLayer, kind: str, features: int, hidden: int) -> list[Value]:
    """Return the inputs W, R and B. The order of the gates is the same as in the blobs."""
    rows = _GATES[kind] * hidden
    weights = builder.add_blob(layer, "weights", [rows, features + hidden])
    bias_size = rows + hidden if kind == "gru" and layer.get_bool("linear_before_reset") else rows
    if "biases" in layer.blobs:
        bias = builder.add_blob(layer, "biases", [bias_size])
    else:
        bias = builder.fill(0, (bias_size,))
    return [*builder.split(weights, 1, [features, hidden]), bias]


def _read_attributes(layer: LegacyLayer, kind: str, hidden: int) -> dict[str, object]:
    activations = layer.get_text("activations", default="").replace(" ", "")
    attributes: dict[str, object] = {
        "hidden_size": hidden,
        "clip": layer.get_float("clip", default=0.0),
        "activations": activations.lower().split(",") if activations else _ACTIVATIONS[kind],
        "activations_alpha": layer.get_floats("activation_alpha", "activations_alpha", default=[]),
        "activations_beta": layer.get_floats("activation_beta", "activations_beta", default=[]),
    }
    if kind == "gru":
        attributes["linear_before_reset"] = layer.get_bool("linear_before_reset")
    return attributes


@converts("LSTMCell", "GRUCell", "RNNCell")
def convert_cell(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to LSTMCell, GRUCell or RNNCell."""
    kind = layer.type.removesuffix("Cell").lower()
    state_count = 2 if kind == "lstm" else 1
    hidden = layer.get_int("hidden_size", default=layer.get_input_shape(1)[-1])
    inputs = [builder.to_float(layer.get_input(i)) for i in range(1 + state_count)]
    inputs += _get_weights(builder, layer, kind, layer.get_input_shape()[-1], hidden)
    outputs = [(F32, (layer.get_input_shape()[0], hidden))] * state_count
    attributes = _read_attributes(layer, kind, hidden)
    cell = builder.add_layer(layer.type, inputs, outputs, attributes, version=_CELL_VERSIONS[kind])
    return [Value(cell, port) for port in cell.outputs]


@converts("LSTMSequence", "GRUSequence", "RNNSequence")
def convert_sequence(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to LSTMSequence, GRUSequence or RNNSequence.

    The sequence runs over axis 1 of the data, or over axis 0 (`axis`). Omitted initial states are zero, and omitted
    sequence lengths include all steps.
    """
    kind = layer.type.removesuffix("Sequence").lower()
    state_count = 2 if kind == "lstm" else 1
    direction = {"forward": "forward", "backward": "reverse"}.get(
        layer.get_text("direction", default="Forward").lower()
    )
    if direction is None:
        raise layer.make_error(f"direction is {layer.get_text('direction')!r}, expected Forward or Backward")
    value = builder.to_float(layer.get_input())
    time_first = layer.get_int("axis", default=1) == 0
    if time_first:
        value = builder.transpose(value, [1, 0, 2])
    batch, steps, features = value.shape or layer.get_input_shape()
    hidden = layer.get_int("hidden_size", default=layer.get_output_shape()[-1])
    inputs = [value]
    for i in range(1, state_count + 1):
        if i < len(layer.inputs):
            inputs.append(builder.reshape(builder.to_float(layer.inputs[i]), (batch, 1, hidden)))
        else:
            inputs.append(builder.fill(0, (batch, 1, hidden)))
    if len(layer.inputs) > state_count + 1:
        inputs.append(builder.to_int(layer.inputs[state_count + 1]))
    else:
        inputs.append(builder.fill(steps, (batch,), I64))
    for weights in _get_weights(builder, layer, kind, features, hidden):
        inputs.append(builder.reshape(weights, (1, *(weights.shape or ()))))
    attributes = {**_read_attributes(layer, kind, hidden), "direction": direction}
    outputs = [(F32, (batch, 1, steps, hidden)), *[(F32, (batch, 1, hidden))] * state_count]
    sequence = builder.add_layer(layer.type, inputs, outputs, attributes, version="opset5")
    result = builder.reshape(Value(sequence, sequence.outputs[0]), (batch, steps, hidden))
    if time_first:
        result = builder.transpose(result, [1, 0, 2])
    states = [builder.reshape(Value(sequence, port), (batch, hidden)) for port in sequence.outputs[1:]]
    return [result, *states][: max(len(layer.outputs), 1)]
