"""Data movement on random attributes, compared with loops and with NumPy's indexing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from irrun.ops.movement.batch_to_space import batch_to_space_2, space_to_batch_2
from irrun.ops.movement.depth_to_space import depth_to_space_1, space_to_depth_1
from irrun.ops.movement.pad import pad_1
from irrun.ops.movement.patches import col2im_15, extract_image_patches_3
from irrun.ops.movement.reverse import reverse_sequence_1
from irrun.ops.movement.scatter import scatter_elements_update_3, scatter_nd_update_4, slice_scatter_15
from irrun.ops.movement.slice import slice_8, strided_slice_1

Array = np.ndarray[Any, Any]

F32 = np.float32


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def number(*shape: int) -> Array:
    """Return the numbers from 1 in a shape."""
    return np.arange(1, 1 + math.prod(shape)).reshape(shape)


def test_strided_slices_are_those_of_numpy() -> None:
    """All kinds of entries in any order, with an ellipsis at any place."""
    rng = np.random.default_rng(1)
    data = number(3, 5, 4, 6)
    kinds = ["slice", "begin", "end", "both", "new", "shrink"]
    for _ in range(300):
        count = int(rng.integers(0, 5))
        entries = [str(kind) for kind in rng.choice(kinds, count)]
        entries.insert(int(rng.integers(0, count + 1)), "ellipsis")
        sliced = [i for i, kind in enumerate(entries) if kind not in ("new", "ellipsis")]
        position = entries.index("ellipsis")
        sizes = {
            i: data.shape[k if i < position else k - len(sliced)] for k, i in enumerate(sliced)
        }  # of the axis of each entry
        begins, ends = rng.integers(-8, 9, (2, len(entries)))
        strides = rng.choice([-2, -1, 1, 2, 3], len(entries))
        index: list[Any] = []
        for i, kind in enumerate(entries):
            if kind == "ellipsis":
                index.append(...)
            elif kind == "new":
                index.append(None)
            elif kind == "shrink":
                begins[i] = rng.integers(-sizes[i], sizes[i])
                index.append(int(begins[i]))
            else:
                if strides[i] < 0:  # a start before the data is clamped to it; see below
                    begins[i] = max(begins[i], -sizes[i])
                first = None if kind in ("begin", "both") else int(begins[i])
                last = None if kind in ("end", "both") else int(ends[i])
                index.append(slice(first, last, int(strides[i])))
        masks = {
            "begin_mask": [int(kind in ("begin", "both")) for kind in entries],
            "end_mask": [int(kind in ("end", "both")) for kind in entries],
            "new_axis_mask": [int(kind == "new") for kind in entries],
            "shrink_axis_mask": [int(kind == "shrink") for kind in entries],
            "ellipsis_mask": [int(kind == "ellipsis") for kind in entries],
        }
        result = strided_slice_1(data, begins, ends, strides, **masks)
        np.testing.assert_array_equal(result, data[tuple(index)])
        if (strides == 1).all():
            np.testing.assert_array_equal(strided_slice_1(data, begins, ends, **masks), result)


def test_slices_along_some_axes_are_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    data = number(3, 5, 4)
    for _ in range(100):
        axes = rng.permutation(3)[: int(rng.integers(1, 4))]
        start, stop = rng.integers(-6, 7, (2, len(axes)))
        step = rng.choice([-2, -1, 1, 2], len(axes))
        index: list[Any] = [slice(None)] * 3
        for axis, a, b, s in zip(axes.tolist(), start.tolist(), stop.tolist(), step.tolist(), strict=True):
            index[axis] = slice(max(a, -data.shape[axis]) if s < 0 else a, b, s)
        expected = data[tuple(index)]
        signed = np.where(rng.random(len(axes)) < 0.5, axes, axes - 3)
        np.testing.assert_array_equal(slice_8(data, start, stop, step, signed), expected)
        updated = data.copy()
        updated[tuple(index)] = -number(*expected.shape)
        found = slice_scatter_15(data, -number(*expected.shape), start, stop, step, signed)
        np.testing.assert_array_equal(found, updated)


def test_backward_slices_that_start_before_the_data_start_at_its_first_element() -> None:
    assert strided_slice_1(number(3), i64(-9), i64(-9), i64(-1), begin_mask=[0], end_mask=[0]).tolist() == [1]
    assert slice_8(number(3), i64(-9), i64(-9), i64(-1)).tolist() == [1]


@pytest.mark.parametrize("auto_pad", ["valid", "same_upper", "same_lower"])
@pytest.mark.parametrize(
    ("sizes", "strides", "rates"), [([2, 3], [1, 1], [1, 1]), ([3, 2], [2, 3], [1, 2]), ([2, 4], [3, 2], [2, 1])]
)
def test_patches_are_stacked_into_channels(sizes: Any, strides: Any, rates: Any, auto_pad: Any) -> None:
    data = number(2, 2, 5, 7)
    result = extract_image_patches_3(data, sizes=sizes, strides=strides, rates=rates, auto_pad=auto_pad)
    starts = []
    for n, size, stride, rate in zip(data.shape[2:], sizes, strides, rates, strict=True):
        span = (size - 1) * rate + 1
        if auto_pad == "valid":
            starts.append(range(0, n - span + 1, stride))
            continue
        count = -(-n // stride)
        padding = max((count - 1) * stride + span - n, 0)
        before = -(-padding // 2) if auto_pad == "same_lower" else padding // 2
        starts.append(range(-before, count * stride - before, stride))
    rows, columns = starts
    assert result.shape == (2, 2 * math.prod(sizes), len(rows), len(columns))
    expected = np.zeros(result.shape, int)
    for image, c, (r, top), (k, left) in itertools.product(range(2), range(2), enumerate(rows), enumerate(columns)):
        for i, j in np.ndindex(*sizes):
            y, x = top + i * rates[0], left + j * rates[1]
            if 0 <= y < 5 and 0 <= x < 7:
                expected[image, (i * sizes[1] + j) * 2 + c, r, k] = data[image, c, y, x]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1], "dilations": [1, 2]},
        {"pads_begin": [1, 0], "pads_end": [0, 2]},
        {"strides": [1, 3], "dilations": [2, 1], "pads_begin": [2, 1], "pads_end": [1, 0]},
    ],
)
@pytest.mark.parametrize("has_batch", [False, True])
def test_columns_add_up_to_an_image(has_batch: bool, attributes: dict[str, Any]) -> None:
    size, kernel, channels = (5, 6), (2, 3), 2
    strides, dilations = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    begins, ends = (attributes.get(name, [0, 0]) for name in ("pads_begin", "pads_end"))
    rows, columns = (
        (size[a] + begins[a] + ends[a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1 for a in (0, 1)
    )
    data = number(*((2,) if has_batch else ()), channels * math.prod(kernel), rows * columns)
    images = 2 if has_batch else 1
    blocks = data.reshape(images, channels, *kernel, rows, columns)
    expected = np.zeros((images, channels, *size), int)
    for i, j, r, k in np.ndindex(*kernel, rows, columns):
        y, x = r * strides[0] + i * dilations[0] - begins[0], k * strides[1] + j * dilations[1] - begins[1]
        if 0 <= y < size[0] and 0 <= x < size[1]:
            expected[:, :, y, x] += blocks[:, :, i, j, r, k]
    result = col2im_15(data, i64(*size), i64(*kernel), **attributes)
    np.testing.assert_array_equal(result, expected if has_batch else expected[0])


@pytest.mark.parametrize("reduction", ["sum", "prod", "mean"])
def test_sums_and_products_with_nan_are_nan(reduction: Any) -> None:
    data, updates = np.array([np.nan, 1, 2], F32), np.array([3, np.nan, 5], F32)
    found = [scatter_elements_update_3(data, i64(0, 1, 2), updates, np.array(0), reduction=reduction)]
    if reduction != "mean":
        found.append(scatter_nd_update_4(data, i64(0, 1, 2)[:, None], updates, reduction=reduction))
    for result in found:
        assert np.isnan(result).tolist() == [True, True, False]


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_padding_copies_the_elements_of_numpy(mode: Any) -> None:
    data = number(3, 4)
    for begins, ends in (((1, 2), (2, 0)), ((0, 2), (0, 3)), ((2, 0), (1, 1))):
        expected = np.pad(data, list(zip(begins, ends, strict=True)), mode=mode)
        np.testing.assert_array_equal(pad_1(data, i64(*begins), i64(*ends), pad_mode=mode), expected)
    if mode == "edge":
        np.testing.assert_array_equal(
            pad_1(data, i64(7, 0), i64(0, 9), pad_mode=mode), np.pad(data, ((7, 0), (0, 9)), mode)
        )


def test_blocks_move_between_the_batch_and_space() -> None:
    data, block, begins, ends = number(2, 4, 5), (1, 2, 3), (0, 1, 0), (0, 1, 1)
    padded = np.pad(data, [(0, 0), (1, 1), (0, 1)])
    expected = np.zeros((12, 3, 2), int)
    for n, i, j, y, x in np.ndindex(2, 2, 3, 3, 2):
        expected[(i * 3 + j) * 2 + n, y, x] = padded[n, y * 2 + i, x * 3 + j]
    result = space_to_batch_2(data, i64(*block), i64(*begins), i64(*ends))
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(batch_to_space_2(result, i64(*block), i64(*begins), i64(*ends)), data)


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_blocks_move_between_depth_and_space(mode: Any) -> None:
    data = number(2, 3, 4, 6)
    expected = np.zeros((2, 12, 2, 3), int)
    for n, c, i, j, y, x in np.ndindex(2, 3, 2, 2, 2, 3):
        channel = (i * 2 + j) * 3 + c if mode == "blocks_first" else c * 4 + i * 2 + j
        expected[n, channel, y, x] = data[n, c, y * 2 + i, x * 2 + j]
    result = space_to_depth_1(data, block_size=2, mode=mode)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(depth_to_space_1(result, block_size=2, mode=mode), data)


@pytest.mark.parametrize(("batch_axis", "seq_axis"), [(0, 1), (1, 0), (2, 1), (-1, 0)])
def test_the_starts_of_sequences_are_reversed(batch_axis: int, seq_axis: int) -> None:
    data = number(3, 4, 3)
    lengths = i64(2, 3, 0, 1)[: data.shape[batch_axis]]
    expected = data.copy()
    for i, length in enumerate(lengths.tolist()):
        rows, result = (np.moveaxis(x, (batch_axis, seq_axis), (0, 1)) for x in (data, expected))
        result[i, :length] = rows[i, :length][::-1]
    found = reverse_sequence_1(data, lengths, batch_axis=batch_axis, seq_axis=seq_axis)
    np.testing.assert_array_equal(found, expected)
