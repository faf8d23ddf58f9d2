"""Operations compared with the formulas of their definitions, written as loops or plain NumPy expressions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support.boxes import compute_rotated_overlaps
from irrun.ops._support.conversion import convert
from irrun.ops.activation.elementwise import gelu_7, p_relu_1
from irrun.ops.arithmetic.binary import power_1
from irrun.ops.condition import bucketize_3
from irrun.ops.convolution.deformable import deformable_convolution_8
from irrun.ops.detection.proposal import proposal_4
from irrun.ops.detection.yolo import region_yolo_1, reorg_yolo_2
from irrun.ops.image.grid_sample import grid_sample_9
from irrun.ops.image.interpolate import interpolate_1, interpolate_11
from irrun.ops.internal.augru import augru_cell, augru_sequence
from irrun.ops.internal.compressed_weights import fully_connected, fully_connected_compressed, gather_compressed
from irrun.ops.internal.rope import rope
from irrun.ops.matrix import einsum_7, inverse_14
from irrun.ops.movement.scatter import scatter_elements_update_3, scatter_nd_update_4
from irrun.ops.normalization import mvn_2
from irrun.ops.pooling.adaptive import adaptive_avg_pool_8, adaptive_max_pool_8
from irrun.ops.pooling.windows import avg_pool_16, max_pool_8
from irrun.ops.reduction import reduce_mean_1
from irrun.ops.sequence.attention import scaled_dot_product_attention_13
from irrun.ops.sequence.cells import gru_cell_3
from irrun.ops.sort.multiclass_nms import multiclass_nms_8
from irrun.ops.sort.search_sorted import search_sorted_15
from irrun.ops.sort.topk import topk_11

Array = np.ndarray[Any, Any]

F32 = np.float32
RNG = np.random.default_rng(11)


# Pooling


def list_window(length: int, start: int, kernel: int, dilation: int) -> list[int]:
    """Return the elements of a window that are inside of the axis."""
    return [i for i in range(start, start + kernel * dilation, dilation) if 0 <= i < length]


POOLINGS: list[dict[str, Any]] = [
    {"kernel": [2, 3], "strides": [1, 2], "pads_begin": [0, 0], "pads_end": [0, 0]},
    {"kernel": [3, 2], "strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 1]},
    {"kernel": [2, 2], "strides": [3, 2], "pads_begin": [0, 1], "pads_end": [1, 1], "dilations": [2, 1]},
    {"kernel": [3, 3], "strides": [2, 3], "pads_begin": [0, 0], "pads_end": [0, 0], "rounding_type": "ceil"},
    {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [0, 1], "rounding_type": "ceil_torch"},
]


@pytest.mark.parametrize("attributes", POOLINGS)
@pytest.mark.parametrize("dtype", [F32, np.float64, np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("exclude_pad", [False, True])
def test_average_pooling_divides_sums_by_the_number_of_elements(exclude_pad, dtype, attributes) -> None:
    data = (RNG.normal(size=(2, 2, 5, 6)) * 50).astype(dtype)
    result = avg_pool_16(data, exclude_pad=exclude_pad, **attributes)
    assert result.dtype == dtype
    kernel, dilations = attributes["kernel"], attributes.get("dilations", [1, 1])
    is_padded = any(attributes["pads_begin"] + attributes["pads_end"])
    for n, c, i, j in np.ndindex(result.shape):
        rows, columns = (
            list_window(size, p * s - b, k, d)
            for size, p, s, b, k, d in zip(
                data.shape[2:], (i, j), attributes["strides"], attributes["pads_begin"], kernel, dilations, strict=True
            )
        )
        values = data[n, c][np.ix_(rows, columns)].astype(np.float64)
        count = values.size if exclude_pad or not is_padded else math.prod(kernel)
        mean = values.sum() / max(count, 1)
        if np.dtype(dtype).itemsize == 1:
            assert result[n, c, i, j] == np.rint(mean)
        elif dtype is np.int32:
            assert result[n, c, i, j] == np.trunc(mean)
        else:
            np.testing.assert_allclose(result[n, c, i, j], mean, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attributes", POOLINGS)
@pytest.mark.parametrize("dtype", [F32, np.int8, np.float16])
def test_maximum_pooling_returns_the_first_maximum(dtype, attributes) -> None:
    data = RNG.integers(-3, 3, (2, 2, 5, 6)).astype(dtype)  # with many ties
    attributes = {"dilations": [1, 1], **attributes}
    for axis in (0, 1, 2):
        values, indices = max_pool_8(data, axis=axis, **attributes)
        assert (values.dtype, indices.dtype) == (dtype, np.int64)
        for n, c, i, j in np.ndindex(values.shape):
            rows, columns = (
                list_window(size, p * s - b, k, d)
                for size, p, s, b, k, d in zip(
                    data.shape[2:],
                    (i, j),
                    attributes["strides"],
                    attributes["pads_begin"],
                    attributes["kernel"],
                    attributes["dilations"],
                    strict=True,
                )
            )
            window = {(r, col): data[n, c, r, col] for r in rows for col in columns}
            best = max(window.values())
            row, column = next(position for position, value in window.items() if value == best)
            offset = {0: (n * 2 + c) * 30, 1: c * 30, 2: 0}[axis]
            assert (values[n, c, i, j], indices[n, c, i, j]) == (best, offset + row * 6 + column)


@pytest.mark.parametrize("sizes", [[1, 1], [2, 3], [5, 6], [7, 9], [3, 4]])
def test_adaptive_windows_cover_equal_fractions(sizes: list[int]) -> None:
    data = RNG.integers(-9, 9, (2, 2, 5, 6)).astype(F32)
    means = adaptive_avg_pool_8(data, np.array(sizes))
    maxima, indices = adaptive_max_pool_8(data, np.array(sizes))
    assert means.shape == maxima.shape == indices.shape == (2, 2, *sizes)
    for n, c, i, j in np.ndindex(means.shape):
        rows, columns = (
            slice(p * length // count, -(-(p + 1) * length // count))
            for p, length, count in zip((i, j), data.shape[2:], sizes, strict=True)
        )
        window = data[n, c, rows, columns]
        row, column = np.unravel_index(window.argmax(), window.shape)
        np.testing.assert_allclose(means[n, c, i, j], window.mean(), rtol=1e-6, atol=1e-6)
        assert maxima[n, c, i, j] == window.max()
        assert indices[n, c, i, j] == (rows.start + row) * 6 + columns.start + column


def test_adaptive_maximum_ignores_nan_after_the_first_element() -> None:
    data = np.array([[[1, np.nan, 3, np.nan, 2, np.nan]]], F32)
    values, indices = adaptive_max_pool_8(data, np.array([2]))
    np.testing.assert_array_equal(values, [[[3, np.nan]]])
    assert indices.tolist() == [[[2, 3]]]


# Scatter

REDUCTIONS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("reduction", ["none", "sum", "prod", "min", "max", "mean"])
@pytest.mark.parametrize("dtype", [F32, np.int32, np.uint8])
@pytest.mark.parametrize("use_init_val", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scattered_elements_are_reduced_in_order(axis, use_init_val, dtype, reduction) -> None:
    data = RNG.integers(1, 5, (3, 4)).astype(dtype)
    indices = RNG.integers(-3, 3, (3, 3))
    updates = RNG.integers(1, 5, (3, 3)).astype(dtype)
    expected = data.astype(np.float64)
    terms: dict[tuple[int, int], list[float]] = {}
    for i, j in np.ndindex(indices.shape):
        index = indices[i, j] % data.shape[axis]
        terms.setdefault((int(index), j) if axis == 0 else (i, int(index)), []).append(float(updates[i, j]))
    for position, values in terms.items():
        if use_init_val and reduction != "none":
            values.insert(0, float(data[position]))
        total = {"none": values[-1], "sum": sum(values), "prod": math.prod(values), "min": min(values)}
        total |= {"max": max(values), "mean": sum(values) / len(values)}
        expected[position] = total[reduction]
    if dtype is not F32:
        expected = np.floor(expected)
    result = scatter_elements_update_3(
        data, indices, updates, np.array(axis), reduction=reduction, use_init_val=use_init_val
    )
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected.astype(dtype), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # runs ignore them
@pytest.mark.parametrize(("reduction", "best"), [("min", 1.0), ("max", 7.0)])
def test_nan_is_ignored_in_the_operand_of_the_reference(reduction, best) -> None:
    data, indices = np.array([np.nan, 1, 7], F32), np.array([0, 0, 1, 2])
    updates = np.array([best, 4, np.nan, np.nan], F32)
    result = scatter_elements_update_3(data, indices, updates, np.array(0), reduction=reduction)
    np.testing.assert_array_equal(result, [best, np.nan, np.nan])
    result = scatter_nd_update_4(data, indices[:, None], updates, reduction=reduction)
    np.testing.assert_array_equal(result, [np.nan, 1, 7])


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("sum", [True, True]), ("prod", [False, False]), ("min", [False, False]), ("max", [True, True])],
)
def test_booleans_are_reduced_by_logic(reduction, expected) -> None:
    data, updates = np.array([False, True]), np.array([True, False])
    indices = np.array([0, 1])
    assert scatter_elements_update_3(data, indices, updates, np.array(0), reduction=reduction).tolist() == expected
    assert scatter_nd_update_4(data, indices[:, None], updates, reduction=reduction).tolist() == expected
    for use in (True, False):
        alone = scatter_elements_update_3(
            data, indices, updates, np.array(0), reduction=reduction, use_init_val=use
        ).tolist()
        assert alone == (expected if use else updates.tolist())
    with pytest.raises(InputError, match="reduction 'mean' is undefined for bool"):
        scatter_elements_update_3(data, indices, updates, np.array(0), reduction="mean")
    with pytest.raises(InputError, match="reduction 'sum' is undefined for object"):
        scatter_elements_update_3(data.astype(object), indices, updates.astype(object), np.array(0), reduction="sum")


def test_scattered_differences_and_exclusive_or() -> None:
    indices = np.array([[0], [0], [2]])
    result = scatter_nd_update_4(np.array([9, 8, 7]), indices, np.array([1, 2, 3]), reduction="sub")
    assert result.tolist() == [6, 8, 4]
    booleans = np.array([True, False, True])
    result = scatter_nd_update_4(booleans, indices, np.array([True, True, True]), reduction="sub")
    assert result.tolist() == [True, False, False]


# Positional embeddings


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize("is_gathered", [False, True])
def test_halves_are_rotated_by_the_angles_of_the_position(is_gathered: bool, columns: int, rank: int) -> None:
    x = RNG.normal(size=(2, 3, 5, 6)).astype(F32)
    angles = np.tile(RNG.uniform(-3, 3, (7, 2)), columns // 2)
    cos, sin = (f(angles).astype(F32).reshape((1,) * (rank - 2) + angles.shape) for f in (np.cos, np.sin))
    order = np.array([[3, 1, 6, 0, 2], [0, 1, 2, 3, 4]])
    used = order if is_gathered else np.tile(np.arange(5), (2, 1))
    options: dict[str, Any] = {"rotary_ndims": 4}
    expected = x.copy()
    for b, h, t, i in np.ndindex(2, 3, 5, 2):
        angle, (first, second) = angles[used[b, t], i], (x[b, h, t, i], x[b, h, t, i + 2])
        expected[b, h, t, i] = first * math.cos(angle) - second * math.sin(angle)
        expected[b, h, t, i + 2] = second * math.cos(angle) + first * math.sin(angle)
    extra = [order] if is_gathered else []
    options |= {"gather_position_arg_id": 3} if is_gathered else {}
    np.testing.assert_allclose(rope(x, cos, sin, *extra, **options), expected, rtol=1e-5, atol=1e-5)
    swapped = np.ascontiguousarray(x.swapaxes(1, 2))
    for input_trans, output_trans in ((True, False), (True, True), (False, True)):
        data = swapped if input_trans else x
        result = rope(data, cos, sin, *extra, input_trans0213=input_trans, output_trans0213=output_trans, **options)
        is_swapped = output_trans and not input_trans
        np.testing.assert_allclose(result, expected.swapaxes(1, 2) if is_swapped else expected, rtol=1e-5, atol=1e-5)
    if is_gathered:
        by_head = np.broadcast_to(order[:, None, :, None], (2, 1, 5, 1))
        np.testing.assert_allclose(rope(x, cos, sin, by_head, **options), expected, rtol=1e-5, atol=1e-5)
    wider = np.concatenate([np.zeros((2, 3, 5, 1), F32), x, np.zeros((2, 3, 5, 2), F32)], axis=-1)
    sliced = rope(wider, cos, sin, *extra, slice_start=1, slice_stop=7, **options)
    np.testing.assert_allclose(sliced, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", [None, [[2, 0, 1], [4, 4, 3]]])
def test_qwen_rotates_with_the_last_or_the_selected_positions(positions) -> None:
    x = RNG.normal(size=(2, 3, 12)).astype(F32)
    angles = np.tile(RNG.uniform(-3, 3, (5, 2)), 2)
    cos, sin = (f(angles).astype(F32)[None, :, None] for f in (np.cos, np.sin))
    attributes: dict[str, Any] = {"is_qwen": True, "head_cnt": 2, "head_size": 5}
    used = np.array(positions or [[2, 3, 4]] * 2)
    expected = x[..., :10].reshape(2, 3, 2, 5).copy()
    for b, t, h, i in np.ndindex(2, 3, 2, 2):
        angle = angles[used[b, t], i]
        first, second = x[b, t, h * 5 + i], x[b, t, h * 5 + i + 2]
        expected[b, t, h, i] = first * math.cos(angle) - second * math.sin(angle)
        expected[b, t, h, i + 2] = second * math.cos(angle) + first * math.sin(angle)
    if positions is None:
        variants = [rope(x, cos, sin, **attributes)]
    else:
        by_head = np.array(positions)[:, None, :, None]
        variants = [
            rope(x, cos, sin, index, gather_position_arg_id=3, **attributes) for index in (np.array(positions), by_head)
        ]
    for result in variants:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


# Recurrent cells with attention


def test_attention_scales_the_update_gate() -> None:
    batch, size, hidden = 2, 3, 4
    X, H = RNG.normal(size=(batch, size)).astype(F32), RNG.normal(size=(batch, hidden)).astype(F32)
    W, R = RNG.normal(size=(12, size)).astype(F32), RNG.normal(size=(12, hidden)).astype(F32)
    B, A = RNG.normal(size=12).astype(F32), RNG.uniform(size=(batch, 1)).astype(F32)
    for names, f, g in (
        (["sigmoid", "tanh"], lambda x: 1 / (1 + np.exp(-x)), np.tanh),
        (["tanh", "relu"], np.tanh, lambda x: np.maximum(x, 0)),
    ):
        wx, rh = np.split(X @ W.T + B, 3, axis=1), np.split(H @ R.T, 3, axis=1)
        update, reset = f(wx[0] + rh[0]) * (1 - A), f(wx[1] + rh[1])
        candidate = g(wx[2] + (reset * H) @ R[8:].T)
        expected = (1 - update) * candidate + update * H
        cell = augru_cell(X, H, W, R, B, A, hidden_size=hidden, activations=names)
        np.testing.assert_allclose(cell, expected, rtol=1e-4, atol=1e-5)
        outputs, last = augru_sequence(
            X[:, None],
            H[:, None],
            np.ones(batch, np.int64),
            W[None],
            R[None],
            B[None],
            A[:, None],
            hidden_size=hidden,
            activations=names,
        )
        np.testing.assert_allclose(last[:, 0], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(outputs[:, 0, 0], expected, rtol=1e-4, atol=1e-5)
        plain = gru_cell_3(X, H, W, R, B, hidden_size=hidden, activations=names)
        without = augru_cell(X, H, W, R, B, np.zeros_like(A), hidden_size=hidden, activations=names)
        np.testing.assert_allclose(without, plain, rtol=1e-5, atol=1e-6)


# Interpolation


@pytest.mark.parametrize("mode", ["linear", "linear_onnx"])
@pytest.mark.parametrize(
    ("shape", "axes", "pads", "coordinates"),
    [
        ((1, 2, 3, 4), [2, 3], [0, 0], "asymmetric"),
        ((1, 2, 3, 4), [3], [0, 0], "half_pixel"),
        ((1, 2, 4), [2], [0, 0], "half_pixel"),
        ((1, 2, 4), [2], [1, 0], "asymmetric"),
        ((1, 2, 4), [2], [0, 1], "asymmetric"),
        ((1, 2, 3, 4), [2], [1, 1], "asymmetric"),
    ],
)
def test_first_version_of_interpolate_decides_on_coordinates(shape, axes, pads, coordinates, mode) -> None:
    x = RNG.normal(size=shape).astype(F32)
    begin, end = ([pad if i in axes else 0 for i in range(len(shape))] for pad in pads)
    expected = np.pad(x, list(zip(begin, end, strict=True)))
    sizes = [2 * expected.shape[a] for a in axes]
    for axis in axes:
        length = expected.shape[axis]
        points = np.arange(2 * length) / 2
        points = points if coordinates == "asymmetric" else points + 0.25 - 0.5
        expected = np.apply_along_axis(
            lambda row: np.interp(points, np.arange(len(row)), row),  # noqa: B023
            axis,
            expected,
        )
    result = interpolate_1(
        x, np.array(sizes), axes=axes, mode=mode, align_corners=False, pads_begin=begin, pads_end=end
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    # The corners are aligned by default.
    corners = interpolate_1(x, np.array([x.shape[a] + 2 for a in axes]), axes=axes, mode=mode)
    aligned = x
    for axis in axes:
        points = np.linspace(0, x.shape[axis] - 1, x.shape[axis] + 2)
        aligned = np.apply_along_axis(
            lambda row: np.interp(points, np.arange(len(row)), row),  # noqa: B023
            axis,
            aligned,
        )
    np.testing.assert_allclose(corners, aligned, rtol=1e-5, atol=1e-6)


# Detection


def list_proposals(anchor: Array, image: tuple[int, int], stride: int, cells: tuple[int, int]) -> Array:
    """Return the boxes of one anchor in each cell, row by row, clipped to the image."""
    boxes = [anchor + np.array([x, y, x, y]) * stride for y, x in np.ndindex(cells)]
    limits = np.array([image[1] - 1, image[0] - 1] * 2)
    return np.clip(np.array(boxes), 0, limits)


def test_proposals_without_deltas_are_anchors() -> None:
    scores = np.array([[[[0, 0], [0, 0]], [[0.4, 0.9], [0.7, 0.2]]]], F32)
    attributes: dict[str, Any] = {
        "base_size": 4,
        "pre_nms_topn": 3,
        "post_nms_topn": 5,
        "nms_thresh": 1.0,
        "feat_stride": 4,
        "min_size": 1,
        "ratio": [1.0],
        "scale": [2.0],
    }
    deltas, image = np.zeros((1, 4, 2, 2), F32), np.array([8, 7, 1], F32)
    boxes, probabilities = proposal_4(scores, deltas, image, **attributes)
    anchor = np.array([-2, -2, 5, 5.0])  # the center is 1.5, the sides are 8 - 1
    # The maximum of a refined box is not reduced by the pixel that its side contains.
    expected = list_proposals(anchor + np.array([0, 0, 1, 1]), (8, 7), 4, (2, 2))[[1, 2, 0]]
    np.testing.assert_allclose(boxes[:3, 1:], expected, atol=1e-5)
    np.testing.assert_allclose(probabilities, [0.9, 0.7, 0.4, 0, 0])
    assert boxes[:, 0].tolist() == [0, 0, 0, -1, 0]
    relative, _ = proposal_4(scores, deltas, image, normalize=True, **attributes)
    np.testing.assert_allclose(relative[:3, 1:], expected / [7, 8, 7, 8], atol=1e-6)
    unclipped, _ = proposal_4(scores, deltas, image, clip_before_nms=False, **attributes)
    raw = np.array([anchor + np.array([x, y, x + 1, y + 1]) for x, y in ((4, 0), (0, 4), (0, 0))])
    np.testing.assert_allclose(unclipped[:3, 1:], raw, atol=1e-5)
    clipped, _ = proposal_4(scores, deltas, image, clip_before_nms=False, clip_after_nms=True, **attributes)
    np.testing.assert_allclose(clipped[:3, 1:], np.clip(raw, 0, [7, 8, 7, 8]), atol=1e-5)
    swapped, _ = proposal_4(scores, deltas, image, framework="tensorflow", clip_before_nms=False, **attributes)
    square = np.array([-4, -4, 4, 4.0])  # around the corner of the cell; x and y are exchanged
    cells = np.clip([square + np.array([y, x, y, x]) for x, y in ((4, 0), (0, 4), (0, 0))], 0, [8, 7, 8, 7])
    np.testing.assert_allclose(swapped[:3, 1:], cells, atol=1e-5)
    small, kept = proposal_4(scores, deltas, image, **attributes | {"min_size": 8, "pre_nms_topn": 9})
    sides = list_proposals(anchor + np.array([0, 0, 1, 1]), (8, 7), 4, (2, 2))
    is_large = ((sides[:, 2:] - sides[:, :2] + 1) >= 8).all(axis=1)
    assert sorted(kept[kept > 0].tolist()) == sorted(scores[0, 1].reshape(-1)[is_large].tolist())
    assert len(small) == 5


@pytest.mark.parametrize(("divisor", "moves"), [(1.0, 2.0), (2.0, 1.0)])
def test_deltas_move_and_scale_proposals(divisor: float, moves: float) -> None:
    scores, deltas = np.array([[[[0]], [[1]]]], F32), np.array([0.5, 0, 0, math.log(2)], F32).reshape(1, 4, 1, 1)
    boxes, _ = proposal_4(
        scores,
        deltas,
        np.array([50, 50, 1], F32),
        base_size=4,
        pre_nms_topn=1,
        post_nms_topn=1,
        nms_thresh=0.5,
        feat_stride=4,
        min_size=1,
        ratio=[1.0],
        scale=[1.0],
        clip_before_nms=False,
        box_coordinate_scale=divisor,
        box_size_scale=2.0,
    )
    height = 4 * math.sqrt(2)
    expected = [0, 2 + moves - 2, 2 - height / 2, 2 + moves + 2, 2 + height / 2]
    np.testing.assert_allclose(boxes[0], expected, rtol=1e-5, atol=1e-5)


def test_regions_of_yolo_are_activated_by_their_role() -> None:
    x = RNG.normal(size=(2, 16, 2, 3)).astype(F32)
    sigmoid = 1 / (1 + np.exp(-x.reshape(2, 2, 8, 2, 3).astype(float)))
    parts = x.reshape(2, 2, 8, 2, 3).astype(float)
    expected = parts.copy()
    expected[:, :, [0, 1, 4]] = sigmoid[:, :, [0, 1, 4]]
    exponents = np.exp(parts[:, :, 5:])
    expected[:, :, 5:] = exponents / exponents.sum(axis=2, keepdims=True)
    result = region_yolo_1(x, coords=4, classes=3, num=2, axis=1, end_axis=3)
    np.testing.assert_allclose(result, expected.reshape(2, -1), rtol=1e-5, atol=1e-6)
    expected[:, :, 5:] = sigmoid[:, :, 5:]
    for mask, axis in ([0, 1], 1), ([2], 3):
        used = 8 * len(mask)
        result = region_yolo_1(
            x[:, :used], coords=4, classes=3, num=9, axis=axis, end_axis=3, do_softmax=False, mask=mask
        )
        np.testing.assert_allclose(result, expected.reshape(2, 16, 2, 3)[:, :used], rtol=1e-5, atol=1e-6)


def test_channels_of_yolo_become_blocks() -> None:
    x = np.arange(2 * 8 * 4 * 6).reshape(2, 8, 4, 6)
    result = reorg_yolo_2(x, stride=[2])
    assert result.shape == (2, 32, 2, 3)
    planes = x.reshape(2, 2, 8, 12)  # read with a fourth of the channels and twice the height and width
    expected = np.zeros((2, 8, 4, 6), int)
    for n, c, i, j in np.ndindex(expected.shape):
        block, plane = divmod(c, 2)
        expected[n, c, i, j] = planes[n, plane, 2 * i + block // 2, 2 * j + block % 2]
    np.testing.assert_array_equal(result, expected.reshape(result.shape))


def test_suppression_numbers_boxes_by_class() -> None:
    boxes = np.zeros((2, 3, 4), F32)
    boxes[..., 2:] = 1
    boxes += np.arange(6, dtype=F32).reshape(2, 3, 1) * 5
    scores = np.array([[0.9, 0.1, 0.8], [0.2, 0.7, 0.6]], F32)
    outputs, indices, counts = multiclass_nms_8(
        boxes, scores, np.array([1, 2]), sort_result_type="score", score_threshold=0.15, iou_threshold=0.5
    )
    # Image, class and box in descending order of score of each image.
    kept = [(0, 0), (1, 0), (0, 2), (1, 1), (1, 2)]
    assert counts.tolist() == [2, 3]
    assert indices.reshape(-1).tolist() == [box * 2 + label for label, box in kept]
    np.testing.assert_array_equal(outputs[:, 0], [label for label, _ in kept])
    np.testing.assert_array_equal(outputs[:, 1], [scores[entry] for entry in kept])
    np.testing.assert_array_equal(outputs[:, 2:], [boxes[entry] for entry in kept])


@pytest.mark.parametrize("shift", [(0.0, 0.0), (10.0, -20.0)])
def test_intersections_of_rotated_boxes_are_polygons(shift: tuple[float, float]) -> None:
    square = np.array([[*shift, 2.0, 2.0, 0.0]])
    distance = 1 + math.sqrt(2) - 0.5  # a corner of the rotated square reaches in by 0.5
    others = np.array(
        [
            [shift[0] + distance, shift[1], 2.0, 2.0, np.pi / 4],
            [shift[0] + 1.0, shift[1] + 1.0, 2.0, 2.0, np.pi / 2],
            [shift[0], shift[1], 1.0, 0.5, 0.3],
            [shift[0] + 2.0, shift[1], 2.0, 2.0, 0.0],
        ]
    )
    intersections = np.array([0.25, 1.0, 0.5, 0.0])
    areas = np.array([4, 4, 0.5, 4])
    expected = intersections / (4 + areas - intersections)
    np.testing.assert_allclose(compute_rotated_overlaps(square, others)[0], expected, atol=1e-9)
    np.testing.assert_allclose(compute_rotated_overlaps(others, square)[:, 0], expected, atol=1e-9)


# Small functions


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # runs ignore them
@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        (np.int32, 100000, 65504),
        (np.int32, -100000, -65504),
        (np.int64, 100000, np.inf),
        (np.uint32, 100000, np.inf),
        (F32, 100000, np.inf),
        (np.float64, -100000, -np.inf),
    ],
)
def test_only_i32_saturates_in_f16(source, value, expected) -> None:
    result = convert(np.array([value], source), ELEMENT_TYPES["f16"])
    assert result.dtype == np.float16
    assert result.tolist() == [expected]
    wide = convert(np.array([value], source), ELEMENT_TYPES["bf16"])
    assert wide.dtype == ml_dtypes.bfloat16
    assert abs(float(wide[0]) - value) <= 2**9


@pytest.mark.parametrize("dtype", [F32, np.float16, np.float64])
def test_bucket_of_nan_depends_on_the_bound(dtype) -> None:
    data, buckets = np.array([np.nan, 2, 0.5], dtype), np.array([1, 2], dtype)
    assert bucketize_3(data, buckets).tolist() == [0, 1, 0]
    assert bucketize_3(data, buckets, with_right_bound=False).tolist() == [2, 2, 0]


@pytest.mark.parametrize(
    ("data", "buckets"),
    [
        (np.array([2**24 + 1]), np.array([2**24], F32)),  # compared in f32
        (np.array([2**24 + 1]), np.array([2**24], np.float64)),
        (np.array([2**63 + 1], np.uint64), np.array([2**63], np.uint64)),
        (np.array([2**63 + 1], np.uint64), np.array([1], np.int64)),
        (np.array([True]), np.array([0], np.uint8)),
    ],
)
def test_buckets_are_compared_in_the_common_type_of_c(data, buckets) -> None:
    common = np.float32 if buckets.dtype == F32 else object
    expected = int(data.astype(common)[0] > buckets.astype(common)[0])
    assert bucketize_3(data, buckets).tolist() == [expected]
    assert bucketize_3(data, buckets, with_right_bound=False).tolist() == [1]


def test_gelu_keeps_the_sign_of_zero() -> None:
    zeros = np.array([0.0, -0.0])
    for dtype in (F32, np.float64, np.float16):
        for mode in ("ERF", "TANH"):
            result = gelu_7(zeros.astype(dtype), approximation_mode=mode)  # type: ignore[arg-type]
            np.testing.assert_array_equal(np.signbit(result), [False, True])


@pytest.mark.parametrize("slope", [np.inf, -np.inf, np.nan, 0.5])
def test_slopes_do_not_affect_positive_elements(slope: float) -> None:
    x = np.array([3, 0, -2, np.inf, -np.inf], F32)
    with np.errstate(all="ignore"):
        result = p_relu_1(x, np.array([slope], F32))
        expected = np.where(x < 0, x * F32(slope), x)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("equation", ["ab,ab->ab", "ab,ab->a", "ab,bc->ac", "...a,...a->...", "ab,ab->"])
def test_axes_of_size_one_are_broadcast_in_products(equation: str) -> None:
    for first, second in (((1, 3), (2, 3)), ((2, 1), (2, 3)), ((2, 3), (1, 1)), ((3, 3), (3, 3))):
        if equation == "ab,bc->ac":
            first, second = (2, first[0]), second[::-1] if first[0] == 1 else (first[0], 2)
        a, b = RNG.normal(size=first), RNG.normal(size=second)
        if equation == "ab,bc->ac":
            expected = (a[:, :, None] * b[None]).sum(axis=1)
        else:
            product = a * b
            expected = {"a": product.sum(axis=1), "...": product.sum(axis=1), "ab": product, "": product.sum()}[
                equation.partition("->")[2]
            ]
        np.testing.assert_allclose(einsum_7(a, b, equation=equation), expected, rtol=1e-12)
        np.testing.assert_allclose(
            einsum_7(b, a, equation=equation) if equation != "ab,bc->ac" else expected, expected, rtol=1e-12
        )


def test_inverse_of_a_batch_is_transposed_by_adjoint() -> None:
    x = RNG.normal(size=(2, 3, 4, 4))
    np.testing.assert_allclose(inverse_14(x, adjoint=False), np.linalg.inv(x), rtol=1e-9)
    np.testing.assert_allclose(inverse_14(x, adjoint=True), np.linalg.inv(x).swapaxes(-1, -2), rtol=1e-9)
    permutation = np.eye(3)[[1, 2, 0]]
    np.testing.assert_array_equal(inverse_14(permutation, adjoint=False), permutation.T)
    for rows, columns in itertools.product(range(3), repeat=2):
        scaled = np.eye(3)
        scaled[rows, columns] += 2
        np.testing.assert_allclose(inverse_14(scaled, adjoint=False), np.linalg.inv(scaled), rtol=1e-12, atol=1e-12)


# Attention


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize("has_sink", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "float", "wide boolean", "wide float"])
def test_attention_is_a_softmax_of_products(kind: str, has_sink: bool, lead: tuple[int, ...]) -> None:
    query, key, value = (RNG.normal(size=(*lead, n, m)).astype(F32) for n, m in ((4, 5), (6, 5), (6, 3)))
    shape = (2, *lead, 4, 6) if kind.startswith("wide") else (4, 6)
    mask: Array | None = None
    if kind.endswith("boolean"):
        mask = RNG.uniform(size=shape) > 0.3
        mask[..., 0] = True
    elif kind.endswith("float"):
        mask = RNG.normal(size=shape).astype(F32)
    sink = RNG.normal(size=(4, 1)).astype(F32) if has_sink else None
    for scale in (None, np.array(0.7, F32)):
        scores = query @ key.swapaxes(-1, -2) * (5**-0.5 if scale is None else 0.7)
        if kind == "causal":
            scores = np.where(np.arange(6) <= np.arange(4)[:, None], scores, -np.inf)
        elif mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        exponents = np.exp(scores)
        total = exponents.sum(axis=-1, keepdims=True) + (0 if sink is None else np.exp(sink))
        expected = exponents / total @ value
        result = scaled_dot_product_attention_13(query, key, value, mask, scale, sink, causal=kind == "causal")
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_attention_without_permitted_positions_is_nan_and_large_scores_are_finite() -> None:
    query, value = np.full((2, 1), 1e4, F32), np.array([[1], [2]], F32)
    np.testing.assert_array_equal(scaled_dot_product_attention_13(query, query, value), [[1.5], [1.5]])
    mask = np.array([[True, False], [False, False]])
    with np.errstate(all="ignore"):
        result = scaled_dot_product_attention_13(query, query, value, mask)
    np.testing.assert_array_equal(result, [[1], [np.nan]])


# Selection and search


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("dtype", [F32, np.int8, np.uint8, np.int64, np.bool_, ml_dtypes.int4, np.float16])
@pytest.mark.parametrize("sort", ["value", "index", "none"])
def test_best_elements_are_selected_stably(sort: Any, dtype: Any, mode: Any) -> None:
    data = RNG.integers(0, 5, (3, 40)).astype(dtype)  # with many ties
    for axis, count in itertools.product((-1, 0), (0, 1, 2, 3)):
        values, indices = topk_11(data, np.array(count), axis=axis, mode=mode, sort=sort)
        rows = np.moveaxis(data, axis, -1).astype(int)
        order = np.argsort(-rows if mode == "max" else rows, axis=-1, kind="stable")[..., :count]
        order = np.sort(order, axis=-1) if sort == "index" else order
        np.testing.assert_array_equal(np.moveaxis(indices, axis, -1), order)
        np.testing.assert_array_equal(np.moveaxis(values, axis, -1).astype(int), np.take_along_axis(rows, order, -1))
        assert (values.dtype, indices.dtype) == (data.dtype, np.int32)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_nan_is_selected_last(mode: Any) -> None:
    data = np.array([np.nan, 1, 2, np.nan], F32)
    best = [2, 1] if mode == "max" else [1, 2]
    for count in (1, 2, 3, 4):
        _, indices = topk_11(data, np.array(count), axis=0, mode=mode, sort="value")
        assert indices.tolist() == [*best, 0, 3][:count]


@pytest.mark.parametrize("right_mode", [False, True])
@pytest.mark.parametrize("dtype", [F32, np.int8, np.uint64, ml_dtypes.int4])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 6])
def test_values_are_inserted_before_or_after_equal_ones(length: int, dtype: Any, right_mode: bool) -> None:
    rows = np.sort(RNG.integers(0, 6, (3, length)), axis=1)
    values = RNG.integers(0, 7, (3, 8))
    result = search_sorted_15(rows.astype(dtype), values.astype(dtype), right_mode=right_mode)
    side: Any = "right" if right_mode else "left"
    expected = [np.searchsorted(row, own, side=side) for row, own in zip(rows, values, strict=True)]
    np.testing.assert_array_equal(result, expected)
    same = search_sorted_15(rows[0].astype(dtype), values.astype(dtype), right_mode=right_mode)
    np.testing.assert_array_equal(same, np.searchsorted(rows[0], values, side=side))


# Normalization and reduction


@pytest.mark.parametrize("across_channels", [False, True])
@pytest.mark.parametrize("normalize_variance", [False, True])
@pytest.mark.parametrize("axes", [[], [1], [0, 2]])
def test_first_version_of_mvn_uses_axes_or_channels(axes, normalize_variance, across_channels) -> None:
    x = RNG.normal(size=(2, 3, 4, 5)).astype(F32)
    used = tuple(axes) or ((1, 2, 3) if across_channels else (2, 3))
    expected = x - x.mean(axis=used, keepdims=True)
    if normalize_variance:
        expected /= np.sqrt(x.var(axis=used, keepdims=True) + 0.01)
    result = mvn_2(
        x,
        eps=0.01,
        across_channels=across_channels,
        normalize_variance=normalize_variance,
        reduction_axes=axes,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, F32, np.float16])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_means_of_integers_are_truncated(keep_dims: bool, dtype: Any) -> None:
    low = 0 if np.dtype(dtype).kind == "u" else -100
    data = RNG.integers(low, 120, (50, 3)).astype(dtype)
    for axes in (0, [0, 1], [-1], []):
        reduced = tuple(axes) if isinstance(axes, list) else axes
        mean = data.astype(np.float64).mean(axis=reduced, keepdims=keep_dims)
        result = reduce_mean_1(data, np.array(axes, np.int64), keep_dims=keep_dims)
        assert (result.dtype, result.shape) == (data.dtype, mean.shape)
        expected = mean if np.dtype(dtype).kind == "f" else np.trunc(mean)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=2e-3 if dtype is np.float16 else 1e-6)


def raise_to_power(base: float, exponent: float) -> float:
    """Return what C's pow returns, where Python raises an exception."""
    try:
        return math.pow(base, exponent)
    except ValueError:
        infinity = math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf
        return infinity if base == 0 else math.nan


@pytest.mark.parametrize("exponent", [-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0])
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16])
def test_powers_are_those_of_c(dtype: Any, exponent: float) -> None:
    x = np.array([-np.inf, -3, -1, -0.5, -0.0, 0.0, 0.5, 1, 3, np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        result = power_1(x, np.array(exponent, dtype))
        expected = np.array([raise_to_power(float(v), exponent) for v in x]).astype(dtype)
    np.testing.assert_allclose(result, expected, rtol=4 * float(np.finfo(dtype).eps))
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(expected[is_number]))


# Images


def move_inside(index: int, size: int, mode: str, is_aligned: bool) -> int | None:
    """Return the pixel that represents one outside, or None for zero."""
    if mode == "zeros":
        return index if 0 <= index < size else None
    if mode == "border":
        return min(max(index, 0), size - 1)
    while not 0 <= index < size:  # reflect at the centers or at the borders of the outer pixels
        last = size - 1
        if size == 1:
            return 0
        index = (-index if is_aligned else -1 - index) if index < 0 else 2 * last - index + (not is_aligned)
    return index


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (1, 2), (4, 1)])
def test_grid_samples_are_weighted_pixels(shape, align_corners, padding_mode) -> None:
    height, width = shape
    data = RNG.normal(size=(2, 2, *shape)).astype(F32)
    grid = RNG.uniform(-2.5, 2.5, (2, 3, 5, 2)).astype(F32)
    nearest, bilinear = (
        grid_sample_9(data, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)  # type: ignore[arg-type]
        for mode in ("nearest", "bilinear")
    )
    for n, c, i, j in np.ndindex(bilinear.shape):
        x, y = (
            (float(v) + 1) * (size - 1) / 2 if align_corners else ((float(v) + 1) * size - 1) / 2
            for v, size in zip(grid[n, i, j], (width, height), strict=True)
        )

        def read(row: int, column: int, n: int = n, c: int = c) -> float:
            row_inside = move_inside(row, height, padding_mode, align_corners)
            column_inside = move_inside(column, width, padding_mode, align_corners)
            is_pixel = row_inside is not None and column_inside is not None
            return float(data[n, c, row_inside, column_inside]) if is_pixel else 0.0

        top, left = math.floor(y), math.floor(x)
        expected = sum(
            (1 - abs(y - row)) * (1 - abs(x - column)) * read(row, column)
            for row in (top, top + 1)
            for column in (left, left + 1)
        )
        np.testing.assert_allclose(bilinear[n, c, i, j], expected, rtol=1e-4, atol=1e-4)
        if abs(y - round(y)) < 0.49 and abs(x - round(x)) < 0.49:
            assert nearest[n, c, i, j] == F32(read(round(y), round(x)))


@pytest.mark.parametrize("interpolates", [False, True])
@pytest.mark.parametrize(("group", "deformable_group"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("has_mask", [False, True])
def test_deformable_convolution_sums_samples(has_mask, group, deformable_group, interpolates) -> None:
    data = RNG.normal(size=(2, 4, 5, 6)).astype(F32)
    filters = RNG.normal(size=(4, 4 // group, 2, 3)).astype(F32)
    strides, begins, dilations, (rows, columns) = (1, 2), (1, 0), (2, 1), (5, 3)
    offsets = RNG.uniform(-2, 2, (2, deformable_group * 12, rows, columns)).astype(F32)
    mask = RNG.uniform(size=(2, deformable_group * 6, rows, columns)).astype(F32) if has_mask else None
    result = deformable_convolution_8(
        data,
        offsets,
        filters,
        mask,
        strides=list(strides),
        pads_begin=list(begins),
        pads_end=[1, 1],
        dilations=list(dilations),
        group=group,
        deformable_group=deformable_group,
        bilinear_interpolation_pad=interpolates,
    )
    assert result.shape == (2, 4, rows, columns)

    def sample(plane: Array, y: float, x: float) -> float:
        if interpolates:
            plane, y, x = np.pad(plane, 1), y + 1, x + 1  # zeros around
            if not (0 <= y < 6 and 0 <= x < 7):
                return 0.0
        elif 0 <= y < 5 and 0 <= x < 6:
            plane = np.pad(plane, ((0, 1), (0, 1)), "edge")
        else:
            return 0.0
        top, left = math.floor(y), math.floor(x)
        near = plane[top : top + 2, left : left + 2]
        return float((near * np.outer([top + 1 - y, y - top], [left + 1 - x, x - left])).sum())

    for n, o, i, j in itertools.product((0, 1), (0, 3), range(rows), range(columns)):
        total = 0.0
        for c, u, v in np.ndindex(4 // group, 2, 3):
            channel = c + (o * group // 4) * (4 // group)
            shift = (channel * deformable_group // 4) * 6 + u * 3 + v
            y = i * strides[0] - begins[0] + u * dilations[0] + offsets[n, 2 * shift, i, j]
            x = j * strides[1] - begins[1] + v * dilations[1] + offsets[n, 2 * shift + 1, i, j]
            factor = 1.0 if mask is None else float(mask[n, shift, i, j])
            total += float(filters[o, c, u, v]) * factor * sample(data[n, channel], float(y), float(x))
        np.testing.assert_allclose(result[n, o, i, j], total, rtol=1e-3, atol=1e-4)


def test_first_version_of_interpolate_repeats_the_nearest_pixel() -> None:
    x = np.arange(6, dtype=F32).reshape(1, 1, 2, 3)
    result = interpolate_1(x, np.array([4, 6]), axes=[2, 3], mode="nearest", align_corners=False)
    np.testing.assert_array_equal(result, x.repeat(2, axis=2).repeat(2, axis=3))
    doubled = interpolate_1(x, np.array([4, 3]), axes=[2, 3], mode="cubic", align_corners=False)
    assert (doubled.min() < 0) or (doubled.max() > 5)  # cubic interpolation overshoots


def test_axes_that_keep_their_size_are_not_resized() -> None:
    x = RNG.normal(size=(2, 5)).astype(F32)
    for mode in ("nearest", "linear", "linear_onnx", "cubic"):
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"):
            result = interpolate_11(
                x,
                np.array([1.05], F32),  # the size 5.25 is rounded down
                np.array([1]),
                mode=mode,  # type: ignore[arg-type]
                shape_calculation_mode="scales",
                coordinate_transformation_mode=coordinates,  # type: ignore[arg-type]
            )
            np.testing.assert_allclose(result, x, rtol=1e-6)


# Compressed weights


@pytest.mark.parametrize("scale_shape", [(1, 1), (4, 1), (4, 2), (4,), (4, 6), (4, 2, 1), (1, 2), ()])
@pytest.mark.parametrize("has_bias", [False, True])
def test_weights_are_decompressed_by_groups(has_bias: bool, scale_shape: tuple[int, ...]) -> None:
    x, codes = RNG.normal(size=(2, 3, 6)).astype(F32), RNG.integers(-8, 8, (4, 6)).astype(np.int8)
    scale, zero_point = RNG.uniform(1, 2, scale_shape).astype(F32), RNG.integers(-3, 3, scale_shape).astype(np.int8)
    bias = RNG.normal(size=4).astype(F32) if has_bias else np.zeros(0, F32)

    def expand(values: Array) -> Array:
        values = values.reshape(values.shape[:2] + (1,) * (2 - values.ndim)) if values.ndim else values.reshape(1, 1)
        return values.repeat(4 // values.shape[0], 0).repeat(6 // values.shape[1], 1).astype(np.float64)

    for zero in (None, zero_point, np.zeros(0, np.int8)):
        weights = codes - (expand(zero) if zero is not None and zero.size else 0)
        weights = weights * expand(scale)
        expected = x @ weights.T + (bias if has_bias else 0)
        result = fully_connected_compressed(x, codes, bias, scale, zero)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        gathered = gather_compressed(codes, np.array([[3, 0], [1, 1]]), np.array(0), scale, zero)
        np.testing.assert_allclose(gathered, weights[[[3, 0], [1, 1]]], rtol=1e-5, atol=1e-5)


def test_bias_of_connected_layers_is_optional() -> None:
    x, weights, bias = np.array([[1, 2]], F32), np.array([[3, 4], [5, 6]], F32), np.array([7, 8], F32)
    assert fully_connected(x, weights).tolist() == [[11, 17]]
    assert fully_connected(x, weights, bias[:0]).tolist() == [[11, 17]]
    assert fully_connected(x, weights, bias).tolist() == [[18, 25]]


def test_large_scores_of_yolo_are_finite() -> None:
    x = np.full((1, 9, 1, 1), 1e4, F32)
    result = region_yolo_1(x, coords=4, classes=4, num=1, axis=1, end_axis=3)
    np.testing.assert_allclose(result, [[1, 1, 1e4, 1e4, 1, *[0.25] * 4]])
