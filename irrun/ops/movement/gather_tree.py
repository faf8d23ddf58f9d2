"""Following beams back to their first step: GatherTree."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.indexing import to_indices
from irrun.ops._support.numerics import Array, is_float, is_integer
from irrun.ops._support.registry import op

__all__ = ["gather_tree_1"]


@op("GatherTree", since=1)
def gather_tree_1(step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array) -> Array:
    """The complete beams, made of the ids of each step and the parent beam each came from.

    step_ids, parent_ids: any one numeric type holding integers, [MAX_TIME, BATCH, BEAM]; max_seq_len: the
    same type, [BATCH]; end_token: the same type, scalar.
    Returns [MAX_TIME, BATCH, BEAM] of that type. A beam is end_token from its sequence length on (lengths
    above MAX_TIME count as MAX_TIME, below 0 as 0) and after the first end_token in it.
    Raises InputError where shapes differ or a parent that a beam leads through is outside [0, BEAM).
    Spec: GatherTree-1.
    """
    _check(step_ids, parent_ids, max_seq_len, end_token)
    max_time, batches, beams = step_ids.shape
    end = end_token.reshape(())
    lengths = np.clip(to_indices(max_seq_len), 0, max_time)[:, None]
    parents = to_indices(parent_ids)

    # `beam` is where each beam's path stands; it starts at the beam itself, at the last step of its sequence.
    final = np.empty_like(step_ids)
    beam = np.tile(np.arange(beams), (batches, 1))
    for time in reversed(range(max_time)):
        active = time < lengths
        final[time] = np.where(active, np.take_along_axis(step_ids[time], beam, axis=1), end)
        if time == 0:
            break
        parent = np.take_along_axis(parents[time], beam, axis=1)
        lost = active & ((parent < 0) | (parent >= beams))
        if lost.any():
            batch, i = (int(where[0]) for where in np.nonzero(lost))
            raise InputError(
                f"parent_ids at step {time}, batch {batch}, beam {beam[batch, i]}"
                f" is {parent_ids[time, batch, beam[batch, i]]}, expected 0 to {beams - 1}"
            )
        beam = np.where(active, parent, beam)

    ended = np.logical_or.accumulate(final == end, axis=0)
    final[1:][ended[:-1]] = end
    return final


def _check(step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array) -> None:
    if step_ids.ndim != 3 or parent_ids.shape != step_ids.shape:
        raise InputError(
            f"step_ids and parent_ids have shapes {list(step_ids.shape)} and {list(parent_ids.shape)},"
            " expected one and the same [MAX_TIME, BATCH, BEAM]"
        )
    if max_seq_len.shape != step_ids.shape[1:2]:
        raise InputError(f"max_seq_len has shape {list(max_seq_len.shape)}, expected [{step_ids.shape[1]}]")
    if end_token.size != 1:
        raise InputError(f"end_token has shape {list(end_token.shape)}, expected a scalar")
    types = {x.dtype for x in (step_ids, parent_ids, max_seq_len, end_token)}
    if len(types) > 1:
        raise InputError(f"the inputs have types {', '.join(sorted(map(str, types)))}, expected one and the same")
    if not (is_float(step_ids.dtype) or is_integer(step_ids.dtype)):
        raise InputError(f"the inputs are of type {step_ids.dtype}, expected a numeric type")
