"""Specialized activation functions against exact values, computed by the plain kernels in f64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fast.harness import SPECIAL_FLOATS, check, compare_values, compare_with_exact, make_floats, make_values
from irrun.fast.support import TILE

F32 = np.float32
#: Operation -> attributes, extra constant inputs, whether terms cancel.
FUNCTIONS = {
    "Elu-1": ({"alpha": 1.3}, [], True),
    "Erf-1": ({}, [], True),
    "Exp-1": ({}, [], False),
    "Gelu-2": ({}, [], True),
    "Gelu-7": ({"approximation_mode": "TANH"}, [], True),
    "HSwish-4": ({}, [], True),
    "HardSigmoid-1": ({}, [0.2, 0.5], True),
    "Log-1": ({}, [], False),
    "Mish-4": ({}, [], True),
    "Selu-1": ({}, [1.67, 1.05], True),
    "Sigmoid-1": ({}, [], False),
    "SoftPlus-4": ({}, [], False),
    "SoftSign-9": ({}, [], False),
    "Swish-4": ({}, [1.7], True),
    "Tanh-1": ({}, [], False),
}
UFUNCS = ["Abs-1", "Ceiling-1", "Floor-1", "Negative-1", "Sign-1", "Sqrt-1", "HSigmoid-5", "Round-5", "Relu-1"]
OTHER_TYPES = [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_]


def make_samples(limit: float) -> np.ndarray:
    """Return values in [-limit, limit], evenly and logarithmically spaced."""
    magnitudes = np.geomspace(1e-30, limit, 20_000)
    return np.concatenate([np.linspace(-limit, limit, 40_000), magnitudes, -magnitudes]).astype(F32)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("limit", [1, 6, 30, 80])
def test_function_is_accurate(name, limit):
    attributes, extra, cancels = FUNCTIONS[name]
    inputs = [make_samples(limit).reshape(4, -1), *(np.array(v, F32) for v in extra)]
    constants = range(1, len(inputs))
    compare = compare_with_exact(name, attributes, cancels=cancels)
    check(name, inputs, attributes, constants=constants, compare=compare)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_equal_plain_kernel(name):
    attributes, extra, _ = FUNCTIONS[name]
    compare = compare_with_exact(name, attributes)
    parameters = [np.array([v], F32) for v in extra]
    constants = range(1, 1 + len(extra))
    for x in (np.array(SPECIAL_FLOATS, F32), np.array(3, F32), np.zeros((0, 3), F32), np.zeros((1, 1), F32)):
        check(name, [x, *parameters], attributes, constants=constants, compare=compare)
        check(name, [x, *parameters], attributes, compare=compare)


@pytest.mark.parametrize("name", [*FUNCTIONS, *UFUNCS])
def test_other_types_equal_plain_kernel(name):
    attributes, extra, _ = FUNCTIONS.get(name, ({}, [], False))
    for dtype in OTHER_TYPES:
        if (extra and np.dtype(dtype).kind in "iub") or (dtype == np.bool_ and name in UFUNCS):
            continue
        x = make_values((3, 5), dtype)
        check(name, [x, *(np.array(v, dtype) for v in extra)], attributes, constants=range(1, 1 + len(extra)))


@pytest.mark.parametrize("name", ["Gelu-7", "Softmax-8", "Swish-4", "Mish-4"])
def test_large_arrays_are_computed_in_tiles(name):
    x = make_floats((3, TILE // 2 + 5), scale=3)
    compare = compare_with_exact(name, {"axis": 1} if name == "Softmax-8" else {})
    for data in (x, x.T, x[:, ::2], x[:1]):
        check(name, [data], {"axis": 1} if name == "Softmax-8" else {}, compare=compare)


@pytest.mark.parametrize("name", UFUNCS)
def test_simple_function_equals_plain_kernel(name):
    for shape in ((4, 64), (), (0, 2), (1, 1, 20)):
        check(name, [make_floats(shape, special=True)])
    check(name, [make_floats((200,), scale=5)])


@pytest.mark.parametrize("name", ["Sin-1", "Cos-1"])
def test_sine_equals_plain_kernel(name):
    check(name, [make_samples(1e4)])
    check(name, [make_floats((20,), special=True)])
    check(name, [make_values((20,), np.int32) % 10])


def test_rounding_away_equals_plain_kernel():
    check("Round-5", [np.array([0.5, 1.5, -0.5, -2.5], F32)], {"mode": "half_away_from_zero"})


@pytest.mark.parametrize("limits", [(0, 6), (-1.5, 1.5), (-1e300, 1e300), (2, 2), (3, 1), (0.3, 0.7)])
def test_clamp_equals_plain_kernel(limits):
    attributes = {"min": float(limits[0]), "max": float(limits[1])}
    for dtype in (np.float32, *OTHER_TYPES[:-1]):
        for shape in ((4, 64), (), (0,)):
            check("Clamp-1", [make_values(shape, dtype)], attributes)


@pytest.mark.parametrize("slope", [0.1, 1.0, 0.0, -0.5, 2.0, np.inf])
def test_p_relu_equals_plain_kernel(slope):
    x = make_floats((2, 3, 4), special=True)
    for shape in ((), (1,), (3,), (3, 1), (1, 3, 1), (1, 1, 1, 1), (2,), (2, 3, 4)):
        values = np.full(shape, slope, F32)
        for constants in ((), (1,)):
            for data in (x, x[0, 0], x[0, 0, 0], x[:0]):
                check("PRelu-1", [data, values], constants=constants, compare=compare_values)


@pytest.mark.parametrize("beta", [1.0, -2.0, 0.0, np.nan])
def test_swish_with_beta_equals_exact_value(beta):
    x = make_floats((3, 50), scale=4, special=True)
    for shape in ((), (1,), (1, 1), (2,)):
        for constants in ((), (1,)):
            check("Swish-4", [x, np.full(shape, beta, F32)], constants=constants, compare=compare_with_exact("Swish-4"))
    check("Swish-4", [x], compare=compare_with_exact("Swish-4"))


@pytest.mark.parametrize("alpha", [0.0, -1.5, 100.0, np.inf])
def test_elu_with_other_alphas_equals_exact_value(alpha):
    x = make_floats((3, 50), scale=4, special=True)
    check("Elu-1", [x], {"alpha": alpha}, compare=compare_with_exact("Elu-1", {"alpha": alpha}))


@pytest.mark.parametrize("parameters", [(0.2, 0.5), (100.0, -0.5), (1.0, 5.0), (np.inf, 0.0)])
def test_hard_sigmoid_equals_exact_value(parameters):
    x = make_floats((3, 50), scale=4, special=True)
    inputs = [x, *(np.array([v], F32) for v in parameters)]
    check("HardSigmoid-1", inputs, constants=(1, 2), compare=compare_with_exact("HardSigmoid-1"))
