"""Between images and patches of them: Col2Im, ExtractImagePatches."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.indexing import get_fill_value
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["col2im_15", "extract_image_patches_3"]


@op("Col2Im", since=15)
@compute_in_float32
def col2im_15(
    data: Array,
    output_size: Array,
    kernel_size: Array,
    *,
    strides: list[int] = [1, 1],  # noqa: B006 (never changed)
    dilations: list[int] = [1, 1],  # noqa: B006
    pads_begin: list[int] = [0, 0],  # noqa: B006
    pads_end: list[int] = [0, 0],  # noqa: B006
) -> Array:
    """The image whose sliding blocks are the columns of `data`, overlapping elements added up.

    data: any numeric type, [batch, channels * prod(kernel_size), blocks] or without batch; output_size,
    kernel_size: integer [2]. (The specification calls the two attributes, and `strides` and `dilations` in places
    stride and dilation; the reference implementation has them so.)
    Returns [batch, channels, *output_size] or without batch, the type of data.
    Raises InputError where a size, stride or dilation does not hold two positive numbers or a padding two that
    are not negative, or the number of blocks or channels does not fit.
    Spec: Col2Im-15.
    """
    size, kernel = to_int_list(output_size), to_int_list(kernel_size)
    positive = {"output_size": size, "kernel_size": kernel, "strides": strides, "dilations": dilations}
    for name, pair in positive.items():
        if len(pair) != 2 or min(pair) < 1:
            raise InputError(f"{name} is {pair}, expected two positive numbers")
    for name, pair in (("pads_begin", pads_begin), ("pads_end", pads_end)):
        if len(pair) != 2 or min(pair) < 0:
            raise InputError(f"{name} is {pair}, expected two numbers, none negative")
    if data.ndim not in (2, 3) or data.shape[-2] % math.prod(kernel):
        raise InputError(
            f"data has shape {list(data.shape)}, expected [batch, channels * {math.prod(kernel)}, blocks]"
            " or without batch"
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
        for j in range(kernel[1]):
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


@op("ExtractImagePatches", since=3)
def extract_image_patches_3(
    data: Array,
    *,
    sizes: list[int],
    strides: list[int],
    rates: list[int],
    auto_pad: Literal["valid", "same_upper", "same_lower"],
) -> Array:
    """Patches of an image, each stacked into the channels of one pixel.

    data: any type, [N, C, H, W].
    Returns [N, sizes[0] * sizes[1] * C, rows, columns], the type of data; what lies outside of the image
    is 0. An image of height and width 0 is returned as it is, as by OpenVINO.
    Raises InputError where data is not of rank 4 or an attribute does not hold two positive numbers.
    Spec: ExtractImagePatches-3.
    """
    for name, values in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(values) != 2 or min(values) < 1:
            raise InputError(f"{name} is {values}, expected two positive numbers")
    if data.ndim != 4:
        raise InputError(f"data has shape {list(data.shape)}, expected rank 4")
    if not any(data.shape[2:]):
        return data
    rows, columns = (
        _positions(n, size, stride, rate, auto_pad)
        for n, size, stride, rate in zip(data.shape[2:], sizes, strides, rates, strict=True)
    )
    n, c, height, width = data.shape
    # [N, C, sizes[0], sizes[1], rows, columns]
    at_row, at_column = rows[:, None, :, None], columns[None, :, None, :]
    patches = data[:, :, np.clip(at_row, 0, height - 1), np.clip(at_column, 0, width - 1)]
    outside = (at_row < 0) | (at_row >= height) | (at_column < 0) | (at_column >= width)
    patches[:, :, outside] = get_fill_value(data.dtype)
    stacked = np.transpose(patches, (0, 2, 3, 1, 4, 5))
    return stacked.reshape([n, sizes[0] * sizes[1] * c, rows.shape[1], columns.shape[1]])


def _positions(n: int, size: int, stride: int, rate: int, auto_pad: str) -> Array:
    """[size, patches]: which element of an axis each element of each patch is; outside of it in the padding."""
    span = (size - 1) * rate + 1
    before = 0
    if auto_pad == "valid":
        count = max(0, (n - span) // stride + 1)
    else:
        count = (n - 1) // stride + 1
        padding = (count - 1) * stride + span - n
        if 0 < padding < span:  # the reference pads by less than a patch, or not at all
            before = (padding + 1) // 2 if auto_pad == "same_lower" else padding // 2
    offsets: Array = np.arange(size)[:, None] * rate + np.arange(count) * stride - before
    return offsets
