"""What cells and sequences share: activation functions, weights, and one step of each kind of cell.

A step takes the part of the gates that does not depend on the state (`X*W^T + B`, [batch, gates, hidden]),
so that a sequence computes it for all times at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array

__all__ = [
    "GRU_ACTIVATIONS",
    "LSTM_ACTIVATIONS",
    "NO_NUMBERS",
    "RNN_ACTIVATIONS",
    "Activation",
    "GRUStep",
    "LSTMStep",
    "RNNStep",
    "activation_functions",
    "expect_shape",
    "gru_biases",
    "input_part",
    "split_joined",
    "to_fico",
]

Activation = Callable[[Array], Array]


def _sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return 1 / (1 + np.exp(-x))


def _tanh(x: Array, alpha: float, beta: float) -> Array:
    return np.tanh(x)


def _relu(x: Array, alpha: float, beta: float) -> Array:
    return np.maximum(x, 0)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


RNN_ACTIVATIONS = ["tanh"]
GRU_ACTIVATIONS = ["sigmoid", "tanh"]
LSTM_ACTIVATIONS = ["sigmoid", "tanh", "tanh"]
NO_NUMBERS: list[float] = []

#: name -> (function, default alpha, default beta)
ACTIVATIONS = {
    "sigmoid": (_sigmoid, 0.0, 0.0),
    "tanh": (_tanh, 0.0, 0.0),
    "relu": (_relu, 0.0, 0.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
}


def activation_functions(
    names: Sequence[str], alpha: Sequence[float], beta: Sequence[float], defaults: Sequence[str], clip: float
) -> tuple[list[Activation], float]:
    """The functions that `names` mean, as many as `defaults`, which stand in for missing ones, and the bound.

    Returns the functions and `clip`, infinite where the attribute is 0.
    Raises:
        InputError: a name is unknown.
    """
    found: list[Activation] = []
    for i, default in enumerate(defaults):
        name = (names[i] if i < len(names) else default).strip().lower()
        if name not in ACTIVATIONS:
            raise InputError(f"activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
        function, a, b = ACTIVATIONS[name]
        a = alpha[i] if i < len(alpha) else a
        b = beta[i] if i < len(beta) else b
        found.append(partial(function, alpha=a, beta=b))
    return found, clip if clip > 0 else math.inf


def expect_shape(name: str, array: Array, *shape: int) -> None:
    """Raise InputError unless `array` has `shape`."""
    if array.shape != shape:
        raise InputError(f"{name} has shape {list(array.shape)}, expected {list(shape)}")


def input_part(X: Array, W: Array, B: Array | None, gates: int) -> Array:
    """`X*W^T + B`, shape [*X.shape[:-1], gates, hidden].

    Raises:
        InputError: W or B does not fit X.
    """
    if W.ndim != 2 or X.shape[-1] != W.shape[1] or W.shape[0] % gates:
        raise InputError(
            f"W has shape {list(W.shape)}, expected [{gates} * hidden_size, {X.shape[-1]}] "
            f"for X of shape {list(X.shape)}"
        )
    part: Array = X.reshape(math.prod(X.shape[:-1]), X.shape[-1]) @ W.T  # one product of many rows
    if B is not None:
        part += B
    return part.reshape(*X.shape[:-1], gates, W.shape[0] // gates)


def split_joined(joined: Array, hidden_size: int) -> tuple[Array, Array]:
    """W and R from the one matrix of older files, whose columns are the input's, then the hidden state's.

    Raises:
        InputError: the matrix is not that wide.
    """
    if joined.ndim != 2 or joined.shape[1] < hidden_size:
        raise InputError(
            f"joined weights have shape {list(joined.shape)}, expected [gates, input_size + {hidden_size}]"
        )
    inputs = joined.shape[1] - hidden_size
    return joined[:, :inputs], joined[:, inputs:]


def gru_biases(B: Array | None, hidden_size: int) -> tuple[Array | None, Array | None]:
    """The biases of GRU's gates, and the fourth one, which linear_before_reset adds to `H*R^T`."""
    if B is None or B.shape[-1] == 3 * hidden_size:
        return B, None
    return B[..., : 3 * hidden_size], B[..., 3 * hidden_size :]


def to_fico(weights: Array, weights_format: str) -> Array:
    """The rows of LSTM weights or biases (last axis but the columns) in the order f, i, c, o.

    weights: [4*hidden, ...] with gates in the order that `weights_format` spells.
    """
    if weights_format == "fico":
        return weights
    by_gate = weights.reshape(4, -1, *weights.shape[1:])
    order = [weights_format.index(gate) for gate in "fico"]
    reordered: Array = by_gate[order].reshape(weights.shape)
    return reordered


def _bounded(gates: Array, clip: float) -> Array:
    return gates if clip == math.inf else np.clip(gates, -clip, clip)


@dataclass(frozen=True)
class RNNStep:
    """H = f(X*W^T + H*R^T + B)."""

    R: Array
    f: Activation
    clip: float

    def __call__(self, part: Array, H: Array) -> tuple[Array, ...]:
        return (self.f(_bounded(part[:, 0] + H @ self.R.T, self.clip)),)


@dataclass(frozen=True)
class LSTMStep:
    """One step of LSTM; gates in the order f, i, c, o, peepholes P [3, hidden] in the order f, i, o."""

    R: Array
    f: Activation
    g: Activation
    h: Activation
    clip: float
    P: Array | None = None
    input_forget: bool = False

    def __call__(self, part: Array, H: Array, C: Array) -> tuple[Array, ...]:
        gates = part + (H @ self.R.T).reshape(part.shape)
        peepholes = self.P
        if peepholes is not None:
            gates[:, :2] += peepholes[:2] * C[:, None]
        forget_and_input = self.f(_bounded(gates[:, :2], self.clip))
        forget = forget_and_input[:, 0]
        admit = 1 - forget if self.input_forget else forget_and_input[:, 1]
        C = forget * C + admit * self.g(_bounded(gates[:, 2], self.clip))
        output = gates[:, 3] if peepholes is None else gates[:, 3] + peepholes[2] * C
        return self.f(_bounded(output, self.clip)) * self.h(C), C


@dataclass(frozen=True)
class GRUStep:
    """One step of GRU; gates in the order z, r, h.

    hidden_bias is the part of B that linear_before_reset adds to `H*R^T` before the reset gate, or None.
    """

    R: Array
    f: Activation
    g: Activation
    clip: float
    linear_before_reset: bool = False
    hidden_bias: Array | None = None

    def __call__(self, part: Array, *more: Array) -> tuple[Array, ...]:
        *attention, H = more
        size = H.shape[1]
        if self.linear_before_reset:
            state = (H @ self.R.T).reshape(part.shape)
            update, reset = self._gates(part[:, :2] + state[:, :2])
            fresh = state[:, 2] if self.hidden_bias is None else state[:, 2] + self.hidden_bias
            fresh = reset * fresh
        else:
            update, reset = self._gates(part[:, :2] + (H @ self.R[: 2 * size].T).reshape(-1, 2, size))
            fresh = (reset * H) @ self.R[2 * size :].T
        fresh = self.g(_bounded(part[:, 2] + fresh, self.clip))
        for score in attention:  # AUGRU: attention scales the update gate down
            update = (1 - score) * update
        return ((1 - update) * fresh + update * H,)

    def _gates(self, gates: Array) -> tuple[Array, Array]:
        both = self.f(_bounded(gates, self.clip))
        return both[:, 0], both[:, 1]
