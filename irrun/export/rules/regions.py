"""Export of pooling of regions."""

from __future__ import annotations

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, get_graph, op
from irrun.export.rules.helpers import (
    concat,
    expand,
    flatten,
    gather,
    get_dimension,
    reshape,
    scalar_like,
    slice_axis,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports

__all__ = ["pool_averages"]


class _Maps:
    """Feature maps [N, C, H, W], sampled at points.

    Args:
        data: The feature maps.
    """

    def __init__(self, data: Value) -> None:
        self.kind = data.type
        self.channels, self.height, self.width = (get_dimension(data, i) for i in (1, 2, 3))
        rows = op("Transpose", data, perm=[0, 2, 3, 1])
        self.pixels = op("Reshape", rows, concat([constant([-1]), self.channels]))
        self.flat = reshape(data, [-1])

    def clip(self, points: Value, length: Value) -> Value:
        """Return the pixels at whole coordinates along an axis, i64."""
        return cast(op("Max", op("Min", points, cast(length - 1, points.type)), scalar_like(points, 0.0)), "i64")

    def read(self, batches: Value, y: Value, x: Value) -> Value:
        """Return all channels of pixels, as the last axis."""
        return gather(self.pixels, (batches * self.height + y) * self.width + x)

    def read_planes(self, planes: Value, y: Value, x: Value) -> Value:
        """Return pixels of planes, batch * C + channel."""
        return gather(self.flat, (planes * self.height + y) * self.width + x)


def _column(rois: Value, number: int) -> Value:
    return gather(rois, constant(number), 1)


def _round_away(value: Value) -> Value:
    return op("Floor", op("Abs", value) + 0.5) * op("Sign", value)


def _range(count: Value, kind: Value) -> Value:
    return cast(op("Range", constant(0), reshape(count, []), constant(1)), kind.type)


def _place_samples(start: Value, size: Value, bins: int, ratio: int) -> tuple[Value, Value, Value]:
    """Return coordinates [regions, bins, samples], which ones are valid, and their number [regions]."""
    bin_size = size / float(bins)
    if ratio:
        counts = expand(scalar_like(size, float(ratio)), op("Shape", size, result="i64"))
        steps = constant(np.arange(ratio).astype(size.type.dtype))
    else:
        counts = op("Ceil", bin_size)
        most = op("Max", op("ReduceMax", counts, keepdims=0), scalar_like(counts, 1.0))
        steps = _range(cast(most, "i64"), size)
    distance = bin_size / op("Max", counts, scalar_like(counts, 1.0))
    numbers = constant(np.arange(bins).astype(size.type.dtype))
    starts = unsqueeze(start, [1]) + numbers * unsqueeze(bin_size, [1])
    points = unsqueeze(starts, [2]) + unsqueeze(distance, [1, 2]) * (steps + 0.5)
    return points, steps < unsqueeze(counts, [1, 2]), counts


def _pool(maps: _Maps, batches: Value, y: Value, x: Value, is_sample: Value, counts: Value, mode: str) -> Value:
    """Average samples [regions, rows, columns, samples, samples], or return their maximum."""
    height, width = cast(maps.height, y.type), cast(maps.width, y.type)
    inside = (y >= -1.0) & (y <= height) & (x >= -1.0) & (x <= width) & is_sample
    batches = unsqueeze(batches, [1, 2, 3, 4])
    weights, parts = [], []
    neighbors = []
    for points, length, size in ((y, maps.height, height), (x, maps.width, width)):
        clipped = op("Max", op("Min", points, size - 1.0), scalar_like(points, 0.0))
        low = cast(clipped, "i64")
        neighbors.append((low, op("Min", low + 1, length - 1), clipped - cast(low, y.type)))
    (top, bottom, down), (left, right, across) = neighbors
    for row, row_weight in ((top, 1.0 - down), (bottom, down)):
        for column, column_weight in ((left, 1.0 - across), (right, across)):
            weight = where(inside, row_weight * column_weight, 0.0)
            weights.append(weight)
            parts.append(maps.read(batches, row, column) * unsqueeze(weight, [-1]))
    total = op("Sum", *parts) if parts[0].type.name in ("f32", "f16") else (parts[0] + parts[1]) + (parts[2] + parts[3])
    if mode == "avg":
        sums = op("ReduceSum", total, constant([3, 4]), keepdims=0)
        result = sums / op("Max", unsqueeze(counts, [1, 2, 3]), scalar_like(sums, 1.0))
    else:
        result = op("Max", op("ReduceMax", total, constant([3, 4]), keepdims=0), scalar_like(total, 0.0))
    return op("Transpose", result, perm=[0, 3, 1, 2])


def pool_averages(
    data: Value, batches: Value, left: Value, top: Value, width: Value, height: Value, size: int, ratio: int
) -> Value:
    """Average the samples in square grids of bins over regions.

    Args:
        data: Feature maps, [N, C, H, W].
        batches: The map of each region.
        left: The left border of each region, in pixels of the map; the other arguments accordingly.
        top: See `left`.
        width: See `left`.
        height: See `left`.
        size: The number of rows and columns of bins.
        ratio: The number of samples of a bin along each axis; 0 for the number of pixels in a bin.
    """
    ys, is_y, count_y = _place_samples(top, height, size, ratio)
    xs, is_x, count_x = _place_samples(left, width, size, ratio)
    y, x = unsqueeze(ys, [2, 4]), unsqueeze(xs, [1, 3])
    return _pool(_Maps(data), batches, y, x, _combine(is_y, is_x), count_y * count_x, "avg")


@exports("ROIAlign-3", "ROIAlign-9", compute="f32")
def export_roi_align(site: Site) -> Value:
    """Export ROIAlign. Unlike in ONNX, the maximum is taken over samples."""
    data, rois, batches = site[0], cast(site[1], site[0].type), flatten(site[2])
    aligned = site.attributes.get("aligned_mode", "asymmetric")
    scale = float(np.float32(site.spatial_scale))
    rows, columns, ratio = int(site.pooled_h), int(site.pooled_w), int(site.sampling_ratio)
    if site.mode == "avg" and get_graph().opset < 22:  # onnxruntime has no kernel for later opsets
        return op(
            "RoiAlign", data, rois + 0.5 if aligned == "half_pixel" else rois, batches, mode="avg", output_height=rows,
            output_width=columns, sampling_ratio=ratio, spatial_scale=scale,
            coordinate_transformation_mode="output_half_pixel" if aligned == "asymmetric" else "half_pixel",
        )  # fmt: skip
    corners = rois + (0.5 if aligned == "half_pixel" else 0.0)
    corners = corners * scale + (0.0 if aligned == "asymmetric" else -0.5)
    x1, y1, x2, y2 = (_column(corners, i) for i in range(4))
    width, height = x2 - x1, y2 - y1
    if aligned == "asymmetric":
        width, height = (op("Max", v, scalar_like(v, 1.0)) for v in (width, height))
    ys, is_y, count_y = _place_samples(y1, height, rows, ratio)
    xs, is_x, count_x = _place_samples(x1, width, columns, ratio)
    y, x = unsqueeze(ys, [2, 4]), unsqueeze(xs, [1, 3])
    return _pool(_Maps(data), batches, y, x, _combine(is_y, is_x), count_y * count_x, site.mode)


def _combine(is_y: Value, is_x: Value) -> Value:
    """Return which of [regions, rows, columns, samples, samples] are valid, from [regions or 1, 1, samples]."""
    return unsqueeze(is_y, [2, 4]) & unsqueeze(is_x, [1, 3])


@exports("ROIAlignRotated-15", compute="f32")
def export_roi_align_rotated(site: Site) -> Value:
    """Export ROIAlignRotated."""
    data, rois, batches = site[0], cast(site[1], site[0].type), flatten(site[2])
    scale = float(np.float32(site.spatial_scale))
    rows, columns, ratio = int(site.pooled_h), int(site.pooled_w), int(site.sampling_ratio)
    center_x, center_y = (_column(rois, i) * scale - 0.5 for i in (0, 1))
    width, height = (_column(rois, i) * scale for i in (2, 3))
    angle = _column(rois, 4)
    if site.clockwise_mode:
        angle = -angle
    ys, is_y, count_y = _place_samples(-height / 2.0, height, rows, ratio)
    xs, is_x, count_x = _place_samples(-width / 2.0, width, columns, ratio)
    y, x = unsqueeze(ys, [2, 4]), unsqueeze(xs, [1, 3])
    axes = [1, 2, 3, 4]
    cosine, sine = unsqueeze(op("Cos", angle), axes), unsqueeze(op("Sin", angle), axes)
    rotated_y = y * cosine - x * sine + unsqueeze(center_y, axes)
    rotated_x = y * sine + x * cosine + unsqueeze(center_x, axes)
    return _pool(_Maps(data), batches, rotated_y, rotated_x, _combine(is_y, is_x), count_y * count_x, "avg")


def _find_valid(rois: Value) -> Value:
    """Return which regions precede the first one of batch -1."""
    is_end = cast(op("Equal", _column(rois, 0), -1.0), "i64")
    return op("Equal", op("CumSum", is_end, constant(0)), 0)


def _mask_regions(result: Value, is_valid: Value) -> Value:
    return where(unsqueeze(is_valid, [1, 2, 3]), result, 0.0)


@exports("ROIPooling-2", compute="f32")
def export_roi_pooling(site: Site) -> Value:
    """Export ROIPooling as MaxRoiPool, or by bilinear samples."""
    data, rois = site[0], cast(site[1], site[0].type)
    size = site.output_roi or site.output_size
    rows, columns = size if len(size) == 2 and not (site.pooled_h and site.pooled_w) else (site.pooled_h, site.pooled_w)
    is_valid = _find_valid(rois)
    used = where(unsqueeze(is_valid, [1]), rois, 0.0)
    if site.method == "max":
        scale = float(np.float32(site.spatial_scale))
        # The corners are rounded here, since MaxRoiPool rounds halves differently.
        boxes = _round_away(slice_axis(used, 1, 5, 1) * scale)
        result = op(
            "MaxRoiPool", data, concat([slice_axis(used, 0, 1, 1), boxes], 1), pooled_shape=[rows, columns],
            spatial_scale=1.0,
        )  # fmt: skip
        return _mask_regions(result, is_valid)
    maps = _Maps(data)
    batches = cast(_column(used, 0), "i64")

    def place(start: Value, end: Value, count: int, length: Value) -> Value:
        last = cast(length - 1, start.type)
        if count == 1:
            return unsqueeze((start + end) * 0.5 * last, [1])
        step = (end - start) * last / float(count - 1)
        numbers = constant(np.arange(count).astype(start.type.dtype))
        points = numbers * unsqueeze(step, [1]) + unsqueeze(start * last, [1])
        is_last = constant(np.arange(count) == count - 1)
        return where(is_last, unsqueeze(end * last, [1]), points)

    x1, y1, x2, y2 = (_column(used, i) for i in range(1, 5))
    y = unsqueeze(place(y1, y2, rows, maps.height), [2])
    x = unsqueeze(place(x1, x2, columns, maps.width), [1])
    value = _interpolate_pixels(maps, unsqueeze(batches, [1, 2]), y, x)
    height, width = cast(maps.height - 1, y.type), cast(maps.width - 1, y.type)
    inside = (y >= 0.0) & (y <= height) & (x >= 0.0) & (x <= width)
    value = where(unsqueeze(inside, [-1]), value, 0.0)
    return _mask_regions(op("Transpose", value, perm=[0, 3, 1, 2]), is_valid)


def _interpolate_pixels(maps: _Maps, batches: Value, y: Value, x: Value) -> Value:
    """Return bilinear samples of all channels, as the last axis."""
    top, bottom = (maps.clip(op(f, y), maps.height) for f in ("Floor", "Ceil"))
    left, right = (maps.clip(op(f, x), maps.width) for f in ("Floor", "Ceil"))
    down, across = (unsqueeze(p - cast(q, p.type), [-1]) for p, q in ((y, top), (x, left)))

    def mix(row: Value) -> Value:
        first, second = maps.read(batches, row, left), maps.read(batches, row, right)
        return first + (second - first) * across

    upper, lower = mix(top), mix(bottom)
    return upper + (lower - upper) * down


def _interpolate_planes(maps: _Maps, planes: Value, y: Value, x: Value) -> Value:
    """Return bilinear samples of planes."""
    top, bottom = (maps.clip(op(f, y), maps.height) for f in ("Floor", "Ceil"))
    left, right = (maps.clip(op(f, x), maps.width) for f in ("Floor", "Ceil"))
    down, across = y - cast(top, y.type), x - cast(left, x.type)

    def mix(row: Value) -> Value:
        first, second = maps.read_planes(planes, row, left), maps.read_planes(planes, row, right)
        return first + (second - first) * across

    upper, lower = mix(top), mix(bottom)
    return upper + (lower - upper) * down


@exports("PSROIPooling-1", compute="f32")
def export_psroi_pooling(site: Site) -> Value:
    """Export PSROIPooling."""
    data, rois = site[0], cast(site[1], site[0].type)
    outputs, size = int(site.output_dim), int(site.group_size)
    maps = _Maps(data)
    is_valid = _find_valid(rois)
    used = where(unsqueeze(is_valid, [1]), rois, 0.0)
    batches = cast(_column(used, 0), "i64")
    scale = float(np.float32(site.spatial_scale))
    boxes = slice_axis(used, 1, 5, 1)
    if site.mode == "average":
        result = _average_bins(maps, boxes, batches, outputs, size, scale)
        return _mask_regions(result, is_valid)
    corners = boxes * scale
    rows, columns = int(site.spatial_bins_y), int(site.spatial_bins_x)

    def place(start: Value, end: Value, count: int, length: Value) -> Value:
        last = cast(length - 1, start.type)
        part = (end - start) / float(count)
        first = unsqueeze(start, [1]) + unsqueeze(part, [1]) * constant(np.arange(count).astype(start.type.dtype))
        if size == 1:
            return unsqueeze((first + first + unsqueeze(part, [1])) * last / 2.0, [1])
        steps = unsqueeze(part * last / float(size - 1), [1]) * constant(np.arange(size).astype(start.type.dtype))
        return unsqueeze(steps, [2]) + unsqueeze(first * last, [1])

    x1, y1, x2, y2 = (_column(corners, i) for i in range(4))
    ys = unsqueeze(place(y1, y2, rows, maps.height), [1, 3, 5])
    xs = unsqueeze(place(x1, x2, columns, maps.width), [1, 2, 4])
    channels = np.arange(rows * columns).reshape(rows, columns) * outputs
    channels = channels + np.arange(outputs)[:, None, None, None, None]
    planes = unsqueeze(batches, [1, 2, 3, 4, 5]) * maps.channels + constant(channels.astype(np.int64))
    height, width = cast(maps.height, ys.type), cast(maps.width, ys.type)
    inside = (ys >= 0.0) & (ys < height) & (xs >= 0.0) & (xs < width)
    values = where(inside, _interpolate_planes(maps, planes, ys, xs), 0.0)
    return _mask_regions(op("ReduceSum", values, constant([4, 5]), keepdims=0) / float(rows * columns), is_valid)


def _average_bins(maps: _Maps, boxes: Value, batches: Value, outputs: int, size: int, scale: float) -> Value:
    """Average the pixels of bins with an integral image."""
    corners = _round_away(boxes) + constant(np.array([0, 0, 1, 1], boxes.type.dtype))
    corners = corners * scale
    x1, y1, x2, y2 = (_column(corners, i) for i in range(4))
    numbers = constant(np.arange(size + 1).astype(boxes.type.dtype))

    def place(start: Value, end: Value, length: Value) -> tuple[Value, Value]:
        edges = numbers * unsqueeze((end - start) / float(size), [1]) + unsqueeze(start, [1])
        first, last = op("Floor", slice_axis(edges, 0, size, 1)), op("Ceil", slice_axis(edges, 1, size + 1, 1))
        return maps.clip(first, length + 1), maps.clip(last, length + 1)

    top, bottom = (unsqueeze(v, [1, 3]) for v in place(y1, y2, maps.height))
    left, right = (unsqueeze(v, [1, 2]) for v in place(x1, x2, maps.width))
    shape = concat([constant([-1]), maps.height, maps.width])
    wide = cast(op("Reshape", maps.flat, shape), "f64")
    sums = op("CumSum", op("CumSum", wide, constant(1)), constant(2))
    sums = op("Pad", sums, constant([0, 1, 1, 0, 0, 0]))
    flat = reshape(sums, [-1])
    channels = constant(np.arange(outputs * size * size).reshape(outputs, size, size))
    planes = unsqueeze(batches, [1, 2, 3]) * maps.channels + channels
    rows, columns = maps.height + 1, maps.width + 1

    def read(y: Value, x: Value) -> Value:
        return gather(flat, (planes * rows + y) * columns + x)

    total = read(bottom, right) - read(top, right) - read(bottom, left) + read(top, left)
    area = op("Max", bottom - top, constant(0)) * op("Max", right - left, constant(0))
    mean = total / cast(op("Max", area, constant(1)), "f64")
    return cast(where(area > 0, mean, 0.0), boxes.type)


@exports("DeformablePSROIPooling-1", compute="f32")
def export_deformable_pooling(site: Site) -> Value:
    """Export DeformablePSROIPooling."""
    data, rois, offsets = site[0], cast(site[1], site[0].type), site.get(2)
    outputs, size, parts = int(site.output_dim), int(site.group_size), int(site.part_size)
    rows, columns = int(site.spatial_bins_y), int(site.spatial_bins_x)
    maps = _Maps(data)
    is_absent = _column(rois, 0) <= -1.0
    used = where(unsqueeze(is_absent, [1]), 0.0, rois)
    batches = cast(_column(used, 0), "i64")
    corners = _round_away(slice_axis(used, 1, 5, 1)) + constant(np.array([0, 0, 1, 1], rois.type.dtype))
    corners = corners * float(np.float32(site.spatial_scale)) - 0.5
    x1, y1, x2, y2 = (_column(corners, i) for i in range(4))
    width, height = (op("Max", v, scalar_like(v, 0.1)) for v in (x2 - x1, y2 - y1))
    steps = constant(np.arange(size).astype(rois.type.dtype))
    bin_x, bin_y = width / float(size), height / float(size)
    xs = unsqueeze(unsqueeze(x1, [1]) + steps * unsqueeze(bin_x, [1]), [1, 2])
    ys = unsqueeze(unsqueeze(y1, [1]) + steps * unsqueeze(bin_y, [1]), [1, 3])
    if offsets is not None:
        shape = site.get_static_shape(2)
        classes = shape[1] // 2
        if not classes or outputs % classes:
            raise UnsupportedError(f"offsets of {classes} classes for {outputs} channels")
        part = np.arange(size) * parts // size
        moves = reshape(cast(offsets, rois.type), [0, classes, 2, shape[2], shape[3]])
        moves = gather(moves, constant(np.arange(outputs) // (outputs // classes)), 1)
        moves = gather(gather(moves, constant(part), 3), constant(part), 4) * float(np.float32(site.trans_std))
        xs = xs + gather(moves, constant(0), 2) * unsqueeze(width, [1, 2, 3])
        ys = ys + gather(moves, constant(1), 2) * unsqueeze(height, [1, 2, 3])
    across = unsqueeze(bin_x / float(columns), [1]) * constant(np.arange(columns).astype(rois.type.dtype))
    down = unsqueeze(bin_y / float(rows), [1]) * constant(np.arange(rows).astype(rois.type.dtype))
    xs = unsqueeze(xs, [4, 5]) + unsqueeze(across, [1, 2, 3, 4])
    ys = unsqueeze(ys, [4, 5]) + unsqueeze(down, [1, 2, 3, 5])
    channels = np.arange(outputs * size * size).reshape(outputs, size, size, 1, 1)
    planes = unsqueeze(batches, [1, 2, 3, 4, 5]) * maps.channels + constant(channels)
    last_y, last_x = cast(maps.height, ys.type) - 1.0, cast(maps.width, xs.type) - 1.0
    inside = (xs >= -0.5) & (xs <= last_x + 0.5) & (ys >= -0.5) & (ys <= last_y + 0.5)
    zero = scalar_like(xs, 0.0)
    y, x = op("Max", op("Min", ys, last_y), zero), op("Max", op("Min", xs, last_x), zero)
    values = _interpolate_planes(maps, planes, y, x)
    values = where(inside, values, 0.0)
    sums = op("ReduceSum", values, constant([4, 5]), keepdims=0)
    counts = op("ReduceSum", cast(inside, xs.type), constant([4, 5]), keepdims=0)
    mean = where(counts > 0.0, sums / op("Max", counts, scalar_like(counts, 1.0)), 0.0)
    return _mask_regions(mean, ~is_absent)
