"""Elementwise operations that are fused: constant factors of convolutions, and what computes other operations."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.fast.convolution import ConvolutionKernel, _split_scale
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.fused import FusedKernel, fuse
from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import CallSite
from irrun.ops._support.autoload import load_kernels
from irrun.ops._support.registry import find

RUNNING, CONSTANT = Operand("input", 0), Operand("constant", 0)
FACTORS = np.array([2.0, 3.0, 5.0, 7.0], np.float32)


def split(constant, *steps, name="Convolution", filters=(4, 3, 2, 2), inputs=1):
    """Return the factor of each channel, and the steps that are left; "unchanged" for the whole chain."""
    load_kernels(name)
    operation = find(name, "opset1")
    assert operation is not None
    site = CallSite(operation, {}, (None, np.ones(filters, np.float32)), (False, False), 1)
    steps = steps or (Step("Multiply", (RUNNING, CONSTANT)),)
    chain = ElementwiseChain(steps, inputs, (np.asarray(constant, np.float32),))
    scale, rest = _split_scale(chain, site)
    return scale, "unchanged" if rest is chain else None if rest is None else rest.steps


@pytest.mark.parametrize(
    "factors",
    [FACTORS.reshape(1, 4, 1, 1), FACTORS.reshape(4, 1, 1), np.float32(3), np.full((1, 1), 3, np.float32)],
    ids=["1x4x1x1", "4x1x1", "scalar", "1x1"],
)
def test_factors_of_channels_are_split_off(factors):
    scale, rest = split(factors)
    np.testing.assert_array_equal(scale, np.broadcast_to(factors.reshape(-1), 4))
    assert rest is None
    assert split(factors, Step("Multiply", (CONSTANT, RUNNING)))[1] is None


@pytest.mark.parametrize(
    "factors",
    [
        np.ones((1, 1, 1, 2)),
        np.ones((1, 1, 4, 1)),
        np.ones((2, 4, 1, 1)),
        np.ones((1, 3, 1, 1)),
        np.ones((1, 4, 2, 2)),
        np.ones(4),
        np.ones((1, 1, 4, 1, 1)),
        np.array([1, 2, np.inf, 3]).reshape(1, 4, 1, 1),
        np.nan,
    ],
    ids=lambda factors: "x".join(map(str, np.shape(factors))),
)
def test_other_factors_are_not(factors):
    assert split(factors) == (None, "unchanged")


def test_groups_have_factors_for_each_output_channel():
    factors = np.arange(1.0, 7.0).reshape(6, 1, 1)
    scale, rest = split(factors, name="GroupConvolution", filters=(2, 3, 4, 1, 1))
    np.testing.assert_array_equal(scale, factors.reshape(-1))
    assert rest is None
    assert split(factors[:3], name="GroupConvolution", filters=(2, 3, 4, 1, 1)) == (None, "unchanged")
    assert split(factors.reshape(1, 6, 1), name="Convolution", filters=(6, 3, 2))[1] is None


@pytest.mark.parametrize(
    "steps",
    [
        [Step("Add", (RUNNING, CONSTANT))],
        [Step("Multiply", (RUNNING, Operand("input", 1)))],
        [Step("Multiply", (CONSTANT, Operand("input", 1)))],
        [Step("Multiply", (RUNNING, CONSTANT)), Step("Add", (Operand("step", 0), RUNNING))],
    ],
    ids=["sum", "variable factor", "other product", "value is used again"],
)
def test_factors_of_other_chains_stay(steps):
    assert split(3.0, *steps, inputs=2) == (None, "unchanged")


def test_remaining_steps_start_with_the_scaled_result():
    first, second = Operand("step", 0), Operand("step", 1)
    steps = Step("Relu", (first,)), Step("Add", (second, first)), Step("Add", (Operand("step", 2), CONSTANT))
    scale, rest = split(3.0, Step("Multiply", (RUNNING, CONSTANT)), *steps)
    np.testing.assert_array_equal(scale, [3, 3, 3, 3])
    assert rest == (
        Step("Relu", (RUNNING,)),
        Step("Add", (first, RUNNING)),
        Step("Add", (second, CONSTANT)),
    )


def test_operations_are_specialized_before_fused_steps():
    chain = ElementwiseChain((Step("Relu", (RUNNING,)),))
    data = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    for name, constants, attributes, is_specialized in (
        ("ReduceMean", (None, np.array([1])), {"keep_dims": False}, True),
        ("Roll", (None, np.array([1]), np.array([0])), {}, False),
    ):
        load_kernels(name)
        operation = find(name, "opset7")
        assert operation is not None
        site = CallSite(operation, attributes, constants, (False,) * len(constants), 1)
        kernel = fuse(site, chain)
        assert isinstance(kernel, FusedKernel)
        assert (kernel.kernel != site.call_plain) == is_specialized
        expected = np.maximum(operation.kernel(data, *constants[1:], **attributes), 0)
        np.testing.assert_allclose(kernel(data), expected, rtol=1e-6, atol=1e-6)


def test_scaled_filters_count_and_their_originals_are_released():
    load_kernels("Convolution")
    releases = []
    filters = np.ones((4, 3, 2, 2), np.float32)
    windows = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    for constant, size in ((FACTORS.reshape(4, 1, 1), filters.nbytes), (np.ones((1, 1, 1, 2), np.float32), 0)):
        memory = PackedMemory(1 << 20, releases.append)
        site = CallSite(find("Convolution", "opset1"), windows, (None, filters), (False, False), 1, memory)
        chain = ElementwiseChain((Step("Multiply", (RUNNING, CONSTANT)),), 1, (constant,))
        kernel = fuse(site, chain)
        assert isinstance(kernel, ConvolutionKernel)
        assert memory.used == size
        assert (kernel.chain is None) == bool(size)
        np.testing.assert_array_equal(kernel.filters[0], filters * constant.reshape(-1, 1, 1, 1) if size else filters)
    assert len(releases) == 1
    assert np.shares_memory(releases[0], filters)
