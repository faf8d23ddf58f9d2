"""Conversion between RGB and YUV 4:2:0 in the layouts NV12 (one plane for U and V) and I420 (separate planes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.blocks import iterate_blocks
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array, compute_in_float32, is_integer, round_half_away, truncate_to
from irrun.ops._support.registry import op

__all__ = [
    "bgr_to_nv12_17",
    "i420_to_bgr_8",
    "i420_to_rgb_8",
    "nv12_to_bgr_8",
    "nv12_to_rgb_8",
    "rgb_to_nv12_17",
]


@op("NV12toRGB", since=8, scratch=2, shape="infer_color_conversion", flops=6)
@compute_in_float32
def nv12_to_rgb_8(arg: Array, arg_uv: Array | None = None) -> Array:
    """Convert an NV12 image to RGB.

    Args:
        arg: u8 or floating-point. The Y plane [N, H, W, 1], or if it is the only input [N, H * 3 / 2, W, 1] with the UV
            plane below the Y plane.
        arg_uv: The type of `arg`, shape [N, H / 2, W / 2, 2].

    Returns:
        Shape [N, H, W, 3], the type of `arg`, values from 0 to 255.

    Raises:
        InputError: The shapes do not match.

    Spec:
        NV12toRGB-8
    """
    return _convert_yuv_to_rgb(*_split_nv12(arg, arg_uv))


@op("NV12toBGR", since=8, scratch=2, shape="infer_color_conversion", flops=6)
@compute_in_float32
@describes_like(nv12_to_rgb_8)
def nv12_to_bgr_8(arg: Array, arg_uv: Array | None = None) -> Array:
    """Convert an NV12 image to BGR.

    Spec:
        NV12toBGR-8
    """
    return _convert_yuv_to_rgb(*_split_nv12(arg, arg_uv))[..., ::-1]


@op("I420toRGB", since=8, scratch=2.5, shape="infer_color_conversion", flops=6)
@compute_in_float32
@describes_like(nv12_to_rgb_8)
def i420_to_rgb_8(arg: Array, arg_u: Array | None = None, arg_v: Array | None = None) -> Array:
    """Convert an I420 image to RGB.

    Args:
        arg: u8 or floating-point. The Y plane [N, H, W, 1], or if it is the only input [N, H * 3 / 2, W, 1] with the U
            and V planes below the Y plane.
        arg_u: The type of `arg`, shape [N, H / 2, W / 2, 1].
        arg_v: The type of `arg`, shape [N, H / 2, W / 2, 1].

    Spec:
        I420toRGB-8
    """
    return _convert_yuv_to_rgb(*_split_i420(arg, arg_u, arg_v))


@op("I420toBGR", since=8, scratch=2.5, shape="infer_color_conversion", flops=6)
@compute_in_float32
@describes_like(i420_to_rgb_8)
def i420_to_bgr_8(arg: Array, arg_u: Array | None = None, arg_v: Array | None = None) -> Array:
    """Convert an I420 image to BGR.

    Spec:
        I420toBGR-8
    """
    return _convert_yuv_to_rgb(*_split_i420(arg, arg_u, arg_v))[..., ::-1]


@op("RGBtoNV12", since=17, scratch=2.75, shape="infer_color_subsampling", flops=6)
@compute_in_float32
def rgb_to_nv12_17(arg: Array, *, single_plane: bool = True) -> Array | tuple[Array, Array]:
    """Convert an RGB image to NV12. Each U and V is the mean over 2x2 pixels.

    Args:
        arg: u8 or floating-point, shape [N, H, W, 3], H and W even.
        single_plane: Whether the result is one tensor.

    Returns:
        Shape [N, H * 3 / 2, W, 1] with the UV plane below the Y plane; or if `single_plane` is false, Y [N, H, W, 1]
        and UV [N, H / 2, W / 2, 2]. The type of `arg`.

    Raises:
        InputError: The shape does not match.

    Spec:
        RGBtoNV12-17
    """
    return _convert_rgb_to_nv12(arg, single_plane)


@op("BGRtoNV12", since=17, scratch=2.75, shape="infer_color_subsampling", flops=6)
@compute_in_float32
@describes_like(rgb_to_nv12_17)
def bgr_to_nv12_17(arg: Array, *, single_plane: bool = True) -> Array | tuple[Array, Array]:
    """Convert a BGR image to NV12. Each U and V is the mean over 2x2 pixels.

    Spec:
        BGRtoNV12-17
    """
    return _convert_rgb_to_nv12(arg[..., ::-1] if arg.ndim else arg, single_plane)


def _split_nv12(arg: Array, arg_uv: Array | None) -> tuple[Array, Array, Array]:
    """Return Y [N, H, W], U and V [N, H / 2, W / 2]."""
    if arg_uv is None:
        y, chroma = _split_single_plane(arg)
        n, height, width = y.shape
        uv = chroma.reshape(n, height // 2, width // 2, 2)
    else:
        n, height, width = _check_y_plane(arg)
        y, uv = arg[..., 0], arg_uv
        _check_plane("the UV plane", uv, (n, height // 2, width // 2, 2))
    return y, uv[..., 0], uv[..., 1]


def _split_i420(arg: Array, arg_u: Array | None, arg_v: Array | None) -> tuple[Array, Array, Array]:
    """Return Y [N, H, W], U and V [N, H / 2, W / 2]."""
    if (arg_u is None) != (arg_v is None):
        raise InputError("found 2 planes, expected 1 or 3")
    if arg_u is None or arg_v is None:
        y, chroma = _split_single_plane(arg)
        n, height, width = y.shape
        u, v = chroma.reshape(n, 2, height // 2, width // 2).swapaxes(0, 1)
        return y, u, v
    n, height, width = _check_y_plane(arg)
    for name, plane in (("the U plane", arg_u), ("the V plane", arg_v)):
        _check_plane(name, plane, (n, height // 2, width // 2, 1))
    return arg[..., 0], arg_u[..., 0], arg_v[..., 0]


def _split_single_plane(arg: Array) -> tuple[Array, Array]:
    """Return Y [N, H, W], and the rows of chroma below it [N, H / 2, W]."""
    if arg.ndim != 4 or arg.shape[3] != 1 or arg.shape[1] % 3 or arg.shape[2] % 2:
        raise InputError(f"the image has shape {list(arg.shape)}, expected [N, H * 3 / 2, W, 1] with even H and W")
    height = arg.shape[1] // 3 * 2
    return arg[:, :height, :, 0], arg[:, height:, :, 0]


def _check_y_plane(arg: Array) -> tuple[int, int, int]:
    """Return N, H and W of a Y plane.

    Raises:
        InputError: Its shape is invalid.
    """
    if arg.ndim != 4 or arg.shape[3] != 1 or arg.shape[1] % 2 or arg.shape[2] % 2:
        raise InputError(f"the Y plane has shape {list(arg.shape)}, expected [N, H, W, 1] with even H and W")
    return arg.shape[0], arg.shape[1], arg.shape[2]


def _check_plane(name: str, plane: Array, shape: tuple[int, ...]) -> None:
    if plane.shape != shape:
        raise InputError(f"{name} has shape {list(plane.shape)}, expected {list(shape)}")


def _convert_yuv_to_rgb(y: Array, u: Array, v: Array) -> Array:
    f = np.float32
    check_allocation((*y.shape, 3), y.dtype)
    result = np.empty((*y.shape, 3), y.dtype)
    for rows in iterate_blocks(y.shape[1], 3 * y.shape[0] * y.shape[2], multiple=2):
        c = f(1.164) * (y[:, rows].astype(np.float32) - f(16))
        halves = slice(rows.start // 2, rows.stop // 2)
        d, e = (_repeat_pixels(plane[:, halves].astype(np.float32) - f(128)) for plane in (u, v))
        result[:, rows, :, 0] = _clip_channel(c + f(1.596) * e, y.dtype)
        result[:, rows, :, 1] = _clip_channel(c - f(0.391) * d - f(0.813) * e, y.dtype)
        result[:, rows, :, 2] = _clip_channel(c + f(2.018) * d, y.dtype)
    return result


def _repeat_pixels(plane: Array) -> Array:
    return plane.repeat(2, axis=1).repeat(2, axis=2)


def _convert_rgb_to_nv12(rgb: Array, single_plane: bool) -> Array | tuple[Array, Array]:
    if rgb.ndim != 4 or rgb.shape[3] != 3 or rgb.shape[1] % 2 or rgb.shape[2] % 2:
        raise InputError(f"the image has shape {list(rgb.shape)}, expected [N, H, W, 3] with even H and W")
    n, height, width, _ = rgb.shape
    dtype = rgb.dtype
    f = np.float32
    y = np.empty((n, height, width), dtype)
    uv = np.empty((n, height // 2, width // 2, 2), dtype)
    for rows in iterate_blocks(height, 3 * n * width, multiple=2):
        r, g, b = np.moveaxis(rgb[:, rows].astype(np.float32), -1, 0)
        y[:, rows] = _clip_channel(f(0.257) * r + f(0.504) * g + f(0.098) * b + f(16), dtype)
        u = _clip_channel(f(-0.148) * r - f(0.291) * g + f(0.439) * b + f(128), dtype)
        v = _clip_channel(f(0.439) * r - f(0.368) * g - f(0.071) * b + f(128), dtype)
        halves = slice(rows.start // 2, rows.stop // 2)
        uv[:, halves, :, 0], uv[:, halves, :, 1] = _average_pixels(u), _average_pixels(v)
    if not single_plane:
        return y[..., None], uv
    return np.concatenate([y, uv.reshape(n, height // 2, width)], axis=1)[..., None]


def _average_pixels(plane: Array) -> Array:
    """Return the means over 2x2 pixels in the type of `plane`. The pixels are added row by row."""
    x = plane.astype(np.float32)
    mean = (x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]) / np.float32(4)
    return _clip_channel(mean, plane.dtype)


def _clip_channel(x: Array, dtype: np.dtype[Any]) -> Array:
    """Clip `x` to [0, 255] and convert it to `dtype`. Integers are rounded, halves away from zero."""
    x = np.clip(x, np.float32(0), np.float32(255))
    return truncate_to(round_half_away(x) if is_integer(dtype) else x, dtype)
