"""Pooling of rectangular regions: ROIAlign, ROIAlignRotated, ROIPooling."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.checks import check_rank
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, compute_in_float32, round_half_away
from irrun.ops._support.registry import op
from irrun.ops._support.roi_sampling import (
    WORKING_SET,
    broadcast_samples,
    check_regions,
    clip_to_pixels,
    group_by_sample_count,
    place_samples,
    pool_samples,
    split_regions,
    take_valid_regions,
    to_channels_last,
)

__all__ = ["roi_align_3", "roi_align_rotated_15", "roi_pooling_2"]

#: The bytes that ROIPooling needs for each row and each column of bins of a region.
BIN_BYTES = 88
#: The values that it gathers at a time, in sizes of that part of the result.
PART_COPIES = 6


def _count_samples(call: Call) -> int | None:
    """Count the bilinear interpolation of each sample and its share of the result, unless boxes determine how many."""
    ratio = int(call.attributes["sampling_ratio"])
    return call.outputs[0].size * ratio**2 * 9 if ratio else None


@op("ROIAlign", since=3, scratch=5.5, kind="window", shape="infer_region_alignment", flops=_count_samples)
@op("ROIAlign", since=9, scratch=5.5, kind="window", shape="infer_region_alignment", flops=_count_samples)
@compute_in_float32
def roi_align_3(
    data: Array,
    rois: Array,
    batch_indices: Array,
    *,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int,
    spatial_scale: float,
    mode: Literal["avg", "max"],
    aligned_mode: Literal["asymmetric", "half_pixel_for_nn", "half_pixel"] = "asymmetric",
) -> Array:
    """Pool regions by the average or the maximum of bilinear samples in each bin.

    The maximum is at least 0 and ignores NaN, as in the reference implementation.

    Args:
        data: Floating-point, shape [N, C, H, W].
        rois: The type of `data`, shape [regions, 4]: x1, y1, x2, y2 in the coordinates of the image.
        batch_indices: Integer, shape [regions].
        pooled_h: Height of the result.
        pooled_w: Width of the result.
        sampling_ratio: Number of samples per bin along each axis; 0 for one sample per pixel of the bin.
        spatial_scale: Ratio of the size of `data` to the size of the image.
        mode: Whether samples are averaged or their maximum is computed.
        aligned_mode: Whether coordinates are shifted by half a pixel, before scaling ("half_pixel") and after it
            ("half_pixel", "half_pixel_for_nn"). "asymmetric" regions have a size of at least 1.

    Returns:
        Shape [regions, C, pooled_h, pooled_w], the type of `data`.

    Raises:
        InputError: Shapes do not match, an index is out of range, or a bin has a negative number of samples.

    Spec:
        ROIAlign-3, ROIAlign-9
    """
    _check_pooling(data, rois, pooled_h, pooled_w)
    batches = check_regions(data, rois, 4, batch_indices)
    image_offset = data.dtype.type(0.5 if aligned_mode == "half_pixel" else 0)
    map_offset = data.dtype.type(0 if aligned_mode == "asymmetric" else -0.5)
    corners = (rois + image_offset) * data.dtype.type(spatial_scale) + map_offset
    sizes = corners[:, 2:] - corners[:, :2]
    if aligned_mode == "asymmetric":
        sizes = np.maximum(sizes, 1)
    result = np.zeros((len(rois), data.shape[1], pooled_h, pooled_w), data.dtype)
    pixels = to_channels_last(data)
    for group, (count_y, count_x) in group_by_sample_count(sizes, pooled_h, pooled_w, sampling_ratio):
        ys = place_samples(corners[group, 1], sizes[group, 1], pooled_h, count_y)
        xs = place_samples(corners[group, 0], sizes[group, 0], pooled_w, count_x)
        result[group] = pool_samples(pixels, batches[group], *broadcast_samples(ys, xs), mode)
    return result


@op("ROIAlignRotated", since=15, scratch=3.25, kind="window", shape="infer_region_alignment", flops=_count_samples)
@compute_in_float32
@describes_like(roi_align_3)
def roi_align_rotated_15(
    data: Array,
    rois: Array,
    batch_indices: Array,
    *,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int,
    spatial_scale: float,
    clockwise_mode: bool = False,
) -> Array:
    """Pool rotated regions by the average of bilinear samples in each bin.

    Args:
        rois: The type of `data`, shape [regions, 5]: x and y of the center, width, height, angle in radians.
        clockwise_mode: Whether positive angles are clockwise instead of counterclockwise.

    Spec:
        ROIAlignRotated-15
    """
    _check_pooling(data, rois, pooled_h, pooled_w)
    batches = check_regions(data, rois, 5, batch_indices)
    scale = data.dtype.type(spatial_scale)
    centers = rois[:, :2] * scale - data.dtype.type(0.5)
    sizes = rois[:, 2:4] * scale
    angles = -rois[:, 4] if clockwise_mode else rois[:, 4]
    cos, sin = (f(angles)[:, None, None, None, None] for f in (np.cos, np.sin))
    center_x, center_y = (centers[:, i, None, None, None, None] for i in (0, 1))
    result = np.zeros((len(rois), data.shape[1], pooled_h, pooled_w), data.dtype)
    pixels = to_channels_last(data)
    for group, (count_y, count_x) in group_by_sample_count(sizes, pooled_h, pooled_w, sampling_ratio):
        ys = place_samples(-sizes[group, 1] / 2, sizes[group, 1], pooled_h, count_y)
        xs = place_samples(-sizes[group, 0] / 2, sizes[group, 0], pooled_w, count_x)
        y, x = broadcast_samples(ys, xs)
        rotated_y = y * cos[group] - x * sin[group] + center_y[group]
        rotated_x = y * sin[group] + x * cos[group] + center_x[group]
        result[group] = pool_samples(pixels, batches[group], rotated_y, rotated_x, "avg")
    return result


@op("ROIPooling", since=2, scratch=0, kind="window", shape="infer_region_pooling")
@compute_in_float32
def roi_pooling_2(
    data: Array,
    rois: Array,
    *,
    spatial_scale: float,
    pooled_h: int = 0,
    pooled_w: int = 0,
    method: Literal["max", "bilinear"] = "max",
    output_size: list[int] = [],
    output_roi: list[int] = [],
) -> Array:
    """Pool regions by the maximum of each bin, or by one bilinear sample per bin.

    For "max" the corners are rounded to whole pixels, and both belong to the region, as in the reference
    implementation.

    Args:
        data: Floating-point, shape [N, C, H, W].
        rois: The type of `data`, shape [regions, 5]: batch, x1, y1, x2, y2, in pixels of the image for "max", relative
            to its size for "bilinear".
        spatial_scale: Ratio of the size of `data` to the size of the image, for "max".
        pooled_h: Height of the result.
        pooled_w: Width of the result.
        method: How a bin is computed.
        output_size: Height and width of the result in files that omit `pooled_h` and `pooled_w`.
        output_roi: Name of `output_size` in newer files; takes precedence.

    Returns:
        Shape [regions, C, pooled_h, pooled_w], the type of `data`; zeros for the first region of batch -1 and all
        regions after it.

    Raises:
        InputError: Shapes do not match, or a batch is out of range.

    Spec:
        ROIPooling-1
    """
    size = output_roi or output_size
    if len(size) == 2 and not (pooled_h and pooled_w):
        pooled_h, pooled_w = size
    _check_pooling(data, rois, pooled_h, pooled_w)
    valid = take_valid_regions(rois)
    batches = check_regions(data, valid, 5)
    result = np.zeros((len(rois), data.shape[1], pooled_h, pooled_w), data.dtype)
    pool = _pool_maximum if method == "max" else _pool_bilinear
    if len(valid):
        result[: len(valid)] = pool(data, valid[:, 1:], batches, pooled_h, pooled_w, spatial_scale)
    return result


def _check_pooling(data: Array, rois: Array, pooled_h: int, pooled_w: int) -> None:
    if pooled_h < 1 or pooled_w < 1:
        raise InputError(f"pooled size is {pooled_h} x {pooled_w}, expected at least 1 x 1")
    check_rank("rois", rois, 2)
    shape = (len(rois), *data.shape[1:2], pooled_h, pooled_w)
    check_allocation(shape, data.dtype)
    values = 2 * math.prod(shape) + PART_COPIES * min(math.prod(shape), WORKING_SET)
    check_scratch(data.nbytes + values * data.itemsize + len(rois) * (pooled_h + pooled_w) * BIN_BYTES)


def _pool_maximum(data: Array, rois: Array, batches: Array, rows: int, columns: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    corners = round_half_away(rois * data.dtype.type(spatial_scale))
    top, bottom = _place_bins(corners[:, 1], corners[:, 3], rows, height)
    left, right = _place_bins(corners[:, 0], corners[:, 2], columns, width)
    is_empty = (bottom <= top)[:, :, None] | (right <= left)[:, None, :]

    # The maximum of any interval is the maximum over two overlapping windows with a power of two as length.
    level_y, level_x = _floor_log2(bottom - top), _floor_log2(right - left)
    max_level_y, max_level_x = int(level_y.max()), int(level_x.max())
    result = np.zeros((len(rois), rows, columns, data.shape[1]), data.dtype)
    last_y = np.maximum(bottom - (1 << level_y), 0)
    last_x = np.maximum(right - (1 << level_x), 0)
    first_y, first_x = np.minimum(top, height - 1), np.minimum(left, width - 1)
    table_size = (max_level_y + 1) * (max_level_x + 1) * len(data) * height * width
    check_scratch(4 * max(table_size, min(table_size * data.shape[1], WORKING_SET)) * data.itemsize)
    for channels in split_regions(data.shape[1], table_size):
        windows = _build_maximum_table(data[:, channels], max_level_y, max_level_x)
        for part in split_regions(len(rois), rows * columns * windows.shape[-1]):
            image = batches[part, None, None]
            ly, lx = level_y[part, :, None], level_x[part, None, :]
            covering = [
                windows[ly, lx, image, y[part, :, None], x[part, None, :]]
                for y in (first_y, last_y)
                for x in (first_x, last_x)
            ]
            result[part, ..., channels] = np.where(is_empty[part, ..., None], 0, np.fmax.reduce(covering))
    return np.asarray(result.transpose(0, 3, 1, 2))


def _place_bins(start: Array, end: Array, count: int, length: int) -> tuple[Array, Array]:
    """Return the first and the last + 1 pixel of each bin along one axis, [regions, count], clipped to the axis."""
    size = np.maximum(end - start + 1, 1) / start.dtype.type(count)
    edges = np.arange(count + 1, dtype=start.dtype) * size[:, None]
    first = np.floor(edges[:, :-1]) + start[:, None]
    last = np.ceil(edges[:, 1:]) + start[:, None]
    return clip_to_pixels(first, length), clip_to_pixels(last, length)


def _floor_log2(lengths: Array) -> Array:
    """Return the exponent of the largest power of two that is not above each length; 0 for empty intervals."""
    return np.frexp(np.maximum(lengths, 1).astype(np.float64))[1].astype(np.int64) - 1


def _build_maximum_table(data: Array, max_level_y: int, max_level_x: int) -> Array:
    """Compute the maxima of windows of 1, 2, 4, ... rows and columns.

    Returns:
        Shape [level of rows, level of columns, N, H, W, C]. A window starts at its pixel.
    """
    tables = [to_channels_last(data)]
    for level in range(max_level_y):
        tables.append(_double_windows(tables[-1], 1, 1 << level))
    by_level = []
    for table in tables:
        widened = [table]
        for level in range(max_level_x):
            widened.append(_double_windows(widened[-1], 2, 1 << level))
        by_level.append(np.stack(widened))
    return np.stack(by_level)


def _double_windows(table: Array, axis: int, length: int) -> Array:
    """Compute the maxima of windows of twice `length` along `axis` from the maxima of windows of `length`."""
    wider = table.copy()
    head, tail = np.moveaxis(wider, axis, 0)[:-length], np.moveaxis(table, axis, 0)[length:]
    np.fmax(head, tail, out=head)
    return np.asarray(wider)


def _pool_bilinear(data: Array, rois: Array, batches: Array, rows: int, columns: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    ys = _place_points(rois[:, 1], rois[:, 3], rows, height)[:, :, None]
    xs = _place_points(rois[:, 0], rois[:, 2], columns, width)[:, None, :]
    is_inside = (ys >= 0) & (ys <= height - 1) & (xs >= 0) & (xs <= width - 1)
    top, bottom, down = _find_neighbors(ys, height)
    left, right, across = _find_neighbors(xs, width)
    pixels = to_channels_last(data)
    result = np.zeros((len(rois), rows, columns, data.shape[1]), data.dtype)
    for part in split_regions(len(rois), rows * columns * data.shape[1]):
        image = batches[part, None, None]
        dx, dy = across[part, ..., None], down[part, ..., None]
        upper, lower = (
            _interpolate(pixels[image, y[part], left[part]], pixels[image, y[part], right[part]], dx)
            for y in (top, bottom)
        )
        result[part] = np.where(is_inside[part, ..., None], _interpolate(upper, lower, dy), 0)
    return np.asarray(result.transpose(0, 3, 1, 2))


def _interpolate(first: Array, second: Array, fraction: Array) -> Array:
    """Compute `first + (second - first) * fraction` in the memory of `second`."""
    second -= first
    second *= fraction
    second += first
    return second


def _place_points(start: Array, end: Array, count: int, length: int) -> Array:
    """Return evenly spaced points [regions, count] from `start` to `end`, relative to the axis."""
    last = start.dtype.type(length - 1)
    if count == 1:
        return np.asarray((0.5 * (start + end) * last)[:, None].astype(start.dtype))
    step = (end - start) * last / start.dtype.type(count - 1)
    points = np.arange(count, dtype=start.dtype) * step[:, None] + (start * last)[:, None]
    points[:, -1] = end * last  # rounding must not push the last point over the edge
    return np.asarray(points)


def _find_neighbors(points: Array, length: int) -> tuple[Array, Array, Array]:
    """Return the pixels below and above each point, clipped to the axis, and its distance from the lower one."""
    low, high = (clip_to_pixels(edge(points), length - 1) for edge in (np.floor, np.ceil))
    return low, high, points - low.astype(points.dtype)
