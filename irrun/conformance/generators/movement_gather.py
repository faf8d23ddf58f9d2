"""Conformance cases for Gather, GatherElements, GatherND and GatherTree."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_indices, sample_values

#: Shapes of data, of indices, and the axis.
PLAIN = [
    ((5,), (3,), 0),
    ((5,), (), 0),
    ((5,), (2, 3), -1),
    ((4, 5), (3,), 0),
    ((4, 5), (3,), 1),
    ((4, 5), (2, 2), -2),
    ((4, 5), (), 1),
    ((4, 5), (1,), -1),
    ((2, 3, 4), (2,), 1),
    ((2, 3, 4), (2, 1, 2), 1),
    ((2, 3, 4), (3,), -3),
    ((2, 3, 4), (), 2),
    ((2, 3, 4, 5), (2, 2), 2),
    ((2, 3, 4, 5), (6,), -1),
    ((1, 3, 1, 2, 2), (4,), 1),
    ((2, 1, 3), (7, 1), 1),
]

#: The same with batch_dims.
BATCHED = [
    ((2, 5), (2, 3), 1, 1),
    ((2, 5), (2, 3), 1, -1),
    ((2, 5), (2,), 1, 1),
    ((2, 5), (2, 3, 2), 1, -2),
    ((2, 3, 4), (2, 3, 5), 2, 2),
    ((2, 3, 4), (2, 3, 5), -1, -1),
    ((2, 3, 4), (2, 2), 2, 1),
    ((2, 3, 4), (2, 2), 1, 1),
    ((2, 1, 5, 4), (2, 3), 2, 1),
    ((2, 3, 4, 5), (2, 3), 3, 2),
    ((2, 3, 4, 5), (2, 3, 1, 2), 2, 2),
    ((2, 3, 4, 5), (2, 4), -1, 1),
    ((3, 4, 2), (3, 2, 2), -2, -2),
    ((2, 3, 2, 4), (2, 3, 2, 3), 3, 3),
]


@register_cases("Gather", since=1)
def generate_plain_cases(rng):
    for n, (shape, index_shape, axis) in enumerate(PLAIN):
        data, indices = (
            sample_values(rng, shape),
            sample_indices(rng, 0, shape[axis], index_shape, (np.int64, np.int32)[n % 2]),
        )
        yield ExactCase([data, indices, np.array(axis)], constants=(2,))
        yield ExactCase([data, indices, make_i64(axis)], constants=(1, 2), note="axis of rank 1, constant indices")
    for dtype in DTYPES:
        yield ExactCase(
            [sample_values(rng, (3, 4), dtype), sample_indices(rng, 0, 4, (2, 2)), np.array(1)], constants=(2,)
        )
    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.uint64):
        inputs = [sample_values(rng, (3, 4)), sample_indices(rng, 0, 3, (5,), dtype), np.array(0, np.int32)]
        yield ExactCase(inputs, constants=(2,), note="types of indices")
    yield ExactCase(
        [sample_values(rng, (3, 4)), sample_indices(rng, 0, 3, (5,)), np.array(0)], dynamic=(0, 1), constants=(2,)
    )
    yield ExactCase(
        [sample_values(rng, (3, 4)), sample_indices(rng, 0, 3, (5,)), np.array(-2)],
        faults=("plugin-gather-axis",),
        note="axis as a Parameter",
    )
    # The CPU plugin crashes on empty tensors.
    yield ExactCase(
        [sample_values(rng, (3, 4)), sample_indices(rng, 0, 3, (0,)), np.array(0)],
        constants=(2,),
        faults=("plugin-gather-empty",),
        note="empty indices",
    )
    yield ExactCase(
        [sample_values(rng, (3, 0)), sample_indices(rng, 0, 3, (2,)), np.array(0)],
        constants=(2,),
        faults=("plugin-gather-empty",),
        note="empty data",
    )
    strings = sample_values(rng, (3, 4), object)
    yield ExactCase([strings, sample_indices(rng, 0, 4, (2,)), np.array(1)], constants=(2,))
    yield ExactCase(
        [sample_values(rng, (3, 4)), np.array([0, 7, 2]), np.array(0)], constants=(2,), note="indices out of range"
    )
    for indices in (np.array([-1, 0, -3]), np.array([[-4, 2], [3, -1]])):
        yield ExactCase([sample_values(rng, (3, 4)), indices, np.array(0)], constants=(2,), faults=("plugin-gather",))


def generate_batched_cases(rng):
    for n, (shape, index_shape, axis, batch_dims) in enumerate(BATCHED):
        indices = sample_indices(rng, 0, shape[axis], index_shape, (np.int64, np.int32)[n % 2])
        inputs = [sample_values(rng, shape, DTYPES[n % len(DTYPES)]), indices, np.array(axis)]
        yield ExactCase(inputs, {"batch_dims": batch_dims}, constants=(2,))
    inputs = [sample_values(rng, (1, 6)), sample_indices(rng, 0, 6, (1, 0)), np.array(1)]
    yield ExactCase(inputs, {"batch_dims": 1}, constants=(2,), faults=("plugin-gather-empty",), note="empty indices")
    shape, index_shape, axis, batch_dims = BATCHED[8]
    inputs = [sample_values(rng, shape), sample_indices(rng, 0, 5, index_shape), make_i64(axis)]
    yield ExactCase(inputs, {"batch_dims": batch_dims}, dynamic=(0, 1), constants=(2,))


@register_cases("Gather", since=7)
def gather_7(rng):
    yield from generate_plain_cases(rng)
    yield from generate_batched_cases(rng)


@register_cases("Gather", since=8)
def gather_8(rng):
    yield from generate_plain_cases(rng)
    yield from generate_batched_cases(rng)
    for shape, index_shape, axis, batch_dims in BATCHED:
        indices = sample_indices(rng, -shape[axis], shape[axis], index_shape)
        yield ExactCase(
            [sample_values(rng, shape), indices, np.array(axis)],
            {"batch_dims": batch_dims},
            constants=(2,),
            note="negative indices",
        )
    for dtype in (np.float32, np.int64, np.bool_, np.uint8):
        indices = sample_indices(rng, -12, 12, (4, 3), np.int32)
        yield ExactCase(
            [sample_values(rng, (3, 5, 2), dtype), indices, np.array(1)], constants=(2,), note="indices out of range"
        )
    indices = sample_indices(rng, -12, 12, (2, 6))
    yield ExactCase(
        [sample_values(rng, (2, 5, 3)), indices, np.array(1)],
        {"batch_dims": 1},
        constants=(2,),
        note="indices out of range, with batches",
    )
    yield ExactCase(
        [sample_values(rng, (5,)), np.array(-9), np.array(0)], constants=(2,), note="scalar index out of range"
    )


@register_cases("GatherElements", since=6)
def gather_elements_6(rng):
    for shape, count, axis in [
        ((4,), 6, 0),
        ((4,), 0, 0),
        ((3, 4), 2, 0),
        ((3, 4), 5, 1),
        ((3, 4), 3, -2),
        ((2, 3, 4), 5, 1),
        ((2, 3, 4), 1, -1),
        ((2, 1, 3, 2), 4, 0),
        ((2, 2, 2, 2, 3), 2, 4),
    ]:
        index_shape = list(shape)
        index_shape[axis] = count
        yield ExactCase([sample_values(rng, shape), sample_indices(rng, 0, shape[axis], index_shape)], {"axis": axis})
        yield ExactCase(
            [sample_values(rng, shape), sample_indices(rng, 0, shape[axis], index_shape, np.int32)],
            {"axis": axis},
            constants=(1,),
        )
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (3, 4), dtype), sample_indices(rng, 0, 3, (2, 4), np.int32)], {"axis": 0})
    yield ExactCase([sample_values(rng, (3, 4)), sample_indices(rng, 0, 4, (3, 2))], {"axis": 1}, dynamic=(0, 1))
    yield ExactCase(
        [sample_values(rng, (3, 4)), sample_indices(rng, -4, 4, (3, 6))], {"axis": 1}, note="negative indices"
    )


#: Shapes of data and of indices, and batch_dims.
ND_SHAPES = [
    ((5,), (3, 1), 0),
    ((5,), (1,), 0),
    ((3, 4), (2, 2), 0),
    ((3, 4), (2, 1), 0),
    ((3, 4), (2,), 0),
    ((3, 4), (2, 3, 2), 0),
    ((2, 3, 4), (5, 3), 0),
    ((2, 3, 4), (5, 2), 0),
    ((2, 3, 4), (2, 2, 1), 0),
    ((2, 3, 4), (2, 1), 1),
    ((2, 3, 4), (2, 5, 2), 1),
    ((2, 3, 4), (2, 5, 1), 1),
    ((2, 3, 4), (2, 3, 1), 2),
    ((2, 3, 4, 5), (2, 3, 2, 2), 2),
    ((2, 3, 4, 5), (2, 3, 6, 1), 2),
    ((2, 3, 2, 4), (2, 3, 2, 2, 1), 3),
]


@register_cases("GatherND", since=5)
@register_cases("GatherND", since=8)
def generate_nd_cases(rng):
    for n, (shape, index_shape, batch_dims) in enumerate(ND_SHAPES):
        depth = index_shape[-1]
        sizes = shape[batch_dims : batch_dims + depth]
        columns = [sample_indices(rng, 0, size, index_shape[:-1], (np.int64, np.int32)[n % 2]) for size in sizes]
        indices = np.stack(columns, axis=-1)
        yield ExactCase([sample_values(rng, shape), indices], {"batch_dims": batch_dims})
        yield ExactCase(
            [sample_values(rng, shape, DTYPES[n % len(DTYPES)]), indices], {"batch_dims": batch_dims}, constants=(1,)
        )
    yield ExactCase(
        [sample_values(rng, (3, 4)), np.array([[-1, 0], [0, -4], [-3, -1]])], {"batch_dims": 0}, note="negative indices"
    )
    yield ExactCase(
        [sample_values(rng, (2, 3, 4)), np.array([[[-1]], [[-3]]])], {"batch_dims": 1}, note="negative indices"
    )
    yield ExactCase(
        [sample_values(rng, (2, 3, 4)), sample_indices(rng, 0, 2, (2, 5, 2))], {"batch_dims": 1}, dynamic=(0,)
    )
    # The specification broadcasts the batch dimensions, OpenVINO rejects different ones.
    data, indices = sample_values(rng, (3, 4)), sample_indices(rng, 0, 4, (1, 1))
    expected = [data[:, indices[0, 0]]]
    yield ExactCase([data, indices], {"batch_dims": 1}, dynamic=(0, 1), expected=expected)
    indices = sample_indices(rng, 0, 4, (3, 1))
    expected = [data[0, indices[:, 0]]]
    yield ExactCase([data[:1], indices], {"batch_dims": 1}, dynamic=(0, 1), expected=expected)


def sample_beams(rng, max_time, batch, width, lengths, dtype=np.int32, tokens=9):
    """Return random inputs of GatherTree, with all parents in range."""
    shape = (max_time, batch, width)
    return [
        rng.integers(0, tokens, shape).astype(dtype),
        rng.integers(0, width, shape).astype(dtype),
        np.array(lengths).astype(dtype),
        np.array(rng.integers(0, tokens)).astype(dtype),
    ]


@register_cases("GatherTree", since=1)
def gather_tree_1(rng):
    # Model.evaluate does not implement the operation. The CPU plugin supports i32, i64 and floats, and lengths >= 1.
    for max_time, batch, width in [
        (1, 1, 1),
        (1, 2, 3),
        (4, 1, 1),
        (4, 1, 3),
        (5, 2, 4),
        (10, 3, 2),
        (20, 1, 10),
        (7, 4, 5),
    ]:
        for dtype in (np.int32, np.float32):
            lengths = rng.integers(1, max_time + 1, batch)
            yield ExactCase(sample_beams(rng, max_time, batch, width, lengths, dtype))
            yield ExactCase(sample_beams(rng, max_time, batch, width, [max_time] * batch, dtype, tokens=100))
        yield ExactCase(
            sample_beams(rng, max_time, batch, width, [max_time + 3] * batch), note="lengths above MAX_TIME"
        )
    for dtype in (np.int64, np.float16, np.float64):
        yield ExactCase(sample_beams(rng, 6, 2, 3, [6, 4], dtype))
        yield ExactCase(sample_beams(rng, 6, 2, 3, [2, 9], dtype))
    for constants in ((2, 3), (0, 1), (3,)):
        yield ExactCase(sample_beams(rng, 6, 2, 3, [5, 3]), constants=constants)
    yield ExactCase(sample_beams(rng, 6, 2, 3, [5, 3]), dynamic=(0, 1, 2))
    yield ExactCase(sample_beams(rng, 6, 1, 4, [6], tokens=1), note="all tokens are end tokens")
    # Values computed by hand where OpenVINO has no kernel or leaves memory uninitialized.
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64, np.int32):
        step = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]], dtype)
        parent = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]], dtype)
        inputs = [step, parent, np.array([3], dtype), np.array(10, dtype)]
        expected = [np.array([[[2, 2, 2]], [[6, 5, 6]], [[7, 8, 9]]], dtype)]
        yield ExactCase(inputs, expected=expected, note="computed by hand")
        inputs = [step, parent, np.array([0], dtype), np.array(10, dtype)]
        expected = [np.full((3, 1, 3), 10, dtype)]
        yield ExactCase(inputs, faults=("plugin-gather-tree",), expected=expected, note="length 0")
