"""Configurations for the Fourier transforms."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from conformance.harness import Case, configurations

BF16 = ml_dtypes.bfloat16

#: The reference sums n products in f32 with twiddles made in f32, so its own error grows with n; the values
#: here are of magnitude sqrt(n).
TRANSFORMED = (1e-5, 2e-5)


def f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def i64(*values):
    return np.array(values, np.int64)


def _fitted(x, axis, size):
    """`x` cut or filled with zeros to `size` elements along an axis."""
    x = np.take(x, range(min(size, x.shape[axis])), axis)
    pads = [(0, size - x.shape[a]) if a == axis else (0, 0) for a in range(x.ndim)]
    return np.pad(x, pads)


def _transformed(x, axis, inverse):
    """The sum that defines the transform along one axis."""
    n = x.shape[axis]
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    matrix = np.exp(1j * angles) / n if inverse else np.exp(-1j * angles)
    return np.moveaxis(np.tensordot(x, matrix, ([axis], [0])), -1, axis)


def _by_definition(data, axes, sizes, kind):
    """RDFT and IRDFT in f64, from the sums of the specification."""
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
            x = _transformed(_fitted(x, axis, size), axis, inverse=False)
        x = np.take(x, range(n // 2 + 1), last)
        return np.stack([x.real, x.imag], axis=-1).astype(data.dtype)
    for axis, size in zip(axes[:-1], sizes, strict=False):
        x = _transformed(_fitted(x, axis, size), axis, inverse=True)
    half = _fitted(x, last, n // 2 + 1)
    mirrored = np.conj(np.take(half, range((n - 1) // 2, 0, -1), last))
    return _transformed(np.concatenate([half, mirrored], last), last, inverse=True).real.astype(data.dtype)


def _transforms(rng, kind):
    """Cases that all four transforms share; shapes are those of the complex or real tensor."""
    real = kind == "RDFT"

    def case(shape, axes, sizes=None, dtype=np.float32, integers=np.int64, **more):
        data = f32(rng, *shape) if real else f32(rng, *shape, 2)
        inputs = [data.astype(dtype), np.array(axes, integers)]
        if sizes is not None:
            inputs.append(np.array(sizes, integers))
        more.setdefault("constants", tuple(range(1, len(inputs))))
        more.setdefault("tolerance", TRANSFORMED)
        if kind in ("RDFT", "IRDFT"):
            more["expected"] = [_by_definition(inputs[0], axes, sizes, kind)]
            # The CPU plugin crashes on sizes (it reads memory that is not theirs) and on axes known at run time.
            more["oracles"] = ("cpu",) if sizes is None and more["constants"] else ()
        return Case(inputs, oracles=more.pop("oracles", ("evaluate", "cpu")), **more)

    for n in (4, 8, 9, 5, 2):  # powers of two go another way in the reference
        yield case((n,), [0])
        yield case((2, n), [1])
        yield case((n, 3), [0])
    yield case((2, 4, 6), [1, 2])
    yield case((2, 4, 6), [2, 1])
    yield case((2, 4, 6), [0, 2])
    yield case((2, 4, 6), [-1])
    yield case((2, 4, 6), [-2, -1])
    yield case((2, 4, 6), [-1, 0])
    yield case((2, 3, 4, 5), [1, 2, 3])
    yield case((2, 3, 4, 5), [3, 1, 2])
    yield case((2, 3, 2, 3, 2), [1, 2, 3, 4])
    # Sizes: longer, shorter, kept.
    yield case((2, 5), [1], [8])
    yield case((2, 5), [1], [3])
    yield case((2, 5), [1], [-1])
    yield case((2, 4, 6), [1, 2], [7, 5])
    yield case((2, 4, 6), [2, 1], [4, -1])
    yield case((2, 4, 6), [0, 2], [-1, 9])
    yield case((3, 4, 5), [-1, 0], [6, 2])
    yield case((3, 4, 5), [2, 0, 1], [4, 5, 3])
    yield case((3, 1), [1], [4])
    # Other types.
    yield case((2, 4, 6), [1, 2], [5, 8], integers=np.int32)
    yield case((2, 8), [0, 1], dtype=np.float16, oracles=("cpu",), tolerance=(2e-3, 2e-3))
    yield case((2, 6), [1], dtype=BF16, oracles=("cpu",), tolerance=(1e-2, 2e-2))
    # Axes and sizes known at run time only.
    yield case((2, 4, 6), [1, 2], constants=())
    yield case((2, 4, 6), [1, 2], [5, 8], constants=())
    # Nothing to transform.
    for shape, axes in (((0,), [0]), ((2, 0, 3), [1, 2]), ((2, 3, 0), [1, 2]), ((2, 0, 3), [0, 2])):
        empty = np.zeros(shape if real else (*shape, 2), np.float32)
        yield Case([empty, i64(*axes)], constants=[1], oracles=("cpu",))


@configurations("DFT", since=7)
def dft_7(rng):
    yield from _transforms(rng, "DFT")


@configurations("IDFT", since=7)
def idft_7(rng):
    yield from _transforms(rng, "IDFT")


@configurations("RDFT", since=9)
def rdft_9(rng):
    yield from _transforms(rng, "RDFT")


@configurations("IRDFT", since=9)
def irdft_9(rng):
    yield from _transforms(rng, "IRDFT")


@configurations("STFT", since=15)
def stft_15(rng):
    def case(shape, window, size, step, transpose, dtype=np.float32, integers=np.int64, **more):
        weights = rng.uniform(0.1, 1, window)
        inputs = [f32(rng, *shape).astype(dtype), weights.astype(dtype)]
        inputs += [np.array(size, integers), np.array(step, integers)]
        tolerance = more.pop("tolerance", TRANSFORMED)
        attributes = {"transpose_frames": transpose}
        return Case(inputs, attributes, tolerance=tolerance, **{"constants": (2, 3), **more})

    for transpose in (False, True):
        yield case((1, 48), 16, 16, 16, transpose)
        yield case((2, 48), 16, 16, 4, transpose)
        yield case((2, 48), 11, 11, 3, transpose, note="odd frames")
        yield case((2, 48), 7, 11, 3, transpose, note="a short window")
        yield case((2, 49), 8, 11, 5, transpose)
        yield case((3, 20), 5, 6, 9, transpose, note="steps longer than frames")
        yield case((1, 9), 8, 8, 2, transpose)
        yield case((48,), 16, 16, 4, transpose, note="no batch")
        yield case((2, 48), 1, 2, 1, transpose)
        yield case((2, 48), 16, 16, 4, transpose, integers=np.int32)
        yield case((2, 48), 16, 16, 4, transpose, constants=())
        yield case((2, 48), 16, 16, 4, transpose, constants=(), dynamic=(0, 1))
    yield case((2, 48), 16, 16, 4, True, dtype=np.float16, tolerance=(2e-3, 2e-3))
    yield case((2, 48), 16, 16, 4, True, dtype=BF16, tolerance=(1e-2, 2e-2))


@configurations("ISTFT", since=16)
def istft_16(rng):
    def case(batch, frames, window, size, step, center, normalized, length=None, dtype=np.float32, **more):
        weights = rng.uniform(0.3, 1, window)
        data = f32(rng, *batch, size // 2 + 1, frames, 2)
        integers = more.pop("integers", np.int64)
        inputs = [data.astype(dtype), weights.astype(dtype)]
        inputs += [np.array(v, integers) for v in (size, step, length) if v is not None]
        tolerance = more.pop("tolerance", TRANSFORMED)
        attributes = {"center": center, "normalized": normalized}
        constants = tuple(range(2, len(inputs)))
        return Case(inputs, attributes, tolerance=tolerance, **{"constants": constants, **more})

    for center, normalized in itertools.product((False, True), (False, True)):
        flags = (center, normalized)
        yield case((), 6, 16, 16, 4, *flags)
        yield case((2,), 6, 16, 16, 4, *flags)
        yield case((3,), 5, 11, 11, 3, *flags, note="odd frames")
        yield case((2,), 6, 7, 11, 3, *flags, note="a short window")
        yield case((2,), 4, 8, 8, 8, *flags, note="no overlap")
        yield case((2,), 4, 6, 6, 9, *flags, note="gaps")
        yield case((2,), 1, 8, 8, 4, *flags, note="one frame")
        for length in (10, 40):
            yield case((2,), 6, 16, 16, 4, *flags, length)
            yield case((), 5, 11, 11, 3, *flags, length)
        yield case((2,), 6, 16, 16, 4, *flags, constants=())
        yield case((2,), 6, 16, 16, 4, *flags, 24, constants=())
    yield case((2,), 6, 16, 16, 4, True, False, integers=np.int32)
    yield case((2,), 6, 16, 16, 4, True, False, 30, integers=np.int32)
    yield case((2,), 6, 16, 16, 4, True, False, dtype=np.float16, tolerance=(2e-3, 2e-3))
    yield case((2,), 6, 16, 16, 4, False, True, dtype=BF16, tolerance=(1e-2, 2e-2))
