"""Pooling of regions, compared with loops over bins and samples."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from irrun.ops.detection.psroi import deformable_psroi_pooling_1, psroi_pooling_1
from irrun.ops.detection.roi import roi_align_3, roi_align_rotated_15, roi_pooling_2

Array = np.ndarray[Any, Any]

F32 = np.float32
HEIGHT, WIDTH = 6, 7
DATA = np.random.default_rng(5).normal(size=(2, 8, HEIGHT, WIDTH)).astype(F32)

#: Batch, x1, y1, x2, y2: inside of the map, across its borders, on a pixel, and outside.
REGIONS = np.array(
    [
        [0, 1, 1, 4, 3],
        [1, 0.3, 0.2, 6.4, 5.1],
        [0, -2.5, -1.2, 2.2, 9.3],
        [1, 2, 2, 2, 2],
        [0, 3.6, 1.4, 4.1, 5.9],
        [1, 9, 9, 11, 12],
        [0, 5, 4, 8, 7.5],
    ],
    F32,
)


def interpolate(plane: Array, y: float, x: float) -> float:
    """Return a bilinear sample of a point inside of the plane."""
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, plane.shape[0] - 1), min(left + 1, plane.shape[1] - 1)
    upper = plane[top, left] * (1 - (x - left)) + plane[top, right] * (x - left)
    lower = plane[bottom, left] * (1 - (x - left)) + plane[bottom, right] * (x - left)
    return float(upper * (1 - (y - top)) + lower * (y - top))


def sample_near(plane: Array, y: float, x: float) -> float:
    """Return a sample; 0 more than one pixel outside, otherwise the nearest point inside."""
    if not (-1 <= y <= HEIGHT and -1 <= x <= WIDTH):
        return 0.0
    return interpolate(plane, min(max(y, 0), HEIGHT - 1), min(max(x, 0), WIDTH - 1))


def pool_aligned(region: Array, rows: int, columns: int, ratio: int, scale: float, mode: str, aligned: str) -> Array:
    batch = int(region[0])
    corners = region[1:].astype(float) + (0.5 if aligned == "half_pixel" else 0)
    x1, y1, x2, y2 = corners * scale - (0 if aligned == "asymmetric" else 0.5)
    width, height = x2 - x1, y2 - y1
    if aligned == "asymmetric":
        width, height = max(width, 1), max(height, 1)
    count_y, count_x = ratio or math.ceil(height / rows), ratio or math.ceil(width / columns)
    result = np.zeros((DATA.shape[1], rows, columns))
    for c, i, j in np.ndindex(result.shape):
        samples = [
            sample_near(
                DATA[batch, c],
                y1 + (i + (k + 0.5) / count_y) * height / rows,
                x1 + (j + (m + 0.5) / count_x) * width / columns,
            )
            for k, m in itertools.product(range(count_y), range(count_x))
        ]
        if samples:
            result[c, i, j] = np.mean(samples) if mode == "avg" else max(0.0, *samples, 0.0)
    return result


@pytest.mark.parametrize("aligned", ["asymmetric", "half_pixel_for_nn", "half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
def test_aligned_pooling_averages_samples(aligned: Any, ratio: int) -> None:
    for scale, (rows, columns) in ((1.0, (2, 3)), (0.75, (1, 1))):
        result = roi_align_3(
            DATA,
            REGIONS[:, 1:],
            REGIONS[:, 0].astype(int),
            pooled_h=rows,
            pooled_w=columns,
            sampling_ratio=ratio,
            spatial_scale=scale,
            mode="avg",
            aligned_mode=aligned,
        )
        expected = [pool_aligned(region, rows, columns, ratio, scale, "avg", aligned) for region in REGIONS]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_aligned_maximum_is_that_of_weighted_pixels() -> None:
    """The reference implementation compares sums of weighted pixels, which is the maximum of the samples."""
    result = roi_align_3(
        DATA,
        REGIONS[:, 1:],
        REGIONS[:, 0].astype(int),
        pooled_h=2,
        pooled_w=2,
        sampling_ratio=2,
        spatial_scale=1.0,
        mode="max",
    )
    expected = [pool_aligned(region, 2, 2, 2, 1.0, "max", "asymmetric") for region in REGIONS]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_clockwise", [False, True])
def test_rotated_regions_are_pooled_as_rotated_maps(is_clockwise: bool) -> None:
    square = DATA[:1, :, :, :6]
    center, size = np.array([3, 3], F32), np.array([4, 4], F32)
    attributes: dict[str, Any] = {"pooled_h": 2, "pooled_w": 2, "sampling_ratio": 2, "spatial_scale": 1.0}
    for turns in range(-2, 3):
        region = np.array([[*center, *size, turns * np.pi / 2]], F32)
        result = roi_align_rotated_15(square, region, np.array([0]), clockwise_mode=is_clockwise, **attributes)
        # A region that is turned counterclockwise contains the map as if it were turned clockwise.
        turned = np.rot90(square, turns if is_clockwise else -turns, axes=(2, 3))
        corners = np.array([[1, 1, 5, 5]], F32)
        expected = roi_align_3(
            np.ascontiguousarray(turned),
            corners,
            np.array([0]),
            mode="avg",
            aligned_mode="half_pixel_for_nn",
            **attributes,
        )
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_rotated_regions_sample_along_their_axes() -> None:
    angle, (x, y, width, height) = 0.4, (5.0, 4.0, 6.0, 3.0)
    region = np.array([[x, y, width, height, angle]], F32)
    for ratio, scale in ((0, 1.0), (2, 0.5)):
        result = roi_align_rotated_15(
            DATA, region, np.array([1]), pooled_h=2, pooled_w=3, sampling_ratio=ratio, spatial_scale=scale
        )
        count_y, count_x = ratio or math.ceil(height * scale / 2), ratio or math.ceil(width * scale / 3)
        expected = np.zeros((8, 2, 3))
        for c, i, j in np.ndindex(expected.shape):
            samples = []
            for k, m in itertools.product(range(count_y), range(count_x)):
                down = scale * height * ((i + (k + 0.5) / count_y) / 2 - 0.5)
                across = scale * width * ((j + (m + 0.5) / count_x) / 3 - 0.5)
                # Counterclockwise: the axis along the width points up, the axis along the height to the right.
                sample_x = x * scale - 0.5 + across * math.cos(angle) + down * math.sin(angle)
                sample_y = y * scale - 0.5 + down * math.cos(angle) - across * math.sin(angle)
                samples.append(sample_near(DATA[1, c], sample_y, sample_x))
            expected[c, i, j] = np.mean(samples)
        np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-5)


def round_half_away(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (1, 1), (7, 8)])
def test_maximum_of_regions_is_that_of_whole_pixels(rows: int, columns: int, scale: float) -> None:
    result = roi_pooling_2(DATA, REGIONS, pooled_h=rows, pooled_w=columns, spatial_scale=scale)
    expected = np.zeros(result.shape)
    for r, c, i, j in np.ndindex(expected.shape):
        left, top, right, bottom = (round_half_away(v * scale) for v in REGIONS[r, 1:])
        height, width = F32(max(bottom - top + 1, 1)) / F32(rows), F32(max(right - left + 1, 1)) / F32(columns)
        y = [min(max(math.floor(i * height) + top, 0), HEIGHT), min(max(math.ceil((i + 1) * height) + top, 0), HEIGHT)]
        x = [min(max(math.floor(j * width) + left, 0), WIDTH), min(max(math.ceil((j + 1) * width) + left, 0), WIDTH)]
        pixels = DATA[int(REGIONS[r, 0]), c, slice(*y), slice(*x)]
        expected[r, c, i, j] = pixels.max() if pixels.size else 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (1, 1), (1, 4)])
def test_bilinear_pooling_takes_one_sample_per_bin(rows: int, columns: int) -> None:
    relative = REGIONS / np.array([1, 8, 8, 8, 8], F32)
    relative[1, 1:] = 0, 0, 1, 1
    result = roi_pooling_2(DATA, relative, pooled_h=rows, pooled_w=columns, spatial_scale=1.0, method="bilinear")
    expected = np.zeros(result.shape)
    for r, c, i, j in np.ndindex(expected.shape):
        batch, x1, y1, x2, y2 = relative[r].astype(float)
        y = (y1 + (y2 - y1) * (i / (rows - 1) if rows > 1 else 0.5)) * (HEIGHT - 1)
        x = (x1 + (x2 - x1) * (j / (columns - 1) if columns > 1 else 0.5)) * (WIDTH - 1)
        if 0 <= y <= HEIGHT - 1 and 0 <= x <= WIDTH - 1:
            expected[r, c, i, j] = interpolate(DATA[int(batch), c], y, x)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_size_of_the_result_may_be_in_a_list() -> None:
    expected = roi_pooling_2(DATA, REGIONS, pooled_h=2, pooled_w=3, spatial_scale=1.0)
    for options in ({"output_size": [2, 3]}, {"output_roi": [2, 3]}, {"output_roi": [2, 3], "output_size": [4, 4]}):
        np.testing.assert_array_equal(roi_pooling_2(DATA, REGIONS, spatial_scale=1.0, **options), expected)
    given = roi_pooling_2(DATA, REGIONS, spatial_scale=1.0, pooled_h=2, pooled_w=3, output_size=[4, 4])
    np.testing.assert_array_equal(given, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # runs ignore them
@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_position_sensitive_average_takes_a_channel_per_bin(scale: float) -> None:
    inverted = np.array([[1, 5, 5, 2, 1], [0, 5, 1, 2, 4]], F32)
    regions = np.concatenate([REGIONS, inverted])
    result = psroi_pooling_1(DATA, regions, output_dim=2, group_size=2, spatial_scale=scale)
    expected = np.zeros((len(regions), 2, 2, 2))
    for r, c, i, j in np.ndindex(expected.shape):
        x1, y1, x2, y2 = (
            F32(round_half_away(v) + k) * F32(scale) for v, k in zip(regions[r, 1:], (0, 0, 1, 1), strict=True)
        )
        height, width = (y2 - y1) / F32(2), (x2 - x1) / F32(2)
        top, bottom = math.floor(y1 + i * height), math.ceil(y1 + (i + 1) * height)
        left, right = math.floor(x1 + j * width), math.ceil(x1 + (j + 1) * width)
        rows = slice(min(max(top, 0), HEIGHT), min(max(bottom, 0), HEIGHT))
        columns = slice(min(max(left, 0), WIDTH), min(max(right, 0), WIDTH))
        pixels = DATA[int(regions[r, 0]), c * 4 + i * 2 + j, rows, columns]
        expected[r, c, i, j] = pixels.mean() if pixels.size else 0
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3])
def test_position_sensitive_samples_take_a_channel_per_sub_bin(size: int) -> None:
    relative = REGIONS / np.array([1, 8, 8, 8, 8], F32)
    bins_y, bins_x = 2, 1
    result = psroi_pooling_1(
        DATA,
        relative,
        output_dim=4,
        group_size=size,
        spatial_scale=0.9,
        mode="bilinear",
        spatial_bins_x=bins_x,
        spatial_bins_y=bins_y,
    )
    expected = np.zeros((len(relative), 4, size, size))
    for r, c, i, j in np.ndindex(expected.shape):
        x1, y1, x2, y2 = relative[r, 1:].astype(float) * 0.9
        total = 0.0
        for k, m in itertools.product(range(bins_y), range(bins_x)):
            height, width = (y2 - y1) / bins_y, (x2 - x1) / bins_x
            y0, x0 = y1 + k * height, x1 + m * width
            y = (y0 + (i / (size - 1) if size > 1 else 0.5) * height) * (HEIGHT - 1)
            x = (x0 + (j / (size - 1) if size > 1 else 0.5) * width) * (WIDTH - 1)
            if 0 <= y < HEIGHT and 0 <= x < WIDTH:
                plane = DATA[int(relative[r, 0]), (k * bins_x + m) * 4 + c]
                total += interpolate(np.pad(plane, ((0, 1), (0, 1)), "edge"), y, x)
        expected[r, c, i, j] = total / (bins_y * bins_x)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # runs ignore them
@pytest.mark.parametrize("classes", [0, 1, 2])
def test_deformable_pooling_moves_its_bins(classes: int) -> None:
    rng = np.random.default_rng(2)
    size, bins_y, bins_x, parts, scale, factor = 2, 2, 3, 3, 0.5, 0.2
    # The first samples of the last two regions are on the borders, half a pixel outside.
    regions = np.concatenate([REGIONS, np.array([[0, 14, 12, 15, 13], [1, 0, 0, 3, 3]], F32)])
    offsets = rng.uniform(-1, 1, (len(regions), 2 * classes, parts, parts)).astype(F32) if classes else None
    result = deformable_psroi_pooling_1(
        DATA,
        regions,
        offsets,
        output_dim=2,
        group_size=size,
        spatial_scale=scale,
        spatial_bins_x=bins_x,
        spatial_bins_y=bins_y,
        trans_std=factor,
        part_size=parts,
    )
    expected = np.zeros((len(regions), 2, size, size))
    for r, c, i, j in np.ndindex(expected.shape):
        corners = [round_half_away(v) for v in regions[r, 1:]]
        x1, y1 = corners[0] * scale - 0.5, corners[1] * scale - 0.5
        width = max((corners[2] + 1) * scale - 0.5 - x1, 0.1)
        height = max((corners[3] + 1) * scale - 0.5 - y1, 0.1)
        x0, y0 = x1 + j * width / size, y1 + i * height / size
        if offsets is not None:
            label = c // (2 // classes)
            shift = offsets[r, 2 * label : 2 * label + 2, i * parts // size, j * parts // size]
            x0 += shift[0] * factor * width
            y0 += shift[1] * factor * height
        samples = []
        for k, m in itertools.product(range(bins_y), range(bins_x)):
            y, x = y0 + k * height / size / bins_y, x0 + m * width / size / bins_x
            if -0.5 <= x <= WIDTH - 0.5 and -0.5 <= y <= HEIGHT - 0.5:
                plane = DATA[int(regions[r, 0]), c * size * size + i * size + j]
                samples.append(interpolate(plane, min(max(y, 0), HEIGHT - 1), min(max(x, 0), WIDTH - 1)))
        expected[r, c, i, j] = np.mean(samples) if samples else 0
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
