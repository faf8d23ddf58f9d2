"""Expressions on every machine: against exact values, in place, on blocks, and the same support."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from fast.harness import SPECIAL_FLOATS, assert_same_bits, compare_with_exact, find_operation
from irrun.fast.expressions.machine import Machine
from irrun.fast.expressions.numpy import Arrays, compile_expression
from irrun.fast.expressions.table import EXPRESSIONS, find_call, get_expression, list_operations

F32 = np.float32
needs_llvm = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")


def scalar(value):
    return np.array(value, F32)


#: Operation, attributes, and constant inputs after the first one.
CASES = [
    ("Add-1", {}, [scalar(1.5)]),
    ("Clamp-1", {"min": -1.5, "max": 6.0}, []),
    ("Divide-1", {}, [scalar(1.7)]),
    ("Elu-1", {"alpha": 0.3}, []),
    ("Elu-1", {"alpha": 1.0}, []),
    ("FakeQuantize-1", {"levels": 256}, [*map(scalar, (-1.5, 3.0, -1.5, 3.0))]),
    ("FakeQuantize-1", {"levels": 16}, [*map(scalar, (0.0, 3.0, 1.0, 2.0))]),
    ("FakeQuantize-1", {"levels": 255}, [*map(scalar, (-1.0, 1.0, -0.7, 0.7))]),
    ("Gelu-7", {"approximation_mode": "ERF"}, []),
    ("Gelu-7", {"approximation_mode": "TANH"}, []),
    ("HardSigmoid-1", {}, [scalar(0.2), scalar(0.5)]),
    ("Maximum-1", {}, [scalar(0.3)]),
    ("Minimum-1", {}, [scalar(0.3)]),
    ("Multiply-1", {}, [scalar(1.7)]),
    ("PRelu-1", {}, [scalar(0.25)]),
    ("PRelu-1", {}, [scalar(0.0)]),
    ("PRelu-1", {}, [scalar(-1.5)]),
    ("Power-1", {}, [scalar(2.0)]),
    ("Selu-1", {}, [scalar(1.67), scalar(1.05)]),
    ("Selu-1", {}, [scalar(1.0), scalar(1.05)]),
    ("SquaredDifference-1", {}, [scalar(0.3)]),
    ("Subtract-1", {}, [scalar(1.7)]),
    ("Swish-4", {}, []),
    ("Swish-4", {}, [scalar(1.7)]),
    ("Swish-4", {}, [scalar(-0.5)]),
]
CASES += [(name, {}, []) for name in list_operations() if name not in {case[0] for case in CASES}]
#: Operations whose results are relative to terms that cancel.
CANCELLING = {"Elu-1", "Erf-1", "Gelu-2", "Gelu-7", "HSwish-4", "HSigmoid-5", "HardSigmoid-1", "Mish-4", "Selu-1"}
CANCELLING |= {"Swish-4"}
#: Machine -> the operations that it has no fast form of, and the missing primitives.
MISSING = {"Arrays": {}, "Vectors": {"Sin-1": {"sin"}, "Cos-1": {"cos"}}}


def get_machine(name: str) -> type[Machine]:
    from irrun.fast.jit.vectors import Vectors

    return {"Arrays": Arrays, "Vectors": Vectors}[name]


def bind(machine, name, attributes, others):
    """Return the call of a case, and its operands after the first."""
    call = find_call(machine, name, attributes, [None, *others], 1)
    if call is None:
        return None, []
    return call, [others[o - 1] if isinstance(o, int) else o for o in call.operands[1:]]


def compute(machine, case, x):
    """Return the result of a case for a vector."""
    call, operands = bind(machine, *case)
    if machine is Arrays:
        return compile_expression(call.name, len(call.operands), call.parameters, reuses_operands=True).compute(
            x, *operands
        )
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    step = Step(call.name, tuple(range(len(call.operands))), call.parameters)
    return ExpressionKernel(1, (step,), operands)(x)


def make_grid() -> np.ndarray:
    """Return f32 of all magnitudes and both signs, with special values."""
    exponents = np.arange(-149, 128, dtype=np.float64)
    magnitudes = np.concatenate([2.0**exponents * m for m in (1, 1.25, 1.9)])
    dense = np.linspace(-20, 20, 40_001)
    return np.concatenate([SPECIAL_FLOATS, magnitudes, -magnitudes, dense]).astype(F32)


@pytest.mark.parametrize(
    ("machine", "case"),
    [
        *[pytest.param("Arrays", case, id=f"Arrays {case}") for case in CASES],
        *[
            pytest.param("Vectors", case, id=f"Vectors {case}", marks=needs_llvm)
            for case in CASES
            if case[0] not in MISSING["Vectors"]
        ],
    ],
)
@pytest.mark.usefixtures("own_kernel_cache")
def test_expression_is_accurate(case, machine):
    name, attributes, others = case
    x = make_grid()
    if name in ("Sin-1", "Cos-1"):
        x = x[~(np.abs(x) > 1e4)]
    if name == "Sigmoid-1":
        x = x[~(x < -88) | np.isinf(x)]  # below, results are no normal numbers
    with np.errstate(all="ignore"):
        result = compute(get_machine(machine), case, x)
        kernel = find_operation(name).kernel
        if name == "FakeQuantize-1":
            np.testing.assert_allclose(result, kernel(x, *others, **attributes), rtol=0, atol=1e-6)
            return
        wide = [v.astype(np.float64) for v in (x, *others)]
        expected = np.asarray(kernel(*wide, **attributes)).astype(F32)
    compare_with_exact(name, attributes, cancels=name in CANCELLING)(result, expected, [x, *others])


@needs_llvm
@pytest.mark.parametrize("case", CASES, ids=str)
def test_machines_support_the_same_operations(case):
    for machine, missing in MISSING.items():
        call, operands = bind(get_machine(machine), *case)
        assert (call is None) == (case[0] in missing)
        if call is None:
            found = get_expression(case[0].rpartition("-")[0]).find_missing(get_machine(machine), 1, ())
            assert found == missing[case[0]]
        else:
            assert all(operand.dtype == F32 for operand in operands)


@needs_llvm
def test_only_vectors_select_between_variable_inputs():
    for name in ("Maximum-1", "Minimum-1"):
        assert find_call(Arrays, name, {}, [None, None], 1) is None
        assert get_expression(name[:-2]).find_missing(Arrays, 2, (False,)) == {"select_greater"}
        assert find_call(get_machine("Vectors"), name, {}, [None, None], 1) is not None


def test_every_expression_of_an_operation_has_a_case():
    names = {call.name for case in CASES for call, _ in [bind(Arrays, *case)]}
    only_kernels = {"Level", "Mask", "MultiplyAdd", "NearestLevel", "RoundedLevel"}
    assert names | only_kernels | {"FakeQuantize"} == set(EXPRESSIONS)


def test_cheap_expressions_take_one_pass():
    """Except the difference of which the square is computed in place."""
    for name, attributes, others in CASES:
        call, operands = bind(Arrays, name, attributes, others)
        if get_expression(call.name).is_cheap and call.name != "SquaredDifference":
            function = compile_expression(call.name, 1 + len(operands), call.parameters, reuses_operands=True)
            assert function.scratch_factor == 0
            assert function.compute.__code__.co_nlocals == 3 + len(operands)
            assert len(function.compute.__code__.co_names) <= 3


@pytest.mark.parametrize("case", CASES, ids=str)
def test_function_writes_to_the_given_array(case):
    call, operands = bind(Arrays, *case)
    count = len(call.operands)
    is_reused = [isinstance(operand, int) for operand in call.operands]
    function, scratch_factor = compile_expression(call.name, is_reused, call.parameters, reuses_operands=True)
    separate = compile_expression(call.name, count, call.parameters, reuses_operands=False)
    assert separate.scratch_factor <= scratch_factor <= 2
    x = np.linspace(-9, 9, 3 * 40, dtype=F32).reshape(3, 40)
    with np.errstate(all="ignore"):
        expected = function(x, *operands)
        scratch = np.full(scratch_factor * x.size, np.nan, F32)
        for source in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            for memory in (None, scratch):
                target = np.empty_like(source)
                function(source, *operands, target, memory)
                assert_same_bits(target, expected)
                target = np.full_like(source, np.nan)
                separate.compute(source, *operands, target, memory)
                assert_same_bits(target, expected)
                in_place = source.copy(order="K")
                function(in_place, *operands, in_place, memory)
                assert_same_bits(in_place, expected)
        number = np.empty((), F32)
        function(np.array(0.5, F32), *operands, number)
        assert_same_bits(number, np.asarray(function(np.array([0.5], F32), *operands))[0])


def test_result_may_be_written_to_any_operand():
    a, b = np.linspace(-2, 2, 9, dtype=F32), np.linspace(1, 3, 9, dtype=F32)
    for name in ("Add", "Divide", "Multiply", "SquaredDifference", "Subtract"):
        function = compile_expression(name, 2, reuses_operands=True).compute
        expected = function(a, b)
        for position in (0, 1):
            operands = [a.copy(), b.copy()]
            function(*operands, operands[position])
            assert_same_bits(operands[position], expected)


def test_equal_parameters_of_other_signs_are_other_functions():
    zero = np.zeros(1, F32)
    for low in (0.0, -0.0):
        result = compile_expression("Add", 2, reuses_operands=True).compute(zero, zero)
        assert not result.any()
        limited = compile_expression("Clamp", 1, (low, 1.0), reuses_operands=True).compute(np.full(1, -1, F32))
        assert np.signbit(limited[0]) == np.signbit(low)


@pytest.mark.parametrize(
    ("name", "attributes", "constants"),
    [
        ("Swish-4", {}, [None]),
        ("Swish-4", {}, [np.ones(2, F32)]),
        ("Swish-4", {}, [scalar(np.nan)]),
        ("Elu-1", {"alpha": np.inf}, []),
        ("Elu-1", {"alpha": 1e39}, []),
        ("Selu-1", {}, [scalar(np.nan), scalar(1)]),
        ("HardSigmoid-1", {}, [scalar(1), scalar(5)]),
        ("Clamp-1", {"min": 3.0, "max": 1.0}, []),
        ("Round-5", {"mode": "half_away_from_zero"}, []),
        ("Power-1", {}, [np.full((1, 1), 2, F32)]),
        ("PRelu-1", {}, [np.ones((2, 3), F32)]),
        ("Gather-8", {}, []),
    ],
)
def test_unsuitable_parameters_have_no_expression(name, attributes, constants):
    assert find_call(Arrays, name, attributes, [None, *constants], 1) is None


@pytest.mark.parametrize(("rank", "expected"), [(1, (3,)), (2, (3,)), (3, (3, 1)), (4, (3, 1, 1))])
def test_slope_is_aligned_with_channels(rank, expected):
    call = find_call(Arrays, "PRelu-1", {}, [None, np.array([0.1, 0.2, 0.3], F32)], rank)
    assert call is not None
    assert np.asarray(call.operands[1]).shape == expected
    assert find_call(Arrays, "PRelu-1", {}, [None, np.ones(3, F32)]) is None  # the rank is not known
