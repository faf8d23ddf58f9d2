"""Shapes of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.ops._support.windows import create_windows, expand_attribute
from irrun.ops.shape_rules.axes import check_rank, match_sizes
from irrun.ops.shape_rules.dimensions import (
    ONE,
    Dimension,
    add,
    divide_down,
    divide_up,
    limit,
    make_static,
    make_unknown,
    merge,
    multiply,
    shift,
    subtract,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_convolution(inputs: Inputs) -> Shapes:
    """Return [N, channels of the filters, windows...]."""
    groups = int(inputs.operation.has_groups)
    data, filters = inputs.get_shape(0), inputs.get_shape(1)
    rank = _find_rank(inputs, groups)
    if rank is None:
        return [None]
    data = make_unknown(rank) if data is None else data
    filters = make_unknown(rank + groups) if filters is None else filters
    assert data is not None
    assert filters is not None
    if groups:
        number = _count_groups(data[1], filters[0], filters[2])
        expected, channels = multiply(number, filters[2]), multiply(number, filters[1])
        explanation = f"{filters[0]} groups of {filters[2]}"
    else:
        expected, channels, explanation = filters[1], filters[0], str(filters[1])
    match_sizes(data[1], expected, f"data has {data[1]} channels, the filters {filters} expect {explanation}")
    return [PartialShape([data[0], channels, *_count_windows(inputs, data[2:], filters[groups + 2 :])])]


def _count_groups(channels: Dimension, groups: Dimension, group_size: Dimension) -> Dimension:
    """Return the number of groups, from the data's channels if the filters do not give it."""
    if isinstance(channels, int) and isinstance(group_size, int) and group_size and not isinstance(groups, int):
        return make_static(channels // group_size)
    return groups


@rule
def infer_deformable_convolution(inputs: Inputs) -> Shapes:
    """Return [N, channels of the filters, windows...]."""
    data, offsets, filters = (inputs.get_shape(i) for i in range(3))
    check_rank(inputs, 0, 4)
    check_rank(inputs, 1, 4)
    check_rank(inputs, 2, 4)
    if data is None and filters is None:
        return [None]
    data, filters = data or make_unknown(4), filters or make_unknown(4)
    assert data is not None
    assert filters is not None
    group = inputs["group"]
    expected = multiply(filters[1], group)
    match_sizes(
        data[1], expected, f"data has {data[1]} channels, the filters {filters} in {group} groups expect {expected}"
    )
    batch = data[0] if offsets is None else merge(data[0], offsets[0])
    if batch is None or (inputs.has(3) and (mask := inputs.get_shape(3)) is not None and merge(batch, mask[0]) is None):
        raise ShapeError(f"data {data} and the offsets {offsets} have different batch sizes")
    windows = _count_windows(inputs, data[2:], filters[2:])
    for position, name in ((1, "offsets"), (3, "mask")):
        shape = inputs.get_shape(position)
        if shape is None:
            continue
        for axis, (found, count) in enumerate(zip(shape[2:], windows, strict=True), 2):
            match_sizes(found, count, f"the {name} {shape} have {found} windows on axis {axis}, expected {count}")
    return [PartialShape([batch, filters[0], *windows])]


def _find_rank(inputs: Inputs, groups: int) -> int | None:
    """Return the rank of the data of a convolution.

    Raises:
        ShapeError: Data and filters have different ranks.
    """
    check_rank(inputs, 0, 3, 4, 5)
    data, filters = inputs.get_rank(0), inputs.get_rank(1)
    rank = filters - groups if data is None and filters is not None else data
    if filters is not None and filters - groups != rank:
        raise ShapeError(
            f"data has the shape {inputs.get_shape(0)} of rank {data}, the filters have the shape "
            f"{inputs.get_shape(1)}, expected data of rank {filters - groups}"
        )
    if rank is None and inputs["strides"]:
        rank = len(inputs["strides"]) + 2
    return rank


def _count_windows(
    inputs: Inputs, spatial: Sequence[Dimension], kernel: Sequence[Dimension], rounding: str = "floor"
) -> list[Dimension]:
    """Return the number of windows along each spatial axis."""
    rank = len(spatial)
    attributes = inputs.attributes
    strides = expand_attribute("strides", attributes.get("strides", ()), rank, 1, minimum=1)
    dilations = expand_attribute("dilations", attributes.get("dilations", ()), rank, 1, minimum=1)
    auto_pad = attributes.get("auto_pad", "explicit")
    begin = end = (0,) * rank
    if auto_pad in ("explicit", "notset"):
        begin = expand_attribute("pads_begin", attributes.get("pads_begin", ()), rank, 0)
        end = expand_attribute("pads_end", attributes.get("pads_end", ()), rank, 0)
    counts: list[Dimension] = []
    for size, k, stride, dilation, b, e in zip(spatial, kernel, strides, dilations, begin, end, strict=True):
        if isinstance(size, int) and isinstance(k, int):
            windows = create_windows([size], [k], [stride], [dilation], [b], [e], auto_pad, rounding)  # type: ignore[arg-type]
            counts.append(make_static(windows.output_shape[0]))
        elif auto_pad in ("same_upper", "same_lower"):
            counts.append(divide_up(size, stride) if rounding == "floor" else UNBOUNDED)
        else:
            room = subtract(shift(size, b + e), shift(multiply(shift(k, -1), dilation), 1))
            count = shift((divide_down if rounding == "floor" else divide_up)(room, stride), 1)
            if rounding == "ceil_torch":  # windows do not start in the padding after the data
                count = limit(count, divide_up(shift(size, b), stride))
            counts.append(count)
    return counts


@rule
def infer_pooling(inputs: Inputs) -> Shapes:
    """Return [N, C, windows...]."""
    check_rank(inputs, 0, 3, 4, 5)
    kernel = inputs["kernel"]
    data = inputs.get_shape(0)
    if data is None:
        return [make_unknown(len(kernel) + 2)] * inputs.output_count
    if len(data) != len(kernel) + 2:
        raise ShapeError(f"data has the shape {data}, the kernel {list(kernel)} expects rank {len(kernel) + 2}")
    windows = _count_windows(inputs, data[2:], [make_static(k) for k in kernel], inputs["rounding_type"])
    return [PartialShape([*data[:2], *windows])] * inputs.output_count


@rule
def infer_adaptive_pooling(inputs: Inputs) -> Shapes:
    """Return [N, C, sizes...], with the sizes from the second input."""
    check_rank(inputs, 0, 3, 4, 5)
    sizes, data = inputs.get_sizes(1), inputs.require_shape(0)
    if sizes is None:
        sizes = [UNBOUNDED] * (len(data) - 2)
    if len(sizes) != len(data) - 2:
        raise ShapeError(f"output_shape has {len(sizes)} elements, data of the shape {data} expects {len(data) - 2}")
    return [PartialShape([*data[:2], *sizes])] * inputs.output_count


@rule
def infer_transposed_convolution(inputs: Inputs) -> Shapes:
    """Return [N, channels of the filters, sizes...]."""
    groups = int(inputs.operation.has_groups)
    data, filters = inputs.get_shape(0), inputs.get_shape(1)
    rank = _find_rank(inputs, groups)
    count = inputs.count(2) if inputs.has(2) else None
    if rank is None and count is not None:
        rank = count + 2
    if rank is None:
        return [None]
    data = make_unknown(rank) if data is None else data
    filters = make_unknown(rank + groups) if filters is None else filters
    assert data is not None
    assert filters is not None
    number = _count_groups(data[1], filters[0], filters[1]) if groups else ONE
    channels = multiply(number, filters[1]) if groups else filters[0]
    explanation = f"{filters[0]} groups of {filters[1]}" if groups else str(channels)
    match_sizes(data[1], channels, f"data has {data[1]} channels, the filters {filters} expect {explanation}")
    if inputs.has(2):
        sizes = inputs.get_sizes(2) or [UNBOUNDED] * (rank - 2)
        if len(sizes) != rank - 2:
            raise ShapeError(f"output_shape has {len(sizes)} elements, data of the shape {data} expects {rank - 2}")
    else:
        sizes = _enlarge(inputs, data[2:], filters[groups + 2 :])
    outputs = multiply(number, filters[2]) if groups else filters[1]
    return [PartialShape([data[0], outputs, *sizes])]


def _enlarge(inputs: Inputs, spatial: Sequence[Dimension], kernel: Sequence[Dimension]) -> list[Dimension]:
    """Return the spatial sizes of the output of a transposed convolution."""
    rank = len(spatial)
    strides = expand_attribute("strides", inputs["strides"], rank, 1, minimum=1)
    dilations = expand_attribute("dilations", inputs["dilations"], rank, 1, minimum=1)
    extra = expand_attribute("output_padding", inputs["output_padding"], rank, 0)
    begin = end = (0,) * rank
    if inputs["auto_pad"] in ("explicit", "notset"):
        begin = expand_attribute("pads_begin", inputs["pads_begin"], rank, 0)
        end = expand_attribute("pads_end", inputs["pads_end"], rank, 0)
    sizes: list[Dimension] = []
    for size, k, stride, dilation, b, e, p in zip(spatial, kernel, strides, dilations, begin, end, extra, strict=True):
        extent = shift(multiply(shift(k, -1), dilation), 1)
        total = shift(add(multiply(shift(size, -1), stride), extent), p - b - e)
        sizes.append(total)
    return sizes


@rule
def infer_patches(inputs: Inputs) -> Shapes:
    """Return [N, C * elements of a patch, rows, columns]."""
    check_rank(inputs, 0, 4)
    data = inputs.get_shape(0)
    if data is None:
        return [make_unknown(4)]
    sizes, strides, rates = inputs["sizes"], inputs["strides"], inputs["rates"]
    counts: list[Dimension] = []
    for size, kernel, stride, rate in zip(data[2:], sizes, strides, rates, strict=True):
        if inputs["auto_pad"] == "valid":
            counts.append(divide_up(shift(size, -((kernel - 1) * rate)), stride))
        else:
            counts.append(divide_up(size, stride))
    return [PartialShape([data[0], multiply(data[1], sizes[0] * sizes[1]), *counts])]
