"""Export of convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import concat, expand, get_dimension, reshape, shape_of, squeeze, transpose, where
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array
from irrun.ops._support.windows import Windows, create_windows, expand_attribute

__all__: list[str] = []


def _get_windows(site: Site, kernel: Sequence[int]) -> Windows | None:
    """Return the windows over the data; None if a spatial dimension is dynamic."""
    spatial = site.get_shape(0)[2:]
    if any(d is None for d in spatial):
        return None
    return create_windows(
        [d for d in spatial if d is not None],
        kernel,
        site.strides,
        site.attributes.get("dilations") or [],
        site.pads_begin,
        site.pads_end,
        site.auto_pad,
        site.attributes.get("rounding_type", "floor"),
    )


def _get_dynamic_attributes(site: Site, rank: int) -> dict[str, Any]:
    """Return the attributes of windows over data of dynamic shape."""
    attributes: dict[str, Any] = {
        "strides": list(expand_attribute("strides", site.strides, rank, 1, minimum=1)),
        "dilations": list(expand_attribute("dilations", site.attributes.get("dilations") or [], rank, 1, minimum=1)),
    }
    if site.auto_pad in ("same_upper", "same_lower", "valid"):
        attributes["auto_pad"] = site.auto_pad.upper()
    else:
        begin, end = (expand_attribute(n, site.attributes[n], rank, 0) for n in ("pads_begin", "pads_end"))
        if min((*begin, *end)) < 0:
            raise UnsupportedError("negative pads with a dynamic shape")
        attributes["pads"] = [*begin, *end]
    return attributes


def _fit(data: Value, windows: Windows, spatial: Sequence[int], fill: float | None) -> tuple[Value, list[int]]:
    """Return data and pads so that exactly the windows fit.

    Args:
        data: The data.
        windows: The windows.
        spatial: The lengths of the spatial axes.
        fill: The padding value; None to keep the pads.
    """
    needed = [e - b - n for e, b, n in zip(windows.get_extent(), windows.pads_begin, spatial, strict=True)]
    begin, end = list(windows.pads_begin), needed
    crop = any(b < 0 for b in begin)
    if fill is not None or crop or any(e < 0 for e in windows.pads_end):
        pads = [0, 0, *begin, 0, 0, *end]
        if any(pads):
            value = constant(fill or 0, data.type)
            data = op("Pad", data, constant(pads), value)
        return data, [0] * (2 * len(begin))
    return data, [*begin, *(max(0, e) for e in end)]


@exports("Convolution-1", "GroupConvolution-1")
def export_convolution(site: Site) -> Value:
    """Export Convolution and GroupConvolution."""
    site.assume_rank(0, site.get_rank(1) - (site.layer.type == "GroupConvolution"))
    data, filters = site[0], site[1]
    shape = site.get_shape(1)
    groups = 1
    if site.layer.type == "GroupConvolution":
        first, second = shape[:2]
        if first is None or second is None:
            raise UnsupportedError("the number of groups is dynamic")
        groups = first
        filters = reshape(
            filters,
            [first * second, *(0 if d is None else d for d in shape[2:])]
            if None not in shape[2:]
            else [first * second, *[-1]],
        )
        shape = [first * second, *shape[2:]]
    kernel = [d for d in shape[2:] if d is not None]
    rank = site.get_rank(0) - 2
    windows = _get_windows(site, kernel) if len(kernel) == rank else None
    if windows is None:
        return op("Conv", data, filters, group=groups, **_get_dynamic_attributes(site, rank))
    data, pads = _fit(data, windows, [d for d in site.get_shape(0)[2:] if d is not None], None)
    return op(
        "Conv", data, filters, group=groups, kernel_shape=kernel, strides=list(windows.strides),
        dilations=list(windows.dilations), pads=pads,
    )  # fmt: skip


@exports("ConvolutionBackpropData-1", "GroupConvolutionBackpropData-1")
def export_transposed_convolution(site: Site) -> Value:
    """Export transposed convolutions."""
    site.assume_rank(0, site.get_rank(1) - (site.layer.type == "GroupConvolutionBackpropData"))
    data, filters = site[0], site[1]
    groups = 1
    shape = site.get_shape(1)
    if site.layer.type == "GroupConvolutionBackpropData":
        static = site.get_static_shape(1)
        groups = static[0]
        shape = [static[0] * static[1], *static[2:]]
        filters = reshape(filters, [static[0] * static[1], *static[2:]])
    kernel = [d for d in shape[2:] if d is not None]
    rank = site.get_rank(0) - 2
    if len(kernel) != rank:
        raise UnsupportedError("the kernel has a dynamic shape")
    strides = list(expand_attribute("strides", site.strides, rank, 1, minimum=1))
    dilations = list(expand_attribute("dilations", site.dilations, rank, 1, minimum=1))
    padding = list(expand_attribute("output_padding", site.output_padding, rank, 0))
    begin, end = [0] * rank, [0] * rank
    if site.auto_pad in ("explicit", "notset"):
        begin = list(expand_attribute("pads_begin", site.pads_begin, rank, 0))
        end = list(expand_attribute("pads_end", site.pads_end, rank, 0))
    attributes: dict[str, Any] = {"group": groups, "kernel_shape": kernel, "strides": strides, "dilations": dilations}
    spatial = site.get_shape(0)[2:]
    if None in spatial:
        if site.get(2) is not None or min(begin + end) < 0:
            raise UnsupportedError("the output shape for data of dynamic shape")
        return op("ConvTranspose", data, filters, **attributes, pads=[*begin, *end], output_padding=padding)
    extent = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(spatial, strides, kernel, dilations, strict=True) if n is not None
    ]  # fmt: skip
    out = [n + p - b - e for n, p, b, e in zip(extent, padding, begin, end, strict=True)]
    if site.get(2) is not None:
        out = site.read_integers(2)
        if site.auto_pad in ("same_upper", "same_lower"):
            total = [max(n + p - o, 0) for n, p, o in zip(extent, padding, out, strict=True)]
            begin = [t - t // 2 if site.auto_pad == "same_upper" else t // 2 for t in total]
    after = [n - b - o for n, b, o in zip(extent, begin, out, strict=True)]  # cropped at the end
    if min(begin + after) >= 0:
        return op("ConvTranspose", data, filters, **attributes, pads=[*begin, *after])
    full = op("ConvTranspose", data, filters, **attributes)
    pads = [0, 0, *(-b for b in begin), 0, 0, *(-a for a in after)]
    return op("Pad", full, constant(pads), constant(0, full.type))


@exports("DeformableConvolution-1", "DeformableConvolution-8", compute="f32")
def export_deformable_convolution(site: Site) -> Value:
    """Export DeformableConvolution.

    Without interpolation padding, the last row and column extend beyond the border, and points outside the data
    are moved to where ONNX reads zeros.
    """
    data, offsets, filters, mask = site[0], site[1], site[2], site.get(3)
    target = data.type
    if not target.is_float:
        data, offsets, filters = cast(data, "f32"), cast(offsets, "f32"), cast(filters, "f32")
        mask = None if mask is None else cast(mask, "f32")
    spatial, kernel = site.get_static_shape(0, 2), site.get_static_shape(2, 2)
    windows = create_windows(
        spatial, kernel, site.strides, site.dilations, site.pads_begin, site.pads_end, site.auto_pad
    )
    pads = [*windows.pads_begin, *windows.pads_end]
    if not site.attributes.get("bilinear_interpolation_pad", False):
        batch, height, width = site.get_shape(1)[0], *windows.output_shape
        taps = math.prod(kernel)
        split = [-1 if batch is None else batch, site.deformable_group, taps, 2, height, width]
        shifts = reshape(offsets, split)
        grid = _make_grid(windows).reshape(1, 1, taps, 2, height, width).astype(data.type.dtype)
        points = shifts + grid
        sizes = constant(np.array(spatial, data.type.dtype).reshape(1, 1, 1, 2, 1, 1))
        inside = op("ReduceMin", cast((points >= 0.0) & (points < sizes), "i32"), constant([3]), keepdims=1)
        outside = constant(-(grid + 100.0))
        # The last row and column extend beyond the border: points there get the border values.
        limits = constant((np.array(spatial) - 1).reshape(1, 1, 1, 2, 1, 1) - grid)
        limits = cast(limits, data.type)
        shifts = where(cast(inside, "boolean"), op("Min", shifts, limits), outside)
        offsets = reshape(shifts, [split[0], site.deformable_group * taps * 2, height, width])
    result = op(
        "DeformConv", data, filters, offsets, None, mask, kernel_shape=kernel, strides=list(windows.strides),
        dilations=list(windows.dilations), pads=pads, group=site.group, offset_group=site.deformable_group,
    )  # fmt: skip
    return cast(result, target)


def _make_grid(windows: Windows) -> Array:
    """Return the coordinates of taps without offsets, shape [taps, 2, windows...]."""
    along = [
        (np.arange(k) * d - b)[:, np.newaxis] + np.arange(n) * s
        for k, d, b, n, s in zip(
            windows.kernel, windows.dilations, windows.pads_begin, windows.output_shape, windows.strides, strict=True
        )
    ]
    shape = (*windows.kernel, *windows.output_shape)
    y = np.broadcast_to(along[0][:, np.newaxis, :, np.newaxis], shape)
    x = np.broadcast_to(along[1][np.newaxis, :, np.newaxis, :], shape)
    taps = math.prod(windows.kernel)
    return np.stack([y.reshape(taps, *windows.output_shape), x.reshape(taps, *windows.output_shape)], axis=1)


def _get_lowest(element_type: ElementType) -> float | int:
    if element_type.is_float:
        return float(np.finfo(np.float32 if element_type.bits < 64 else np.float64).min)
    return int(np.iinfo(element_type.dtype).min)


def _fits_dynamically(site: Site, kernel: Sequence[int], *, counts_pads: bool = False) -> bool:
    """Return whether ONNX has the same windows over data of dynamic shape, with the same element counts."""
    attributes = _get_dynamic_attributes(site, len(kernel))
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"], strict=True)]
    pads = attributes.get("pads", [0] * (2 * len(kernel)))
    if any(p >= k for p, k in zip(pads, [*kernel, *kernel], strict=True)):
        return False
    if site.auto_pad in ("same_upper", "same_lower"):
        return extent == list(kernel)
    if site.rounding_type == "floor":
        return True
    if counts_pads:
        return False
    # ONNX omits windows that start in the padding after the data.
    ends = zip(pads[len(kernel) :], attributes["strides"], extent, strict=True)
    return site.rounding_type == "ceil_torch" or all(p + s <= e for p, s, e in ends)


def _pad_dynamically(
    site: Site, kernel: Sequence[int], fill: float, data: Value
) -> tuple[Value, Value, Callable[[Value], Value]]:
    """Pad data of dynamic shape so that exactly the windows fit.

    Args:
        site: The layer.
        kernel: The kernel.
        fill: The value of the padding.
        data: The data.

    Returns:
        The padded data, the amounts, and a function that removes windows outside the result.
    """
    rank = len(kernel)
    attributes = _get_dynamic_attributes(site, rank)
    begin, end, counts = [], [], []
    for i, (k, s, d) in enumerate(zip(kernel, attributes["strides"], attributes["dilations"], strict=True)):
        length = get_dimension(data, i + 2)
        if site.auto_pad in ("same_upper", "same_lower"):
            windows = (length + (s - 1)) / s
            total = op("Max", (windows - 1) * s + ((k - 1) * d + 1) - length, constant(0))
            halves = [total / 2, total - total / 2]
            before, after = halves if site.auto_pad == "same_upper" else halves[::-1]
        else:
            pads = attributes.get("pads", [0] * (2 * rank))
            before, after = constant([pads[i]]), constant([pads[rank + i]])
            if site.rounding_type != "floor":
                after = after + (s - 1)
            windows = (length + before + (s - 1)) / s
        begin.append(before)
        end.append(after)
        counts.append(windows)
    nothing = constant([0, 0])
    amounts = concat([nothing, *begin, nothing, *end])

    def crop(result: Value) -> Value:
        if site.rounding_type != "ceil_torch" or site.auto_pad in ("same_upper", "same_lower"):
            return result
        return op("Slice", result, constant([0] * rank), concat(counts), constant(list(range(2, rank + 2))))

    return op("Pad", data, amounts, constant(fill, data.type)), amounts, crop


@exports("MaxPool-1", "MaxPool-8", "MaxPool-14", compute="f32")
def export_max_pool(site: Site) -> list[Value]:
    """Export MaxPool. Indices count from an axis on."""
    site.assume_rank(0, len(site.kernel) + 2)
    data, kernel = site[0], list(site.kernel)
    has_indices = len(site.types) > 1
    windows = _get_windows(site, kernel)
    rank = len(kernel)
    narrow = data.type
    if narrow.is_integer and narrow.name not in ("u8", "i8"):
        data = cast(data, "f64")
    spatial = [d for d in site.get_shape(0)[2:] if d is not None]
    attributes: dict[str, Any]
    if windows is None:
        attributes = _get_dynamic_attributes(site, rank)
        attributes["ceil_mode"] = int(site.rounding_type != "floor")
        if not _fits_dynamically(site, kernel):
            if has_indices:
                raise UnsupportedError("indices of such windows with a dynamic shape")
            padded, _, crop = _pad_dynamically(site, kernel, _get_lowest(narrow), data)
            del attributes["ceil_mode"]
            attributes |= {"auto_pad": None, "pads": None}
            return [cast(crop(op("MaxPool", padded, kernel_shape=kernel, **attributes)), narrow)]
    else:
        fitted, pads = _fit(data, windows, spatial, None)
        is_wide = any(
            p >= (k - 1) * d + 1 or p >= k for p, k, d in zip(pads, kernel * 2, windows.dilations * 2, strict=True)
        )
        if is_wide and not has_indices:
            fitted, pads = _fit(data, windows, spatial, _get_lowest(narrow))
        if is_wide and has_indices:
            raise UnsupportedError("indices of windows in the padding")
        data = fitted
        attributes = {"strides": list(windows.strides), "dilations": list(windows.dilations), "pads": pads}
    outputs = ops("MaxPool", data, outputs=2 if has_indices else 1, kernel_shape=kernel, result="i64", **attributes)
    values = cast(outputs[0], narrow)
    if not has_indices:
        return [values]
    indices, axis = outputs[1], site.axis % (rank + 2)
    if axis:
        size = op("ReduceProd", op("Shape", site[0], result="i64", start=axis), keepdims=0)
        indices = op("Mod", indices, op("Max", size, constant(1)))
    return [values, cast(indices, site.index_element_type)]


@exports("AvgPool-1", "AvgPool-14", "AvgPool-16", compute="f32")
def export_avg_pool(site: Site) -> Value:
    """Export AvgPool."""
    site.assume_rank(0, len(site.kernel) + 2)
    data, kernel = site[0], list(site.kernel)
    target = data.type
    if not target.is_float:
        data = cast(data, "f32")
    windows = _get_windows(site, kernel)
    rank = len(kernel)
    if windows is None:
        attributes = _get_dynamic_attributes(site, rank)
        attributes["ceil_mode"] = int(site.rounding_type != "floor")
        attributes["count_include_pad"] = int(not site.exclude_pad)
        if not _fits_dynamically(site, kernel, counts_pads=not site.exclude_pad):
            return _average_dynamically(site, data, kernel, target)
    else:
        includes = not site.exclude_pad and any((*windows.pads_begin, *windows.pads_end))
        spatial = [d for d in site.get_shape(0)[2:] if d is not None]
        data, pads = _fit(data, windows, spatial, 0.0 if includes else None)
        attributes = {"strides": list(windows.strides), "pads": pads, "dilations": list(windows.dilations)}
        if any(p >= k for p, k in zip(pads, kernel * 2, strict=True)):
            return _divide_sums(data, windows, kernel, spatial, target)
    if attributes.get("dilations") == [1] * rank:
        del attributes["dilations"]
    result = op("AveragePool", data, kernel_shape=kernel, **attributes)
    return _round_mean(result, target)


def _round_mean(mean: Value, target: ElementType) -> Value:
    return cast(op("Round", mean) if target.bits == 8 and not target.is_float else mean, target)


def _average_dynamically(site: Site, data: Value, kernel: Sequence[int], target: ElementType) -> Value:
    """Average windows over padded data, divided by the share of elements that count."""
    padded, amounts, crop = _pad_dynamically(site, kernel, 0.0, data)
    rank = len(kernel)
    attributes = _get_dynamic_attributes(site, rank) | {"kernel_shape": list(kernel), "auto_pad": None, "pads": None}
    if attributes["dilations"] == [1] * rank:
        del attributes["dilations"]
    means = op("AveragePool", padded, **attributes)
    declared = any((*site.pads_begin, *site.pads_end)) and site.auto_pad in ("explicit", "notset")
    if site.exclude_pad or not (declared or site.auto_pad in ("same_upper", "same_lower")):
        shape = concat([constant([1, 1]), op("Shape", data, result="i64", start=2)])
        ones = op("Pad", expand(constant(1, data.type), shape), amounts)
        means = _divide_means(means, op("AveragePool", ones, **attributes), kernel, target)
    return _round_mean(crop(means), target)


def _divide_means(means: Value, shares: Value, kernel: Sequence[int], target: ElementType) -> Value:
    """Divide means over whole windows by the shares of elements that count. Sums of integers are divided exactly."""
    if target.is_integer:
        means, shares = (op("Round", value * float(math.prod(kernel))) for value in (means, shares))
    return means / op("Max", shares, constant(1e-30, means.type))


def _divide_sums(
    data: Value, windows: Windows, kernel: Sequence[int], spatial: Sequence[int], target: ElementType
) -> Value:
    """Average windows that may lie in the padding: the sum of data divided by the number of elements."""
    sums, _ = _fit(data, windows, spatial, 0.0)
    ones = np.pad(
        np.ones((1, 1, *spatial), np.float32),
        [(0, 0), (0, 0), *((b, max(0, e - b - n)) for e, b, n in zip(
            windows.get_extent(), windows.pads_begin, spatial, strict=True))],
    )  # fmt: skip
    attributes: dict[str, Any] = {
        "kernel_shape": list(kernel), "strides": list(windows.strides), "dilations": list(windows.dilations)
    }  # fmt: skip
    means = op("AveragePool", sums, **attributes)
    shares = op("AveragePool", constant(ones.astype(data.type.dtype)), **attributes)
    return _round_mean(_divide_means(means, shares, kernel, target), target)


def _get_adaptive_windows(size: int, count: int) -> tuple[Array, Array]:
    number = np.arange(count)
    return number * size // count, -(-(number + 1) * size // count)


@exports("AdaptiveAvgPool-8", compute="f32")
def export_adaptive_avg_pool(site: Site) -> Value:
    """Export AdaptiveAvgPool: a product with a weight matrix along each axis."""
    data, counts = site[0], site.read_integers(1)
    rank = site.get_rank(0)
    if all(c == 1 for c in counts):
        return op("ReduceMean", data, constant(list(range(2, rank))), keepdims=1)
    spatial = site.get_static_shape(0, 2)
    for i, (size, count) in enumerate(zip(spatial, counts, strict=True), 2):
        start, end = _get_adaptive_windows(size, count)
        position = np.arange(size)[:, np.newaxis]
        weights = ((position >= start) & (position < end)) / (end - start)
        order = [*(j for j in range(rank) if j != i), i]
        product = op("MatMul", transpose(data, order), constant(weights.astype(data.type.dtype)))
        data = transpose(product, [int(j) for j in np.argsort(order)])
    return data


@exports("AdaptiveMaxPool-8", compute="f32")
def export_adaptive_max_pool(site: Site) -> list[Value]:
    """Export AdaptiveMaxPool: the maxima along one axis after another, and their indices."""
    values, counts = site[0], site.read_integers(1)
    rank, spatial = site.get_rank(0), site.get_static_shape(0, 2)
    positions = np.arange(math.prod(spatial), dtype=np.int64).reshape(1, 1, *spatial)
    indices = expand(constant(positions), shape_of(site[0]))
    for axis in reversed(range(2, rank)):
        start, end = _get_adaptive_windows(spatial[axis - 2], counts[axis - 2])
        members = np.minimum(start[:, np.newaxis] + np.arange(max((end - start).max(), 1)), end[:, np.newaxis] - 1)
        candidates = op("Gather", values, constant(members.astype(np.int64)), axis=axis)
        numbers = op("Gather", indices, constant(members.astype(np.int64)), axis=axis)
        best = op("ArgMax", candidates, axis=axis + 1, keepdims=1, result="i64")
        values = squeeze(op("GatherElements", candidates, best, axis=axis + 1), [axis + 1])
        indices = squeeze(op("GatherElements", numbers, best, axis=axis + 1), [axis + 1])
    return [values, cast(indices, site.index_element_type)]


@exports("BinaryConvolution-1")
def export_binary_convolution(site: Site) -> Value:
    """Export BinaryConvolution: a convolution of signs, with sums from minus to plus the number of taps."""
    filters = site[1].read()
    if filters is None:
        raise UnsupportedError("the binary filters are not constant")
    bits = filters.view(np.uint8).astype(np.float32) if filters.dtype.fields else filters.astype(np.float32)
    kernel = list(bits.shape[2:])
    windows = _get_windows(site, kernel)
    if windows is None:
        raise UnsupportedError("binary convolutions with dynamic shapes")
    if site.pad_value not in (0, 1) and any((*windows.pads_begin, *windows.pads_end)):
        raise UnsupportedError(f"a pad_value of {site.pad_value}, expected 0 or 1")
    data = site[0]
    signs = cast(data, "f32") * 2.0 - 1.0
    spatial = [d for d in site.get_shape(0)[2:] if d is not None]
    padded, _ = _fit(signs, windows, spatial, float(site.pad_value) * 2.0 - 1.0)
    result = op(
        "Conv", padded, constant(bits * 2 - 1), kernel_shape=kernel, strides=list(windows.strides),
        dilations=list(windows.dilations),
    )  # fmt: skip
    return cast(result, data.type)
