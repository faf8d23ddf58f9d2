"""Saturation of int8 kernels on processors without VNNI: it is computed, and named as the reason."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import irrun
from inspection.graphs import Row, make_model
from irrun.element_types import ELEMENT_TYPES
from irrun.inspection import compare, saturation
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import measure
from irrun.inspection.saturation import SaturationCheck, _convolve
from irrun.ir.constant import Constant
from irrun.ir.graph import Layer
from irrun.ir.writer import save_model
from irrun.shapes import PartialShape

SCALE = np.float32(0.01)


def make_convolution(codes, x_shape, stride=1, pad=0):
    window = {
        "strides": f"{stride},{stride}",
        "pads_begin": f"{pad},{pad}",
        "pads_end": f"{pad},{pad}",
        "dilations": "1,1",
        "auto_pad": "explicit",
    }
    return make_quantized("Convolution", window, codes, x_shape)


def make_quantized(type_, attributes, codes, x_shape):
    """Return a product of inputs that are quantized to u8 and weights that are compressed to i8."""
    scales = np.linspace(0.005, 0.02, len(codes), dtype=np.float32).reshape(-1, *[1] * (codes.ndim - 1))
    model = make_model(
        Row("x", "Parameter", shapes=[x_shape]),
        Row("low", "Constant", value=np.float32(0)),
        Row("high", "Constant", value=255 * SCALE),
        Row("fq", "FakeQuantize", ["x", "low", "high", "low", "high"], {"levels": "256"}, shapes=[x_shape]),
        Row("codes", "Constant", value=codes.astype(np.int8)),
        Row("wide", "Convert", ["codes"], {"destination_type": "f32"}, shapes=[codes.shape]),
        Row("scales", "Constant", value=scales),
        Row("weights", "Multiply", ["wide", "scales"], shapes=[codes.shape]),
        Row("product", type_, ["fq", "weights"], attributes),
        Row("active", "ReLU", ["product"]),
        Row("y", "Result", ["active"]),
    )
    for layer in model.graph.layers:
        if layer.constant is not None:
            layer.outputs[0].element_type = layer.constant.element_type
            layer.outputs[0].shape = PartialShape(layer.constant.shape)
        elif layer.name in ("product", "active"):
            layer.outputs[0].element_type = ELEMENT_TYPES["f32"]
            layer.outputs[0].shape = None
    return model, scales


def saturate(x, codes, scales, stride=1, pad=0):
    """Return a convolution in which the sums of each two products saturate, element by element."""
    x = np.pad(np.round(x / SCALE).astype(int), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    _, channels, height, width = codes.shape
    rows, columns = ((n - k) // stride + 1 for n, k in ((x.shape[2], height), (x.shape[3], width)))
    result = np.zeros((len(x), len(codes), rows, columns))
    for i in np.ndindex(result.shape):
        total = 0
        for h in range(height):
            for w in range(width):
                part = x[i[0], :, i[2] * stride + h, i[3] * stride + w] * codes[i[1], :, h, w]
                for c in range(0, channels, 2):
                    total += min(max(int(part[c : c + 2].sum()), -32768), 32767)
        result[i] = total
    return (result * SCALE * scales.reshape(1, -1, 1, 1)).astype(np.float32)


@pytest.mark.parametrize(("channels", "kernel", "stride", "pad"), [(6, 1, 1, 0), (5, 3, 2, 1), (4, 3, 1, 1)])
def test_saturation_explains_convolutions(channels, kernel, stride, pad):
    rng = np.random.default_rng(channels)
    codes = rng.integers(-127, 128, (4, channels, kernel, kernel))
    codes[:, 0, 0, 0] = 127
    codes[:, 1, 0, 0] = 126
    model, scales = make_convolution(codes, (2, channels, 6, 6), stride, pad)
    x = np.round(rng.uniform(100, 255, (2, channels, 6, 6))).astype(np.float32) * SCALE
    product = saturate(x, codes, scales, stride, pad)
    result = compare(model, {"product": product, "active": np.maximum(product, 0)}, x)
    assert [layer.key for layer in result.causes] == ["product"]
    assert "saturates in 16 bits, as on processors without VNNI" in result.causes[0].reason
    other = compare(model, {"product": product * np.float32(1.1), "active": np.maximum(product, 0)}, x)
    assert "saturates" not in other.causes[0].reason


@pytest.mark.parametrize("is_transposed", [False, True])
def test_saturation_explains_products_of_matrices(is_transposed):
    rng = np.random.default_rng(3)
    codes = rng.integers(-127, 128, (4, 8))
    codes[:, :2] = 127
    if is_transposed:
        model, scales = make_quantized("MatMul", {"transpose_b": "true"}, codes, (3, 8))
    else:
        model, scales = make_transposed(codes)
    x = np.round(rng.uniform(100, 255, (3, 8))).astype(np.float32) * SCALE
    product = saturate(x[:, :, None, None], codes[:, :, None, None], scales)[:, :, 0, 0]
    result = compare(model, {"product": product, "active": np.maximum(product, 0)}, x)
    assert "saturates in 16 bits" in result.causes[0].reason


def make_transposed(codes):
    model, scales = make_quantized("MatMul", {"transpose_b": "false"}, codes.T, (3, 8))
    scales = np.linspace(0.005, 0.02, len(codes), dtype=np.float32)
    for layer in model.graph.layers:
        if layer.name == "scales":
            layer.constant = Constant.from_array(scales, ELEMENT_TYPES["f32"])
            layer.outputs[0].shape = PartialShape(scales.shape)
    return model, scales


SCRIPT = """
import sys, irrun, numpy as np
from irrun.inspection import compare
from irrun.inspection.cured_model import explain_int8_kernels
for against in ("openvino", "openvino:float"):
    result = compare(sys.argv[1], against, [np.load(sys.argv[2])])
    print(result.agrees, result.describe())
print(explain_int8_kernels(irrun.read_model(sys.argv[1]), [np.load(sys.argv[2])]))
"""


def test_openvino_saturates_without_vnni(tmp_path):
    pytest.importorskip("openvino")
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (32, 64, 1, 1))
    model, _ = make_convolution(codes, (1, 64, 8, 8))
    for layer in model.graph.layers:
        if layer.name in ("product", "active"):
            layer.outputs[0].shape = PartialShape((1, 32, 8, 8))
    save_model(model, tmp_path / "model.xml")
    np.save(tmp_path / "x.npy", (rng.random((1, 64, 8, 8)) * 2.55).astype(np.float32))
    assert irrun.read_model(tmp_path / "model.xml").outputs
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "model.xml", tmp_path / "x.npy"],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    with_int8, in_float, reasons = run.stdout.splitlines()
    assert in_float == "True no layer adds an error"
    # Processors without AVX2 and other architectures have other kernels, which do not saturate.
    assert "saturates in 16 bits" in with_int8 or with_int8.startswith("True")
    reason = "1 layer: the int8 kernel of the reference saturates in 16 bits, as on processors without VNNI"
    assert reasons == str([] if with_int8.startswith("True") else [reason])


def describe_saturation(model, x, expected):
    """Return what explains the error of a product."""
    layer = next(layer for layer in model.graph.layers if layer.name == "product")
    weights = CODES.astype(np.float32)
    value = (x @ weights.T).astype(np.float32)
    check = SaturationCheck(ConnectionTable(KeyTable(model)))
    return check.describe(layer, [x, weights], value, expected, measure(value, expected))


CODES = np.array([[127, 126, 3], [1, -2, 5]])
VALUES = np.full((2, 3), 255, np.float32) * SCALE
#: 255 * (127 + 126) saturates to 32767.
SATURATED = np.array([[32767 + 255 * 3, 255 * 4]] * 2) * SCALE


def make_matrix(levels="256", low=0.0, high=255 * SCALE, inputs=("x", "low", "high", "low", "high"), weights="codes"):
    return make_model(
        Row("x", "Parameter", shapes=[(2, 3)]),
        Row("low", "Constant", value=np.asarray(low, np.float32)),
        Row("high", "Constant", value=np.asarray(high, np.float32)),
        Row("fq", "FakeQuantize", inputs, {"levels": levels}, shapes=[(2, 3)]),
        Row("codes", "Constant", value=CODES.astype(np.float32)),
        Row("product", "MatMul", ["fq", weights], {"transpose_b": "true"}),
        Row("y", "Result", ["product"]),
    )


@pytest.mark.parametrize("levels", ["256", 256])
def test_saturation_is_that_of_256_levels_from_0(levels):
    text = describe_saturation(make_matrix(levels), VALUES, SATURATED)
    assert text.startswith(
        "the int8 kernel of the reference saturates in 16 bits, as on processors without VNNI: 2 of 4"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"levels": "255"},
        {"low": -1.0},
        {"low": 1.0},
        {"high": 0.0},
        {"high": [255 * SCALE] * 3},
        {"low": [0.0] * 3},
        {"inputs": ("x", "low", "high", "low", "x")},
        {"inputs": ("x", "low", "high", "x", "high")},
        {"inputs": ("x", "low", "high", "low")},
    ],
    ids=str,
)
def test_other_quantizations_do_not_saturate(options):
    assert describe_saturation(make_matrix(**options), VALUES, SATURATED) == ""


def test_only_products_of_limited_sizes_are_checked(monkeypatch):
    for limit, is_checked in ((18, True), (17, False)):  # 6 inputs and 6 weights, for 2 rows
        monkeypatch.setattr(saturation, "MAX_PRODUCTS", limit)
        assert bool(describe_saturation(make_matrix(), VALUES, SATURATED)) == is_checked


def test_values_between_levels_and_other_errors_are_not_explained():
    assert describe_saturation(make_matrix(), VALUES + SCALE / 2, SATURATED) == ""
    assert describe_saturation(make_matrix(), VALUES, -SATURATED) == ""
    assert describe_saturation(make_matrix(), VALUES, SATURATED[:1]) == ""
    assert describe_saturation(make_matrix(), VALUES / 4, VALUES @ CODES.T / 4) == ""  # nothing saturates


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": "", "pads_begin": ""}, {"auto_pad": "NOTSET"}, {"strides": "1,1"}]
)
def test_omitted_attributes_of_convolutions_have_their_defaults(attributes):
    codes, weights = np.full((1, 2, 2, 3), 255.0), np.array([[127, 126.0]]).reshape(1, 2, 1, 1)
    excess = _convolve(Layer(0, "c", "Convolution", attributes=attributes), codes, weights)
    np.testing.assert_array_equal(excess, np.full((1, 1, 2, 3), 255 * 253 - 32767))
    padded = _convolve(Layer(0, "c", "Convolution", attributes={"pads_end": "1,0"}), codes, weights)
    np.testing.assert_array_equal(padded, np.pad(excess, ((0, 0), (0, 0), (0, 1), (0, 0))))
    strided = _convolve(Layer(0, "c", "Convolution", attributes={"strides": "1,2"}), codes, weights)
    np.testing.assert_array_equal(strided, excess[..., ::2])
    assert _convolve(Layer(0, "c", "Convolution", attributes={"auto_pad": "same_upper"}), codes, weights) is None
    assert _convolve(Layer(0, "c", "Convolution"), codes[:, :1], weights) is None
    assert _convolve(Layer(0, "c", "Convolution"), codes[0], weights) is None
