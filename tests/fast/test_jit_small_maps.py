"""Compiled pointwise convolutions of small maps agree with the plain kernel."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from fast.harness import run_with_threads
from fast.test_jit_convolution import EPSILON, WINDOWS
from irrun.ops.convolution.forward import group_convolution_1

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]


def make_geometry(*size, strides=(1, 1), kernel=(1, 1)):
    from irrun.fast.jit.convolution_plan import Geometry

    return Geometry(size, kernel, strides, (1, 1), (0, 0), (0, 0))


def convolve(data, filters, bias, residual, strides=(1, 1)):
    """Return the convolution with a bias, a residual and Relu."""
    from irrun.fast.jit.addresses import get_address
    from irrun.fast.jit.bindings import CONSTANT
    from irrun.fast.jit.expressions import Expression, Step
    from irrun.fast.jit.small_maps import SmallMapConvolution

    steps = (Step("Add", (0, 1)), Step("Add", (2, 3)), Step("Relu", (4,)))
    operands = [(CONSTANT, get_address(bias)), (1, 0)]
    convolution = SmallMapConvolution(filters)
    geometry = make_geometry(*data.shape[2:], strides=strides)
    binding = convolution.make_binding(len(data), geometry, Expression(("channel", "full"), steps), operands)
    return run_with_threads(lambda: binding.run([data, residual]))


@pytest.mark.parametrize("seed", range(24))
def test_small_maps_agree_with_the_plain_kernel(seed, monkeypatch):
    from irrun.fast.jit import small_maps

    monkeypatch.setattr(small_maps, "MIN_PART_WORK", 1 << 8)
    monkeypatch.setattr(small_maps, "MIN_COPIED_SIZE", 1 << 6)
    rng = np.random.default_rng(seed)
    height, width = [(7, 7), (5, 5), (1, 5), (3, 2), (2, 5), (3, 11), (1, 17), (9, 7)][seed % 8]
    batch, out_channels, in_channels = rng.integers(1, (4, 120, 140)).tolist()
    strides = (1 + seed % 2, 1 + seed % 3)
    height, width = (stride * n - int(rng.integers(stride)) for n, stride in zip((height, width), strides, strict=True))
    windows = {**WINDOWS, "strides": [*strides]}
    data = rng.normal(size=(batch, in_channels, height, width)).astype(np.float32)
    filters = rng.normal(size=(1, out_channels, in_channels, 1, 1)).astype(np.float32)
    bias = rng.normal(size=(batch, out_channels, 1, 1)).astype(np.float32)
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **windows)
    residual = rng.normal(size=expected.shape).astype(np.float32)
    result = convolve(data, filters, bias, residual, strides)
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **windows) + np.abs(bias) + np.abs(residual)
    error = np.abs(result - np.maximum(expected + bias + residual, 0))
    assert np.all(error <= (in_channels + 2) * EPSILON * magnitude)


@pytest.mark.parametrize("count", [5, 6, 10, 11, 12, *range(15, 19), *range(20, 130)])
def test_tiles_cover_the_map(count):
    from irrun.fast.jit.small_maps import SIZES, divide_map

    tiles = divide_map(count)
    assert [a for a, _ in tiles] == [0, *[b for _, b in tiles[:-1]]]
    assert tiles[-1][1] == count
    assert {b - a for a, b in tiles} <= {*SIZES}


@pytest.mark.parametrize(
    ("lanes", "size", "filters", "is_used"),
    [
        (8, (7, 7), (1, 160, 960, 1, 1), True),
        (8, (7, 7), (1, 1000, 96, 1, 1), True),
        (8, (5, 5), (1, 160, 960, 1, 1), True),
        (16, (7, 7), (1, 160, 960, 1, 1), False),
        (4, (7, 7), (1, 160, 960, 1, 1), False),
        (8, (8, 8), (1, 160, 960, 1, 1), False),
        (8, (14, 14), (1, 160, 960, 1, 1), False),
        (8, (3, 3), (1, 160, 960, 1, 1), False),
        (8, (7, 7), (1, 160, 95, 1, 1), False),
        (8, (7, 7), (1, 40, 960, 1, 1), False),
        (8, (7, 7), (2, 160, 960, 1, 1), False),
    ],
)
def test_small_maps_leave_lanes_of_pixels_empty(lanes, size, filters, is_used, monkeypatch):
    from irrun.fast.jit import small_maps

    monkeypatch.setattr(small_maps, "get_lanes", lambda: lanes)
    assert small_maps.has_small_map(make_geometry(*size), filters) == is_used


def test_small_maps_may_have_strides_but_no_windows(monkeypatch):
    from irrun.fast.jit import small_maps

    monkeypatch.setattr(small_maps, "get_lanes", lambda: small_maps.LANES)
    assert small_maps.has_small_map(make_geometry(14, 13, strides=(2, 2)), (1, 160, 960, 1, 1))
    assert not small_maps.has_small_map(make_geometry(9, 9, kernel=(3, 3)), (1, 160, 960, 3, 3))


def test_convolutions_of_small_maps_are_products_of_channels(monkeypatch):
    from irrun.fast.jit import small_maps
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, 96, 7, 7)).astype(np.float32)
    filters = rng.normal(size=(1, 48, 96, 1, 1)).astype(np.float32)
    bias = rng.normal(size=(1, 48, 1, 1)).astype(np.float32)
    monkeypatch.setattr(small_maps, "get_lanes", lambda: small_maps.LANES)
    kernel = ConvolutionKernel(filters, WINDOWS, (Step("Add", (0, 1)), Step("Relu", (2,))), [bias])
    result = kernel(data)
    assert "vectors of channels" in kernel.description
    np.testing.assert_array_equal(result, convolve(data, filters, bias, np.zeros((1, 48, 7, 7), np.float32)))
