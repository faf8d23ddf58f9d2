"""Specialized data movement and shape operations against the plain kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fast.harness import check, find_operation, is_specialized, make_programs, make_values
from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.limits import limit_allocations

TYPES = [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4, "O"]


def make_data(shape, dtype=np.float32, seed=0):
    if dtype == "O":
        return np.array([f"text {i}" for i in range(int(np.prod(shape)))], object).reshape(shape)
    return make_values(shape, np.int8, seed).astype(dtype)


def ints(*values, dtype=np.int64):
    return np.array(values, dtype)


SLICES = [
    ([1], [3], [1], None),
    ([0, 1], [4, -1], [1, 1], None),
    ([-2], [100], [1], [-1]),
    ([3], [0], [-1], [0]),
    ([-1], [-100], [-1], [1]),
    ([-100], [5], [2], [1]),
    ([-100], [-200], [-1], [1]),
    ([0, 0], [2, 2], [1, 1], [1, -1]),
    ([0, 0], [2, 2], [1, 1], [1, 1]),
    ([0], [1], [0], [0]),
    ([5], [2], [1], [0]),
    ([0], [2], [1], [7]),
    ([], [], [], None),
]


@pytest.mark.parametrize("parameters", SLICES, ids=str)
def test_slice_equals_plain_kernel(parameters):
    inputs = [None if v is None else ints(*v) for v in parameters]
    present = [i + 1 for i, v in enumerate(inputs) if v is not None]
    for shape in ((4, 5), (4, 5, 6), (1, 1), (0, 3), (7,)):
        for dtype in TYPES:
            data = make_data(shape, dtype)
            repeat = [[make_data((4, 3, 2), dtype), *inputs], [make_data((2, 9), dtype), *inputs]]
            check("Slice-8", [data, *inputs], constants=present, repeat=repeat)
            check("Slice-8", [data, *inputs], constants=present[1:])
            check("Slice-8", [data, *inputs])


STRIDED = [
    ([0, 1], [0, 3], [1, 1], {"begin_mask": [1, 0], "end_mask": [1, 0]}),
    ([0, 1], [0, 3], None, {"begin_mask": [1, 0], "end_mask": [1, 0]}),
    ([1], [2], [1], {"shrink_axis_mask": [1]}),
    ([-1, 0], [0, 0], [1, 1], {"shrink_axis_mask": [1], "end_mask": [0, 1]}),
    ([9], [0], [1], {"shrink_axis_mask": [1]}),
    ([0, 1], [0, 2], [1, 1], {"ellipsis_mask": [1]}),
    ([0, 1, 1], [0, 2, 2], [1, 1, 1], {"ellipsis_mask": [0, 1], "shrink_axis_mask": [1, 0, 1]}),
    ([0, 0], [0, 0], [1, 1], {"new_axis_mask": [1, 0], "begin_mask": [0, 1], "end_mask": [0, 1]}),
    ([-1], [0], [-1], {"end_mask": [1]}),
    ([-3], [0], [-1], {"end_mask": [1]}),
    ([-100], [0], [-1], {"end_mask": [1]}),
    ([5, 5], [0, -100], [-2, -1], {}),
    ([0], [0], [0], {}),
    ([0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], {}),
    ([0, 0], [0, 0], [1, 1], {"ellipsis_mask": [1, 1]}),
    ([0, 0], [0, 0], [1, 1], {"shrink_axis_mask": [1, 1]}),
    ([], [], [], {}),
]


@pytest.mark.parametrize("parameters", STRIDED, ids=str)
def test_strided_slice_equals_plain_kernel(parameters):
    *bounds, attributes = parameters
    inputs = [None if v is None else ints(*v) for v in bounds]
    present = [i + 1 for i, v in enumerate(inputs) if v is not None]
    for shape in ((4, 5), (4, 5, 6), (1, 1), (0, 3), (7,), ()):
        for dtype in TYPES[:-1]:
            data = make_data(shape, dtype)
            repeat = [[make_data((4, 3, 2), dtype), *inputs], [make_data((2, 9), dtype), *inputs]]
            check("StridedSlice-1", [data, *inputs], attributes, constants=present, repeat=repeat)
            check("StridedSlice-1", [data, *inputs], attributes, constants=present[1:])
            check("StridedSlice-1", [data, *inputs], attributes)


def has_index_outside(data, indices, axis):
    """Return whether an index is out of range: `take` raises an exception, the plain kernel returns zeros."""
    axis = np.asarray(axis).item()
    if not -data.ndim <= axis < data.ndim:
        return False
    size = data.shape[axis]
    return bool(((indices < -size) | (indices >= size)).any())


def test_element_of_a_list_of_texts_is_an_array():
    attributes = {"begin_mask": [0], "end_mask": [0], "shrink_axis_mask": [1]}
    inputs = [np.array(["first", "second"], object), ints(1), ints(2), ints(1)]
    check("StridedSlice-1", inputs, attributes, constants=(1, 2, 3))


INDICES = [2, -1, 0, 3, 7, [0], [1, 2], [0, 2], [2, 1, 0], [-1], [-2, -1], [1, 1], [3, 9], [[0, 1], [2, -3]], [], [-9]]
INDICES += [[0, 1, 2, 3], [0, 1, 3], [[1, 2]], [-1, 0], [-2]]


@pytest.mark.parametrize("indices", INDICES, ids=str)
def test_gather_equals_plain_kernel(indices):
    for dtype in TYPES[:-1]:
        is_f32 = dtype == np.float32  # other types only differ in the size of their elements
        for shape in ((4, 5), (5, 4, 6), (3,), (0, 4), (2, 0)) if is_f32 else ((4, 5), (5, 4, 6), (3,)):
            data = make_data(shape, dtype)
            for axis in (0, 1, -1, [0], 3) if is_f32 else (0, 1):
                for index_type in (np.int64, np.int32) if dtype == np.float32 else (np.int64,):
                    inputs = [data, np.array(indices, index_type), np.array(axis)]
                    for constants in ((1, 2), (2,), (), (0, 2)):
                        check("Gather-8", inputs, constants=constants, falls_back=has_index_outside(*inputs))
    inputs = [make_data((4, 5)), np.abs(np.array(indices)).astype(np.uint64), np.array(1)]
    check("Gather-8", inputs, constants=(2,))
    check("Gather-1", inputs, constants=(1, 2), falls_back=has_index_outside(*inputs))


@pytest.mark.parametrize("batch_dims", [0, 1])
def test_large_results_of_gather_are_checked_before_they_are_allocated(batch_dims):
    data, indices = np.zeros((1, 2, 1 << 16), np.float32), np.zeros((1, 1 << 10), np.int64)
    inputs = [data, indices, np.array(1)]
    _, fast = make_programs(find_operation("Gather-8"), inputs, {"batch_dims": batch_dims}, (2,), 1)
    kernel = fast.instructions[0].kernel
    with limit_allocations(1 << 26), pytest.raises(InputError, match="the result would take"):
        kernel(data, indices)


def test_gather_with_batch_dims_equals_plain_kernel():
    inputs = [make_data((2, 5, 3)), ints([1, 2], [0, 4]), np.array(1)]
    for constants in ((1, 2), (2,), (0, 2)):
        check("Gather-7", inputs, {"batch_dims": 1}, constants=constants)


@pytest.mark.parametrize("order", [[1, 0], [0, 1], [], [-1, 0], [1, 1], [0, 2, 1], [5, 0], [2, 1, 0]], ids=str)
def test_transpose_equals_plain_kernel(order):
    for shape in ((4, 5), (2, 3, 4), (0, 3), (7,), ()):
        for dtype in TYPES:
            for constants in ((1,), ()):
                check("Transpose-1", [make_data(shape, dtype), ints(*order)], constants=constants)


@pytest.mark.parametrize("axis", [0, 1, -1, 2, -3])
def test_concat_equals_plain_kernel(axis):
    shapes = [[(2, 3), (2, 3)], [(2, 3), (2, 5)], [(2, 3), (4, 3), (1, 3)], [(2, 3)], [(0, 3), (2, 3)], [(2,), (2, 3)]]
    for group in shapes:
        for dtype in TYPES:
            inputs = [make_data(shape, dtype, i) for i, shape in enumerate(group)]
            for constants in ((), (0,), tuple(range(1, len(group)))):
                if len(constants) < len(group):
                    check("Concat-1", inputs, {"axis": axis}, constants=constants)
    mixed = [make_data((2, 3)), make_data((2, 3), np.int64), make_data((2, 3))]
    for constants in ((), (0,), (1,), (0, 2), (0, 1)):
        check("Concat-1", mixed, {"axis": axis}, constants=constants)
    check("Concat-1", mixed[:2], {"axis": axis})


@pytest.mark.parametrize("axis", [0, 1, -1, -2, 5])
def test_split_equals_plain_kernel(axis):
    for shape in ((4, 6), (6, 4, 2), (0, 6), (6,)):
        for dtype in TYPES:
            data = make_data(shape, dtype)
            for constants in ((1,), ()):
                for count in (1, 2, 3, 5):
                    inputs = [data, np.array(axis)]
                    repeat = [[make_data((12, 6), dtype), inputs[1]], [make_data((6, 6, 6), dtype), inputs[1]]]
                    attributes = {"num_splits": count}
                    check("Split-1", inputs, attributes, constants=constants, outputs=count, repeat=repeat)


@pytest.mark.parametrize("lengths", [[2, 2], [1, -1], [-1, 2, 0], [6], [3, 9], [-1, -1], [4]], ids=str)
def test_variadic_split_equals_plain_kernel(lengths):
    for shape in ((4, 6), (6, 4, 2), (0, 6), (6,)):
        for axis in (0, 1, -1):
            for constants in ((1, 2), (1,), ()):
                inputs = [make_data(shape), np.array([axis]), ints(*lengths)]
                repeat = [[make_data((12, 6)), *inputs[1:]], [make_data((6, 6, 6)), *inputs[1:]]]
                check("VariadicSplit-1", inputs, constants=constants, outputs=len(lengths), repeat=repeat)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad_equals_plain_kernel(mode):
    for begins, ends in (([1, 0], [0, 2]), ([0, 0], [0, 0]), ([-1, 2], [1, -1]), ([1], [1]), ([1, 1, 1], [0, 0, 0])):
        for dtype in TYPES:
            for value in (None, 0, 3, -0.0):
                data = make_data((3, 4), dtype)
                pad_value = None
                if value is not None and mode == "constant" and dtype != "O":
                    pad_value = np.array(value, np.float32).astype(dtype)
                inputs = [data, ints(*begins), ints(*ends), pad_value]
                repeat = [[make_data((2, 5), dtype), *inputs[1:]], [make_data((2, 2, 2), dtype), *inputs[1:]]]
                constants = [1, 2] if pad_value is None else [1, 2, 3]
                check("Pad-12", inputs, {"pad_mode": mode}, constants=constants, repeat=repeat)
                check("Pad-1", inputs, {"pad_mode": mode})


PATTERNS = [
    [-1],
    [4, 6],
    [0, -1],
    [0, 0],
    [-1, 4],
    [2, 0],
    [0, 2, -1],
    [-1, -1],
    [24],
    [5, 5],
    [0],
    [1, 24, 1],
    [-2, 12],
]


@pytest.mark.parametrize("pattern", [*PATTERNS, []], ids=str)
@pytest.mark.parametrize("special_zero", [False, True])
def test_reshape_equals_plain_kernel(pattern, special_zero):
    for shape in ((4, 6), (2, 3, 4), (24,), (0, 4), (4, 0), (1,), ()):
        for dtype in (np.float32, "O"):
            data = make_data(shape, dtype)
            for constants in ((1,), ()):
                inputs = [data, np.array(pattern, np.int64)]
                repeat = [[make_data((2, 12), dtype), inputs[1]], [make_data((24, 1), dtype), inputs[1]]]
                check("Reshape-1", inputs, {"special_zero": special_zero}, constants=constants, repeat=repeat)
    check("Reshape-1", [make_data((4, 6)).T, np.array(pattern)], {"special_zero": special_zero}, constants=(1,))
    check("Reshape-1", [make_data((1, 1)), np.array(1)], {"special_zero": special_zero}, constants=(1,))
    check("Reshape-1", [make_data((1, 1)), np.array(1)], {"special_zero": special_zero})


@pytest.mark.parametrize("name", ["Squeeze-1", "Squeeze-15", "Unsqueeze-1"])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], [], [1], [5], [0, 0], [0, -4]], ids=str)
def test_squeeze_and_unsqueeze_equal_plain_kernel(name, axes):
    for shape in ((1, 3, 1), (3, 4), (1,), (), (0, 1)):
        inputs = [make_data(shape), ints(*axes)]
        repeat = [[make_data((1, 2, 3)), inputs[1]], [make_data((1, 1, 1, 1)), inputs[1]]]
        check(name, inputs, constants=(1,), repeat=repeat)
        check(name, inputs)
        if name != "Unsqueeze-1":
            check(name, [inputs[0]], repeat=[[x[0]] for x in repeat])


@pytest.mark.parametrize("mode", ["numpy", "bidirectional", "explicit"])
def test_broadcast_equals_plain_kernel(mode):
    for target in ([2, 3], [4, 2, 3], [1], [], [3, 3], [2, 0], [-1, 3], [300, 200, 2, 3]):
        for shape in ((2, 3), (1, 3), (), (3,), (1, 1, 1)):
            for dtype in TYPES:
                if len(target) == 4 and dtype not in (np.float32, ml_dtypes.int4):
                    continue  # the large result, once for each way in which elements are copied
                inputs = [make_data(shape, dtype), ints(*target)]
                repeat = [[make_data((3,), dtype), inputs[1]], [make_data((1, 1), dtype), inputs[1]]]
                attributes = {"mode": mode}
                check("Broadcast-3", inputs, attributes, constants=(1,), repeat=repeat)
                check("Broadcast-3", inputs, attributes)
                check("Broadcast-3", inputs, attributes, constants=(0,))


@pytest.mark.parametrize("repeats", [[2], [1, 1], [2, 3], [0, 2], [1, 2, 1], [-1], [], [2, 1, 1, 2]], ids=str)
def test_tile_equals_plain_kernel(repeats):
    for shape in ((2, 3), (), (3,), (0, 2), (2, 1, 2)):
        for dtype in TYPES:
            inputs = [make_data(shape, dtype), ints(*repeats)]
            repeat = [[make_data((3, 1), dtype), inputs[1]], [make_data((2,), dtype), inputs[1]]]
            check("Tile-1", inputs, constants=(1,), repeat=repeat)
            check("Tile-1", inputs)


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (5, 0, -2), (0, 5, 0), (3, 3, 1), (0, 7, 3), (0, -7, 3), (2**31 - 3, 2**31 + 3, 1)]
)
def test_range_equals_plain_kernel(bounds):
    for dtype in (np.int64, np.int32, np.float32):
        if max(bounds) > 2**31 and dtype == np.int32:
            continue
        for shape in ((), (1,)):
            inputs = [np.full(shape, v, dtype) for v in bounds]
            for constants in ((), (0,), (2,), (0, 2), (1, 2)):
                check("Range-1", inputs, constants=constants)
                for output_type in ("i32", "i64", "f32", "u8"):
                    attributes = {"output_type": ELEMENT_TYPES[output_type]}
                    check("Range-4", inputs, attributes, constants=constants)


def test_shape_of_equals_plain_kernel():
    for shape in ((2, 3), (), (0,)):
        repeat = [[make_data((4, 5, 6))], [make_data((2, 3))]]
        check("ShapeOf-1", [make_data(shape)], repeat=repeat)
        for name in ("i32", "i64"):
            check("ShapeOf-3", [make_data(shape)], {"output_type": ELEMENT_TYPES[name]}, repeat=repeat)


def test_constant_arguments_are_specialized():
    x = make_data((4, 5))
    assert is_specialized("Gather-8", [x, np.array(1), np.array(0)], (1, 2))
    assert not is_specialized("Gather-8", [x, np.array(1), np.array(0)])
    assert is_specialized("Slice-8", [x, ints(1), ints(2), ints(1)], (1, 2, 3))
    assert not is_specialized("Slice-8", [x, ints(1), ints(2), ints(1)], (1, 2))


@pytest.mark.parametrize(
    ("data_shape", "index_shape", "batch_dims", "axis"),
    [((3, 5), (3, 4), 1, 1), ((3, 5, 2), (3, 4), 1, 1), ((2, 3, 5, 2), (2, 3), 2, 2), ((2, 3, 5), (2, 3, 1, 2), 2, 2)],
)
@pytest.mark.parametrize("limit", [0, 2])
def test_gather_by_batches_agrees_with_plain_kernel(data_shape, index_shape, batch_dims, axis, limit):
    """Negative indices count from the end, and `limit` adds indices out of range."""
    data = make_values(data_shape, np.float32)
    size = data_shape[axis]
    indices = np.random.default_rng(0).integers(-size - limit, size + limit, index_shape)
    inputs = [data, indices, np.array(axis)]
    falls_back = has_index_outside(*inputs)
    assert falls_back == (limit > 0)
    check("Gather-8", inputs, {"batch_dims": batch_dims}, constants=(2,), falls_back=falls_back)
    assert is_specialized("Gather-8", inputs, (2,), batch_dims=batch_dims)


@pytest.mark.parametrize(
    ("begin", "end", "strides", "attributes"),
    [
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [1], "end_mask": [0]}),
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [0], "end_mask": [1]}),
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [0, 1, 1], "end_mask": [1, 0, 1]}),
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [], "end_mask": [], "shrink_axis_mask": [0, 1]}),
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [], "end_mask": [], "new_axis_mask": [0, 1]}),
        ([1, 1], [3, 3], [1, 1], {"begin_mask": [], "end_mask": [], "ellipsis_mask": [0, 1]}),
        ([1, 0], [3, 1], [1, 0], {"begin_mask": [], "end_mask": [], "shrink_axis_mask": [0, 1]}),
        ([-1, -2], [-4, -4], [-1, -1], {"begin_mask": [], "end_mask": []}),
        ([3, 2], [0, 0], [-1, -2], {"begin_mask": [], "end_mask": []}),
    ],
    ids=str,
)
def test_masks_may_have_any_length(begin, end, strides, attributes):
    """Elements that a mask omits are 0."""
    for shape in ((4, 5), (4, 5, 6), (1, 1)):
        inputs = [make_data(shape), ints(*begin), ints(*end), ints(*strides)]
        check("StridedSlice-1", inputs, attributes, constants=(1, 2, 3))


@pytest.mark.parametrize(("batch_dims", "axis"), [(1, 2), (-1, -1), (1, -1), (1, 1), (2, 2), (0, 1)])
def test_gather_by_batches_along_other_axes_equals_plain_kernel(batch_dims, axis):
    data, indices = make_data((2, 3, 4, 3)), np.array([[0, 2, 1], [1, 1, 0]])
    check("Gather-8", [data, indices, np.array(axis)], {"batch_dims": batch_dims}, constants=(2,))
    other = make_data((3, 3, 4, 3))  # the batches differ
    check("Gather-8", [other, indices, np.array(axis)], {"batch_dims": batch_dims}, constants=(2,))
    repeat = [[make_data((2, 3, 5, 3)), indices, np.array(axis)], [data[:1], indices[:1], np.array(axis)]]
    check("Gather-8", [data, indices, np.array(axis)], {"batch_dims": batch_dims}, constants=(2,), repeat=repeat)
    check("Gather-8", [data, indices.astype(np.uint8), np.array(axis)], {"batch_dims": batch_dims}, constants=(2,))


@pytest.mark.parametrize("value", [None, 0.0, -0.0, 2.5])
def test_pads_of_changing_shapes_and_types_equal_plain_kernel(value):
    begins, ends = ints(1, 0, 2), ints(0, 0, 1)
    pad = None if value is None else np.array(value, np.float32)
    inputs = [make_data((2, 3, 4)), begins, ends, pad]
    shapes = ((2, 3, 4), (3, 1, 1), (0, 2, 2), (2, 3))
    repeat = [[make_data(shape), *inputs[1:]] for shape in shapes]
    repeat += [[make_data((2, 3, 4), np.int64), *inputs[1:]], [make_data((2, 3, 4), np.float64), *inputs[1:]]]
    constants = (1, 2) if pad is None else (1, 2, 3)
    check("Pad-12", inputs, {"pad_mode": "constant"}, constants=constants, repeat=repeat)
