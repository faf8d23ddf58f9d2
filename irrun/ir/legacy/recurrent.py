"""Recurrent cells and sequences, whose blob `weights` holds those of the data and of the state side by side."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I64, LegacyLayer, Value

__all__: list[str] = []

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_ACTIVATIONS = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}


def _weights(builder: Builder, layer: LegacyLayer, kind: str, features: int, hidden: int) -> list[Value]:
    """W, R and B of today's operations, whose gates have the order of old files."""
    rows = _GATES[kind] * hidden
    both = builder.blob(layer, "weights", [rows, features + hidden])
    of_bias = rows + hidden if kind == "gru" and layer.flag("linear_before_reset") else rows
    if "biases" in layer.blobs:
        bias = builder.blob(layer, "biases", [of_bias])
    else:
        bias = builder.filled(0, (of_bias,))
    return [*builder.split(both, 1, [features, hidden]), bias]


def _attributes(layer: LegacyLayer, kind: str, hidden: int) -> dict[str, object]:
    names = layer.text("activations", default="").replace(" ", "")
    attributes: dict[str, object] = {
        "hidden_size": hidden,
        "clip": layer.number("clip", default=0.0),
        "activations": names.lower().split(",") if names else _ACTIVATIONS[kind],
        "activations_alpha": layer.numbers("activation_alpha", "activations_alpha", default=[]),
        "activations_beta": layer.numbers("activation_beta", "activations_beta", default=[]),
    }
    if kind == "gru":
        attributes["linear_before_reset"] = layer.flag("linear_before_reset")
    return attributes


@converts("LSTMCell", "GRUCell", "RNNCell")
def cell(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    kind = layer.kind[:-4].lower()
    states = 2 if kind == "lstm" else 1
    hidden = layer.integer("hidden_size", default=layer.in_shape(1)[-1])
    inputs = [builder.floating(layer.input(i)) for i in range(1 + states)]
    inputs += _weights(builder, layer, kind, layer.in_shape()[-1], hidden)
    outputs = [(F32, (layer.in_shape()[0], hidden))] * states
    version = {"lstm": "opset4", "gru": "opset3", "rnn": "opset1"}[kind]
    made = builder.layer(layer.kind, inputs, outputs, _attributes(layer, kind, hidden), version=version)
    return [Value(made, port) for port in made.outputs]


@converts("LSTMSequence", "GRUSequence", "RNNSequence")
def sequence(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Over axis 1 of the data, or axis 0; states that are not fed are zero, and all steps count."""
    kind = layer.kind[:-8].lower()
    states = 2 if kind == "lstm" else 1
    direction = {"forward": "forward", "backward": "reverse"}.get(layer.text("direction", default="Forward").lower())
    if direction is None:
        raise layer.error(f"direction={layer.text('direction')!r}, expected Forward or Backward")
    value = builder.floating(layer.input(0))
    time_first = layer.integer("axis", default=1) == 0
    if time_first:
        value = builder.transpose(value, [1, 0, 2])
    batch, steps, features = value.shape or layer.in_shape()
    hidden = layer.integer("hidden_size", default=layer.out_shape()[-1])
    inputs = [value]
    for i in range(1, states + 1):
        if i < len(layer.inputs):
            inputs.append(builder.reshape(builder.floating(layer.inputs[i]), (batch, 1, hidden)))
        else:
            inputs.append(builder.filled(0, (batch, 1, hidden)))
    if len(layer.inputs) > states + 1:
        inputs.append(builder.integral(layer.inputs[states + 1]))
    else:
        inputs.append(builder.filled(steps, (batch,), I64))
    for weight in _weights(builder, layer, kind, features, hidden):
        inputs.append(builder.reshape(weight, (1, *(weight.shape or ()))))
    attributes = {**_attributes(layer, kind, hidden), "direction": direction}
    outputs = [(F32, (batch, 1, steps, hidden)), *[(F32, (batch, 1, hidden))] * states]
    made = builder.layer(layer.kind, inputs, outputs, attributes, version="opset5")
    result = builder.reshape(Value(made, made.outputs[0]), (batch, steps, hidden))
    if time_first:
        result = builder.transpose(result, [1, 0, 2])
    last = [builder.reshape(Value(made, port), (batch, hidden)) for port in made.outputs[1:]]
    return [result, *last][: max(len(layer.outputs), 1)]
