"""Conformance cases for Transpose, Broadcast, Tile, Reverse, ReverseSequence, Roll and Unique."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_indices, sample_values


@register_cases("Transpose", since=1)
def transpose_1(rng):
    for shape, order in [
        ((3,), [0]),
        ((3,), []),
        ((2, 3), [1, 0]),
        ((2, 3), [0, 1]),
        ((2, 3), []),
        ((2, 3, 4), [2, 0, 1]),
        ((2, 3, 4), [1, 2, 0]),
        ((2, 3, 4), []),
        ((2, 3, 4, 5), [0, 2, 3, 1]),
        ((2, 3, 4, 5), [0, 3, 1, 2]),
        ((2, 1, 3, 2, 4), [4, 2, 0, 1, 3]),
        ((2, 1, 3, 2, 2, 3), [5, 0, 4, 1, 3, 2]),
    ]:
        yield ExactCase([sample_values(rng, shape), make_i64(*order)], constants=(1,))
        yield ExactCase([sample_values(rng, shape), np.array(order, np.int32)], dynamic=(0,))
    yield ExactCase([sample_values(rng, (2, 0, 3)), make_i64(2, 1, 0)], constants=(1,))
    for dtype in (*DTYPES, object):
        yield ExactCase([sample_values(rng, (3, 4), dtype), make_i64(1, 0)], constants=(1,))


#: Shape and target.
NUMPY = [
    ((), [3]),
    ((), [2, 3]),
    ((1,), [4]),
    ((3,), [3]),
    ((3,), [2, 3]),
    ((3, 1), [3, 4]),
    ((1, 3), [2, 3]),
    ((16, 1, 1), [1, 16, 3, 2]),
    ((2, 1, 4), [2, 3, 4]),
    ((1, 1, 1, 1), [2, 1, 3, 2]),
    ((2, 1, 3), [2, 2, 0, 3]),
]

#: Shape, target, axes_mapping.
EXPLICIT = [
    ((3,), [2, 3, 4], [1]),
    ((16,), [1, 16, 5, 5], [1]),
    ((5, 4), [1, 5, 4, 3], [1, 2]),
    ((2, 4), [2, 3, 4], [0, 2]),
    ((3,), [3], [0]),
    ((1,), [2, 3], [0]),
    ((2, 3, 4), [2, 1, 3, 4], [0, 2, 3]),
    ((), [2, 3], []),
]


@register_cases("Broadcast", since=1)
def generate_broadcast_cases(rng):
    for n, (shape, target) in enumerate(NUMPY):
        dtype = (np.int64, np.int32)[n % 2]
        yield ExactCase([sample_values(rng, shape), np.array(target, dtype)], {"mode": "numpy"}, constants=(1,))
        if 0 not in target:
            yield ExactCase([sample_values(rng, shape), np.array(target, dtype)], {"mode": "numpy"}, dynamic=(0,))
    for shape, target, axes in EXPLICIT:
        inputs = [sample_values(rng, shape), make_i64(*target), make_i64(*axes)]
        yield ExactCase(inputs, {"mode": "explicit"}, constants=(1, 2))
        yield ExactCase(inputs, {"mode": "explicit"}, note="dynamic shapes")
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (3, 1), dtype), make_i64(2, 3, 2)], {"mode": "numpy"}, constants=(1,))


@register_cases("Broadcast", since=3)
def broadcast_3(rng):
    yield from generate_broadcast_cases(rng)
    for shape, target in [
        *[(shape, target) for shape, target in NUMPY if 0 not in target],
        ((16, 1, 1), [1, 1, 50, 50]),
        ((2, 3), [1, 1]),
        ((2, 3), [3]),
        ((2, 3, 4), [1]),
        ((2, 1, 4), [3, 1]),
        ((1, 4), [5, 1]),
        ((4, 1), [2, 1, 3]),
    ]:
        yield ExactCase([sample_values(rng, shape), make_i64(*target)], {"mode": "bidirectional"}, constants=(1,))
        inputs = [sample_values(rng, shape), np.array(target, np.int32)]
        yield ExactCase(inputs, {"mode": "bidirectional"}, dynamic=(0,), note="target shape as a Parameter")


@register_cases("Tile", since=1)
def tile_1(rng):
    for shape, repeats in [
        ((3,), [2]),
        ((3,), [1]),
        ((), [3]),
        ((2, 3), [2, 2]),
        ((2, 3), [3]),
        ((3,), [2, 2]),
        ((1, 2, 3), [1, 1, 1]),
        ((2, 1, 3), [1, 4, 2]),
        ((2, 3), [2, 1, 1, 2]),
        ((2, 2, 1, 3), [1, 2, 3, 1]),
    ]:
        yield ExactCase([sample_values(rng, shape), make_i64(*repeats)], constants=(1,))
        yield ExactCase([sample_values(rng, shape), np.array(repeats, np.int32)], dynamic=(0,))
    for repeats in ([0, 2], [-1, 2], []):
        yield ExactCase([sample_values(rng, (2, 3)), make_i64(*repeats)], constants=(1,), faults=("plugin-tile",))
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (2, 3), dtype), make_i64(2, 2)], constants=(1,))


@register_cases("Reverse", since=1)
def reverse_1(rng):
    for shape, axes in [
        ((4,), [0]),
        ((3, 4), [0]),
        ((3, 4), [1]),
        ((3, 4), [0, 1]),
        ((3, 4), []),
        ((2, 3, 4), [2]),
        ((2, 3, 4), [0, 2]),
        ((2, 3, 4), [2, 1, 0]),
        ((2, 1, 3, 2), [1, 2]),
    ]:
        yield ExactCase([sample_values(rng, shape), make_i64(*axes)], {"mode": "index"}, constants=(1,))
        yield ExactCase([sample_values(rng, shape), np.array(axes, np.int32)], {"mode": "index"})
        mask = np.array([i in axes for i in range(len(shape))])
        yield ExactCase([sample_values(rng, shape), mask], {"mode": "mask"}, constants=(1,))
        yield ExactCase([sample_values(rng, shape), mask], {"mode": "mask"})
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (3, 4), dtype), make_i64(1)], {"mode": "index"}, constants=(1,))


@register_cases("ReverseSequence", since=1)
def reverse_sequence_1(rng):
    # Model.evaluate does not implement the operation.
    for shape, lengths, batch_axis, seq_axis in [
        ((2, 4), [4, 4], 0, 1),
        ((2, 4), [1, 3], 0, 1),
        ((4, 3), [1, 2, 4], 1, 0),
        ((4, 3), [4, 2, 0], -1, 0),
        ((3, 4, 2), [2, 1, 4], 0, 1),
        ((3, 4, 2), [1, 2], 2, 1),
        ((3, 4, 2), [1, 2, 1], 0, -1),
        ((3, 4, 2), [3, 1, 2, 2], 1, 0),
        ((2, 3, 4, 5), [5, 2], 0, 3),
        ((2, 3, 4, 5), [2, 1, 4], 1, 2),
        ((2, 3, 1, 4, 2), [4, 3], 0, 3),
    ]:
        attributes = {"batch_axis": batch_axis, "seq_axis": seq_axis}
        yield ExactCase([sample_values(rng, shape), make_i64(*lengths)], attributes)
        yield ExactCase([sample_values(rng, shape), np.array(lengths, np.int32)], attributes, constants=(1,))
    for dtype in (np.float16, np.int32, np.int8, np.uint8, np.int64):
        # The CPU plugin moves integers as f32.
        yield ExactCase([sample_indices(rng, 0, 100, (2, 4), dtype), make_i64(3, 2)], {"batch_axis": 0, "seq_axis": 1})
    yield ExactCase([sample_values(rng, (2, 4)), np.array([3, 2], np.float32)], {"batch_axis": 0, "seq_axis": 1})
    yield ExactCase([sample_values(rng, (2, 4)), make_i64(3, 2)], {"batch_axis": 0, "seq_axis": 1}, dynamic=(0, 1))
    yield ExactCase([sample_values(rng, (2, 4)), make_i64(3, 2)], note="default axes")


@register_cases("Roll", since=7)
def roll_7(rng):
    # Model.evaluate does not implement the operation.
    for shape, shift, axes in [
        ((5,), [2], [0]),
        ((5,), [-1], [0]),
        ((5,), [12], [-1]),
        ((3, 4), [1], [0]),
        ((3, 4), [1, 2], [0, 1]),
        ((3, 4), [-1, 2], [-1, -2]),
        ((3, 4), [1, 2, 1], [0, 1, 0]),
        ((3, 4), [5, -7], [1, 1]),
        ((2, 3, 4), [1, 1, 1], [2, 0, 1]),
        ((2, 3, 4, 2), [3, 2], [2, -1]),
    ]:
        yield ExactCase([sample_values(rng, shape), make_i64(*shift), make_i64(*axes)])
        yield ExactCase(
            [sample_values(rng, shape), np.array(shift, np.int32), np.array(axes, np.int32)], constants=(1, 2)
        )
    yield ExactCase([sample_values(rng, (3, 4)), np.array(2), np.array(1)], note="scalars")
    yield ExactCase([sample_values(rng, (3, 4)), np.array(2), make_i64(1)], note="a scalar and a list")
    for axes in ([0], [-1], [0, 0]):
        yield ExactCase(
            [sample_values(rng, ()), make_i64(*(2 for _ in axes)), make_i64(*axes)],
            constants=(1, 2),
            note="scalar data",
        )
    for dtype in (np.float16, np.int32, np.int8, np.uint8, np.int64, np.uint32):
        yield ExactCase([sample_values(rng, (3, 4), dtype), make_i64(1, 1), make_i64(0, 1)])
    yield ExactCase([sample_values(rng, (3, 4)), make_i64(1, 1), make_i64(0, 1)], dynamic=(0,))


def compute_unique(data, axis, sort):
    """Compute the outputs of Unique by comparing slices."""
    slices = [tuple(np.take(data, i, axis).reshape(-1).tolist()) for i in range(data.shape[axis])]
    unique = list(dict.fromkeys(slices))
    if sort:
        unique.sort()
    first = make_i64(*(slices.index(s) for s in unique))
    inverse = make_i64(*(unique.index(s) for s in slices))
    return [np.take(data, first, axis), first, inverse, make_i64(*(slices.count(s) for s in unique))]


@register_cases("Unique", since=10)
def unique_10(rng):
    # Model.evaluate does not implement the operation.
    for sorted_ in (True, False):
        for shape in [(), (1,), (6,), (20,), (3, 4), (2, 3, 4), (1, 1, 1)]:
            for types in ({}, {"index_element_type": "i32", "count_element_type": "i32"}):
                data = sample_indices(rng, -3, 4, shape, np.float32)
                yield ExactCase([data], {"sorted": sorted_, **types})
        for shape, axis in [
            ((6,), 0),
            ((8, 2), 0),
            ((2, 8), 1),
            ((2, 8), -1),
            ((5, 1, 2), 0),
            ((2, 9, 1), 1),
            ((1, 2, 9), -1),
            ((1, 1, 9, 2), 2),
        ]:
            for dtype in (np.float32, np.int32):
                data = sample_indices(rng, 0, 2, shape, dtype)
                expected = compute_unique(data, axis, sorted_) if axis else None
                faults = ("plugin-unique",) if axis else ()
                inputs = [data, np.array(axis) if dtype == np.int32 else np.array([axis], np.int32)]
                yield ExactCase(inputs, {"sorted": sorted_}, constants=(1,), faults=faults, expected=expected)
        for dtype in (np.int8, np.uint8, np.int32, np.float32):
            yield ExactCase([sample_indices(rng, 0, 5, (4, 5), dtype)], {"sorted": sorted_})
        yield ExactCase([sample_indices(rng, -3, 4, (12,), np.float32)], {"sorted": sorted_}, dynamic=(0,))
    data = np.array([1, np.nan, 0, np.nan, 1], np.float32)
    yield ExactCase([data], {"sorted": False}, note="NaN is not equal to itself")
