"""Custom operations in graphs that are computed in another precision than declared."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import chain, write

import irrun

X = np.array([[0.1, 1.7, -2.3], [65504, 3e-5, 2.5]], np.float16)


def multiply(data, *, factor: float = 1.0):
    return data * factor


def multiply_in_f16(data, *, factor: float = 1.0):
    return (data * factor).astype(np.float16)


def multiply_in_f32(data, *, factor: float = 1.0):
    return (data * factor).astype(np.float32)


def write_model(folder, precision):
    """Write a model that multiplies x by 1.1 and computes Relu."""
    text = chain("Scale", "Relu", versions=["extension", "opset1"], data=['factor="1.1"', ""])
    if precision == "f16":
        text = text.replace("f32", "f16").replace("FP32", "FP16")
    return write(folder, text, name=precision)


def compile_with(kernel, path, precision):
    operation = irrun.Operation.from_function(kernel, "Scale", opset="extension")
    return irrun.compile_model(path, operations=[operation], precision=precision)


@pytest.mark.parametrize(("precision", "computed"), [("f32", "f32"), ("f64", "f64"), ("declared", "f16")])
def test_custom_kernels_compute_in_the_precision_of_the_graph(tmp_path, precision, computed):
    types = []
    compiled = compile_with(multiply, write_model(tmp_path, "f16"), precision)
    with np.errstate(over="ignore"):
        result = compiled.create_infer_request().infer(
            X, observers=[lambda layer, inputs, outputs, *_: types.append(str(outputs[0].dtype))]
        )[0]
    assert types == [str(irrun.ElementType.parse(computed).dtype)] * 2
    assert result.dtype == np.float16
    with np.errstate(over="ignore"):
        expected = np.maximum((X.astype(types[0]) * np.array(1.1, types[0])), 0).astype(np.float16)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("precision", ["f32", "f64", "declared"])
def test_results_in_the_declared_type_are_converted(tmp_path, precision):
    compiled = compile_with(multiply_in_f16, write_model(tmp_path, "f16"), precision)
    with np.errstate(over="ignore"):
        expected = np.maximum((X.astype(np.float64) * 1.1).astype(np.float16), 0)
        result = compiled(X)[0]
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, expected, rtol=2**-10)  # one rounding to f16, after one in f32 or f64


@pytest.mark.parametrize(
    ("kernel", "model", "precision", "message"),
    [
        (multiply_in_f16, "f32", "f32", "has type f16, the layer declares f32; convert it first"),
        (multiply_in_f32, "f16", "declared", "has type f32, the layer declares f16; convert it first"),
        (multiply_in_f32, "f16", "f64", "has type f32, the layer declares f16; convert it first"),
    ],
)
def test_results_in_other_types_are_refused(tmp_path, kernel, model, precision, message):
    compiled = compile_with(kernel, write_model(tmp_path, model), precision)
    with np.errstate(over="ignore"), pytest.raises(irrun.ExecutionError, match=message):
        compiled(X)
