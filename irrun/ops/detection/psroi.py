"""Position-sensitive pooling of regions: every bin takes a channel of its own."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops.detection.roi import before_end, check_regions, chunks, round_half_away

__all__ = ["deformable_psroi_pooling_1", "psroi_pooling_1"]


@op("PSROIPooling", since=1)
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
    """Position-sensitive average of every bin, or average of bilinear samples from a channel for each sub-bin.

    data: float [N, C, H, W], C being output_dim * group_size^2 for "average" and
    output_dim * spatial_bins_x * spatial_bins_y for "bilinear"; rois: the same type, [regions, 5] as batch, x1,
    y1, x2, y2.
    Returns the type of data, [regions, output_dim, group_size, group_size].
    Raises InputError where shapes do not fit or a batch is out of range.
    A bin outside the map gives 0, as in OpenVINO's CPU plugin; its reference takes the last row or column. As there,
    a region of batch -1 and all after it give zeros, and a bilinear sample before the first pixel counts as 0.
    Spec: PSROIPooling-1.
    """
    valid = before_end(rois)
    batches = check_regions(data, valid, 5)
    groups = group_size * group_size if mode == "average" else spatial_bins_x * spatial_bins_y
    if min(output_dim, groups) < 1 or data.shape[1] != output_dim * groups:
        raise InputError(f"data have {data.shape[1]} channels, expected {output_dim} * {groups}")
    if group_size < 1:
        raise InputError(f"group_size is {group_size}, expected at least 1")
    check_allocation((len(rois), output_dim, group_size, group_size), data.dtype)
    result = np.zeros((len(rois), output_dim, group_size, group_size), data.dtype)
    boxes, found = valid[:, 1:], result[: len(valid)]
    if mode == "average":
        found[:] = _average(data, boxes, batches, output_dim, group_size, spatial_scale)
    else:
        bins = (spatial_bins_y, spatial_bins_x)
        found[:] = _bilinear(data, boxes, batches, output_dim, group_size, spatial_scale, bins)
    return result


def _average(data: Array, rois: Array, batches: Array, outputs: int, size: int, spatial_scale: float) -> Array:
    height, width = data.shape[2:]
    scale = data.dtype.type(spatial_scale)
    corners = round_half_away(rois)
    corners[:, 2:] += 1
    corners = corners * scale
    top, bottom = _bins(corners[:, 1], corners[:, 3], size, height)
    left, right = _bins(corners[:, 0], corners[:, 2], size, width)
    channels = np.arange(outputs * size * size).reshape(outputs, size, size)
    planes = batches[:, None, None, None] * data.shape[1] + channels
    tall, wide = (bottom - top).max(axis=1, initial=0), (right - left).max(axis=1, initial=0)
    flat = data.reshape(-1)
    result = np.empty((len(rois), outputs, size, size), data.dtype)
    order = np.argsort(tall * wide, kind="stable")  # regions of like size go together
    largest = int((tall * wide).max(initial=1))
    for part in chunks(len(rois), channels.size * largest):
        own = order[part]
        rows = top[own, None, :, None, None, None] + np.arange(max(1, tall[own].max()))[:, None]
        columns = left[own, None, None, :, None, None] + np.arange(max(1, wide[own].max()))
        inside = (rows < bottom[own, None, :, None, None, None]) & (columns < right[own, None, None, :, None, None])
        rows, columns = np.minimum(rows, height - 1), np.minimum(columns, width - 1)
        places = (planes[own, ..., None, None] * height + rows) * width + columns
        sums = np.where(inside, flat[places], 0).sum(axis=(-2, -1))
        counts = inside.sum(axis=(-2, -1)).astype(data.dtype)
        result[own] = np.where(counts > 0, sums / counts, 0)
    return result


def _bins(start: Array, end: Array, count: int, length: int) -> tuple[Array, Array]:
    """First and last + 1 position of every bin along one axis, [regions, count], within 0 and `length`."""
    size = (end - start) / start.dtype.type(count)
    marks = np.arange(count + 1, dtype=start.dtype) * size[:, None] + start[:, None]
    first = np.clip(np.floor(marks[:, :-1]), 0, length)
    last = np.clip(np.ceil(marks[:, 1:]), 0, length)
    return first.astype(np.int64), last.astype(np.int64)


def _bilinear(
    data: Array,
    rois: Array,
    batches: Array,
    outputs: int,
    size: int,
    spatial_scale: float,
    bins: tuple[int, int],
) -> Array:
    height, width = data.shape[2:]
    corners = rois * data.dtype.type(spatial_scale)
    ys = _points(corners[:, 1], corners[:, 3], bins[0], size, height)[:, None, :, None, :, None]
    xs = _points(corners[:, 0], corners[:, 2], bins[1], size, width)[:, None, None, :, None, :]
    channels = np.arange(bins[0] * bins[1]).reshape(bins) * outputs + np.arange(outputs)[:, None, None, None, None]
    planes = batches[:, None, None, None, None, None] * data.shape[1] + channels
    result = np.empty((len(rois), outputs, size, size), data.dtype)
    for own in chunks(len(rois), result[:1].size * bins[0] * bins[1]):
        valid = (ys[own] >= 0) & (ys[own] < height) & (xs[own] >= 0) & (xs[own] < width)
        values = np.where(valid, _interpolate(data, planes[own], ys[own], xs[own]), 0)
        result[own] = values.sum(axis=(-2, -1)) / data.dtype.type(bins[0] * bins[1])
    return result


def _points(start: Array, end: Array, bins: int, size: int, length: int) -> Array:
    """Positions of the samples along one axis, [regions, size, bins]."""
    dtype = start.dtype.type
    bin_size = (end - start) / dtype(bins)
    first = start[:, None] + np.arange(bins, dtype=start.dtype) * bin_size[:, None]
    if size == 1:
        found: Array = ((first + first + bin_size[:, None]) * dtype(length - 1) / dtype(2))[:, None, :]
        return found
    step = bin_size * dtype(length - 1) / dtype(size - 1)
    moves = np.arange(size, dtype=start.dtype) * step[:, None]
    points: Array = moves[:, :, None] + (first * dtype(length - 1))[:, None, :]
    return points


def _interpolate(data: Array, planes: Array, ys: Array, xs: Array) -> Array:
    """Bilinear samples of the planes (batch * C + channel) of `data` at ys, xs, all of them broadcast."""
    height, width = data.shape[2:]
    top = np.clip(np.floor(ys), 0, height - 1).astype(np.int64)
    left = np.clip(np.floor(xs), 0, width - 1).astype(np.int64)
    bottom = np.clip(np.ceil(ys), 0, height - 1).astype(np.int64)
    right = np.clip(np.ceil(xs), 0, width - 1).astype(np.int64)
    across, down = xs - left.astype(xs.dtype), ys - top.astype(ys.dtype)
    flat = data.reshape(-1)
    upper_row, lower_row = (planes * height + top) * width, (planes * height + bottom) * width
    upper = flat[upper_row + left]
    upper = upper + (flat[upper_row + right] - upper) * across
    lower = flat[lower_row + left]
    lower = lower + (flat[lower_row + right] - lower) * across
    sample: Array = upper + (lower - upper) * down
    return sample


@op("DeformablePSROIPooling", since=1)
@compute_in_float32
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
    """Position-sensitive averages of bilinear samples, every bin moved by learnt offsets.

    data: float [N, output_dim * group_size^2, H, W]; rois: the same type, [regions, 5] as batch, x1, y1, x2, y2,
    a region of a negative batch giving zeros; offsets: the same type,
    [regions, 2 * offset classes, part_size, part_size], in parts of the region's size.
    Returns the type of data, [regions, output_dim, group_size, group_size].
    Raises InputError where shapes do not fit or a batch is out of range.
    Spec: DeformablePSROIPooling-1.
    """
    if rois.ndim == 2 and rois.shape[1] == 5:
        absent = rois[:, 0] <= -1
        rois = np.where(absent[:, None], 0, rois).astype(rois.dtype)
    batches = check_regions(data, rois, 5)
    size = group_size
    if size < 1 or data.shape[1] != output_dim * size * size or min(spatial_bins_x, spatial_bins_y) < 1:
        raise InputError(f"data have {data.shape[1]} channels, expected {output_dim} * {size} * {size}")
    check_allocation((len(rois), size, size, spatial_bins_x, spatial_bins_y), data.dtype)
    dtype = data.dtype.type
    height, width = data.shape[2:]
    corners = round_half_away(rois[:, 1:])
    corners[:, 2:] += 1
    corners = corners * dtype(spatial_scale) - dtype(0.5)
    sides = np.maximum(corners[:, 2:] - corners[:, :2], dtype(0.1))
    bins = sides / dtype(size)
    steps = np.arange(size, dtype=data.dtype)
    xs = (corners[:, :1] + steps * bins[:, :1])[:, None, None, :]
    ys = (corners[:, 1:2] + steps * bins[:, 1:])[:, None, :, None]
    if offsets is not None:
        moves = _offsets(offsets, len(rois), output_dim, size, part_size) * dtype(trans_std)
        xs = xs + moves[:, :, 0] * sides[:, 0, None, None, None]
        ys = ys + moves[:, :, 1] * sides[:, 1, None, None, None]
    sub = bins / np.array([spatial_bins_x, spatial_bins_y], data.dtype)
    across = np.arange(spatial_bins_x, dtype=data.dtype) * sub[:, :1]
    down = np.arange(spatial_bins_y, dtype=data.dtype) * sub[:, 1:]
    xs = xs[..., None, None] + across[:, None, None, None, None, :]
    ys = ys[..., None, None] + down[:, None, None, None, :, None]
    channels = np.arange(output_dim * size * size).reshape(output_dim, size, size)[..., None, None]
    planes = batches[:, None, None, None, None, None] * data.shape[1] + channels
    result = np.zeros((len(rois), output_dim, size, size), data.dtype)
    for own in chunks(len(rois), channels.size * spatial_bins_x * spatial_bins_y):
        x, y = xs[own], ys[own]
        valid = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
        values = _interpolate(data, planes[own], np.clip(y, 0, height - 1), np.clip(x, 0, width - 1))
        sums = np.where(valid, values, 0).sum(axis=(-2, -1))
        counts = np.broadcast_to(valid, values.shape).sum(axis=(-2, -1)).astype(data.dtype)
        result[own] = np.where(counts > 0, sums / counts, 0)
    result[absent] = 0
    return result


def _offsets(offsets: Array, regions: int, outputs: int, size: int, parts: int) -> Array:
    """The offset of every bin, [regions, outputs, 2, size, size]."""
    if offsets.ndim != 4 or offsets.shape[0] != regions or offsets.shape[2:] != (parts, parts):
        raise InputError(
            f"offsets have shape {list(offsets.shape)}, expected [{regions}, 2 * classes, {parts}, {parts}]"
        )
    classes = offsets.shape[1] // 2
    if not classes or outputs % classes:
        raise InputError(f"offsets for {classes} classes do not fit {outputs} output channels")
    part = np.arange(size) * parts // size
    label = np.arange(outputs) // (outputs // classes)
    by_class = offsets.reshape(regions, classes, 2, parts, parts)
    found: Array = by_class[:, label][:, :, :, part][..., part]
    return found
