"""Chains of elementwise operations against the same operations one by one."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from fast.harness import make_floats
from irrun.fast.elementwise import BoundChain, ElementwiseChain, Operand, Step
from irrun.fast.elementwise_functions import find_block_function
from irrun.threads import use_threads

F32 = np.float32


def make_step(operation, *operands, constants=None, **attributes):
    function = find_block_function(operation, attributes, constants or [None] * len(operands))
    assert function is not None
    return Step(operation, operands, attributes, function)


def make_chain(bias):
    """Return min(max(x + bias, 0), 6) * sigmoid(x + bias) - other."""
    value, other, constant = Operand("input", 0), Operand("input", 1), Operand("constant", 0)
    steps = (
        make_step("Add-1", value, constant),
        make_step("Sigmoid-1", Operand("step", 0)),
        make_step("Clamp-1", Operand("step", 0), min=0.0, max=6.0),
        make_step("Multiply-1", Operand("step", 1), Operand("step", 2)),
        make_step("Subtract-1", Operand("step", 3), other),
    )
    return ElementwiseChain(steps, 2, (bias,))


SHAPES = [
    ((2, 3, 5, 7), (3, 1, 1), (2, 3, 5, 7)),
    ((2, 3, 5, 7), (), (2, 3, 1, 1)),
    ((2, 40, 90, 70), (40, 1, 1), (2, 40, 90, 70)),
    ((300, 700), (700,), (300, 1)),
    ((500_000,), (1,), (500_000,)),
    ((2, 3, 5, 7), (5, 1), (1, 3, 1, 7)),
    ((4, 0, 3), (3,), (4, 0, 3)),
    ((3, 1), (1, 1), (3, 5)),
    ((), (), ()),
]


@pytest.mark.parametrize(("shape", "bias_shape", "other_shape"), SHAPES, ids=str)
def test_chain_equals_its_steps(shape, bias_shape, other_shape):
    x, bias, other = make_floats(shape, 1), make_floats(bias_shape, 2), make_floats(other_shape, 3)
    chain = make_chain(bias)
    before = x.copy()
    actual = chain(x, other)
    t = x + bias
    expected = (F32(1) / (F32(1) + np.exp(-t)) * np.clip(t, F32(0), F32(6))) - other
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(x, before)
    if np.broadcast_shapes(shape, other_shape) == shape:
        np.testing.assert_array_equal(chain(x, other, may_overwrite=True), actual)


@pytest.mark.parametrize("layout", ["transposed", "sliced", "broadcast"])
def test_operands_may_have_any_layout(layout):
    full = make_floats((40, 60, 80), 1)
    x = {
        "transposed": full.transpose(2, 0, 1),
        "sliced": full[:, ::2, 1::3],
        "broadcast": np.broadcast_to(full[:1], full.shape),
    }[layout]
    other = make_floats(x.shape[::-1], 2).T
    chain = make_chain(F32(0.5) * np.ones(x.shape[-1], F32))
    np.testing.assert_array_equal(chain(x, other), chain(x.copy(), other.copy()))


@pytest.mark.parametrize("shape", [(3, 4, 5), (20, 60, 80)])
def test_result_of_a_function_has_the_order_of_its_input(shape):
    """What follows reads it in the order in which it was written, as after NumPy's functions."""
    x = make_floats(shape, 1).transpose(2, 0, 1)
    chain = ElementwiseChain((make_step("Sigmoid-1", Operand("input", 0)),))
    result = chain(x)
    assert result.strides == np.exp(x).strides
    np.testing.assert_array_equal(result, chain(x.copy()))


def test_bits_do_not_depend_on_the_number_of_threads():
    x, other = make_floats((3, 50, 90, 90), 1), make_floats((3, 50, 90, 90), 2)
    chain = make_chain(make_floats((50, 1, 1), 3))
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(chain(x, other))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_epilogue_of_blocks_equals_the_chain():
    x, other, bias = make_floats((2, 30, 9, 11), 1), make_floats((2, 30, 9, 11), 2), make_floats((30, 1, 1), 3)
    chain = make_chain(bias)
    expected = chain(x, other)
    result = x.copy()
    blocks = result.reshape(2, 30, 99)
    bound = BoundChain(chain, [None, other], x.shape, (2, 30, 99))
    for n in range(2):
        for start in range(0, 30, 7):
            index = (slice(n, n + 1), slice(start, min(start + 7, 30)), slice(0, 99))
            bound.apply(blocks[index], index)
    np.testing.assert_array_equal(result, expected)


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="f32"):
        make_chain(F32(1) * np.ones((), F32))(np.ones(3), np.ones(3, F32))


def test_operands_are_released_without_a_garbage_collection():
    chain = make_chain(make_floats((400,), 1))
    value, other = np.ones((300, 400), np.float32), np.ones((300, 400), np.float32)
    references = [weakref.ref(x) for x in (value, other)]
    gc.disable()
    try:
        result = chain(value, other)
        references.append(weakref.ref(result))
        del value, other, result
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()
