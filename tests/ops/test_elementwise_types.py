"""Elementwise operations in every element type, compared with NumPy's f64 functions and the rule of the conversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support import registry
from irrun.ops._support.numerics import apply_in_float64

Array = np.ndarray[Any, Any]

ALPHA, LAMBDA, BETA = 0.625, 1.25, 0.375  # exact in every type that has more than three bits of precision


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def elu(x: Array) -> Array:
    return np.where(x > 0, x, ALPHA * np.expm1(x))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


#: Operation -> attributes, further inputs, the function in f64, and whether results for integers are truncated.
FUNCTIONS: dict[str, tuple[dict[str, Any], list[float], Callable[[Array], Array], bool]] = {
    "Acos-1": ({}, [], np.arccos, False),
    "Acosh-4": ({}, [], np.arccosh, False),
    "Asin-1": ({}, [], np.arcsin, True),
    "Asinh-4": ({}, [], np.arcsinh, False),
    "Atan-1": ({}, [], np.arctan, False),
    "Cos-1": ({}, [], np.cos, False),
    "Cosh-1": ({}, [], np.cosh, False),
    "Sin-1": ({}, [], np.sin, True),
    "Sinh-1": ({}, [], np.sinh, False),
    "Tan-1": ({}, [], np.tan, False),
    "Tanh-1": ({}, [], np.tanh, False),
    "Sqrt-1": ({}, [], np.sqrt, False),
    "Log-1": ({}, [], np.log, True),
    "Exp-1": ({}, [], np.exp, True),
    "Erf-1": ({}, [], erf, False),
    "Elu-1": ({"alpha": ALPHA}, [], elu, True),
    "Selu-1": ({}, [ALPHA, LAMBDA], lambda x: LAMBDA * elu(x), False),
    "Gelu-2": ({}, [], lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, False),
    "Gelu-7": ({"approximation_mode": "TANH"}, [], gelu_tanh, False),
    "Swish-4": ({}, [BETA], lambda x: x * sigmoid(BETA * x), False),
    "Mish-4": ({}, [], lambda x: x * np.tanh(np.logaddexp(0, x)), False),
    "SoftPlus-4": ({}, [], lambda x: np.logaddexp(0, x), False),
    "HSwish-4": ({}, [], lambda x: x * np.clip(x + 3, 0, 6) / 6, False),
    "HardSigmoid-1": ({}, [BETA, ALPHA], lambda x: np.clip(BETA * x + ALPHA, 0, 1), False),
}

#: Functions that NumPy computes in f32, which is within two units of the last place.
NATIVE = ("Cos-1", "Sin-1", "Sqrt-1")

INTEGERS = ["i4", "u2", "u4", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
FLOATS = ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"]


def call(operation: str, *inputs: Array, **attributes: Any) -> Any:
    name, _, version = operation.partition("-")
    definition = registry.find(name, f"opset{version}")
    assert definition is not None
    with np.errstate(all="ignore"):
        return definition.kernel(*inputs, **attributes)


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize("name", INTEGERS)
def test_results_for_integers_are_rounded_or_truncated_and_wrap(name: str, operation: str) -> None:
    attributes, others, function, is_truncated = FUNCTIONS[operation]
    element_type = ELEMENT_TYPES[name]
    data = np.arange(-8 if element_type.kind == "int" else 0, 8).reshape(2, -1).astype(element_type.dtype)
    result = call(operation, data, *map(np.array, others), **attributes)
    assert (result.dtype, result.shape) == (data.dtype, data.shape)
    with np.errstate(all="ignore"):
        exact = function(data.astype(np.float64))
    is_finite = np.isfinite(exact)
    whole = np.trunc(exact if is_truncated else exact + np.copysign(0.5, exact))
    expected = np.where(is_finite, whole, 0).astype(np.int64).astype(element_type.dtype)
    assert is_finite.any()
    np.testing.assert_array_equal(result[is_finite], expected[is_finite])


@pytest.mark.parametrize("operation", FUNCTIONS)
@pytest.mark.parametrize("name", FLOATS)
def test_results_in_floats_are_rounded_from_f64(name: str, operation: str) -> None:
    attributes, others, function, _ = FUNCTIONS[operation]
    dtype = ELEMENT_TYPES[name].dtype
    data = np.concatenate([np.linspace(-3, 3, 61), [0.0, 1e-9, -1e-9, 5.5, -5.5]]).astype(dtype).reshape(2, 3, 11)
    result = call(operation, data, *(np.array(v, dtype) for v in others), **attributes)
    assert (result.dtype, result.shape) == (data.dtype, data.shape)
    with np.errstate(all="ignore"):
        exact = function(data.astype(np.float64))
    expected = exact.astype(dtype)
    tolerance = {"f64": 1e-13, "f32": 3e-7}.get(name, 0.0)
    if tolerance == 0 and operation in NATIVE:
        expected = exact.astype(np.float32).astype(dtype)
    np.testing.assert_allclose(
        result.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=1e-16 if name == "f64" else 0
    )


@pytest.mark.parametrize(
    ("name", "limits"), [("u4", (0, 15)), ("i4", (-8, 7)), ("i8", (-128, 127)), ("u64", (0, 2**64 - 1))]
)
def test_atanh_of_integers_is_a_limit_of_their_type(name: str, limits: tuple[int, int]) -> None:
    dtype = ELEMENT_TYPES[name].dtype
    result = call("Atanh-4", np.array([0, 1, 2, -1], np.int64).astype(dtype))
    assert result.dtype == dtype
    assert [int(v) for v in result] == [0, limits[1], limits[1], limits[0] or limits[1]]


@pytest.mark.parametrize("name", ["i4", "u2", "i8", "u8", "i64", "boolean"])
def test_sigmoid_of_integers_is_one_for_positive_values(name: str) -> None:
    dtype = ELEMENT_TYPES[name].dtype
    values = [0, 1] if name == "boolean" else [0, 1, 3, -1]
    result = call("Sigmoid-1", np.array(values, np.int64).astype(dtype))
    assert result.dtype == dtype
    assert [int(v) for v in result] == [0, 1, 1, int(name == "u2")][: len(values)]  # u2 is computed in i32


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 16 * 4096 + 1, 16 * 16384, 16 * 16384 + 5])
def test_blocks_of_any_size_are_computed_once(size: int) -> None:
    data = np.arange(size, dtype=np.float32)
    sizes: list[int] = []

    def double(x: Array) -> Array:
        assert x.dtype == np.float64
        sizes.append(x.size)
        return x * 2

    np.testing.assert_array_equal(apply_in_float64(double, data), data * 2)
    assert sum(sizes) == size
    assert max(sizes, default=0) <= 1 << 14


@pytest.mark.parametrize("operation", ["Exp-1", "Erf-1", "Sqrt-1", "Mish-4", "Elu-1"])
@pytest.mark.parametrize("name", ["string", "u1", "u3", "u6", "nf4"])
def test_functions_of_strings_and_bits_are_refused(name: str, operation: str) -> None:
    with pytest.raises(InputError, match=f"input 0 is {name}, expected a numeric type"):
        call(operation, np.zeros(2, ELEMENT_TYPES[name].dtype), **FUNCTIONS[operation][0])
