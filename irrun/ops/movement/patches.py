"""Operations that convert between images and patches: Col2Im, ExtractImagePatches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.flops import count_inputs
from irrun.ops._support.indexing import get_fill_value
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["col2im_15", "extract_image_patches_3"]


@op(
    "Col2Im",
    since=15,
    scratch=1.5,
    kind="movement",
    shape="infer_column_images",
    shaped_by=(1, 2),
    flops=count_inputs(1),
)
@compute_in_float32
def col2im_15(
    data: Array,
    output_size: Array,
    kernel_size: Array,
    *,
    strides: list[int] = [1, 1],
    dilations: list[int] = [1, 1],
    pads_begin: list[int] = [0, 0],
    pads_end: list[int] = [0, 0],
) -> Array:
    """Combine columns into an image, adding up overlapping elements.

    The specification describes `output_size` and `kernel_size` as attributes, and in places calls `strides` and
    `dilations` stride and dilation. This kernel has the inputs and attributes of the reference implementation.

    Args:
        data: Numeric, shape [batch, channels * prod(kernel_size), blocks], or the same without batch.
        output_size: Integer, shape [2], the size of the image.
        kernel_size: Integer, shape [2], the size of a block.
        strides: Distance between blocks on each axis.
        dilations: Distance between elements of a block on each axis.
        pads_begin: Padding before each axis.
        pads_end: Padding after each axis.

    Returns:
        Shape `[batch, channels, *output_size]`, or the same without batch, the type of `data`.

    Raises:
        InputError: A size, stride or dilation is not a pair of positive numbers, a padding is not a pair of
            non-negative numbers, or the number of blocks or channels does not match.

    Spec:
        Col2Im-15
    """
    size, kernel = to_int_list(output_size), to_int_list(kernel_size)
    _check_positive_pairs(output_size=size, kernel_size=kernel, strides=strides, dilations=dilations)
    for name, pair in (("pads_begin", pads_begin), ("pads_end", pads_end)):
        if len(pair) != 2 or min(pair) < 0:
            raise InputError(f"{name} is {pair}, expected two non-negative numbers")
    if data.ndim not in (2, 3) or data.shape[-2] % math.prod(kernel):
        raise InputError(
            f"data has shape {list(data.shape)}, expected [batch, channels * {math.prod(kernel)}, blocks]"
            f" or [channels * {math.prod(kernel)}, blocks]"
        )
    height, width = size
    padded = [n + b + e for n, b, e in zip(size, pads_begin, pads_end, strict=True)]
    rows, columns = (
        (n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(padded, dilations, kernel, strides, strict=True)
    )
    if rows * columns != data.shape[-1]:
        raise InputError(f"data has {data.shape[-1]} blocks, expected {rows} * {columns}")
    channels = data.shape[-2] // math.prod(kernel)
    blocks = data.reshape(-1 if data.size else math.prod(data.shape[:-2]), channels, *kernel, rows, columns)

    check_allocation((blocks.shape[0], channels, *padded), data.dtype)
    image = np.zeros((blocks.shape[0], channels, *padded), data.dtype)
    for i in range(kernel[0]):
        for j in within_time(range(kernel[1])):
            top, left = i * dilations[0], j * dilations[1]
            covered = image[
                :,
                :,
                top : top + rows * strides[0] : strides[0],
                left : left + columns * strides[1] : strides[1],
            ]
            covered += blocks[:, :, i, j]
    top, left = pads_begin
    return image[:, :, top : top + height, left : left + width].reshape(*data.shape[:-2], channels, height, width)


def _check_positive_pairs(**pairs: Sequence[int]) -> None:
    for name, pair in pairs.items():
        if len(pair) != 2 or min(pair) < 1:
            raise InputError(f"{name} is {pair}, expected two positive numbers")


@op("ExtractImagePatches", since=3, scratch=1.25, kind="movement", shape="infer_patches", flops=0)
def extract_image_patches_3(
    data: Array,
    *,
    sizes: list[int],
    strides: list[int],
    rates: list[int],
    auto_pad: Literal["valid", "same_upper", "same_lower"],
) -> Array:
    """Extract patches of an image and stack each into the channels of one pixel.

    Args:
        data: Any type, shape [N, C, H, W]. An image of height and width 0 is returned unchanged, as by OpenVINO.
        sizes: Height and width of a patch.
        strides: Distance between patches on each axis.
        rates: Distance between elements of a patch on each axis.
        auto_pad: "valid" for no padding, or the side that gets an odd element of padding.

    Returns:
        Shape [N, sizes[0] * sizes[1] * C, rows, columns], the type of `data`. Elements in the padding are 0.

    Raises:
        InputError: `data` is not of rank 4, or an attribute is not a pair of positive numbers.

    Spec:
        ExtractImagePatches-3
    """
    _check_positive_pairs(sizes=sizes, strides=strides, rates=rates)
    if data.ndim != 4:
        raise InputError(f"data has shape {list(data.shape)}, expected rank 4")
    if not any(data.shape[2:]):
        return data
    rows, columns = (
        _compute_patch_index(n, size, stride, rate, auto_pad)
        for n, size, stride, rate in zip(data.shape[2:], sizes, strides, rates, strict=True)
    )
    n, c, height, width = data.shape
    shape = (n, c, *sizes, rows.shape[1], columns.shape[1])
    check_allocation(shape, data.dtype)
    check_scratch(2 * math.prod(shape) * data.itemsize)
    # [N, C, sizes[0], sizes[1], rows, columns]
    row_index, column_index = rows[:, None, :, None], columns[None, :, None, :]
    patches = data[:, :, np.clip(row_index, 0, height - 1), np.clip(column_index, 0, width - 1)]
    outside = (row_index < 0) | (row_index >= height) | (column_index < 0) | (column_index >= width)
    patches[:, :, outside] = get_fill_value(data.dtype)
    stacked = np.transpose(patches, (0, 2, 3, 1, 4, 5))
    return stacked.reshape([n, sizes[0] * sizes[1] * c, rows.shape[1], columns.shape[1]])


def _compute_patch_index(n: int, size: int, stride: int, rate: int, auto_pad: str) -> Array:
    """Compute the index on an axis of each element of each patch, [size, patches]. It is out of range in padding."""
    span = (size - 1) * rate + 1
    before = 0
    if auto_pad == "valid":
        count = max(0, (n - span) // stride + 1)
    else:
        count = (n - 1) // stride + 1
        padding = (count - 1) * stride + span - n
        if 0 < padding < span:  # the reference implementation pads by less than a patch, or not at all
            before = (padding + 1) // 2 if auto_pad == "same_lower" else padding // 2
    check_allocation((size, max(count, 1)), np.dtype(np.int64))
    index: Array = np.arange(size)[:, None] * rate + np.arange(count) * stride - before
    return index
