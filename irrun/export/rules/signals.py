"""Export of Fourier transforms, as products with their matrices."""

from __future__ import annotations

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import concat, reshape, slice_axis, squeeze, transpose, unsqueeze, where
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array

__all__: list[str] = []

#: Maximum number of elements in a transform's matrix.
LIMIT = 1 << 24


def _make_matrix(length: int, size: int, count: int, *, inverse: bool) -> Array:
    """Return the complex matrix [length, count] of a transform of `size` elements, given `length` of them."""
    angles = 2 * np.pi / size * (np.outer(np.arange(length), np.arange(count)) % size)
    matrix: Array = np.exp((1j if inverse else -1j) * angles)
    return matrix / size if inverse else matrix


def _to_real_matrix(matrix: Array) -> Array:
    """Return the matrix [2 * n, 2 * m] that multiplies complex numbers, stored as pairs, by a matrix [n, m]."""
    n, m = matrix.shape
    result = np.empty((n, 2, m, 2))
    result[:, 0, :, 0], result[:, 0, :, 1] = matrix.real, matrix.imag
    result[:, 1, :, 0], result[:, 1, :, 1] = -matrix.imag, matrix.real
    return result.reshape(2 * n, 2 * m)


def _multiply(data: Value, matrix: Array) -> Value:
    if matrix.size > LIMIT:
        raise UnsupportedError(f"a transform with a matrix of {matrix.size} elements")
    return op("MatMul", data, constant(matrix.astype(data.type.dtype), data.type))


def _transform_pairs(data: Value, axis: int, shape: list[int], matrix: Array) -> Value:
    """Multiply complex data [..., 2] by a complex matrix along an axis. `shape` excludes the last dimension."""
    rank = len(shape)
    order = [*(i for i in range(rank) if i != axis), axis, rank]
    moved = transpose(data, order)
    if shape[axis] > matrix.shape[0]:
        moved = slice_axis(moved, 0, matrix.shape[0], rank - 1)
    rest = [shape[i] for i in order[:-2]]
    product = _multiply(reshape(moved, [*rest, 2 * matrix.shape[0]]), _to_real_matrix(matrix))
    shape[axis] = matrix.shape[1]
    return transpose(reshape(product, [*rest, matrix.shape[1], 2]), [int(i) for i in np.argsort(order)])


def _read_sizes(site: Site, axes: list[int], defaults: list[int]) -> list[int]:
    given = site.read_integers(2) if site.get(2) is not None else [-1] * len(axes)
    return [d if s == -1 else s for s, d in zip(given, defaults, strict=True)]


def _export_complex(site: Site, *, inverse: bool) -> Value:
    data, shape = site[0], site.get_static_shape(0)[:-1]
    axes = [a % len(shape) for a in site.read_integers(1)]
    for axis, size in zip(axes, _read_sizes(site, axes, [shape[a] for a in axes]), strict=True):
        matrix = _make_matrix(min(shape[axis], size), size, size, inverse=inverse)
        data = _transform_pairs(data, axis, shape, matrix)
    return data


@exports("DFT-7", compute="f32")
def export_dft(site: Site) -> Value:
    """Export DFT."""
    return _export_complex(site, inverse=False)


@exports("IDFT-7", compute="f32")
def export_idft(site: Site) -> Value:
    """Export IDFT."""
    return _export_complex(site, inverse=True)


@exports("RDFT-9", compute="f32")
def export_rdft(site: Site) -> Value:
    """Export RDFT: first the last axis, from real numbers."""
    data, shape = site[0], site.get_static_shape(0)
    axes = [a % len(shape) for a in site.read_integers(1)]
    if not axes:
        rank = len(shape)
        return op("Pad", unsqueeze(data, [rank]), constant([0] * (2 * rank + 1) + [1]))
    sizes = _read_sizes(site, axes, [shape[a] for a in axes])
    rank, axis, size = len(shape), axes[-1], sizes[-1]
    length, count = min(shape[axis], size), size // 2 + 1
    order = [*(i for i in range(rank) if i != axis), axis]
    moved = transpose(data, order)
    if shape[axis] > length:
        moved = slice_axis(moved, 0, length, rank - 1)
    matrix = _make_matrix(length, size, count, inverse=False)
    pairs = np.stack([matrix.real, matrix.imag], axis=-1).reshape(length, 2 * count)
    shape[axis] = count
    product = reshape(_multiply(moved, pairs), [*(shape[i] for i in order), 2])
    data = transpose(product, [*(int(i) for i in np.argsort(order)), rank])
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        data = _transform_pairs(data, axis, shape, _make_matrix(min(shape[axis], size), size, size, inverse=False))
    return data


def _make_inverse_real(given: int, size: int) -> Array:
    """Return the matrix [2 * n, size] that computes real numbers from half of their spectrum."""
    length = min(given, size // 2 + 1)
    spectrum = np.zeros((length, 2, size // 2 + 1), complex)
    for i in range(length):
        spectrum[i, 0, i], spectrum[i, 1, i] = 1, 1j
    matrix: Array = np.fft.irfft(spectrum, size, axis=-1).reshape(2 * length, size)
    return matrix


@exports("IRDFT-9", compute="f32")
def export_irdft(site: Site) -> Value:
    """Export IRDFT: the last axis last, to real numbers."""
    data, shape = site[0], site.get_static_shape(0)[:-1]
    axes = [a % len(shape) for a in site.read_integers(1)]
    if not axes:
        return squeeze(slice_axis(data, 0, 1, -1), [-1])
    defaults = [shape[a] for a in axes]
    defaults[-1] = 2 * (defaults[-1] - 1)
    sizes = _read_sizes(site, axes, defaults)
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        data = _transform_pairs(data, axis, shape, _make_matrix(min(shape[axis], size), size, size, inverse=True))
    rank, axis, size = len(shape), axes[-1], sizes[-1]
    order = [*(i for i in range(rank) if i != axis), axis, rank]
    moved = transpose(data, order)
    matrix = _make_inverse_real(shape[axis], size)
    length = matrix.shape[0] // 2
    if shape[axis] > length:
        moved = slice_axis(moved, 0, length, rank - 1)
    product = _multiply(reshape(moved, [*(shape[i] for i in order[:-2]), 2 * length]), matrix)
    return transpose(product, [int(i) for i in np.argsort(order[:-1])])


def _center_window(window: Value, length: int, size: int) -> Value:
    before = (size - length) // 2
    return op("Pad", window, constant([before, size - length - before])) if length < size else window


@exports("STFT-15", compute="f32")
def export_stft(site: Site) -> Value:
    """Export STFT: frames, multiplied by the window and by the matrix of the transform."""
    signal = site[0]
    size, step = site.read_integers(2)[0], site.read_integers(3)[0]
    *batch, length = site.get_static_shape(0)
    window = _center_window(cast(site[1], signal.type), site.get_static_shape(1)[0], size)
    starts = np.arange(0, length - size + 1, step)
    frames = op("Gather", signal, constant(starts[:, np.newaxis] + np.arange(size)), axis=-1) * window
    matrix = _make_matrix(size, size, size // 2 + 1, inverse=False)
    pairs = np.stack([matrix.real, matrix.imag], axis=-1).reshape(size, -1)
    spectrum = reshape(_multiply(frames, pairs), [*batch, len(starts), size // 2 + 1, 2])
    if site.transpose_frames:
        rank = len(batch)
        spectrum = transpose(spectrum, [*range(rank), rank + 1, rank, rank + 2])
    return spectrum


@exports("ISTFT-16", compute="f32")
def export_istft(site: Site) -> Value:
    """Export ISTFT: inverse transforms of frames, added by a transposed convolution."""
    data = site[0]
    size, step = site.read_integers(2)[0], site.read_integers(3)[0]
    shape = site.get_static_shape(0)
    has_batch = len(shape) == 4
    if not has_batch:
        data = unsqueeze(data, [0])
        shape = [1, *shape]
    batch, bins, count, _ = shape
    window = _center_window(cast(site[1], data.type), site.get_static_shape(1)[0], size)
    matrix = _make_inverse_real(bins, size)
    pairs = reshape(op("Transpose", data, perm=[0, 2, 1, 3]), [batch, count, 2 * bins])
    frames = _multiply(pairs, matrix) * window
    identity = constant(np.eye(size).reshape(size, 1, size).astype(data.type.dtype), data.type)

    def add_overlapping(value: Value) -> Value:
        return op("ConvTranspose", op("Transpose", value, perm=[0, 2, 1]), identity, strides=[step])

    total = add_overlapping(frames)
    if site.normalized:
        total = total * float(np.sqrt(size))
    weights = op("Expand", reshape(window * window, [1, 1, size]), constant([1, count, size]))
    weight = add_overlapping(weights)
    result = squeeze(where(op("Equal", weight, 0.0), 0.0, total / weight), [1])
    margin = size // 2 if site.center else 0
    whole = (count - 1) * step + size
    length = site.read_integers(4)[0] if site.get(4) is not None else 0
    if length <= 0:
        result = slice_axis(result, margin, whole - margin, 1)
    else:
        result = slice_axis(result, margin, margin + length, 1)
        missing = length - min(length, whole - margin)
        if missing > 0:
            result = op("Pad", result, constant([0, 0, 0, missing]))
    return result if has_batch else squeeze(result, [0])


_ = concat
