"""Recurrent sequences: the steps of a cell along the time axis, in one or two directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.checks import check_shape, read_lengths
from irrun.ops._support.numerics import Array
from irrun.ops._support.recurrent_steps import STEP_COPIES, Activation, GRUStep, project_input, split_gru_biases

__all__ = ["Direction", "check_sequence_shapes", "run_gru_sequence", "run_sequence"]

Direction = Literal["forward", "reverse", "bidirectional"]
Step = Callable[..., "tuple[Array, ...]"]

#: Minimum number of time steps projected at a time: enough for an efficient matrix product.
MIN_BLOCK_SIZE = 8


def check_sequence_shapes(
    X: Array,
    states: Sequence[Array],
    W: Array,
    R: Array,
    B: Array,
    *,
    direction: Direction,
    hidden_size: int,
    gates: int,
    biases: int,
) -> None:
    """Check that the shapes of a sequence's inputs match.

    Args:
        X: The input, expected shape [batch, time, input].
        states: The hidden state and for LSTM the cell state, expected shape [batch, directions, hidden].
        W: The weights, expected shape [directions, gates * hidden, input].
        R: The recurrent weights, expected shape [directions, gates * hidden, hidden].
        B: The biases, expected shape [directions, biases * hidden].
        direction: The direction or directions.
        hidden_size: Size of the hidden state.
        gates: Number of gates.
        biases: Number of biases for each element of the hidden state.

    Raises:
        InputError: A shape does not match.
    """
    directions = 2 if direction == "bidirectional" else 1
    if X.ndim != 3:
        raise InputError(f"X has shape {list(X.shape)}, expected [batch_size, seq_length, input_size]")
    for name, state in zip(("initial_hidden_state", "initial_cell_state"), states, strict=False):
        check_shape(name, state, X.shape[0], directions, hidden_size)
    check_shape("W", W, directions, gates * hidden_size, X.shape[2])
    check_shape("R", R, directions, gates * hidden_size, hidden_size)
    check_shape("B", B, directions, biases * hidden_size)


def run_sequence(
    X: Array,
    states: Sequence[Array],
    sequence_lengths: Array,
    W: Array,
    B: Array | None,
    *,
    direction: Direction,
    gates: int,
    steps: Sequence[Step],
    step_inputs: Sequence[Array] = (),
) -> tuple[Array, ...]:
    """Run the steps of a cell along the time axis.

    All sequences run for the same number of time steps, and the results after the end of a sequence are discarded.

    Args:
        X: The input, shape [batch, time, input].
        states: The initial states, shape [batch, directions, hidden] each.
        sequence_lengths: Integer, shape [batch].
        W: The weights, shape [directions, gates * hidden, input].
        B: The biases, shape [directions, gates * hidden], or None.
        direction: The direction or directions.
        gates: Number of gates.
        steps: One step for each direction.
        step_inputs: Further inputs of the steps, shape [batch, time, ...] each.

    Returns:
        The hidden states, shape [batch, directions, time, hidden], with zeros after the end of each sequence; and the
        last value of each state, shape [batch, directions, hidden], with zeros for empty sequences.

    Raises:
        InputError: `sequence_lengths` has the wrong shape, or a length is not in [0, time].
    """
    batch, time = X.shape[:2]
    lengths = read_lengths("sequence_lengths", sequence_lengths, batch, time)
    hidden = states[0].shape[2]
    # Inputs are projected for a block of time steps, which takes less memory than X and Y.
    size = batch * len(steps) * time * hidden
    block_size = min(max(MIN_BLOCK_SIZE, (X.size + size) // max(1, 8 * batch * gates * hidden)), max(time, 1))
    block_elements = block_size * (X.shape[2] + (gates + 1) * hidden)
    check_scratch(X.itemsize * (size + batch * (block_elements + STEP_COPIES * gates * hidden)))
    Y = np.empty((batch, len(steps), time, hidden), X.dtype)
    last_states = [np.zeros_like(state) for state in states]
    if not Y.size:
        return Y, *last_states
    for d, step in enumerate(steps):
        current: tuple[Array, ...] = tuple(state[:, d] for state in states)
        for start in range(0, time, block_size):
            times = np.arange(start, min(start + block_size, time))[:, np.newaxis]
            is_last, is_past_end = times + 1 == lengths, times >= lengths
            has_last = is_last.any(axis=1).tolist()
            if d == 1 or direction == "reverse":  # each sequence is reversed within its own length
                times = np.where(is_past_end, times, lengths - 1 - times)
            index = (np.arange(batch), times)
            projection = project_input(X[index], W[d], None if B is None else B[d], gates)
            H = np.empty((len(times), batch, hidden), X.dtype)
            for i, inputs in within_time(enumerate(zip(projection, *(x[index] for x in step_inputs), strict=True))):
                current = step(*inputs, *current)
                H[i] = current[0]
                if has_last[i]:
                    for last_state, state in zip(last_states, current, strict=True):
                        last_state[is_last[i], d] = state[is_last[i]]
            H[is_past_end] = 0
            Y[np.arange(batch), d, times] = H
    return Y, *last_states


def run_gru_sequence(
    X: Array,
    H: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    *,
    hidden_size: int,
    direction: Direction,
    activations: Sequence[Activation],
    clip: float,
    linear_before_reset: bool,
    attention: Array | None = None,
) -> tuple[Array, ...]:
    """Run a GRUSequence, or with attention scores an AUGRUSequence.

    Args:
        X: The input, shape [batch, time, input].
        H: The initial hidden state, shape [batch, directions, hidden].
        sequence_lengths: Integer, shape [batch].
        W: The weights, shape [directions, 3 * hidden, input].
        R: The recurrent weights, shape [directions, 3 * hidden, hidden].
        B: The biases, shape [directions, 3 * hidden], or [directions, 4 * hidden] if `linear_before_reset` is true.
        hidden_size: Size of the hidden state.
        direction: The direction or directions.
        activations: The activation functions of the gates z and r, and of the gate h.
        clip: Bound of the gates before their activation functions.
        linear_before_reset: Whether the reset gate is applied after `H*R^T`.
        attention: Attention scores, shape [batch, time, 1].

    Returns:
        The hidden states and the last hidden state; see `run_sequence`.

    Raises:
        InputError: Shapes do not match, or a length is not in [0, time].
    """
    f, g = activations
    biases = 4 if linear_before_reset else 3
    check_sequence_shapes(X, [H], W, R, B, direction=direction, hidden_size=hidden_size, gates=3, biases=biases)
    gate_biases, hidden_biases = split_gru_biases(B, hidden_size)
    steps = [
        GRUStep(r, f, g, clip, linear_before_reset, None if hidden_biases is None else hidden_biases[d])
        for d, r in enumerate(R)
    ]
    return run_sequence(
        X,
        [H],
        sequence_lengths,
        W,
        gate_biases,
        direction=direction,
        gates=3,
        steps=steps,
        step_inputs=[] if attention is None else [attention],
    )
