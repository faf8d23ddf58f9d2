"""Recurrent cells with constant weights in bodies of loops: products, then gates in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.expressions.table import get_expression
from irrun.fast.jit.body_plans import BodyPlanner, BodyStep, BodyValue, emits
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.nests import Copy
from irrun.fast.jit.vectors import Vectors
from irrun.ops._support.recurrent_steps import (
    ACTIVATIONS,
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    RNN_ACTIVATIONS,
    get_clip_bound,
    split_combined_weights,
    split_gru_biases,
)

Array = np.ndarray[Any, Any]
#: An activation function: its name in lower case, alpha and beta.
Activation: TypeAlias = tuple[str, float, float]

F32 = np.dtype(np.float32)


class _CellFunction(NamedTuple):
    """The computation of a cell after its products.

    Attributes:
        name: The name of the function that emits it.
        activations: The activation functions.
        clip: The limit of the gates.
        options: Further options of the function.
        result_count: The number of results.
        is_vector: Whether it computes vectors.
    """

    name: str
    activations: tuple[Activation, ...]
    clip: float
    options: tuple[Any, ...] = ()
    result_count: int = 1
    is_vector: bool = True

    def emit(self, function: Function, values: Sequence[Value]) -> Sequence[Value]:
        """Append the instructions."""
        emit: Any = {"lstm": _emit_lstm, "rnn": _emit_rnn, "gates": _emit_gates, "gru": _emit_gru}[self.name]
        results: Sequence[Value] = emit(self, Vectors(function), values)
        return results

    def activate(self, machine: Vectors, number: int, gate: Value) -> Value:
        """Append the limit and the activation function of a gate."""
        if self.clip < math.inf:
            gate = machine.clip(gate, -self.clip, self.clip)
        return self.activate_state(machine, number, gate)

    def activate_state(self, machine: Vectors, number: int, x: Value) -> Value:
        """Append an activation function."""
        name, alpha, beta = self.activations[number]
        if name == "relu":
            return machine.maximum(x, 0.0)
        if name == "hardsigmoid":
            return machine.clip(machine.multiply_add(x, alpha, beta), 0.0, 1.0)
        result: Value = get_expression({"sigmoid": "Sigmoid", "tanh": "Tanh"}[name]).evaluate(machine, [x], ())
        return result


def _emit_lstm(own: _CellFunction, m: Vectors, values: Sequence[Value]) -> Sequence[Value]:
    """Compute an LSTM from the gates f, i, c, o, the cell state, and peepholes of f, i, o if there are any."""
    forget, new, candidate, output, cell, *peepholes = values
    (couples,) = own.options
    if peepholes:
        forget, new = (m.multiply_add(p, cell, gate) for p, gate in zip(peepholes[:2], (forget, new), strict=True))
    kept = own.activate(m, 0, forget)
    added = 1.0 - kept if couples else own.activate(m, 0, new)
    cell = m.multiply_add(kept, cell, added * own.activate(m, 1, candidate))
    if peepholes:
        output = m.multiply_add(peepholes[2], cell, output)
    return own.activate(m, 0, output) * own.activate_state(m, 2, cell), cell


def _emit_rnn(own: _CellFunction, m: Vectors, values: Sequence[Value]) -> Sequence[Value]:
    return [own.activate(m, 0, values[0])]


def _emit_gates(own: _CellFunction, m: Vectors, values: Sequence[Value]) -> Sequence[Value]:
    """Compute the gates z and r of a GRU from their two parts, and return z and the product of r and the state."""
    update, reset, state_update, state_reset, state = values
    return own.activate(m, 0, update + state_update), own.activate(m, 0, reset + state_reset) * state


def _emit_gru(own: _CellFunction, m: Vectors, values: Sequence[Value]) -> Sequence[Value]:
    """Compute a GRU.

    The operands are z and the two parts of h, then the state, then the attention score if there is one. With
    linear_before_reset, the two parts of z and the two parts of r replace z.
    """
    (is_linear,) = own.options
    if is_linear:
        update, reset, state_update, state_reset, *values = values
        update, reset = own.activate(m, 0, update + state_update), own.activate(m, 0, reset + state_reset)
        candidate, hidden, state, *scores = values
        hidden = reset * hidden
    else:
        update, candidate, hidden, state, *scores = values
    candidate = own.activate(m, 1, candidate + hidden)
    for score in scores:
        update = (1.0 - score) * update
    return [m.multiply_add(update, state, (1.0 - update) * candidate)]


class _Cell(NamedTuple):
    """The inputs of a cell.

    Attributes:
        X: The input.
        states: The states.
        weights: The weights of the input and of the hidden state, and the biases or None.
        others: The constant inputs after the biases.
        activations: The activation functions.
        clip: The limit of the gates.
        hidden: The size of the hidden state.
    """

    X: BodyValue
    states: list[BodyValue]
    weights: tuple[Array, Array, Array | None]
    activations: tuple[Activation, ...]
    clip: float
    hidden: int


def _read_cell(planner: BodyPlanner, step: BodyStep, gates: int, state_count: int, defaults: Sequence[str]) -> _Cell:
    """Return the inputs of a cell.

    Raises:
        NoKernelError: The weights are not constant, or shapes do not match.
    """
    attributes, site = step.site.attributes, step.site
    hidden = int(attributes["hidden_size"])
    first = 1 + state_count
    W, R, B = (site.get_constant(i) for i in range(first, first + 3))
    if W is None or any(site.has_input(i) and site.get_constant(i) is None for i in range(first, first + 3)):
        raise NoKernelError("the weights are not constant")
    if not site.operation.type.startswith("AUGRU"):
        W, R, B = split_combined_weights(W, R, B, hidden)
    X, *states = (planner.make_contiguous(planner.get(slot)) for slot in step.inputs[:first])
    if W.ndim != 2 or R is None or R.shape != (gates * hidden, hidden) or X.shape != (X.shape[0], W.shape[1]):
        raise NoKernelError("the shapes do not match")
    dtypes = [W.dtype, R.dtype, F32 if B is None else B.dtype, X.dtype, *(state.dtype for state in states)]
    if W.shape[0] != gates * hidden or set(dtypes) != {F32}:
        raise NoKernelError("expected weights in f32 of all gates")
    if any(state.shape != (X.shape[0], hidden) for state in states):
        raise NoKernelError("the shapes of the states do not match")
    return _Cell(X, states, (W, R, B), _read_activations(attributes, defaults), _get_clip(attributes), hidden)


def _get_clip(attributes: Mapping[str, Any]) -> float:
    return get_clip_bound(float(attributes.get("clip", 0.0)))


def _read_activations(attributes: Mapping[str, Any], defaults: Sequence[str]) -> tuple[Activation, ...]:
    names = attributes.get("activations", [])
    alphas, betas = attributes.get("activations_alpha", []), attributes.get("activations_beta", [])
    activations = []
    for i, default in enumerate(defaults):
        name = (names[i] if i < len(names) else default).strip().lower()
        if name not in ACTIVATIONS:
            raise NoKernelError(f"the activation function {name!r} is unknown")
        _, alpha, beta = ACTIVATIONS[name]
        activations.append(
            (name, float(alphas[i] if i < len(alphas) else alpha), float(betas[i] if i < len(betas) else beta))
        )
    return tuple(activations)


def _check_bias(B: Array | None, size: int) -> None:
    if B is not None and B.shape != (size,):
        raise NoKernelError("the shape of the biases does not match")


def _divide(value: BodyValue, hidden: int) -> list[BodyValue]:
    """Return the gates of a product [batch, gates * hidden]."""
    step = hidden * F32.itemsize
    shape = (value.shape[0], hidden)
    return [replace(value, shape=shape, offset=value.offset + i * step) for i in range(value.shape[1] // hidden)]


def _project_both(planner: BodyPlanner, step: BodyStep, cell: _Cell, gates: int) -> list[BodyValue]:
    """Return the gates: the product of the input plus the product of the hidden state."""
    W, R, B = cell.weights
    _check_bias(B, gates * cell.hidden)
    joined = planner.add_value((cell.X.shape[0], W.shape[1] + cell.hidden))
    start = 0
    for value in (cell.X, cell.states[0]):
        place = replace(joined, shape=value.shape, offset=joined.offset + start * F32.itemsize)
        planner.add_nest(Copy(), [place], [value])
        start += value.shape[1]
    product = planner.multiply(step, "both", joined, lambda: np.concatenate([W, R], 1).T, B)
    return _divide(product, cell.hidden)


@emits("LSTMCell")
def _lstm_cell(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    cell = _read_cell(planner, step, 4, 2, LSTM_ACTIVATIONS)
    attributes = step.site.attributes
    gates = _project_both(planner, step, cell, 4)
    operands = [*gates, cell.states[1]]
    if step.site.has_input(6):
        P = step.site.get_constant(6)
        if P is None or P.shape != (3 * cell.hidden,) or P.dtype != F32:
            raise NoKernelError("expected constant peepholes")
        if P.any():
            operands += [planner.add_constant(p) for p in P.reshape(3, 1, -1)]
    options = (bool(attributes.get("input_forget", False)),)
    function = _CellFunction("lstm", cell.activations, cell.clip, options, result_count=2)
    results = [planner.add_value(cell.states[1].shape) for _ in range(2)]
    planner.add_nest(function, results, operands)
    return results


@emits("RNNCell")
def _rnn_cell(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    cell = _read_cell(planner, step, 1, 1, RNN_ACTIVATIONS)
    gates = _project_both(planner, step, cell, 1)
    return [planner.add_elementwise(_CellFunction("rnn", cell.activations, cell.clip), gates)]


@emits("GRUCell", "AUGRUCell")
def _gru_cell(planner: BodyPlanner, step: BodyStep) -> list[BodyValue]:
    cell = _read_cell(planner, step, 3, 1, GRU_ACTIVATIONS)
    W, R, B = cell.weights
    hidden, state = cell.hidden, cell.states[0]
    is_linear = bool(step.site.attributes.get("linear_before_reset", False))
    _check_bias(B, (4 if is_linear else 3) * hidden)
    B, hidden_bias = split_gru_biases(B, hidden)
    scores = []
    if step.site.operation.type.startswith("AUGRU"):
        score = planner.make_contiguous(planner.get(step.inputs[5]))
        if score.shape != (state.shape[0], 1) or score.dtype != F32:
            raise NoKernelError("the shape of the scores does not match")
        scores = [score]
    update, reset, candidate = _divide(planner.multiply(step, "input", cell.X, lambda: W.T, B), hidden)
    if is_linear:
        bias = None
        if hidden_bias is not None:
            bias = np.zeros(3 * hidden, np.float32)
            bias[2 * hidden :] = hidden_bias
        own = _divide(planner.multiply(step, "state", state, lambda: R.T, bias), hidden)
        operands = [update, reset, own[0], own[1], candidate, own[2], state, *scores]
    else:
        own = _divide(planner.multiply(step, "state", state, lambda: R[: 2 * hidden].T), hidden)
        results = [planner.add_value(state.shape) for _ in range(2)]
        gates = _CellFunction("gates", cell.activations, cell.clip, result_count=2)
        planner.add_nest(gates, results, [update, reset, *own, state])
        (product,) = _divide(planner.multiply(step, "candidate", results[1], lambda: R[2 * hidden :].T), hidden)
        operands = [results[0], candidate, product, state, *scores]
    return [planner.add_elementwise(_CellFunction("gru", cell.activations, cell.clip, (is_linear,)), operands)]
