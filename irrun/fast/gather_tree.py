"""GatherTree on integers: one call per step follows all beams of all batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes

__all__: list[str] = []

Array = np.ndarray[Any, Any]

#: Maximum number of beams in all batches, and of elements, for jumps of several steps to be faster than single steps.
MAX_JUMPING, MAX_JUMPS = 32, 1 << 14


@specializes("GatherTree-1")
def specialize_gather_tree(site: CallSite) -> SpecializedKernel:
    """Follow the parents by flat indices, after checking them."""
    template = site.constants
    positions = site.variable_inputs

    def compute(*inputs: Array) -> Any:
        arguments: list[Any] = list(template)
        for position, value in zip(positions, inputs, strict=True):
            arguments[position] = value
        result = _gather_tree(*arguments)
        return site.call_plain(*inputs) if result is None else result

    return compute


def _follow(parents: Array, own: Array) -> Array:
    """Return the flat index of each final beam's element at each step.

    Args:
        parents: The number of the previous beam among all beams of all batches, shape [T, COUNT].
        own: The numbers of the beams.
    """
    paths = np.empty(parents.shape, np.intp)
    paths[-1] = own
    beam = paths[-1]
    for parent, previous in zip(parents[:0:-1], paths[-2::-1], strict=True):
        parent.take(beam, 0, previous, "clip")
        beam = previous
    paths += np.arange(0, paths.size, len(own))[:, np.newaxis]
    return paths


def _follow_by_jumps(parents: Array, own: Array) -> Array:
    """Compute `_follow` by jumps of 1, 2, 4 and more steps: few calls on all elements."""
    steps, count = parents.shape
    first = np.arange(-count, (steps - 1) * count, count)
    jumps = (parents + first[:, np.newaxis]).reshape(-1)  # negative before the first step, where all paths end
    paths = np.empty(parents.shape, np.intp)
    np.add(own, first[-1] + count, paths[-1])
    done = 1
    while done < steps:
        jumps.take(paths[max(done - steps, -done) :], 0, paths[max(steps - 2 * done, 0) : steps - done], "clip")
        jumps = jumps.take(jumps, 0, None, "clip")
        done *= 2
    return paths


def _gather_tree(step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array) -> Array | None:
    """Return the result of the plain kernel, or None for inputs that only the plain kernel supports."""
    dtype = step_ids.dtype
    if dtype.kind not in "iu" or any(x.dtype != dtype for x in (parent_ids, max_seq_len, end_token)):
        return None
    if step_ids.ndim != 3 or parent_ids.shape != step_ids.shape or not step_ids.size or end_token.size != 1:
        return None
    max_time, batches, beams = step_ids.shape
    if max_seq_len.shape != (batches,):
        return None
    count = batches * beams
    own = np.arange(count)
    parents = np.add(parent_ids, own[::beams, np.newaxis], dtype=np.intp, casting="unsafe").reshape(max_time, count)
    is_past_end = None
    shortest = int(max_seq_len.min())
    if shortest < max_time:
        is_past_end = np.repeat(np.arange(max_time)[:, np.newaxis] >= max_seq_len, beams, axis=1)
    used = parent_ids[1:]
    if used.size and (int(used.min()) < 0 or int(used.max()) >= beams):
        is_invalid = ((used < 0) | (used >= beams)).reshape(max_time - 1, count)
        if is_past_end is None or (is_invalid & ~is_past_end[1:]).any():
            return None  # an error only if a beam leads there
    if is_past_end is not None:
        np.copyto(parents, own, where=is_past_end)

    jumps_pay = count <= MAX_JUMPING and parents.size <= MAX_JUMPS
    paths = (_follow_by_jumps if jumps_pay else _follow)(parents, own)
    result = step_ids.reshape(-1).take(paths)
    end = end_token.reshape(())
    if is_past_end is not None:
        result[is_past_end] = end
    is_end = result == end
    if is_end.any():
        has_ended = np.logical_or.accumulate(is_end, axis=0)
        result[1:][has_ended[:-1]] = end
    return np.asarray(result.reshape(step_ids.shape))
