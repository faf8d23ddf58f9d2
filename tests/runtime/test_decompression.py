"""Compressed weights are expanded in f32, as OpenVINO expands them."""

from __future__ import annotations

import numpy as np
import pytest

import irrun

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset8")

RNG = np.random.default_rng(0)
INTEGERS = RNG.integers(0, 255, (4, 2, 8)).astype(np.uint8)
ZERO = RNG.integers(100, 150, (4, 2, 1)).astype(np.uint8)
SCALE = (RNG.random((4, 2, 1)) / 50).astype(np.float16)
X = RNG.normal(size=(3, 16)).astype(np.float32)


def grouped(tmp_path, read_in_f16=False):
    """x @ weights, as group-wise compression writes them: Convert, Subtract, Multiply, Reshape, Convert."""
    x = ov.op.Parameter(ov.Type.f32, ov.PartialShape([3, 16]))
    integers, zero = (o.convert(ov.op.Constant(v), "f16") for v in (INTEGERS, ZERO))
    scaled = o.multiply(o.subtract(integers, zero), ov.op.Constant(SCALE))
    flat = o.reshape(scaled, ov.op.Constant(np.array([4, 16])), False)
    results = [o.matmul(x, o.convert(flat, "f32"), False, True)]
    if read_in_f16:
        results.append(flat)
    ov.serialize(ov.Model([ov.op.Result(r.output(0)) for r in results], [x]), tmp_path / "model.xml")
    return tmp_path / "model.xml"


@pytest.mark.parametrize("fold_limit", [0, 1 << 20])
def test_nothing_is_rounded_to_f16_on_the_way(tmp_path, fold_limit):
    exact = ((INTEGERS.astype(np.float32) - ZERO) * SCALE.astype(np.float32)).reshape(4, 16)
    found = irrun.compile_model(grouped(tmp_path), fold_limit=fold_limit)(X)[0]
    np.testing.assert_array_equal(found, X @ exact.T)
    rounded = X @ exact.astype(np.float16).astype(np.float32).T
    assert np.abs(found - rounded).max() > 1e-5


def test_values_that_something_else_reads_stay_as_declared(tmp_path):
    product, weights = irrun.compile_model(grouped(tmp_path, read_in_f16=True))(X).to_tuple()
    assert weights.dtype == np.float16
    np.testing.assert_array_equal(product, X @ weights.astype(np.float32).T)
