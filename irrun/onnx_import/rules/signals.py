"""Rules for signal processing."""

from __future__ import annotations

import numpy as np

from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import (
    broadcast,
    concat,
    gather,
    get_lengths,
    reshape,
    shape_of,
    slice_axis,
    squeeze,
    to_vector,
    unsqueeze,
    where,
)
from irrun.onnx_import.rules.selection import to_scalar

#: Maximum number of elements in the frames of a complex signal.
MAX_ELEMENTS = 1 << 24


@translate("DFT")
def translate_dft(node: Node) -> Value:
    """DFT, IDFT, RDFT and IRDFT."""
    x, size = node[0], node.get(1)
    rank = x.get_rank()
    axis = constant([node.get_int("axis", 1)] if node.version < 20 else [-2])
    if node.version >= 20 and node.get(2) is not None:
        axis = to_vector(cast(node[2], "i64"))
    axis = where(axis < 0, axis + rank, axis)
    return transform(x, axis, size, bool(node.get_int("inverse", 0)), bool(node.get_int("onesided", 0)))


def transform(x: Value, axis: Value, size: Value | None, inverse: bool, onesided: bool) -> Value:
    """Return the Fourier transform of an axis.

    Args:
        x: The data. The last axis holds real parts, or real and imaginary parts.
        axis: The axis, i64 of shape [1], not negative.
        size: The length of the transform; None for the length of the axis.
        inverse: Whether to compute the inverse transform.
        onesided: Whether the result, or for an inverse transform the data, is half of a symmetric spectrum.
    """
    rank = x.get_rank()
    sizes = () if size is None else (to_vector(cast(size, "i64")),)
    is_real = x.get_dimension(-1) == 1
    if inverse and onesided:
        return unsqueeze(op("IRDFT", x, axis, *sizes), rank - 1)
    if onesided and is_real:
        return op("RDFT", squeeze(x, rank - 1), axis, *sizes)
    if x.get_dimension(-1) != 2:  # real, or the file does not say
        x = concat([x, broadcast(constant(0, x.type), shape_of(x))], rank - 1)
        x = x if is_real else slice_axis(x, 0, 2, rank - 1)
    result = op("IDFT" if inverse else "DFT", x, axis, *sizes)
    if onesided:
        stop = op("Gather", shape_of(result), axis, constant(0)) / 2 + 1
        result = op("Slice", result, constant([0]), stop, constant([1]), axis)
    return result


@translate("STFT")
def translate_stft(node: Node) -> Value:
    """STFT of real signals; the transform of the frames of complex ones."""
    signal, step, window, length = node[0], node[1], node.get(2), node.get(3)
    if length is None:
        if window is None:
            raise ModelError("found neither the window nor the length of frames")
        length = get_lengths(window, 0)
    length = to_scalar(cast(length, "i64"))
    if window is None:
        window = broadcast(constant(1, signal.type), to_vector(length))
    is_real = signal.rank == 2 or signal.get_dimension(-1) == 1
    if is_real and node.get_int("onesided", 1):
        data = signal if signal.rank == 2 else squeeze(signal, 2)
        return op("STFT", data, window, length, to_scalar(cast(step, "i64")), transpose_frames=False)
    steps = node.read_integers(1)
    size, total = length.read(), signal.get_dimension(1)
    if steps is None or size is None or total is None or total // max(steps[0], 1) * int(size) > MAX_ELEMENTS:
        raise node.refuse("STFT of complex signals without constant lengths")
    if signal.rank == 2:
        signal = unsqueeze(signal, 2)
    starts = np.arange(0, total - int(size) + 1, steps[0])
    frames = gather(signal, starts[:, None] + np.arange(int(size)), 1) * reshape(window, [1, 1, -1, 1])
    return transform(frames, constant([2]), None, False, bool(node.get_int("onesided", 1)))


@translate("MelWeightMatrix")
def translate_mel_weight_matrix(node: Node) -> Value:
    """Return a constant."""
    bins, size, rate = (int(_read(node, i)) for i in range(3))
    low, high = (float(_read(node, i)) for i in (3, 4))
    kind = node.get_type("output_datatype", None) if node.has("output_datatype") else None
    count = size // 2 + 1
    edges = np.arange(bins + 2, dtype=np.float64)
    bottom, top = (2595 * np.log10(1 + f / 700) for f in (low, high))
    edges = edges * ((top - bottom) / (bins + 2)) + bottom
    positions = ((size + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(int)
    result = np.zeros((count, bins))
    for i in range(bins):
        left, middle, right = positions[i : i + 3]
        if middle == left:
            result[middle, i] = 1
        else:
            for j in range(left, middle + 1):
                result[j, i] = (j - left) / (middle - left)
        if right > middle:
            for j in range(middle, right):
                result[j, i] = (right - j) / (right - middle)
    return constant(result, kind or "f32")


def _read(node: Node, position: int) -> float:
    array = node.read(position)
    assert array is not None
    return float(array.reshape(-1)[0])
