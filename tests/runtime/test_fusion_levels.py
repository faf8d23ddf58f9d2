"""Convolutions of quantized values in units of levels, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest

import irrun
from irrun.fast import convolution
from irrun.fast.errors import NoKernelError

ov = pytest.importorskip("openvino")
o = pytest.importorskip("openvino.opset13")

F32 = np.float32
STEP = 1 / 16
X = np.random.default_rng(0).integers(0, 300, (2, 8, 15, 11)).astype(F32) * STEP


def quantize(value, low=0.0, step=STEP):
    """Append a FakeQuantize with 256 levels; all distances are powers of two, so that f32 computes exactly."""
    low = np.asarray(low, F32)
    limits = [o.constant(v) for v in (low, low + np.asarray(255 * step, F32))]
    return o.fake_quantize(value, *limits, *limits, 256)


class Network:
    """A network of convolutions with weights and biases that avoid ties."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.x = o.parameter([2, 8, 15, 11], F32)

    def convolve(self, value, c_out=8, kernel=3, padding=None, groups=False):
        """Append a convolution and a bias: the sums are an odd number of quarters of a step."""
        c_in = value.get_output_partial_shape(0)[1].get_length()
        pads = [kernel // 2 if padding is None else padding] * 2
        shape = (c_in, 1, 1, kernel, kernel) if groups else (c_out, c_in, kernel, kernel)
        weights = o.constant(self.random.integers(-2, 3, shape).astype(F32) / 2)
        function = o.group_convolution if groups else o.convolution
        result = function(value, weights, [1, 1], pads, pads, [1, 1])
        bias = self.random.integers(-20, 20, (1, c_in if groups else c_out, 1, 1)).astype(F32) / 32 + STEP / 4
        return o.add(result, o.constant(bias.astype(F32)))

    def save(self, folder, *results):
        ov.serialize(ov.Model([o.result(r) for r in results], [self.x], "model"), folder / "model.xml")
        return folder / "model.xml"


def compare(path, x=X, **options):
    fast, plain = irrun.compile_model(path, jit=False, **options), irrun.compile_model(path, optimize=False)
    for _ in range(2):
        for a, b in zip(fast(x).to_tuple(), plain(x).to_tuple(), strict=True):
            np.testing.assert_array_equal(a, b)
    return fast


def count_lowered(compiled):
    return sum("in levels" in i.description for i in compiled._fast_program.instructions)


def make_block(low=-37 * STEP, step=STEP):
    """Return an inverted residual: its projection is quantized with an offset."""
    n = Network()
    value = quantize(n.x)
    first = quantize(n.convolve(value, kernel=1), low, step)
    expanded = quantize(
        n.convolve(first, 24, 1), np.zeros((1, 24, 1, 1)), STEP * 2.0 ** (np.arange(24) % 2)[:, None, None]
    )
    deep = quantize(n.convolve(expanded, groups=True))
    projected = quantize(n.convolve(deep, 8, 1), -20 * STEP)
    total = quantize(o.add(first, projected), -64 * STEP)
    return n, n.convolve(total, 5, 1)


@pytest.mark.parametrize("low", [0.0, -37 * STEP, -37.125 * STEP])
def test_inverted_residual_computes_in_levels(tmp_path, low):
    n, result = make_block(low)
    fast = compare(n.save(tmp_path, result))
    assert count_lowered(fast) == 5
    outputs = [i.outputs[0] for i in fast._fast_program.instructions if "in levels" in i.description]
    assert all(len(i.plain) > 2 for i in fast._fast_program.instructions if i.outputs[0] in outputs)


@pytest.mark.parametrize("failing", range(5))
@pytest.mark.falls_back
def test_original_instructions_run_between_conversions(tmp_path, monkeypatch, failing):
    n, result = make_block()
    path = n.save(tmp_path, result)
    expected = irrun.compile_model(path, optimize=False)(X).to_tuple()
    fast = irrun.compile_model(path, jit=False)
    calls = iter(range(100))
    compute = convolution.ConvolutionKernel.__call__

    def fail(self, *arguments):
        if next(calls) == failing:
            raise NoKernelError("test")
        return compute(self, *arguments)

    monkeypatch.setattr(convolution.ConvolutionKernel, "__call__", fail)
    for a, b in zip(fast(X).to_tuple(), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert next(calls) > 4


@pytest.mark.parametrize("case", ["result", "pool", "padded", "data", "product"])
def test_values_that_others_read_stay(tmp_path, case):
    n = Network()
    value = quantize(n.convolve(quantize(n.x), kernel=1), -37.125 * STEP if case == "padded" else 0.0)
    results = [n.convolve(value)]
    if case == "result":
        results.append(value)
    elif case == "pool":
        results.append(o.max_pool(value, [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]).output(0))
    elif case == "data":
        results.append(quantize(o.add(n.convolve(n.x, kernel=1), value), -64 * STEP))
    elif case == "product":
        results.append(o.multiply(value, o.constant(F32(3))))
    fast = compare(n.save(tmp_path, *results))
    assert count_lowered(fast) == 1


def test_convolutions_of_other_values_keep_the_definition(tmp_path):
    n = Network()
    assert count_lowered(compare(n.save(tmp_path, quantize(n.convolve(n.x))))) == 0


def test_weights_memory_limits_scaled_filters(tmp_path):
    n, result = make_block()
    path = n.save(tmp_path, result)
    assert count_lowered(compare(path, weights_memory=0)) == 0


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    n, result = make_block()
    path = n.save(tmp_path, result)
    x = np.random.default_rng(2).random(X.shape, F32) * 16
    results = [irrun.compile_model(path, jit=False, threads=threads)(x).to_tuple()[0] for threads in (1, 2, 4)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def list_conversions(compiled):
    """Return the names of the conversions to and from numbers of levels."""
    parts = [part for i in compiled._fast_program.instructions for part in i.plain]
    return sorted(
        type(part.kernel).__name__ for part in parts if type(part.kernel).__name__ in ("_Encoding", "_Decoding")
    )


@pytest.mark.parametrize(
    ("low", "padding", "is_read"), [(0.0, 1, True), (-37.125 * STEP, 0, True), (-37.125 * STEP, 1, False)]
)
def test_values_with_an_offset_are_not_read_as_levels_at_pads(tmp_path, low, padding, is_read):
    """Pads are zeros, which are not the number 0 of a level if there is an offset."""
    n = Network()
    value = quantize(n.convolve(quantize(n.x), kernel=1), low)
    fast = compare(n.save(tmp_path, n.convolve(value, padding=padding)))
    assert list_conversions(fast) == (["_Decoding", "_Encoding"] if is_read else [])


def test_values_that_are_not_quantized_are_added(tmp_path):
    n = Network()
    fast = compare(n.save(tmp_path, quantize(o.add(n.convolve(quantize(n.x), kernel=1), n.x), -64 * STEP)))
    assert count_lowered(fast) == 1
    assert list_conversions(fast) == []
