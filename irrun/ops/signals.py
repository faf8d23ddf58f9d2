"""Signal processing: discrete Fourier transforms of tensors and of short frames.

A complex tensor is stored as a real tensor whose last dimension is 2, the real and imaginary parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import normalize_axes, to_int_list, to_scalar
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call, count_fourier_transform, count_frames
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["dft_7", "idft_7", "irdft_9", "istft_16", "rdft_9", "stft_15"]

#: The bytes that NumPy allocates for each element along the longest transformed axis. It also transforms prime
#: lengths, as convolutions.
PLAN_BYTES = 160
#: The bytes of results and intermediate values: for each complex element of a result, which NumPy scales in f64, and of
#: an inverse transform; and for each real element of an input, and of an inverse transform.
FORWARD_BYTES, INVERSE_BYTES, REAL_BYTES, INVERSE_REAL_BYTES = 48, 32, 12, 16
#: The bytes for each element of all frames: windowed and transformed; and in sizes of an element, added up.
FRAME_BYTES, FRAME_COPIES = 26, 6


@op("DFT", since=7, shape="infer_fourier_transform", flops=count_fourier_transform())
@compute_in_float32
def dft_7(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """Compute the discrete Fourier transform of complex `data` along `axes`.

    Args:
        data: Floating-point, shape [..., 2], complex.
        axes: Integer, 1D, distinct axes of the complex tensor.
        signal_size: Integer, one element per axis: the size to which `data` is cropped or padded with zeros, or -1 to
            keep its size. All -1 if omitted.

    Returns:
        The shape of `data` with the sizes `signal_size` along `axes`, the type of `data`, complex.

    Raises:
        InputError: `data` is not complex, an axis is out of range or repeated, or a size is invalid.

    Spec:
        DFT-7
    """
    values, transform_axes, sizes = _read_complex_inputs(data, axes, signal_size, FORWARD_BYTES)
    if 0 in sizes:
        return _to_real(_create_empty(values, sizes, transform_axes), data.dtype)
    return _to_real(np.fft.fftn(_crop(values, sizes, transform_axes), sizes, transform_axes), data.dtype)


@op("IDFT", since=7, shape="infer_fourier_transform", flops=count_fourier_transform(is_inverse=True))
@compute_in_float32
@describes_like(dft_7)
def idft_7(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """Compute the inverse discrete Fourier transform of complex `data` along `axes`.

    Spec:
        IDFT-7
    """
    values, transform_axes, sizes = _read_complex_inputs(data, axes, signal_size, INVERSE_BYTES)
    if 0 in sizes:
        return _to_real(_create_empty(values, sizes, transform_axes), data.dtype)
    return _to_real(np.fft.ifftn(_crop(values, sizes, transform_axes), sizes, transform_axes), data.dtype)


@op("RDFT", since=9, shape="infer_real_transform", flops=count_fourier_transform(is_real=True))
@compute_in_float32
def rdft_9(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """Compute the discrete Fourier transform of real `data` along `axes`, without its redundant half.

    Args:
        data: Floating-point, real.
        axes: Integer, 1D, distinct axes of `data`.
        signal_size: Integer, one element per axis: the size to which `data` is cropped or padded with zeros, or -1 to
            keep its size. All -1 if omitted.

    Returns:
        The shape of `data` with the sizes `signal_size` along `axes`, and an additional last dimension of 2; the type
        of `data`, complex. If the size of the last of the axes is n, the result has n // 2 + 1 elements along it, or 0
        if n is 0.

    Raises:
        InputError: An axis is out of range or repeated, or a size is invalid.

    Spec:
        RDFT-9
    """
    transform_axes = normalize_axes(to_int_list(axes), data.ndim)
    defaults = [data.shape[axis] for axis in transform_axes]
    sizes = _read_sizes(data.shape, transform_axes, defaults, signal_size, REAL_BYTES)
    if not transform_axes:
        return _to_real(data, data.dtype)
    half = [*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0]
    if 0 in sizes:
        return _to_real(_create_empty(data, half, transform_axes), data.dtype)
    lengths = dict(enumerate(data.shape)) | dict(zip(transform_axes, half, strict=True))
    check_scratch(FORWARD_BYTES * math.prod(lengths.values()) + REAL_BYTES * data.size + PLAN_BYTES * max(sizes))
    return _to_real(np.fft.rfftn(_crop(data, sizes, transform_axes), sizes, transform_axes), data.dtype)


@op(
    "IRDFT", since=9, shape="infer_inverse_real_transform", flops=count_fourier_transform(is_real=True, is_inverse=True)
)
@compute_in_float32
def irdft_9(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """Compute the inverse of RDFT: real data from one half of a symmetric spectrum.

    Args:
        data: Floating-point, shape [..., 2], complex.
        axes: Integer, 1D, distinct axes of the complex tensor.
        signal_size: Integer, one element per axis: the size of the result, or -1 for the default. The default is the
            size n of `data`, but 2 * (n - 1) for the last of the axes. All -1 if omitted.

    Returns:
        The shape of `data` without its last dimension and with the sizes `signal_size` along `axes`; the type of
        `data`, real.

    Raises:
        InputError: `data` is not complex, an axis is out of range or repeated, or a size is invalid.

    Spec:
        IRDFT-9
    """
    values = _to_complex(data)
    transform_axes = normalize_axes(to_int_list(axes), values.ndim)
    if not transform_axes:
        return values.real
    defaults = [values.shape[axis] for axis in transform_axes]
    defaults[-1] = max(0, 2 * (defaults[-1] - 1))
    sizes = _read_sizes(values.shape, transform_axes, defaults, signal_size, INVERSE_REAL_BYTES)
    if 0 in sizes:
        return _create_empty(data[..., 0], sizes, transform_axes)
    half = [*sizes[:-1], sizes[-1] // 2 + 1]
    result: Array = np.fft.irfftn(_crop(values, half, transform_axes), sizes, transform_axes)
    return result.astype(data.dtype, copy=False)


def _count_stft(call: Call) -> int:
    return _count_framed(call, call.outputs[0].size)


def _count_istft(call: Call) -> int:
    return _count_framed(call, math.prod(call.get_shape(0)))


def _count_framed(call: Call, spectrum_size: int) -> int:
    """Count the transforms of the frames and their products with the window."""
    frame_size = call.inputs[2]
    assert frame_size is not None
    size = int(frame_size.reshape(-1)[0])
    return count_frames(size, spectrum_size // (2 * (size // 2 + 1)))


@op("STFT", since=15, shape="infer_short_time_transform", flops=_count_stft)
@compute_in_float32
def stft_15(signal: Array, window: Array, frame_size: Array, frame_step: Array, *, transpose_frames: bool) -> Array:
    """Compute the RDFT of overlapping frames of `signal`, multiplied by `window`.

    Args:
        signal: Floating-point, shape [length] or [batch, length].
        window: Floating-point, shape [n], n <= frame_size. It is centered in a frame and padded with zeros.
        frame_size: Integer scalar, the number of elements of a frame.
        frame_step: Integer scalar, the distance between frames.
        transpose_frames: Whether the frequency axis precedes the frame axis.

    Returns:
        Shape [batch, frames, frame_size // 2 + 1, 2], or [batch, frame_size // 2 + 1, frames, 2] if `transpose_frames`
        is true; without batch if `signal` has none. The type of `signal`, complex.

    Raises:
        InputError: `frame_size` or `frame_step` is not positive, `signal` is shorter than a frame, or `window` longer.

    Spec:
        STFT-15
    """
    size, step = _read_frame(frame_size, frame_step)
    if signal.ndim not in (1, 2) or signal.shape[-1] < size:
        raise InputError(
            f"signal has shape {list(signal.shape)}, expected [length] or [batch, length], length >= {size}"
        )
    frames = sliding_window_view(signal, size, axis=-1)[..., ::step, :]
    check_allocation(frames.shape, signal.dtype)
    check_scratch(FRAME_BYTES * frames.size + PLAN_BYTES * size)
    spectrum = np.fft.rfft(frames * _center_window(window, size), axis=-1)
    if transpose_frames:
        spectrum = spectrum.swapaxes(-1, -2)
    return _to_real(spectrum, signal.dtype)


@op("ISTFT", since=16, shape="infer_inverse_short_time_transform", flops=_count_istft)
@compute_in_float32
def istft_16(
    data: Array,
    window: Array,
    frame_size: Array,
    frame_step: Array,
    signal_length: Array | None = None,
    *,
    center: bool,
    normalized: bool,
) -> Array:
    """Compute the inverse of STFT: overlapping frames are added up.

    Args:
        data: Floating-point, shape [batch, frame_size // 2 + 1, frames, 2], or the same without batch, complex.
        window: Floating-point, shape [n], n <= frame_size. It is centered in a frame and padded with zeros.
        frame_size: Integer scalar, the number of elements of a frame.
        frame_step: Integer scalar, the distance between frames.
        signal_length: Integer scalar, the length to which the result is cropped or padded with zeros. Not used if
            omitted or not positive.
        center: Whether frame_size // 2 elements are removed at both ends. If `frame_size` is odd, the result has one
            element more than in the specification.
        normalized: Whether the spectrum was divided by sqrt(frame_size).

    Returns:
        Shape [length] or [batch, length], the type of `data`.

    Raises:
        InputError: `frame_size` or `frame_step` is not positive, `data` does not match `frame_size`, or `window` is
            longer than a frame.

    Spec:
        ISTFT-16
    """
    size, step = _read_frame(frame_size, frame_step)
    spectrum = _to_complex(data)
    if spectrum.ndim not in (2, 3) or spectrum.shape[-2] != size // 2 + 1:
        raise InputError(
            f"data has shape {list(data.shape)}, expected [batch, {size // 2 + 1}, frames, 2] for frames of size {size}"
        )
    weight = _center_window(window, size)
    check_scratch(
        FRAME_COPIES * data.itemsize * math.prod(spectrum.shape[:-2]) * spectrum.shape[-1] * size + PLAN_BYTES * size
    )
    frames = np.fft.irfft(spectrum.swapaxes(-1, -2), size, axis=-1).astype(data.dtype, copy=False)
    total = _add_overlapping(frames * weight, step)
    if normalized:
        total = total * total.dtype.type(np.sqrt(size))
    total_weight = _add_overlapping(np.broadcast_to(weight * weight, (spectrum.shape[-1], size)), step)
    result: Array = np.where(total_weight == 0, total.dtype.type(0), total / total_weight)
    margin = size // 2 if center else 0
    length = 0 if signal_length is None else to_scalar(signal_length, "signal_length")
    if length <= 0:
        return result[..., margin : result.shape[-1] - margin]
    # signal_length replaces the margin at the end.
    cropped = result[..., margin : margin + length]
    check_allocation((*cropped.shape[:-1], length), cropped.dtype)
    padded = np.zeros((*cropped.shape[:-1], length), cropped.dtype)
    padded[..., : cropped.shape[-1]] = cropped
    return padded


def _read_complex_inputs(
    data: Array, axes: Array, signal_size: Array | None, element_bytes: int
) -> tuple[Array, tuple[int, ...], list[int]]:
    """Return complex values, the axes to transform, and the size along each, for which memory is checked."""
    values = _to_complex(data)
    transform_axes = normalize_axes(to_int_list(axes), values.ndim)
    defaults = [values.shape[axis] for axis in transform_axes]
    return values, transform_axes, _read_sizes(values.shape, transform_axes, defaults, signal_size, element_bytes)


def _read_sizes(
    shape: Sequence[int], axes: Sequence[int], defaults: Sequence[int], signal_size: Array | None, element_bytes: int
) -> list[int]:
    """Return the size along each of the axes of a tensor of `shape`, where -1 means the default.

    The transform needs `element_bytes` for each element of the result.
    """
    requested = [-1] * len(axes) if signal_size is None else to_int_list(signal_size)
    if len(requested) != len(axes):
        raise InputError(f"signal_size has {len(requested)} elements, expected {len(axes)}, one for each axis")
    sizes = [default if size == -1 else size for size, default in zip(requested, defaults, strict=True)]
    if sizes and min(sizes) < 0:
        raise InputError(f"signal_size is {requested}, expected non-negative numbers or -1")
    lengths = dict(enumerate(shape)) | dict(zip(axes, sizes, strict=True))
    check_allocation(lengths.values(), np.dtype(np.complex64))
    check_scratch(element_bytes * math.prod(lengths.values()) + PLAN_BYTES * max(sizes, default=0))
    return sizes


def _crop(values: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """Return the part of `values` that is transformed, since NumPy would copy all of it."""
    ranges = dict(zip(axes, map(slice, sizes), strict=True))
    return values[tuple(ranges.get(axis, slice(None)) for axis in range(values.ndim))]


def _create_empty(values: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """Return the result of a transform without elements, which NumPy does not support."""
    lengths = dict(enumerate(values.shape)) | dict(zip(axes, sizes, strict=True))
    return np.empty(tuple(lengths.values()), values.dtype)


def _to_complex(data: Array) -> Array:
    if data.ndim < 1 or data.shape[-1] != 2:
        raise InputError(f"data has shape {list(data.shape)}, expected [..., 2] for complex numbers")
    dtype = np.complex128 if data.dtype == np.float64 else np.complex64
    result: Array = np.ascontiguousarray(data).view(dtype)[..., 0]
    return result


def _to_real(values: Array, dtype: np.dtype[Any]) -> Array:
    return np.stack([values.real, values.imag], axis=-1).astype(dtype, copy=False)


def _read_frame(frame_size: Array, frame_step: Array) -> tuple[int, int]:
    size, step = to_scalar(frame_size, "frame_size"), to_scalar(frame_step, "frame_step")
    if size < 1 or step < 1:
        raise InputError(f"frame_size and frame_step are {size} and {step}, expected positive numbers")
    return size, step


def _center_window(window: Array, size: int) -> Array:
    """Pad `window` with zeros on both sides to `size` elements."""
    if window.ndim != 1 or not 0 < window.size <= size:
        raise InputError(f"window has shape {list(window.shape)}, expected [1] to [{size}]")
    check_allocation((size,), window.dtype)
    before = (size - window.size) // 2
    return np.pad(window, (before, size - window.size - before))


def _add_overlapping(frames: Array, step: int) -> Array:
    """Add up frames [..., frames, size] at a distance of `step` elements; the result is [..., length]."""
    *batch, count, size = frames.shape
    length = (count - 1) * step + size if count else 0
    # Frames are divided into pieces of `step` elements, which do not overlap each other partially.
    pieces = -(-size // step)
    check_allocation((*batch, 2 * count + pieces, max(pieces, 1) * step), frames.dtype)
    padded = np.zeros((*batch, count, pieces * step), frames.dtype)
    padded[..., :size] = frames
    padded = padded.reshape(*batch, count, pieces, step)
    total = np.zeros((*batch, count + pieces - 1, step), frames.dtype)
    # In this order, every element is summed in the order of the frames.
    for piece in within_time(reversed(range(pieces))):
        total[..., piece : piece + count, :] += padded[..., piece, :]
    return total.reshape(*batch, (count + pieces - 1) * step)[..., :length]
