"""Compiled products: panels of any number of columns, and parts that cover all rows and columns."""

import importlib.util
import itertools

import numpy as np
import pytest

from fast.harness import run_with_threads, use_lanes

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps
#: Rows, inner size and columns.
SHAPES = [
    (256, 160, 160),  # three panels of 48 columns
    (1100, 64, 32),  # one panel
    (97, 300, 257),
    *map(tuple, np.random.default_rng(0).integers(1, 200, (8, 3)).tolist()),
]


def multiply(shape, run=lambda function: function()):
    """Check a product with a bias and a residual."""
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.product_kernels import ProductKernel

    count, inner, columns = shape
    rng = np.random.default_rng(sum(shape))
    data, weights, bias, residual = (
        rng.normal(size=size).astype(np.float32)
        for size in ((count, inner), (inner, columns), columns, (count, columns))
    )
    kernel = ProductKernel(2, weights, (Step("Add", (0, 1)), Step("Add", (3, 2))), [bias, None])
    result = run(lambda: kernel(data, residual))
    expected = data.astype(np.float64) @ weights + bias + residual
    magnitude = np.abs(data) @ np.abs(weights) + np.abs(bias) + np.abs(residual)
    assert np.all(np.abs(result - expected) <= (inner + 2) * EPSILON * magnitude)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_agree_with_exact_ones(shape):
    multiply(shape, run_with_threads)


@pytest.mark.parametrize("lanes", [4, 8])
def test_products_with_narrower_vectors_agree(lanes):
    with use_lanes(lanes):
        for shape in SHAPES:
            multiply(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_cover_all_rows_and_columns(shape):
    from irrun.fast.jit.compiler import get_lanes
    from irrun.fast.jit.products import _divide, divide_columns, get_tile

    count, inner, columns = shape
    blocks, sections = _divide(count, inner, columns, get_tile()[1] * get_lanes())
    for parts, total in ((blocks, count), (sections, columns)):
        assert (parts[0][0], parts[-1][1]) == (0, total)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
    assert {first for first, _ in sections} <= {start for start, _ in divide_columns(columns)}


@pytest.mark.parametrize("channels", [16, 48, 64, 80, 128, 250, 256, 512])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16])
def test_sections_of_winograds_algorithm_are_whole_panels(channels, count):
    from irrun.fast.jit.products import divide_columns
    from irrun.fast.jit.winograd import _divide_panels

    sections = _divide_panels(channels, count)
    assert (sections[0][0], sections[-1][1]) == (0, channels)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(sections))
    starts = [start for start, _ in divide_columns(channels)]
    panels = [sum(first <= start < last for start in starts) for first, last in sections]
    assert set(panels) == {panels[0]}
