"""Recurrent sequences: RNNSequence, GRUSequence, LSTMSequence.

Their specification requires `direction`, but its own examples leave it out; OpenVINO then goes forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    NO_NUMBERS,
    RNN_ACTIVATIONS,
    GRUStep,
    LSTMStep,
    RNNStep,
    activation_functions,
    expect_shape,
    gru_biases,
    input_part,
    to_fico,
)
from irrun.ops._support.registry import op

__all__ = ["Direction", "gru_sequence_5", "lstm_sequence_5", "rnn_sequence_5", "run_sequence"]

#: Times for which the part of the gates that comes from X is made at once, at least: enough for BLAS.
SHORTEST = 8

Direction = Literal["forward", "reverse", "bidirectional"]
WeightsFormat = Literal["fico", "icof", "ifco", "ifoc", "iofc"]
Step = Callable[..., "tuple[Array, ...]"]


@op("RNNSequence", since=5)
@compute_in_float32
def rnn_sequence_5(
    X: Array,
    initial_hidden_state: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    *,
    hidden_size: int,
    direction: Direction = "forward",
    activations: list[str] = RNN_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
) -> tuple[Array, ...]:
    """A plain recurrent cell along a sequence.

    X: float [batch, time, input]; initial_hidden_state: [batch, directions, hidden]; sequence_lengths: i32 or
    i64 [batch]; W: [directions, hidden, input]; R: [directions, hidden, hidden]; B: [directions, hidden].
    Returns the hidden states, [batch, directions, time, hidden] with zeros behind the end of each sequence,
    and the last one, [batch, directions, hidden] (zeros where the length is 0).
    Raises InputError where shapes do not fit, a length is not in [0, time], or an activation is unknown.
    Spec: RNNSequence-5.
    """
    (f,), bound = activation_functions(activations, activations_alpha, activations_beta, RNN_ACTIVATIONS, clip)
    _check(X, [initial_hidden_state], W, R, B, direction, hidden_size, 1, 1)
    steps = [RNNStep(r, f, bound) for r in R]
    return run_sequence(X, [initial_hidden_state], sequence_lengths, W, B, direction, 1, steps)


@op("GRUSequence", since=5)
@compute_in_float32
def gru_sequence_5(
    X: Array,
    initial_hidden_state: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    *,
    hidden_size: int,
    direction: Direction = "forward",
    activations: list[str] = GRU_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[Array, ...]:
    """A gated recurrent unit along a sequence, gates in the order z, r, h.

    X: float [batch, time, input]; initial_hidden_state: [batch, directions, hidden]; sequence_lengths: i32 or
    i64 [batch]; W: [directions, 3*hidden, input]; R: [directions, 3*hidden, hidden];
    B: [directions, 3*hidden], or with linear_before_reset [directions, 4*hidden].
    Returns the hidden states, [batch, directions, time, hidden] with zeros behind the end of each sequence,
    and the last one, [batch, directions, hidden] (zeros where the length is 0).
    Raises InputError where shapes do not fit, a length is not in [0, time], or an activation is unknown.
    Spec: GRUSequence-5.
    """
    return gru_along(
        X,
        initial_hidden_state,
        sequence_lengths,
        W,
        R,
        B,
        None,
        hidden_size=hidden_size,
        direction=direction,
        linear_before_reset=linear_before_reset,
        functions=activation_functions(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS, clip),
    )


def gru_along(
    X: Array,
    H: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    attention: Array | None,
    *,
    hidden_size: int,
    direction: Direction,
    linear_before_reset: bool,
    functions: tuple[list[Callable[[Array], Array]], float],
) -> tuple[Array, ...]:
    """GRUSequence, and with attention scores [batch, time, 1] AUGRUSequence."""
    (f, g), bound = functions
    _check(X, [H], W, R, B, direction, hidden_size, 3, 4 if linear_before_reset else 3)
    biases, hidden_biases = gru_biases(B, hidden_size)
    steps = [
        GRUStep(r, f, g, bound, linear_before_reset, None if hidden_biases is None else hidden_biases[d])
        for d, r in enumerate(R)
    ]
    more = [] if attention is None else [attention]
    return run_sequence(X, [H], sequence_lengths, W, biases, direction, 3, steps, more)


@op("LSTMSequence", since=5)
@compute_in_float32
def lstm_sequence_5(
    X: Array,
    initial_hidden_state: Array,
    initial_cell_state: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    P: Array | None = None,
    *,
    hidden_size: int,
    direction: Direction = "forward",
    activations: list[str] = LSTM_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    weights_format: WeightsFormat = "fico",
    input_forget: bool = False,
) -> tuple[Array, ...]:
    """Long short-term memory along a sequence, gates in the order f, i, c, o.

    X: float [batch, time, input]; initial_hidden_state, initial_cell_state: [batch, directions, hidden];
    sequence_lengths: i32 or i64 [batch]; W: [directions, 4*hidden, input];
    R: [directions, 4*hidden, hidden]; B: [directions, 4*hidden].
    P ([directions, 3*hidden], peepholes of f, i, o), weights_format and input_forget occur
    in files of the operation's first, withdrawn version.
    Returns the hidden states, [batch, directions, time, hidden] with zeros behind the end of each sequence,
    and the last hidden and cell states, [batch, directions, hidden] each (zeros where the length is 0).
    Raises InputError where shapes do not fit, a length is not in [0, time], or an activation is unknown.
    Spec: LSTMSequence-5, described as LSTMSequence-1.
    """
    (f, g, h), bound = activation_functions(activations, activations_alpha, activations_beta, LSTM_ACTIVATIONS, clip)
    states = [initial_hidden_state, initial_cell_state]
    _check(X, states, W, R, B, direction, hidden_size, 4, 4)
    if P is not None:
        expect_shape("P", P, W.shape[0], 3 * hidden_size)
        P = P.reshape(-1, 3, hidden_size)
    steps = [
        LSTMStep(to_fico(r, weights_format), f, g, h, bound, None if P is None else P[d], input_forget)
        for d, r in enumerate(R)
    ]
    W = np.stack([to_fico(w, weights_format) for w in W]) if weights_format != "fico" else W
    B = np.stack([to_fico(b, weights_format) for b in B]) if weights_format != "fico" else B
    return run_sequence(X, states, sequence_lengths, W, B, direction, 4, steps)


def _check(
    X: Array,
    states: Sequence[Array],
    W: Array,
    R: Array,
    B: Array,
    direction: str,
    hidden_size: int,
    gates: int,
    biases: int,
) -> None:
    directions = 2 if direction == "bidirectional" else 1
    if X.ndim != 3:
        raise InputError(f"X has shape {list(X.shape)}, expected [batch_size, seq_length, input_size]")
    for name, state in zip(("initial_hidden_state", "initial_cell_state"), states, strict=False):
        expect_shape(name, state, X.shape[0], directions, hidden_size)
    expect_shape("W", W, directions, gates * hidden_size, X.shape[2])
    expect_shape("R", R, directions, gates * hidden_size, hidden_size)
    expect_shape("B", B, directions, biases * hidden_size)


def run_sequence(
    X: Array,
    states: Sequence[Array],
    sequence_lengths: Array,
    W: Array,
    B: Array | None,
    direction: Direction,
    gates: int,
    steps: Sequence[Step],
    more: Sequence[Array] = (),
) -> tuple[Array, ...]:
    """Run one step function per direction along X.

    Every sequence runs to the end of the longest; what lies behind its own end is dropped.
    states: [batch, directions, hidden] each; more: what the steps take besides, [batch, time, ...] each.
    Returns the hidden states of all times and the last value of each state.
    Raises:
        InputError: sequence_lengths has another shape, or values outside [0, time].
    """
    batch, time = X.shape[:2]
    expect_shape("sequence_lengths", sequence_lengths, batch)
    lengths = sequence_lengths.astype(np.int64)
    if batch and (lengths.min() < 0 or lengths.max() > time):
        raise InputError(f"sequence_lengths holds {lengths.tolist()}, expected 0 to {time}")
    hidden = states[0].shape[2]
    Y = np.empty((batch, len(steps), time, hidden), X.dtype)
    last = [np.zeros_like(state) for state in states]
    # What X adds to the gates is made for a block of times, so that it stays below the size of X and Y.
    block = max(SHORTEST, (X.size + Y.size) // max(1, 8 * batch * gates * hidden))
    for d, step in enumerate(steps):
        current: tuple[Array, ...] = tuple(state[:, d] for state in states)
        for start in range(0, time, block):
            times = np.arange(start, min(start + block, time))[:, np.newaxis]
            ends, ended = times + 1 == lengths, times >= lengths
            some_end = ends.any(axis=1).tolist()
            if d == 1 or direction == "reverse":  # each sequence is turned around within its own length
                times = np.where(ended, times, lengths - 1 - times)
            place = (np.arange(batch), times)
            part = input_part(X[place], W[d], None if B is None else B[d], gates)
            H = np.empty((len(times), batch, hidden), X.dtype)
            for i, now in enumerate(zip(part, *(m[place] for m in more), strict=True)):
                current = step(*now, *current)
                H[i] = current[0]
                if some_end[i]:
                    for kept, state in zip(last, current, strict=True):
                        kept[ends[i], d] = state[ends[i]]
            H[ended] = 0
            Y[np.arange(batch), d, times] = H
    return Y, *last
