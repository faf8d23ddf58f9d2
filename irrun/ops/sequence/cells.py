"""Recurrent cells: RNNCell, GRUCell, LSTMCell."""

from __future__ import annotations

from functools import partial

from irrun.ops._support.checks import check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_recurrent
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    RNN_ACTIVATIONS,
    GRUStep,
    LSTMStep,
    RNNStep,
    check_cell_shapes,
    get_activations,
    get_clip_bound,
    project_input,
    split_combined_weights,
    split_gru_biases,
)
from irrun.ops._support.registry import op

__all__ = ["gru_cell_3", "lstm_cell_1", "lstm_cell_4", "rnn_cell_1"]

_lstm_cell = partial(
    op,
    "LSTMCell",
    kind="recurrent",
    shape="infer_lstm_cell",
    shaped_by=(),
    gates=4,
    flops=count_recurrent(pointwise=13, weights=3),
    output_types=(0, 0),
)

_cell = partial(op, kind="recurrent", shape="infer_cell", shaped_by=())


@_cell("RNNCell", since=1, gates=1, flops=count_recurrent(pointwise=2, weights=2))
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
) -> Array:
    """Compute one step of a plain recurrent cell: `f(X*W^T + H*R^T + B)`.

    In files up to IR v7, W holds W and R side by side, and B is the input after it.

    Args:
        X: Floating-point, shape [batch, input].
        initial_hidden_state: The type of `X`, shape [batch, hidden].
        W: The type of `X`, shape [hidden, input].
        R: The type of `X`, shape [hidden, hidden].
        B: The type of `X`, shape [hidden]; zeros if omitted.
        hidden_size: Size of the hidden state.
        activations: Name of the activation function.
        activations_alpha: Value of alpha for this function.
        activations_beta: Value of beta for this function.
        clip: Bound of the sums before the activation function; 0 disables clipping.

    Returns:
        The new hidden state, shape [batch, hidden].

    Raises:
        InputError: Shapes do not match, or an activation is unknown.

    Spec:
        RNNCell-1, described as RNNCell-3
    """
    W, R, B = split_combined_weights(W, R, B, hidden_size)
    check_cell_shapes(X, initial_hidden_state, W, R, B, hidden_size=hidden_size, gates=1, biases=1)
    (f,) = get_activations(activations, activations_alpha, activations_beta, RNN_ACTIVATIONS)
    (H,) = RNNStep(R, f, get_clip_bound(clip))(project_input(X, W, B, 1), initial_hidden_state)
    return H


@_cell("GRUCell", since=3, gates=3, flops=count_recurrent(pointwise=11, weights=2))
@compute_in_float32
@describes_like(rnn_cell_1)
def gru_cell_3(
    X: Array,
    initial_hidden_state: Array,
    W: Array,
    R: Array | None = None,
    B: Array | None = None,
    *,
    hidden_size: int,
    activations: list[str] = GRU_ACTIVATIONS,
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> Array:
    """Compute one step of a gated recurrent unit, with the gates in the order z, r, h.

    In files up to IR v7, W holds W and R side by side, and B is the input after it.

    Args:
        W: The type of `X`, shape [3 * hidden, input].
        R: The type of `X`, shape [3 * hidden, hidden].
        B: The type of `X`, shape [3 * hidden], or [4 * hidden] if `linear_before_reset` is true, where the last part is
            the bias of `H*R^T`; zeros if omitted.
        activations: Names of the activation functions of the gates z and r, and of the gate h.
        activations_alpha: Values of alpha, one for each function.
        activations_beta: Values of beta, one for each function.
        clip: Bound of the gates before their activation functions; 0 disables clipping.
        linear_before_reset: Whether the reset gate is applied after `H*R^T`.

    Spec:
        GRUCell-3
    """
    W, R, B = split_combined_weights(W, R, B, hidden_size)
    biases = 4 if linear_before_reset else 3
    check_cell_shapes(X, initial_hidden_state, W, R, B, hidden_size=hidden_size, gates=3, biases=biases)
    f, g = get_activations(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS)
    B, hidden_bias = split_gru_biases(B, hidden_size)
    step = GRUStep(R, f, g, get_clip_bound(clip), linear_before_reset, hidden_bias)
    (H,) = step(project_input(X, W, B, 3), initial_hidden_state)
    return H


@_lstm_cell(since=1)
@compute_in_float32
@describes_like(gru_cell_3)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    weights_format: str = "fico",
    input_forget: bool = False,
) -> tuple[Array, Array]:
    """Compute one step of long short-term memory with peepholes, with the gates in the order f, i, c, o.

    In files up to IR v7, W holds W and R side by side, and B is the input after it.

    Args:
        initial_cell_state: The type of `X`, shape [batch, hidden].
        W: The type of `X`, shape [4 * hidden, input].
        R: The type of `X`, shape [4 * hidden, hidden].
        B: The type of `X`, shape [4 * hidden]; zeros if omitted.
        P: The type of `X`, shape [3 * hidden]: peepholes of the gates f, i, o; zeros if omitted.
        activations: Names of the activation functions of the gates f, i, o, of the gate c, and of the cell state.
        weights_format: Ignored. The specification does not define it. OpenVINO always uses the order f, i, c, o, but
            writes "ifco" if the file that it read omits the attribute.
        input_forget: Whether the input gate is 1 - f.

    Returns:
        The new hidden state and cell state, shape [batch, hidden] each.

    Spec:
        LSTMCell-1
    """
    W, R, B = split_combined_weights(W, R, B, hidden_size)
    check_cell_shapes(X, initial_hidden_state, W, R, B, hidden_size=hidden_size, gates=4, biases=4)
    check_shape("initial_cell_state", initial_cell_state, *initial_hidden_state.shape)
    if P is not None:
        check_shape("P", P, 3 * hidden_size)
        P = P.reshape(3, hidden_size)
    f, g, h = get_activations(activations, activations_alpha, activations_beta, LSTM_ACTIVATIONS)
    step = LSTMStep(R, f, g, h, get_clip_bound(clip), P, input_forget)
    H, C = step(project_input(X, W, B, 4), initial_hidden_state, initial_cell_state)
    return H, C


@_lstm_cell(since=4)
@describes_like(lstm_cell_1)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
) -> tuple[Array, Array]:
    """Compute one step of long short-term memory, with the gates in the order f, i, c, o.

    Spec:
        LSTMCell-4, described as LSTMCell-1
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
