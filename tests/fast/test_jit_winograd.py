"""Compiled convolutions by Winograd's algorithm agree with plain ones within the rounding of their transforms."""

import importlib.util

import numpy as np
import pytest

from fast.harness import run_with_threads
from irrun.fast.packing import PackedMemory
from irrun.ops.convolution.forward import group_convolution_1
from irrun.threads import use_threads

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

#: The unit roundoff of f32.
ROUNDOFF = np.finfo(np.float32).eps / 2


def make_matrices(size):
    """Return the matrices that transform data, filters and products, derived from the points of interpolation."""
    from irrun.fast.jit.winograd import make_filter_matrix
    from irrun.fast.jit.winograd_kernels import POINTS

    points = [0.0, *(sign * p for p in POINTS[size] for sign in (1, -1))]
    powers = np.array([[p**i for p in points] + [float(i == size - 1)] for i in range(size)])
    filters = make_filter_matrix(size)
    # The transform of data follows from the others: the results of all unit data and filters must be those of windows.
    count = size + 2
    system = np.einsum("ip,pk->ikp", powers, filters).reshape(-1, count)
    windows = np.array([[[float(j == i + k) for j in range(count)] for k in range(3)] for i in range(size)])
    data, residuals, *_ = np.linalg.lstsq(system, windows.reshape(-1, count), rcond=None)
    assert np.all(residuals < 1e-20)
    return data, filters, powers


def bound_errors(data, filters, geometry, size):
    """Return a bound of the rounding errors of each result for data [CI, H, W] and filters [CO, CI, 3, 3].

    The errors of sums of products are at most as many units of the last place of the sum of absolute values as there
    are roundings on the way of a term: of the filter, of the transform of the data, of the sum and of its transform.
    """
    data_matrix, filter_matrix, result_matrix = map(np.abs, make_matrices(size))
    height, width = geometry.output
    rows, columns = -(-height // size), -(-width // size)
    padded = np.zeros((len(data), rows * size + 2, columns * size + 2))
    (top, left), (h, w) = geometry.pads_begin, geometry.size
    bottom, right = min(h, padded.shape[1] - top), min(w, padded.shape[2] - left)
    section = np.abs(data[:, max(-top, 0) : bottom, max(-left, 0) : right])
    padded[:, max(top, 0) : bottom + top, max(left, 0) : right + left] = section
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size + 2, size + 2), (1, 2))[:, ::size, ::size]
    transformed = np.einsum("pi,qj,cyxij->cyxpq", data_matrix, data_matrix, windows)
    weights = np.einsum("pi,qj,ocij->ocpq", filter_matrix, filter_matrix, np.abs(filters))
    products = np.einsum("ocpq,cyxpq->oyxpq", weights, transformed)
    results = np.einsum("ip,jq,oyxpq->oyixj", result_matrix, result_matrix, products)
    roundings = 1 + 2 * 3 + len(data) + 2 * 4
    return roundings * ROUNDOFF * results.reshape(len(filters), rows * size, columns * size)[:, :height, :width]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("channels", "shape", "pads"),
    [
        ((16, 16), (4, 4), (1, 1)),
        ((20, 23), (9, 11), (1, 1)),
        ((33, 65), (7, 21), (0, 2)),
        ((5, 3), (13, 40), (2, 3)),
        ((16, 96), (18, 9), (-1, -2)),
        ((64, 112), (14, 14), (1, 1)),
    ],
)
def test_winograd_agrees_with_the_plain_kernel(size, channels, shape, pads, monkeypatch):
    from irrun.fast.jit import winograd
    from irrun.fast.jit.convolution import Geometry
    from irrun.fast.jit.expressions import Expression, Step

    monkeypatch.setattr(winograd, "BLOCK_SIZE", 1 << 12)
    monkeypatch.setattr(winograd, "MIN_BLOCK_TILES", 5)
    monkeypatch.setattr(winograd, "MIN_PART_WORK", 1 << 16)
    c_in, c_out = channels
    rng = np.random.default_rng(c_in)
    data = rng.normal(size=(2, 2 * c_in, *shape)).astype(np.float32)
    filters = rng.normal(size=(2, c_out, c_in, 3, 3)).astype(np.float32)
    bias = rng.normal(size=(2, 2 * c_out, 1, 1)).astype(np.float32)
    geometry = Geometry(shape, (3, 3), (1, 1), (1, 1), pads, (1, 0))
    residual = rng.normal(size=(2, 2 * c_out, *geometry.output)).astype(np.float32)
    expression = Expression(("channel", "full"), (Step("Add", (0, 1)), Step("Add", (3, 2))))
    binding = winograd.WinogradConvolution(filters, size).make_binding(2, geometry, expression, [(1, 0), (2, 0)])
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(binding.run([data, bias, residual]))
    assert all(np.array_equal(results[0], other) for other in results[1:])
    attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [*pads], "pads_end": [1, 0]}
    plain = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    expected = plain + bias + residual
    for image in range(2):
        for group in range(2):
            inputs, outputs = slice(group * c_in, (group + 1) * c_in), slice(group * c_out, (group + 1) * c_out)
            bound = bound_errors(data[image, inputs], filters[group], geometry, size)
            bound += 3 * ROUNDOFF * (np.abs(expected) + np.abs(bias) + np.abs(residual))[image, outputs]
            errors = np.abs(results[0] - expected)[image, outputs]
            assert np.all(errors <= bound)


@pytest.mark.parametrize(
    ("channels", "length", "parts"),
    [((16, 64), 75, [4]), ((480, 8), 16, [2, 2, 1]), ((16, 8), 20, [1]), ((16, 16), 600, None)],
    ids=["blocks", "positions", "one part", "large"],
)
def test_parts_are_blocks_of_small_filters_and_positions_of_few_channels(channels, length, parts):
    from irrun.fast.jit.convolution import Geometry
    from irrun.fast.jit.expressions import Expression
    from irrun.fast.jit.winograd import WinogradConvolution

    c_in, c_out = channels
    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, c_in, length, length)).astype(np.float32)
    filters = rng.normal(size=(1, c_out, c_in, 3, 3)).astype(np.float32)
    geometry = Geometry((length, length), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    binding = WinogradConvolution(filters, 4).make_binding(1, geometry, Expression())
    counts = [task.count_helpers(1000) + 1 for task in binding.tasks]
    assert counts == parts or (parts is None and len(counts) == 1 and counts[0] > 8)
    result = run_with_threads(lambda: binding.run([data]))
    plain = group_convolution_1(
        data.astype(np.float64),
        filters.astype(np.float64),
        strides=[1, 1],
        dilations=[1, 1],
        pads_begin=[1, 1],
        pads_end=[1, 1],
    )
    assert np.all(np.abs(result - plain)[0] <= bound_errors(data[0], filters[0], geometry, 4))


def test_winograd_is_exact_for_a_single_nonzero_tap():
    from irrun.fast.jit.convolution import Geometry
    from irrun.fast.jit.expressions import Expression
    from irrun.fast.jit.winograd import WinogradConvolution

    data = np.arange(2 * 6 * 8, dtype=np.float32).reshape(1, 2, 6, 8)
    geometry = Geometry((6, 8), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    for y in range(3):
        for x in range(3):
            filters = np.zeros((1, 1, 2, 3, 3), np.float32)
            filters[0, 0, 1, y, x] = 4
            binding = WinogradConvolution(filters, 2).make_binding(1, geometry, Expression())
            expected = 4 * np.pad(data[0, 1], 1)[y : y + 6, x : x + 8]
            np.testing.assert_array_equal(binding.run([data])[0, 0], expected)


def test_weights_beyond_the_limit_are_not_transformed():
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, 16, 20, 20)).astype(np.float32)
    filters = rng.normal(size=(1, 32, 16, 3, 3)).astype(np.float32)
    attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    transformed_size = 36 * 16 * 32 * 4
    results = []
    for limit, used, name in (
        (transformed_size, transformed_size, "Winograd F(4x4, 3x3)"),
        (transformed_size - 1, filters.nbytes, "padded rows"),
    ):
        packed = PackedMemory(limit)
        kernel = ConvolutionKernel(filters, attributes, (), [], packed)
        results.append(kernel(data))
        assert name in kernel.description
        assert packed.used == used
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("output", "channels", "expected"),
    [((56, 56), (64, 64), 4), ((7, 7), (512, 512), 2), ((56, 56), (3, 64), 0), ((1, 1), (64, 64), 0)],
)
def test_size_of_tiles_is_chosen_by_the_shapes(output, channels, expected):
    from irrun.fast.jit.convolution import Geometry
    from irrun.fast.jit.winograd import choose_size

    assert choose_size(Geometry(output, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), *channels) == expected
    assert choose_size(Geometry((99, 99), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)), 64, 64) == 0
