"""Saturation of int8 kernels: without VNNI, processors add two products of u8 and i8 in 16 bits, which saturate.

x86 multiplies u8 by i8 with `vpmaddubsw`. OpenVINO's CPU plugin uses it for convolutions and products with weights
of full 8 bits, for pairs of consecutive input channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.inspection.connections import Connections, ConnectionTable
from irrun.inspection.metrics import Metrics, measure, widen
from irrun.ir.graph import Layer

__all__ = ["EXPLAINED_DB", "SaturationCheck", "find_quantizer"]

Array = np.ndarray[Any, Any]

#: Saturation explains an error if recomputing the layer with saturation reduces the error by this many dB.
EXPLAINED_DB = 10.0
#: Maximum number of products of codes per layer; larger layers stay unexplained.
MAX_PRODUCTS = 1 << 31
#: Relative distance of a value from a multiple of its scale that counts as rounding.
ROUNDING = 1e-3
#: Layers that keep the scale of a value, and may lie between its quantizer and the product.
PASSING = frozenset(("MaxPool", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Relu", "ReLU"))


class SaturationCheck:
    """Computes quantized convolutions and matrix products with saturated pairs of products.

    Args:
        connections: The connections of the model.
    """

    def __init__(self, connections: ConnectionTable) -> None:
        self._connections = connections

    def describe(
        self, layer: Layer, inputs: Sequence[Array | None], value: Array, expected: Array, own: Metrics
    ) -> str:
        """Return the explanation of an error if saturation explains it, or "".

        Args:
            layer: The layer.
            inputs: Its inputs.
            value: Its output.
            expected: The reference.
            own: The error.
        """
        if layer.type not in ("Convolution", "MatMul") or value.shape != expected.shape or len(inputs) < 2:
            return ""
        x, weights = inputs[0], inputs[1]
        scale = self._find_scale(layer)
        if scale is None or x is None or weights is None or x.size * weights.size > MAX_PRODUCTS * x.shape[0]:
            return ""
        codes = _find_codes(widen(x), np.asarray(scale), 0, 255)
        if codes is None:
            return ""
        compute = _convolve if layer.type == "Convolution" else _multiply
        excess = compute(layer, codes, widen(weights))
        if excess is None or excess.shape != value.shape or not excess.any():
            return ""
        saturated = measure(widen(value) - excess * scale, widen(expected))
        if saturated.sqnr_db < own.sqnr_db + EXPLAINED_DB:
            return ""
        count = int(np.count_nonzero(excess))
        return (
            f"the int8 kernel of the reference saturates in 16 bits, as on processors without VNNI: {count} of "
            f"{excess.size} elements ({saturated.sqnr_db:.1f} dB with saturation, {own.sqnr_db:.1f} dB without)"
        )

    def _find_scale(self, layer: Layer) -> float | None:
        """Return the scale of the first input, if a FakeQuantize quantizes it to 256 levels from 0."""
        connections = self._connections.get(layer)
        current = find_quantizer(connections, layer)
        if current is None or str(current.attributes.get("levels")) != "256":
            return None
        limits = [None if s is None else s.layer.constant for s in connections.find_sources(current)[3:5]]
        if len(limits) < 2 or any(c is None or c.to_array().size != 1 for c in limits):
            return None
        low, high = (float(c.to_array().reshape(())) for c in limits if c is not None)
        return high / 255 if low == 0 < high else None


def find_quantizer(connections: Connections, layer: Layer) -> Layer | None:
    """Return the FakeQuantize of a layer's first input, looking through layers that keep its scale, or None.

    Args:
        connections: The connections of the graph.
        layer: The layer.
    """
    while True:
        source = next(iter(connections.find_sources(layer)), None)
        if source is None:
            return None
        layer = source.layer
        if layer.type not in PASSING:
            return layer if layer.type == "FakeQuantize" else None


def _find_codes(values: Array, scale: Array, low: int, high: int) -> Array | None:
    """Return values as multiples of their scale, or None if they are not multiples."""
    with np.errstate(all="ignore"):
        exact = values / scale
        codes = np.round(exact)
        is_code = np.abs(exact - codes) <= ROUNDING * np.maximum(np.abs(codes), 1)
    if not is_code.all() or codes.min() < low or codes.max() > high:
        return None
    return codes.astype(np.int32)


def _find_weight_codes(weights: Array) -> tuple[Array, Array] | None:
    """Return 8-bit codes and scales of weights, if each row consists of multiples of a scale.

    The largest code of a row is unknown. It is the first number from 127 down that makes all elements multiples.
    """
    codes = np.zeros(weights.shape, np.int32)
    scales = np.ones(len(weights))
    for i, row in enumerate(weights):
        largest = np.abs(row).max()
        if not largest:
            continue
        for code in range(127, 31, -1):
            found = _find_codes(row, np.asarray(largest / code), -128, 127)
            if found is not None:
                codes[i], scales[i] = found, largest / code
                break
        else:
            return None
    return codes, scales


def _sum_excess(weights: Array, columns: Array) -> Array | None:
    """Return how much saturated sums of pairs change the products, in units of the columns' scale.

    Args:
        weights: Rows of weights, of shape [outputs, channels, positions].
        columns: Codes, of shape [channels, positions, columns].

    Returns:
        An array of shape [outputs, columns], or None if the weights are not quantized.
    """
    found = _find_weight_codes(weights.reshape(len(weights), -1))
    if found is None:
        return None
    codes, scales = found[0].reshape(weights.shape), found[1]
    if weights.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1), (0, 0)))
        columns = np.pad(columns, ((0, 1), (0, 0), (0, 0)))
    result = np.zeros((len(weights), columns.shape[2]))
    for i, row in enumerate(codes):
        pairs = row[0::2, :, None] * columns[0::2] + row[1::2, :, None] * columns[1::2]
        result[i] = (pairs - np.clip(pairs, -32768, 32767)).sum(axis=(0, 1)) * scales[i]
    return result


def _multiply(layer: Layer, codes: Array, weights: Array) -> Array | None:
    """Return how much saturation changes a matrix product with constant weights."""
    if weights.ndim != 2 or codes.ndim < 2 or str(layer.attributes.get("transpose_a", "false")).lower() == "true":
        return None
    is_transposed = str(layer.attributes.get("transpose_b", "false")).lower() == "true"
    rows = weights if is_transposed else weights.T
    if rows.shape[1] != codes.shape[-1]:
        return None
    columns = codes.reshape(-1, codes.shape[-1]).T[:, None, :]
    excess = _sum_excess(rows[:, :, None], columns)
    return None if excess is None else excess.T.reshape(*codes.shape[:-1], len(rows))


def _convolve(layer: Layer, codes: Array, weights: Array) -> Array | None:
    """Return how much saturation changes a convolution with explicit padding."""
    rank = weights.ndim - 2
    names = ("strides", "dilations", "pads_begin", "pads_end")
    numbers = [[int(v) for v in str(layer.attributes.get(name, "")).split(",") if v.strip()] for name in names]
    strides, dilations, begin, end = (n or [1 if i < 2 else 0] * rank for i, n in enumerate(numbers))
    if str(layer.attributes.get("auto_pad", "explicit")).lower() not in ("explicit", "notset", ""):
        return None
    if codes.ndim != weights.ndim or codes.shape[1] != weights.shape[1]:
        return None
    padded = np.pad(codes, ((0, 0), (0, 0), *zip(begin, end, strict=True)))
    kernel = weights.shape[2:]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    axes = tuple(range(2, codes.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=axes)
    steps = [slice(None, None, s) for s in strides]
    inner = [slice(None, None, d) for d in dilations]
    everything = slice(None)
    index = (everything, everything, *steps, *inner)
    windows = windows[index]
    shape = windows.shape[2 : 2 + rank]
    results = []
    for image in windows:
        columns = np.moveaxis(image, range(1, 1 + rank), range(1 + rank, 1 + 2 * rank))
        excess = _sum_excess(
            weights.reshape(*weights.shape[:2], -1), columns.reshape(len(image), -1, int(np.prod(shape)))
        )
        if excess is None:
            return None
        results.append(excess.reshape(len(weights), *shape))
    return np.stack(results)
