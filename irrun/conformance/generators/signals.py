"""Conformance cases for the signal processing operations."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from irrun.conformance.cases import Case, register_cases

BF16 = ml_dtypes.bfloat16

#: The reference implementation sums n products in f32 with twiddle factors computed in f32, so its error grows with n.
#: The values are of magnitude sqrt(n).
TRANSFORMED = (1e-5, 2e-5)


def sample_f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def make_i64(*values):
    return np.array(values, np.int64)


def _resize_axis(x, axis, size):
    """Crop `x` or pad it with zeros to `size` elements along an axis."""
    x = np.take(x, range(min(size, x.shape[axis])), axis)
    pads = [(0, size - x.shape[a]) if a == axis else (0, 0) for a in range(x.ndim)]
    return np.pad(x, pads)


def _transform_axis(x, axis, inverse):
    """Compute the sum that defines the transform along one axis."""
    n = x.shape[axis]
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    matrix = np.exp(1j * angles) / n if inverse else np.exp(-1j * angles)
    return np.moveaxis(np.tensordot(x, matrix, ([axis], [0])), -1, axis)


def _compute_transform(data, axes, sizes, kind):
    """Compute RDFT and IRDFT in f64 from their definition."""
    x = data.astype(np.float64)
    x = x if kind == "RDFT" else x[..., 0] + 1j * x[..., 1]
    axes = [axis % x.ndim for axis in axes]
    full = [x.shape[axis] for axis in axes]
    if kind == "IRDFT":
        full[-1] = 2 * (full[-1] - 1)
    sizes = [n if size == -1 else size for n, size in zip(full, sizes or [-1] * len(axes), strict=True)]
    last, n = axes[-1], sizes[-1]
    if kind == "RDFT":
        for axis, size in zip(axes, sizes, strict=True):
            x = _transform_axis(_resize_axis(x, axis, size), axis, inverse=False)
        x = np.take(x, range(n // 2 + 1), last)
        return np.stack([x.real, x.imag], axis=-1).astype(data.dtype)
    for axis, size in zip(axes[:-1], sizes, strict=False):
        x = _transform_axis(_resize_axis(x, axis, size), axis, inverse=True)
    half = _resize_axis(x, last, n // 2 + 1)
    mirrored = np.conj(np.take(half, range((n - 1) // 2, 0, -1), last))
    return _transform_axis(np.concatenate([half, mirrored], last), last, inverse=True).real.astype(data.dtype)


@register_cases("DFT", since=7, kind="DFT")
@register_cases("IDFT", since=7, kind="IDFT")
@register_cases("RDFT", since=9, kind="RDFT")
@register_cases("IRDFT", since=9, kind="IRDFT")
def _generate_transform_cases(rng, kind):
    """Yield the cases that all four transforms have in common."""
    real = kind == "RDFT"

    def make_case(shape, axes, sizes=None, dtype=np.float32, integers=np.int64, **options):
        data = sample_f32(rng, *shape) if real else sample_f32(rng, *shape, 2)
        inputs = [data.astype(dtype), np.array(axes, integers)]
        if sizes is not None:
            inputs.append(np.array(sizes, integers))
        options.setdefault("constants", tuple(range(1, len(inputs))))
        options.setdefault("tolerance", TRANSFORMED)
        if kind in ("RDFT", "IRDFT"):
            options["expected"] = [_compute_transform(inputs[0], axes, sizes, kind)]
            if sizes is not None or not options["constants"]:
                options["faults"] = ("plugin-rdft",)
        return Case(inputs, **options)

    for n in (4, 8, 9, 5, 2):  # the reference implementation has a separate algorithm for powers of two
        yield make_case((n,), [0])
        yield make_case((2, n), [1])
        yield make_case((n, 3), [0])
    yield make_case((2, 4, 6), [1, 2])
    yield make_case((2, 4, 6), [2, 1])
    yield make_case((2, 4, 6), [0, 2])
    yield make_case((2, 4, 6), [-1])
    yield make_case((2, 4, 6), [-2, -1])
    yield make_case((2, 4, 6), [-1, 0])
    yield make_case((2, 3, 4, 5), [1, 2, 3])
    yield make_case((2, 3, 4, 5), [3, 1, 2])
    yield make_case((2, 3, 2, 3, 2), [1, 2, 3, 4])
    # Sizes that pad, crop or keep an axis.
    yield make_case((2, 5), [1], [8])
    yield make_case((2, 5), [1], [3])
    yield make_case((2, 5), [1], [-1])
    yield make_case((2, 4, 6), [1, 2], [7, 5])
    yield make_case((2, 4, 6), [2, 1], [4, -1])
    yield make_case((2, 4, 6), [0, 2], [-1, 9])
    yield make_case((3, 4, 5), [-1, 0], [6, 2])
    yield make_case((3, 4, 5), [2, 0, 1], [4, 5, 3])
    yield make_case((3, 1), [1], [4])
    # Other types.
    yield make_case((2, 4, 6), [1, 2], [5, 8], integers=np.int32)
    yield make_case((2, 8), [0, 1], dtype=np.float16, tolerance=(2e-3, 2e-3))
    yield make_case((2, 6), [1], dtype=BF16, tolerance=(1e-2, 2e-2))
    # Axes and sizes as Parameters.
    yield make_case((2, 4, 6), [1, 2], constants=())
    yield make_case((2, 4, 6), [1, 2], [5, 8], constants=())
    # Empty data or axes.
    for shape, axes in (((0,), [0]), ((2, 0, 3), [1, 2]), ((2, 3, 0), [1, 2]), ((2, 0, 3), [0, 2])):
        empty = np.zeros(shape if real else (*shape, 2), np.float32)
        yield Case([empty, make_i64(*axes)], constants=[1])


@register_cases("STFT", since=15)
def stft_15(rng):
    def make_case(shape, window, size, step, transpose, dtype=np.float32, integers=np.int64, **options):
        weights = rng.uniform(0.1, 1, window)
        inputs = [sample_f32(rng, *shape).astype(dtype), weights.astype(dtype)]
        inputs += [np.array(size, integers), np.array(step, integers)]
        tolerance = options.pop("tolerance", TRANSFORMED)
        attributes = {"transpose_frames": transpose}
        return Case(inputs, attributes, tolerance=tolerance, **{"constants": (2, 3), **options})

    for transpose in (False, True):
        yield make_case((1, 48), 16, 16, 16, transpose)
        yield make_case((2, 48), 16, 16, 4, transpose)
        yield make_case((2, 48), 11, 11, 3, transpose, note="odd frame size")
        yield make_case((2, 48), 7, 11, 3, transpose, note="window shorter than the frame")
        yield make_case((2, 49), 8, 11, 5, transpose)
        yield make_case((3, 20), 5, 6, 9, transpose, note="steps longer than the frame")
        yield make_case((1, 9), 8, 8, 2, transpose)
        yield make_case((48,), 16, 16, 4, transpose, note="without a batch")
        yield make_case((2, 48), 1, 2, 1, transpose)
        yield make_case((2, 48), 16, 16, 4, transpose, integers=np.int32)
        yield make_case((2, 48), 16, 16, 4, transpose, constants=())
        yield make_case((2, 48), 16, 16, 4, transpose, constants=(), dynamic=(0, 1))
    yield make_case((2, 48), 16, 16, 4, True, dtype=np.float16, tolerance=(2e-3, 2e-3))
    yield make_case((2, 48), 16, 16, 4, True, dtype=BF16, tolerance=(1e-2, 2e-2))


@register_cases("ISTFT", since=16)
def istft_16(rng):
    def make_case(batch, frames, window, size, step, center, normalized, length=None, dtype=np.float32, **options):
        weights = rng.uniform(0.3, 1, window)
        data = sample_f32(rng, *batch, size // 2 + 1, frames, 2)
        integers = options.pop("integers", np.int64)
        inputs = [data.astype(dtype), weights.astype(dtype)]
        inputs += [np.array(v, integers) for v in (size, step, length) if v is not None]
        tolerance = options.pop("tolerance", TRANSFORMED)
        attributes = {"center": center, "normalized": normalized}
        constants = tuple(range(2, len(inputs)))
        return Case(inputs, attributes, tolerance=tolerance, **{"constants": constants, **options})

    for center, normalized in itertools.product((False, True), (False, True)):
        flags = (center, normalized)
        yield make_case((), 6, 16, 16, 4, *flags)
        yield make_case((2,), 6, 16, 16, 4, *flags)
        yield make_case((3,), 5, 11, 11, 3, *flags, note="odd frame size")
        yield make_case((2,), 6, 7, 11, 3, *flags, note="window shorter than the frame")
        yield make_case((2,), 4, 8, 8, 8, *flags, note="frames that do not overlap")
        yield make_case((2,), 4, 6, 6, 9, *flags, note="gaps between frames")
        yield make_case((2,), 1, 8, 8, 4, *flags, note="single frame")
        for length in (10, 40):
            yield make_case((2,), 6, 16, 16, 4, *flags, length)
            yield make_case((), 5, 11, 11, 3, *flags, length)
        yield make_case((2,), 6, 16, 16, 4, *flags, constants=())
        yield make_case((2,), 6, 16, 16, 4, *flags, 24, constants=())
    yield make_case((2,), 6, 16, 16, 4, True, False, integers=np.int32)
    yield make_case((2,), 6, 16, 16, 4, True, False, 30, integers=np.int32)
    yield make_case((2,), 6, 16, 16, 4, True, False, dtype=np.float16, tolerance=(2e-3, 2e-3))
    yield make_case((2,), 6, 16, 16, 4, False, True, dtype=BF16, tolerance=(1e-2, 2e-2))
