"""Pooling of rectangular regions: ROIAlign, ROIAlignRotated, ROIPooling."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = [
    "axis_samples",
    "before_end",
    "channels_last",
    "check_regions",
    "chunks",
    "pool_samples",
    "roi_align_3",
    "roi_align_rotated_15",
    "roi_pooling_2",
    "round_half_away",
    "sample_counts",
    "sample_grid",
]

#: Values gathered at once, so that many regions do not take memory without bound.
WORKING_SET = 1 << 22


@op("ROIAlign", since=3)
@op("ROIAlign", since=9)
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
    """Average or maximum of bilinear samples in every bin of every region.

    data: float [N, C, H, W]; rois: the same type, [regions, 4] as x1, y1, x2, y2 in the image;
    batch_indices: integer [regions].
    Returns the type of data, [regions, C, pooled_h, pooled_w].
    Raises InputError where shapes do not fit, an index is out of range, or a bin would take a negative number
    of samples.
    The maximum is never below 0 and passes over NaN, as in the reference.
    Spec: ROIAlign-3, ROIAlign-9.
    """
    _check_pooling(data, rois, pooled_h, pooled_w)
    batches = check_regions(data, rois, 4, batch_indices)
    source = data.dtype.type(0.5 if aligned_mode == "half_pixel" else 0)
    target = data.dtype.type(0 if aligned_mode == "asymmetric" else -0.5)
    corners = (rois + source) * data.dtype.type(spatial_scale) + target
    sizes = corners[:, 2:] - corners[:, :2]
    if aligned_mode == "asymmetric":
        sizes = np.maximum(sizes, 1)
    result = np.zeros((len(rois), data.shape[1], pooled_h, pooled_w), data.dtype)
    pixels = channels_last(data)
    for own, (count_y, count_x) in sample_counts(sizes, pooled_h, pooled_w, sampling_ratio):
        ys = axis_samples(corners[own, 1], sizes[own, 1], pooled_h, count_y)
        xs = axis_samples(corners[own, 0], sizes[own, 0], pooled_w, count_x)
        result[own] = pool_samples(pixels, batches[own], *sample_grid(ys, xs), mode)
    return result


@op("ROIAlignRotated", since=15)
@compute_in_float32
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
    """Average of bilinear samples in every bin of every rotated region.

    data: float [N, C, H, W]; rois: the same type, [regions, 5] as x and y of the centre, width, height and
    angle in radians, counterclockwise unless clockwise_mode is set; batch_indices: integer [regions].
    Returns the type of data, [regions, C, pooled_h, pooled_w].
    Raises InputError where shapes do not fit, an index is out of range, or a bin would take a negative number
    of samples.
    Spec: ROIAlignRotated-15.
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
    pixels = channels_last(data)
    for own, (count_y, count_x) in sample_counts(sizes, pooled_h, pooled_w, sampling_ratio):
        ys = axis_samples(-sizes[own, 1] / 2, sizes[own, 1], pooled_h, count_y)
        xs = axis_samples(-sizes[own, 0] / 2, sizes[own, 0], pooled_w, count_x)
        y, x = sample_grid(ys, xs)
        turned_y = y * cos[own] - x * sin[own] + center_y[own]
        turned_x = y * sin[own] + x * cos[own] + center_x[own]
        result[own] = pool_samples(pixels, batches[own], turned_y, turned_x, "avg")
    return result


@op("ROIPooling", since=2)
@compute_in_float32
def roi_pooling_2(
    data: Array,
    rois: Array,
    *,
    spatial_scale: float,
    pooled_h: int = 0,
    pooled_w: int = 0,
    method: Literal["max", "bilinear"] = "max",
    output_size: list[int] = [],  # noqa: B006
    output_roi: list[int] = [],  # noqa: B006
) -> Array:
    """The maximum of every bin of every region, or one bilinear sample per bin.

    data: float [N, C, H, W]; rois: the same type, [regions, 5] as batch, x1, y1, x2, y2: in the image for
    "max", parts of it for "bilinear". A region of batch -1 and all after it give zeros.
    Returns the type of data, [regions, C, pooled_h, pooled_w]; newer files give the size as `output_roi` too.
    Raises InputError where shapes do not fit or a batch is out of range.
    For "max" the corners are rounded to whole pixels, both inside the region, as in the reference.
    Spec: ROIPooling-1.
    """
    size = output_roi or output_size
    if len(size) == 2 and not (pooled_h and pooled_w):
        pooled_h, pooled_w = size
    _check_pooling(data, rois, pooled_h, pooled_w)
    valid = before_end(rois)
    batches = check_regions(data, valid, 5)
    result = np.zeros((len(rois), data.shape[1], pooled_h, pooled_w), data.dtype)
    pool = _pool_maximum if method == "max" else _pool_bilinear
    if len(valid):
        result[: len(valid)] = pool(data, valid[:, 1:], batches, pooled_h, pooled_w, spatial_scale)
    return result


def _pool_maximum(data: Array, rois: Array, batches: Array, rows: int, columns: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    corners = round_half_away(rois * data.dtype.type(spatial_scale))
    top, bottom = _bins(corners[:, 1], corners[:, 3], rows, height)
    left, right = _bins(corners[:, 0], corners[:, 2], columns, width)
    empty = (bottom <= top)[:, :, None] | (right <= left)[:, None, :]

    # Maxima over windows of 1, 2, 4 ... rows and columns; two windows that overlap cover any interval.
    level_y, level_x = _levels(bottom - top), _levels(right - left)
    tables = [channels_last(data)]
    for step in range(int(level_y.max())):
        tables.append(_widen_windows(tables[-1], 1, 1 << step))
    by_level = []
    for table in tables:
        widened = [table]
        for step in range(int(level_x.max())):
            widened.append(_widen_windows(widened[-1], 2, 1 << step))
        by_level.append(np.stack(widened))
    windows = np.stack(by_level)  # [level of rows, level of columns, N, H, W, C]

    result = np.zeros((len(rois), rows, columns, data.shape[1]), data.dtype)
    last_y = np.maximum(bottom - (1 << level_y), 0)
    last_x = np.maximum(right - (1 << level_x), 0)
    first_y, first_x = np.minimum(top, height - 1), np.minimum(left, width - 1)
    for own in chunks(len(rois), rows * columns * data.shape[1]):
        image = batches[own, None, None]
        ly, lx = level_y[own, :, None], level_x[own, None, :]
        covering = [
            windows[ly, lx, image, y[own, :, None], x[own, None, :]]
            for y in (first_y, last_y)
            for x in (first_x, last_x)
        ]
        result[own] = np.where(empty[own, ..., None], 0, np.fmax.reduce(covering))
    found: Array = result.transpose(0, 3, 1, 2)
    return found


def _bins(start: Array, end: Array, count: int, length: int) -> tuple[Array, Array]:
    """First and last + 1 position of every bin along one axis, [regions, count], within 0 and `length`."""
    size = np.maximum(end - start + 1, 1) / start.dtype.type(count)
    marks = np.arange(count + 1, dtype=start.dtype) * size[:, None]
    first = np.floor(marks[:, :-1]) + start[:, None]
    last = np.ceil(marks[:, 1:]) + start[:, None]
    return np.clip(first, 0, length).astype(np.int64), np.clip(last, 0, length).astype(np.int64)


def _levels(lengths: Array) -> Array:
    """The largest power of two (its exponent) that is no more than each length; 0 for empty ones."""
    return np.frexp(np.maximum(lengths, 1).astype(np.float64))[1].astype(np.int64) - 1


def _widen_windows(table: Array, axis: int, step: int) -> Array:
    """Maxima over windows of twice `step`, from those over windows of `step`, along `axis`."""
    wider = table.copy()
    head, tail = np.moveaxis(wider, axis, 0)[:-step], np.moveaxis(table, axis, 0)[step:]
    np.fmax(head, tail, out=head)
    found: Array = wider
    return found


def _pool_bilinear(data: Array, rois: Array, batches: Array, rows: int, columns: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    ys = _points(rois[:, 1], rois[:, 3], rows, height)[:, :, None]
    xs = _points(rois[:, 0], rois[:, 2], columns, width)[:, None, :]
    valid = (ys >= 0) & (ys <= height - 1) & (xs >= 0) & (xs <= width - 1)
    top, bottom, down = _neighbours(ys, height)
    left, right, across = _neighbours(xs, width)
    pixels = channels_last(data)
    result = np.zeros((len(rois), rows, columns, data.shape[1]), data.dtype)
    for own in chunks(len(rois), rows * columns * data.shape[1]):
        image = batches[own, None, None]
        dx, dy = across[own, ..., None], down[own, ..., None]
        upper, lower = (
            _between(pixels[image, y[own], left[own]], pixels[image, y[own], right[own]], dx) for y in (top, bottom)
        )
        result[own] = np.where(valid[own, ..., None], _between(upper, lower, dy), 0)
    found: Array = result.transpose(0, 3, 1, 2)
    return found


def _between(first: Array, second: Array, part: Array) -> Array:
    """`first + (second - first) * part`, computed in the place of `second`."""
    second -= first
    second *= part
    second += first
    return second


def _points(start: Array, end: Array, count: int, length: int) -> Array:
    """Sample positions [regions, count] from `start` to `end` (parts of the axis), both included."""
    last = start.dtype.type(length - 1)
    if count == 1:
        found: Array = (0.5 * (start + end) * last)[:, None].astype(start.dtype)
        return found
    step = (end - start) * last / start.dtype.type(count - 1)
    points: Array = np.arange(count, dtype=start.dtype) * step[:, None] + (start * last)[:, None]
    points[:, -1] = end * last  # rounding must not push the last point over the edge
    return points


def _neighbours(points: Array, length: int) -> tuple[Array, Array, Array]:
    """Positions below and above each point, kept on the axis, and how far it is from the lower one."""
    low = np.clip(np.floor(points), 0, length - 1).astype(np.int64)
    high = np.clip(np.ceil(points), 0, length - 1).astype(np.int64)
    return low, high, points - low.astype(points.dtype)


def round_half_away(x: Array) -> Array:
    """`x` rounded to whole numbers, halves away from zero."""
    whole: Array = np.trunc(x)
    found: Array = whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype)
    return found


def before_end(rois: Array) -> Array:
    """The regions before the first of batch -1, which ends the list that Proposal gives."""
    if rois.ndim == 2 and (rois[:, :1] == -1).any():
        return rois[: int((rois[:, 0] == -1).argmax())]
    return rois


def check_regions(data: Array, rois: Array, columns: int, batch_indices: Array | None = None) -> Array:
    """The batch of every region: `batch_indices`, or the first column of `rois` where they are not given.

    Raises:
        InputError: a shape does not fit, or a batch is out of range.
    """
    if data.ndim != 4 or rois.ndim != 2 or rois.shape[1] != columns:
        raise InputError(
            f"data have shape {list(data.shape)} and rois {list(rois.shape)}, "
            f"expected [N, C, H, W] and [regions, {columns}]"
        )
    batches = rois[:, 0].astype(np.int64) if batch_indices is None else batch_indices.astype(np.int64).reshape(-1)
    if len(batches) != len(rois):
        raise InputError(f"{len(batches)} batch indices for {len(rois)} regions")
    if batches.size and not 0 <= batches.min() <= batches.max() < data.shape[0]:
        raise InputError(f"batch indices go from {batches.min()} to {batches.max()}, expected below {data.shape[0]}")
    if batches.size and 0 in data.shape[2:]:
        raise InputError(f"data have shape {list(data.shape)}, expected pixels to pool")
    return batches


def _check_pooling(data: Array, rois: Array, pooled_h: int, pooled_w: int) -> None:
    if pooled_h < 1 or pooled_w < 1:
        raise InputError(f"pooled size is {pooled_h} x {pooled_w}, expected at least 1 x 1")
    check_allocation((len(rois), *data.shape[1:2], pooled_h, pooled_w), data.dtype)


def channels_last(data: Array) -> Array:
    """`data` [N, C, H, W] as a contiguous array [N, H, W, C]: a gathered pixel is one run of memory."""
    return np.ascontiguousarray(data.transpose(0, 2, 3, 1))


def chunks(count: int, values_each: int) -> list[slice]:
    """Slices that cover `count` regions, each of about WORKING_SET values."""
    step = max(1, WORKING_SET // max(values_each, 1))
    return [slice(i, i + step) for i in range(0, count, step)]


def axis_samples(start: Array, size: Array, bins: int, count: int) -> Array:
    """Positions of `count` samples in each of `bins` bins along one axis, [regions, bins, count]."""
    dtype = start.dtype.type
    bin_size = size / dtype(bins)
    distance = bin_size / dtype(count)
    steps = np.arange(count, dtype=start.dtype) + dtype(0.5)
    first = start[:, None] + np.arange(bins, dtype=start.dtype) * bin_size[:, None]
    samples: Array = first[:, :, None] + distance[:, None, None] * steps
    return samples


def sample_grid(ys: Array, xs: Array) -> tuple[Array, Array]:
    """Both coordinates of every sample, [regions, bins down, bins across, samples down, samples across]."""
    y, x = np.broadcast_arrays(ys[:, :, None, :, None], xs[:, None, :, None, :])
    return y, x


def sample_counts(sizes: Array, rows: int, columns: int, ratio: int) -> list[tuple[Array, tuple[int, int]]]:
    """Regions with equal numbers of samples per bin: their positions, and those numbers (down, across)."""
    if ratio:
        counts = np.full((len(sizes), 2), ratio, np.int64)
    else:
        bins = sizes[:, ::-1] / np.array([rows, columns], sizes.dtype)
        counts = np.ceil(bins).astype(np.int64)
    if counts.size and counts.min() < 0:
        raise InputError("a region has a negative size, so that its bins have no samples")
    check_allocation((rows, columns, *counts.max(axis=0, initial=0)), np.dtype(np.float64))
    pairs, group = np.unique(counts, axis=0, return_inverse=True)
    members = [np.flatnonzero(group.reshape(-1) == i) for i in range(len(pairs))]
    return [(own, (int(a), int(b))) for own, (a, b) in zip(members, pairs, strict=True) if a and b]


def pool_samples(pixels: Array, batches: Array, ys: Array, xs: Array, mode: str) -> Array:
    """Average or maximum (never below 0) of the bilinear samples of each bin.

    pixels: [N, H, W, C]; ys, xs: [regions, bins down, bins across, samples down, samples across]. A sample
    more than one pixel outside counts as 0; nearer ones take the pixel at the edge.
    Returns [regions, C, bins down, bins across].
    """
    _, height, width, channels = pixels.shape
    regions, rows, columns, *samples = ys.shape
    inside = (ys >= -1) & (ys <= height) & (xs >= -1) & (xs <= width)
    top, bottom, down = _edge_neighbours(ys, height)
    left, right, across = _edge_neighbours(xs, width)
    up, back = 1 - down, 1 - across
    weights = np.stack([up * back, up * across, down * back, down * across], axis=-1) * inside[..., None]
    places = np.stack([top * width + left, top * width + right, bottom * width + left, bottom * width + right], -1)
    places = np.where(inside[..., None], places, 0) + (batches * height * width).reshape(-1, 1, 1, 1, 1, 1)
    count = samples[0] * samples[1]
    weights = weights.reshape(regions, rows * columns, 4 * count)
    places = places.reshape(regions, rows * columns, 4 * count)
    flat = pixels.reshape(len(pixels) * height * width, channels)
    result = np.empty((regions, rows * columns, channels), pixels.dtype)
    for own in chunks(regions, places[0].size * channels):
        corners = flat[places[own]]
        if mode == "avg":
            result[own] = np.matmul(weights[own, :, None, :] / weights.dtype.type(count), corners)[:, :, 0]
        else:
            corners *= weights[own, ..., None]
            values = corners.reshape(len(corners), rows * columns, count, 4, channels).sum(axis=3)
            result[own] = np.fmax.reduce(values, axis=2, initial=0)
    found: Array = result.reshape(regions, rows, columns, channels).transpose(0, 3, 1, 2)
    return found


def _edge_neighbours(points: Array, length: int) -> tuple[Array, Array, Array]:
    """Positions before and after each point, and its distance from the first; points are kept inside."""
    kept = np.clip(points, 0, length - 1)
    low = kept.astype(np.int64)
    return low, np.minimum(low + 1, length - 1), kept - low.astype(kept.dtype)
