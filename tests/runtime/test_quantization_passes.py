"""FakeQuantize in whole models: fused with its neighbors, and without the limits that it repeats."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from irrun.runtime.passes.quantization import _is_quantized_within

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8, 13, 11)).astype(F32)
SPECIAL = [np.nan, np.inf, -np.inf, -0.0]


def quantize(value, low, high, levels=256):
    """Append a FakeQuantize that keeps the range."""
    limits = [o.constant(np.asarray(v, F32)) for v in (low, high)]
    return o.fake_quantize(value, *limits, *limits, levels)


def save(tmp_path, x, *results):
    ov.serialize(ov.Model([o.result(r) for r in results], [x], "model"), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def list_operations(compiled):
    """Return the types of the layers that the optimized program computes."""
    return [p.operation.type for i in compiled._fast_program.instructions for p in (i.plain or (i,))]


def compare_runs(path, *values, step):
    """Assert that the optimized run returns the levels of the plain one; `step` is the distance of levels."""
    fast, plain = irrun.compile_model(path), irrun.compile_model(path, optimize=False)
    for value in values:
        for a, b in zip(fast(value).to_tuple(), plain(value).to_tuple(), strict=True):
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            assert np.nanmax(np.abs(a - b)) < 1e-3 * step
    return fast


@pytest.mark.parametrize("shape", [(), (1, 8, 1, 1)])
@pytest.mark.parametrize("low", [0.0, -1.5])
def test_quantization_is_computed_with_the_convolution(tmp_path, shape, low):
    x = o.parameter([2, 8, 13, 11], F32)
    # Sums of few integers are exact, so that both programs quantize the same values.
    weights = RNG.integers(-3, 4, (8, 8, 3, 3)).astype(F32) / 8
    high = np.full(shape, 3.0, F32) * (1 + RNG.integers(0, 4, shape))
    value = o.add(o.convolution(x, o.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1]), o.constant(F32(0.25)))
    path = save(tmp_path, x, quantize(value, np.full(shape, low), high))
    inputs = RNG.integers(-9, 10, X.shape).astype(F32) / 4
    fast = compare_runs(path, inputs, step=0.01)
    assert len(fast._fast_program.instructions) == 1


@pytest.mark.parametrize("kind", ["relu", "clamp"])
@pytest.mark.parametrize("shape", [(), (1, 8, 1, 1)])
def test_limits_within_the_input_range_are_removed(tmp_path, kind, shape):
    x = o.parameter([2, 8, 13, 11], F32)
    limited = o.relu(x) if kind == "relu" else o.clamp(x, 0.0, 6.0)
    path = save(tmp_path, x, quantize(limited, np.zeros(shape), np.full(shape, 5.9)), quantize(limited, 0.5, 4.0))
    value = X * 5
    value.reshape(-1)[: len(SPECIAL)] = SPECIAL
    fast = compare_runs(path, value, step=0.01)
    assert set(list_operations(fast)) == {"FakeQuantize"}


@pytest.mark.parametrize("case", ["narrower", "read", "result", "reversed", "computed"])
def test_other_limits_stay(tmp_path, case):
    x = o.parameter([2, 8, 13, 11], F32)
    limited = o.clamp(x, 0.0, 1.0 if case == "narrower" else 6.0)
    low, high = (5.0, 0.0) if case == "reversed" else (0.0, 5.0)
    if case == "computed":
        high_value = o.reduce_max(limited, o.constant(np.array([0, 1, 2, 3])), False)
        limits = [o.constant(F32(0)), high_value]
        results = [o.fake_quantize(limited, *limits, *limits, 256)]
    else:
        results = [quantize(limited, low, high)]
    if case == "read":
        results.append(o.sqrt(limited))
    if case == "result":
        results.append(limited)
    fast = compare_runs(save(tmp_path, x, *results), X * 5, step=0.01)
    assert "Clamp" in list_operations(fast)


@pytest.mark.parametrize(
    ("low", "high", "is_within"),
    [
        (np.float32(0), np.float32(6), True),
        (np.float32([0, 1]), np.float32([5, 6]), True),
        (np.float32(-1), np.float32(6), False),
        (np.float32(0), np.float32(7), False),
        (np.float32(6), np.float32(0), False),
        (np.float32([0, -1]), np.float32([5, 6]), False),
        (np.float32(0), np.float32([5, 6]), False),
        (None, np.float32(6), False),
        (np.float32(0), None, False),
    ],
)
def test_quantizations_limit_values_to_constant_ranges(low, high, is_within):
    constants = {1: low, 2: high}
    view = SimpleNamespace(get_constant=constants.get)
    quantization = SimpleNamespace(operation=SimpleNamespace(has_levels=True), inputs=(0, 1, 2, 3, 4))
    assert _is_quantized_within(view, quantization, 0, (0.0, 6.0)) == is_within
    for inputs in ((0, 1, 2, 0, 4), (1, 0, 2, 3, 4)):  # the value is also an output limit, or only an input limit
        assert not _is_quantized_within(
            view, SimpleNamespace(operation=quantization.operation, inputs=inputs), 0, (0.0, 6.0)
        )
    other = SimpleNamespace(operation=SimpleNamespace(has_levels=False), inputs=(0, 1, 2, 3, 4))
    assert not _is_quantized_within(view, other, 0, (0.0, 6.0))
