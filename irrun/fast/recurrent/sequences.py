"""Specialized kernels of recurrent sequences."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irrun.fast.recurrent.preparation import get_kind, prepare_weights
from irrun.fast.recurrent.recurrences import F32, ChangeWeights, RecurrentWeights, run_direction, run_whole_direction
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.ops._support.checks import read_lengths
from irrun.ops._support.recurrent_steps import reorder_gates

__all__ = ["RecurrentSequence", "specialize_sequence"]

Array = np.ndarray[Any, Any]


@specializes("LSTMSequence-5", "GRUSequence-5", "RNNSequence-5")
def specialize_sequence(site: CallSite) -> SpecializedKernel | None:
    """Prepare the weights of all directions."""
    kind = get_kind(site)
    if kind is None:
        return None
    state_count = kind.state_count
    W, R, B = (site.get_constant(i) for i in range(2 + state_count, 5 + state_count))
    if W is None or R is None or B is None or site.has_input(5 + state_count) or site.get_constant(0) is not None:
        return None
    weights_format = site.attributes.get("weights_format", "fico")
    direction = site.attributes.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    if not len(W) == len(R) == len(B) == count:
        return None
    directions = []
    for d in range(count):
        w, r, b = (reorder_gates(x[d], weights_format) for x in (W, R, B))
        weights = prepare_weights(site, kind, w, r, b)
        if weights is None:
            return None
        directions.append((weights, d == 1 or direction == "reverse"))
    return RecurrentSequence(site, state_count, tuple(directions))


@dataclass(frozen=True)
class RecurrentSequence:
    """The kernel of a sequence.

    Attributes:
        site: The call site.
        state_count: The number of states.
        directions: The weights of each direction, and whether it is reversed.
    """

    site: CallSite
    state_count: int
    directions: tuple[tuple[RecurrentWeights, bool], ...]

    def replace_weights(self, change: ChangeWeights) -> RecurrentSequence:
        """Return the kernel with other forms of its weights."""
        return replace(
            self, directions=tuple((change(weights), is_reversed) for weights, is_reversed in self.directions)
        )

    def __call__(self, *inputs: Array) -> Any:
        """Compute the sequence."""
        count = self.state_count
        arguments: list[Any] = list(self.site.constants[: 2 + count])
        for position, value in zip(self.site.variable_inputs, inputs, strict=True):
            arguments[position] = value
        X, lengths = arguments[0], arguments[1 + count]
        states = arguments[1 : 1 + count]
        is_f32 = all(x.dtype == F32 and x.ndim == 3 for x in (X, *states))
        is_complete = all(s.shape[1] == len(self.directions) for s in states)
        if not is_f32 or not X.shape[1] or lengths.shape != X.shape[:1] or not is_complete:
            return self.site.call_plain(*inputs)
        if self._constant_length == X.shape[1]:
            return _run_directions(self.directions, X, states)
        lengths = read_lengths("sequence_lengths", lengths, *X.shape[:2])
        return _run_directions(self.directions, X, states, lengths if (lengths != X.shape[1]).any() else None)

    @functools.cached_property
    def _constant_length(self) -> int:
        """The length of all sequences if it is constant, or -1."""
        lengths = self.site.get_constant(1 + self.state_count)
        is_uniform = lengths is not None and lengths.size and (lengths == lengths.flat[0]).all()
        return int(lengths.flat[0]) if lengths is not None and is_uniform else -1


def _run_directions(
    directions: Sequence[tuple[RecurrentWeights, bool]],
    X: Array,
    states: Sequence[Array],
    lengths: Array | None = None,
) -> tuple[Array, ...]:
    """Run a sequence.

    Args:
        directions: The weights of each direction, and whether it is reversed.
        X: The input, shape [batch, time, input].
        states: The initial states, shape [batch, directions, hidden] each.
        lengths: i64, shape [batch]; None if no sequence is shorter than the time.

    Returns:
        The hidden states and the last states; see `run_sequence`.
    """
    batch, time, _ = X.shape
    Y = np.empty((batch, len(directions), time, states[0].shape[2]), np.float32)
    last_states = [np.zeros(state.shape, np.float32) for state in states]
    by_time = X.transpose(1, 0, 2)
    for d, (weights, is_reversed) in enumerate(directions):
        initial = [state[:, d] for state in states]
        if lengths is None:
            outputs = Y[:, d].transpose(1, 0, 2)
            if is_reversed:
                results = run_whole_direction(weights, by_time[::-1], initial, outputs[::-1])
            else:
                results = run_whole_direction(weights, by_time, initial, outputs)
            for last_state, result in zip(last_states, results, strict=True):
                last_state[:, d] = result
            continue
        times = np.arange(time)[:, np.newaxis]
        is_past_end = times >= lengths
        index = (np.where(is_past_end, times, lengths - 1 - times), np.arange(batch))  # within each sequence
        outputs = np.empty((time, batch, weights.hidden), np.float32)
        stops = [int(n) for n in np.unique(lengths) if n]
        inputs = by_time[index] if is_reversed else by_time
        for stop, results in run_direction(weights, inputs, initial, outputs, stops):
            ends = lengths == stop
            for last_state, result in zip(last_states, results, strict=True):
                last_state[ends, d] = result[ends]
        outputs[is_past_end] = 0
        Y[:, d].transpose(1, 0, 2)[index if is_reversed else slice(None)] = outputs
    return Y, *last_states
