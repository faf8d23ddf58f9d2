"""Export of recurrences over matrices, and of rotary embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    LAST,
    concat,
    gather,
    get_dimension,
    loop,
    reshape,
    slice_axis,
    squeeze,
    transpose,
    unsqueeze,
)
from irrun.export.site import Site, exports
from irrun.shapes import PartialShape

__all__: list[str] = []


def _repeat_heads(value: Value, groups: int, heads: int) -> Value:
    """Repeat the groups of [batch, steps, groups, size], so that each head has one."""
    if not groups or heads % groups:
        raise UnsupportedError(f"{heads} heads and {groups} groups")
    return value if groups == heads else gather(value, constant(np.repeat(np.arange(groups), heads // groups)), 2)


def _scan(
    sequences: Sequence[Value], state: Value, step: Callable[[list[Value], Value], tuple[Value, Value]]
) -> list[Value]:
    """Run steps over the second axis of sequences.

    Args:
        sequences: Shape [batch, steps, ...].
        state: The state before the first step.
        step: Takes the elements of the sequences and the state; returns the new state, and the output of the step.

    Returns:
        The outputs, [batch, steps, heads, size], and the last state.
    """

    def run(number: Value, states: list[Value]) -> tuple[list[Value], list[Value]]:
        new, output = step([squeeze(slice_axis(v, number, number + 1, 1), [1]) for v in sequences], states[0])
        return [new], [output]

    (last,), (outputs,) = loop(get_dimension(sequences[0], 1), [state], run, 1)
    return [op("Transpose", outputs, perm=[1, 0, 2, 3]), last]


@exports("GatedDeltaNet-extension", compute="f32")
def export_gated_delta_net(site: Site) -> list[Value]:
    """Export GatedDeltaNet as a loop over time."""
    query, key, value, state, gate, beta = (site[i] for i in range(6))
    heads, size = site.get_static_shape(0, 2)
    (value_heads,) = site.get_static_shape(2, 2)[:1]

    def normalize(x: Value, epsilon: float) -> Value:
        return x / op("Sqrt", op("ReduceSum", x * x, constant([-1]), keepdims=1) + float(np.float32(epsilon)))

    if site.fuse_qk_l2norm:
        query, key = normalize(query, site.q_l2_norm_eps), normalize(key, site.k_l2_norm_eps)
    query = query * float(1 / math.sqrt(size))
    query, key = (_repeat_heads(v, heads, value_heads) for v in (query, key))

    def step(at: list[Value], state: Value) -> tuple[Value, Value]:
        q, k, v, decay, rate = at
        state = state * unsqueeze(decay, [2, 3])
        recalled = squeeze(op("MatMul", unsqueeze(k, [2]), state), [2])
        difference = (v - recalled) * unsqueeze(rate, [2])
        state = state + unsqueeze(k, [3]) * unsqueeze(difference, [2])
        return state, squeeze(op("MatMul", unsqueeze(q, [2]), state), [2])

    return _scan([query, key, value, op("Exp", gate), beta], state, step)


@exports("SelectiveSSM-extension", compute="f32")
def export_selective_ssm(site: Site) -> list[Value]:
    """Export SelectiveSSM as a loop over time."""
    rates, dt, b, x, c, state = (site[i] for i in range(6))
    (groups,), (heads,) = site.get_static_shape(2, 2)[:1], site.get_static_shape(3, 2)[:1]
    scaled = _repeat_heads(b, groups, heads) * unsqueeze(dt, [3])

    def step(at: list[Value], state: Value) -> tuple[Value, Value]:
        decay, now, row, readout = at
        state = state * unsqueeze(decay, [2, 3]) + unsqueeze(now, [3]) * unsqueeze(row, [2])
        return state, squeeze(op("MatMul", state, unsqueeze(readout, [3])), [3])

    return _scan([op("Exp", rates * dt), x, scaled, _repeat_heads(c, groups, heads)], state, step)


def _rotate_halves(x: Value, cos: Value, sin: Value, rotary: int) -> Value:
    """Rotate the pairs (i, i + rotary / 2) of the last axis."""
    half = rotary // 2
    first, second = slice_axis(x, 0, half, -1), slice_axis(x, half, rotary, -1)
    if cos.shape is None or not isinstance(cos.shape[-1], int):
        raise UnsupportedError("the number of angles is dynamic")
    offset = 0 if cos.shape[-1] == half else half
    low, high = ([slice_axis(v, i, i + half, -1) for v in (cos, sin)] for i in (0, offset))
    rotated = [low[0] * first - low[1] * second, high[0] * second + high[1] * first]
    return concat([*rotated, slice_axis(x, rotary, LAST, -1)], -1)


def _rotate_neighbors(x: Value, cos: Value, sin: Value, rotary: int) -> Value:
    """Rotate the pairs (2i, 2i + 1) of the last axis."""
    even, odd = slice_axis(x, 0, rotary, -1, 2), slice_axis(x, 1, rotary, -1, 2)
    pairs = [unsqueeze(v, [-1]) for v in (cos * even - sin * odd, cos * odd + sin * even)]
    merged = op("Reshape", concat(pairs, -1), constant([0, 0, 0, -1]))
    return concat([merged, slice_axis(x, rotary, LAST, -1)], -1)


@exports("RoPE-ie_internal_opset", compute="f32")
def export_rope(site: Site) -> Value:
    """Export RoPE: pairs of features are multiplied by cosines and sines."""
    data, cos, sin = site[0], cast(site[1], "f32"), site.get(2)
    if site.is_ltx_video or site.support_3d_rope:
        raise UnsupportedError("is_ltx_video and support_3d_rope have no published definition")
    if site.slice_stop > site.slice_start:
        data = slice_axis(data, int(site.slice_start), int(site.slice_stop), -1)
    rotary, argument = int(site.rotary_ndims), int(site.gather_position_arg_id)
    positions = cast(site[argument], "i64") if argument > 0 else None
    rank = site.get_rank(0)
    if data.shape is None:
        data.shape = PartialShape([-1] * rank)
    if site.is_qwen:
        x = _split_heads(site, data)
        angles = [_get_qwen_rows(v, positions, get_dimension(x, 1)) for v in (cos, site[2])]
        (count,) = site.get_static_shape(1, 3)
        return _rotate_halves(x, angles[0], angles[1], count)
    if site.is_chatglm:
        x = _split_heads(site, data)
        if site.use_rope_cache:
            pairs = op("Reshape", cos, constant([0, 0, 1, -1, 2]))
            for axis in (0, 1):
                pairs = slice_axis(pairs, 0, get_dimension(x, axis), axis)
            cos, sin = gather(pairs, constant(0), 4), gather(pairs, constant(1), 4)
        assert sin is not None
        result = _rotate_neighbors(x, cos, sin, rotary)
        return transpose(result, [0, 2, 1, 3]) if site.support_2d_rope else result
    if site.is_interleaved:
        rows = unsqueeze(slice_axis(cos, 0, get_dimension(site[0], 1), 1), [2])
        half = rotary // 2
        result = _rotate_neighbors(data, slice_axis(rows, half, LAST, -1), slice_axis(rows, 0, half, -1), rotary)
        return transpose(result, [0, 2, 1, 3]) if site.output_trans0213 in (None, True) else result
    x = unsqueeze(data, [0]) if rank == 3 else data
    x = transpose(x, [0, 2, 1, 3]) if site.input_trans0213 else x
    length = get_dimension(x, 2)
    cosines, sines = (_get_rows(v, positions, length) for v in (cos, site[2]))
    result = _rotate_halves(x, cosines, sines, rotary)
    if site.output_trans0213 and not site.input_trans0213:
        result = transpose(result, [0, 2, 1, 3])
    return squeeze(result, [0]) if rank == 3 else result


def _split_heads(site: Site, data: Value) -> Value:
    """Reshape [.., .., heads * size] to [.., .., heads, size]."""
    heads, size = int(site.head_cnt), int(site.head_size)
    return reshape(slice_axis(data, 0, heads * size, -1), [0, 0, heads, size])


def _get_qwen_rows(table: Value, positions: Value | None, length: Value) -> Value:
    """Return the rows [B or 1, L, 1, rotary] of a table [1, positions, 1, rotary]."""
    if positions is None:
        rows = slice_axis(table, get_dimension(table, 1) - length, LAST, 1)
    else:
        index = positions
        if positions.rank == 4:
            index = transpose(squeeze(slice_axis(positions, 0, 1, 3), [3]), [0, 2, 1])
        else:
            index = unsqueeze(positions, [2])
        rows = gather(squeeze(table, [0, 2]), index)
    rows.shape = _keep_last(table)
    return rows


def _get_rows(table: Value, positions: Value | None, length: Value) -> Value:
    """Return the rows [B or 1, H or 1, L or 1, rotary] of a table of rank 2 to 4."""
    rank = table.rank
    if rank is None:
        raise UnsupportedError("the rank of the angles is dynamic")
    last = _keep_last(table)
    table = unsqueeze(table, list(range(4 - rank))) if rank < 4 else table
    if positions is None:
        rows = slice_axis(table, 0, length, 2)
    else:
        if positions.rank == 4:
            index = squeeze(slice_axis(positions, 0, 1, 3), [3])
        else:
            index = unsqueeze(positions, [1])
        lead = op(
            "Max", op("Shape", table, result="i64", end=2), op("Shape", index, result="i64", end=2)
        )  # where lengths differ, one of them is 1
        table = op("Expand", table, concat([lead, constant([1, 1])]))
        index = op("Expand", index, concat([lead, constant([1])]))
        rows = op("GatherND", table, unsqueeze(index, [3]), batch_dims=2)
    rows.shape = last
    return rows


def _keep_last(table: Value) -> PartialShape | None:
    """Return the shape of rows of a table, with a known last dimension."""
    return None if table.shape is None else PartialShape([-1, -1, -1, table.shape[-1]])
