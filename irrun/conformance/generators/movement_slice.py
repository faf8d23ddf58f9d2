"""Conformance cases for Slice, StridedSlice, Split, VariadicSplit, Concat and Pad."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_values

BIG = 2**31 - 1

#: Shape, start, stop, step, axes.
SLICES = [
    ((10,), [1], [8], [1], [0]),
    ((10,), [1], [8], [1], None),
    ((10,), [1], [8], [2], [0]),
    ((10,), [-100], [100], [1], [0]),
    ((10,), [9], [-11], [-1], [0]),
    ((10,), [9], [0], [-1], [0]),
    ((10,), [9], [-10], [-1], [-1]),
    ((10,), [9], [-11], [-2], [0]),
    ((10,), [100], [-100], [-1], [0]),
    ((10,), [-100], [-200], [-1], [0]),
    ((10,), [2], [BIG], [3], [0]),
    ((10,), [-3], [-BIG - 1], [-4], [0]),
    ((10,), [5], [2], [1], [0]),
    ((10,), [2], [5], [-1], [0]),
    ((10,), [3], [3], [1], [0]),
    ((2, 5), [0, 1], [2, 4], [1, 2], [0, 1]),
    ((2, 5), [1], [4], [1], [1]),
    ((2, 5), [1], [4], [1], [-1]),
    ((4, 5, 3), [0, 0, 0], [3, 5, 2], [1, 1, 1], [0, 1, 2]),
    ((4, 5, 3), [0, 1], [3, 5], [2, 3], None),
    ((4, 5, 3), [2, 3], [-4, 0], [-1, -1], [-1, 0]),
    ((4, 5, 3), [1, 2], [3, -1], [1, 1], [2, 1]),
    ((2, 3, 4, 2), [1, 0], [4, 1], [2, 1], [2, 3]),
    ((2, 3, 1, 2, 2), [1, 0], [3, 1], [1, 1], [1, 3]),
]


@register_cases("Slice", since=8)
def slice_8(rng):
    for n, (shape, *bounds, axes) in enumerate(SLICES):
        dtype = (np.int64, np.int32)[n % 2]
        inputs = [
            sample_values(rng, shape),
            *(np.array(b, dtype) for b in bounds),
            None if axes is None else make_i64(*axes),
        ]
        yield ExactCase(inputs, constants=(1, 2, 3) if axes is None else (1, 2, 3, 4))
        yield ExactCase(inputs, dynamic=(0,), note="bounds as Parameters")
    for dtype in DTYPES:
        inputs = [sample_values(rng, (4, 5), dtype), make_i64(0, 4), make_i64(3, 0), make_i64(2, -1)]
        yield ExactCase(inputs, constants=(1, 2, 3))
    inputs = [sample_values(rng, (4, 5)), *(np.array([v], np.int8) for v in (1, 4, 2))]
    yield ExactCase(inputs, constants=(1, 2, 3), note="bounds in i8")
    inputs = [sample_values(rng, (0, 5)), make_i64(0, 1), make_i64(3, 4), make_i64(1, 1)]
    yield ExactCase(inputs, constants=(1, 2, 3), note="empty data")


#: Shape, begin, end, stride, and the masks begin, end, new_axis, shrink_axis, ellipsis.
STRIDED = [
    ((4,), [1], [3], [1], [0], [0], [], [], []),
    ((4,), [1], [3], None, [0], [0], [], [], []),
    ((4,), [3], [0], [-1], [0], [0], [], [], []),
    ((4,), [3], [0], [-1], [0], [1], [], [], []),
    ((4,), [0], [0], [-1], [1], [1], [], [], []),
    ((4,), [-1], [-5], [-2], [0], [0], [], [], []),
    ((4,), [-10], [-20], [-1], [0], [0], [], [], []),
    ((4,), [10], [-20], [-3], [0], [0], [], [], []),
    ((4,), [2], [2], [1], [0], [0], [], [], []),
    ((4,), [-3], [BIG], [2], [0], [0], [], [], []),
    ((4, 5), [1, 0], [3, 4], [1, 2], [0, 0], [0, 0], [], [], []),
    ((4, 5), [1, 0], [3, 4], [1, 2], [1, 0], [0, 1], [], [], []),
    ((4, 5), [1], [3], [1], [0], [0], [], [], []),
    ((2, 3, 4), [1, 1, 123], [0, 0, 2], [1, 1, -1], [0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]),
    ((2, 3, 4), [0, 0, 0], [2, 2, -1], [1, 1, 1], [0, 0, 0], [0, 0, 0], [], [], []),
    ((2, 4), [0, 0, 0, 0], [2, 2, 4, 4], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [], []),
    ((2, 4), [0, 0, 1], [0, 2, 3], [1, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0], [], []),
    ((2, 4), [0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 1], [], []),
    ((3, 4, 2), [1, 0, 0], [2, 4, 2], [1, 1, 1], [0, 1, 1], [0, 1, 1], [], [1, 0, 0], []),
    ((3, 4, 2), [1, -1, 0], [2, 0, 2], [1, 1, 1], [0, 0, 1], [0, 0, 1], [], [1, 1, 0], []),
    ((3, 4, 2), [2, -1, 1], [3, 0, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], [], [1, 1, 1], []),
    ((3, 4, 2), [-3, 0], [1, 4], [-1, 2], [0, 0], [0, 0], [], [1, 0], []),
    ((2, 3, 4, 2), [1, 0, 1], [2, 0, 2], [1, 1, 1], [0, 1, 0], [0, 1, 0], [], [], [0, 1, 0]),
    ((2, 3, 4, 2), [0, 1], [0, 2], [1, 1], [0, 0], [0, 0], [], [], [1, 0]),
    ((2, 3, 4, 2), [1, 0], [2, 0], [1, 1], [0, 0], [0, 0], [], [], [0, 1]),
    ((2, 3, 4, 2), [1, 0, 1], [2, 0, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], [], [0, 0, 1], [0, 1, 0]),
    ((2, 3, 4, 2), [1, 0, 1], [2, 0, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], [], [1, 0, 1], [0, 1, 0]),
    ((2, 3, 4), [0, 0, 0, 1], [0, 0, 0, 3], [1, 1, 1, 1], [0] * 4, [0] * 4, [1, 0, 0, 0], [], [0, 1, 0, 0]),
    ((2, 3, 4), [0, 0, 1], [0, 0, 3], [1, 1, -1], [0, 0, 1], [0, 0, 1], [0, 1, 0], [], [1, 0, 0]),
    ((2, 3, 4), [0, 1, 0, 1], [0, 2, 0, 3], [1] * 4, [0] * 4, [0] * 4, [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]),
    ((4, 4), [3, 3], [0, 0], [-1, -2], [], [], [], [], []),
    ((2, 3, 4), [1, 1, 1], [2, 2, 2], [1, 1, 1], [1], [1], [], [], []),
    ((2, 2), [1234, 2], [1234, 4321], [1, -1], [0, 0], [0, 0], [], [], []),
    ((2, 3, 4), [0], [0], [1], [0], [0], [], [], [1]),
    ((2, 3, 4), [0], [0], [1], [0], [0], [1], [], []),
]


@register_cases("StridedSlice", since=1)
def strided_slice_1(rng):
    names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    for n, (shape, begin, end, stride, *masks) in enumerate(STRIDED):
        dtype = (np.int64, np.int32)[n % 2]
        bounds = [None if b is None else np.array(b, dtype) for b in (begin, end, stride)]
        attributes = dict(zip(names, masks, strict=True))
        inputs = [sample_values(rng, shape), *bounds]
        yield ExactCase(inputs, attributes, constants=(1, 2) if stride is None else (1, 2, 3))
        is_safe = not any(masks[3]) and not (any(masks[2]) and any(masks[4]))
        dynamic = (0,) if is_safe and stride is not None else ()
        faults = () if is_safe else ("plugin-strided-slice",)
        yield ExactCase(inputs, attributes, dynamic=dynamic, faults=faults, note="bounds as Parameters")
    attributes = {"begin_mask": [1, 0], "end_mask": [1, 0]}
    for dtype in DTYPES:
        yield ExactCase(
            [sample_values(rng, (4, 5), dtype), make_i64(0, 4), make_i64(0, 1), make_i64(-1, -2)],
            attributes,
            constants=(1, 2, 3),
        )


@register_cases("Split", since=1)
def split_1(rng):
    for shape, axis, parts in [
        ((6,), 0, 1),
        ((6,), 0, 6),
        ((6,), -1, 3),
        ((4, 6), 0, 2),
        ((4, 6), 1, 3),
        ((4, 6), -2, 4),
        ((2, 6, 3), 1, 2),
        ((2, 3, 4, 2), -2, 2),
        ((1, 2, 3, 2, 4), 4, 2),
    ]:
        yield ExactCase([sample_values(rng, shape), np.array(axis)], {"num_splits": parts}, constants=(1,))
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (4, 6), dtype), np.array(1, np.int32)], {"num_splits": 3}, constants=(1,))
    yield ExactCase([sample_values(rng, (4, 6)), np.array(1)], {"num_splits": 2}, constants=(1,), dynamic=(0,))
    yield ExactCase([sample_values(rng, (4, 6)), np.array(-2)], {"num_splits": 2}, note="axis as a Parameter")


@register_cases("VariadicSplit", since=1)
def variadic_split_1(rng):
    for shape, axis, lengths in [
        ((6,), 0, [6]),
        ((6,), 0, [1, 2, 3]),
        ((6,), -1, [-1, 2]),
        ((6,), 0, [2, -1, 1]),
        ((6,), 0, [6, -1]),
        ((6,), 0, [2, 0, 4]),
        ((4, 6), 0, [1, 3]),
        ((4, 6), 1, [5, 1]),
        ((2, 6, 3), 1, [2, -1]),
        ((2, 3, 4, 2), -2, [1, 1, 2]),
        ((1, 2, 3, 2, 4), 4, [3, 1]),
    ]:
        inputs = [sample_values(rng, shape), np.array(axis), make_i64(*lengths)]
        yield ExactCase(inputs, constants=(1, 2))
        yield ExactCase([inputs[0], make_i64(axis), np.array(lengths, np.int32)], constants=(1, 2))
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (4, 6), dtype), np.array(1), make_i64(1, 5)], constants=(1, 2))
    yield ExactCase([sample_values(rng, (4, 6)), np.array(1), make_i64(1, 5)], constants=(1, 2), dynamic=(0,))


@register_cases("Concat", since=1)
def concat_1(rng):
    for axis, *shapes in [
        (0, (3,)),
        (0, (3,), (2,)),
        (-1, (3,), (1,), (4,), (2,)),
        (0, (2, 3), (1, 3)),
        (1, (2, 3), (2, 5)),
        (-2, (2, 3), (4, 3)),
        (1, (2, 3, 4), (2, 1, 4), (2, 2, 4)),
        (2, (2, 3, 4), (2, 3, 1)),
        (-3, (2, 3, 4), (2, 3, 4)),
        (1, (1, 2, 3, 4), (1, 5, 3, 4)),
        (3, (1, 2, 1, 2, 2), (1, 2, 1, 3, 2)),
        (1, (2, 3), (2, 0), (2, 1)),
    ]:
        yield ExactCase([sample_values(rng, s) for s in shapes], {"axis": axis})
    for dtype in (*DTYPES, object):
        yield ExactCase([sample_values(rng, s, dtype) for s in ((2, 3), (2, 2))], {"axis": 1})
    yield ExactCase([sample_values(rng, s) for s in ((2, 3), (2, 2), (2, 1))], {"axis": 1}, constants=(1,))
    yield ExactCase([sample_values(rng, s) for s in ((2, 3), (2, 2))], {"axis": 1}, dynamic=(0, 1))
    values = np.array([np.nan, -0.0, np.inf, -np.inf, 1e-45], np.float32)
    yield ExactCase([values, values[::-1].copy()], {"axis": 0}, note="NaN, infinities, denormal numbers")


#: Shape, pads_begin, pads_end. The first list applies only to "edge" and "constant", which allow any size.
WIDE_PADS = [((3,), [4], [5]), ((2, 3), [3, 0], [2, 5]), ((1, 2), [2, 2], [1, 3])]
PADS = [
    ((4,), [2], [3]),
    ((4,), [0], [0]),
    ((3, 4), [0, 1], [2, 3]),
    ((3, 4), [2, 0], [0, 0]),
    ((2, 3, 4), [1, 1, 1], [1, 2, 0]),
    ((2, 1, 3, 4), [0, 0, 1, 2], [1, 0, 2, 1]),
    ((2, 1, 2, 3, 2), [1, 0, 0, 1, 0], [0, 0, 1, 2, 1]),
]
CROPS = [
    ((3, 4), [-1, -1], [-1, -1]),
    ((3, 4), [2, -1], [-1, 3]),
    ((4,), [-3], [2]),
    ((4,), [2], [-3]),
    ((2, 3, 4), [0, -2, 1], [-1, 1, -2]),
    ((2, 3, 5, 4), [-1, 0, 1, -2], [0, 1, -3, 2]),
]


def generate_pad_mode_cases(rng, shapes, mode):
    for n, (shape, begin, end) in enumerate(shapes):
        dtype = (np.int64, np.int32)[n % 2]
        inputs = [sample_values(rng, shape), np.array(begin, dtype), np.array(end, dtype)]
        if mode == "constant":
            value = [None, np.array(0, np.float32), np.array(-2.5, np.float32)][n % 3]
            inputs.append(value)
        yield ExactCase(inputs, {"pad_mode": mode}, constants=(1, 2, 3))
        if mode == "constant":
            inputs[3] = np.array(3, np.float32)
        yield ExactCase(inputs, {"pad_mode": mode}, dynamic=(0,), note="pads as Parameters")


@register_cases("Pad", since=1, negative=False)
@register_cases("Pad", since=12, negative=True)
def generate_pad_cases(rng, negative):
    for mode in ("constant", "edge", "reflect", "symmetric"):
        yield from generate_pad_mode_cases(rng, PADS, mode)
        if mode in ("constant", "edge"):
            yield from generate_pad_mode_cases(rng, WIDE_PADS, mode)
        if negative:
            yield from generate_pad_mode_cases(rng, CROPS, mode)
        for dtype in DTYPES:
            inputs = [sample_values(rng, (3, 4), dtype), make_i64(1, 0), make_i64(0, 2)]
            if mode == "constant":
                inputs.append(np.array(1, dtype))
            yield ExactCase(inputs, {"pad_mode": mode}, constants=(1, 2, 3))
    yield ExactCase(
        [sample_values(rng, (4,)), make_i64(4), make_i64(4)],
        {"pad_mode": "symmetric"},
        constants=(1, 2),
        note="largest pads",
    )
    yield ExactCase(
        [sample_values(rng, (4,)), make_i64(3), make_i64(3)],
        {"pad_mode": "reflect"},
        constants=(1, 2),
        note="largest pads",
    )
    inputs = [sample_values(rng, (0, 2)), make_i64(1, 0), make_i64(1, 1), np.array(7, np.float32)]
    yield ExactCase(inputs, {"pad_mode": "constant"}, constants=(1, 2), faults=("plugin-pad-empty",), note="empty data")
