"""Recurrent cells: RNNCell, GRUCell, LSTMCell."""

from __future__ import annotations

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
    split_joined,
)
from irrun.ops._support.registry import op

__all__ = ["gru_cell_3", "lstm_cell_1", "lstm_cell_4", "rnn_cell_1"]


def separate_weights(W: Array, R: Array | None, B: Array | None, hidden_size: int) -> tuple[Array, Array, Array | None]:
    """W, R and B of a cell, whichever form the file has.

    Files up to IR v7 hold W and R in one matrix, so that the port of R holds B, or is missing.
    """
    if R is None or (R.ndim == 1 and B is None):
        joined, bias = W, R
        W, R = split_joined(joined, hidden_size)
        return W, R, bias
    return W, R, B


def check_cell(X: Array, H: Array, R: Array, B: Array | None, hidden_size: int, gates: int, biases: int) -> None:
    """Raise InputError unless the inputs of a cell fit together."""
    if X.ndim != 2:
        raise InputError(f"X has shape {list(X.shape)}, expected [batch_size, input_size]")
    expect_shape("initial_hidden_state", H, X.shape[0], hidden_size)
    expect_shape("R", R, gates * hidden_size, hidden_size)
    if B is not None:
        expect_shape("B", B, biases * hidden_size)


@op("RNNCell", since=1)
@compute_in_float32
def rnn_cell_1(
    X: Array,
    initial_hidden_state: Array,
    W: Array,
    R: Array | None = None,
    B: Array | None = None,
    *,
    hidden_size: int,
    activations: list[str] = RNN_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
) -> Array:
    """One step of a plain recurrent cell: `f(X*W^T + H*R^T + B)`.

    X: float [batch, input]; initial_hidden_state: [batch, hidden]; W: [hidden, input]; R: [hidden, hidden];
    B: [hidden], zeros where left out.
    In older files W holds W and R side by side, and B takes the place of R.
    Returns the new hidden state, [batch, hidden].
    Raises InputError where shapes do not fit or an activation is unknown.
    Spec: RNNCell-1, described as RNNCell-3.
    """
    W, R, B = separate_weights(W, R, B, hidden_size)
    check_cell(X, initial_hidden_state, R, B, hidden_size, 1, 1)
    (f,), bound = activation_functions(activations, activations_alpha, activations_beta, RNN_ACTIVATIONS, clip)
    (H,) = RNNStep(R, f, bound)(input_part(X, W, B, 1), initial_hidden_state)
    return H


@op("GRUCell", since=3)
@compute_in_float32
def gru_cell_3(
    X: Array,
    initial_hidden_state: Array,
    W: Array,
    R: Array | None = None,
    B: Array | None = None,
    *,
    hidden_size: int,
    activations: list[str] = GRU_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> Array:
    """One step of a gated recurrent unit, gates in the order z, r, h.

    X: float [batch, input]; initial_hidden_state: [batch, hidden]; W: [3*hidden, input];
    R: [3*hidden, hidden]; B: [3*hidden], or with linear_before_reset [4*hidden], the last part for the state;
    zeros where left out. In older files W holds W and R side by side, and B takes the place of R.
    Returns the new hidden state, [batch, hidden].
    Raises InputError where shapes do not fit or an activation is unknown.
    Spec: GRUCell-3.
    """
    W, R, B = separate_weights(W, R, B, hidden_size)
    check_cell(X, initial_hidden_state, R, B, hidden_size, 3, 4 if linear_before_reset else 3)
    (f, g), bound = activation_functions(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS, clip)
    B, hidden_bias = gru_biases(B, hidden_size)
    step = GRUStep(R, f, g, bound, linear_before_reset, hidden_bias)
    (H,) = step(input_part(X, W, B, 3), initial_hidden_state)
    return H


@op("LSTMCell", since=1)
@compute_in_float32
def lstm_cell_1(
    X: Array,
    initial_hidden_state: Array,
    initial_cell_state: Array,
    W: Array,
    R: Array | None = None,
    B: Array | None = None,
    P: Array | None = None,
    *,
    hidden_size: int,
    activations: list[str] = LSTM_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    weights_format: str = "fico",
    input_forget: bool = False,
) -> tuple[Array, Array]:
    """One step of long short-term memory, gates in the order f, i, c, o, with peepholes and coupled gates.

    X: float [batch, input]; initial_hidden_state, initial_cell_state: [batch, hidden]; W: [4*hidden, input];
    R: [4*hidden, hidden]; B: [4*hidden]; P: [3*hidden], peepholes of f, i, o; zeros where left out.
    With input_forget the input gate is 1 - f. In older files W holds W and R side by side, and B takes the place of R.
    weights_format says nothing: the specification does not know it, and OpenVINO computes with f, i, c, o whatever it
    is, but writes "ifco" where the file that it read had none.
    Returns the new hidden state and cell state, [batch, hidden] each.
    Raises InputError where shapes do not fit or an activation is unknown.
    Spec: LSTMCell-1.
    """
    W, R, B = separate_weights(W, R, B, hidden_size)
    check_cell(X, initial_hidden_state, R, B, hidden_size, 4, 4)
    expect_shape("initial_cell_state", initial_cell_state, *initial_hidden_state.shape)
    if P is not None:
        expect_shape("P", P, 3 * hidden_size)
        P = P.reshape(3, hidden_size)
    (f, g, h), bound = activation_functions(activations, activations_alpha, activations_beta, LSTM_ACTIVATIONS, clip)
    step = LSTMStep(R, f, g, h, bound, P, input_forget)
    H, C = step(input_part(X, W, B, 4), initial_hidden_state, initial_cell_state)
    return H, C


@op("LSTMCell", since=4)
def lstm_cell_4(
    X: Array,
    initial_hidden_state: Array,
    initial_cell_state: Array,
    W: Array,
    R: Array | None = None,
    B: Array | None = None,
    *,
    hidden_size: int,
    activations: list[str] = LSTM_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
) -> tuple[Array, Array]:
    """One step of long short-term memory, gates in the order f, i, c, o.

    X: float [batch, input]; initial_hidden_state, initial_cell_state: [batch, hidden]; W: [4*hidden, input];
    R: [4*hidden, hidden]; B: [4*hidden], zeros where left out.
    Returns the new hidden state and cell state, [batch, hidden] each.
    Raises InputError where shapes do not fit or an activation is unknown.
    Spec: LSTMCell-4, described as LSTMCell-1.
    """
    return lstm_cell_1(
        X,
        initial_hidden_state,
        initial_cell_state,
        W,
        R,
        B,
        hidden_size=hidden_size,
        activations=activations,
        activations_alpha=activations_alpha,
        activations_beta=activations_beta,
        clip=clip,
    )
