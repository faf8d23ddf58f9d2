"""Tests of data movement: examples of the specification, all element types, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support import registry
from irrun.ops.movement.batch_to_space import batch_to_space_2, space_to_batch_2
from irrun.ops.movement.broadcast import broadcast_1, broadcast_3
from irrun.ops.movement.concat import concat_1
from irrun.ops.movement.depth_to_space import depth_to_space_1, space_to_depth_1
from irrun.ops.movement.gather import gather_1, gather_7, gather_elements_6, gather_nd_5, gather_nd_8
from irrun.ops.movement.gather_tree import gather_tree_1
from irrun.ops.movement.pad import pad_1
from irrun.ops.movement.patches import col2im_15, extract_image_patches_3
from irrun.ops.movement.reverse import reverse_1, reverse_sequence_1
from irrun.ops.movement.roll import roll_7
from irrun.ops.movement.scatter import (
    scatter_elements_update_3,
    scatter_nd_update_4,
    scatter_update_3,
    slice_scatter_15,
)
from irrun.ops.movement.shuffle_channels import shuffle_channels_1
from irrun.ops.movement.slice import slice_8, strided_slice_1
from irrun.ops.movement.split import split_1, variadic_split_1
from irrun.ops.movement.tile import tile_1
from irrun.ops.movement.transpose import transpose_1
from irrun.ops.movement.unique import unique_10
from irrun.ops.shape import reshape_1, squeeze_1, unsqueeze_1


def i64(*values):
    return np.array(values, np.int64)


def create_numbers(*shape, start=0):
    return np.arange(start, start + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def run_layer(type, version, attributes, *inputs):
    """Run an operation with attributes as they are written in files."""
    operation = registry.find(type, f"opset{version}")
    assert not operation.find_unknown(attributes)
    return operation.kernel(*inputs, **operation.bind(attributes))


def create_data(*shape):
    """Return data of a shape, in almost no memory."""
    return np.broadcast_to(np.int8(0), shape)


#: Layers of the specification that state only shapes: type, version, attributes, inputs, shape of the result.
LAYERS = [
    ("BatchToSpace", 2, {}, (create_data(10, 2), i64(1, 5), i64(0, 2), i64(0, 0)), (2, 8)),
    (
        "BatchToSpace",
        2,
        {},
        (create_data(48, 3, 3, 1, 3), i64(1, 2, 4, 3, 1), i64(0, 0, 1, 0, 0), i64(0, 0, 1, 0, 0)),
        (2, 6, 10, 3, 3),
    ),
    (
        "SpaceToBatch",
        2,
        {},
        (create_data(2, 6, 10, 3, 3), i64(1, 2, 4, 3, 1), i64(0, 0, 1, 0, 0), i64(0, 0, 1, 0, 0)),
        (48, 3, 3, 1, 3),
    ),
    ("Broadcast", 1, {"mode": "numpy"}, (create_data(16, 1, 1), i64(1, 16, 50, 50)), (1, 16, 50, 50)),
    ("Broadcast", 1, {"mode": "explicit"}, (create_data(16), i64(1, 16, 50, 50), i64(1)), (1, 16, 50, 50)),
    ("Broadcast", 3, {"mode": "explicit"}, (create_data(50, 50), i64(1, 50, 50, 16), i64(1, 2)), (1, 50, 50, 16)),
    ("Broadcast", 3, {"mode": "bidirectional"}, (create_data(16, 1, 1), i64(1, 1, 50, 50)), (1, 16, 50, 50)),
    ("Col2Im", 15, {}, (create_data(3, 12, 225), i64(16, 16), i64(2, 2)), (3, 3, 16, 16)),
    (
        "Col2Im",
        15,
        {"dilations": "2,2", "pads_begin": "1,1", "pads_end": "1,1", "strides": "2,2"},
        (create_data(1, 27, 49), i64(16, 16), i64(3, 3)),  # 49 by the formula, the example has 25
        (1, 3, 16, 16),
    ),
    (
        "Col2Im",
        15,
        {"dilations": "2,2", "pads_begin": "3,3", "pads_end": "3,3"},
        (create_data(12, 12, 1296), i64(32, 32), i64(2, 2)),
        (12, 3, 32, 32),
    ),
    ("Concat", 1, {"axis": "1"}, [create_data(1, n, 50, 50) for n in (8, 16, 32)], (1, 56, 50, 50)),
    ("Concat", 1, {"axis": "-3"}, [create_data(1, n, 50, 50) for n in (8, 16, 32)], (1, 56, 50, 50)),
    ("DepthToSpace", 1, {"block_size": "2", "mode": "blocks_first"}, [create_data(5, 28, 2, 3)], (5, 7, 4, 6)),
    ("SpaceToDepth", 1, {"block_size": "2", "mode": "blocks_first"}, [create_data(5, 7, 4, 6)], (5, 28, 2, 3)),
    (
        "ExtractImagePatches",
        3,
        {"sizes": "3,3", "strides": "5,5", "rates": "1,1", "auto_pad": "valid"},
        [create_data(64, 3, 10, 10)],
        (64, 27, 2, 2),
    ),
    ("GatherElements", 6, {"axis": "1"}, (create_data(3, 7, 5), create_data(3, 10, 5)), (3, 10, 5)),
    ("GatherND", 5, {"batch_dims": "0"}, (create_data(1000, 256, 10, 15), create_data(25, 125, 3)), (25, 125, 15)),
    ("GatherND", 5, {"batch_dims": "2"}, (create_data(30, 2, 100, 35), create_data(30, 2, 3, 1)), (60, 3, 35)),
    ("GatherND", 8, {"batch_dims": "2"}, (create_data(30, 2, 100, 35), create_data(30, 2, 3, 1)), (30, 2, 3, 35)),
    ("GatherND", 8, {"batch_dims": "3"}, (create_data(1, 64, 64, 320), create_data(1, 64, 64, 1, 1)), (1, 64, 64, 1)),
    (
        "Pad",
        1,
        {"pad_mode": "constant"},
        (create_data(1, 3, 32, 40), i64(0, 5, 2, 1), i64(1, 0, 3, 7), np.int8(15).reshape(())),
        (2, 8, 37, 48),
    ),
    ("Pad", 1, {"pad_mode": "edge"}, (create_data(1, 3, 32, 40), i64(0, 5, 2, 1), i64(1, 0, 3, 7)), (2, 8, 37, 48)),
    (
        "Pad",
        12,
        {"pad_mode": "constant"},
        (create_data(2, 3, 32, 40), i64(0, -2, -8, 1), i64(-1, 4, -6, 7), np.int8(15).reshape(())),
        (1, 5, 18, 48),
    ),
    ("Reverse", 1, {"mode": "index"}, (create_data(3, 10, 100, 200), i64(1)), (3, 10, 100, 200)),
    (
        "ReverseSequence",
        1,
        {"batch_axis": "0", "seq_axis": "1"},
        (create_data(4, 10, 10, 20), i64(2, 4, 8, 10)),
        (4, 10, 10, 20),
    ),
    ("Roll", 7, {}, (create_data(3, 10, 10, 20), i64(1, 2), i64(0, 1)), (3, 10, 10, 20)),
    ("Roll", 7, {}, (create_data(3, 10, 10, 20), i64(3), i64(0, 1)), (3, 10, 10, 20)),
    (
        "ScatterElementsUpdate",
        3,
        {},
        (create_data(1000, 256, 7, 7), create_data(125, 20, 7, 6), create_data(125, 20, 7, 6), i64(0)),
        (1000, 256, 7, 7),
    ),
    (
        "ScatterNDUpdate",
        15,
        {"reduction": "none"},
        (create_data(1000, 256, 1, 15), create_data(25, 125, 3), create_data(25, 125, 15)),
        (1000, 256, 1, 15),
    ),
    (
        "ScatterUpdate",
        3,
        {},
        (create_data(100, 256, 10, 15), create_data(125, 20), create_data(100, 125, 20, 10, 15), i64(1)),
        (100, 256, 10, 15),
    ),
    ("ShuffleChannels", 1, {"group": "3", "axis": "1"}, [create_data(5, 12, 20, 40)], (5, 12, 20, 40)),
    ("Slice", 8, {}, (create_data(20, 10, 5), i64(0, 0, 0), i64(4, 10, 5), i64(1, 1, 1), i64(0, 1, 2)), (4, 10, 5)),
    ("Slice", 8, {}, (create_data(20, 10, 5), i64(0, 0), i64(4, 10), i64(1, 1), i64(0, 1)), (4, 10, 5)),
    ("Tile", 1, {}, (create_data(2, 3, 4), i64(1, 2, 3)), (2, 6, 12)),
    ("Tile", 1, {}, (create_data(2, 3, 4), i64(5, 1, 2, 3)), (5, 2, 6, 12)),
    ("Tile", 1, {}, (create_data(5, 2, 3, 4), i64(1, 2, 3)), (5, 2, 6, 12)),
    ("Transpose", 1, {}, (create_data(2, 3, 4), i64(2, 0, 1)), (4, 2, 3)),
    ("Transpose", 1, {}, (create_data(2, 3, 4), i64()), (4, 3, 2)),
]


@pytest.mark.parametrize(("type", "version", "attributes", "inputs", "shape"), LAYERS)
def test_layer_of_specification_has_stated_shape(type, version, attributes, inputs, shape):
    result = run_layer(type, version, attributes, *inputs)
    assert result.shape == shape
    assert result.dtype == np.int8


@pytest.mark.parametrize(
    ("type", "attributes", "inputs", "shapes"),
    [
        ("Split", {"num_splits": "3"}, [np.array(1)], [(6, 4, 10, 24)] * 3),
        ("VariadicSplit", {}, [np.array(0), i64(1, 2, 3)], [(n, 12, 10, 24) for n in (1, 2, 3)]),
        ("VariadicSplit", {}, [np.array(0), i64(-1, 2)], [(4, 12, 10, 24), (2, 12, 10, 24)]),
    ],
)
def test_split_of_specification_has_stated_shapes(type, attributes, inputs, shapes):
    assert [x.shape for x in run_layer(type, 1, attributes, create_data(6, 12, 10, 24), *inputs)] == shapes


@pytest.mark.parametrize(
    ("shape", "start", "stop", "step", "axes", "expected"),
    [
        ((10,), [1], [8], [1], [0], [1, 2, 3, 4, 5, 6, 7]),
        ((10,), [1], [8], [1], None, [1, 2, 3, 4, 5, 6, 7]),
        ((10,), [1], [8], [2], [0], [1, 3, 5, 7]),
        ((10,), [-100], [100], [1], [0], list(range(10))),
        ((10,), [9], [-11], [-1], [0], list(range(9, -1, -1))),
        ((10,), [9], [0], [-1], [0], list(range(9, 0, -1))),
        ((10,), [9], [-10], [-1], [0], list(range(9, 0, -1))),
        ((10,), [9], [-11], [-2], [0], [9, 7, 5, 3, 1]),
        ((10,), [100], [-100], [-1], [0], list(range(9, -1, -1))),
        ((2, 5), [0, 1], [2, 4], [1, 2], [0, 1], [[1, 3], [6, 8]]),
    ],
)
def test_slice_matches_specification(shape, start, stop, step, axes, expected):
    bounds = (i64(*start), i64(*stop), i64(*step), None if axes is None else i64(*axes))
    assert slice_8(create_numbers(*shape), *bounds).tolist() == expected


@pytest.mark.parametrize(
    ("shape", "updates", "bounds", "expected"),
    [
        ((2, 5), [[10, 20, 30, 40, 50]], ([0], [1], [1], [0]), [[10, 20, 30, 40, 50], [5, 6, 7, 8, 9]]),
        (
            (2, 5),
            [[10, 20, 30], [40, 50, 60]],
            ([-25], [25], [2], [1]),
            [[10, 1, 20, 3, 30], [40, 6, 50, 8, 60]],
        ),
        (
            (3, 5),
            [[50, 60], [70, 80]],
            ([0, 1], [3, 5], [2, 2]),
            [[0, 50, 2, 60, 4], [5, 6, 7, 8, 9], [10, 70, 12, 80, 14]],
        ),
    ],
)
def test_slice_scatter_matches_specification(shape, updates, bounds, expected):
    result = slice_scatter_15(
        create_numbers(*shape), np.array(updates, np.int32), *(np.array(b, np.int32) for b in bounds)
    )
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("shift", "axes", "expected"),
    [
        (1, 0, [[10, 11, 12], [1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        ([-1, 2], [0, 1], [[5, 6, 4], [8, 9, 7], [11, 12, 10], [2, 3, 1]]),
        ([1, 2, 1], [0, 1, 0], [[8, 9, 7], [11, 12, 10], [2, 3, 1], [5, 6, 4]]),
    ],
)
def test_roll_matches_specification(shift, axes, expected):
    assert roll_7(create_numbers(4, 3, start=1), np.array(shift), np.array(axes)).tolist() == expected


def test_roll_of_scalar_changes_nothing():
    assert roll_7(np.array(7), np.array([3]), np.array([-1])).tolist() == 7
    with pytest.raises(InputError, match="axes 1"):
        roll_7(np.array(7), np.array([3]), np.array([1]))


@pytest.mark.parametrize(
    ("image", "attributes", "expected"),
    [
        (
            create_numbers(1, 1, 10, 10, start=1),
            {"sizes": "3,3", "strides": "5,5", "rates": "1,1", "auto_pad": "valid"},
            [[[n, n + 5], [n + 50, n + 55]] for n in (1, 2, 3, 11, 12, 13, 21, 22, 23)],
        ),
        (
            create_numbers(1, 1, 10, 10, start=1),
            {"sizes": "4,4", "strides": "8,8", "rates": "1,1", "auto_pad": "valid"},
            [[[n]] for n in (1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34)],
        ),
        (
            create_numbers(1, 1, 10, 10, start=1),
            {"sizes": "4,4", "strides": "9,9", "rates": "1,1", "auto_pad": "same_upper"},
            [
                *([[0, 0], [0, 89]], [[0, 0], [81, 90]], [[0, 0], [82, 0]], [[0, 0], [83, 0]]),
                *([[0, 9], [0, 99]], [[1, 10], [91, 100]], [[2, 0], [92, 0]], [[3, 0], [93, 0]]),
                *([[0, 19], [0, 0]], [[11, 20], [0, 0]], [[12, 0], [0, 0]], [[13, 0], [0, 0]]),
                *([[0, 29], [0, 0]], [[21, 30], [0, 0]], [[22, 0], [0, 0]], [[23, 0], [0, 0]]),
            ],
        ),
        (
            create_numbers(1, 1, 10, 10, start=1),
            {"sizes": "3,3", "strides": "5,5", "rates": "2,2", "auto_pad": "valid"},
            [[[n, n + 5], [n + 50, n + 55]] for n in (1, 3, 5, 21, 23, 25, 41, 43, 45)],
        ),
        (
            create_numbers(1, 2, 5, 5, start=1),
            {"sizes": "2,2", "strides": "3,3", "rates": "1,1", "auto_pad": "valid"},
            [[[n, n + 3], [n + 15, n + 18]] for n in (1, 26, 2, 27, 6, 31, 7, 32)],
        ),
    ],
)
def test_extract_image_patches_matches_specification(image, attributes, expected):
    assert run_layer("ExtractImagePatches", 3, attributes, image).tolist() == [expected]


class TestGatherExamples:
    """Examples of the specifications of Gather-7 and Gather-8."""

    def test_default_batch_dims_is_zero(self):
        result = gather_7(i64(1, 2, 3, 4, 5), i64(0, 0, 4), np.array(0))
        assert result.tolist() == [1, 1, 5]

    @pytest.mark.parametrize("batch_dims", [1, -1])
    def test_one_batch_dimension_matches(self, batch_dims):
        data = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
        indices = np.array([[0, 0, 4], [4, 0, 0]])
        result = gather_7(data, indices, np.array(1), batch_dims=batch_dims)
        assert result.tolist() == [[1, 1, 5], [10, 6, 6]]

    def test_two_batch_dimensions_match(self):
        data = create_numbers(2, 2, 5, start=1)
        indices = np.array([[[0, 0, 4], [4, 0, 0]], [[1, 2, 4], [4, 3, 2]]])
        result = gather_7(data, indices, np.array(2), batch_dims=2)
        assert result.tolist() == [[[1, 1, 5], [10, 6, 6]], [[12, 13, 15], [20, 19, 18]]]

    def test_axis_after_batch_dims_matches(self):
        data = create_numbers(2, 1, 5, 4, start=1)
        indices = np.array([[1, 2, 4], [4, 3, 2]])
        result = gather_7(data, indices, np.array(2), batch_dims=1)
        assert result.tolist() == [
            [[[5, 6, 7, 8], [9, 10, 11, 12], [17, 18, 19, 20]]],
            [[[37, 38, 39, 40], [33, 34, 35, 36], [29, 30, 31, 32]]],
        ]

    def test_negative_indices_count_from_the_end(self):
        assert gather_7(i64(1, 2, 3, 4, 5), i64(0, -2, -1), np.array(0)).tolist() == [1, 4, 5]

    def test_indices_out_of_range_result_in_zeros(self):
        assert gather_7(i64(1, 2, 3, 4, 5), i64(3, 10, -20), np.array(0)).tolist() == [4, 0, 0]

    def test_layer_examples_have_stated_shapes(self):
        data, indices = np.zeros((2, 64, 128), np.int8), np.zeros((2, 32, 21), np.int32)
        assert gather_7(data, indices, np.array(1), batch_dims=1).shape == (2, 32, 21, 128)
        data, indices = np.zeros((6, 12, 10, 24), np.bool_), np.zeros((15, 4, 20, 28), np.int32)
        assert gather_1(data[:, :2, :1, :1], indices, np.array(1)).shape == (6, 15, 4, 20, 28, 1, 1)


@pytest.mark.parametrize(
    ("data", "indices", "axis", "expected"),
    [
        ([[1, 2], [3, 4]], [[0, 1], [0, 0]], 0, [[1, 4], [1, 2]]),
        ([[1, 7], [4, 3]], [[1, 1, 0], [1, 0, 1]], 1, [[7, 7, 1], [3, 4, 3]]),
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 0, 1], [1, 2, 0]], 0, [[4, 2, 6], [4, 8, 3]]),
    ],
)
def test_gather_elements_matches_specification(data, indices, axis, expected):
    assert gather_elements_6(np.array(data), np.array(indices), axis=axis).tolist() == expected


@pytest.mark.parametrize(
    ("data", "indices", "batch_dims", "expected"),
    [
        (create_numbers(2, 2, start=1), [[0, 0], [1, 0]], 0, [1, 3]),
        (create_numbers(2, 2, start=1), [[1], [0]], 0, [[3, 4], [1, 2]]),
        (create_numbers(2, 2, start=1), [[[1]], [[0]]], 0, [[[3, 4]], [[1, 2]]]),
        (create_numbers(2, 2, start=1), [[1], [0]], 1, [2, 3]),
        (create_numbers(2, 3, 4, start=1), [[1], [0]], 1, [[5, 6, 7, 8], [13, 14, 15, 16]]),
        (
            create_numbers(2, 3, 4, start=1),
            [[[[1]], [[0]], [[2]]], [[[0]], [[2]], [[2]]]],
            2,
            [[[2], [5], [11]], [[13], [19], [23]]],
        ),
        (create_numbers(1, 2, 2, 4, start=1), [[[[1], [0]], [[3], [2]]]], 3, [[[2, 5], [12, 15]]]),
    ],
)
def test_gather_nd_matches_specification(data, indices, batch_dims, expected):
    result = gather_nd_8(data, np.array(indices), batch_dims=batch_dims)
    assert result.tolist() == expected
    flattened = gather_nd_5(data, np.array(indices), batch_dims=batch_dims)
    np.testing.assert_array_equal(flattened.reshape(result.shape), result)


def test_gather_nd_broadcasts_batches():
    data, indices = create_numbers(3, 1, 4), np.array([[[1], [2]]])
    expected = gather_nd_8(np.repeat(data, 2, axis=1), np.repeat(indices, 3, axis=0), batch_dims=2)
    np.testing.assert_array_equal(gather_nd_8(data, indices, batch_dims=2), expected)
    np.testing.assert_array_equal(gather_nd_5(data, indices, batch_dims=2), expected.reshape(6))
    with pytest.raises(InputError, match="cannot be broadcast"):
        gather_nd_8(data, np.zeros((2, 1, 1), int), batch_dims=1)


class TestGatherEdgeCases:
    def test_large_unsigned_index_is_out_of_range(self):
        indices = np.array([2**64 - 1, 1], np.uint64)
        assert gather_7(i64(1, 2, 3), indices, i64(0)).tolist() == [0, 2]

    def test_out_of_range_string_is_empty(self):
        data = np.array([["a", "b"], ["c", "d"]], object)
        assert gather_7(data, i64(1, 5), np.array(1)).tolist() == [["b", ""], ["d", ""]]

    def test_index_out_of_range_in_one_batch_results_in_zeros(self):
        data, indices = create_numbers(2, 2, 3, 2, start=1), np.array([[0, 7], [-1, 2]])
        result = gather_7(data, indices, np.array(2), batch_dims=1)
        assert result.shape == (2, 2, 2, 2)
        assert (result[0, :, 1] == 0).all()
        np.testing.assert_array_equal(result[1], data[1][:, [2, 2]])

    def test_empty_axis_results_in_zeros(self):
        assert gather_7(np.zeros((0, 2), np.int8), i64(0), np.array(0)).tolist() == [[0, 0]]

    @pytest.mark.parametrize(
        ("shape", "indices", "axis", "batch_dims", "message"),
        [
            ((2, 3), (2,), 2, 0, "axis 2"),
            ((2, 3), (2,), [0, 1], 0, "axis has shape"),
            ((2, 3), (2,), 0, 1, "batch_dims 1"),
            ((2, 3), (2,), 1, -2, "batch_dims -2"),
            ((2, 3), (3, 1), 1, 1, "differ"),
        ],
    )
    def test_invalid_inputs_are_reported(self, shape, indices, axis, batch_dims, message):
        with pytest.raises(InputError, match=message):
            gather_7(np.zeros(shape), np.zeros(indices, int), np.array(axis), batch_dims=batch_dims)


def trace_beams(step_ids, parent_ids, max_seq_len, end_token):
    """Compute GatherTree with the loops of the specification."""
    max_time, batches, beams = step_ids.shape
    final = np.full_like(step_ids, end_token)
    for batch in range(batches):
        for beam in range(beams):
            length = min(max_time, int(max_seq_len[batch]))
            if length < 1:
                continue
            parent = int(parent_ids[length - 1, batch, beam])
            final[length - 1, batch, beam] = step_ids[length - 1, batch, beam]
            for level in reversed(range(length - 1)):
                final[level, batch, beam] = step_ids[level, batch, parent]
                parent = int(parent_ids[level, batch, parent])
            finished = False
            for time in range(length):
                if finished:
                    final[time, batch, beam] = end_token
                elif final[time, batch, beam] == end_token:
                    finished = True
    return final


class TestGatherTree:
    @pytest.mark.parametrize(
        "dtype",
        [np.int32, np.int64, np.uint8, np.int8, np.float32, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.int4],
    )
    @pytest.mark.parametrize("shape", [(1, 1, 1), (5, 2, 3), (8, 3, 5), (4, 1, 1), (3, 4, 0), (0, 2, 3), (3, 0, 2)])
    def test_result_equals_that_of_loops(self, dtype, shape):
        rng = np.random.default_rng(7)
        max_time, batches, beams = shape
        for _ in range(3):
            step = rng.integers(0, 7, shape).astype(dtype)
            parent = rng.integers(0, max(1, beams), shape).astype(dtype)
            lengths = rng.integers(0, min(7, max_time + 2) + 1, batches).astype(dtype)
            end = np.array(rng.integers(0, 7)).astype(dtype)
            result = gather_tree_1(step, parent, lengths, end)
            assert result.dtype == step.dtype
            np.testing.assert_array_equal(result.astype(int), trace_beams(step, parent, lengths, end).astype(int))

    def test_known_values(self):
        step = [1, 4, 9, 7, 9, 1, 2, 3, 9, 2, 3, 1, 4, 2, 4, 4, 7, 4, 9, 5, 8, 4, 3, 7, 5]
        step += [2, 4, 8, 3, 1, 5, 7, 9, 4, 5, 6, 4, 2, 9, 2, 8, 8, 7, 9, 8, 3, 1, 7, 5, 9]
        step = np.array(step, np.float32).reshape(5, 1, 10)
        result = gather_tree_1(step, step, np.array([9], np.float32), np.array(9, np.float32))
        expected = np.full((5, 10), 9)
        expected[0] = [4, 4, 9, 9, 4, 9, 2, 9, 9, 9]
        expected[1] = [1, 1, 9, 9, 1, 9, 9, 9, 9, 9]
        expected[2] = [1, 1, 9, 9, 1, 9, 9, 9, 9, 9]
        np.testing.assert_array_equal(result[:, 0], expected)

    def test_length_zero_results_in_end_tokens(self):
        result = gather_tree_1(
            create_numbers(3, 2, 2), create_numbers(3, 2, 2) * 0, np.array([0, -4], np.int32), np.int32(7).reshape(())
        )
        assert (result == 7).all()

    def test_parent_out_of_range_is_reported(self):
        parent = np.zeros((4, 2, 3), np.int32)
        parent[2, 1, 0] = 3
        with pytest.raises(InputError, match=r"step 2, batch 1, beam 0 is 3, expected 0 to 2"):
            gather_tree_1(create_numbers(4, 2, 3), parent, np.array([4, 4], np.int32), np.array(0, np.int32))

    def test_parent_out_of_range_that_is_not_used_is_ignored(self):
        parent = np.zeros((4, 1, 2), np.int32)
        parent[0] = -1  # the first step has no parents
        parent[3] = 9  # after the end of the sequence
        gather_tree_1(create_numbers(4, 1, 2), parent, np.array([3], np.int32), np.array(0, np.int32))

    def test_parent_nan_is_reported(self):
        parent = np.full((2, 1, 1), np.nan, np.float32)
        with np.errstate(all="ignore"), pytest.raises(InputError, match="step 1, batch 0, beam 0"):
            gather_tree_1(parent * 0, parent, np.array([2], np.float32), np.array(0, np.float32))

    @pytest.mark.parametrize(
        ("step", "parent", "lengths", "end", "message"),
        [
            (
                (2, 3),
                (2, 3),
                (3,),
                (),
                r"and \[2, 3\], expected the same shape \[MAX_TIME, BATCH, BEAM\]",
            ),
            (
                (2, 1, 3),
                (2, 1, 2),
                (1,),
                (),
                r"parent_ids have shapes \[2, 1, 3\] and \[2, 1, 2\]",
            ),
            ((2, 1, 3), (2, 1, 3), (2,), (), r"max_seq_len has shape \[2\], expected \[1\]"),
            ((2, 1, 3), (2, 1, 3), (1,), (2,), r"end_token has shape \[2\], expected a scalar"),
        ],
    )
    def test_mismatched_shapes_are_reported(self, step, parent, lengths, end, message):
        with pytest.raises(InputError, match=message):
            gather_tree_1(*(np.zeros(s, np.int32) for s in (step, parent, lengths, end)))


#: All operations that move data, for data of shape [2, 4]. Updates and pad values are parts of the data.
MOVES = {
    "Gather": lambda x: gather_7(x, i64(1, 0, 3), np.array(1)),
    "Gather in batches": lambda x: gather_7(x, np.array([[1, 0], [3, 2]]), np.array(1), batch_dims=1),
    "GatherElements": lambda x: gather_elements_6(x, np.array([[1, 0, 0, 1]]), axis=0),
    "GatherND": lambda x: gather_nd_8(x, np.array([[1, 0], [0, 3]])),
    "ScatterUpdate": lambda x: scatter_update_3(x, i64(1), x[:, :1], np.array(1)),
    "ScatterElementsUpdate": lambda x: scatter_elements_update_3(x, np.array([[1, 0]]), x[:1, 2:], np.array(0)),
    "ScatterNDUpdate": lambda x: scatter_nd_update_4(x, np.array([[1]]), x[:1]),
    "SliceScatter": lambda x: slice_scatter_15(x, x[:1], i64(1), i64(2), i64(1)),
    "Concat": lambda x: concat_1(x, x, axis=1),
    "Split": lambda x: split_1(x, np.array(1), num_splits=2)[1],
    "VariadicSplit": lambda x: variadic_split_1(x, np.array(1), i64(1, -1))[1],
    "Slice": lambda x: slice_8(x, i64(3), i64(-9), i64(-2), i64(1)),
    "StridedSlice": lambda x: strided_slice_1(x, i64(0), i64(1), begin_mask=[0], end_mask=[0]),
    "Transpose": lambda x: transpose_1(x, i64(1, 0)),
    "Broadcast": lambda x: broadcast_3(x, i64(3, 2, 4)),
    "Tile": lambda x: tile_1(x, i64(2, 1)),
    "Pad with a value": lambda x: pad_1(x, i64(1, 0), i64(0, 1), x[0, :1], pad_mode="constant"),
    "Pad": lambda x: pad_1(x, i64(1, 1), i64(0, 1), pad_mode="reflect"),
    "Reverse": lambda x: reverse_1(x, i64(1), mode="index"),
    "ReverseSequence": lambda x: reverse_sequence_1(x, i64(3, 2)),
    "Roll": lambda x: roll_7(x, i64(3), i64(1)),
    "BatchToSpace": lambda x: batch_to_space_2(x, i64(1, 2), i64(0, 1), i64(0, 0)),
    "SpaceToBatch": lambda x: space_to_batch_2(x, i64(1, 2), i64(0, 0), i64(0, 0)),
    "DepthToSpace": lambda x: depth_to_space_1(x[..., None], mode="blocks_first", block_size=2),
    "SpaceToDepth": lambda x: space_to_depth_1(x[:, None], mode="depth_first", block_size=2),
    "ShuffleChannels": lambda x: shuffle_channels_1(x, group=2),
    "ExtractImagePatches": lambda x: extract_image_patches_3(
        x[None, None], sizes=[2, 2], strides=[1, 1], rates=[1, 1], auto_pad="valid"
    ),
    "Reshape": lambda x: reshape_1(x, i64(4, -1), special_zero=False),
    "Unsqueeze": lambda x: unsqueeze_1(x, i64(0)),
    "Squeeze": lambda x: squeeze_1(x[None]),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("element", sorted(ELEMENT_TYPES))
def test_all_types_are_moved_bit_by_bit(name, element):
    """The result has the bits of the same operation on unsigned integers."""
    dtype = ELEMENT_TYPES[element].dtype
    rng = np.random.default_rng(3)
    if element == "string":
        data = np.array([f"s{i}" for i in range(8)], object).reshape(2, 4)
        result = MOVES[name](data)
        assert result.dtype == object
        positions = MOVES[name](np.arange(8).reshape(2, 4))
        assert result.reshape(-1).tolist() == [f"s{i}" for i in positions.reshape(-1)]
        return
    bits = np.dtype(f"u{dtype.itemsize}")
    top = 2 if element == "boolean" else 1 << min(8 * dtype.itemsize, ELEMENT_TYPES[element].bits)
    raw = rng.integers(0, top - 1, (2, 4), dtype=bits, endpoint=True)
    before = raw.copy()
    result = MOVES[name](raw.view(dtype))
    assert result.dtype == dtype
    np.testing.assert_array_equal(np.ascontiguousarray(result).view(bits), MOVES[name](raw))
    np.testing.assert_array_equal(raw, before)


@pytest.mark.parametrize("element", sorted(ELEMENT_TYPES))
def test_missing_elements_are_zero_or_empty_strings(element):
    dtype = ELEMENT_TYPES[element].dtype
    zero = "" if element == "string" else np.zeros((), dtype)
    data = (
        np.array(["a", "b"], object)
        if element == "string"
        else np.ones(2, np.uint8).astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)
    )
    assert pad_1(data, i64(1), i64(0), pad_mode="constant")[0] == zero
    assert gather_7(data, i64(5, 0), np.array(0))[0] == zero


class TestStridedSlice:
    def test_masks_may_differ_in_length(self):
        result = strided_slice_1(
            create_numbers(2, 3, 4),
            i64(1, 1, 123),
            i64(0, 0, 2),
            i64(1, 1, -1),
            begin_mask=[0, 1, 1],
            end_mask=[1, 1, 1],
            new_axis_mask=[0, 0, 0, 0, 0],
            shrink_axis_mask=[0, 0],
            ellipsis_mask=[0],
        )
        np.testing.assert_array_equal(result, create_numbers(2, 3, 4)[1:, :, ::-1])

    def test_slices_without_masks_match_specification(self):
        bounds = (i64(0, 1, 0, 1, 3, 3), i64(4, 4, 4, 4, 0, 0), i64(1, 1, 2, 2, -1, -2))
        result = run_layer("StridedSlice", 1, {}, create_numbers(*[4] * 6), *bounds)
        np.testing.assert_array_equal(result, create_numbers(*[4] * 6)[0:4, 1:4, 0:4:2, 1:4:2, 3:0:-1, 3:0:-2])
        result = run_layer("StridedSlice", 1, {}, create_numbers(2, 2), i64(1234, 2), i64(1234, 4321), i64(1, -1))
        assert result.shape == (0, 0)  # as in the reference implementation; the specification says [1, 1]
        result = run_layer("StridedSlice", 1, {}, create_numbers(2, 3, 4), i64(0, 0, 0), i64(2, 2, -1), i64(1, 1, 1))
        np.testing.assert_array_equal(result, create_numbers(2, 3, 4)[:, :2, :3])

    @pytest.mark.parametrize(
        ("shape", "bounds", "masks", "expected"),
        [
            (
                (2, 4),
                (i64(1234, 0, -1, 0), i64(1234, 2, 9876, 4), i64(132, 1, 241, 1)),
                ("0,0,0,0", "0,0,0,0", "1,0,1,0", "0,0,0,0", "0,0,0,0"),
                (1, 2, 1, 4),
            ),
            (
                (1, 2, 384, 640, 8),
                (i64(0, 0, 0, 0, 0), i64(1, 0, 384, 640, 8), i64(1, 1, 1, 1, 1)),
                ("0,0,0,0,0", "0,0,0,0,0", "0,0,0,0,0", "0,1,0,0,0", "0,0,0,0,0"),
                (1, 384, 640, 8),
            ),
            (
                (10,) * 12,
                (i64(0, 0, 0), i64(4, 0, 5), i64(1, -1, 1)),
                ("0,0,0", "0,0,0", "0,0,0", "0,0,0", "0,1,0"),
                (4, *(10,) * 10, 5),
            ),
            (
                (10,) * 10,
                (i64(2, 1, 10, 10), i64(123, 1, 10, 5), i64(1, -1, 1, 1)),
                ("0,0,1,1", "1,1,0,0", "0,0,1", "0", "0,1"),
                (8, *(10,) * 8, 1, 5),
            ),
        ],
    )
    def test_slices_with_masks_match_specification(self, shape, bounds, masks, expected):
        names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
        result = run_layer("StridedSlice", 1, dict(zip(names, masks, strict=True)), create_data(*shape), *bounds)
        assert result.shape == expected

    def test_ellipsis_may_stand_for_no_axes(self):
        masks = {"begin_mask": [0, 0, 0], "end_mask": [0, 0, 0], "ellipsis_mask": [0, 1, 0]}
        result = strided_slice_1(create_numbers(2, 3), i64(0, 0, 1), i64(1, 0, 3), **masks)
        assert result.tolist() == [[1, 2]]

    @pytest.mark.parametrize(
        ("arguments", "masks"),
        [
            ((i64(0, 0, 0), i64(1, 1, 1)), {}),
            ((i64(0), i64(1, 1)), {}),
            ((i64(0), i64(1), i64(0)), {}),
            ((i64(2), i64(3)), {"shrink_axis_mask": [1]}),
            ((i64(0, 0), i64(1, 1)), {"ellipsis_mask": [1, 1]}),
        ],
    )
    def test_invalid_inputs_are_reported(self, arguments, masks):
        with pytest.raises(InputError):
            strided_slice_1(create_numbers(2, 3), *arguments, begin_mask=[], end_mask=[], **masks)


class TestPad:
    data = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("constant", [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [2, 3, 4, 0, 0, 0], [6, 7, 8, 0, 0, 0]]),
            ("edge", [[2, 3, 4, 4, 4, 4], [2, 3, 4, 4, 4, 4], [2, 3, 4, 4, 4, 4], [6, 7, 8, 8, 8, 8]]),
            ("reflect", [[10, 11, 12, 11, 10, 9], [6, 7, 8, 7, 6, 5], [2, 3, 4, 3, 2, 1], [6, 7, 8, 7, 6, 5]]),
            ("symmetric", [[6, 7, 8, 8, 7, 6], [2, 3, 4, 4, 3, 2], [2, 3, 4, 4, 3, 2], [6, 7, 8, 8, 7, 6]]),
        ],
    )
    def test_positive_and_negative_pads_can_be_mixed(self, mode, expected):
        assert pad_1(self.data, i64(2, -1), i64(-1, 3), pad_mode=mode).tolist() == expected

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            (
                "constant",
                [[0, 1, 2, 3, 4, 0, 0, 0], [0, 5, 6, 7, 8, 0, 0, 0], [0, 9, 10, 11, 12, 0, 0, 0]] + [[0] * 8] * 2,
            ),
            ("edge", [[1, 1, 2, 3, 4, 4, 4, 4], [5, 5, 6, 7, 8, 8, 8, 8]] + [[9, 9, 10, 11, 12, 12, 12, 12]] * 3),
            (
                "reflect",
                [
                    *([2, 1, 2, 3, 4, 3, 2, 1], [6, 5, 6, 7, 8, 7, 6, 5], [10, 9, 10, 11, 12, 11, 10, 9]),
                    *([6, 5, 6, 7, 8, 7, 6, 5], [2, 1, 2, 3, 4, 3, 2, 1]),
                ],
            ),
            (
                "symmetric",
                [
                    *([1, 1, 2, 3, 4, 4, 3, 2], [5, 5, 6, 7, 8, 8, 7, 6], [9, 9, 10, 11, 12, 12, 11, 10]),
                    *([9, 9, 10, 11, 12, 12, 11, 10], [5, 5, 6, 7, 8, 8, 7, 6]),
                ],
            ),
        ],
    )
    def test_examples_of_specification(self, mode, expected):
        assert run_layer("Pad", 1, {"pad_mode": mode}, self.data, i64(0, 1), i64(2, 3)).tolist() == expected
        assert run_layer("Pad", 12, {"pad_mode": mode}, self.data, i64(-1, -1), i64(-1, -1)).tolist() == [[6, 7]]

    def test_crop_may_exceed_the_data(self):
        assert pad_1(self.data, i64(-4, 0), i64(0, 0), pad_mode="constant").shape == (0, 4)
        assert pad_1(i64(1, 2, 3), i64(-4), i64(3), i64(7)[0].reshape(()), pad_mode="constant").tolist() == [7, 7]
        assert pad_1(i64(1, 2, 3), i64(-4), i64(3), pad_mode="edge").tolist() == [3, 3]

    @pytest.mark.parametrize(("mode", "limit"), [("reflect", 3), ("symmetric", 4)])
    def test_pads_above_the_limit_are_reported(self, mode, limit):
        pad_1(self.data, i64(0, limit), i64(0, 0), pad_mode=mode)
        with pytest.raises(InputError, match=mode):
            pad_1(self.data, i64(0, limit + 1), i64(0, 0), pad_mode=mode)
        with pytest.raises(InputError, match="rank"):
            pad_1(self.data, i64(0), i64(0), pad_mode=mode)


class TestBroadcast:
    def test_pdpd_starts_at_axis(self):
        data = create_numbers(3, 1)
        result = broadcast_1(data, i64(2, 3, 4), mode="pdpd", axis=1)
        np.testing.assert_array_equal(result, np.broadcast_to(data, (2, 3, 4)))
        result = broadcast_1(create_numbers(2), i64(2, 3), mode="pdpd")
        assert result.tolist() == [[0, 0, 0], [1, 1, 1]]

    @pytest.mark.parametrize(
        ("shape", "target", "axes", "mode"),
        [
            ((3,), [2], None, "numpy"),
            ((2, 3), [3], None, "numpy"),
            ((3,), [2], None, "bidirectional"),
            ((3, 2), [2, 3], [1, 0], "explicit"),
            ((3,), [2, 3], [2], "explicit"),
            ((3,), [2, 3], None, "explicit"),
            ((3,), [-1], None, "numpy"),
        ],
    )
    def test_mismatched_shapes_are_reported(self, shape, target, axes, mode):
        with pytest.raises(InputError):
            broadcast_3(np.zeros(shape), i64(*target), None if axes is None else i64(*axes), mode=mode)


class TestScatter:
    def test_scatter_elements_matches_specification(self):
        data, indices, updates = i64(2, 3, 4, 6), i64(1, 0, 0, -2, -1, 2), i64(10, 20, 30, 40, 70, 60)
        scatter = scatter_elements_update_3
        assert scatter(data, indices, updates, i64(0), reduction="sum").tolist() == [52, 13, 104, 76]
        result = scatter(data, indices, updates, i64(0), reduction="sum", use_init_val=False)
        assert result.tolist() == [50, 10, 100, 70]
        result = scatter(
            np.full((3, 4), 2), np.array([[1, 1], [0, 3]]), np.array([[11, 12], [13, 14]]), i64(1), reduction="prod"
        )
        assert result.tolist() == [[2, 264, 2, 2], [26, 2, 2, 28], [2, 2, 2, 2]]

        result = scatter(np.zeros((3, 4), int), np.array([[1, 2], [0, 3]]), np.array([[11, 12], [13, 14]]), i64(1))
        assert result.tolist() == [[0, 11, 12, 0], [13, 0, 0, 14], [0, 0, 0, 0]]
        result = scatter(
            np.ones((3, 4), int), np.array([[1, 1], [0, 3]]), np.array([[11, 12], [13, 14]]), i64(1), reduction="sum"
        )
        assert result.tolist() == [[1, 24, 1, 1], [14, 1, 1, 15], [1, 1, 1, 1]]

    def test_scatter_update_matches_specification(self):
        data = np.array([[-1, 1, -1, 3, 4], [-1, 6, -1, 8, 9], [-1, 11, 1, 13, 14]], np.float32)
        updates = np.array([[1, 1], [1, 1], [1, 2]], np.float32)
        result = scatter_update_3(data, i64(0, 2), updates, i64(1))
        assert result.tolist() == [[1, 1, 1, 3, 4], [1, 6, 1, 8, 9], [1, 11, 2, 13, 14]]

    def test_scatter_nd_matches_specification(self):
        result = scatter_nd_update_4(create_numbers(8, start=1), i64(4, 3, 1, 7)[:, None], create_numbers(4, start=9))
        assert result.tolist() == [1, 11, 3, 10, 9, 6, 7, 12]
        result = scatter_nd_update_4(
            create_numbers(8, start=1), i64(4, 3, 1, 7, -2, -4)[:, None], create_numbers(6, start=9)
        )
        assert result.tolist() == [
            1,
            11,
            3,
            10,
            14,
            6,
            13,
            12,
        ]  # the specification has 4 in place of 14, the last of two updates
        data, updates = create_numbers(4, 4, 4), -create_numbers(2, 4, 4)
        result = scatter_nd_update_4(data, np.array([[0], [2]]), updates)
        np.testing.assert_array_equal(result, np.stack([updates[0], data[1], updates[1], data[3]]))

    def test_shape_of_updates_is_checked(self):
        data = create_numbers(3, 4)
        for call in (
            lambda: scatter_update_3(data, i64(0, 1), create_numbers(4, 2), np.array(0)),
            lambda: scatter_nd_update_4(data, np.array([[0], [1]]), create_numbers(4, 2)),
        ):
            with pytest.raises(InputError, match=r"updates has shape \[4, 2\], expected \[2, 4\]"):
                call()
        assert scatter_nd_update_4(create_numbers(4), i64(2), create_numbers(1, start=9)).tolist() == [0, 1, 9, 3]

    @pytest.mark.parametrize(
        ("reduction", "expected"),
        [
            ("none", [50, 40, 20, 4]),
            ("sum", [61, 72, 23, 4]),
            ("sub", [-59, -68, -17, 4]),
            ("prod", [500, 2 * 30 * 40, 60, 4]),
            ("max", [50, 40, 20, 4]),
            ("min", [1, 2, 3, 4]),
        ],
    )
    def test_scatter_nd_reduces_updates(self, reduction, expected):
        indices = np.array([[0], [2], [-3], [-3], [0]])
        result = scatter_nd_update_4(i64(1, 2, 3, 4), indices, i64(10, 20, 30, 40, 50), reduction=reduction)
        assert result.tolist() == expected

    @pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.bfloat16, np.float16])
    def test_sums_of_narrow_types_are_computed_in_wide_types(self, dtype):
        updates = np.array([1, 2, 3, 1]).astype(dtype)
        result = scatter_nd_update_4(np.zeros(2, dtype), np.array([[0], [0], [1], [0]]), updates, reduction="sum")
        assert result.dtype == dtype
        assert result.astype(int).tolist() == [4, 3]

    def test_mean_of_negative_integers_is_rounded_down(self):
        result = scatter_elements_update_3(i64(-2), i64(0), i64(-5), np.array(0), reduction="mean")
        assert result.tolist() == [-4]

    def test_invalid_inputs_are_reported(self):
        data = create_numbers(2, 3)
        with pytest.raises(InputError, match="index 3"):
            scatter_elements_update_3(data, np.array([[3]]), np.array([[1]], np.int32), np.array(1))
        with pytest.raises(InputError, match="index -3"):
            scatter_nd_update_4(data, np.array([[-3]]), data[:1])
        with pytest.raises(InputError, match="index -1"):
            scatter_update_3(data, i64(-1), data[:1], np.array(0))
        with pytest.raises(InputError, match="undefined for bool"):
            scatter_elements_update_3(data > 1, i64(0, 0, 0)[None], data[:1] > 1, np.array(0), reduction="mean")
        with pytest.raises(InputError, match=r"updates has shape \[1, 2\], expected \[1, 3\]"):
            slice_scatter_15(data, data[:1, :2], i64(0), i64(1), i64(1))
        with pytest.raises(InputError, match=r"expected at most \[2, 3\]"):
            scatter_elements_update_3(data, np.zeros((3, 3), int), create_numbers(3, 3), np.array(1))


class TestUnique:
    @pytest.mark.parametrize(
        ("attributes", "axis", "types"),
        [
            ({"sorted": "false", "index_element_type": "i32"}, i64(0), (np.int32, np.int64)),
            ({}, None, (np.int64, np.int64)),
            (
                {"sorted": "false", "index_element_type": "i32", "count_element_type": "i32"},
                None,
                (np.int32, np.int32),
            ),
        ],
    )
    def test_layer_of_specification_has_stated_shapes(self, attributes, axis, types):
        values, *rest = run_layer("Unique", 10, attributes, create_numbers(3, 3) % 4, axis)
        assert values.shape == ((3, 3) if axis is not None else (4,))
        assert [x.dtype for x in rest] == [types[0], types[0], types[1]]
        assert rest[1].shape == ((3,) if axis is not None else (9,))

    def test_unsorted_elements_are_in_order_of_occurrence(self):
        values, first, inverse, counts = unique_10(i64(3, 1, 3, 2, 1), sorted=False)
        assert [x.tolist() for x in (values, first, inverse, counts)] == [
            [3, 1, 2],
            [0, 1, 3],
            [0, 1, 0, 2, 1],
            [2, 2, 1],
        ]

    def test_strings_and_narrow_types_are_sorted(self):
        assert unique_10(np.array(["b", "a", "b"], object))[0].tolist() == ["a", "b"]
        assert unique_10(np.array([2, -3, 2]).astype(ml_dtypes.int4))[0].astype(int).tolist() == [-3, 2]
        assert unique_10(np.array([2, -3, 2]).astype(ml_dtypes.bfloat16))[0].astype(int).tolist() == [-3, 2]

    @pytest.mark.parametrize("length", [256, 257, 1000, 70000])
    def test_long_slices_are_compared_from_their_first_element_on(self, length):
        rng = np.random.default_rng(length)
        slices = rng.integers(0, 2, (1, length)).repeat(7, axis=0)
        for row in range(5):  # others are equal to the first
            slices[row, rng.integers(0, length, 3)] ^= 1
        slices = slices[[5, 3, 0, 6, 1, 2, 0, 4]]
        values, first, inverse, counts = unique_10(slices.T, i64(1))
        expected = sorted(set(map(tuple, slices.tolist())))
        assert values.T.tolist() == list(map(list, expected))
        assert slices[first].tolist() == values.T.tolist()
        assert values.T[inverse].tolist() == slices.tolist()
        assert all(row not in slices[:n].tolist() for n, row in zip(first, slices[first].tolist(), strict=True))
        assert counts.tolist() == np.bincount(inverse).tolist()

    def test_empty_data_has_no_unique_elements(self):
        assert [x.shape for x in unique_10(np.zeros((0, 2)))] == [(0,)] * 4
        assert [x.shape for x in unique_10(np.zeros((0, 2)), np.array(0))] == [(0, 2), (0,), (0,), (0,)]


def test_gather_nd_5_flattens_batch_dimensions():
    data, indices = create_numbers(2, 3, 4), np.zeros((2, 3, 1), int)
    assert gather_nd_5(data, indices, batch_dims=2).shape == (6,)
    assert gather_nd_5(data, indices, batch_dims=1).shape == (2, 3, 4)


def test_gather_nd_without_coordinates_takes_all_data():
    assert gather_nd_8(create_numbers(2, 3), np.zeros((2, 0), int)).shape == (2, 2, 3)


def test_backward_slice_before_first_element_starts_there():
    assert slice_8(i64(1, 2, 3), i64(-9), i64(-20), i64(-1)).tolist() == [1]
    assert slice_8(i64(1, 2, 3), i64(-9), i64(0), i64(-1)).tolist() == []


def test_roll_accepts_shifts_above_i64():
    shifts = i64(2**62, 2**62, 1)
    assert roll_7(i64(1, 2, 3), shifts, i64(0, 0, 0)).tolist() == np.roll([1, 2, 3], (2**63 + 1) % 3).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: concat_1(create_numbers(2, 3), create_numbers(3, 3), axis=1),
        lambda: concat_1(create_numbers(2), create_numbers(2).astype(np.int64), axis=0),
        lambda: split_1(create_numbers(5), np.array(0), num_splits=2),
        lambda: variadic_split_1(create_numbers(5), np.array(0), i64(2, 2)),
        lambda: variadic_split_1(create_numbers(5), np.array(0), i64(-1, -1)),
        lambda: variadic_split_1(create_numbers(5), np.array(0), i64(6, -1)),
        lambda: transpose_1(create_numbers(2, 3), i64(0, 0)),
        lambda: transpose_1(create_numbers(2, 3), i64(0)),
        lambda: slice_8(create_numbers(4), i64(0), i64(1), i64(0)),
        lambda: slice_8(create_numbers(4), i64(0), i64(1), i64(1, 1)),
        lambda: reverse_1(create_numbers(2, 3), np.array([True]), mode="mask"),
        lambda: reverse_sequence_1(create_numbers(2, 3), i64(1, 4)),
        lambda: reverse_sequence_1(create_numbers(2, 3), i64(1)),
        lambda: roll_7(create_numbers(2, 3), i64(1, 2, 3), i64(0, 1)),
        lambda: depth_to_space_1(create_numbers(1, 3, 2, 2), mode="depth_first", block_size=2),
        lambda: space_to_depth_1(create_numbers(1, 3, 3, 2), mode="depth_first", block_size=2),
        lambda: shuffle_channels_1(create_numbers(1, 3), group=2),
        lambda: batch_to_space_2(create_numbers(3, 2), i64(1, 2), i64(0, 0), i64(0, 0)),
        lambda: batch_to_space_2(create_numbers(2, 2), i64(1, 2), i64(0, 3), i64(0, 3)),
        lambda: space_to_batch_2(create_numbers(2, 3), i64(1, 2), i64(0, 0), i64(0, 0)),
        lambda: gather_elements_6(create_numbers(2, 3), np.array([[3]]), axis=1),
        lambda: gather_nd_8(create_numbers(2, 3), np.array([[2, 0]])),
        lambda: gather_nd_8(create_numbers(2, 3), np.zeros((2, 3), int)),
        lambda: col2im_15(np.zeros((4, 8)), i64(4, 4), i64(2, 2)),
        lambda: col2im_15(np.zeros((4, 9)), i64(4, 4), i64(2, 2), strides=[0, 1]),
        lambda: col2im_15(np.zeros((4, 9)), i64(4, 4), i64(2, 2), strides=[1]),
        lambda: col2im_15(np.zeros((4, 16)), i64(4, 4), i64(2, 2), dilations=[0, 0]),
        lambda: col2im_15(np.zeros((4, 6)), i64(4, 4), i64(2, 2), pads_begin=[-1, 0]),
        lambda: extract_image_patches_3(
            create_numbers(2, 3), sizes=[1, 1], strides=[1, 1], rates=[1, 1], auto_pad="valid"
        ),
    ],
)
def test_invalid_inputs_are_reported(call):
    with pytest.raises(InputError):
        call()


def test_broadcast_aligns_data_at_an_axis_where_it_fits() -> None:
    data, target = np.arange(6).reshape(2, 3), np.array([4, 2, 3, 5])
    result = broadcast_3(data, target, mode="pdpd", axis=1)
    np.testing.assert_array_equal(result, np.broadcast_to(data[None, :, :, None], target))
    for axis in (3, 4, -2):
        with pytest.raises(InputError, match=r"data of shape \[2, 3\] does not broadcast to \[4, 2, 3, 5\]"):
            broadcast_3(data, target, mode="pdpd", axis=axis)
    with pytest.raises(InputError, match="does not broadcast"):
        broadcast_3(data, np.array([3]), mode="pdpd", axis=-1)


@pytest.mark.parametrize("kernel", [batch_to_space_2, space_to_batch_2])
@pytest.mark.parametrize(
    ("rank", "lengths"), [(1, (1, 1, 1)), (2, (1, 2, 2)), (2, (2, 1, 2)), (2, (2, 2, 3)), (0, (0, 0, 0))]
)
def test_blocks_have_one_number_for_each_axis(kernel, rank, lengths) -> None:
    block, begin, end = (np.full(n, value) for n, value in zip(lengths, (1, 0, 0), strict=True))
    with pytest.raises(InputError, match="expected one for each axis of data"):
        kernel(np.zeros([2] * rank, np.float32), block, begin, end)
