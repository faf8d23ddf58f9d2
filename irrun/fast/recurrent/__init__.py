"""Recurrent cells and sequences with constant weights.

The weights are rearranged once, so that a step is a matrix product and a few ufunc calls that write into the same
workspace:

- The sigmoid gates are computed as `0.5 + 0.5 * tanh(x / 2)`, with the factor 1/2 in their weights. One call computes
  tanh of several gates.
- The order of the gates makes similar gates adjacent.
- The weights are divided into *parts* (`matrices.PartedMatrix`), and the gates have the shape [gates * parts, batch,
  hidden / parts].

A hidden state is written to its place in the output, and the next step reads it there.
"""

from __future__ import annotations

from irrun.fast.recurrent.cells import specialize_cell
from irrun.fast.recurrent.preparation import prepare_cell
from irrun.fast.recurrent.recurrences import ChangeWeights, RecurrentWeights, run_direction, run_whole_direction
from irrun.fast.recurrent.sequences import RecurrentSequence, specialize_sequence

__all__ = [
    "ChangeWeights",
    "RecurrentSequence",
    "RecurrentWeights",
    "prepare_cell",
    "run_direction",
    "run_whole_direction",
    "specialize_cell",
    "specialize_sequence",
]
