"""AUGRUCell and AUGRUSequence: GRU whose update gate is scaled by attention scores."""

from __future__ import annotations

from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    NO_NUMBERS,
    GRUStep,
    activation_functions,
    expect_shape,
    gru_biases,
    input_part,
)
from irrun.ops._support.registry import op
from irrun.ops.sequence.cells import check_cell
from irrun.ops.sequence.sequences import Direction, gru_along

__all__ = ["augru_cell", "augru_sequence"]


@op("AUGRUCell", opset="ie_internal_opset")
@compute_in_float32
def augru_cell(
    X: Array,
    initial_hidden_state: Array,
    W: Array,
    R: Array,
    B: Array,
    A: Array,
    *,
    hidden_size: int,
    activations: list[str] = GRU_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> Array:
    """One step of GRU with attention: the update gate z becomes (1 - A) * z.

    X: float [batch, input]; initial_hidden_state: [batch, hidden]; W: [3*hidden, input]; R: [3*hidden, hidden];
    B: [3*hidden]; A: [batch, 1].
    Returns the new hidden state, [batch, hidden].
    Raises InputError where shapes do not fit or an activation is unknown.
    Defined by ov_ops/augru_cell.hpp and, in the reference implementation, gru_cell.hpp.
    """
    check_cell(X, initial_hidden_state, R, B, hidden_size, 3, 4 if linear_before_reset else 3)
    expect_shape("A", A, X.shape[0], 1)
    (f, g), bound = activation_functions(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS, clip)
    bias, hidden_bias = gru_biases(B, hidden_size)
    step = GRUStep(R, f, g, bound, linear_before_reset, hidden_bias)
    (H,) = step(input_part(X, W, bias, 3), A, initial_hidden_state)
    return H


@op("AUGRUSequence", opset="ie_internal_opset")
@compute_in_float32
def augru_sequence(
    X: Array,
    initial_hidden_state: Array,
    sequence_lengths: Array,
    W: Array,
    R: Array,
    B: Array,
    A: Array,
    *,
    hidden_size: int,
    direction: Direction = "forward",
    activations: list[str] = GRU_ACTIVATIONS,
    activations_alpha: list[float] = NO_NUMBERS,
    activations_beta: list[float] = NO_NUMBERS,
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[Array, ...]:
    """GRUSequence with attention: at each time the update gate z becomes (1 - A) * z.

    Inputs are those of GRUSequence-5, and A: [batch, time, 1].
    Returns the hidden states, [batch, directions, time, hidden], and the last one, [batch, directions, hidden].
    Raises InputError where shapes do not fit, a length is not in [0, time], or an activation is unknown.
    Defined by ov_ops/augru_sequence.hpp and, in the reference implementation, sequences.hpp.
    """
    expect_shape("A", A, *X.shape[:2], 1)
    return gru_along(
        X,
        initial_hidden_state,
        sequence_lengths,
        W,
        R,
        B,
        A,
        hidden_size=hidden_size,
        direction=direction,
        linear_before_reset=linear_before_reset,
        functions=activation_functions(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS, clip),
    )
