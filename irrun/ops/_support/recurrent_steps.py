"""Recurrent cells: activation functions, weights, and one step of each kind of cell.

A step gets the part of the gates that does not depend on the state (`X*W^T + B`, shape [batch, gates, hidden]),
so that a sequence computes it for many time steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.checks import check_shape
from irrun.ops._support.numerics import Array
from irrun.ops._support.special_functions import sigmoid

__all__ = [
    "GRU_ACTIVATIONS",
    "LSTM_ACTIVATIONS",
    "RNN_ACTIVATIONS",
    "STEP_COPIES",
    "Activation",
    "GRUStep",
    "LSTMStep",
    "RNNStep",
    "check_cell_shapes",
    "get_activations",
    "get_clip_bound",
    "project_input",
    "reorder_gates",
    "split_combined_weights",
    "split_gru_biases",
]

Activation = Callable[[Array], Array]

#: Arrays of the size of all gates that a step allocates.
STEP_COPIES = 4

RNN_ACTIVATIONS = ["tanh"]
GRU_ACTIVATIONS = ["sigmoid", "tanh"]
LSTM_ACTIVATIONS = ["sigmoid", "tanh", "tanh"]


def _sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return sigmoid(x)


def _tanh(x: Array, alpha: float, beta: float) -> Array:
    return np.tanh(x)


def _relu(x: Array, alpha: float, beta: float) -> Array:
    return np.maximum(x, 0)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


#: Name in lower case -> function, default of alpha, default of beta.
ACTIVATIONS = {
    "sigmoid": (_sigmoid, 0.0, 0.0),
    "tanh": (_tanh, 0.0, 0.0),
    "relu": (_relu, 0.0, 0.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
}


def get_activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], defaults: Sequence[str]
) -> list[Activation]:
    """Return the activation functions of a cell.

    Args:
        names: Names of the functions, in any case. `defaults` gives the missing ones.
        alphas: Values of alpha, one per function. Missing ones are the defaults of the functions.
        betas: Values of beta, one per function. Missing ones are the defaults of the functions.
        defaults: Names of the default functions of the cell.

    Raises:
        InputError: A name is unknown.
    """
    activations: list[Activation] = []
    for i, default in enumerate(defaults):
        name = (names[i] if i < len(names) else default).strip().lower()
        if name not in ACTIVATIONS:
            raise InputError(f"unknown activation {name!r}, expected one of {', '.join(ACTIVATIONS)}")
        function, alpha, beta = ACTIVATIONS[name]
        alpha = alphas[i] if i < len(alphas) else alpha
        beta = betas[i] if i < len(betas) else beta
        activations.append(partial(function, alpha=alpha, beta=beta))
    return activations


def get_clip_bound(clip: float) -> float:
    """Return the bound of the attribute `clip`: infinity for 0, which disables clipping."""
    return clip if clip > 0 else math.inf


def check_cell_shapes(
    X: Array, H: Array, W: Array, R: Array, B: Array | None, *, hidden_size: int, gates: int, biases: int
) -> None:
    """Check that the shapes of a cell's inputs match.

    Args:
        X: The input, expected shape [batch, input].
        H: The hidden state, expected shape [batch, hidden].
        W: The weights, expected shape [gates * hidden, input].
        R: The recurrent weights, expected shape [gates * hidden, hidden].
        B: The biases, expected shape [biases * hidden].
        hidden_size: Size of the hidden state.
        gates: Number of gates.
        biases: Number of biases for each element of the hidden state.

    Raises:
        InputError: A shape does not match.
    """
    if X.ndim != 2:
        raise InputError(f"X has shape {list(X.shape)}, expected [batch_size, input_size]")
    check_shape("initial_hidden_state", H, X.shape[0], hidden_size)
    check_shape("W", W, gates * hidden_size, X.shape[1])
    check_shape("R", R, gates * hidden_size, hidden_size)
    check_scratch(STEP_COPIES * X.itemsize * X.shape[0] * gates * hidden_size)
    if B is not None:
        check_shape("B", B, biases * hidden_size)


def project_input(X: Array, W: Array, B: Array | None, gates: int) -> Array:
    """Compute `X*W^T + B`.

    Args:
        X: The input, shape [..., input].
        W: The weights, shape [gates * hidden, input].
        B: The biases, shape [gates * hidden], or None.
        gates: Number of gates.

    Returns:
        Shape [..., gates, hidden].
    """
    projection: Array = X.reshape(math.prod(X.shape[:-1]), X.shape[-1]) @ W.T  # one product of many rows
    if B is not None:
        projection += B
    return projection.reshape(*X.shape[:-1], gates, W.shape[0] // gates)


def split_combined_weights(
    W: Array, R: Array | None, B: Array | None, hidden_size: int
) -> tuple[Array, Array, Array | None]:
    """Return W, R and B of a cell, from any form in the file.

    Files up to IR v7 hold W and R side by side in one matrix, so that the third input holds B or is missing.

    Args:
        W: W, or the combined matrix with the columns of the input and of the hidden state.
        R: R, or B if W is a combined matrix.
        B: B, or None.
        hidden_size: Size of the hidden state.

    Raises:
        InputError: The combined matrix has too few columns.
    """
    if R is not None and (R.ndim != 1 or B is not None):
        return W, R, B
    if W.ndim != 2 or W.shape[1] < hidden_size:
        raise InputError(f"combined weights have shape {list(W.shape)}, expected [gates, input_size + {hidden_size}]")
    input_size = W.shape[1] - hidden_size
    return W[:, :input_size], W[:, input_size:], R


def split_gru_biases(B: Array | None, hidden_size: int) -> tuple[Array | None, Array | None]:
    """Return the biases of the gates of a GRU, and the one that linear_before_reset adds to `H*R^T`, or None."""
    if B is None or B.shape[-1] == 3 * hidden_size:
        return B, None
    return B[..., : 3 * hidden_size], B[..., 3 * hidden_size :]


def reorder_gates(weights: Array, weights_format: str) -> Array:
    """Reorder the weights or biases of an LSTM to the gates f, i, c, o.

    Args:
        weights: Shape [4 * hidden, ...].
        weights_format: The gates in their present order, such as "ifco".
    """
    if weights_format == "fico":
        return weights
    by_gate = weights.reshape(4, -1, *weights.shape[1:])
    reordered: Array = by_gate[[weights_format.index(gate) for gate in "fico"]].reshape(weights.shape)
    return reordered


def _clip(gates: Array, bound: float) -> Array:
    return gates if bound == math.inf else np.clip(gates, -bound, bound)


@dataclass(frozen=True)
class RNNStep:
    """One step of an RNN: H = f(X*W^T + H*R^T + B).

    Attributes:
        R: The recurrent weights, shape [hidden, hidden].
        f: The activation function.
        clip: Bound of the gates before the activation function.
    """

    R: Array
    f: Activation
    clip: float

    def __call__(self, projection: Array, H: Array) -> tuple[Array, ...]:
        """Return the new hidden state, [batch, hidden], from `X*W^T + B`, [batch, 1, hidden], and the old one."""
        return (self.f(_clip(projection[:, 0] + H @ self.R.T, self.clip)),)


@dataclass(frozen=True)
class LSTMStep:
    """One step of an LSTM, with the gates in the order f, i, c, o.

    Attributes:
        R: The recurrent weights, shape [4 * hidden, hidden].
        f: The activation function of the gates f, i and o.
        g: The activation function of the gate c.
        h: The activation function of the cell state.
        clip: Bound of the gates before their activation functions.
        P: The peepholes of f, i and o, shape [3, hidden], or None.
        input_forget: Whether the input gate is 1 - f.
    """

    R: Array
    f: Activation
    g: Activation
    h: Activation
    clip: float
    P: Array | None = None
    input_forget: bool = False

    def __call__(self, projection: Array, H: Array, C: Array) -> tuple[Array, ...]:
        """Return the new hidden and cell state from `X*W^T + B`, [batch, 4, hidden], and the old states."""
        gates = projection + (H @ self.R.T).reshape(projection.shape)
        if self.P is not None:
            gates[:, :2] += self.P[:2] * C[:, None]
        forget_and_input = self.f(_clip(gates[:, :2], self.clip))
        forget_gate = forget_and_input[:, 0]
        input_gate = 1 - forget_gate if self.input_forget else forget_and_input[:, 1]
        C = forget_gate * C + input_gate * self.g(_clip(gates[:, 2], self.clip))
        output_gate = gates[:, 3] if self.P is None else gates[:, 3] + self.P[2] * C
        return self.f(_clip(output_gate, self.clip)) * self.h(C), C


@dataclass(frozen=True)
class GRUStep:
    """One step of a GRU, with the gates in the order z, r, h.

    Attributes:
        R: The recurrent weights, shape [3 * hidden, hidden].
        f: The activation function of the gates z and r.
        g: The activation function of the gate h.
        clip: Bound of the gates before their activation functions.
        linear_before_reset: Whether the reset gate is applied after `H*R^T`.
        hidden_bias: The bias that `linear_before_reset` adds to `H*R^T` before the reset gate, shape [hidden], or None.
    """

    R: Array
    f: Activation
    g: Activation
    clip: float
    linear_before_reset: bool = False
    hidden_bias: Array | None = None

    def __call__(self, projection: Array, *attention_and_state: Array) -> tuple[Array, ...]:
        """Return the new hidden state, [batch, hidden].

        Args:
            projection: `X*W^T + B`, shape [batch, 3, hidden].
            attention_and_state: For AUGRU the attention scores, shape [batch, 1]; then the hidden state.
        """
        *attention, H = attention_and_state
        size = H.shape[1]
        if self.linear_before_reset:
            state = (H @ self.R.T).reshape(projection.shape)
            update, reset = self._compute_gates(projection[:, :2] + state[:, :2])
            candidate = state[:, 2] if self.hidden_bias is None else state[:, 2] + self.hidden_bias
            candidate = reset * candidate
        else:
            state = (H @ self.R[: 2 * size].T).reshape(-1, 2, size)
            update, reset = self._compute_gates(projection[:, :2] + state)
            candidate = (reset * H) @ self.R[2 * size :].T
        candidate = self.g(_clip(projection[:, 2] + candidate, self.clip))
        for score in attention:
            update = (1 - score) * update
        return ((1 - update) * candidate + update * H,)

    def _compute_gates(self, gates: Array) -> tuple[Array, Array]:
        activated = self.f(_clip(gates, self.clip))
        return activated[:, 0], activated[:, 1]
