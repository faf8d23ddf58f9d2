"""Specialized kernels of recurrent cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.recurrent.matrices import PartedMatrix, Product, from_gate_shape, to_gate_shape
from irrun.fast.recurrent.preparation import prepare_cell
from irrun.fast.recurrent.recurrences import F32, GRU, HALF, LSTM, RNN, Recurrence, RecurrentWeights, ResetFirstGRU
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes

__all__ = ["specialize_cell"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]

#: Maximum number of batch sizes for which a cell keeps its buffers.
MAX_BATCH_SIZES = 16


@specializes("LSTMCell-1", "LSTMCell-4", "GRUCell-3", "RNNCell-1")
def specialize_cell(site: CallSite) -> SpecializedKernel | None:
    """Prepare the weights."""
    weights = prepare_cell(site)
    if weights is None or site.variable_inputs != tuple(range(1 + weights.state_count)):
        return None
    step = _CELL_STEPS[weights.recurrence](weights)
    input_size, hidden, call_plain = weights.input_size, weights.hidden, site.call_plain

    if weights.state_count == 1:

        def compute(X: Array, H: Array) -> Any:
            if X.dtype is F32 is H.dtype and X.shape == (len(H), input_size) and H.shape == (len(X), hidden):
                return step(X, H)
            return call_plain(X, H)

        return compute

    def compute_with_cell(X: Array, H: Array, C: Array) -> Any:
        is_f32 = X.dtype is F32 is H.dtype and C.dtype is F32
        if is_f32 and X.shape == (len(H), input_size) and H.shape == C.shape == (len(X), hidden):
            return step(X, H, C)
        return call_plain(X, H, C)

    return compute_with_cell


class _GateProduct:
    """The product of a matrix of weights and an input, plus biases.

    Args:
        matrix: The weights.
        bias: The biases, or None.
    """

    def __init__(self, matrix: PartedMatrix, bias: Array | None = None) -> None:
        self.matrix = matrix
        self.bias = bias
        self._products: dict[int, tuple[Product, int, Array | None]] = {}

    def __call__(self, X: Array) -> Array:
        """Return the gates.

        Args:
            X: Shape [batch, columns].

        Returns:
            Shape [gates, batch, hidden], or [gates, parts, batch, hidden / parts] if there are several parts.
        """
        matrix, batch = self.matrix, len(X)
        prepared = self._products.get(batch)
        if prepared is None:
            if len(self._products) > MAX_BATCH_SIZES:
                self._products = {}
            prepared = self._products[batch] = self._prepare(batch)
        product, parts, bias = prepared
        values, destination = matrix.allocate(batch, parts)
        product(X if batch > 1 else X.reshape(-1), destination)
        gates: Array
        if batch == 1:
            gates = values[: len(matrix.matrix)].reshape(matrix.gates, 1, -1)
        else:
            gates = values if parts == 1 else values.reshape(matrix.gates, parts, batch, -1)
        if bias is not None:
            np.add(gates, bias, gates)
        return gates

    def _prepare(self, batch: int) -> tuple[Product, int, Array | None]:
        parts = self.matrix.count_parts(batch) if batch > 1 else 1
        gates = self.matrix.gates
        shape = (gates, 1, -1) if parts == 1 else (gates, parts, 1, -1)
        return self.matrix.make_product(batch, parts), parts, None if self.bias is None else self.bias.reshape(shape)


def _compute_sigmoids(gates: Array) -> None:
    """Compute the sigmoid of gates with halved weights, in place."""
    np.tanh(gates, gates)
    np.multiply(gates, HALF, gates)
    np.add(gates, HALF, gates)


def _combine_weights(weights: RecurrentWeights) -> _GateProduct:
    """Return the product with the input and the state side by side."""
    matrix = np.concatenate([weights.W.T, weights.options["matrix"].matrix], axis=1)
    return _GateProduct(PartedMatrix(matrix, weights.gates), weights.bias)


def _make_lstm_step(weights: RecurrentWeights) -> Kernel:
    compute_gates = _combine_weights(weights)

    def step(X: Array, H: Array, C: Array) -> tuple[Array, Array]:
        gates = compute_gates(np.concatenate((X, H), 1))
        np.tanh(gates, gates)
        sigmoids = gates[1:]
        np.multiply(sigmoids, HALF, sigmoids)
        np.add(sigmoids, HALF, sigmoids)
        candidate, forget, new, output = gates
        is_divided = candidate.ndim > 2
        cell = np.multiply(forget, to_gate_shape(C, len(candidate)) if is_divided else C)
        np.multiply(new, candidate, new)
        np.add(cell, new, cell)
        state = np.tanh(cell)
        np.multiply(state, output, state)
        return (from_gate_shape(state), from_gate_shape(cell)) if is_divided else (state, cell)

    return step


def _make_rnn_step(weights: RecurrentWeights) -> Kernel:
    compute_gates = _combine_weights(weights)

    def step(X: Array, H: Array) -> Array:
        (gate,) = compute_gates(np.concatenate((X, H), 1))
        state = np.tanh(gate)
        return from_gate_shape(state) if gate.ndim > 2 else np.asarray(state)

    return step


def _make_gru_step(weights: RecurrentWeights) -> Kernel:
    compute_from_input = _GateProduct(PartedMatrix(weights.W.T, 3), weights.bias)
    compute_from_state = _GateProduct(weights.options["matrix"])
    hidden_bias: Array | None = weights.options.get("hidden_bias")
    candidate_weights = weights.options.get("candidate_weights")
    compute_candidate = None if candidate_weights is None else _GateProduct(candidate_weights)

    def step(X: Array, H: Array) -> Array:
        projection, gates = _undivide(compute_from_input(X)), _undivide(compute_from_state(H))
        sigmoids = gates[:2]
        np.add(sigmoids, projection[:2], sigmoids)
        _compute_sigmoids(sigmoids)
        update, reset = sigmoids
        if compute_candidate is None:
            candidate = gates[2]
            if hidden_bias is not None:
                np.add(candidate, hidden_bias, candidate)
            np.multiply(candidate, reset, candidate)
        else:
            np.multiply(reset, H, reset)
            candidate = _undivide(compute_candidate(reset))[0]
        np.add(candidate, projection[2], candidate)
        np.tanh(candidate, candidate)
        state = np.subtract(H, candidate)
        np.multiply(state, update, state)
        np.add(state, candidate, state)
        return np.asarray(state)

    return step


def _undivide(gates: Array) -> Array:
    """Return gates in the shape [gates, batch, hidden]."""
    if gates.ndim == 3:
        return gates
    return np.asarray(gates.transpose(0, 2, 1, 3).reshape(len(gates), gates.shape[2], -1))


_CELL_STEPS: dict[Callable[..., Recurrence], Callable[[RecurrentWeights], Kernel]] = {
    LSTM: _make_lstm_step,
    RNN: _make_rnn_step,
    GRU: _make_gru_step,
    ResetFirstGRU: _make_gru_step,
}
