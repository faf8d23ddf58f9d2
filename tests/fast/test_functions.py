"""Elementwise functions of f32 against exact values, in place and on blocks."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import SPECIAL_FLOATS, assert_same_bits, compare_with_exact, find_operation
from irrun.fast.functions import _FACTORIES, FUNCTIONS, SCRATCH_FACTOR, find_function

F32 = np.float32
#: Operation -> attributes and the other inputs.
PARAMETERS = {
    "Clamp-1": ({"min": -1.5, "max": 6.0}, []),
    "Elu-1": ({"alpha": 1.0}, []),
    "FakeQuantize-1": ({"levels": 256}, [-1.5, 3.0, -1.5, 3.0]),
    "Gelu-7": ({"approximation_mode": "TANH"}, []),
    "HardSigmoid-1": ({}, [0.2, 0.5]),
    "Selu-1": ({}, [1.67, 1.05]),
    "Swish-4": ({}, [1.7]),
}
#: Functions whose results are relative to terms that cancel.
CANCELLING = {
    "Elu-1",
    "Erf-1",
    "Gelu-2",
    "Gelu-7",
    "HSwish-4",
    "HSigmoid-5",
    "HardSigmoid-1",
    "Mish-4",
    "Selu-1",
    "Swish-4",
}


def make_grid() -> np.ndarray:
    """Return f32 of all magnitudes and both signs, with special values."""
    exponents = np.arange(-149, 128, dtype=np.float64)
    magnitudes = np.concatenate([2.0**exponents * m for m in (1, 1.25, 1.9)])
    dense = np.linspace(-20, 20, 40_001)
    return np.concatenate([SPECIAL_FLOATS, magnitudes, -magnitudes, dense]).astype(F32)


def bind(name: str) -> tuple:
    """Return the function of an operation, its attributes and its constant inputs."""
    attributes, values = PARAMETERS.get(name, ({}, []))
    constants = [np.array(v, F32) for v in values]
    function = find_function(name, attributes, [None, *constants])
    assert function is not None
    return function, attributes, constants


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *_FACTORIES} - {"FakeQuantize-1"}))
def test_function_is_accurate(name):
    function, attributes, constants = bind(name)
    x = make_grid()
    if name in ("Sin-1", "Cos-1"):
        x = x[~(np.abs(x) > 1e4)]
    if name == "Sigmoid-1":
        x = x[~(x < -88) | np.isinf(x)]  # below, results are no normal numbers
    with np.errstate(all="ignore"):
        result = function(x)
        expected = compute_rounded(name, attributes, [x, *constants])
    compare_with_exact(name, attributes, cancels=name in CANCELLING)(result, expected, [x, *constants])


def compute_rounded(name: str, attributes: dict, inputs: list) -> np.ndarray:
    """Return the plain kernel's result in f64, rounded to f32."""
    kernel = find_operation(name).kernel
    wide = [v.astype(np.float64) for v in inputs]
    return np.asarray(kernel(*wide, **attributes)).astype(F32)


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *_FACTORIES}))
def test_function_writes_to_the_given_array(name):
    function, _, _ = bind(name)
    x = np.linspace(-9, 9, 3 * 40, dtype=F32).reshape(3, 40)
    with np.errstate(all="ignore"):
        expected = function(x)
        scratch = np.full(SCRATCH_FACTOR * x.size, np.nan, F32)
        for source in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            for memory in (None, scratch):
                target = np.empty_like(source)
                function(source, target, memory)
                assert_same_bits(target, expected)
                in_place = source.copy(order="K")
                function(in_place, in_place, memory)
                assert_same_bits(in_place, expected)
        scalar = np.empty((), F32)
        function(np.array(0.5, F32), scalar)
        assert_same_bits(scalar, np.asarray(function(np.array([0.5], F32)))[0])


@pytest.mark.parametrize(
    ("name", "attributes", "constants"),
    [
        ("Swish-4", {}, [None]),
        ("Swish-4", {}, [np.ones(2, F32)]),
        ("Elu-1", {"alpha": np.inf}, []),
        ("Selu-1", {}, [np.array(np.nan, F32), np.array(1, F32)]),
        ("HardSigmoid-1", {}, [np.array(1, F32), np.array(5, F32)]),
        ("Clamp-1", {"min": 3.0, "max": 1.0}, []),
        ("Round-5", {"mode": "half_away_from_zero"}, []),
        ("Gather-8", {}, []),
    ],
)
def test_unsuitable_parameters_have_no_function(name, attributes, constants):
    assert find_function(name, attributes, [None, *constants]) is None
