"""Regions of interest: checks of the inputs, and pooling of bilinear samples as ROIAlign does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array

__all__ = [
    "WORKING_SET",
    "broadcast_samples",
    "check_regions",
    "clip_to_pixels",
    "group_by_sample_count",
    "place_samples",
    "pool_samples",
    "split_regions",
    "take_valid_regions",
    "to_channels_last",
]

#: Number of values gathered at a time, to limit the memory for many regions.
WORKING_SET = 1 << 19
#: Bytes that are computed for each sample of a region.
SAMPLE_SIZE = 200


def take_valid_regions(rois: Array) -> Array:
    """Return the regions before the first one of batch -1, which ends Proposal's list of regions.

    Args:
        rois: Floating-point, shape [regions, columns]; the first column is the batch.
    """
    if rois.ndim == 2 and (rois[:, :1] == -1).any():
        return rois[: int((rois[:, 0] == -1).argmax())]
    return rois


def check_regions(data: Array, rois: Array, columns: int, batch_indices: Array | None = None) -> Array:
    """Check the inputs of an operation on regions and return the batch of each region.

    Args:
        data: Feature maps, expected to be [N, C, H, W].
        rois: Regions, expected to be [regions, columns].
        columns: Expected number of columns.
        batch_indices: Batch of each region; None if it is the first column of `rois`.

    Returns:
        Batches, i64 [regions].

    Raises:
        InputError: A shape is not as expected, or a batch is out of range.
    """
    if data.ndim != 4 or rois.ndim != 2 or rois.shape[1] != columns:
        raise InputError(
            f"data has shape {list(data.shape)} and rois {list(rois.shape)}, "
            f"expected [N, C, H, W] and [regions, {columns}]"
        )
    batches = rois[:, 0].astype(np.int64) if batch_indices is None else batch_indices.astype(np.int64).reshape(-1)
    if len(batches) != len(rois):
        raise InputError(f"found {len(batches)} batch indices for {len(rois)} regions, expected one for each")
    if batches.size and not 0 <= batches.min() <= batches.max() < data.shape[0]:
        raise InputError(
            f"batch indices are between {batches.min()} and {batches.max()}, expected [0, {data.shape[0] - 1}]"
        )
    if batches.size and 0 in data.shape[2:]:
        raise InputError(f"data has shape {list(data.shape)}, expected a height and width of at least 1")
    return batches


def to_channels_last(data: Array) -> Array:
    """Transpose [N, C, H, W] to a contiguous [N, H, W, C], where a pixel is contiguous memory.

    Args:
        data: Any type, shape [N, C, H, W].
    """
    return np.ascontiguousarray(data.transpose(0, 2, 3, 1))


def clip_to_pixels(points: Array, last: int) -> Array:
    """Return the pixels at coordinates along one axis, i64 in [0, last]; NaN becomes `last`.

    Args:
        points: Whole floating-point numbers, any shape.
        last: The last pixel.
    """
    return np.asarray(np.fmax(np.fmin(points, last), 0).astype(np.int64))


def split_regions(count: int, region_size: int) -> Iterator[slice]:
    """Yield slices of about `WORKING_SET` values.

    Args:
        count: Number of regions.
        region_size: Number of values gathered for each.
    """
    step = max(1, WORKING_SET // max(region_size, 1))
    return within_time([slice(i, i + step) for i in range(0, count, step)])


def place_samples(start: Array, size: Array, bins: int, count: int) -> Array:
    """Compute the coordinates of evenly spaced samples along one axis.

    Args:
        start: First coordinate of each region, floating-point [regions].
        size: Extent of each region, [regions].
        bins: Number of bins of a region.
        count: Number of samples per bin.

    Returns:
        Shape [regions, bins, count].
    """
    dtype = start.dtype.type
    bin_size = size / dtype(bins)
    distance = bin_size / dtype(count)
    steps = np.arange(count, dtype=start.dtype) + dtype(0.5)
    bin_starts = start[:, None] + np.arange(bins, dtype=start.dtype) * bin_size[:, None]
    return np.asarray(bin_starts[:, :, None] + distance[:, None, None] * steps)


def broadcast_samples(ys: Array, xs: Array) -> tuple[Array, Array]:
    """Combine coordinates along both axes to a grid of samples.

    Args:
        ys: Vertical coordinates, [regions, rows, samples along y].
        xs: Horizontal coordinates, [regions, columns, samples along x].

    Returns:
        Both coordinates of each sample, [regions, rows, columns, samples along y, samples along x].
    """
    y, x = np.broadcast_arrays(ys[:, :, None, :, None], xs[:, None, :, None, :])
    return y, x


def group_by_sample_count(
    sizes: Array, rows: int, columns: int, sampling_ratio: int
) -> list[tuple[Array, tuple[int, int]]]:
    """Group regions with equal numbers of samples per bin, in parts of limited size.

    Args:
        sizes: Width and height of each region, floating-point [regions, 2].
        rows: Number of bins along y.
        columns: Number of bins along x.
        sampling_ratio: Number of samples per bin along each axis; 0 for one sample per pixel of the bin.

    Returns:
        Positions of the regions and the number of samples along y and x, for each part of a group that has samples.

    Raises:
        InputError: A region has a negative size.
    """
    if sampling_ratio:
        check_allocation((rows, columns, sampling_ratio, sampling_ratio, SAMPLE_SIZE), np.dtype(np.uint8))
        counts = np.full((len(sizes), 2), sampling_ratio, np.int64)
    else:
        bins = sizes[:, ::-1] / np.array([rows, columns], sizes.dtype)
        counts = np.ceil(bins).astype(np.int64)
    if counts.size and counts.min() < 0:
        raise InputError("a region has a negative size, expected a positive number of samples per bin")
    # Coordinates, weights and indices of the four neighbors of each sample take about 200 bytes.
    check_allocation((rows, columns, *counts.max(axis=0, initial=0), SAMPLE_SIZE), np.dtype(np.uint8))
    order = np.lexsort((counts[:, 1], counts[:, 0]))
    ordered = counts[order]
    starts = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    groups = []
    for positions in np.split(order, starts):
        a, b = counts[positions[0]].tolist() if len(positions) else (0, 0)
        if a and b:
            parts = split_regions(len(positions), rows * columns * a * b * SAMPLE_SIZE // 8)
            groups += [(positions[part], (a, b)) for part in parts]
    return groups


def pool_samples(pixels: Array, batches: Array, ys: Array, xs: Array, mode: str) -> Array:
    """Compute the average or the maximum of the bilinear samples of each bin.

    A sample more than one pixel outside the map counts as 0; others outside are moved to the nearest pixel.

    Args:
        pixels: Floating-point, shape [N, H, W, C].
        batches: Batch of each region, [regions].
        ys: Vertical coordinates, [regions, rows, columns, samples along y, samples along x].
        xs: Horizontal coordinates, the shape of `ys`.
        mode: "avg" or "max". The maximum is at least 0 and ignores NaN.

    Returns:
        Shape [regions, C, rows, columns].
    """
    _, height, width, channels = pixels.shape
    regions, rows, columns, *samples = ys.shape
    is_inside = (ys >= -1) & (ys <= height) & (xs >= -1) & (xs <= width)
    top, bottom, down = _find_neighbors(ys, height)
    left, right, across = _find_neighbors(xs, width)
    up, back = 1 - down, 1 - across
    weights = np.stack([up * back, up * across, down * back, down * across], axis=-1) * is_inside[..., None]
    indices = np.stack([top * width + left, top * width + right, bottom * width + left, bottom * width + right], -1)
    indices = np.where(is_inside[..., None], indices, 0) + (batches * height * width).reshape(-1, 1, 1, 1, 1, 1)
    count = samples[0] * samples[1]
    weights = weights.reshape(regions, rows * columns, 4 * count)
    indices = indices.reshape(regions, rows * columns, 4 * count)
    flat = pixels.reshape(len(pixels) * height * width, channels)
    result = np.empty((regions, rows * columns, channels), pixels.dtype)
    for part in split_regions(regions, indices[0].size * channels):
        corners = flat[indices[part]]
        if mode == "avg":
            result[part] = np.matmul(weights[part, :, None, :] / weights.dtype.type(count), corners)[:, :, 0]
        else:
            corners *= weights[part, ..., None]
            values = corners.reshape(len(corners), rows * columns, count, 4, channels).sum(axis=3)
            result[part] = np.fmax.reduce(values, axis=2, initial=0)
    return np.asarray(result.reshape(regions, rows, columns, channels).transpose(0, 3, 1, 2))


def _find_neighbors(points: Array, length: int) -> tuple[Array, Array, Array]:
    """Return the pixels before and after each point, clipped to the axis, and its distance from the first."""
    clipped = np.clip(points, 0, length - 1)
    low = clipped.astype(np.int64)
    return low, np.minimum(low + 1, length - 1), clipped - low.astype(clipped.dtype)
