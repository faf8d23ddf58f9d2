"""Rules for signal processing."""

from __future__ import annotations

import numpy as np

from irrun.onnx_import.graph import Value, cast, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import (
    broadcast,
    concat,
    gather,
    get_lengths,
    reshape,
    slice_axis,
    squeeze,
    to_vector,
)


@translate("DFT")
def translate_dft(node: Node) -> Value:
    """DFT, IDFT, RDFT and IRDFT."""
    x, size = node[0], node.get(1)
    rank = x.get_rank()
    if node.version >= 20:
        axes = node.read_integers(2)
        axis = -2 if axes is None else axes[0]
    else:
        axis = node.get_int("axis", 1)
    axis = axis % rank
    return transform(x, axis, size, bool(node.get_int("inverse", 0)), bool(node.get_int("onesided", 0)))


def transform(x: Value, axis: int, size: Value | None, inverse: bool, onesided: bool) -> Value:
    """Return the Fourier transform of an axis.

    Args:
        x: The data, whose last axis has the real, or the real and imaginary parts.
        axis: The axis, not negative.
        size: The length of the transform; None for that of the axis.
        inverse: Whether it is the inverse transform.
        onesided: Whether the half of a symmetric result is returned, or the data are such a half.
    """
    rank = x.get_rank()
    sizes = () if size is None else (to_vector(cast(size, "i64")),)
    axes = constant([axis])
    is_real = x.get_dimension(-1) == 1
    if inverse and onesided:
        return op("Unsqueeze", op("IRDFT", x, axes, *sizes), constant([rank - 1]))
    if onesided and is_real:
        return op("RDFT", squeeze(x, rank - 1), axes, *sizes)
    if is_real:
        x = concat([x, broadcast(constant(0, x.type), op("ShapeOf", x, output_type="i64"))], rank - 1)
    result = op("IDFT" if inverse else "DFT", x, axes, *sizes)
    if onesided:
        length = get_lengths(result, axis)
        result = slice_axis(result, 0, length / 2 + 1, axis)
    return result


@translate("STFT")
def translate_stft(node: Node) -> Value:
    """Return the Fourier transform of frames that are gathered from the signal."""
    signal, window = node[0], node.get(2)
    step = node.read_integers(1)
    frame = node.read_integers(3)
    length = frame[0] if frame is not None else None
    if length is None and window is not None:
        length = window.get_dimension(0)
    total = signal.get_dimension(1)
    if step is None or length is None or total is None:
        raise node.refuse("STFT without a constant step, length of frames and length of the signal")
    starts = np.arange(0, total - length + 1, step[0])
    frames = gather(signal, starts[:, None] + np.arange(length), 1)
    if window is not None:
        frames = frames * reshape(window, [1, 1, -1, 1])
    return transform(frames, 2, None, False, bool(node.get_int("onesided", 1)))


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
