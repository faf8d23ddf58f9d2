"""Codes of quantized values, and sums of pairs of products that saturate in 16 bits, against loops over elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from irrun.inspection.saturation import _convolve, _find_codes, _find_weight_codes, _multiply, _sum_excess
from irrun.inspection.weight_scales import _find_channel_axes, _quantize
from irrun.ir.graph import Layer

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        ([0, 0.5, 127.5], 0, 255, [0, 1, 255]),
        ([0, 0.5, 128], 0, 255, None),
        ([-0.5, 0.5], 0, 255, None),
        ([-64, 63.5], -128, 127, [-128, 127]),
        ([0.25], 0, 255, None),
        ([100 * (1 + 1e-9)], 0, 255, [200]),
    ],
)
def test_codes_are_multiples_of_the_scale(values, low, high, expected):
    codes = _find_codes(np.array(values, float), np.asarray(0.5), low, high)
    assert (None if codes is None else codes.tolist()) == expected
    assert codes is None or codes.dtype == np.int32


def test_codes_of_weights_have_the_largest_scale_that_fits():
    rows = np.array([[127, -3, 64], [0, 0, 0], [100, 7, -99], [-120, 1, 119], [2, 4, 3]], float)
    scales = np.array([0.5, 1, 0.125, 2, 0.25])
    codes, found = _find_weight_codes(rows * scales[:, None]) or (None, None)
    assert codes is not None
    np.testing.assert_array_equal(codes[:4], rows[:4])
    np.testing.assert_allclose(found[:4], scales[:4])
    np.testing.assert_allclose(codes * np.asarray(found)[:, None], rows * scales[:, None])
    assert np.abs(codes[4]).max() > 31  # multiples of a small number are multiples of its parts too
    assert _find_weight_codes(RNG.normal(size=(1, 20))) is None


def saturate_pairs(codes, columns):
    """Return the sum of saturated pairs minus the exact sum, for a row of codes and a column."""
    total = 0
    padded = [*zip(codes, columns, strict=True), *[(0, 0)] * (len(codes) % 2)]
    for (a, x), (b, y) in zip(padded[::2], padded[1::2], strict=True):
        exact = int(a) * int(x) + int(b) * int(y)
        total += exact - min(max(exact, -32768), 32767)
    return total


@pytest.mark.parametrize("channels", [2, 3, 5])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_products_saturate_in_pairs(channels, is_transposed):
    codes = RNG.integers(-128, 128, (4, channels))
    codes[:, 0] = 127
    x = RNG.integers(100, 256, (2, 3, channels))
    layer = Layer(0, "m", "MatMul", attributes={"transpose_b": str(is_transposed).lower()})
    weights = codes * 0.5
    excess = _multiply(layer, x, weights if is_transposed else weights.T)
    expected = [[[saturate_pairs(row, column) * 0.5 for row in codes] for column in image] for image in x]
    assert np.any(expected)
    np.testing.assert_allclose(excess, expected)


def test_products_that_are_not_compared():
    x, weights = np.ones((2, 4), int), np.ones((4, 3))
    assert _multiply(Layer(0, "m", "MatMul"), x, weights).shape == (2, 3)
    assert _multiply(Layer(0, "m", "MatMul", attributes={"transpose_a": "true"}), x, weights) is None
    assert _multiply(Layer(0, "m", "MatMul"), x, weights[:3]) is None
    assert _multiply(Layer(0, "m", "MatMul"), x, weights[None]) is None
    assert _multiply(Layer(0, "m", "MatMul"), x[0], weights) is None
    assert _multiply(Layer(0, "m", "MatMul"), np.ones((2, 40), int), RNG.normal(size=(40, 3))) is None


@pytest.mark.parametrize(
    ("channels", "stride", "dilation", "begin", "end"),
    [(2, (1, 1), (1, 1), (0, 0), (0, 0)), (3, (2, 1), (1, 2), (1, 0), (0, 2)), (4, (1, 3), (2, 1), (0, 1), (1, 1))],
)
def test_convolutions_saturate_in_pairs_of_channels(channels, stride, dilation, begin, end):
    codes = RNG.integers(-128, 128, (3, channels, 2, 3))
    codes[:, 0] = 127
    x = RNG.integers(100, 256, (2, channels, 6, 8))
    names = {"strides": stride, "dilations": dilation, "pads_begin": begin, "pads_end": end}
    layer = Layer(0, "c", "Convolution", attributes={k: ",".join(map(str, v)) for k, v in names.items()})
    excess = _convolve(layer, x, codes * 0.25)
    padded = np.pad(x, ((0, 0), (0, 0), (begin[0], end[0]), (begin[1], end[1])))
    height = (padded.shape[2] - dilation[0] - 1) // stride[0] + 1
    width = (padded.shape[3] - 2 * dilation[1] - 1) // stride[1] + 1
    expected = np.zeros((2, 3, height, width))
    for n, o, i, j in np.ndindex(*expected.shape):
        for k, m in itertools.product(range(2), range(3)):
            column = padded[n, :, i * stride[0] + k * dilation[0], j * stride[1] + m * dilation[1]]
            expected[n, o, i, j] += 0.25 * saturate_pairs(codes[o, :, k, m], column)
    assert expected.any()
    np.testing.assert_allclose(excess, expected)


def test_convolutions_that_are_not_compared():
    x, weights = np.ones((1, 2, 4), int), np.ones((3, 2, 2))
    assert _convolve(Layer(0, "c", "Convolution"), x, weights).shape == (1, 3, 3)  # defaults
    for name, is_compared in (("explicit", True), ("NOTSET", True), ("same_upper", False), ("valid", False)):
        layer = Layer(0, "c", "Convolution", attributes={"auto_pad": name})
        assert (_convolve(layer, x, weights) is not None) is is_compared
    assert _convolve(Layer(0, "c", "Convolution"), x[:, :1], weights) is None
    assert _convolve(Layer(0, "c", "Convolution"), x[..., None], weights) is None
    assert _convolve(Layer(0, "c", "Convolution"), np.ones((1, 20, 4), int), RNG.normal(size=(3, 20, 2))) is None


def test_sums_without_saturation_have_no_excess():
    columns = RNG.integers(0, 256, (4, 3, 5))
    assert not _sum_excess(np.ones((2, 4, 3)) * 64 / 127, columns // 4).any()


# Scales of channels


def test_weights_are_quantized_with_a_scale_for_each_channel():
    value = np.array([[1, -127, 64.4], [0, 0, 0], [0.5, 0.25, -0.1]], np.float32)
    by_row = _quantize(value, (0,))
    np.testing.assert_allclose(by_row[0], [1, -127, 64])
    np.testing.assert_array_equal(by_row[1], 0)
    scale = 0.5 / 127
    np.testing.assert_allclose(by_row[2], np.round(value[2].astype(float) / scale) * scale)
    np.testing.assert_allclose(_quantize(value.T, (-1,)), by_row.T)
    groups = RNG.normal(size=(2, 3, 4))
    found = _quantize(groups, (0, 1))
    for i, j in np.ndindex(2, 3):
        np.testing.assert_allclose(found[i, j], _quantize(groups[i, j][None], (0,))[0])


@pytest.mark.parametrize(
    ("type", "attributes", "axes"),
    [
        ("Convolution", {}, (0,)),
        ("GroupConvolution", {}, (0, 1)),
        ("MatMul", {}, (-1,)),
        ("MatMul", {"transpose_b": "true"}, (-2,)),
        ("MatMul", {"transpose_b": "True"}, (-2,)),
        ("MatMul", {"transpose_a": "true"}, (-1,)),
        ("Add", {}, ()),
    ],
)
def test_channel_axes_of_weights(type, attributes, axes):
    assert _find_channel_axes(Layer(0, "l", type, "opset1", attributes=attributes)) == axes
