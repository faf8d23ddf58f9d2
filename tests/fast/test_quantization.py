"""Specialized FakeQuantize against the plain kernel: the same levels, within the rounding of the output."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import SPECIAL_FLOATS, check, is_specialized, make_floats
from irrun.fast.expressions.numpy import Arrays, compile_expression
from irrun.fast.expressions.table import find_call

F32 = np.float32
LIMITS = [(-1.0, 1.0, -1.0, 1.0), (0.0, 2.55, 0.0, 2.55), (-0.73, 2.1, -3.0, 5.5), (0.0, 6.0, 6.0, 0.0)]


def make_limits(limits, shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Return the four limits, which differ at each position of a shape with elements."""
    factors = 1 + np.random.default_rng(seed).random(shape) if shape else np.ones(())
    return [np.asarray(v * factors, F32) for v in limits]


def make_ties(limits, levels: int) -> np.ndarray:
    """Return values on all levels, between them, and next to both."""
    low, high = F32(limits[0]), F32(limits[1])
    points = low + (high - low) * np.arange(-2, 2 * levels + 3, dtype=np.float64) / (2 * (levels - 1))
    points = points.astype(F32)
    return np.concatenate([points, np.nextafter(points, F32(np.inf)), np.nextafter(points, F32(-np.inf))])


def compare_levels(a: np.ndarray, b: np.ndarray, inputs) -> None:
    """Assert that results differ by rounding only, which is much less than a level."""
    out_low, out_high = inputs[3], inputs[4]
    scale = np.maximum(np.abs(out_low), np.abs(out_high))
    error = np.abs(a.astype(np.float64) - b) / scale
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    # Each of the product and the sum is rounded twice, relative to at most twice the larger limit.
    assert np.nanmax(error, initial=0) <= 6 * np.finfo(F32).eps


@pytest.mark.parametrize("levels", [2, 16, 255, 256])
@pytest.mark.parametrize("limits", LIMITS)
def test_levels_equal_plain_kernel(levels, limits):
    x = np.concatenate([make_ties(limits, levels), SPECIAL_FLOATS, make_floats((5000,), scale=2)]).astype(F32)
    inputs = [x, *make_limits(limits, ())]
    assert is_specialized("FakeQuantize-1", inputs, range(1, 5), levels=levels)
    check("FakeQuantize-1", inputs, {"levels": levels}, constants=range(1, 5), compare=compare_levels)


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1), (7,), (1, 1, 5, 1), (2, 1, 1, 1)])
@pytest.mark.parametrize("limits", LIMITS)
def test_limits_of_channels_equal_plain_kernel(shape, limits):
    x = make_floats((2, 3, 5, 7), scale=2, special=True)
    inputs = [x, *make_limits(limits, shape)]
    assert is_specialized("FakeQuantize-1", inputs, range(1, 5), levels=256)
    others = [[v, *inputs[1:]] for v in (x[:1], x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2), x[..., :0])]
    repeat = [v for v in others if v[0].shape[0] == 2 or shape[0] != 2 or len(shape) < 4]
    check("FakeQuantize-1", inputs, {"levels": 256}, constants=range(1, 5), compare=compare_levels, repeat=repeat)


def test_large_arrays_are_computed_in_blocks():
    x = make_floats((2, 5, 150, 151), scale=2)
    for shape in ((), (5, 1, 1), (1, 1, 151)):
        inputs = [x, *make_limits(LIMITS[2], shape)]
        check("FakeQuantize-1", inputs, {"levels": 256}, constants=range(1, 5), compare=compare_levels)


@pytest.mark.parametrize(
    "limits",
    [
        [np.array(1, F32), np.array(-1, F32), np.array(0, F32), np.array(1, F32)],
        [np.array(1, F32), np.array(1, F32), np.array(0, F32), np.array(1, F32)],
        [np.array(0, F32), np.array(np.inf, F32), np.array(0, F32), np.array(1, F32)],
        [np.array([[0], [0.5]], F32), np.ones((2, 3), F32), np.array(0, F32), np.array(1, F32)],
        [np.zeros((1, 1, 1), F32), np.ones(1, F32), np.array(0, F32), np.array(1, F32)],
    ],
)
def test_other_limits_equal_plain_kernel(limits):
    x = make_floats((2, 3), special=True)
    check("FakeQuantize-1", [x, *limits], {"levels": 4}, constants=range(1, 5), compare=compare_levels)
    check("FakeQuantize-1", [x, *limits], {"levels": 4})


def test_other_types_equal_plain_kernel():
    for dtype in (np.float64, np.float16):
        inputs = [make_floats((3, 4)).astype(dtype), *(np.array(v, dtype) for v in LIMITS[2])]
        check("FakeQuantize-1", inputs, {"levels": 256}, constants=range(1, 5))


def test_zero_stays_exact():
    for low, high, levels in ((-1.5, 3.0, 256), (-1.28, 1.27, 256), (-0.7, 0.7, 255)):
        limits = [np.array(v, F32) for v in (low, high, low, high)]
        call = find_call(Arrays, "FakeQuantize-1", {"levels": levels}, [None, *limits], 1)
        assert call is not None
        function = compile_expression(call.name, 5, call.parameters, reuses_operands=True).compute
        assert not function(np.zeros(3, F32), *call.operands[1:]).any()
