"""Conformance cases for the EmbeddingBag family, EmbeddingSegmentsSum and SparseFillEmptyRows."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import make_i64, sample_indices

# Model.evaluate does not implement any of these operations.
TABLES = [(5, 2), (4, 3, 2), (6,), (3, 2, 1, 2)]
DTYPES = [np.int32, np.int8, np.uint8, np.float16]


def sample_eighths(rng, shape):
    """Return random numbers with products that can be summed exactly, in any order."""
    return (rng.integers(-40, 41, shape) / 8).astype(np.float32)


def sample_values(rng, shape, dtype):
    return rng.integers(0, 5, shape).astype(dtype)


def generate_offsets_cases(rng, *attributes):
    for attribute_set in attributes:
        for n, table in enumerate(TABLES):
            ints = (np.int64, np.int32)[n % 2]
            data, indices = sample_eighths(rng, table), sample_indices(rng, 0, table[0], (7,), ints)
            default, weights = np.array(table[0] - 1, ints), sample_eighths(rng, (7,))
            for offsets in ([0, 2, 5], [0, 0, 2, 2, 6], [0], [0, 1, 2, 3, 4, 5, 6], [0, 3, 3, 3]):
                inputs = [data, indices, np.array(offsets, ints)]
                yield Case(inputs, attribute_set)
                yield Case([*inputs, default], attribute_set)
                if attribute_set.get("reduction") != "mean":  # "mean" does not support weights
                    yield Case([*inputs, default, weights], attribute_set)
                    yield Case([*inputs, np.array(-1, ints), weights], attribute_set)
            yield Case([data, indices, np.array([0, 3, 3], ints), default], attribute_set, constants=(1, 2, 3))
        inputs = [sample_eighths(rng, (5, 2)), make_i64(0, 4, 2), make_i64(0, 2)]
        yield Case(inputs, attribute_set, dynamic=(0, 1, 2))
        for dtype in DTYPES:
            yield Case([sample_values(rng, (5, 2), dtype), make_i64(0, 4, 2), make_i64(0, 2)], attribute_set)


@register_cases("EmbeddingBagOffsetsSum", since=3)
def embedding_bag_offsets_sum_3(rng):
    yield from generate_offsets_cases(rng, {})


@register_cases("EmbeddingBagOffsets", since=15)
def embedding_bag_offsets_15(rng):
    yield from generate_offsets_cases(rng, {"reduction": "sum"}, {"reduction": "mean"})


def generate_packed_cases(rng, *attributes):
    for attribute_set in attributes:
        for n, table in enumerate(TABLES):
            ints = (np.int64, np.int32)[n % 2]
            for bags in [(3, 2), (1, 4), (4, 1)]:
                inputs = [sample_eighths(rng, table), sample_indices(rng, 0, table[0], bags, ints)]
                yield Case(inputs, attribute_set)
                yield Case(inputs, attribute_set, constants=(1,))
                if attribute_set.get("reduction") != "mean":
                    yield Case([*inputs, sample_eighths(rng, bags)], attribute_set)
        yield Case([sample_eighths(rng, (5, 2)), sample_indices(rng, 0, 5, (2, 3))], attribute_set, dynamic=(0, 1))
        for dtype in DTYPES:
            yield Case([sample_values(rng, (5, 2), dtype), sample_indices(rng, 0, 5, (2, 3))], attribute_set)


@register_cases("EmbeddingBagPackedSum", since=3)
def embedding_bag_packed_sum_3(rng):
    yield from generate_packed_cases(rng, {})


@register_cases("EmbeddingBagPacked", since=15)
def embedding_bag_packed_15(rng):
    yield from generate_packed_cases(rng, {"reduction": "sum"}, {"reduction": "mean"})


@register_cases("EmbeddingSegmentsSum", since=3)
def embedding_segments_sum_3(rng):
    for n, table in enumerate(TABLES):
        ints = (np.int64, np.int32)[n % 2]
        data, weights = sample_eighths(rng, table), sample_eighths(rng, (6,))
        indices, default = sample_indices(rng, 0, table[0], (6,), ints), np.array(1, ints)
        for segments, count in [
            ([0, 0, 1, 2, 2, 2], 3),
            ([0, 0, 0, 2, 2, 5], 8),
            ([1, 1, 1, 1, 1, 1], 2),
            ([0, 1, 2, 3, 4, 5], 6),
        ]:
            inputs = [data, indices, np.array(segments, ints), np.array(count, ints)]
            yield Case(inputs, constants=(3,))
            yield Case([*inputs, default], constants=(3,))
            yield Case([*inputs, default, weights], constants=(3,))
        yield Case([data, indices, np.array([0, 1, 1, 1, 3, 3], ints), np.array(4, ints)], dynamic=(0, 1, 2))
    for dtype in DTYPES:
        inputs = [sample_values(rng, (5, 2), dtype), make_i64(0, 4, 2), make_i64(0, 0, 2), np.array(4)]
        yield Case(inputs, constants=(3,))


@register_cases("SparseFillEmptyRows", since=16)
def sparse_fill_empty_rows_16(rng):
    for n, (places, shape) in enumerate(
        [
            ([[0, 1], [0, 3], [2, 0], [3, 1]], [5, 6]),
            ([[0, 0], [1, 1], [2, 2]], [3, 3]),
            ([[3, 1], [0, 2], [3, 0]], [5, 4]),
            ([[1, 2]], [4, 3]),
            ([[0, 0]], [1, 1]),
            ([[7, 1], [2, 5], [2, 0], [0, 9], [7, 0]], [9, 10]),
            (np.zeros((0, 2)), [3, 2]),
        ]
    ):
        for dtype in (np.float32, np.int32, np.int64, np.float16, np.int8):
            ints = (np.int64, np.int32)[n % 2]
            indices = np.array(places, ints)
            values, default = sample_values(rng, (len(indices),), dtype), np.array(9, dtype)
            yield Case([values, np.array(shape, ints), indices, default])
    inputs = [sample_eighths(rng, (2,)), make_i64(4, 4), np.array([[1, 0], [3, 2]]), np.array(-1, np.float32)]
    yield Case(inputs, dynamic=(0, 2))
    yield Case(inputs, constants=(1, 3))
