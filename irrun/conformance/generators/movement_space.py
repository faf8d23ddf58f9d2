"""Conformance cases for operations that move data between batch, channels, space and patches."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.movement_samples import DTYPES, ExactCase, make_i64, sample_values

SPACE_TO_BATCH = ("reference-space-to-batch",)
DYNAMIC = ("reference-dynamic-output",)


@register_cases("BatchToSpace", since=2)
def batch_to_space_2(rng):
    for shape, blocks, begin, end in [
        ((4, 3), [1, 2], [0, 0], [0, 0]),
        ((4, 3), [1, 2], [0, 2], [0, 1]),
        ((6, 2, 3), [1, 2, 3], [0, 0, 0], [0, 0, 0]),
        ((4, 1, 3), [1, 1, 2], [0, 0, 1], [0, 0, 1]),
        ((4, 3, 1, 1), [1, 1, 2, 2], [0, 0, 0, 0], [0, 0, 0, 0]),
        ((12, 2, 3, 2), [1, 2, 3, 2], [0, 1, 2, 0], [0, 0, 1, 1]),
        ((3, 2, 2, 2), [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]),
        ((8, 2, 1, 2, 3), [1, 1, 2, 2, 2], [0, 0, 0, 1, 0], [0, 0, 1, 0, 2]),
        ((48, 3, 3, 1, 3), [1, 2, 4, 3, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]),
    ]:
        inputs = [sample_values(rng, shape), make_i64(*blocks), make_i64(*begin), make_i64(*end)]
        yield ExactCase(inputs, constants=(1, 2, 3))
        yield ExactCase(inputs, dynamic=(0,))
        yield ExactCase([inputs[0], *(x.astype(np.int32) for x in inputs[1:])], constants=(1, 2, 3))
    for dtype in DTYPES:
        inputs = [
            sample_values(rng, (4, 3, 1, 2), dtype),
            make_i64(1, 1, 2, 2),
            make_i64(0, 0, 0, 1),
            make_i64(0, 0, 0, 0),
        ]
        yield ExactCase(inputs, constants=(1, 2, 3))


@register_cases("SpaceToBatch", since=2)
def space_to_batch_2(rng):
    for shape, blocks, begin, end in [
        ((2, 6), [1, 2], [0, 0], [0, 0]),
        ((2, 4), [1, 3], [0, 1], [0, 1]),
        ((2, 4, 3), [1, 2, 3], [0, 0, 0], [0, 0, 0]),
        ((2, 3, 3), [1, 1, 2], [0, 0, 1], [0, 0, 0]),
        ((1, 3, 2, 2), [1, 1, 2, 2], [0, 0, 0, 0], [0, 0, 0, 0]),
        ((2, 3, 4, 3), [1, 2, 3, 2], [0, 1, 2, 0], [0, 0, 0, 1]),
        ((3, 2, 2, 2), [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]),
        ((1, 2, 3, 4, 3), [1, 1, 2, 2, 2], [0, 0, 0, 1, 0], [0, 0, 1, 1, 1]),
        ((2, 3, 2, 3, 4), [1, 3, 1, 2, 2], [0, 2, 0, 1, 0], [0, 1, 0, 0, 0]),
    ]:
        inputs = [sample_values(rng, shape), make_i64(*blocks), make_i64(*begin), make_i64(*end)]
        yield ExactCase(inputs, constants=(1, 2, 3))
        yield ExactCase(inputs, dynamic=(0,))
        yield ExactCase(
            [inputs[0], *(x.astype(np.int32) for x in inputs[1:])], constants=(1, 2, 3), faults=SPACE_TO_BATCH
        )
    for dtype in DTYPES:
        inputs = [
            sample_values(rng, (1, 3, 2, 3), dtype),
            make_i64(1, 1, 2, 2),
            make_i64(0, 0, 0, 1),
            make_i64(0, 0, 0, 0),
        ]
        yield ExactCase(inputs, constants=(1, 2, 3))


@register_cases("DepthToSpace", since=1)
def depth_to_space_1(rng):
    for mode in ("blocks_first", "depth_first"):
        for shape, block in [
            ((1, 4, 2), 2),
            ((2, 6, 3), 3),
            ((1, 8, 2, 2), 2),
            ((2, 4, 1, 3), 2),
            ((2, 9, 2, 1), 3),
            ((1, 3, 2, 2), 1),
            ((1, 8, 2, 1, 2), 2),
            ((2, 16, 1, 2, 2), 2),
        ]:
            yield ExactCase([sample_values(rng, shape)], {"mode": mode, "block_size": block})
        for dtype in DTYPES:
            yield ExactCase([sample_values(rng, (1, 8, 2, 2), dtype)], {"mode": mode, "block_size": 2})
        yield ExactCase(
            [sample_values(rng, (1, 8, 2, 2))], {"mode": mode, "block_size": 2}, dynamic=(0,), faults=DYNAMIC
        )


@register_cases("SpaceToDepth", since=1)
def space_to_depth_1(rng):
    for mode in ("blocks_first", "depth_first"):
        for shape, block in [
            ((1, 2, 4), 2),
            ((2, 2, 9), 3),
            ((1, 2, 4, 4), 2),
            ((2, 1, 2, 6), 2),
            ((2, 1, 6, 3), 3),
            ((1, 3, 2, 2), 1),
            ((1, 1, 4, 2, 4), 2),
            ((2, 2, 2, 4, 4), 2),
        ]:
            yield ExactCase([sample_values(rng, shape)], {"mode": mode, "block_size": block})
        for dtype in DTYPES:
            yield ExactCase([sample_values(rng, (1, 2, 4, 4), dtype)], {"mode": mode, "block_size": 2})
        yield ExactCase(
            [sample_values(rng, (1, 2, 4, 4))], {"mode": mode, "block_size": 2}, dynamic=(0,), faults=DYNAMIC
        )


@register_cases("ShuffleChannels", since=1)
def shuffle_channels_1(rng):
    for shape, axis, group in [
        ((1, 6), 1, 2),
        ((6, 2), 0, 3),
        ((1, 6, 2), 1, 3),
        ((2, 6, 2, 2), 1, 2),
        ((2, 6, 2, 2), 1, 6),
        ((2, 6, 2, 2), 1, 1),
        ((2, 3, 4, 2), -2, 2),
        ((2, 3, 2, 8), -1, 4),
        ((1, 4, 2, 1, 3), 1, 2),
        ((2, 2, 1, 3, 6), 4, 3),
    ]:
        yield ExactCase([sample_values(rng, shape)], {"axis": axis, "group": group})
    for dtype in DTYPES:
        yield ExactCase([sample_values(rng, (1, 6, 2, 2), dtype)], {"axis": 1, "group": 3})
    yield ExactCase([sample_values(rng, (1, 6, 2, 2))], {"axis": 1, "group": 3}, dynamic=(0,))
    yield ExactCase([sample_values(rng, (1, 6, 2, 2))], note="default attributes")


@register_cases("ExtractImagePatches", since=3)
def extract_image_patches_3(rng):
    # Model.evaluate does not implement the operation.
    for auto_pad in ("valid", "same_upper", "same_lower"):
        for shape, sizes, strides, rates in [
            ((1, 1, 10, 10), [3, 3], [5, 5], [1, 1]),
            ((1, 1, 10, 10), [4, 4], [8, 8], [1, 1]),
            ((1, 1, 10, 10), [4, 4], [9, 9], [1, 1]),
            ((1, 1, 10, 10), [3, 3], [5, 5], [2, 2]),
            ((2, 3, 6, 7), [2, 3], [2, 1], [1, 2]),
            ((2, 2, 5, 4), [1, 1], [1, 1], [1, 1]),
            ((1, 2, 2, 2), [3, 3], [4, 4], [1, 1]),
            ((1, 2, 4, 4), [3, 3], [1, 1], [3, 3]),
            ((1, 1, 3, 8), [2, 2], [3, 3], [1, 1]),
        ]:
            attributes = {"sizes": sizes, "strides": strides, "rates": rates, "auto_pad": auto_pad}
            yield ExactCase([sample_values(rng, shape)], attributes)
        attributes = {"sizes": [2, 2], "strides": [2, 2], "rates": [1, 1], "auto_pad": auto_pad}
        for dtype in DTYPES:
            if dtype.itemsize < 8 and dtype != np.bool_:
                yield ExactCase([sample_values(rng, (1, 2, 5, 4), dtype)], attributes)
        yield ExactCase([sample_values(rng, (1, 2, 5, 4))], attributes, dynamic=(0,))
        yield ExactCase([sample_values(rng, (1, 2, 0, 10))], {**attributes, "strides": [5, 5]}, note="empty output")


@register_cases("Col2Im", since=15)
def col2im_15(rng):
    # NodeFactory crashes if an attribute is omitted.
    for batch, channels, size, kernel, attributes in [
        ((), 1, [4, 4], [2, 2], {}),
        ((2,), 3, [4, 5], [2, 3], {}),
        ((1,), 2, [4, 4], [1, 1], {}),
        ((2,), 1, [6, 6], [2, 2], {"strides": [2, 2]}),
        ((1,), 2, [5, 7], [3, 2], {"strides": [2, 3]}),
        ((1,), 2, [6, 7], [2, 3], {"dilations": [2, 2]}),
        ((), 2, [5, 5], [3, 3], {"pads_begin": [1, 1], "pads_end": [1, 1]}),
        ((1,), 2, [5, 4], [3, 2], {"pads_begin": [2, 1], "pads_end": [0, 1]}),
        ((3,), 2, [5, 4], [3, 2], {"pads_begin": [0, 1], "pads_end": [1, 2], "strides": [2, 1]}),
        (
            (2,),
            3,
            [8, 9],
            [3, 2],
            {"strides": [2, 3], "dilations": [2, 1], "pads_begin": [1, 0], "pads_end": [2, 3]},
        ),
    ]:
        attributes = {
            "strides": [1, 1],
            "dilations": [1, 1],
            "pads_begin": [0, 0],
            "pads_end": [0, 0],
            **attributes,
        }
        lists = zip(size, kernel, *attributes.values(), strict=True)
        blocks = [(n + b + e - d * (k - 1) - 1) // s + 1 for n, k, s, d, b, e in lists]
        shape = (*batch, channels * kernel[0] * kernel[1], int(np.prod(blocks)))
        yield Case([sample_values(rng, shape), make_i64(*size), make_i64(*kernel)], attributes, constants=(1, 2))
        inputs = [sample_values(rng, shape), np.array(size, np.int32), np.array(kernel, np.int32)]
        yield Case(inputs, attributes, note="sizes as Parameters")
    for dtype in (np.float16, np.int32, np.int8, np.uint8, np.int64):
        data = rng.integers(0, 9, (2, 8, 9)).astype(dtype)
        plain = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
        yield Case([data, make_i64(4, 4), make_i64(2, 2)], plain, constants=(1, 2))
