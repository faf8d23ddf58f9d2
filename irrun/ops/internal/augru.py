"""GRU with attention: AUGRUCell and AUGRUSequence."""

from __future__ import annotations

from irrun.ops._support.checks import check_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_recurrent
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.recurrent_sequences import Direction, run_gru_sequence
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    GRUStep,
    check_cell_shapes,
    get_activations,
    get_clip_bound,
    project_input,
    split_gru_biases,
)
from irrun.ops._support.registry import op
from irrun.ops.sequence.cells import gru_cell_3
from irrun.ops.sequence.sequences import gru_sequence_5

__all__ = ["augru_cell", "augru_sequence"]


@op(
    "AUGRUCell",
    opset="ie_internal_opset",
    kind="recurrent",
    shape="infer_cell",
    gates=3,
    flops=count_recurrent(pointwise=13, weights=2),
)
@compute_in_float32
@describes_like(gru_cell_3)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> Array:
    """Compute one step of a gated recurrent unit with attention: the update gate z becomes (1 - A) * z.

    Args:
        B: The type of `X`, shape [3 * hidden].
        A: The type of `X`, shape [batch, 1]: the attention scores.

    Spec:
        Defined by ov_ops/augru_cell.hpp and, in the reference implementation, gru_cell.hpp
    """
    biases = 4 if linear_before_reset else 3
    check_cell_shapes(X, initial_hidden_state, W, R, B, hidden_size=hidden_size, gates=3, biases=biases)
    check_shape("A", A, X.shape[0], 1)
    f, g = get_activations(activations, activations_alpha, activations_beta, GRU_ACTIVATIONS)
    gate_biases, hidden_bias = split_gru_biases(B, hidden_size)
    step = GRUStep(R, f, g, get_clip_bound(clip), linear_before_reset, hidden_bias)
    (H,) = step(project_input(X, W, gate_biases, 3), A, initial_hidden_state)
    return H


@op(
    "AUGRUSequence",
    opset="ie_internal_opset",
    kind="recurrent",
    shape="infer_sequence",
    gates=3,
    flops=count_recurrent(pointwise=13, weights=3),
)
@compute_in_float32
@describes_like(gru_sequence_5)
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
    activations_alpha: list[float] = [],
    activations_beta: list[float] = [],
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[Array, ...]:
    """Run a gated recurrent unit with attention along sequences: GRUSequence, but z becomes (1 - A) * z.

    Args:
        A: The type of `X`, shape [batch, time, 1]: the attention scores.

    Returns:
        The hidden states, shape [batch, directions, time, hidden], and the last hidden state, shape
        [batch, directions, hidden]; see GRUSequence-5.

    Spec:
        Defined by ov_ops/augru_sequence.hpp and, in the reference implementation, sequences.hpp
    """
    check_shape("A", A, *X.shape[:2], 1)
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
        attention=A,
    )
