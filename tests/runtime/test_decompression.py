"""Compressed weights are decompressed in f32, as in OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest

import irrun
from irrun.element_types import ELEMENT_TYPES
from irrun.ops._support.conversion import convert
from irrun.packing import pack
from irrun.runtime.lowering import lower
from irrun.runtime.passes.decompression import upcast_decompression

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

RNG = np.random.default_rng(0)
INTEGERS = RNG.integers(0, 255, (4, 2, 8)).astype(np.uint8)
ZERO = RNG.integers(100, 150, (4, 2, 1)).astype(np.uint8)
SCALE = (RNG.random((4, 2, 1)) / 50).astype(np.float16)
X = RNG.normal(size=(3, 16)).astype(np.float32)

#: Memory that OpenVINO's constants refer to without owning it.
MEMORY = []


def save_product(tmp_path, weights, *results):
    """Save a model that returns x @ weights and further results."""
    x = o.parameter([3, 16], np.float32)
    results = [o.matmul(x, weights, False, True), *results]
    ov.serialize(ov.Model([ov.op.Result(r.output(0)) for r in results], [x]), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def save_grouped(tmp_path, read_in_f16=False):
    """Save x @ weights as group-wise compression writes it: Convert, Subtract, Multiply, Reshape, Convert."""
    integers, zero = (o.convert(ov.op.Constant(v), "f16") for v in (INTEGERS, ZERO))
    scaled = o.multiply(o.subtract(integers, zero), ov.op.Constant(SCALE))
    flat = o.reshape(scaled, ov.op.Constant(np.array([4, 16])), False)
    return save_product(tmp_path, o.convert(flat, "f32"), *[flat] * read_in_f16)


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
def test_intermediate_values_are_not_rounded_to_f16(tmp_path, weights_memory):
    exact = ((INTEGERS.astype(np.float32) - ZERO) * SCALE.astype(np.float32)).reshape(4, 16)
    actual = irrun.compile_model(save_grouped(tmp_path), weights_memory=weights_memory)(X)[0]
    np.testing.assert_array_equal(actual, X @ exact.T)
    rounded = X @ exact.astype(np.float16).astype(np.float32).T
    assert np.abs(actual - rounded).max() > 1e-5


def make_codes(name, shape):
    """Return a constant of random codes of a low-precision type, and the values that they denote."""
    element = ELEMENT_TYPES[name]
    values = RNG.integers(0, 1 << element.bits, shape).astype(np.uint8)
    if name == "f8e4m3":
        values &= 0x77  # neither negative nor NaN
    packed = np.frombuffer(pack(element, values.view(element.dtype)), np.uint8)
    MEMORY.append(packed)
    tensor = ov.Tensor(packed, ov.Shape(shape), getattr(ov.Type, name))
    return ov.op.Constant(tensor), convert(values.view(element.dtype), ELEMENT_TYPES["f32"])


def compute_products(path, weights_memory):
    request = irrun.compile_model(path, weights_memory=weights_memory, check=True).create_infer_request()
    actual = request.infer(X)[0]
    assert [str(m) for m in request.mismatches] == []
    return actual, ov.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([X])[0]


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
@pytest.mark.parametrize("name", ["nf4", "f4e2m1", "f8e4m3", "u2", "u3", "i4"])
def test_codes_of_every_type_are_not_rounded(tmp_path, name, weights_memory):
    constant, values = make_codes(name, [4, 2, 8])
    scaled = o.multiply(o.convert(constant, "f16"), o.constant(SCALE))
    path = save_product(tmp_path, o.convert(o.reshape(scaled, o.constant([4, 16]), False), "f32"))
    actual, expected = compute_products(path, weights_memory)
    np.testing.assert_array_equal(actual, X @ (values * SCALE.astype(np.float32)).reshape(4, 16).T)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
def test_codebooks_may_be_shared(tmp_path, weights_memory):
    book, values = make_codes("f8e4m3", [16])
    book = o.convert(book, "f16")
    indices = RNG.integers(0, 16, (2, 4, 16)).astype(np.uint8)
    scales = (RNG.random((2, 4, 1)) / 50).astype(np.float16)
    first, second = (
        o.convert(o.multiply(o.gather(book, o.constant(i), o.constant(0)), o.constant(s)), "f32")
        for i, s in zip(indices, scales, strict=True)
    )
    actual, expected = compute_products(save_product(tmp_path, o.add(first, second)), weights_memory)
    np.testing.assert_array_equal(actual, X @ (values[indices] * scales.astype(np.float32)).sum(0).T)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
def test_scales_with_their_own_scale_are_rounded_once(tmp_path, weights_memory):
    constant, values = make_codes("f4e2m1", [4, 16])
    scale, scales = make_codes("f8e4m3", [4, 1])
    scale = o.convert(o.multiply(o.convert(scale, "f32"), o.constant(np.float32(0.0123))), "f16")
    weights = o.convert(o.multiply(o.convert(constant, "f16"), scale), "f32")
    actual, expected = compute_products(save_product(tmp_path, weights), weights_memory)
    scales = (scales * np.float32(0.0123)).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(actual, X @ (values * scales).T)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["i16", "u16", "i32", "i64", "f32", "f64"])
def test_values_of_16_bits_or_more_are_rounded_before_scaling(tmp_path, name):
    values = RNG.integers(2048, 20000, (4, 16)).astype(ELEMENT_TYPES[name].dtype)
    scale = SCALE[:, 0] / np.float16(1000)
    weights = o.convert(o.multiply(o.convert(o.constant(values), "f16"), o.constant(scale)), "f32")
    actual, expected = compute_products(save_product(tmp_path, weights), 1 << 20)
    rounded = values.astype(np.float16).astype(np.float32)
    assert (rounded != values).any()
    np.testing.assert_array_equal(actual, X @ (rounded * scale.astype(np.float32)).T)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def make_quantized_weights(is_stored_in_f16):
    """Return FakeQuantize of weights in f16, and its values in f32."""
    codes = RNG.integers(0, 255, (4, 16)).astype(np.uint8)
    data = o.constant(codes.astype(np.float16)) if is_stored_in_f16 else o.convert(o.constant(codes), "f16")
    low, high = np.float16(0), np.float16(254)
    top = (RNG.random((4, 1)) / 3 + 1).astype(np.float16)
    weights = o.fake_quantize(data, *map(o.constant, (low, high, -top, top)), 255)
    return weights, (codes.astype(np.float64) - 127) / 127 * top.astype(np.float64)


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
@pytest.mark.parametrize("is_stored_in_f16", [True, False])
def test_quantized_weights_are_not_rounded_to_f16(tmp_path, is_stored_in_f16, weights_memory):
    weights, exact = make_quantized_weights(is_stored_in_f16)
    actual, expected = compute_products(save_product(tmp_path, o.convert(weights, "f32")), weights_memory)
    # 16 products, each with a rounding of weights, products and sums.
    np.testing.assert_allclose(actual, X @ exact.T, rtol=0, atol=16 * 4 * 2.0**-24 * 4)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(X @ exact.astype(np.float16).T - actual).max() > 1e-4


def test_values_with_other_consumers_keep_their_declared_type(tmp_path):
    product, weights = irrun.compile_model(save_grouped(tmp_path, read_in_f16=True))(X).to_tuple()
    assert weights.dtype == np.float16
    np.testing.assert_array_equal(product, X @ weights.astype(np.float32).T)


def count_chains(tmp_path, *results, inputs=()):
    """Return the number of chains that are computed in f32."""
    ov.serialize(ov.Model([ov.op.Result(r.output(0)) for r in results], list(inputs)), tmp_path / "model.xml")
    return upcast_decompression(lower(irrun.read_model(tmp_path / "model.xml")))


def test_only_chains_of_constants_that_end_in_f32_are_upcast(tmp_path):
    codes, scale = ov.op.Constant(INTEGERS), ov.op.Constant(SCALE)
    parameter = o.parameter([4, 2, 8], np.uint8)
    scaled = o.multiply(o.convert(codes, "f16"), scale)
    in_f32 = o.convert(scaled, "f32")
    assert count_chains(tmp_path, in_f32) == 1
    assert count_chains(tmp_path, in_f32, o.convert(scaled, "f32")) == 1
    assert count_chains(tmp_path, in_f32, scaled) == 0  # a result of the model in f16
    assert count_chains(tmp_path, scaled) == 0
    assert count_chains(tmp_path, in_f32, o.convert(o.relu(scaled), "f32")) == 0  # a consumer in f16
    assert count_chains(tmp_path, in_f32, o.convert(scaled, "f64")) == 0
    from_parameter = o.convert(o.multiply(o.convert(parameter, "f16"), scale), "f32")
    assert count_chains(tmp_path, from_parameter, inputs=[parameter]) == 0
    shifted = o.convert(o.subtract(o.convert(codes, "f16"), ov.op.Constant(SCALE)), "f32")
    assert count_chains(tmp_path, shifted) == 0  # without a product
    quantized = make_quantized_weights(is_stored_in_f16=False)[0]
    assert count_chains(tmp_path, o.convert(quantized, "f32")) == 1
    assert count_chains(tmp_path, o.convert(quantized, "f32"), quantized) == 0
    wide = o.multiply(o.convert(codes, "f32"), ov.op.Constant(SCALE.astype(np.float32)))
    assert count_chains(tmp_path, o.convert(wide, "f32")) == 0  # in f32 already
    other = o.convert(o.multiply(o.convert(ov.op.Constant(ZERO), "f16"), scale), "f32")
    separate = o.convert(o.multiply(o.convert(codes, "f16"), ov.op.Constant(SCALE)), "f32")
    assert count_chains(tmp_path, separate, other) == 2


def test_values_that_depend_on_inputs_are_rounded_as_declared(tmp_path):
    x = o.parameter([3, 16], np.float32)
    scaled = o.multiply(o.convert(o.relu(x), "f16"), o.constant(np.float16(0.3)))
    ov.serialize(ov.Model([o.convert(scaled, "f32")], [x]), tmp_path / "model.xml")
    result = irrun.compile_model(tmp_path / "model.xml", precision="declared")(X)[0]
    rounded = np.maximum(X, 0).astype(np.float16).astype(np.float32) * np.float32(np.float16(0.3))
    np.testing.assert_array_equal(result, rounded.astype(np.float16).astype(np.float32))
    assert (result != rounded).any()


@pytest.mark.parametrize("weights_memory", [0, 1 << 20])
def test_codebooks_stored_in_f16_are_read_in_f32(tmp_path, weights_memory):
    book = RNG.normal(size=16).astype(np.float16)
    indices = RNG.integers(0, 16, (4, 16)).astype(np.uint8)
    scale = (RNG.random((4, 1)) / 50).astype(np.float16)
    weights = o.multiply(o.gather(o.constant(book), o.constant(indices), o.constant(0)), o.constant(scale))
    path = save_product(tmp_path, o.convert(o.reshape(weights, o.constant([4, 16]), False), "f32"))
    actual, expected = compute_products(path, weights_memory)
    np.testing.assert_array_equal(actual, X @ (book.astype(np.float32)[indices] * scale.astype(np.float32)).T)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
