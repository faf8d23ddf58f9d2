"""Chains of elementwise operations against the same operations one by one."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from fast.harness import make_floats
from irrun.fast.elementwise import BoundChain, ElementwiseChain, Operand, Step
from irrun.fast.errors import NoKernelError
from irrun.threads import use_threads

F32 = np.float32


def make_chain(bias):
    """Return min(max(x + bias, 0), 6) * sigmoid(x + bias) - other."""
    value, other, constant = Operand("input", 0), Operand("input", 1), Operand("constant", 0)
    steps = (
        Step.create("Add", value, constant),
        Step.create("Sigmoid", Operand("step", 0)),
        Step.create("Clamp", Operand("step", 0), parameters=(0.0, 6.0)),
        Step.create("Multiply", Operand("step", 1), Operand("step", 2)),
        Step.create("Subtract", Operand("step", 3), other),
    )
    return ElementwiseChain(steps, 2, (bias,))


SHAPES = [
    ((2, 3, 5, 7), (3, 1, 1), (2, 3, 5, 7)),
    ((2, 3, 5, 7), (), (2, 3, 1, 1)),
    ((2, 40, 90, 70), (40, 1, 1), (2, 40, 90, 70)),
    ((300, 700), (700,), (300, 1)),
    ((500_000,), (1,), (500_000,)),
    ((2, 3, 5, 7), (5, 1), (1, 3, 1, 7)),
    ((2, 40, 90, 70), (), (1,)),
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
    chain = ElementwiseChain((Step.create("Sigmoid", Operand("input", 0)),))
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
    with pytest.raises(NoKernelError, match="f32"):
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


def make_sum(*shapes, constants=()):
    """Return the chain that adds inputs and constants, and the operands of the shapes of inputs."""
    count = len(shapes)
    operands = [Operand("input", i) for i in range(1, count)] + [Operand("constant", i) for i in range(len(constants))]
    steps, value = [], Operand("input", 0)
    for number, operand in enumerate(operands):
        steps.append(Step.create("Add", value, operand))
        value = Operand("step", number)
    return ElementwiseChain(tuple(steps), count, tuple(constants)), [make_floats(s, i) for i, s in enumerate(shapes)]


@pytest.mark.parametrize("shape", [(3, 4, 5), (60, 80, 20)])
@pytest.mark.parametrize("constant", [(), (1,), (5,), (4, 1), (1, 1, 1), (3, 4, 5)])
def test_constants_broadcast_to_values_of_any_layout(shape, constant):
    constant = tuple(n if n == 1 else shape[len(shape) - len(constant) + i] for i, n in enumerate(constant))
    x = make_floats(shape, 1)
    chain, _ = make_sum(shape, constants=[make_floats(constant, 2)])
    for value in (x, np.ascontiguousarray(x.T).T, np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(chain(value), x + chain.constants[0])


@pytest.mark.parametrize("shape", [(3, 5), (300, 500)])
def test_values_are_overwritten_where_that_is_allowed(shape):
    chain, (x,) = make_sum(shape, constants=[np.ones((), F32)])
    before = x.copy()
    assert not np.shares_memory(chain(x), x)
    read_only = x.copy()
    read_only.flags.writeable = False
    assert not np.shares_memory(chain(read_only, may_overwrite=True), read_only)
    chain, (_, other) = make_sum(shape, shape)
    transposed = np.ascontiguousarray(x.T).T
    assert not np.shares_memory(chain(transposed, other, may_overwrite=True), transposed)
    np.testing.assert_array_equal(x, before)
    result = chain(x, other, may_overwrite=True)
    assert np.shares_memory(result, x)
    np.testing.assert_array_equal(result, before + other)


@pytest.mark.parametrize(
    ("shape", "others", "collapsed"),
    [
        ((2, 3, 5, 7), [(2, 3, 5, 7)], (210,)),
        ((2, 3, 5, 7), [()], (210,)),
        ((2, 3, 5, 7), [(1, 1)], (210,)),
        ((2, 3, 5, 7), [(3, 1, 1)], (2, 3, 35)),
        ((2, 3, 5, 7), [(2, 3, 1, 1)], (6, 35)),
        ((2, 3, 5, 7), [(7,)], (30, 7)),
        ((2, 3, 5, 7), [(5, 7)], (6, 35)),
        ((2, 3, 5, 7), [(5, 1)], (6, 5, 7)),
        ((2, 3, 5, 7), [(3, 1, 1), (7,)], (2, 3, 5, 7)),
        ((2, 3, 5, 7), [(3, 1, 1), (5, 7)], (2, 3, 35)),
        ((1, 6, 1, 7), [(6, 1, 1)], (6, 7)),
        ((1, 6, 1, 7), [(1, 6, 1, 7)], (42,)),
        ((1, 1), [(1, 1)], (1,)),
    ],
    ids=str,
)
def test_operands_are_viewed_with_as_few_axes_as_possible(shape, others, collapsed):
    chain, inputs = make_sum(shape, *others)
    assert BoundChain(chain, inputs, shape).shape == collapsed
    chain, inputs = make_sum(shape, constants=[make_floats(other, 1) for other in others])
    assert BoundChain(chain, inputs, shape).shape == collapsed


def test_operands_with_gaps_keep_their_axes():
    shape = (4, 6, 8)
    chain, (x, y) = make_sum(shape, shape)
    sliced = np.repeat(y, 2, axis=2)[:, :, :8]
    assert BoundChain(chain, [x, sliced], shape).shape == (24, 8)
    assert BoundChain(chain, [x, np.repeat(y, 2, axis=1)[:, :6]], shape).shape == (4, 48)
    assert BoundChain(chain, [x, y.transpose(0, 2, 1).copy().transpose(0, 2, 1)], shape).shape == (4, 6, 8)


@pytest.mark.parametrize(
    ("other", "size", "tiles"),
    [
        ((4, 6, 10), 240, [240]),
        ((4, 6, 10), 239, [239, 1]),
        ((4, 6, 10), 100, [100, 100, 40]),
        ((6, 1), 120, [120, 120]),
        ((6, 1), 119, [60] * 4),
        ((6, 1), 60, [60] * 4),
        ((6, 1), 59, [50, 10] * 4),
        ((6, 1), 20, [20, 20, 20] * 4),
        ((6, 1), 9, [9, 1] * 24),
        ((10,), 25, [20] * 12),
    ],
    ids=str,
)
def test_tiles_cover_the_result_once(other, size, tiles):
    """An axis is divided only if the axes before it are taken one by one."""
    shape = (4, 6, 10)
    chain, inputs = make_sum(shape, other)
    bound = BoundChain(chain, inputs, shape)
    counts = np.zeros(bound.shape, int)
    sizes = []
    for index in bound.iterate_tiles(size):
        counts[index] += 1
        sizes.append(counts[index].size)
    assert (counts == 1).all()
    assert sizes == tiles


@pytest.mark.parametrize(
    ("columns", "tiles"), [(8, [(8, 8), (8, 8), (4, 8)]), (64, [(1, 64)] * 20), (65, [(1, 65)] * 20)]
)
def test_rows_are_computed_by_tiles(columns, tiles, monkeypatch):
    monkeypatch.setattr("irrun.fast.elementwise.BLOCK", 64)
    shapes = []
    apply = BoundChain.apply

    def record(self, block, index):
        shapes.append(block.shape)
        apply(self, block, index)

    monkeypatch.setattr(BoundChain, "apply", record)
    chain, (x, other) = make_sum((30, 100), (30, 100))
    bound = BoundChain(chain, [None, other], x.shape, x.shape)
    result = x.copy()
    bound.apply_to_rows(result[5:25, 10 : 10 + columns], slice(5, 25), slice(10, 10 + columns))
    assert shapes == tiles
    x[5:25, 10 : 10 + columns] += other[5:25, 10 : 10 + columns]
    np.testing.assert_array_equal(result, x)


def test_many_steps_share_few_tiles():
    """Results that are not needed any more make room for others."""
    value = Operand("input", 0)
    steps = [Step.create("Negative", value)]
    steps += [Step.create("Negative", Operand("step", i)) for i in range(9)]
    chain = ElementwiseChain(tuple(steps))
    assert chain.function.scratch_factor == 0
    np.testing.assert_array_equal(chain(np.ones(3, F32)), np.ones(3))
    steps += [Step.create("Add", Operand("step", 9), value)]
    chain = ElementwiseChain(tuple(steps))
    assert chain.function.scratch_factor == 1
    np.testing.assert_array_equal(chain(np.ones(3, F32)), np.full(3, 2))
    gelus = [Step.create("Gelu", Operand("step", i - 1) if i else value) for i in range(9)]
    assert ElementwiseChain(tuple(gelus)).function.scratch_factor == 2
