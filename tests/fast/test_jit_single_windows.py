"""Compiled convolutions with a single window agree with plain ones."""

import importlib.util

import numpy as np
import pytest

from irrun.ops.convolution.forward import group_convolution_1
from irrun.threads import use_threads

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("channels", "kernel"), [((48, 20), (1, 1)), ((7, 33), (3, 2)), ((1, 1), (1, 5))])
def test_single_windows_agree_with_the_plain_kernel(batch, channels, kernel):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    c_in, c_out = channels
    rng = np.random.default_rng(c_in)
    data = rng.normal(size=(batch, c_in, *kernel)).astype(np.float32)
    filters = rng.normal(size=(1, c_out, c_in, *kernel)).astype(np.float32)
    bias = rng.normal(size=(1, c_out, 1, 1)).astype(np.float32)
    residual = rng.normal(size=(batch, c_out, 1, 1)).astype(np.float32)
    scale = rng.uniform(0.5, 1, size=(1, 1, 1, 1)).astype(np.float32)
    attributes = {"strides": [2, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    steps = (Step("Add", (0, 1)), Step("Add", (4, 2)), Step("Multiply", (5, 3)))
    kernel = ConvolutionKernel(filters, attributes, steps, [bias, None, scale])
    results = []
    for count in (1, 2):
        with use_threads(count):
            results.append(kernel(data, residual))
    assert "one window" in kernel.description
    np.testing.assert_array_equal(results[0], results[1])
    plain = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    size = group_convolution_1(np.abs(data), np.abs(filters), **attributes) + np.abs(bias) + np.abs(residual)
    terms = filters[0, 0].size + 3
    assert results[0].shape == plain.shape
    assert np.all(np.abs(results[0] - (plain + bias + residual) * scale) <= terms * EPSILON * size)
