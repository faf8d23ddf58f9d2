"""Recurrent sequences: RNNSequence, GRUSequence, LSTMSequence.

The specification requires the attribute `direction`, but its examples omit it. OpenVINO's default is "forward".
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irrun.ops._support.checks import check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_recurrent
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.recurrent_sequences import Direction, check_sequence_shapes, run_gru_sequence, run_sequence
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    RNN_ACTIVATIONS,
    LSTMStep,
    RNNStep,
    get_activations,
    get_clip_bound,
    reorder_gates,
)
from irrun.ops._support.registry import op

__all__ = ["gru_sequence_5", "lstm_sequence_5", "rnn_sequence_5"]

WeightsFormat = Literal["fico", "icof", "ifco", "ifoc", "iofc"]

_sequence = partial(op, since=5, kind="recurrent", shape="infer_sequence", shaped_by=())


@_sequence("RNNSequence", lengths=2, gates=1, flops=count_recurrent(pointwise=2, weights=3), output_types=(0, 0))
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
) -> tuple[Array, ...]:
    """Run a plain recurrent cell along sequences.

    Args:
        X: Floating-point, shape [batch, time, input].
        initial_hidden_state: The type of `X`, shape [batch, directions, hidden].
        sequence_lengths: i32 or i64, shape [batch].
        W: The type of `X`, shape [directions, hidden, input].
        R: The type of `X`, shape [directions, hidden, hidden].
        B: The type of `X`, shape [directions, hidden].
        hidden_size: Size of the hidden state.
        direction: The direction or directions.
        activations: Name of the activation function.
        activations_alpha: Value of alpha for this function.
        activations_beta: Value of beta for this function.
        clip: Bound of the sums before the activation function; 0 disables clipping.

    Returns:
        The hidden states, shape [batch, directions, time, hidden], with zeros after the end of each sequence; and the
        last hidden state, shape [batch, directions, hidden], with zeros for empty sequences.

    Raises:
        InputError: Shapes do not match, a length is not in [0, time], or an activation is unknown.

    Spec:
        RNNSequence-5
    """
    (f,) = get_activations(activations, activations_alpha, activations_beta, RNN_ACTIVATIONS)
    states = [initial_hidden_state]
    check_sequence_shapes(X, states, W, R, B, direction=direction, hidden_size=hidden_size, gates=1, biases=1)
    steps = [RNNStep(r, f, get_clip_bound(clip)) for r in R]
    return run_sequence(X, states, sequence_lengths, W, B, direction=direction, gates=1, steps=steps)


@_sequence("GRUSequence", lengths=2, gates=3, flops=count_recurrent(pointwise=11, weights=3), output_types=(0, 0))
@compute_in_float32
@describes_like(rnn_sequence_5)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[Array, ...]:
    """Run a gated recurrent unit along sequences, with the gates in the order z, r, h.

    Args:
        W: The type of `X`, shape [directions, 3 * hidden, input].
        R: The type of `X`, shape [directions, 3 * hidden, hidden].
        B: The type of `X`, shape [directions, 3 * hidden], or [directions, 4 * hidden] if `linear_before_reset` is
            true.
        activations: Names of the activation functions of the gates z and r, and of the gate h.
        activations_alpha: Values of alpha, one for each function.
        activations_beta: Values of beta, one for each function.
        clip: Bound of the gates before their activation functions; 0 disables clipping.
        linear_before_reset: Whether the reset gate is applied after `H*R^T`.

    Spec:
        GRUSequence-5
    """
    return run_gru_sequence(
        X,
        initial_hidden_state,
        sequence_lengths,
        W,
        R,
        B,
        hidden_size=hidden_size,
        direction=direction,
        activations=get_activations(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS),
        clip=get_clip_bound(clip),
        linear_before_reset=linear_before_reset,
    )


@_sequence("LSTMSequence", lengths=3, gates=4, flops=count_recurrent(pointwise=13, weights=4), output_types=(0, 0, 0))
@compute_in_float32
@describes_like(gru_sequence_5)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    weights_format: WeightsFormat = "fico",
    input_forget: bool = False,
) -> tuple[Array, ...]:
    """Run long short-term memory along sequences.

    P, `weights_format` and `input_forget` occur in files of the first version of the operation, which was withdrawn.

    Args:
        initial_cell_state: The type of `X`, shape [batch, directions, hidden].
        W: The type of `X`, shape [directions, 4 * hidden, input].
        R: The type of `X`, shape [directions, 4 * hidden, hidden].
        B: The type of `X`, shape [directions, 4 * hidden].
        P: The type of `X`, shape [directions, 3 * hidden]: peepholes of the gates f, i, o.
        activations: Names of the activation functions of the gates f, i, o, of the gate c, and of the cell state.
        weights_format: Order of the gates in W, R and B.
        input_forget: Whether the input gate is 1 - f.

    Returns:
        The hidden states, shape [batch, directions, time, hidden], with zeros after the end of each sequence; and the
        last hidden state and cell state, shape [batch, directions, hidden] each, with zeros for empty sequences.

    Spec:
        LSTMSequence-5, described as LSTMSequence-1
    """
    f, g, h = get_activations(activations, activations_alpha, activations_beta, LSTM_ACTIVATIONS)
    states = [initial_hidden_state, initial_cell_state]
    check_sequence_shapes(X, states, W, R, B, direction=direction, hidden_size=hidden_size, gates=4, biases=4)
    if P is not None:
        check_shape("P", P, W.shape[0], 3 * hidden_size)
        P = P.reshape(-1, 3, hidden_size)
    if weights_format != "fico":
        W, R, B = (np.stack([reorder_gates(x, weights_format) for x in weights]) for weights in (W, R, B))
    bound = get_clip_bound(clip)
    steps = [LSTMStep(r, f, g, h, bound, None if P is None else P[d], input_forget) for d, r in enumerate(R)]
    return run_sequence(X, states, sequence_lengths, W, B, direction=direction, gates=4, steps=steps)
