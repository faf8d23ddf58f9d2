"""Tiles of compiled convolutions: pixels that fill vectors, that do not, and sections that share copied rows."""

import importlib.util
import math
from typing import Any

import numpy as np
import pytest

from fast.harness import run_with_threads, use_lanes
from irrun.ops.convolution.forward import group_convolution_1

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps
WINDOWS = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}

#: Sizes of maps, and kernels, strides, input and output channels.
CASES = {
    "extras": ((7, 7), 1, 1, 20, 13),
    "extras of several tiles": ((10, 10), 1, 1, 9, 40),
    "more extras than tiles have": ((5, 11), 1, 1, 9, 8),
    "masked tiles": ((3, 5), 1, 1, 9, 8),
    "rows without columns between them": ((14, 14), 2, 2, 12, 16),
    "divided channels": ((14, 14), 1, 1, 64, 250),
    "copied rows of several sections": ((14, 14), 3, 2, 80, 240),
    "divided rows": ((56, 56), 3, 2, 16, 33),
    "planes in the same sets of the cache": ((128, 128), 1, 1, 4, 9),
    "rows in the same sets of the cache": ((256, 256), 2, 2, 3, 9),
    "several blocks": ((40, 45), 1, 1, 300, 9),
    **{
        f"random pointwise {i}": ((height, width), 1, 1, inner, outer)
        for i, (height, width, inner, outer) in enumerate(np.random.default_rng(0).integers(1, 70, (8, 4)).tolist())
    },
}


def convolve_case(name, convolve=lambda function: function()):
    """Check a convolution with a bias and a residual."""
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    size, kernel, stride, inner, outer = CASES[name]
    rng = np.random.default_rng(0)
    attributes = {**WINDOWS, "strides": [stride, stride]}
    data = rng.normal(size=(2 if kernel == 1 else 1, inner, *size)).astype(np.float32)
    filters = rng.normal(size=(1, outer, inner, kernel, kernel)).astype(np.float32)
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    bias = rng.normal(size=(1, outer, 1, 1)).astype(np.float32)
    residual = rng.normal(size=expected.shape).astype(np.float32)
    steps = (Step("Add", (0, 1)), Step("Add", (3, 2)))
    compiled = ConvolutionKernel(filters, attributes, steps, [bias, None])
    result = convolve(lambda: compiled(data, residual))
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes) + np.abs(bias) + np.abs(residual)
    assert np.all(np.abs(result - (expected + bias + residual)) <= (inner * kernel**2 + 2) * EPSILON * magnitude)


@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_plain_kernel(name):
    convolve_case(name, run_with_threads)


@pytest.mark.parametrize(("stride", "pads"), [(1, 0), (2, 0), (2, 3), (3, 1)])
@pytest.mark.parametrize("length", [7, 700, 2300])
def test_long_rows_are_divided_into_blocks(length, stride, pads):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(length)
    attributes = {"strides": [stride], "dilations": [2], "pads_begin": [pads], "pads_end": [pads]}
    data = rng.normal(size=(2, 160, length)).astype(np.float32)
    filters = rng.normal(size=(2, 13, 80, 3)).astype(np.float32)
    kernel = ConvolutionKernel(filters, attributes, (Step("Relu", (0,)),), [])
    result = run_with_threads(lambda: kernel(data))
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes)
    assert np.all(np.abs(result - np.maximum(expected, 0)) <= 242 * EPSILON * magnitude)


@pytest.mark.parametrize(("channels", "helpers"), [(1, 0), (3, 3)])
def test_rows_of_few_channels_are_copied_in_several_parts(channels, helpers):
    from irrun.fast.jit.convolution import DirectConvolution, Geometry
    from irrun.fast.jit.expressions import Expression

    rng = np.random.default_rng(channels)
    filters = rng.normal(size=(1, 64, channels, 7, 7)).astype(np.float32)
    data = rng.normal(size=(1, channels, 90, 112)).astype(np.float32)
    geometry = Geometry((90, 112), (7, 7), (2, 2), (1, 1), (3, 3), (3, 3))
    binding = DirectConvolution(filters).make_binding(1, geometry, Expression())
    assert len(binding.tasks) == 2
    assert binding.tasks[0].count_helpers(4) == helpers
    result = run_with_threads(lambda: binding.run([data]))
    attributes = {**WINDOWS, "strides": [2, 2], "pads_begin": [3, 3], "pads_end": [3, 3]}
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes)
    assert np.all(np.abs(result - expected) <= (49 * channels + 1) * EPSILON * magnitude)


def test_blocks_of_a_long_row_fit_into_the_cache():
    from irrun.fast.jit.convolution_plan import PANEL_SIZE, Geometry, Plan

    geometry = Geometry((1, 3199), (1, 3), (1, 2), (1, 1), (0, 0), (0, 0))
    plan = Plan(geometry, 512, 512, 1)
    assert plan.panel_size <= PANEL_SIZE
    assert [block.first for block in plan.blocks[1:]] == [block.last for block in plan.blocks[:-1]]
    assert (plan.blocks[0].first, plan.blocks[-1].last) == (0, 1599)


@pytest.mark.parametrize("count", [*range(1, 120), 196, 222, 400, 784, 3136])
def test_tiles_cover_all_pixels(count):
    from irrun.fast.jit.compiler import get_lanes
    from irrun.fast.jit.convolution_tiles import divide_pixels, get_tile

    starts, _, sizes = divide_pixels(count).T
    assert starts[0] == 0
    np.testing.assert_array_equal(starts[1:], np.cumsum(sizes)[:-1])
    assert sizes.sum() == count
    lanes, (_, vectors) = get_lanes(), get_tile()
    assert len(sizes) <= math.ceil(math.ceil(count / lanes) / vectors) + 1


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lanes", [4, 8])
def test_tiles_of_narrower_vectors_agree(lanes, name):
    with use_lanes(lanes):
        convolve_case(name)


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("lanes", [4, 8])
def test_depthwise_convolutions_with_narrower_vectors_agree(lanes, number):
    with use_lanes(lanes):
        test_depthwise_convolutions_of_random_shapes_agree_with_the_plain_kernel(number)
        if number < 4:
            test_depthwise_rows_agree_with_the_plain_kernel((1, 6, 13, 22)[number], 1 + number % 2)
        elif number < 10:
            columns = (1, 3, 4, 7, 8, 9)[number - 4]
            test_depthwise_rows_of_one_vector_agree_with_the_plain_kernel(columns, 1, 3)


@pytest.mark.parametrize("rows", [1, 6, 7, 8, 13, 21])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_rows_agree_with_the_plain_kernel(rows, stride):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(rows)
    data = rng.normal(size=(2, 9, rows * stride, 19)).astype(np.float32)
    filters = rng.normal(size=(9, 1, 1, 5, 5)).astype(np.float32)
    residual = rng.normal(size=(2, 9, rows, (19 - 1) // stride + 1)).astype(np.float32)
    attributes = {**WINDOWS, "strides": [stride, stride], "pads_begin": [2, 2], "pads_end": [2, 2]}
    kernel = ConvolutionKernel(filters, attributes, (Step("Add", (0, 1)),), [None])
    result = run_with_threads(lambda: kernel(data, residual))
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes) + residual
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes) + np.abs(residual)
    assert np.all(np.abs(result - expected) <= 26 * EPSILON * magnitude)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize(("stride", "size"), [(1, 3), (2, 5)])
def test_depthwise_rows_of_one_vector_agree_with_the_plain_kernel(columns, stride, size):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(columns)
    data = rng.normal(size=(2, 5, 7 * stride, columns * stride)).astype(np.float32)
    filters = rng.normal(size=(5, 1, 1, size, size)).astype(np.float32)
    pads = [size // 2, size // 2]
    attributes = {**WINDOWS, "strides": [stride, stride], "pads_begin": pads, "pads_end": pads}
    kernel = ConvolutionKernel(filters, attributes, (Step("Relu", (0,)),), [])
    result = run_with_threads(lambda: kernel(data))
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes)
    assert result.shape == (2, 5, 7, columns)
    assert np.all(np.abs(result - np.maximum(expected, 0)) <= (size**2 + 1) * EPSILON * magnitude)


@pytest.mark.parametrize("seed", range(12))
def test_depthwise_convolutions_of_random_shapes_agree_with_the_plain_kernel(seed):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(seed)
    size, dilations, pads = rng.integers(1, 6, 2), rng.integers(1, 3, 2), rng.integers(0, 4, (2, 2))
    strides = [int(rng.integers(1, 4)), 1 + seed % 2]
    height, width = rng.integers((1, 20), (12, 90)) + (size - 1) * dilations
    data = rng.normal(size=(2, 5, height, width)).astype(np.float32)
    filters = rng.normal(size=(5, 1, 1, *size)).astype(np.float32)
    bias = rng.normal(size=(1, 5, 1, 1)).astype(np.float32)
    names = ("dilations", "pads_begin", "pads_end")
    attributes = {"strides": strides, **{k: v.tolist() for k, v in zip(names, (dilations, *pads), strict=True)}}
    expected: Any = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    residual = rng.normal(size=expected.shape).astype(np.float32)
    kernel = ConvolutionKernel(filters, attributes, (Step("Add", (0, 1)), Step("Add", (3, 2))), [bias, None])
    result = run_with_threads(lambda: kernel(data, residual))
    magnitude = group_convolution_1(np.abs(data), np.abs(filters), **attributes) + np.abs(bias) + np.abs(residual)
    assert np.all(np.abs(result - (expected + bias + residual)) <= (size.prod() + 3) * EPSILON * magnitude)


#: Steps after a bias (operand 1) and perhaps a residual (operand 2): values are the sum, the operands, and the steps.
AFFINE_STEPS: dict[str, list[tuple[Any, ...]]] = {
    "bias": [("Add", (0, 1))],
    "bias, Relu": [("Add", (0, 1)), ("Relu", (2,))],
    "bias, Clamp": [("Add", (1, 0)), ("Clamp", (2,), (-0.5, 0.75))],
    "bias, residual": [("Add", (0, 1)), ("Add", (2, 3))],
    "bias, residual, Relu": [("Add", (0, 1)), ("Add", (3, 2)), ("Relu", (4,))],
}


@pytest.mark.parametrize("name", AFFINE_STEPS)
@pytest.mark.parametrize("size", [(7, 7), (10, 10), (5, 11), (14, 14), (20, 20)])
@pytest.mark.parametrize("channels", [16, 21])
def test_affine_epilogues_have_the_bits_of_others(name, size, channels, monkeypatch):
    from irrun.fast.jit import convolution
    from irrun.fast.jit.affine import find_affine_epilogue
    from irrun.fast.jit.expressions import Expression, Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(channels)
    data = rng.normal(size=(2, 6, *size)).astype(np.float32)
    data.reshape(-1)[rng.integers(data.size, size=20)] = np.resize([np.nan, np.inf, -np.inf, -0.0, 1e30], 20)
    filters = rng.normal(size=(1, channels, 6, 1, 1)).astype(np.float32)
    bias = rng.normal(size=(1, channels, 1, 1)).astype(np.float32)
    residual = rng.normal(size=(2, channels, *size)).astype(np.float32)
    has_residual = "residual" in name
    steps = tuple(Step(*step) for step in AFFINE_STEPS[name])
    assert find_affine_epilogue(Expression(("channel", "full")[: 1 + has_residual], steps)) is not None
    results = []
    for is_affine in (True, False):
        if not is_affine:
            monkeypatch.setattr(convolution, "find_affine_epilogue", lambda expression: None)
        kernel = ConvolutionKernel(filters, WINDOWS, steps, [bias, None] if has_residual else [bias])
        inputs = [data, residual] if has_residual else [data]
        results.append(run_with_threads(lambda kernel=kernel, inputs=inputs: kernel(*inputs)))
    np.testing.assert_array_equal(*results)
    is_number = ~np.isnan(results[0])
    np.testing.assert_array_equal(*(np.signbit(result[is_number]) for result in results))


@pytest.mark.parametrize(
    ("kinds", "steps"),
    [
        ((), ()),
        (("full",), (("Add", (0, 1)),)),
        (("channel",), (("Multiply", (0, 1)),)),
        (("channel",), (("Add", (0, 1)), ("Swish", (2,)))),
        (("channel",), (("Add", (0, 1)), ("Relu", (0,)))),
        (("channel",), (("Add", (0, 1)), ("Relu", (2,)), ("Relu", (3,)))),
        (("channel", "full"), (("Add", (0, 1)),)),
        (("channel", "full"), (("Add", (0, 1)), ("Relu", (3,)), ("Add", (4, 2)))),
        (("channel", "channel"), (("Add", (0, 1)), ("Add", (3, 2)))),
    ],
)
def test_other_epilogues_are_not_affine(kinds, steps):
    from irrun.fast.jit.affine import find_affine_epilogue
    from irrun.fast.jit.expressions import Expression, Step

    assert find_affine_epilogue(Expression(kinds, tuple(Step(*step) for step in steps))) is None


@pytest.mark.parametrize(("inner", "outer"), [(32, 192), (192, 32), (96, 96)])
def test_parts_of_pointwise_convolutions_are_ordered_by_channels_if_they_add_channels(monkeypatch, inner, outer):
    """Others are ordered by pixels, as all convolutions of several images."""
    from irrun.fast.jit import convolution
    from irrun.fast.jit.convolution_plan import Plan

    recorded = []

    class Recorder:
        def __init__(self, parts, size):
            recorded.extend(part[0] for part in parts)

        def keep(self, *arrays):
            """Ignore the arrays."""

    def multiply(self, plan, block, panel, index, section, epilogue, affine):
        return (index, section, block.first)

    monkeypatch.setattr(convolution, "Task", Recorder)
    monkeypatch.setattr(convolution.DirectConvolution, "_multiply", multiply)
    geometry = convolution.Geometry((112, 112), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0))
    product = convolution.DirectConvolution(np.ones((1, outer, inner, 1, 1), np.float32))
    plan = Plan(geometry, inner, outer, 1)
    monkeypatch.setattr(plan, "sections", [(0, 16), (16, outer)])
    product._make_tasks(1, plan, 0, None)
    assert len(recorded) == 2 * len(plan.ranges) > 2
    by_pixels = sorted(recorded, key=lambda part: part[2])
    assert recorded == (sorted(recorded) if outer > inner else by_pixels)
    assert sorted(recorded) != by_pixels
