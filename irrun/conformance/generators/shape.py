"""Conformance cases for the shape operations."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_values

SHAPES = [(), (0,), (1,), (5,), (2, 3), (2, 0, 3), (1, 2, 3, 4), (2, 1, 2, 1, 2)]


@register_cases("ShapeOf", since=1)
def shape_of_1(rng):
    for shape in SHAPES:
        yield Case([rng.normal(size=shape).astype(np.float32)])
    for dtype in (*DTYPES, object):
        yield Case([sample_values(rng, (2, 3), dtype)])
    yield Case([sample_values(rng, (2, 3))], dynamic=(0,))
    yield Case([sample_values(rng, (2, 3))], constants=(0,))


@register_cases("ShapeOf", since=3)
def shape_of_3(rng):
    for output_type in ("i64", "i32"):
        for shape in SHAPES:
            yield Case([sample_values(rng, shape)], {"output_type": output_type})
        for dtype in (np.float16, np.int8, np.bool_, object):
            yield Case([sample_values(rng, (2, 3), dtype)], {"output_type": output_type})
        yield Case([sample_values(rng, (2, 3))], {"output_type": output_type}, dynamic=(0,))


@register_cases("Reshape", since=1)
def reshape_1(rng):
    for n, (shape, pattern, special_zero) in enumerate(
        [
            ((6,), [2, 3], False),
            ((6,), [-1], False),
            ((6,), [3, -1], False),
            ((2, 3), [6], False),
            ((2, 3), [-1, 1], True),
            ((2, 3, 4), [0, -1], True),
            ((2, 3, 4), [0, 0, 2, 2], True),
            ((2, 3, 4), [-1, 0, 2], True),
            ((2, 3, 4), [0, 0, 0], True),
            ((2, 3, 4), [4, 3, 2], True),
            ((2, 3, 4), [1, -1, 1, 2, 1], False),
            ((), [1], False),
            ((), [-1, 1], False),
            ((1, 1), [], False),
            ((1, 1), [-1], False),
            ((2, 2, 3, 4), [0, -1, 4], True),
            ((1, 3, 2, 2), [2, 0, -1], True),
            ((2, 0, 3), [0, 5], False),
            ((2, 0, 3), [0, 0, 3], True),
            ((2, 0, 3), [0, 0, -1], True),
            ((0, 3), [0, -1], True),
            ((0, 3), [3, 0], False),
        ]
    ):
        inputs = [sample_values(rng, shape), np.array(pattern, (np.int64, np.int32)[n % 2])]
        yield ExactCase(inputs, {"special_zero": special_zero}, constants=(1,))
        if pattern:
            yield ExactCase(inputs, {"special_zero": special_zero}, dynamic=(0,), note="pattern as a Parameter")
    for dtype in (*DTYPES, object):
        yield ExactCase([sample_values(rng, (2, 6), dtype), make_i64(3, -1)], {"special_zero": False}, constants=(1,))
    for dtype in (np.int8, np.uint8, np.int16, np.uint64):
        inputs = [sample_values(rng, (2, 6)), np.array([0, 3, 2], dtype)]
        yield ExactCase(inputs, {"special_zero": True}, constants=(1,), note="types of the pattern")
    for shape, pattern in [((0, 2, 3), [0, 6, -1]), ((0, 0), [0, -1]), ((3, 0), [-1, 4, 0])]:
        # With dynamic dimensions OpenVINO rejects -1 together with 0.
        inputs = [sample_values(rng, shape), make_i64(*pattern)]
        yield ExactCase(inputs, {"special_zero": False}, constants=(1,))


#: Shape, axes.
SQUEEZES = [
    ((1, 3, 1, 2), [0, 2]),
    ((1, 3, 1, 2), [0]),
    ((1, 3, 1, 2), [2]),
    ((1, 3, 1, 2), [-2, -4]),
    ((1, 3, 1, 2), [0, -4]),
    ((1, 3, 1, 2), []),
    ((1, 3, 1, 2), [0, 1]),
    ((1, 3, 1, 2), [1]),
    ((1,), [0]),
    ((1, 1), [1]),
    ((2, 3), [0, 1]),
    ((2, 1, 0), [1]),
    ((1, 2, 1, 2, 1), [0, 2, 4]),
    ((), [0]),
    ((), [-1, 0]),
]


def generate_squeeze_cases(rng, *attributes):
    for attribute_set in attributes:
        for shape in [(1, 3, 1, 2), (1,), (), (2, 3), (1, 1, 1), (1, 0)]:
            yield ExactCase([sample_values(rng, shape)], attribute_set)
        for n, (shape, axes) in enumerate(SQUEEZES):
            inputs = [sample_values(rng, shape), np.array(axes, (np.int64, np.int32)[n % 2])]
            yield ExactCase(inputs, attribute_set, constants=(1,))
            yield ExactCase(inputs, attribute_set, faults=("plugin-squeeze",), note="axes as Parameters")
        yield ExactCase([sample_values(rng, (3, 1)), np.array(-1)], attribute_set, constants=(1,), note="scalar axis")
        yield ExactCase(
            [sample_values(rng, (3, 1)), make_i64(1)],
            attribute_set,
            constants=(1,),
            dynamic=(0,),
        )
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (2, 1, 3), dtype), make_i64(1)], attributes[0], constants=(1,))
    strings = sample_values(rng, (2, 1, 3), object)
    yield ExactCase([strings, make_i64(1)], attributes[0], constants=(1,), faults=("reference-strings",))


@register_cases("Squeeze", since=1)
def squeeze_1(rng):
    yield from generate_squeeze_cases(rng, {})


@register_cases("Squeeze", since=15)
def squeeze_15(rng):
    yield from generate_squeeze_cases(rng, {}, {"allow_axis_skip": False}, {"allow_axis_skip": True})


@register_cases("Unsqueeze", since=1)
def unsqueeze_1(rng):
    for n, (shape, axes) in enumerate(
        [
            ((2, 3), [0]),
            ((2, 3), [0, 3]),
            ((2, 3), [3, 0]),
            ((2, 3), [1, 2]),
            ((2, 3), [-1]),
            ((2, 3), [-1, 0]),
            ((2, 3), [3, 0, -2]),
            ((2, 3), [0, 0]),
            ((), [0]),
            ((), [0, 1]),
            ((4,), [1]),
            ((2, 0), [1]),
            ((2, 3, 4), [0, 2, 5]),
        ]
    ):
        inputs = [sample_values(rng, shape), np.array(axes, (np.int64, np.int32)[n % 2])]
        yield ExactCase(inputs, constants=(1,))
        yield ExactCase(inputs, note="axes as Parameters")
    yield ExactCase([sample_values(rng, (2, 3)), np.array(1)], constants=(1,), note="scalar axis")
    yield ExactCase([sample_values(rng, (2, 3)), make_i64(1, 2)], constants=(1,), dynamic=(0,))
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (2, 3), dtype), make_i64(1)], constants=(1,))
    yield ExactCase([sample_values(rng, (2, 3), object), make_i64(1)], constants=(1,), faults=("reference-strings",))
