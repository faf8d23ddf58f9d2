"""Signal processing: discrete Fourier transforms of whole tensors and of short frames.

A complex tensor is a real one whose last dimension is 2: real and imaginary parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axes, to_int_list, to_scalar
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["dft_7", "idft_7", "irdft_9", "istft_16", "rdft_9", "stft_15"]


@op("DFT", since=7)
@compute_in_float32
def dft_7(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """The discrete Fourier transform of complex `data` along `axes`.

    data: float [..., 2], complex; axes: integer 1D, different axes of the complex tensor;
    signal_size: integer, as many as axes: lengths to which data is cut or filled with zeros, -1 to keep one.
    Returns the type of data, complex.
    Raises InputError where data is not complex, or axes and sizes do not fit.
    Spec: DFT-7.
    """
    values, where, sizes = _complex_arguments(data, axes, signal_size)
    if 0 in sizes:
        return _as_real(_without_elements(values, sizes, where), data.dtype)
    return _as_real(np.fft.fftn(values, sizes, where), data.dtype)


@op("IDFT", since=7)
@compute_in_float32
def idft_7(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """The inverse discrete Fourier transform of complex `data` along `axes`.

    data, axes, signal_size: as for DFT.
    Returns the type of data, complex.
    Raises InputError where data is not complex, or axes and sizes do not fit.
    Spec: IDFT-7.
    """
    values, where, sizes = _complex_arguments(data, axes, signal_size)
    if 0 in sizes:
        return _as_real(_without_elements(values, sizes, where), data.dtype)
    return _as_real(np.fft.ifftn(values, sizes, where), data.dtype)


@op("RDFT", since=9)
@compute_in_float32
def rdft_9(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """The discrete Fourier transform of real `data` along `axes`, without the half that symmetry gives.

    data: float, real; axes: integer 1D, different axes of data; signal_size: as for DFT.
    Returns the type of data, complex, with n // 2 + 1 elements along the last of the axes, none where n is 0.
    Raises InputError where axes and sizes do not fit.
    Spec: RDFT-9.
    """
    where = normalize_axes(to_int_list(axes), data.ndim)
    sizes = _sizes(data.shape, where, [data.shape[axis] for axis in where], signal_size)
    if not where:
        return _as_real(data, data.dtype)
    if 0 in sizes:
        half = [*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0]
        return _as_real(_without_elements(data, half, where), data.dtype)
    return _as_real(np.fft.rfftn(data, sizes, where), data.dtype)


@op("IRDFT", since=9)
@compute_in_float32
def irdft_9(data: Array, axes: Array, signal_size: Array | None = None) -> Array:
    """The inverse of RDFT: real data from the half of a symmetric complex spectrum.

    data: float [..., 2], complex; axes, signal_size: as for DFT; the default size along the last of the axes
    is 2 * (n - 1).
    Returns the type of data, real.
    Raises InputError where data is not complex, or axes and sizes do not fit.
    Spec: IRDFT-9.
    """
    values = _as_complex(data)
    where = normalize_axes(to_int_list(axes), values.ndim)
    if not where:
        return values.real
    defaults = [values.shape[axis] for axis in where]
    defaults[-1] = max(0, 2 * (defaults[-1] - 1))
    sizes = _sizes(values.shape, where, defaults, signal_size)
    if 0 in sizes:
        return _without_elements(data[..., 0], sizes, where)
    result: Array = np.fft.irfftn(values, sizes, where)
    return result.astype(data.dtype, copy=False)


@op("STFT", since=15)
@compute_in_float32
def stft_15(signal: Array, window: Array, frame_size: Array, frame_step: Array, *, transpose_frames: bool) -> Array:
    """The transform (RDFT) of overlapping frames of `signal`, each times the window.

    signal: float [length] or [batch, length]; window: float [<= frame_size], put into the middle of a frame;
    frame_size, frame_step: integer scalars.
    Returns the type of signal, complex: [batch, frames, frame_size // 2 + 1, 2]; with `transpose_frames`
    [batch, frame_size // 2 + 1, frames, 2]; no batch where signal has none.
    Raises InputError where the sizes do not fit.
    Spec: STFT-15.
    """
    size, step = _frame(frame_size, frame_step)
    if signal.ndim not in (1, 2) or signal.shape[-1] < size:
        raise InputError(f"a signal of shape {list(signal.shape)} has no frames of {size}")
    frames = sliding_window_view(signal, size, axis=-1)[..., ::step, :]
    check_allocation(frames.shape, signal.dtype)
    spectrum = np.fft.rfft(frames * _centered(window, size), axis=-1)
    if transpose_frames:
        spectrum = spectrum.swapaxes(-1, -2)
    return _as_real(spectrum, signal.dtype)


@op("ISTFT", since=16)
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
    """The signal that has the short-time spectrum `data`: frames are added where they overlap.

    data: float [frame_size // 2 + 1, frames, 2] or with a batch in front, complex; window, frame_size,
    frame_step: as for STFT; signal_length: integer scalar, the length to cut or to fill up with zeros.
    `center` drops frame_size // 2 elements at both ends: an odd frame_size leaves one more than the specification
    counts. `normalized` says that the spectrum was divided by sqrt(frame_size).
    Returns the type of data: [length] or [batch, length].
    Raises InputError where the sizes do not fit.
    Spec: ISTFT-16.
    """
    size, step = _frame(frame_size, frame_step)
    spectrum = _as_complex(data)
    if spectrum.ndim not in (2, 3) or spectrum.shape[-2] != size // 2 + 1:
        raise InputError(
            f"data has shape {list(data.shape)}, expected [batch, {size // 2 + 1}, frames, 2] for frames of {size}"
        )
    weight = _centered(window, size)
    frames = np.fft.irfft(spectrum.swapaxes(-1, -2), size, axis=-1).astype(data.dtype, copy=False)
    total = _overlapped(frames * weight, step)
    if normalized:
        total = total * total.dtype.type(np.sqrt(size))
    share = _overlapped(np.broadcast_to(weight * weight, (spectrum.shape[-1], size)), step)
    result: Array = np.where(share == 0, total.dtype.type(0), total / share)
    margin = size // 2 if center else 0
    length = 0 if signal_length is None else to_scalar(signal_length, "signal_length")
    if length <= 0:
        return result[..., margin : result.shape[-1] - margin]
    # A length takes the place of the margin at the end.
    kept = result[..., margin : margin + length]
    check_allocation((*kept.shape[:-1], length), kept.dtype)
    filled = np.zeros((*kept.shape[:-1], length), kept.dtype)
    filled[..., : kept.shape[-1]] = kept
    return filled


def _complex_arguments(data: Array, axes: Array, signal_size: Array | None) -> tuple[Array, tuple[int, ...], list[int]]:
    values = _as_complex(data)
    where = normalize_axes(to_int_list(axes), values.ndim)
    return values, where, _sizes(values.shape, where, [values.shape[axis] for axis in where], signal_size)


def _sizes(shape: Sequence[int], axes: Sequence[int], defaults: Sequence[int], signal_size: Array | None) -> list[int]:
    """The length along each of the axes of a tensor of `shape`; -1 stands for the default."""
    sizes = [-1] * len(axes) if signal_size is None else to_int_list(signal_size)
    if len(sizes) != len(axes):
        raise InputError(f"{len(sizes)} signal sizes were given for {len(axes)} axes")
    found = [default if size == -1 else size for size, default in zip(sizes, defaults, strict=True)]
    if found and min(found) < 0:
        raise InputError(f"a transform of sizes {found} along axes {list(axes)} is impossible")
    lengths = dict(enumerate(shape)) | dict(zip(axes, found, strict=True))
    check_allocation(lengths.values(), np.dtype(np.complex64))
    return found


def _without_elements(values: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
    """What a transform with no elements along an axis gives; NumPy refuses it."""
    lengths = dict(enumerate(values.shape)) | dict(zip(axes, sizes, strict=True))
    return np.empty(tuple(lengths.values()), values.dtype)


def _as_complex(data: Array) -> Array:
    if data.ndim < 1 or data.shape[-1] != 2:
        raise InputError(f"data has shape {list(data.shape)}, expected [..., 2] for complex numbers")
    dtype = np.complex128 if data.dtype == np.float64 else np.complex64
    result: Array = np.ascontiguousarray(data).view(dtype)[..., 0]
    return result


def _as_real(values: Array, dtype: np.dtype[Any]) -> Array:
    return np.stack([values.real, values.imag], axis=-1).astype(dtype, copy=False)


def _frame(frame_size: Array, frame_step: Array) -> tuple[int, int]:
    size, step = to_scalar(frame_size, "frame_size"), to_scalar(frame_step, "frame_step")
    if size < 1 or step < 1:
        raise InputError(f"frames of {size} every {step} elements, expected at least 1")
    return size, step


def _centered(window: Array, size: int) -> Array:
    """`window` in the middle of `size` elements, zeros around."""
    if window.ndim != 1 or not 0 < window.size <= size:
        raise InputError(f"the window has shape {list(window.shape)}, expected [1] to [{size}]")
    before = (size - window.size) // 2
    return np.pad(window, (before, size - window.size - before))


def _overlapped(frames: Array, step: int) -> Array:
    """The sum of `frames` [..., frames, size], each `step` behind the one before it: [..., length]."""
    *batch, count, size = frames.shape
    length = (count - 1) * step + size if count else 0
    pieces = -(-size // step)
    padded = np.zeros((*batch, count, pieces * step), frames.dtype)
    padded[..., :size] = frames
    padded = padded.reshape(*batch, count, pieces, step)
    total = np.zeros((*batch, count + pieces - 1, step), frames.dtype)
    # The last pieces first: then every element is summed in the order of the frames.
    for piece in reversed(range(pieces)):
        total[..., piece : piece + count, :] += padded[..., piece, :]
    return total.reshape(*batch, (count + pieces - 1) * step)[..., :length]
