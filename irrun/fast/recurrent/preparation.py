"""Preparation of constant weights: the order of the gates, and the factors of sigmoid gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.recurrent.matrices import PartedMatrix
from irrun.fast.recurrent.recurrences import F32, GRU, HALF, LSTM, RNN, RecurrentWeights, ResetFirstGRU
from irrun.fast.specialization import CallSite
from irrun.ops._support.recurrent_steps import (
    GRU_ACTIVATIONS,
    LSTM_ACTIVATIONS,
    RNN_ACTIVATIONS,
    split_combined_weights,
    split_gru_biases,
)

__all__ = ["get_kind", "prepare_cell", "prepare_weights"]

Array = np.ndarray[Any, Any]

#: Maximum number of weights of a small LSTM; see `LSTM.advance_small`.
SMALL_SIZE = 9216


def _prepare_lstm(W: Array, R: Array, B: Array | None) -> RecurrentWeights:
    """Prepare the weights of an LSTM, with gates in the order f, i, c, o."""

    def arrange(weights: Array) -> Array:
        by_gate = weights.reshape(4, -1, *weights.shape[1:])
        return _halve_gates(by_gate[[2, 0, 1, 3]].reshape(weights.shape), 4, slice(1, 4))

    W, R, B = arrange(W), arrange(R), None if B is None else arrange(B)
    weights = RecurrentWeights(W, B, R.shape[1], 2, LSTM, matrix=PartedMatrix(R, 4))
    if (W.shape[1] + 1 + R.shape[1]) * len(R) <= SMALL_SIZE:
        biases = np.zeros((1, len(R)), np.float32) if B is None else B[np.newaxis]
        weights.combined = np.concatenate([W.T, biases, R.T])
    return weights


def _prepare_rnn(W: Array, R: Array, B: Array | None) -> RecurrentWeights:
    """Prepare the weights of a plain recurrence."""
    return RecurrentWeights(W, B, R.shape[1], 1, RNN, matrix=PartedMatrix(R, 1))


def _prepare_gru(W: Array, R: Array, B: Array | None, *, linear_before_reset: bool) -> RecurrentWeights:
    """Prepare the weights of a GRU, with gates in the order z, r, h."""
    hidden = R.shape[1]
    B, hidden_bias = split_gru_biases(B, hidden)
    W, R = (_halve_gates(x, 3, slice(2)) for x in (W, R))
    B = None if B is None else _halve_gates(B, 3, slice(2))
    if linear_before_reset:
        if hidden_bias is not None and not hidden_bias.any():
            hidden_bias = None
        return RecurrentWeights(W, B, hidden, 1, GRU, matrix=PartedMatrix(R, 3), hidden_bias=hidden_bias)
    candidate_weights = PartedMatrix(R[2 * hidden :], 1)
    matrix = PartedMatrix(R[: 2 * hidden], 2)
    return RecurrentWeights(W, B, hidden, 1, ResetFirstGRU, matrix=matrix, candidate_weights=candidate_weights)


def _halve_gates(weights: Array, gates: int, halved: slice) -> Array:
    """Return a copy of weights or biases with the rows of some gates halved."""
    result = np.array(weights, order="C")
    result.reshape(gates, -1)[halved] *= HALF
    return result


@dataclass(frozen=True)
class _Kind:
    """A kind of recurrence.

    Attributes:
        gates: Number of gates.
        activations: The activation functions that the recurrence computes.
        state_count: Number of states.
        prepare: Prepares W, R and B.
    """

    gates: int
    activations: list[str]
    state_count: int
    prepare: Callable[..., RecurrentWeights]


_KINDS = {
    "LSTM": _Kind(4, LSTM_ACTIVATIONS, 2, _prepare_lstm),
    "GRU": _Kind(3, GRU_ACTIVATIONS, 1, _prepare_gru),
    "RNN": _Kind(1, RNN_ACTIVATIONS, 1, _prepare_rnn),
}


def get_kind(site: CallSite) -> _Kind | None:
    """Return the kind of a call site, or None if no kernel supports its operation or attributes."""
    attributes = site.attributes
    kind = _KINDS.get(site.operation.type.removesuffix("Cell").removesuffix("Sequence"))
    if kind is None:
        return None
    names = [name.strip().lower() for name in attributes.get("activations", [])]
    is_default = (
        names == kind.activations[: len(names)]
        and not attributes.get("clip", 0) > 0
        and not attributes.get("input_forget", False)
        and attributes["hidden_size"] > 0
    )
    return kind if is_default else None


def prepare_weights(site: CallSite, kind: _Kind, W: Array, R: Array, B: Array | None) -> RecurrentWeights | None:
    """Prepare the weights of a cell or of one direction, or return None if they do not have the expected shapes."""
    hidden = site.attributes["hidden_size"]
    keywords: dict[str, Any] = {}
    biases = kind.gates
    if site.operation.type.startswith("GRU"):
        keywords["linear_before_reset"] = bool(site.attributes.get("linear_before_reset", False))
        biases += keywords["linear_before_reset"]
    rows = kind.gates * hidden
    if W.ndim != 2 or len(W) != rows or R.shape != (rows, hidden) or any(x.dtype != F32 for x in (W, R)):
        return None
    if B is not None and (B.shape != (biases * hidden,) or B.dtype != F32):
        return None
    return kind.prepare(W, R, B, **keywords)


def prepare_cell(site: CallSite) -> RecurrentWeights | None:
    """Prepare the weights of a cell.

    Returns:
        None if the weights are not constant, or an attribute is not the default.
    """
    kind = get_kind(site)
    if kind is None:
        return None
    first = 1 + kind.state_count
    W, R, B = (site.get_constant(i) for i in range(first, first + 3))
    if any(site.has_input(i) and site.get_constant(i) is None for i in range(first, first + 3)):
        return None
    if W is None or W.ndim != 2 or site.has_input(first + 3):
        return None
    hidden = site.attributes["hidden_size"]
    if (R is None or R.ndim == 1) and W.shape[1] < hidden:
        return None
    return prepare_weights(site, kind, *split_combined_weights(W, R, B, hidden))
