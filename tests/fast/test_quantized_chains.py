"""Chains after convolutions in units of levels, against the original chains in f64."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.quantized_chains import EXACT, Affine, get_quantization, lower_chain

F32 = np.float32
RNG = np.random.default_rng(0)
SHAPE = (1, 6, 5, 7)
DATA = Operand("input", 0)


class Builder:
    """Builds a chain."""

    def __init__(self):
        self.steps, self.constants, self.input_count = [], [], 1

    def constant(self, value):
        self.constants.append(np.asarray(value, F32))
        return Operand("constant", len(self.constants) - 1)

    def input(self):
        self.input_count += 1
        return Operand("input", self.input_count - 1)

    def step(self, name, *operands, parameters=()):
        self.steps.append(Step.create(name, *operands, parameters=parameters))
        return Operand("step", len(self.steps) - 1)

    def quantize(self, value, low, step, levels=256, shape=()):
        """Append a FakeQuantize with a distance of levels that is a power of two, so that f32 computes it exactly."""
        low, step = (np.broadcast_to(np.asarray(v, F32), shape) for v in (low, step))
        zero = np.rint(-low / step)
        counts_from_zero = bool((zero * step + low == 0).all())
        operands = (low, step * F32(levels - 1), step, zero if counts_from_zero else low)
        parameters = (float(levels - 1), bool(low.any()), bool(low.any()), counts_from_zero)
        return self.step("FakeQuantizeBySteps", value, *map(self.constant, operands), parameters=parameters)

    def finish(self):
        return ElementwiseChain(tuple(self.steps), self.input_count, tuple(self.constants))


def check(chain, inputs=None, returns_levels=False, steps=None):
    """Compare a chain in units of levels with the original one on values that f32 computes exactly, without ties."""
    data = (RNG.integers(-1000, 1000, SHAPE) / 32).astype(F32)
    meanings = dict(inputs or {})
    arrays = [RNG.integers(-100, 100, SHAPE).astype(F32) for _ in range(1, chain.input_count)]
    values = [array * m.scale.reshape(-1, 1, 1) + m.offset.reshape(-1, 1, 1)
              for array, m in ((a, meanings.get(i, EXACT)) for i, a in enumerate(arrays, 1))]  # fmt: skip
    own = meanings.get(0, EXACT)
    expected = chain((data + own.offset.reshape(-1, 1, 1)).astype(F32), *[v.astype(F32) for v in values])
    lowered = lower_chain(chain, 4, meanings, returns_levels)
    result = lowered.chain((data * lowered.scale.reshape(-1, 1, 1)).astype(F32), *arrays)
    scale, offset = (v.reshape(-1, 1, 1) for v in lowered.result)
    np.testing.assert_array_equal((result * scale + offset).astype(F32), expected)
    assert lowered.result.is_exact or returns_levels
    if steps is not None:
        assert [step.name for step in lowered.chain.steps] == steps
    return lowered


@pytest.mark.parametrize("shape", [(), (6, 1, 1)])
@pytest.mark.parametrize("low", [0.0, -5.0, -8.03125])
@pytest.mark.parametrize("returns_levels", [False, True])
def test_scales_move_to_the_filters_and_to_the_readers(shape, low, returns_levels):
    b = Builder()
    total = b.step("Add", DATA, b.constant(RNG.integers(-9, 9, (1, 6, 1, 1)) / 8 + 1 / 64))
    step = np.full(shape, 1 / 16) * (2.0 ** RNG.integers(0, 2, shape))
    b.quantize(total, low, step, shape=shape)
    chain = b.finish()
    assert get_quantization(chain, chain.steps[-1], 4) is not None
    lowered = check(chain, returns_levels=returns_levels)
    names = [s.name for s in lowered.chain.steps]
    assert names[:2] == ["Add", "RoundedLevel"]
    assert returns_levels == (names == ["Add", "RoundedLevel"])
    assert (lowered.scale == 1 / step.reshape(-1)).all()


def test_residuals_are_read_as_levels():
    b = Builder()
    first = b.quantize(b.step("Add", DATA, b.constant(1 / 64)), -8.0, 1 / 16)
    b.quantize(b.step("Add", first, b.input()), -4.0, 1 / 16)
    meaning = Affine(np.array([1 / 16]), np.array([0.5]))
    steps = ["Add", "RoundedLevel", "Add", "Add", "RoundedLevel"]
    check(b.finish(), {1: meaning}, returns_levels=True, steps=steps)
    per_channel = Affine(2.0 ** RNG.integers(-6, -3, 6), np.zeros(6))
    check(b.finish(), {1: per_channel})


def test_residuals_of_a_convolution_take_its_scale_from_the_filters():
    b = Builder()
    b.step("Add", b.step("Add", DATA, b.constant(0.25)), b.input())
    lowered = check(b.finish(), {1: Affine(np.array([0.125]), np.zeros(1))}, steps=["Add", "Multiply", "Add"])
    assert lowered.scale.tolist() == [8]


def test_values_that_are_used_twice_are_not_scaled():
    b = Builder()
    total = b.step("Add", DATA, b.constant(0.5))
    b.quantize(b.step("Add", b.quantize(total, 0.0, 1 / 32), total), -8.0, 1 / 32)
    assert (check(b.finish()).scale == 1).all()
    b = Builder()
    b.quantize(b.step("Add", DATA, DATA), -8.0, 1 / 8 + 0.0)
    check(b.finish())


def test_values_that_are_the_result_as_well_are_not_scaled():
    b = Builder()
    b.quantize(DATA, 0.0, 1 / 32)
    b.step("Add", DATA, b.constant(0.5))
    assert (check(b.finish()).scale == 1).all()


def test_other_steps_read_values():
    b = Builder()
    value = b.step("Multiply", b.step("Add", DATA, b.constant(0.5)), b.constant(RNG.choice([0.5, 2.0], (6, 1, 1))))
    b.quantize(b.step("Abs", value), 0.0, 1 / 64)
    lowered = check(b.finish(), {0: Affine(np.ones(1), np.arange(6) / 4)})
    assert "Abs" in [step.name for step in lowered.chain.steps]
    b = Builder()
    b.step("Multiply", DATA, b.constant(2.0))
    check(b.finish(), steps=["Multiply"])


def test_limits_of_other_layouts_are_not_lowered():
    b = Builder()
    b.quantize(DATA, 0.0, np.full((5, 7), 1 / 16), shape=(5, 7))
    chain = b.finish()
    assert get_quantization(chain, chain.steps[0], 4) is None
    lowered = lower_chain(chain, 4, {}, returns_levels=True)
    assert lowered.chain.steps == chain.steps
    assert lowered.result.is_exact


def test_scales_that_f32_cannot_represent_are_refused():
    b = Builder()
    b.quantize(DATA, 0.0, 1 / 16)
    b.step("Add", Operand("step", 0), b.input())
    assert lower_chain(b.finish(), 4, {1: Affine(np.array([1e-45]), np.zeros(1))}, returns_levels=False) is None


def test_nan_remains_nan():
    b = Builder()
    b.quantize(DATA, 0.0, 1 / 16)
    lowered = lower_chain(b.finish(), 4, {}, returns_levels=True)
    data = np.full(SHAPE, np.nan, F32)
    data[0, 0] = np.inf
    data[0, 1] = -np.inf
    result = lowered.chain(data)
    assert np.isnan(result[0, 2:]).all()
    assert (result[0, 0] == 255).all()
    assert not result[0, 1].any()


@pytest.mark.parametrize(
    ("factors", "products"),
    [
        ([1, 2, 4, 1, 2, 4], 1),  # of the level with the distance of levels
        ([1, 2, 0, 1, 2, 4], 3),  # also with the factors, and with the levels per unit
    ],
)
def test_products_with_zero_have_no_scale(factors, products):
    builder = Builder()
    product = builder.step("Multiply", DATA, builder.constant(np.array(factors).reshape(6, 1, 1)))
    builder.quantize(product, -8.0, 0.0625)
    lowered = check(builder.finish())
    assert [step.name for step in lowered.chain.steps].count("Multiply") == products
