"""Configurations for the shape operations."""

from __future__ import annotations

import numpy as np

from conformance.generators.movement_samples import DTYPES, Exact, i64, sample
from conformance.harness import Case, configurations

SHAPES = [(), (0,), (1,), (5,), (2, 3), (2, 0, 3), (1, 2, 3, 4), (2, 1, 2, 1, 2)]


@configurations("ShapeOf", since=1)
def shape_of_1(rng):
    for shape in SHAPES:
        yield Case([rng.normal(size=shape).astype(np.float32)])
    for dtype in (*DTYPES, object):
        yield Case([sample(rng, (2, 3), dtype)])
    yield Case([sample(rng, (2, 3))], dynamic=(0,))
    yield Case([sample(rng, (2, 3))], constants=(0,))


@configurations("ShapeOf", since=3)
def shape_of_3(rng):
    for output_type in ("i64", "i32"):
        for shape in SHAPES:
            yield Case([sample(rng, shape)], {"output_type": output_type})
        for dtype in (np.float16, np.int8, np.bool_, object):
            yield Case([sample(rng, (2, 3), dtype)], {"output_type": output_type})
        yield Case([sample(rng, (2, 3))], {"output_type": output_type}, dynamic=(0,))


@configurations("Reshape", since=1)
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
        inputs = [sample(rng, shape), np.array(pattern, (np.int64, np.int32)[n % 2])]
        oracles = ("evaluate", "cpu") if 0 not in shape and pattern else ("evaluate",)
        yield Exact(inputs, {"special_zero": special_zero}, constants=(1,), oracles=oracles)
        if pattern:
            yield Exact(inputs, {"special_zero": special_zero}, dynamic=(0,), oracles=oracles, note="at run time")
    for dtype in (*DTYPES, object):
        yield Exact([sample(rng, (2, 6), dtype), i64(3, -1)], {"special_zero": False}, constants=(1,))
    for dtype in (np.int8, np.uint8, np.int16, np.uint64):
        inputs = [sample(rng, (2, 6)), np.array([0, 3, 2], dtype)]
        yield Exact(inputs, {"special_zero": True}, constants=(1,), note="types of the pattern")
    for shape, pattern in [((0, 2, 3), [0, 6, -1]), ((0, 0), [0, -1]), ((3, 0), [-1, 4, 0])]:
        # With open dimensions OpenVINO refuses a -1 beside a 0.
        inputs = [sample(rng, shape), i64(*pattern)]
        yield Exact(inputs, {"special_zero": False}, constants=(1,), oracles=("evaluate",))


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


def squeeze(rng, *attributes):
    for chosen in attributes:
        for shape in [(1, 3, 1, 2), (1,), (), (2, 3), (1, 1, 1), (1, 0)]:
            yield Exact([sample(rng, shape)], chosen)
        for n, (shape, axes) in enumerate(SQUEEZES):
            inputs = [sample(rng, shape), np.array(axes, (np.int64, np.int32)[n % 2])]
            yield Exact(inputs, chosen, constants=(1,))
            yield Exact(inputs, chosen, oracles=("evaluate",), note="axes at run time")
        yield Exact([sample(rng, (3, 1)), np.array(-1)], chosen, constants=(1,), note="a scalar")
        yield Exact([sample(rng, (3, 1)), i64(1)], chosen, constants=(1,), dynamic=(0,), oracles=("evaluate",))
    for dtype in DTYPES:
        yield Exact([sample(rng, (2, 1, 3), dtype), i64(1)], attributes[0], constants=(1,))
    strings = sample(rng, (2, 1, 3), object)
    yield Exact([strings, i64(1)], attributes[0], constants=(1,), oracles=("cpu",), note="evaluate crashes")


@configurations("Squeeze", since=1)
def squeeze_1(rng):
    yield from squeeze(rng, {})


@configurations("Squeeze", since=15)
def squeeze_15(rng):
    yield from squeeze(rng, {}, {"allow_axis_skip": False}, {"allow_axis_skip": True})


@configurations("Unsqueeze", since=1)
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
        inputs = [sample(rng, shape), np.array(axes, (np.int64, np.int32)[n % 2])]
        yield Exact(inputs, constants=(1,))
        yield Exact(inputs, oracles=("evaluate",), note="axes at run time")
    yield Exact([sample(rng, (2, 3)), np.array(1)], constants=(1,), note="a scalar")
    yield Exact([sample(rng, (2, 3)), i64(1, 2)], constants=(1,), dynamic=(0,))
    for dtype in DTYPES:
        yield Exact([sample(rng, (2, 3), dtype), i64(1)], constants=(1,))
    yield Exact([sample(rng, (2, 3), object), i64(1)], constants=(1,), oracles=("cpu",), note="evaluate crashes")
