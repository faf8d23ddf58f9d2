"""Export of resizing, sampling and color conversion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, get_graph, op
from irrun.export.rules.helpers import (
    concat,
    flatten,
    gather,
    get_dimension,
    get_dimensions,
    loop,
    multiply,
    reshape,
    reshape_to,
    scalar_like,
    slice_axis,
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports
from irrun.ops._support.resize_taps import (
    ResizeAxis,
    Taps,
    compute_cubic_taps,
    compute_linear_onnx_taps,
    compute_linear_taps,
    compute_nearest_index,
    compute_pillow_taps,
    normalize_weights,
)

__all__: list[str] = []

F32 = np.float32


@exports("Interpolate-1")
def export_interpolate_1(site: Site) -> Value:
    """Export Interpolate of version 1: version 11 with other attribute names."""
    rank = site.get_rank(0)
    axes = sorted(a % rank for a in site.axes)
    begin, end = (_expand_pads(pads, axes, rank) for pads in (site.pads_begin, site.pads_end))
    mode = "linear_onnx" if site.mode == "linear" and rank < 5 else site.mode
    coordinates = "asymmetric"
    if site.align_corners:
        coordinates = "align_corners"
    elif site.mode.startswith("linear") and not any(begin + end) and not (rank == 4 and axes == [2, 3]):
        coordinates = "half_pixel"
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": "simple",
        "antialias": site.antialias,
        "cube_coeff": -0.75,
    }
    inner = Site(site.layer, site.inputs, attributes, site.outputs, site.types)
    return _resize(inner, _pad(site[0], begin, end), axes, site[1], None)


def _expand_pads(pads: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    expanded = [*pads] * rank if len(pads) == 1 else [*pads, *[0] * rank]
    return [expanded[axis] if axis in axes else 0 for axis in range(rank)]


@exports("Interpolate-4")
def export_interpolate_4(site: Site) -> Value:
    """Export Interpolate: products with weight matrices, or Resize for dynamic shapes."""
    by_size = site.shape_calculation_mode == "sizes"
    return _export_interpolate(site, site[1] if by_size else None, None if by_size else site[2], site.get(3))


@exports("Interpolate-11")
def export_interpolate_11(site: Site) -> Value:
    """Export Interpolate: products with weight matrices, or Resize for dynamic shapes."""
    by_size = site.shape_calculation_mode == "sizes"
    return _export_interpolate(site, site[1] if by_size else None, None if by_size else site[1], site.get(2))


def _export_interpolate(site: Site, sizes: Value | None, scales: Value | None, axes: Value | None) -> Value:
    rank = site.get_rank(0)
    begin, end = ([*pads, *[0] * rank][:rank] for pads in (site.pads_begin, site.pads_end))
    if axes is None:
        resized = list(range(rank))
    else:
        known = axes.read()
        if known is None:
            raise UnsupportedError("the axes are not constant")
        resized = [int(a) % rank for a in known.reshape(-1)]
    return _resize(site, _pad(site[0], begin, end), resized, sizes, scales)


def _pad(data: Value, begin: Sequence[int], end: Sequence[int]) -> Value:
    if not any((*begin, *end)):
        return data
    padded = op("Pad", data, constant([*begin, *end]), constant(0, data.type))
    if data.shape is not None:
        padded.shape = type(data.shape)(
            [d + b + e if isinstance(d, int) else -1 for d, b, e in zip(data.shape, begin, end, strict=True)]
        )
    return padded


def _resize(site: Site, data: Value, axes: Sequence[int], sizes: Value | None, scales: Value | None) -> Value:
    """Resize axes of data to sizes or by scales."""
    shape, known = data.shape, (sizes if sizes is not None else scales)
    assert shape is not None
    assert known is not None
    factors = known.read()
    lengths = [shape[axis] for axis in axes]
    if factors is None or not all(isinstance(d, int) for d in lengths):
        return _resize_dynamically(site, data, axes, sizes, scales)
    resized = []
    for axis, length, factor in zip(axes, lengths, factors.reshape(-1), strict=False):
        assert isinstance(length, int)
        if sizes is not None:
            resized.append(ResizeAxis(axis, length, int(factor), F32(factor) / F32(length)))
        else:
            scale = F32(factor)
            resized.append(ResizeAxis(axis, length, math.floor(F32(length) * (scale + F32(1e-6))), scale))
    return _resize_statically(site, data, resized)


def _resize_statically(site: Site, data: Value, axes: Sequence[ResizeAxis]) -> Value:
    mode, coordinates = site.mode, site.coordinate_transformation_mode
    if mode == "nearest":
        for axis in axes:
            index = compute_nearest_index(axis, coordinates, site.nearest_mode)
            if not np.array_equal(index, np.arange(axis.size)):
                data = gather(data, constant(index), axis.number)
        return data
    target = data.type
    if mode.endswith("_pillow"):
        for axis in reversed(axes):
            if axis.size == axis.target:
                continue
            taps = compute_pillow_taps(axis, mode == "bicubic_pillow", site.cube_coeff)
            product = _apply_taps(cast(data, "f32" if target.is_float and target.bits < 64 else "f64"), taps, axis)
            data = _round_result(product, target, is_rounded=True)
            data.shape = product.shape
        return data
    wide = cast(data, "f32") if target.name != "f64" else data
    antialias = site.antialias and any(axis.scale < 1 for axis in axes)
    for axis in axes:
        if mode == "linear":
            taps = normalize_weights(compute_linear_taps(axis, coordinates, antialias))
        elif mode == "linear_onnx":
            taps = compute_linear_onnx_taps(axis, coordinates)
        else:
            taps = compute_cubic_taps(axis, coordinates, site.cube_coeff)
        wide = _apply_taps(wide, taps, axis)
    return _round_result(wide, target, is_rounded=mode == "linear")


def _round_result(value: Value, target: ElementType, *, is_rounded: bool) -> Value:
    if target.is_float:
        return cast(value, target)
    if is_rounded:
        value = op("Floor", op("Abs", value) + 0.5) * op("Sign", value)
    else:  # sums of weights may be slightly below the exact integer
        value = value + op("Sign", value) * 1e-5
    if target.bits < 32:
        lowest = -(1 << target.bits - 1) if target.kind == "int" else 0
        value = op("Clip", value, scalar_like(value, lowest), scalar_like(value, lowest + (1 << target.bits) - 1))
    return cast(cast(value, "i64"), target)


def _apply_taps(data: Value, taps: Taps, axis: ResizeAxis) -> Value:
    """Multiply data along an axis by the matrix of weights of the taps."""
    weights = np.zeros((axis.size, axis.target))
    for index, weight in zip(taps.index, taps.weight, strict=True):
        inside = index >= 0
        np.add.at(weights, (index[inside], np.flatnonzero(inside)), weight[inside])
    if np.array_equal(weights, np.eye(axis.size)):
        return data
    rank = data.rank or 0
    order = [*(i for i in range(rank) if i != axis.number), axis.number]
    product = op("MatMul", transpose(data, order), constant(weights.astype(data.type.dtype), data.type))
    product = transpose(product, [int(i) for i in np.argsort(order)])
    if data.shape is not None:
        product.shape = type(data.shape)([axis.target if i == axis.number else d for i, d in enumerate(data.shape)])
    return product


def _resize_dynamically(
    site: Site, data: Value, axes: Sequence[int], sizes: Value | None, scales: Value | None
) -> Value:
    """Resize data of dynamic shape with ONNX's Resize, which agrees in most modes."""
    mode, coordinates = site.mode, site.coordinate_transformation_mode
    if mode.endswith("_pillow") or (mode == "linear" and site.antialias):
        raise UnsupportedError(f"mode {mode} with a dynamic shape")
    if coordinates == "tf_half_pixel_for_nn" and mode == "nearest":
        raise UnsupportedError("tf_half_pixel_for_nn with a dynamic shape")
    if sizes is not None:
        sizes = flatten(sizes)
    else:
        assert scales is not None
        scales = _nudge(reshape(cast(scales, "f32"), [-1]), data, axes)
    target = data.type
    attributes: dict[str, Any] = {
        "mode": "linear" if mode == "linear_onnx" else mode,
        "coordinate_transformation_mode": "half_pixel" if coordinates == "tf_half_pixel_for_nn" else coordinates,
    }
    if mode == "nearest":
        if site.nearest_mode == "simple":
            return _resize_each_axis(data, axes, sizes, scales, attributes)
        return op("Resize", data, None, scales, sizes, axes=axes, nearest_mode=site.nearest_mode, **attributes)
    if mode == "cubic":
        attributes["cubic_coeff_a"] = float(site.cube_coeff)
    wide = data if target.name in ("f32", "f16") else cast(data, "f32")
    result = op("Resize", wide, None, scales, sizes, axes=axes, **attributes)
    return _round_result(result, target, is_rounded=mode == "linear")


def _resize_each_axis(
    data: Value, axes: Sequence[int], sizes: Value | None, scales: Value | None, attributes: Mapping[str, Any]
) -> Value:
    """Take the nearest elements, rounding positions up along axes that become shorter and down along others."""
    for i, axis in enumerate(axes):
        scale, size = (None if v is None else slice_axis(v, i, i + 1) for v in (scales, sizes))
        if size is not None:
            is_shorter = size < get_dimension(data, axis)
        else:
            assert scale is not None
            is_shorter = scale < 1.0
        up, down = (
            op("Resize", data, None, scale, size, axes=[axis], nearest_mode=nearest, **attributes)
            for nearest in ("ceil", "floor")
        )
        data = where(is_shorter, up, down)
    return data


def _nudge(scales: Value, data: Value, axes: Sequence[int]) -> Value:
    """Add 1e-6 to the scales of axes whose new length, rounded down, would otherwise be too small by one."""
    lengths = cast(concat([get_dimension(data, axis) for axis in axes]), "f32")
    greater = scales + 1e-6
    is_enough = op("Equal", op("Floor", lengths * scales), op("Floor", lengths * greater))
    return where(is_enough, scales, greater)


@exports("GridSample-9")
def export_grid_sample(site: Site) -> Value:
    """Export GridSample, which ONNX has since opset 16."""
    data, grid = site[0], site[1]
    target = data.type
    wide = data if target.name == "f64" else cast(data, "f32")
    mode = site.mode
    if get_graph().opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    result = op(
        "GridSample", wide, cast(grid, wide.type), mode=mode, padding_mode=site.padding_mode,
        align_corners=int(site.align_corners),
    )  # fmt: skip
    return cast(result, target)


def _split_planes(site: Site, *, is_nv12: bool) -> tuple[Value, Value, Value]:
    """Return Y [N, H, W], U and V [N, H / 2, W / 2] in f32."""
    first = cast(site[0], "f32")
    if site.get(1) is not None:
        y = squeeze(first, [3])
        if is_nv12:
            uv = cast(site[1], "f32")
            return y, gather(uv, constant(0), 3), gather(uv, constant(1), 3)
        return y, squeeze(cast(site[1], "f32"), [3]), squeeze(cast(site[2], "f32"), [3])
    batch, rows, width, _ = get_dimensions(site, 0)
    height = rows // 3 * 2 if isinstance(rows, int) else rows / 3 * 2
    half = height // 2 if isinstance(height, int) else height / 2
    columns = width // 2 if isinstance(width, int) else width / 2
    plane = squeeze(first, [3])
    y, chroma = slice_axis(plane, 0, height, 1), slice_axis(plane, height, (1 << 63) - 1, 1)
    if is_nv12:
        uv = reshape_to(chroma, [batch, half, columns, 2])
        return y, gather(uv, constant(0), 3), gather(uv, constant(1), 3)
    uv = reshape_to(chroma, [batch, 2, half, columns])
    return y, gather(uv, constant(0), 1), gather(uv, constant(1), 1)


def _export_to_rgb(site: Site, *, is_nv12: bool, is_bgr: bool) -> Value:
    y, u, v = _split_planes(site, is_nv12=is_nv12)

    def repeat(plane: Value) -> Value:
        return op(
            "Resize",
            unsqueeze(plane - 128.0, [1]),
            None,
            constant(np.array([1, 1, 2, 2], F32)),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    c = (y - 16.0) * 1.164
    d, e = (squeeze(repeat(plane), [1]) for plane in (u, v))
    channels = [c + e * 1.596, c - d * 0.391 - e * 0.813, c + d * 2.018]
    if is_bgr:
        channels.reverse()
    stacked = op("Concat", *(unsqueeze(channel, [3]) for channel in channels), axis=3)
    return _clip_channel(stacked, site[0].type)


def _clip_channel(value: Value, target: ElementType) -> Value:
    value = op("Clip", value, constant(0.0), constant(255.0))
    return cast(value if target.is_float else op("Floor", value + 0.5), target)


@exports("NV12toRGB-8")
def export_nv12_to_rgb(site: Site) -> Value:
    """Export NV12toRGB."""
    return _export_to_rgb(site, is_nv12=True, is_bgr=False)


@exports("NV12toBGR-8")
def export_nv12_to_bgr(site: Site) -> Value:
    """Export NV12toBGR."""
    return _export_to_rgb(site, is_nv12=True, is_bgr=True)


@exports("I420toRGB-8")
def export_i420_to_rgb(site: Site) -> Value:
    """Export I420toRGB."""
    return _export_to_rgb(site, is_nv12=False, is_bgr=False)


@exports("I420toBGR-8")
def export_i420_to_bgr(site: Site) -> Value:
    """Export I420toBGR."""
    return _export_to_rgb(site, is_nv12=False, is_bgr=True)


@exports("RGBtoNV12-17")
def export_rgb_to_nv12(site: Site) -> list[Value]:
    """Export RGBtoNV12: each U and V is the mean of 2x2 pixels."""
    return _export_to_nv12(site, is_bgr=False)


@exports("BGRtoNV12-17")
def export_bgr_to_nv12(site: Site) -> list[Value]:
    """Export BGRtoNV12: each U and V is the mean of 2x2 pixels."""
    return _export_to_nv12(site, is_bgr=True)


def _export_to_nv12(site: Site, *, is_bgr: bool) -> list[Value]:
    data, target = cast(site[0], "f32"), site[0].type
    r, g, b = (gather(data, constant(2 - i if is_bgr else i), 3) for i in range(3))
    y = _clip_channel(r * 0.257 + g * 0.504 + b * 0.098 + 16.0, target)
    u = _clip_channel(r * -0.148 - g * 0.291 + b * 0.439 + 128.0, target)
    v = _clip_channel(r * 0.439 - g * 0.368 - b * 0.071 + 128.0, target)

    def average(plane: Value) -> Value:
        pooled = op("AveragePool", unsqueeze(cast(plane, "f32"), [1]), kernel_shape=[2, 2], strides=[2, 2])
        return unsqueeze(_clip_channel(squeeze(pooled, [1]), target), [3])

    uv = op("Concat", average(u), average(v), axis=3)
    if not site.single_plane:
        return [unsqueeze(y, [3]), uv]
    batch, _, width, _ = get_dimensions(site, 0)
    rows = reshape_to(uv, [batch, constant([-1]), width])
    return [unsqueeze(concat([y, rows], 1), [3])]


@exports("ReorgYolo-2")
def export_reorg(site: Site) -> Value:
    """Export ReorgYolo: a selection of elements at constant positions."""
    step = site.stride[0]
    channels, height, width = site.get_static_shape(0, 1)
    planes = channels // (step * step)
    block, plane = np.divmod(np.arange(channels), planes)
    rows = np.arange(height) * step + block[:, None] // step
    columns = np.arange(width) * step + block[:, None] % step
    indices = (plane[:, None] * height * step + rows)[:, :, None] * (width * step) + columns[:, None, :]
    shape = [-1, channels * step * step, height // step, width // step]
    if channels % (step * step) == 0:
        return reshape(gather(reshape(site[0], [-1, channels * height * width]), constant(indices), 1), shape)
    # Not all elements of an image are selected, but some of the next image are.
    starts = np.arange(site.get_static_shape(0)[0]) * (planes * step * step * height * width)
    positions = (starts[:, None] + indices.reshape(-1)).reshape(-1)
    return reshape(gather(reshape(site[0], [-1]), constant(positions)), shape)


@exports("RegionYolo-1", compute="f32")
def export_region(site: Site) -> Value:
    """Export RegionYolo: sigmoids of centers and objectness, and a softmax or sigmoids of classes."""
    data = site[0]
    regions = site.num if site.do_softmax else len(site.mask)
    entries = site.coords + 1 + site.classes
    dimensions = get_dimensions(site, 0)
    batch, _, height, width = dimensions
    used = slice_axis(data, 0, regions * entries, 1)
    split = reshape_to(used, [batch, regions, entries, height, width])
    last = site.coords + 1 if site.do_softmax else entries
    parts = [op("Sigmoid", slice_axis(split, 0, 2, 2))]
    if site.coords > 2:
        parts.append(slice_axis(split, 2, site.coords, 2))
    parts.append(op("Sigmoid", slice_axis(split, site.coords, last, 2)))
    if last < entries:
        parts.append(op("Softmax", slice_axis(split, last, entries, 2), axis=2))
    joined = concat(parts, 2)
    if not site.do_softmax:
        return reshape_to(joined, [batch, regions * entries, height, width])
    dimensions = [batch, regions * entries, height, width]
    first, end = site.axis % 4, site.end_axis % 4
    return reshape_to(joined, [*dimensions[:first], multiply(*dimensions[first : end + 1]), *dimensions[end + 1 :]])


@exports("GatherTree-1")
def export_gather_tree(site: Site) -> Value:
    """Export GatherTree as a loop from the last step to the first."""
    steps, parents = cast(site[0], "i64"), cast(site[1], "i64")
    end = reshape(cast(site[3], "i64"), [1])
    count = op("Shape", steps, result="i64", end=1)
    lengths = unsqueeze(op("Min", cast(site[2], "i64"), count), [1])
    width = op("Shape", steps, result="i64", start=2)
    row = op("Range", constant(0), reshape(width, []), constant(1))
    beams = op("Expand", unsqueeze(row, [0]), op("Shape", steps, result="i64", start=1))

    def run(number: Value, states: list[Value]) -> tuple[list[Value], list[Value]]:
        (beam,) = states
        time = count - 1 - number
        is_active = unsqueeze(time, [0]) < lengths
        tokens, before = (squeeze(slice_axis(v, time, time + 1, 0), [0]) for v in (steps, parents))
        value = where(is_active, op("GatherElements", tokens, beam, axis=1), end)
        parent = where(is_active, op("GatherElements", before, beam, axis=1), beam)
        return [parent], [value]

    _, (collected,) = loop(count, [beams], run, 1)
    result = slice_axis(collected, (1 << 63) - 1, -(1 << 63), 0, -1)
    ended = op("CumSum", cast(op("Equal", result, end), "i64"), constant(0), exclusive=1)
    return cast(where(ended > 0, end, result), site[0].type)
