"""Functions of chains on blocks against the plain kernels, and operations that chains cannot contain."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import compare_with_exact, find_operation, make_floats
from irrun.fast.expressions.numpy import Arrays, compile_expression
from irrun.fast.expressions.table import find_call

F32 = np.float32


def scalar(value):
    return np.array(value, F32)


def vector(*values):
    return np.array(values, F32)


BINARY = ("Add-1", "Divide-1", "Maximum-1", "Minimum-1", "Multiply-1", "Subtract-1")
UNARY = ("Abs-1", "Ceiling-1", "Exp-1", "Floor-1", "Gelu-2", "HSigmoid-5", "HSwish-4", "Mish-4", "Negative-1", "Relu-1")
#: Operation, attributes, and the inputs after the first one.
CASES = [
    *[(name, {}, [vector(1.5, -2.0, 3.0)]) for name in BINARY],
    *[(name, {"auto_broadcast": "numpy"}, [vector(0.5)]) for name in BINARY],
    *[(name, {}, []) for name in (*UNARY, "Erf-1", "Sigmoid-1", "SoftPlus-4", "SoftSign-9", "Tanh-1")],
    ("Clamp-1", {"min": -0.5, "max": 1.0}, []),
    ("Elu-1", {"alpha": 1.0}, []),
    ("Elu-1", {"alpha": 0.5}, []),
    ("Selu-1", {}, [scalar(1.67), vector(1.05)]),
    ("HardSigmoid-1", {}, [scalar(0.2), scalar(0.5)]),
    ("Swish-4", {}, []),
    ("Swish-4", {}, [scalar(1.5)]),
    ("Power-1", {}, [scalar(2)]),
    ("Power-1", {}, [vector(2)]),
    *[("PRelu-1", {}, [slope]) for slope in (scalar(0.25), vector(1), vector(0.25, 1, 0.5), vector(0.25, 1.5, 0.5))],
    *[("PRelu-1", {}, [slope]) for slope in (scalar(0), scalar(-1), scalar(2), vector(0.5, 0, 1), vector(0.5, -1, 1))],
    ("FakeQuantize-1", {"levels": 16}, [scalar(-1), scalar(1), scalar(-1), scalar(1)]),
]


@pytest.mark.parametrize(("name", "attributes", "others"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_function_on_blocks_equals_the_plain_kernel(name, attributes, others):
    """It requires no more scratch memory than it states, and may write to its first operand."""
    call = find_call(Arrays, name, attributes, [None, *others], 2)
    is_reused = [isinstance(operand, int) for operand in call.operands]
    function = compile_expression(call.name, is_reused, call.parameters, reuses_operands=True)
    x = make_floats((40, 3), scale=3)
    operands = [[x, *others][o] if isinstance(o, int) else o for o in call.operands]
    if name == "PRelu-1" and others[0].size > 1:
        operands[1] = others[0]  # slopes of the last axis
    operands = [x, *(np.broadcast_to(v, x.shape) if v.size > 1 else v.reshape(()) for v in operands[1:])]
    results = []
    for out in (np.full_like(x, np.nan), x.copy()):
        scratch = np.full(function.scratch_factor * x.size, np.nan, F32)
        first = x if np.isnan(out).all() else out
        function.compute(first, *operands[1:], out, scratch)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    inputs = [x, *others]
    expected = find_operation(name).kernel(*inputs, **attributes)
    if name == "PRelu-1":
        expected = np.where(x > 0, x, x * others[0])
    if name == "FakeQuantize-1":
        np.testing.assert_allclose(results[0], expected, rtol=0, atol=1e-6)
        return
    assert results[0].dtype == F32
    if name == "PRelu-1":
        np.testing.assert_allclose(results[0], expected, rtol=1e-6)
    else:
        compare_with_exact(name, attributes)(results[0], expected, inputs)


@pytest.mark.parametrize(
    ("name", "attributes", "constants"),
    [
        ("Add-1", {"auto_broadcast": "pdpd"}, [None, None]),
        ("Add-1", {"auto_broadcast": "none"}, [None, scalar(1)]),
        *[(name, {}, [None, None]) for name in ("Maximum-1", "Minimum-1")],
        *[(name, {}, [scalar(1), None]) for name in ("Maximum-1", "Minimum-1")],
        *[(name, {}, [None, vector(1, np.nan)]) for name in ("Maximum-1", "Minimum-1")],
        ("Power-1", {}, [None, None]),
        ("Power-1", {}, [None, scalar(3)]),
        ("Power-1", {}, [None, vector(2, 2)]),
        ("Power-1", {}, [scalar(2), None]),
        ("Power-1", {}, [scalar(2), scalar(2)]),
        ("PRelu-1", {}, [None, None]),
        ("PRelu-1", {}, [None, vector(0.5, np.inf)]),
        ("PRelu-1", {}, [None, vector(0.5, np.nan)]),
        ("Relu-1", {}, [scalar(1)]),
        ("Swish-4", {}, [None, None]),
        ("Swish-4", {}, [scalar(1), scalar(1)]),
        ("Selu-1", {}, [None]),
        ("Selu-1", {}, [None, scalar(1)]),
        ("Selu-1", {}, [None, scalar(1), None]),
        ("Selu-1", {}, [None, vector(1, 2), scalar(1)]),
        ("Selu-1", {}, [None, np.ones(1), scalar(1)]),
        ("HardSigmoid-1", {}, [None, scalar(1)]),
        ("FakeQuantize-1", {"levels": 16}, [None, *map(scalar, (0, 1, 0))]),
        ("Selu-1", {}, [None, scalar(1), scalar(np.inf)]),
        ("HardSigmoid-1", {}, [None, scalar(1), None]),
        ("HardSigmoid-1", {}, [None, scalar(np.inf), scalar(0)]),
        ("HardSigmoid-1", {}, [None, scalar(1), scalar(1.5)]),
        ("FakeQuantize-1", {"levels": 16, "auto_broadcast": "none"}, [None, *map(scalar, (0, 1, 0, 1))]),
        ("FakeQuantize-1", {"levels": 16}, [None, *map(scalar, (0, 1, 0)), None]),
        ("FakeQuantize-1", {"levels": 1}, [None, *map(scalar, (0, 1, 0, 1))]),
        ("FakeQuantize-1", {"levels": 16}, [None, *map(scalar, (0, 1, 0, np.inf))]),
        ("FakeQuantize-1", {"levels": 16}, [None, *map(scalar, (0, 1, -np.inf, 1))]),
        ("FakeQuantize-1", {"levels": 16}, [None, *map(scalar, (1, 1, 0, 1))]),
        ("Softmax-8", {"axis": 1}, [None]),
    ],
    ids=str,
)
def test_other_operations_are_not_part_of_chains(name, attributes, constants):
    assert find_call(Arrays, name, attributes, constants, 2) is None


@pytest.mark.parametrize(
    ("name", "attributes", "constants"),
    [
        ("HardSigmoid-1", {}, [None, scalar(1), scalar(1)]),
        ("HardSigmoid-1", {}, [None, scalar(1), scalar(-1)]),
        ("FakeQuantize-1", {"levels": 2}, [None, *map(scalar, (0, 1, 0, 1))]),
        ("FakeQuantize-1", {"levels": 2}, [None, *map(scalar, (0, 1, 1, 1))]),
        ("Clamp-1", {"min": 1.0, "max": 1.0}, [None]),
    ],
    ids=str,
)
def test_limits_of_parameters_are_part_of_chains(name, attributes, constants):
    assert find_call(Arrays, name, attributes, constants, 2) is not None
