"""Recurrent cells and sequences with constant weights.

The weights are rearranged once, so that a step is a matrix product and a few calls of ufuncs that write into the same
workspace:

- The sigmoid gates are computed as `0.5 + 0.5 * tanh(x / 2)`, with the factor 1/2 in their weights. One call computes
  tanh of several gates.
- The gates are ordered so that those of the same treatment are adjacent.
- The weights are divided into *parts* (`PartedMatrix`), and the gates have the shape [gates * parts, batch,
  hidden / parts].

A hidden state is written to its place in the output, from which the next step reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.ops._support.checks import read_lengths
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    RNN_ACTIVATIONS,
    reorder_gates,
    split_combined_weights,
    split_gru_biases,
)
from irrun.threads import multiply_matrices

__all__ = ["RecurrentWeights", "prepare_cell", "run_direction"]

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Any]
Kernel = Callable[..., Any]

F32 = np.dtype(np.float32)
HALF = np.array(0.5, np.float32)  # faster than a scalar

#: Largest number of multiplications of the product of a part, for which OpenBLAS has kernels that are several times
#: faster than those for large matrices.
MATRIX_PRODUCT_SIZE = 1 << 18
#: Largest number of elements of the weights of a small LSTM; see `advance_small`.
SMALL_SIZE = 9216
#: Smallest length of a row of a part that is worth a call.
MIN_PART_LENGTH = 16
#: Number of batch sizes for which a cell keeps what depends on them.
MAX_BATCH_SIZES = 16
#: Number of rows of inputs that are projected at a time: enough for an efficient matrix product.
ROWS_PER_BLOCK = 512


class PartedMatrix:
    """A matrix of weights, `[gates * hidden, columns]`, prepared for products with a state.

    Args:
        matrix: The weights.
        gates: Number of gates.
    """

    def __init__(self, matrix: Array, gates: int) -> None:
        self.matrix = np.ascontiguousarray(matrix)
        self.gates = gates
        self.hidden = matrix.shape[0] // gates
        self._transposed: dict[int, Array] = {}

    def count_parts(self, batch: int) -> int:
        """Return the number of parts that each gate is divided into for a batch size."""
        columns = self.matrix.shape[1]
        parts = 1
        for divisor in range(1, self.hidden // MIN_PART_LENGTH + 1):
            if self.hidden % divisor == 0:
                parts = divisor
                if columns * (self.hidden // divisor) * batch <= MATRIX_PRODUCT_SIZE:
                    break
        return parts

    def allocate(self, batch: int, parts: int, extra_gates: int = 0) -> tuple[Array, Array]:
        """Return a workspace whose first axis counts the units of gates, and the destination of the products in it.

        Args:
            batch: Batch size.
            parts: Number of parts of each gate.
            extra_gates: Number of gates that precede those of the products.
        """
        if batch > 1:
            values = np.empty(((extra_gates + self.gates) * parts, batch, self.hidden // parts), np.float32)
            return values, values[extra_gates * parts :]
        start = extra_gates * self.hidden
        values = np.empty(start + self.matrix.shape[0], np.float32)
        return values, values[start:]

    def make_product(self, batch: int, parts: int) -> Product:
        """Return a function that computes the product with a state.

        Args:
            batch: Batch size.
            parts: Number of parts of each gate.

        Returns:
            Takes a state, `[columns]` for a batch size of 1 or else `[batch, columns]`, and the destination.
        """
        if batch == 1:
            return self.matrix.dot
        weights = self._transposed.get(parts)
        if weights is None:
            by_part = self.matrix.reshape(self.gates * parts, -1, self.matrix.shape[1])
            weights = np.ascontiguousarray(by_part.transpose(0, 2, 1))
            self._transposed = {parts: weights}  # of other batch sizes not more than one
        matmul = np.matmul
        return lambda state, out: matmul(state, weights, out=out)


class Recurrence(Protocol):
    """The state of one direction while it runs."""

    #: Number of parts of each gate.
    parts: int

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps.

        Args:
            projections: For each step, the part of the gates that does not depend on the state.
            outputs: For each step, the place of the hidden state, in the shape of a gate.
            states: The same places in the shape that products require.
        """

    def get_states(self) -> list[Array]:
        """Return the present states, `[batch, hidden]` each."""


class RecurrentWeights:
    """The weights of a cell or of one direction of a sequence.

    Args:
        W: The weights of the input, with the gates in the order that the recurrence requires.
        bias: The biases that are added to both products, or None.
        R: The recurrent weights, in the same order.
        state_count: Number of states.
        recurrence: Creates a recurrence from these weights, the batch size, the initial states and `options`.
        options: Further weights of the recurrence.
    """

    def __init__(
        self,
        W: Array,
        bias: Array | None,
        R: PartedMatrix,
        state_count: int,
        recurrence: Callable[..., Recurrence],
        **options: Any,
    ) -> None:
        self.W = np.ascontiguousarray(W.T)
        self.bias = bias
        self.R = R
        self.hidden = R.hidden
        self.gates = W.shape[0] // R.hidden
        self.input_size = W.shape[1]
        self.state_count = state_count
        self.recurrence = recurrence
        self.options = options
        #: The weights of the input, the biases and those of the state in one matrix, for small LSTMs.
        self.combined: Array | None = None

    def start(self, batch: int, states: Sequence[Array]) -> Recurrence:
        """Create a recurrence from the initial states, `[hidden]` for a batch size of 1, else `[batch, hidden]`."""
        return self.recurrence(self, batch, states, **self.options)

    def project(self, X: Array) -> Array:
        """Return the part of the gates that does not depend on the state.

        Args:
            X: Shape [time, batch, input].

        Returns:
            Shape [time, batch, gates * hidden].
        """
        time, batch, size = X.shape
        rows = X.reshape(time * batch, size)
        projection = multiply_matrices(rows, self.W)
        if self.bias is not None:
            np.add(projection, self.bias, projection)
        return np.asarray(projection.reshape(time, batch, -1))


class _LSTM:
    """An LSTM. The workspace holds the cell state and the gates c, f, i, o, of which it computes with pairs."""

    def __init__(self, weights: RecurrentWeights, batch: int, states: Sequence[Array]) -> None:
        matrix = weights.R
        self.parts = parts = matrix.count_parts(batch) if batch > 1 else 1
        self.product = matrix.make_product(batch, parts)
        values, self.destination = matrix.allocate(batch, parts, extra_gates=1)
        unit = parts if batch > 1 else weights.hidden
        self.gates = values[unit : 5 * unit]
        self.sigmoids = values[2 * unit : 5 * unit]
        self.cell_and_candidate = values[: 2 * unit]
        self.forget_and_input = values[2 * unit : 4 * unit]
        self.output_gate = values[4 * unit : 5 * unit]
        self.terms = np.empty_like(self.cell_and_candidate)
        self.cell = values[:unit]
        self.activated_cell = np.empty_like(self.cell)
        self.state, cell = states
        self.cell[...] = _to_gate_shape(cell, parts)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        product, add, multiply, tanh = self.product, np.add, np.multiply, np.tanh
        destination, gates, sigmoids = self.destination, self.gates, self.sigmoids
        cell_and_candidate, forget_and_input, output_gate = (
            self.cell_and_candidate,
            self.forget_and_input,
            self.output_gate,
        )
        cell, activated_cell, terms, half = self.cell, self.activated_cell, self.terms, HALF
        kept, new = terms[: len(cell)], terms[len(cell) :]
        state = self.state
        for projection, output, next_state in zip(projections, outputs, states, strict=True):
            product(state, destination)
            add(gates, projection, gates)
            tanh(gates, gates)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            multiply(cell_and_candidate, forget_and_input, terms)
            add(kept, new, cell)
            tanh(cell, activated_cell)
            multiply(activated_cell, output_gate, output)
            state = next_state
        self.state = state

    def advance_small(self, combined: Array, X: Array, Y: Array) -> None:
        """Run several steps for a batch size of 1, whose product includes the input and the biases.

        For few elements the time of a step is that of the calls of NumPy, of which these are fewer.

        Args:
            combined: The weights of the input, the biases and those of the state, shape [input + 1 + hidden, gates].
            X: Shape [time, input].
            Y: Where the hidden states are written, shape [time, hidden].
        """
        time, size = X.shape
        rows = np.empty((time + 1, len(combined)), np.float32)
        rows[:-1, :size] = X
        rows[:, size] = 1
        outputs = rows[:, size + 1 :]
        outputs[0] = self.state
        add, multiply, tanh = np.add, np.multiply, np.tanh
        gates, sigmoids, half = self.gates, self.sigmoids, HALF
        pairs, factors, output_gate = self.cell_and_candidate, self.forget_and_input, self.output_gate
        cell, activated_cell, terms = self.cell, self.activated_cell, self.terms
        kept, new = terms[: len(cell)], terms[len(cell) :]
        for row, output in zip(rows[:-1], outputs[1:], strict=True):
            row.dot(combined, gates)
            tanh(gates, gates)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            multiply(pairs, factors, terms)
            add(kept, new, cell)
            tanh(cell, activated_cell)
            multiply(activated_cell, output_gate, output)
        Y[...] = outputs[1:]
        self.state = np.array(outputs[-1])

    def get_states(self) -> list[Array]:
        return [np.atleast_2d(self.state), _from_gate_shape(self.cell)]


class _RNN:
    """A plain recurrence with tanh."""

    def __init__(self, weights: RecurrentWeights, batch: int, states: Sequence[Array]) -> None:
        matrix = weights.R
        self.parts = matrix.count_parts(batch) if batch > 1 else 1
        self.product = matrix.make_product(batch, self.parts)
        values, self.destination = matrix.allocate(batch, self.parts)
        self.gates = values[: self.parts if batch > 1 else weights.hidden]
        (self.state,) = states

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        product, destination, gates, add, tanh = self.product, self.destination, self.gates, np.add, np.tanh
        state = self.state
        for projection, output, next_state in zip(projections, outputs, states, strict=True):
            product(state, destination)
            add(gates, projection, gates)
            tanh(gates, output)
            state = next_state
        self.state = state

    def get_states(self) -> list[Array]:
        return [np.atleast_2d(self.state)]


class _GRU:
    """A GRU. Its workspace holds the gates z, r, h."""

    def __init__(
        self, weights: RecurrentWeights, batch: int, states: Sequence[Array], *, hidden_bias: Array | None
    ) -> None:
        matrix = weights.R
        self.parts = parts = matrix.count_parts(batch) if batch > 1 else 1
        self.product = matrix.make_product(batch, parts)
        values, self.destination = matrix.allocate(batch, parts)
        self.unit = unit = parts if batch > 1 else weights.hidden
        self.sigmoids = values[: 2 * unit]
        self.update, self.reset, self.candidate = (values[i * unit : (i + 1) * unit] for i in range(3))
        self.difference = np.empty_like(self.update)
        self.hidden_bias = None
        if hidden_bias is not None:
            self.hidden_bias = np.empty_like(self.update)
            self.hidden_bias[...] = _to_gate_shape(np.broadcast_to(hidden_bias, (batch, weights.hidden)), parts)
        self.output = np.empty_like(self.update)
        (self.state,) = states
        self.output[...] = _to_gate_shape(self.state, parts)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        product, add, multiply, subtract, tanh = self.product, np.add, np.multiply, np.subtract, np.tanh
        destination, sigmoids, update, reset = self.destination, self.sigmoids, self.update, self.reset
        candidate, difference, hidden_bias, half = self.candidate, self.difference, self.hidden_bias, HALF
        split = 2 * self.unit
        state, previous = self.state, self.output
        for projection, output, next_state in zip(projections, outputs, states, strict=True):
            product(state, destination)
            add(sigmoids, projection[:split], sigmoids)
            tanh(sigmoids, sigmoids)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            if hidden_bias is not None:
                add(candidate, hidden_bias, candidate)
            multiply(candidate, reset, candidate)
            add(candidate, projection[split:], candidate)
            tanh(candidate, candidate)
            subtract(previous, candidate, difference)
            multiply(difference, update, difference)
            add(difference, candidate, output)
            state, previous = next_state, output
        self.state, self.output = state, previous

    def get_states(self) -> list[Array]:
        return [np.atleast_2d(self.state)]


class _ResetFirstGRU:
    """A GRU whose reset gate is applied to the state before the product (`linear_before_reset` is false)."""

    def __init__(
        self, weights: RecurrentWeights, batch: int, states: Sequence[Array], *, candidate_weights: PartedMatrix
    ) -> None:
        matrix = weights.R
        self.parts = parts = matrix.count_parts(batch) if batch > 1 else 1
        self.product = matrix.make_product(batch, parts)
        self.candidate_product = candidate_weights.make_product(batch, parts)
        values, self.destination = matrix.allocate(batch, parts)
        candidates, self.candidate_destination = candidate_weights.allocate(batch, parts)
        self.unit = unit = parts if batch > 1 else weights.hidden
        self.sigmoids = values[: 2 * unit]
        self.update, self.reset = values[:unit], values[unit : 2 * unit]
        self.candidate = candidates[:unit]
        self.difference = np.empty_like(self.update)
        self.output = np.empty_like(self.update)
        (self.state,) = states
        self.output[...] = _to_gate_shape(self.state, parts)
        self.reset_state = np.empty_like(self.state)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        product, add, multiply, subtract, tanh = self.product, np.add, np.multiply, np.subtract, np.tanh
        destination, sigmoids, update, reset = self.destination, self.sigmoids, self.update, self.reset
        candidate, difference, half = self.candidate, self.difference, HALF
        candidate_product, candidate_destination = self.candidate_product, self.candidate_destination
        reset_state = self.reset_state
        reset_output = _to_gate_shape(reset_state, self.parts)
        split = 2 * self.unit
        state, previous = self.state, self.output
        for projection, output, next_state in zip(projections, outputs, states, strict=True):
            product(state, destination)
            add(sigmoids, projection[:split], sigmoids)
            tanh(sigmoids, sigmoids)
            multiply(sigmoids, half, sigmoids)
            add(sigmoids, half, sigmoids)
            multiply(previous, reset, reset_output)
            candidate_product(reset_state, candidate_destination)
            add(candidate, projection[split:], candidate)
            tanh(candidate, candidate)
            subtract(previous, candidate, difference)
            multiply(difference, update, difference)
            add(difference, candidate, output)
            state, previous = next_state, output
        self.state, self.output = state, previous

    def get_states(self) -> list[Array]:
        return [np.atleast_2d(self.state)]


def _to_gate_shape(state: Array, parts: int) -> Array:
    """Return a view of a state, `[batch, hidden]` or `[hidden]`, in the shape of a gate."""
    if state.ndim == 1 or len(state) == 1:
        return np.asarray(state.reshape(-1))
    return np.asarray(state.reshape(len(state), parts, -1).transpose(1, 0, 2))


def _from_gate_shape(gate: Array) -> Array:
    """Return a copy of a gate in the shape of a state, `[batch, hidden]`."""
    if gate.ndim == 1:
        return np.array(gate[np.newaxis])
    return np.asarray(gate.transpose(1, 0, 2).reshape(gate.shape[1], -1))


def run_direction(
    weights: RecurrentWeights, X: Array, states: Sequence[Array], Y: Array, stops: Sequence[int] = ()
) -> Iterator[tuple[int, list[Array]]]:
    """Run one direction.

    Args:
        weights: The weights.
        X: The input, f32, shape [time, batch, input].
        states: The initial states, f32, shape [batch, hidden] each.
        Y: Where the hidden states are written, shape [time, batch, hidden], the last axis contiguous.
        stops: Ascending numbers of steps, up to the length.

    Yields:
        After each of `stops`, and after the last step: the number of steps so far and the present states, which are
        only valid until the next step.
    """
    time, batch, hidden = Y.shape
    shape = (batch, weights.input_size)
    if X.shape[1:] != shape or len(X) != time or X.dtype != F32 or hidden != weights.hidden or not batch:
        raise ValueError(f"X has shape {X.shape}, expected {(time, *shape)}")
    if len(states) != weights.state_count or any(s.shape != (batch, hidden) or s.dtype != F32 for s in states):
        raise ValueError(f"the states do not have the shape {(batch, hidden)}")
    contiguous = [np.ascontiguousarray(s if batch > 1 else s[0]) for s in states]
    recurrence = weights.start(batch, contiguous)
    block_size = max(1, -(-ROWS_PER_BLOCK // batch))
    last = 0
    for stop in sorted({*stops, time}):
        for start in range(last, stop, block_size):
            block = slice(start, min(start + block_size, stop))
            if batch == 1 and weights.combined is not None and isinstance(recurrence, _LSTM):
                recurrence.advance_small(weights.combined, X[block, 0], Y[block, 0])
                continue
            projection = weights.project(X[block])
            if batch == 1:
                recurrence.advance(projection[:, 0], Y[block, 0], Y[block, 0])
            else:
                parts = recurrence.parts
                by_part = projection.reshape(*projection.shape[:2], weights.gates * parts, -1).transpose(0, 2, 1, 3)
                outputs = Y[block].reshape(*Y[block].shape[:2], parts, -1).transpose(0, 2, 1, 3)
                recurrence.advance(by_part, outputs, Y[block])
        last = stop
        yield stop, recurrence.get_states()


def _prepare_lstm(W: Array, R: Array, B: Array | None) -> RecurrentWeights:
    """Prepare the weights of an LSTM, whose gates are in the order f, i, c, o."""

    def arrange(weights: Array) -> Array:
        by_gate = weights.reshape(4, -1, *weights.shape[1:])
        return _halve_gates(by_gate[[2, 0, 1, 3]].reshape(weights.shape), 4, slice(1, 4))

    W, R, B = arrange(W), arrange(R), None if B is None else arrange(B)
    weights = RecurrentWeights(W, B, PartedMatrix(R, 4), 2, _LSTM)
    if (W.shape[1] + 1 + R.shape[1]) * len(R) <= SMALL_SIZE:
        biases = np.zeros((1, len(R)), np.float32) if B is None else B[np.newaxis]
        weights.combined = np.concatenate([W.T, biases, R.T])
    return weights


def _prepare_rnn(W: Array, R: Array, B: Array | None) -> RecurrentWeights:
    """Prepare the weights of a plain recurrence."""
    return RecurrentWeights(W, B, PartedMatrix(R, 1), 1, _RNN)


def _prepare_gru(W: Array, R: Array, B: Array | None, *, linear_before_reset: bool) -> RecurrentWeights:
    """Prepare the weights of a GRU, whose gates are in the order z, r, h."""
    hidden = R.shape[1]
    B, hidden_bias = split_gru_biases(B, hidden)
    W, R = (_halve_gates(x, 3, slice(2)) for x in (W, R))
    B = None if B is None else _halve_gates(B, 3, slice(2))
    if linear_before_reset:
        if hidden_bias is not None and not hidden_bias.any():
            hidden_bias = None
        return RecurrentWeights(W, B, PartedMatrix(R, 3), 1, _GRU, hidden_bias=hidden_bias)
    candidate_weights = PartedMatrix(R[2 * hidden :], 1)
    matrix = PartedMatrix(R[: 2 * hidden], 2)
    return RecurrentWeights(W, B, matrix, 1, _ResetFirstGRU, candidate_weights=candidate_weights)


def _halve_gates(weights: Array, gates: int, halved: slice) -> Array:
    """Return a copy of weights or biases with those of some gates multiplied by 1/2."""
    result = np.array(weights, order="C")
    result.reshape(gates, -1)[halved] *= HALF
    return result


@dataclass(frozen=True)
class _Kind:
    """A kind of recurrence.

    Attributes:
        gates: Number of gates.
        activations: The activation functions that the recurrence computes.
        state_count: Number of states.
        prepare: Prepares W, R and B.
    """

    gates: int
    activations: list[str]
    state_count: int
    prepare: Callable[..., RecurrentWeights]


_KINDS = {
    "LSTM": _Kind(4, LSTM_ACTIVATIONS, 2, _prepare_lstm),
    "GRU": _Kind(3, GRU_ACTIVATIONS, 1, _prepare_gru),
    "RNN": _Kind(1, RNN_ACTIVATIONS, 1, _prepare_rnn),
}


def _get_kind(site: CallSite) -> _Kind | None:
    """Return the kind of a call site, or None if its attributes are not those that are specialized."""
    attributes = site.attributes
    kind = _KINDS[site.operation.type.removesuffix("Cell").removesuffix("Sequence")]
    names = [name.strip().lower() for name in attributes.get("activations", [])]
    is_default = (
        names == kind.activations[: len(names)]
        and not attributes.get("clip", 0) > 0
        and not attributes.get("input_forget", False)
        and attributes["hidden_size"] > 0
    )
    return kind if is_default else None


def _prepare(site: CallSite, kind: _Kind, W: Array, R: Array, B: Array | None) -> RecurrentWeights | None:
    """Prepare the weights of a cell or of one direction, or return None if they do not have the expected shapes."""
    hidden = site.attributes["hidden_size"]
    keywords: dict[str, Any] = {}
    biases = kind.gates
    if site.operation.type.startswith("GRU"):
        keywords["linear_before_reset"] = bool(site.attributes.get("linear_before_reset", False))
        biases += keywords["linear_before_reset"]
    rows = kind.gates * hidden
    if W.ndim != 2 or len(W) != rows or R.shape != (rows, hidden) or any(x.dtype != F32 for x in (W, R)):
        return None
    if B is not None and (B.shape != (biases * hidden,) or B.dtype != F32):
        return None
    return kind.prepare(W, R, B, **keywords)


def prepare_cell(site: CallSite) -> RecurrentWeights | None:
    """Prepare the weights of a cell.

    Returns:
        None if the weights are not constant, or an attribute is not the default.
    """
    kind = _get_kind(site)
    if kind is None:
        return None
    first = 1 + kind.state_count
    W, R, B = (site.get_constant(i) for i in range(first, first + 3))
    if any(site.has_input(i) and site.get_constant(i) is None for i in range(first, first + 3)):
        return None
    if W is None or W.ndim != 2 or site.has_input(first + 3):
        return None
    hidden = site.attributes["hidden_size"]
    if (R is None or R.ndim == 1) and W.shape[1] < hidden:
        return None
    return _prepare(site, kind, *split_combined_weights(W, R, B, hidden))


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
    """Compute the sigmoid of gates, whose weights were halved, in place."""
    np.tanh(gates, gates)
    np.multiply(gates, HALF, gates)
    np.add(gates, HALF, gates)


def _combine_weights(weights: RecurrentWeights) -> _GateProduct:
    """Return the product with the input and the state side by side."""
    matrix = np.concatenate([weights.W.T, weights.R.matrix], axis=1)
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
        cell = np.multiply(forget, _to_gate_shape(C, len(candidate)) if is_divided else C)
        np.multiply(new, candidate, new)
        np.add(cell, new, cell)
        state = np.tanh(cell)
        np.multiply(state, output, state)
        return (_from_gate_shape(state), _from_gate_shape(cell)) if is_divided else (state, cell)

    return step


def _make_rnn_step(weights: RecurrentWeights) -> Kernel:
    compute_gates = _combine_weights(weights)

    def step(X: Array, H: Array) -> Array:
        (gate,) = compute_gates(np.concatenate((X, H), 1))
        state = np.tanh(gate)
        return _from_gate_shape(state) if gate.ndim > 2 else np.asarray(state)

    return step


def _make_gru_step(weights: RecurrentWeights) -> Kernel:
    compute_from_input = _GateProduct(PartedMatrix(weights.W.T, 3), weights.bias)
    compute_from_state = _GateProduct(weights.R)
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
    _LSTM: _make_lstm_step,
    _RNN: _make_rnn_step,
    _GRU: _make_gru_step,
    _ResetFirstGRU: _make_gru_step,
}


@specializes("LSTMSequence-5", "GRUSequence-5", "RNNSequence-5")
def specialize_sequence(site: CallSite) -> SpecializedKernel | None:
    """Prepare the weights of all directions."""
    kind = _get_kind(site)
    if kind is None:
        return None
    state_count = kind.state_count
    W, R, B = (site.get_constant(i) for i in range(2 + state_count, 5 + state_count))
    if W is None or R is None or B is None or site.has_input(5 + state_count) or site.get_constant(0) is not None:
        return None
    weights_format = site.attributes.get("weights_format", "fico")
    direction = site.attributes.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    if not len(W) == len(R) == len(B) == count:
        return None
    directions = []
    for d in range(count):
        w, r, b = (reorder_gates(x[d], weights_format) for x in (W, R, B))
        weights = _prepare(site, kind, w, r, b)
        if weights is None:
            return None
        directions.append((weights, d == 1 or direction == "reverse"))
    template = site.constants[: 2 + state_count]
    positions = site.variable_inputs

    def compute(*inputs: Array) -> Any:
        arguments: list[Any] = list(template)
        for position, value in zip(positions, inputs, strict=True):
            arguments[position] = value
        X, lengths = arguments[0], arguments[1 + state_count]
        states = arguments[1 : 1 + state_count]
        is_f32 = all(x.dtype == F32 and x.ndim == 3 for x in (X, *states))
        if not is_f32 or not X.shape[1] or lengths.shape != X.shape[:1] or any(s.shape[1] != count for s in states):
            return site.call_plain(*inputs)
        lengths = read_lengths("sequence_lengths", lengths, *X.shape[:2])
        return _run_directions(directions, X, states, lengths)

    return compute


def _run_directions(
    directions: Sequence[tuple[RecurrentWeights, bool]], X: Array, states: Sequence[Array], lengths: Array
) -> tuple[Array, ...]:
    """Run a sequence.

    Args:
        directions: The weights of each direction, and whether it is reversed.
        X: The input, shape [batch, time, input].
        states: The initial states, shape [batch, directions, hidden] each.
        lengths: i64, shape [batch].

    Returns:
        The hidden states and the last states; see `run_sequence`.
    """
    batch, time, _ = X.shape
    Y = np.empty((batch, len(directions), time, states[0].shape[2]), np.float32)
    last_states = [np.zeros(state.shape, np.float32) for state in states]
    is_masked = bool((lengths != time).any())
    by_time = X.transpose(1, 0, 2)
    for d, (weights, is_reversed) in enumerate(directions):
        initial = [state[:, d] for state in states]
        if not is_masked:
            order = slice(None, None, -1) if is_reversed else slice(None)
            outputs = Y[:, d].transpose(1, 0, 2)[order]
            for _, results in run_direction(weights, by_time[order], initial, outputs):
                for last_state, result in zip(last_states, results, strict=True):
                    last_state[:, d] = result
            continue
        times = np.arange(time)[:, np.newaxis]
        is_past_end = times >= lengths
        index = (np.where(is_past_end, times, lengths - 1 - times), np.arange(batch))  # within each sequence
        outputs = np.empty((time, batch, weights.hidden), np.float32)
        stops = [int(n) for n in np.unique(lengths) if n]
        inputs = by_time[index] if is_reversed else by_time
        for stop, results in run_direction(weights, inputs, initial, outputs, stops):
            ends = lengths == stop
            for last_state, result in zip(last_states, results, strict=True):
                last_state[ends, d] = result[ends]
        outputs[is_past_end] = 0
        Y[:, d].transpose(1, 0, 2)[index if is_reversed else slice(None)] = outputs
    return Y, *last_states
