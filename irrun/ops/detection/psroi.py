"""Position-sensitive pooling of regions: each bin reads different channels."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array, compute_in_float32, round_half_away
from irrun.ops._support.registry import op
from irrun.ops._support.roi_sampling import check_regions, clip_to_pixels, split_regions, take_valid_regions

__all__ = ["deformable_psroi_pooling_1", "psroi_pooling_1"]

#: Values of regions that are padded to the same size.
MAX_GROUPED = 1 << 22


@op("PSROIPooling", since=1, scratch=8, kind="window", shape="infer_position_sensitive_pooling")
@compute_in_float32
def psroi_pooling_1(
    data: Array,
    rois: Array,
    *,
    output_dim: int,
    spatial_scale: float,
    group_size: int = 1,
    mode: Literal["average", "bilinear"] = "average",
    spatial_bins_x: int = 1,
    spatial_bins_y: int = 1,
) -> Array:
    """Pool regions position-sensitively, by the average of pixels or of bilinear samples.

    A bin outside the map is 0, as in OpenVINO's CPU plugin; the reference implementation reads the last row or column.
    A bilinear sample before the first pixel counts as 0, as in the CPU plugin.

    Args:
        data: Floating-point, shape [N, C, H, W], where C is output_dim * group_size^2 for "average" and output_dim *
            spatial_bins_x * spatial_bins_y for "bilinear".
        rois: The type of `data`, shape [regions, 5]: batch, x1, y1, x2, y2.
        output_dim: Number of channels of the result.
        spatial_scale: Scale from the coordinates of `rois` to the coordinates of `data`.
        group_size: Number of bins along each axis.
        mode: "average" averages the pixels of a bin. "bilinear" averages one sample per sub-bin, each from a different
            channel.
        spatial_bins_x: Number of sub-bins per bin along x, for "bilinear".
        spatial_bins_y: Number of sub-bins per bin along y, for "bilinear".

    Returns:
        Shape [regions, output_dim, group_size, group_size], the type of `data`; zeros for the first region of batch -1
        and all regions after it, as in OpenVINO's CPU plugin.

    Raises:
        InputError: Shapes do not match, or a batch is out of range.

    Spec:
        PSROIPooling-1
    """
    valid = take_valid_regions(rois)
    batches = check_regions(data, valid, 5)
    groups = group_size * group_size if mode == "average" else spatial_bins_x * spatial_bins_y
    if min(output_dim, groups) < 1 or data.shape[1] != output_dim * groups:
        raise InputError(f"data has {data.shape[1]} channels, expected {output_dim} * {groups}")
    if group_size < 1:
        raise InputError(f"group_size is {group_size}, expected at least 1")
    check_allocation((len(rois), output_dim, group_size, group_size), data.dtype)
    result = np.zeros((len(rois), output_dim, group_size, group_size), data.dtype)
    boxes, pooled = valid[:, 1:], result[: len(valid)]
    if mode == "average":
        pooled[:] = _pool_average(data, boxes, batches, output_dim, group_size, spatial_scale)
    else:
        sub_bins = (spatial_bins_y, spatial_bins_x)
        pooled[:] = _pool_bilinear(data, boxes, batches, output_dim, group_size, spatial_scale, sub_bins)
    return result


def _pool_average(data: Array, rois: Array, batches: Array, outputs: int, size: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    scale = data.dtype.type(spatial_scale)
    corners = round_half_away(rois)
    corners[:, 2:] += 1
    corners = corners * scale
    top, bottom = _place_bins(corners[:, 1], corners[:, 3], size, height)
    left, right = _place_bins(corners[:, 0], corners[:, 2], size, width)
    channels = np.arange(outputs * size * size).reshape(outputs, size, size)
    planes = batches[:, None, None, None] * data.shape[1] + channels
    max_rows, max_columns = (bottom - top).max(axis=1), (right - left).max(axis=1)  # negative if a region is inverted
    flat = data.reshape(-1)
    result = np.empty((len(rois), outputs, size, size), data.dtype)
    order = np.argsort(max_rows * max_columns, kind="stable")  # regions of similar size are pooled together
    max_pixels = int((max_rows * max_columns).max(initial=1))
    step = max(1, MAX_GROUPED // max(1, channels.size * max_pixels))
    for first in range(0, len(rois), step):
        regions = order[first : first + step]
        # The regions of a group are padded to the same size, which determines the order of the sums.
        row_offsets = np.arange(max_rows[regions].max())[:, None]
        column_offsets = np.arange(max_columns[regions].max())
        for part in split_regions(len(regions), channels.size * max_pixels):
            group = regions[part]
            rows = top[group, None, :, None, None, None] + row_offsets
            columns = left[group, None, None, :, None, None] + column_offsets
            is_inside = (rows < bottom[group, None, :, None, None, None]) & (
                columns < right[group, None, None, :, None, None]
            )
            rows, columns = np.minimum(rows, height - 1), np.minimum(columns, width - 1)
            indices = (planes[group, ..., None, None] * height + rows) * width + columns
            sums = np.where(is_inside, flat[indices], 0).sum(axis=(-2, -1))
            counts = is_inside.sum(axis=(-2, -1)).astype(data.dtype)
            result[group] = np.where(counts > 0, sums / counts, 0)
    return result


def _place_bins(start: Array, end: Array, count: int, length: int) -> tuple[Array, Array]:
    """Return the first and the last + 1 pixel of each bin along one axis, [regions, count], clipped to the axis."""
    size = (end - start) / start.dtype.type(count)
    edges = np.arange(count + 1, dtype=start.dtype) * size[:, None] + start[:, None]
    return clip_to_pixels(np.floor(edges[:, :-1]), length), clip_to_pixels(np.ceil(edges[:, 1:]), length)


def _pool_bilinear(
    data: Array,
    rois: Array,
    batches: Array,
    outputs: int,
    size: int,
    spatial_scale: float,
    sub_bins: tuple[int, int],
) -> Array:
    height, width = data.shape[2:]
    corners = rois * data.dtype.type(spatial_scale)
    ys = _place_points(corners[:, 1], corners[:, 3], sub_bins[0], size, height)[:, None, :, None, :, None]
    xs = _place_points(corners[:, 0], corners[:, 2], sub_bins[1], size, width)[:, None, None, :, None, :]
    sub_bin_count = sub_bins[0] * sub_bins[1]
    channels = np.arange(sub_bin_count).reshape(sub_bins) * outputs + np.arange(outputs)[:, None, None, None, None]
    planes = batches[:, None, None, None, None, None] * data.shape[1] + channels
    result = np.empty((len(rois), outputs, size, size), data.dtype)
    for part in split_regions(len(rois), result[:1].size * sub_bin_count):
        is_inside = (ys[part] >= 0) & (ys[part] < height) & (xs[part] >= 0) & (xs[part] < width)
        values = np.where(is_inside, _interpolate(data, planes[part], ys[part], xs[part]), 0)
        result[part] = values.sum(axis=(-2, -1)) / data.dtype.type(sub_bin_count)
    return result


def _place_points(start: Array, end: Array, sub_bins: int, size: int, length: int) -> Array:
    """Return the coordinates of the samples along one axis, [regions, size, sub_bins]."""
    dtype = start.dtype.type
    sub_bin_size = (end - start) / dtype(sub_bins)
    first = start[:, None] + np.arange(sub_bins, dtype=start.dtype) * sub_bin_size[:, None]
    if size == 1:
        return np.asarray(((first + first + sub_bin_size[:, None]) * dtype(length - 1) / dtype(2))[:, None, :])
    step = sub_bin_size * dtype(length - 1) / dtype(size - 1)
    offsets = np.arange(size, dtype=start.dtype) * step[:, None]
    return np.asarray(offsets[:, :, None] + (first * dtype(length - 1))[:, None, :])


def _interpolate(data: Array, planes: Array, ys: Array, xs: Array) -> Array:
    """Compute bilinear samples of planes (batch * C + channel) of `data` at coordinates that broadcast with them."""
    height, width = data.shape[2:]
    top, bottom = (clip_to_pixels(edge(ys), height - 1) for edge in (np.floor, np.ceil))
    left, right = (clip_to_pixels(edge(xs), width - 1) for edge in (np.floor, np.ceil))
    across, down = xs - left.astype(xs.dtype), ys - top.astype(ys.dtype)
    flat = data.reshape(-1)
    upper_row, lower_row = (planes * height + top) * width, (planes * height + bottom) * width
    upper = flat[upper_row + left]
    upper = upper + (flat[upper_row + right] - upper) * across
    lower = flat[lower_row + left]
    lower = lower + (flat[lower_row + right] - lower) * across
    return np.asarray(upper + (lower - upper) * down)


@op("DeformablePSROIPooling", since=1, scratch=6.5, kind="window", shape="infer_deformable_pooling")
@compute_in_float32
@describes_like(psroi_pooling_1)
def deformable_psroi_pooling_1(
    data: Array,
    rois: Array,
    offsets: Array | None = None,
    *,
    output_dim: int,
    spatial_scale: float,
    group_size: int = 1,
    mode: Literal["bilinear_deformable"] = "bilinear_deformable",
    spatial_bins_x: int = 1,
    spatial_bins_y: int = 1,
    trans_std: float = 1.0,
    part_size: int = 1,
) -> Array:
    """Pool regions position-sensitively, by the average of bilinear samples in bins that are moved by learned offsets.

    Args:
        data: Floating-point, shape [N, C, H, W], C >= output_dim * group_size^2. Additional channels are ignored.
        offsets: The type of `data`, shape [regions, 2 * offset classes, part_size, part_size], relative to the size of
            the region. Zeros if omitted. The reference implementation reads the first elements of a larger array as if
            they had this shape.
        mode: The only mode, "bilinear_deformable".
        spatial_bins_x: Number of samples per bin along x.
        spatial_bins_y: Number of samples per bin along y.
        trans_std: Factor of the offsets.
        part_size: Height and width of `offsets`.

    Returns:
        Shape [regions, output_dim, group_size, group_size], the type of `data`; zeros for regions of a negative batch.

    Spec:
        DeformablePSROIPooling-1
    """
    if rois.ndim == 2 and rois.shape[1] == 5:
        is_absent = rois[:, 0] <= -1
        rois = np.where(is_absent[:, None], 0, rois).astype(rois.dtype)
    batches = check_regions(data, rois, 5)
    size = group_size
    if size < 1 or data.shape[1] < output_dim * size * size or min(spatial_bins_x, spatial_bins_y) < 1:
        raise InputError(f"data has {data.shape[1]} channels, expected at least {output_dim} * {size} * {size}")
    check_allocation((len(rois), size, size, spatial_bins_x, spatial_bins_y), data.dtype)
    height, width = data.shape[2:]
    moves = None
    if offsets is not None:
        moves = _expand_offsets(offsets, len(rois), output_dim, size, part_size) * data.dtype.type(trans_std)
    ys, xs = _place_deformable_samples(rois, moves, size, spatial_scale, (spatial_bins_y, spatial_bins_x))
    channels = np.arange(output_dim * size * size).reshape(output_dim, size, size)[..., None, None]
    planes = batches[:, None, None, None, None, None] * data.shape[1] + channels
    result = np.zeros((len(rois), output_dim, size, size), data.dtype)
    for part in split_regions(len(rois), channels.size * spatial_bins_x * spatial_bins_y):
        x, y = xs[part], ys[part]
        is_inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
        values = _interpolate(data, planes[part], y, x)  # with the nearest pixels outside of the image
        sums = np.where(is_inside, values, 0).sum(axis=(-2, -1))
        counts = np.broadcast_to(is_inside, values.shape).sum(axis=(-2, -1)).astype(data.dtype)
        result[part] = np.where(counts > 0, sums / counts, 0)
    result[is_absent] = 0
    return result


def _place_deformable_samples(
    rois: Array, moves: Array | None, size: int, spatial_scale: float, samples: tuple[int, int]
) -> tuple[Array, Array]:
    """Return the y and x coordinates of samples, [regions, 1 or outputs, size, size, samples along y, samples along x].

    Dimensions along which coordinates do not change may be 1.

    Args:
        rois: Regions, [regions, 5].
        moves: Translation of each bin, relative to the size of the region, [regions, outputs, 2, size, size].
        size: Number of bins along each axis.
        spatial_scale: Factor of the coordinates.
        samples: Number of samples per bin along y and x.
    """
    dtype = rois.dtype.type
    corners = round_half_away(rois[:, 1:])
    corners[:, 2:] += 1
    corners = corners * dtype(spatial_scale) - dtype(0.5)
    sides = np.maximum(corners[:, 2:] - corners[:, :2], dtype(0.1))
    bins = sides / dtype(size)
    steps = np.arange(size, dtype=rois.dtype)
    xs = (corners[:, :1] + steps * bins[:, :1])[:, None, None, :]
    ys = (corners[:, 1:2] + steps * bins[:, 1:])[:, None, :, None]
    if moves is not None:
        xs = xs + moves[:, :, 0] * sides[:, 0, None, None, None]
        ys = ys + moves[:, :, 1] * sides[:, 1, None, None, None]
    distances = bins / np.array(samples[::-1], rois.dtype)
    across = np.arange(samples[1], dtype=rois.dtype) * distances[:, :1]
    down = np.arange(samples[0], dtype=rois.dtype) * distances[:, 1:]
    xs = xs[..., None, None] + across[:, None, None, None, None, :]
    ys = ys[..., None, None] + down[:, None, None, None, :, None]
    return ys, xs


def _expand_offsets(offsets: Array, regions: int, outputs: int, size: int, parts: int) -> Array:
    """Return the offsets of each bin, [regions, outputs, 2, size, size]."""
    if offsets.ndim != 4 or offsets.shape[0] != regions or min(offsets.shape[2:]) < parts or parts < 1:
        raise InputError(
            f"offsets has shape {list(offsets.shape)}, expected [{regions}, 2 * classes, {parts}, {parts}]"
        )
    classes = offsets.shape[1] // 2
    if not classes or outputs % classes:
        raise InputError(f"offsets have {classes} classes, expected a divisor of {outputs} output channels")
    part = np.arange(size) * parts // size
    label = np.arange(outputs) // (outputs // classes)
    used = offsets.reshape(-1)[: regions * classes * 2 * parts * parts]
    by_class = used.reshape(regions, classes, 2, parts, parts)
    return np.asarray(by_class[:, label][:, :, :, part][..., part])
