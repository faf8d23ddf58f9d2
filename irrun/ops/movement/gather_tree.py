"""GatherTree: reconstruction of complete beams after beam search."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.indexing import to_int64_indices
from irrun.ops._support.numerics import Array, is_float, is_integer
from irrun.ops._support.registry import op

__all__ = ["gather_tree_1"]


@op("GatherTree", since=1, scratch=2.5, kind="movement", shape="infer_gather_tree", flops=0)
def gather_tree_1(step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array) -> Array:
    """Reconstruct complete beams from the ids of each step and the parent beams.

    Args:
        step_ids: Numeric, integer values, shape [MAX_TIME, BATCH, BEAM]. The id that each beam appends.
        parent_ids: The type and shape of `step_ids`. The beam of the previous step that each beam continues.
        max_seq_len: The type of `step_ids`, shape [BATCH]. Lengths above MAX_TIME count as MAX_TIME, below 0 as 0.
        end_token: The type of `step_ids`, scalar.

    Returns:
        The shape and type of `step_ids`. A beam is filled with `end_token` from its length on and after the first
        `end_token` in it.

    Raises:
        InputError: The shapes or types do not match, or a parent on the path of a beam is not in [0, BEAM).

    Spec:
        GatherTree-1
    """
    _check_inputs(step_ids, parent_ids, max_seq_len, end_token)
    if not step_ids.size:
        return step_ids
    max_time, batches, beams = step_ids.shape
    end = end_token.reshape(())
    lengths = np.clip(to_int64_indices(max_seq_len), 0, max_time)[:, None]
    parents = to_int64_indices(parent_ids)

    # Each path is followed backward. `beam` holds its current beam; at the last step of the sequence it is its own.
    result = np.empty_like(step_ids)
    beam = np.tile(np.arange(beams), (batches, 1))
    for time in within_time(reversed(range(max_time))):
        is_active = time < lengths
        result[time] = np.where(is_active, np.take_along_axis(step_ids[time], beam, axis=1), end)
        if time == 0:
            break
        parent = np.take_along_axis(parents[time], beam, axis=1)
        is_invalid = is_active & ((parent < 0) | (parent >= beams))
        if is_invalid.any():
            batch, i = (int(positions[0]) for positions in np.nonzero(is_invalid))
            raise InputError(
                f"parent_ids at step {time}, batch {batch}, beam {beam[batch, i]}"
                f" is {parent_ids[time, batch, beam[batch, i]]}, expected 0 to {beams - 1}"
            )
        beam = np.where(is_active, parent, beam)

    has_ended = np.logical_or.accumulate(result == end, axis=0)
    result[1:][has_ended[:-1]] = end
    return result


def _check_inputs(step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array) -> None:
    if step_ids.ndim != 3 or parent_ids.shape != step_ids.shape:
        raise InputError(
            f"step_ids and parent_ids have shapes {list(step_ids.shape)} and {list(parent_ids.shape)},"
            " expected the same shape [MAX_TIME, BATCH, BEAM]"
        )
    if max_seq_len.shape != step_ids.shape[1:2]:
        raise InputError(f"max_seq_len has shape {list(max_seq_len.shape)}, expected [{step_ids.shape[1]}]")
    if end_token.size != 1:
        raise InputError(f"end_token has shape {list(end_token.shape)}, expected a scalar")
    types = {x.dtype for x in (step_ids, parent_ids, max_seq_len, end_token)}
    if len(types) > 1:
        raise InputError(f"the inputs have types {', '.join(sorted(map(str, types)))}, expected the same type")
    if not (is_float(step_ids.dtype) or is_integer(step_ids.dtype)):
        raise InputError(f"the inputs have type {step_ids.dtype}, expected a numeric type")
