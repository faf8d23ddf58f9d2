"""Conversion between RGB and the two layouts of YUV 4:2:0: NV12 (UV interleaved) and I420 (U and V apart)."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
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


@op("NV12toRGB", since=8)
@compute_in_float32
def nv12_to_rgb_8(arg: Array, arg_uv: Array | None = None) -> Array:
    """An NV12 image as RGB.

    arg: u8 or float [N, H, W, 1] beside arg_uv [N, H / 2, W / 2, 2] of the same type,
    or alone [N, H * 3 / 2, W, 1] with the UV plane below the Y plane.
    Returns [N, H, W, 3] of the same type, with values from 0 to 255.
    Raises InputError where the shapes do not fit.
    Spec: NV12toRGB-8.
    """
    return _to_rgb(*_nv12_planes(arg, arg_uv))


@op("NV12toBGR", since=8)
@compute_in_float32
def nv12_to_bgr_8(arg: Array, arg_uv: Array | None = None) -> Array:
    """An NV12 image as BGR.

    arg, arg_uv: as for NV12toRGB.
    Returns [N, H, W, 3] of the same type, with values from 0 to 255.
    Raises InputError where the shapes do not fit.
    Spec: NV12toBGR-8.
    """
    return _to_rgb(*_nv12_planes(arg, arg_uv))[..., ::-1]


@op("I420toRGB", since=8)
@compute_in_float32
def i420_to_rgb_8(arg: Array, arg_u: Array | None = None, arg_v: Array | None = None) -> Array:
    """An I420 image as RGB.

    arg: u8 or float [N, H, W, 1] beside arg_u and arg_v [N, H / 2, W / 2, 1] of the same type,
    or alone [N, H * 3 / 2, W, 1] with the U plane and the V plane below the Y plane.
    Returns [N, H, W, 3] of the same type, with values from 0 to 255.
    Raises InputError where the shapes do not fit.
    Spec: I420toRGB-8.
    """
    return _to_rgb(*_i420_planes(arg, arg_u, arg_v))


@op("I420toBGR", since=8)
@compute_in_float32
def i420_to_bgr_8(arg: Array, arg_u: Array | None = None, arg_v: Array | None = None) -> Array:
    """An I420 image as BGR.

    arg, arg_u, arg_v: as for I420toRGB.
    Returns [N, H, W, 3] of the same type, with values from 0 to 255.
    Raises InputError where the shapes do not fit.
    Spec: I420toBGR-8.
    """
    return _to_rgb(*_i420_planes(arg, arg_u, arg_v))[..., ::-1]


@op("RGBtoNV12", since=17)
@compute_in_float32
def rgb_to_nv12_17(arg: Array, *, single_plane: bool = True) -> Array | tuple[Array, Array]:
    """An RGB image as NV12; each U and V is the mean over two by two pixels.

    arg: u8 or float [N, H, W, 3], H and W even.
    Returns [N, H * 3 / 2, W, 1] of the same type with the UV plane below the Y plane; where `single_plane` is
    false Y [N, H, W, 1] and UV [N, H / 2, W / 2, 2].
    Raises InputError where the shape does not fit.
    Spec: RGBtoNV12-17.
    """
    return _to_nv12(arg, single_plane)


@op("BGRtoNV12", since=17)
@compute_in_float32
def bgr_to_nv12_17(arg: Array, *, single_plane: bool = True) -> Array | tuple[Array, Array]:
    """A BGR image as NV12; each U and V is the mean over two by two pixels.

    arg: u8 or float [N, H, W, 3], H and W even.
    Returns as RGBtoNV12.
    Raises InputError where the shape does not fit.
    Spec: BGRtoNV12-17.
    """
    return _to_nv12(arg[..., ::-1], single_plane)


def _nv12_planes(arg: Array, arg_uv: Array | None) -> tuple[Array, Array, Array]:
    """Y [N, H, W], U and V [N, H / 2, W / 2]."""
    if arg_uv is None:
        y, below = _split_plane(arg)
        n, height, width = y.shape
        uv = below.reshape(n, height // 2, width // 2, 2)
    else:
        n, height, width = _check_plane(arg)
        y, uv = arg[..., 0], arg_uv
        _check_shape("the UV plane", uv, (n, height // 2, width // 2, 2))
    return y, uv[..., 0], uv[..., 1]


def _i420_planes(arg: Array, arg_u: Array | None, arg_v: Array | None) -> tuple[Array, Array, Array]:
    """Y [N, H, W], U and V [N, H / 2, W / 2]."""
    if (arg_u is None) != (arg_v is None):
        raise InputError("2 planes are given, expected 1 or 3")
    if arg_u is None or arg_v is None:
        y, below = _split_plane(arg)
        n, height, width = y.shape
        u, v = below.reshape(n, 2, height // 2, width // 2).swapaxes(0, 1)
        return y, u, v
    n, height, width = _check_plane(arg)
    for name, plane in (("the U plane", arg_u), ("the V plane", arg_v)):
        _check_shape(name, plane, (n, height // 2, width // 2, 1))
    return arg[..., 0], arg_u[..., 0], arg_v[..., 0]


def _split_plane(arg: Array) -> tuple[Array, Array]:
    """Y [N, H, W], and the H / 2 rows below it [N, H / 2, W]."""
    if arg.ndim != 4 or arg.shape[3] != 1 or arg.shape[1] % 3 or arg.shape[2] % 2:
        raise InputError(f"the image has shape {list(arg.shape)}, expected [N, H * 3 / 2, W, 1], H and W even")
    height = arg.shape[1] // 3 * 2
    return arg[:, :height, :, 0], arg[:, height:, :, 0]


def _check_plane(arg: Array) -> tuple[int, int, int]:
    if arg.ndim != 4 or arg.shape[3] != 1 or arg.shape[1] % 2 or arg.shape[2] % 2:
        raise InputError(f"the Y plane has shape {list(arg.shape)}, expected [N, H, W, 1], H and W even")
    return arg.shape[0], arg.shape[1], arg.shape[2]


def _check_shape(name: str, plane: Array, shape: tuple[int, ...]) -> None:
    if plane.shape != shape:
        raise InputError(f"{name} has shape {list(plane.shape)}, expected {list(shape)}")


def _to_rgb(y: Array, u: Array, v: Array) -> Array:
    dtype = y.dtype
    f = np.float32
    c = f(1.164) * (y.astype(np.float32) - f(16))
    d, e = (_doubled(plane.astype(np.float32) - f(128)) for plane in (u, v))
    red = c + f(1.596) * e
    green = c - f(0.391) * d - f(0.813) * e
    blue = c + f(2.018) * d
    return _channel(np.stack([red, green, blue], axis=-1), dtype)


def _doubled(plane: Array) -> Array:
    return plane.repeat(2, axis=1).repeat(2, axis=2)


def _to_nv12(rgb: Array, single_plane: bool) -> Array | tuple[Array, Array]:
    if rgb.ndim != 4 or rgb.shape[3] != 3 or rgb.shape[1] % 2 or rgb.shape[2] % 2:
        raise InputError(f"the image has shape {list(rgb.shape)}, expected [N, H, W, 3], H and W even")
    n, height, width, _ = rgb.shape
    dtype = rgb.dtype
    f = np.float32
    r, g, b = np.moveaxis(rgb.astype(np.float32), -1, 0)
    y = _channel(f(0.257) * r + f(0.504) * g + f(0.098) * b + f(16), dtype)
    u = _channel(f(-0.148) * r - f(0.291) * g + f(0.439) * b + f(128), dtype)
    v = _channel(f(0.439) * r - f(0.368) * g - f(0.071) * b + f(128), dtype)
    uv = np.stack([_halved(u), _halved(v)], axis=-1)
    if not single_plane:
        return y[..., None], uv
    return np.concatenate([y, uv.reshape(n, height // 2, width)], axis=1)[..., None]


def _halved(plane: Array) -> Array:
    """The mean over two by two pixels, added in the order of rows, in the type of `plane`."""
    x = plane.astype(np.float32)
    mean = (x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]) / np.float32(4)
    return _channel(mean, plane.dtype)


def _channel(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """`x` from 0 to 255; rounded, halves away from zero, where `dtype` is an integer."""
    x = np.clip(x, np.float32(0), np.float32(255))
    return truncate_to(round_half_away(x) if is_integer(dtype) else x, dtype)
