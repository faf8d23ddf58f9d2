"""Export of slices, padding, and reversed and rolled axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    FIRST,
    LAST,
    concat,
    expand,
    flatten,
    gather,
    get_dimension,
    reshape,
    slice_axis,
    to_axes,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array


@exports("Slice-8")
def export_slice(site: Site) -> Value:
    """Export Slice."""
    axes = site.get(4)
    bounds = [flatten(site[i]) for i in (1, 2)]
    step = flatten(site[3])
    return op("Slice", site[0], *bounds, None if axes is None else flatten(axes), step)


@exports("SliceScatter-15")
def export_slice_scatter(site: Site) -> Value:
    """Export SliceScatter: the positions of the slice are scattered by ScatterND."""
    data, updates, start, stop, step = (site[i] for i in range(5))
    axes = site.get(5)
    shape = op("Shape", data, result="i64")
    positions = op("Range", constant(0), op("Size", data), constant(1))
    bounds = [flatten(start), flatten(stop)]
    taken = op(
        "Slice", op("Reshape", positions, shape, allowzero=1), *bounds, None if axes is None else flatten(axes),
        flatten(step),
    )  # fmt: skip
    flat = op("ScatterND", reshape(data, [-1]), unsqueeze(taken, [-1]), updates)
    return op("Reshape", flat, shape, allowzero=1)


@exports("StridedSlice-1")
def export_strided_slice(site: Site) -> Value:
    """Export StridedSlice: a Slice between the insertion and the removal of axes."""
    data = site[0]
    count = next((d for i in (1, 2) for d in site.get_shape(i)[:1] if d is not None), None)
    if count is None:
        raise UnsupportedError("the number of sliced axes is dynamic")
    masks = {
        name: [*(site.attributes.get(name) or []), *[0] * count][:count]
        for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    strides = None if site.get(3) is None else flatten(site[3])
    known = np.ones(count, np.int64) if strides is None else strides.read()
    begin, end = flatten(site[1]), flatten(site[2])
    ellipsis = next((i for i, m in enumerate(masks["ellipsis_mask"]) if m), None)
    new = [i for i, m in enumerate(masks["new_axis_mask"]) if m and i != ellipsis]
    positions: list[int] = []  # entries that slice an axis
    axes: list[int] = []
    inserted, removed, axis, result_axis = [], [], 0, 0
    for i in range(count):
        if i == ellipsis:  # from here on, axes are counted from the end
            rest = range(i + 1, count)
            axis = -sum(j not in new for j in rest)
            result_axis = -sum(j in new or not masks["shrink_axis_mask"][j] for j in rest)
        elif i in new:
            inserted.append(result_axis)
            result_axis += 1
        else:
            positions.append(i)
            axes.append(axis)
            if masks["shrink_axis_mask"][i]:
                removed.append(axis)
            else:
                result_axis += 1
            axis += 1
    if positions:
        begin_ignored = [bool(masks["begin_mask"][i]) and not masks["shrink_axis_mask"][i] for i in positions]
        end_ignored = [bool(masks["end_mask"][i]) and not masks["shrink_axis_mask"][i] for i in positions]
        shrunk = [bool(masks["shrink_axis_mask"][i]) for i in positions]
        if known is not None or strides is None:
            steps = constant(np.where(shrunk, 1, np.ones(1) if known is None else known.reshape(-1)[positions]), "i64")
        else:
            steps = _select(shrunk, [1] * len(positions), _pick_entries(strides, positions))
        backward = steps < 0 if steps.array is None else constant(steps.array < 0)
        first = _pick_entries(begin, positions)
        last = _pick_entries(end, positions)
        starts = _select(begin_ignored, _choose(backward, LAST, 0), first)
        stops = _select(end_ignored, _choose(backward, FIRST, LAST), last)
        if any(shrunk):
            following = first + 1
            following = where(op("Equal", following, 0), LAST, following)
            stops = where(constant(np.array(shrunk)), following, stops) if not all(shrunk) else following
        data = op("Slice", data, starts, stops, constant(axes), steps)
    if removed:
        data = op("Squeeze", data, constant(removed))
    if inserted:
        data = op("Unsqueeze", data, constant(inserted))
    return data


def _pick_entries(value: Value, positions: Sequence[int]) -> Value:
    array = value.read()
    if array is not None:
        return constant(array.reshape(-1)[list(positions)])
    return gather(value, constant(list(positions)))


def _choose(condition: Value, then: int, other: int) -> Value:
    """Select between two numbers, directly for constants."""
    if condition.array is not None:
        return constant(np.where(condition.array, np.int64(then), np.int64(other)))
    return where(condition, constant(then), constant(other))


def _select(ignored: Sequence[bool], defaults: Value | Sequence[int], value: Value) -> Value:
    if not any(ignored):
        return value
    replacement = defaults if isinstance(defaults, Value) else constant(np.array(defaults, np.int64))
    if all(ignored):
        return replacement
    array = value.read()
    if array is not None and replacement.array is not None:
        return constant(np.where(ignored, replacement.array, array))
    return where(constant(np.array(ignored)), replacement, value)


@exports("Pad-1", "Pad-12")
def export_pad(site: Site) -> Value:
    """Export Pad. ONNX does not have symmetric padding, so reversed slices are joined."""
    data, begin, end = site[0], flatten(site[1]), flatten(site[2])
    if site.pad_mode == "symmetric":
        return _pad_symmetrically(site, begin, end)
    value = site.get(3) if site.pad_mode == "constant" else None
    if value is not None:
        value = cast(reshape(value, []) if value.rank != 0 else value, data.type)
    elif site.pad_mode == "constant" and data.type.kind == "boolean":
        value = constant(False)
    known = begin.read(), end.read()
    if known[0] is not None and known[1] is not None:
        amounts = np.concatenate([known[0].reshape(-1), known[1].reshape(-1)])
        pads = constant(amounts)
        if site.pad_mode != "constant" and amounts.min(initial=0) < 0:
            return _pad_and_crop(site, known[0].reshape(-1), known[1].reshape(-1))
    else:
        pads = concat([begin, end])
        if site.pad_mode != "constant":
            inner = op("Pad", data, op("Max", pads, constant(0)), mode=site.pad_mode)
            starts = op("Max", -begin, constant(0))
            stops = op("Shape", inner, result="i64") + op("Min", end, constant(0))
            return op("Slice", inner, starts, stops)
    return op("Pad", data, pads, value, mode=site.pad_mode)


def _pad_and_crop(site: Site, begin: Array, end: Array) -> Value:
    """Pad in modes other than "constant"; negative amounts remove elements."""
    pads = constant(np.concatenate([np.maximum(begin, 0), np.maximum(end, 0)]))
    padded = op("Pad", site[0], pads, mode=site.pad_mode)
    starts = constant(np.maximum(-begin, 0).astype(np.int64))
    stops = constant(np.where(end < 0, end, LAST).astype(np.int64))
    return op("Slice", padded, starts, stops)


def _pad_symmetrically(site: Site, begin: Value, end: Value) -> Value:
    data = site[0]
    for axis in range(site.get_rank(0)):
        before, after = slice_axis(begin, axis, axis + 1), slice_axis(end, axis, axis + 1)
        known = [v.read() for v in (begin, end)]
        if known[0] is not None and known[1] is not None:
            amounts = [int(k.reshape(-1)[axis]) for k in known if k is not None]
            if amounts == [0, 0]:
                continue
        length = op("Shape", data, result="i64", start=axis, end=axis + 1)
        head = slice_axis(data, 0, op("Max", before, constant(0)), axis)
        tail = slice_axis(data, length - op("Max", after, constant(0)), LAST, axis)
        parts = [slice_axis(p, LAST, FIRST, axis, -1) for p in (head, tail)]
        joined = concat([parts[0], data, parts[1]], axis)
        total = op("Shape", joined, result="i64", start=axis, end=axis + 1)
        data = slice_axis(joined, op("Max", -before, constant(0)), total + op("Min", after, constant(0)), axis)
    return data


@exports("Reverse-1")
def export_reverse(site: Site) -> Value:
    """Export Reverse."""
    rank = site.get_rank(0)
    if site.mode == "mask" and site[1].read() is None:
        is_reversed = reshape(site[1], [-1])
        bounds = [where(is_reversed, constant(r), constant(f)) for r, f in ((LAST, 0), (FIRST, LAST), (-1, 1))]
        return op("Slice", site[0], *bounds[:2], constant(list(range(rank))), bounds[2])
    if site[1].read() is None:
        counts = op("Shape", flatten(site[1]), result="i64")
        bounds = [expand(constant(number), counts) for number in (LAST, FIRST, -1)]
        return op("Slice", site[0], *bounds[:2], flatten(site[1]), bounds[2])
    if site.mode == "mask":
        axes = [i for i, m in enumerate(site.read(1).reshape(-1)) if m]
    else:
        axes = to_axes(site, 1, rank)
    if not axes:
        return site[0]
    count = len(axes)
    return op(
        "Slice", site[0], constant([LAST] * count), constant([FIRST] * count), constant(axes), constant([-1] * count)
    )


@exports("Roll-7")
def export_roll(site: Site) -> Value:
    """Export Roll: both parts of each axis are exchanged."""
    data, shifts = site[0], flatten(site[1])
    axes = to_axes(site, 2, site.get_rank(0)) if site.get_rank(0) else []
    (count,) = site.get_shape(1) or (1,)
    for i, axis in enumerate(axes):
        shift = shifts if count == 1 else slice_axis(shifts, i, i + 1)
        length = get_dimension(data if data is not site[0] else site[0], axis)
        split = length - op("Mod", shift, op("Max", length, constant(1)))
        data = concat([slice_axis(data, split, LAST, axis), slice_axis(data, 0, split, axis)], axis)
        data.shape = site[0].shape
    return data


@exports("ReverseSequence-1")
def export_reverse_sequence(site: Site) -> Value:
    """Export ReverseSequence; ONNX's axes are the first two."""
    rank = site.get_rank(0)
    batch, time = site.batch_axis % rank, site.seq_axis % rank
    order = [batch, time, *(i for i in range(rank) if i not in (batch, time))]
    result = op("ReverseSequence", transpose(site[0], order), flatten(site[1]), batch_axis=0, time_axis=1)
    return transpose(result, [int(i) for i in np.argsort(order)])
