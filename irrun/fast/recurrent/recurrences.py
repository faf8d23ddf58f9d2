"""Recurrences with prepared weights. All steps write into the same workspace."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from irrun.deadlines import check_time, within_time
from irrun.fast.errors import NoKernelError
from irrun.fast.recurrent.matrices import PartedMatrix, from_gate_shape, to_gate_shape
from irrun.threads import multiply_matrices

__all__ = [
    "GRU",
    "HALF",
    "LSTM",
    "RNN",
    "ChangeWeights",
    "RecurrentWeights",
    "ResetFirstGRU",
    "run_direction",
    "run_whole_direction",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
HALF = np.array(0.5, np.float32)  # faster than a scalar

#: Number of input rows projected at a time: enough for an efficient matrix product.
ROWS_PER_BLOCK = 512


class Recurrence(Protocol):
    """The state of one direction during a run."""

    def run_block(self, projection: Array, outputs: Array) -> None:
        """Run several steps.

        Args:
            projection: The part of the gates that does not depend on the state, shape [time, batch, gates * hidden].
            outputs: The destination of the hidden states, shape [time, batch, hidden], the last axis contiguous.
        """

    def get_states(self) -> list[Array]:
        """Return the current states, `[batch, hidden]` each."""


class _PartedRecurrence:
    """A recurrence with gates divided into parts.

    Attributes:
        parts: Number of parts of each gate.
    """

    parts: int

    def run_block(self, projection: Array, outputs: Array) -> None:
        """Run several steps; see `Recurrence`."""
        time, batch, _ = projection.shape
        if batch == 1:
            self.advance(projection[:, 0], outputs[:, 0], outputs[:, 0])
            return
        by_part = projection.reshape(time, batch, -1, outputs.shape[-1] // self.parts).transpose(0, 2, 1, 3)
        self.advance(by_part, outputs.reshape(time, batch, self.parts, -1).transpose(0, 2, 1, 3), outputs)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps.

        Args:
            projections: For each step, the part of the gates that does not depend on the state.
            outputs: For each step, the place of the hidden state, in the shape of a gate.
            states: The same places in the shape that products require.
        """
        raise NotImplementedError


class RecurrentWeights:
    """The weights of a cell or of one direction of a sequence.

    Args:
        W: The weights of the input, with the gates in the order that the recurrence requires.
        bias: The biases added to the products, or None.
        hidden: The size of the hidden state.
        state_count: Number of states.
        recurrence: Creates a recurrence from these weights, the batch size, the initial states and `options`.
        options: The recurrent weights, in the same order.
    """

    def __init__(
        self,
        W: Array,
        bias: Array | None,
        hidden: int,
        state_count: int,
        recurrence: Callable[..., Recurrence],
        **options: Any,
    ) -> None:
        self.W = np.ascontiguousarray(W.T)
        self.bias = bias
        self.hidden = hidden
        self.gates = W.shape[0] // hidden
        self.input_size = W.shape[1]
        self.state_count = state_count
        self.recurrence = recurrence
        self.options = options
        #: Computes the products of rows with the weights of the input in another way, plus biases.
        self.multiply: Callable[[Array], Array] | None = None
        #: Number of input rows projected at a time.
        self.rows_per_block = ROWS_PER_BLOCK
        #: The input weights, the biases and the state weights in one matrix, for small LSTMs.
        self.combined: Array | None = None

    def replace_recurrence(
        self, recurrence: Callable[..., Recurrence], multiply: Callable[[Array], Array], rows_per_block: int
    ) -> RecurrentWeights:
        """Return weights with a recurrence that has its own recurrent weights.

        Args:
            recurrence: Creates the recurrence.
            multiply: Returns the products of rows with the weights of the input, plus biases.
            rows_per_block: The number of rows that are multiplied at a time.
        """
        other = copy.copy(self)
        other.recurrence, other.options, other.combined = recurrence, {}, None
        other.W, other.multiply, other.rows_per_block = self.W[:0], multiply, rows_per_block
        return other

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
        if self.multiply is not None:
            return self.multiply(X)
        time, batch, size = X.shape
        rows = X.reshape(time * batch, size)
        projection = multiply_matrices(rows, self.W)
        if self.bias is not None:
            np.add(projection, self.bias, projection)
        return np.asarray(projection.reshape(time, batch, -1))


#: Returns another form of the weights of a recurrence.
ChangeWeights = Callable[[RecurrentWeights], RecurrentWeights]


class LSTM(_PartedRecurrence):
    """An LSTM. The workspace holds the cell state and the gates c, f, i, o, which are processed in pairs."""

    def __init__(self, weights: RecurrentWeights, batch: int, states: Sequence[Array], *, matrix: PartedMatrix) -> None:
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
        self.cell[...] = to_gate_shape(cell, parts)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps."""
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
        """Run several steps for a batch size of 1. The product includes the input and the biases.

        With few elements, NumPy calls take most of the time of a step; this method makes fewer calls.

        Args:
            combined: The input weights, the biases and the state weights, shape [input + 1 + hidden, gates].
            X: Shape [time, input].
            Y: The destination of the hidden states, shape [time, hidden].
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
        """Return the hidden state and the cell state."""
        return [np.atleast_2d(self.state), from_gate_shape(self.cell)]


class _HiddenState(_PartedRecurrence):
    """The state of a recurrence without a cell state: `[hidden]` for a batch size of 1, else `[batch, hidden]`."""

    state: Array

    def get_states(self) -> list[Array]:
        """Return the hidden state."""
        return [np.atleast_2d(self.state)]


class RNN(_HiddenState):
    """A plain recurrence with tanh."""

    def __init__(self, weights: RecurrentWeights, batch: int, states: Sequence[Array], *, matrix: PartedMatrix) -> None:
        self.parts = matrix.count_parts(batch) if batch > 1 else 1
        self.product = matrix.make_product(batch, self.parts)
        values, self.destination = matrix.allocate(batch, self.parts)
        self.gates = values[: self.parts if batch > 1 else weights.hidden]
        (self.state,) = states

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps."""
        product, destination, gates, add, tanh = self.product, self.destination, self.gates, np.add, np.tanh
        state = self.state
        for projection, output, next_state in zip(projections, outputs, states, strict=True):
            product(state, destination)
            add(gates, projection, gates)
            tanh(gates, output)
            state = next_state
        self.state = state


class GRU(_HiddenState):
    """A GRU. Its workspace holds the gates z, r, h."""

    def __init__(
        self,
        weights: RecurrentWeights,
        batch: int,
        states: Sequence[Array],
        *,
        matrix: PartedMatrix,
        hidden_bias: Array | None,
    ) -> None:
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
            self.hidden_bias[...] = to_gate_shape(np.broadcast_to(hidden_bias, (batch, weights.hidden)), parts)
        self.output = np.empty_like(self.update)
        (self.state,) = states
        self.output[...] = to_gate_shape(self.state, parts)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps."""
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


class ResetFirstGRU(_HiddenState):
    """A GRU that applies the reset gate to the state before the product (`linear_before_reset` is false)."""

    def __init__(
        self,
        weights: RecurrentWeights,
        batch: int,
        states: Sequence[Array],
        *,
        matrix: PartedMatrix,
        candidate_weights: PartedMatrix,
    ) -> None:
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
        self.output[...] = to_gate_shape(self.state, parts)
        self.reset_state = np.empty_like(self.state)

    def advance(self, projections: Iterable[Array], outputs: Iterable[Array], states: Iterable[Array]) -> None:
        """Run several steps."""
        product, add, multiply, subtract, tanh = self.product, np.add, np.multiply, np.subtract, np.tanh
        destination, sigmoids, update, reset = self.destination, self.sigmoids, self.update, self.reset
        candidate, difference, half = self.candidate, self.difference, HALF
        candidate_product, candidate_destination = self.candidate_product, self.candidate_destination
        reset_state = self.reset_state
        reset_output = to_gate_shape(reset_state, self.parts)
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


def run_direction(
    weights: RecurrentWeights, X: Array, states: Sequence[Array], Y: Array, stops: Sequence[int] = ()
) -> Iterator[tuple[int, list[Array]]]:
    """Run one direction.

    Args:
        weights: The weights.
        X: The input, f32, shape [time, batch, input].
        states: The initial states, f32, shape [batch, hidden] each.
        Y: The destination of the hidden states, shape [time, batch, hidden], the last axis contiguous.
        stops: Ascending numbers of steps, up to the length.

    Yields:
        After each of `stops`, and after the last step: the number of steps so far and the current states, which are
        only valid until the next step.
    """
    _check_shapes(weights, X, states, Y)
    time, batch, _ = Y.shape
    recurrence = weights.start(batch, [np.ascontiguousarray(s if batch > 1 else s[0]) for s in states])
    block_size = max(1, -(-weights.rows_per_block // batch))
    last = 0
    # Compiled products have the same bits for any number of rows.
    projection = weights.project(X) if weights.multiply is not None and time <= block_size else None
    for stop in sorted({*stops, time}):
        for start in within_time(range(last, stop, block_size)):
            block = slice(start, min(start + block_size, stop))
            if batch == 1 and weights.combined is not None and isinstance(recurrence, LSTM):
                recurrence.advance_small(weights.combined, X[block, 0], Y[block, 0])
                continue
            recurrence.run_block(weights.project(X[block]) if projection is None else projection[block], Y[block])
        last = stop
        yield stop, recurrence.get_states()


def run_whole_direction(weights: RecurrentWeights, X: Array, states: Sequence[Array], Y: Array) -> list[Array]:
    """Run all steps of one direction, and return the last states; see `run_direction`."""
    if weights.multiply is None or len(X) > max(1, -(-weights.rows_per_block // X.shape[1])):
        (*_, (_, last_states)) = run_direction(weights, X, states, Y)
        return last_states
    _check_shapes(weights, X, states, Y)
    check_time()
    recurrence = weights.start(len(states[0]), states)
    recurrence.run_block(weights.project(X), Y)
    return recurrence.get_states()


def _check_shapes(weights: RecurrentWeights, X: Array, states: Sequence[Array], Y: Array) -> None:
    """Check the inputs of a direction.

    Raises:
        NoKernelError: A shape or a type differs from what the weights need.
    """
    time, batch, hidden = Y.shape
    if X.shape != (time, batch, weights.input_size) or X.dtype != F32 or hidden != weights.hidden or not batch:
        raise NoKernelError(f"X has shape {X.shape}, expected {(time, batch, weights.input_size)}")
    if len(states) != weights.state_count or any(s.shape != (batch, hidden) or s.dtype != F32 for s in states):
        raise NoKernelError(f"the states do not have the shape {(batch, hidden)}")
