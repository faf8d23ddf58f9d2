"""Products with constant weights that are divided into panels, on all processors."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest

from fast.harness import check, find_operation, make_floats
from irrun import blas
from irrun.fast import panels
from irrun.fast.matrix import PanelKernel
from irrun.fast.packing import PackedMemory
from irrun.fast.panels import (
    MAX_MULTIPLICATIONS,
    MAX_VIEWED_BYTES,
    MIN_WHOLE_ROWS,
    make_panel_product,
    multiply_in_blocks,
)
from irrun.fast.specialization import CallSite, specialize
from irrun.threads import use_threads

#: Shapes [K, N] of weights: views and copies, with and without columns that fill no panel, wide and narrow panels.
SHAPES = [
    (1, 64),
    (3, 65),
    (96, 384),
    (200, 1000),
    (384, 768),
    (600, 700),
    (512, 513),
    (1024, 70),
    (1025, 80),
    (3906, 70),
    (7812, 70),
]


@pytest.fixture(autouse=True)
def use_panels(monkeypatch):
    """Divide products into panels whatever the processor is, and do not share those of other tests."""
    monkeypatch.setattr(panels, "has_small_kernels", lambda: True)
    monkeypatch.setattr(panels, "_products", {})


def make_weights(shape, is_transposed=False):
    """Return weights [K, N], stored as [N, K] if they are transposed."""
    return make_floats(shape[::-1], 2, 0.05).T if is_transposed else make_floats(shape, 2, 0.05)


def set_negatives_to_zero(part, *_):
    np.maximum(part, 0, out=part)


def assert_is_product(actual, rows, weights):
    """Compare with the product in f64, within the rounding of sums of K terms in any order."""
    exact = rows.astype(np.float64) @ weights.astype(np.float64)
    bound = np.abs(rows).astype(np.float64) @ np.abs(weights).astype(np.float64)
    assert actual.dtype == np.float32
    assert actual.shape == exact.shape
    assert (np.abs(actual - exact) <= (rows.shape[1] + 1) * 2.0**-23 * bound + 1e-30).all()


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_exact_within_rounding(shape, is_transposed):
    weights = make_weights(shape, is_transposed)
    product = make_panel_product(weights, PackedMemory(1 << 30))
    assert product.shape == shape
    for rows in (1, 2, 5, 49, 300):
        values = make_floats((rows, shape[0]), rows)
        assert_is_product(product.multiply(values), values, weights)


@pytest.mark.parametrize("rows", [1, 3, 40, 41, 170, 400, 2500])
@pytest.mark.parametrize("shape", [(96, 200), (384, 700), (768, 384)], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(shape, rows):
    product = make_panel_product(make_weights(shape, True), PackedMemory(1 << 30))
    values, results = make_floats((rows, shape[0]), 1), []
    for count in (1, 2, 4):
        with use_threads(count):
            results += [product.multiply(values), product.multiply(values, set_negatives_to_zero)]
    assert_is_product(results[0], values, make_weights(shape, True))
    for number, result in enumerate(results[2:]):
        np.testing.assert_array_equal(result, results[number % 2])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("rows", "shape"), [(49, (768, 3072)), (3000, (96, 384)), (500, (300, 1000)), (1, (64, 64))], ids=str
)
def test_each_part_is_finished_once(rows, shape, count):
    weights = make_weights(shape)
    product = make_panel_product(weights, PackedMemory(1 << 30))
    values, offset = make_floats((rows, shape[0]), 1), make_floats((rows, shape[1]), 3)

    def add_offset(part, lines, columns):
        part += offset[lines, columns]

    with use_threads(count):
        actual = product.multiply(values, add_offset)
        np.testing.assert_array_equal(actual, product.multiply(values, lambda *_: None) + offset)


@pytest.mark.parametrize("shape", [(600, 700), (96, 384)], ids=str)
@pytest.mark.parametrize("rows", [2, 300])
def test_layout_of_the_rows_does_not_matter(shape, rows):
    product = make_panel_product(make_weights(shape), PackedMemory(1 << 30))
    values = make_floats((rows, shape[0]), 1)
    expected = product.multiply(values)
    wide = np.zeros((rows, shape[0] + 3), np.float32)
    wide[:, 2:-1] = values
    reverse = np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1]
    raw = np.empty(values.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(values.shape)
    unaligned[...] = values
    for other in (wide[:, 2:-1], np.asfortranarray(values), reverse, unaligned):
        assert_is_product(product.multiply(other), values, make_weights(shape))
        if rows > 2:
            np.testing.assert_array_equal(product.multiply(other), expected)


def test_no_block_exceeds_what_blas_multiplies_without_copies(monkeypatch):
    sizes, largest = [], 0
    matmul = np.matmul

    def record_sizes(a, b, out):
        size = a.shape[-2] * a.shape[-1] * b.shape[-1]
        sizes.extend([size] * math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])))
        return matmul(a, b, out=out)

    products = {shape: make_panel_product(make_weights(shape), PackedMemory(1 << 30)) for shape in SHAPES[2:]}
    left, right, out = make_floats((140, 4608)), make_floats((4608, 40)), np.empty((140, 40), np.float32)
    monkeypatch.setattr(np, "matmul", record_sizes)

    def check_sizes(size):
        nonlocal largest
        if size > MAX_MULTIPLICATIONS:  # smaller products may be computed by another function
            assert sum(sizes) == size
        largest = max(largest, *sizes, 0)
        sizes.clear()

    for shape, product in products.items():
        for rows in (1, 17, MIN_WHOLE_ROWS - 1, MIN_WHOLE_ROWS - 1):
            product.multiply(make_floats((rows, shape[0])))
            check_sizes(rows * math.prod(shape))
    multiply_in_blocks(left, right, out)
    check_sizes(140 * 4608 * 40)
    assert MAX_MULTIPLICATIONS // 2 < largest <= MAX_MULTIPLICATIONS


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("rows", "shape"), [(197, (768, 700)), (1500, (640, 512)), (3136, (96, 384))], ids=str)
def test_products_of_many_rows_are_not_divided_into_blocks(rows, shape, is_transposed, monkeypatch):
    weights, values = make_weights(shape, is_transposed), make_floats((rows, shape[0]), 1)
    monkeypatch.setattr(panels, "computes_whole_products", lambda: True)
    product = make_panel_product(weights, PackedMemory(1 << 30))
    monkeypatch.setattr(panels, "_multiply_blocks", None)
    with use_threads(1):
        expected = product.multiply(values)
    assert_is_product(expected, values, weights)
    for count in (1, 2, 4):
        with use_threads(count):
            np.testing.assert_array_equal(product.multiply(values), expected)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("rows", "shape"), [(197, (768, 700)), (1500, (640, 512)), (3136, (96, 384))], ids=str)
def test_products_of_many_rows_are_divided_where_that_takes_less_time(rows, shape, is_transposed, monkeypatch):
    monkeypatch.setattr(panels, "computes_whole_products", lambda: False)
    weights, values = make_weights(shape, is_transposed), make_floats((rows, shape[0]), 1)
    product = make_panel_product(weights, PackedMemory(1 << 30))
    with use_threads(1):
        expected = product.multiply(values)
    assert_is_product(expected, values, weights)
    for count in (1, 2, 4):
        with use_threads(count):
            np.testing.assert_array_equal(product.multiply(values), expected)


@pytest.mark.parametrize("name", ["SkylakeX", "SapphireRapids"])
def test_kernels_of_blas_decide_about_whole_products(name, monkeypatch):
    monkeypatch.setattr(panels, "get_kernel_name", lambda: name)
    assert panels.computes_whole_products.__wrapped__() is (name == "SapphireRapids")


@pytest.mark.parametrize("is_whole", [False, True])
def test_weights_at_unaligned_places_are_not_read_by_blas(is_whole, monkeypatch):
    monkeypatch.setattr(panels, "computes_whole_products", lambda: is_whole)
    values = make_floats((197, 768), 1)
    weights = np.frombuffer(b"0" + make_floats((768, 700)).tobytes(), np.uint8)[1:].view(np.float32).reshape(768, 700)
    product = make_panel_product(weights, PackedMemory(1 << 30))
    assert not weights.flags.aligned
    assert_is_product(product.multiply(values), values, weights.copy())


@pytest.mark.parametrize(
    ("shape", "is_divided"),
    [((64, 64), True), ((64, 63), False), ((9000, 64), True), ((1, 64), True), ((0, 64), False)],
)
def test_weights_with_fewer_columns_than_a_panel_are_not_divided(shape, is_divided):
    product = make_panel_product(np.zeros(shape, np.float32), PackedMemory(1 << 30))
    assert (product is not None) is is_divided


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [
        *[(1, 1, 1), (64, 64, 500), (130, 96, 200), (17, 576, 784), (200, 300, 49)],
        *[(33, 3906, 65), (8, 4608, 49), (5, 7813, 64)],
    ],
)
def test_products_in_blocks_are_exact_within_rounding(rows, inner, columns, batch, monkeypatch):
    monkeypatch.setattr(panels, "MIN_DIVIDED", 0)
    a, b = make_floats((*batch, rows, inner), 1), make_floats((*batch, inner, columns + 3), 2)[..., :columns]
    out = np.full((*batch, rows, columns + 1), np.nan, np.float32)[..., :columns]
    multiply_in_blocks(a, b, out)
    for index in np.ndindex(batch):
        assert_is_product(out[index], a[index], b[index])
    columns_first = np.full((*batch, columns, rows), np.nan, np.float32).swapaxes(-1, -2)
    multiply_in_blocks(np.asfortranarray(a), np.asfortranarray(b), columns_first)
    for index in np.ndindex(batch):
        assert_is_product(columns_first[index], a[index], b[index])


def test_processors_without_small_kernels_use_other_methods(monkeypatch):
    monkeypatch.setattr(panels, "has_small_kernels", lambda: False)
    assert make_panel_product(make_weights((600, 700)), PackedMemory(1 << 30)) is None


def test_small_weights_take_no_further_memory():
    count = MAX_VIEWED_BYTES // 4 // 128
    small, large = np.ones((128, count), np.float32), np.ones((129, count), np.float32)
    assert make_panel_product(small, PackedMemory(0)) is not None
    assert make_panel_product(large, PackedMemory(large.nbytes - 1)) is None
    memory = PackedMemory(0, None, large.nbytes)
    assert make_panel_product(large, memory) is not None
    assert make_panel_product(large.copy(), memory) is None


def test_panels_of_weights_that_stay_in_memory_count_as_other_copies():
    weights = [make_weights((600, 700)).copy() for _ in range(4)]
    size = weights[0].nbytes
    memory = PackedMemory(2 * size - 1, None, size, lambda x: x is weights[0])
    assert make_panel_product(weights[1], memory) is not None
    assert memory.used == size
    assert make_panel_product(weights[2], memory) is None
    assert make_panel_product(weights[0], memory) is not None
    assert memory.used == size
    memory.release(size)
    assert make_panel_product(weights[2], memory) is not None
    memory = PackedMemory(2 * size, None, 0, lambda x: False)
    assert make_panel_product(weights[3], memory) is None


@pytest.mark.parametrize("is_transposed", [False, True])
def test_weights_are_copied_in_the_second_call(is_transposed):
    releases = []
    weights = make_weights((600, 700), is_transposed)
    product = make_panel_product(weights, PackedMemory(1 << 30, releases.append))
    for count in (0, 1, 1):
        product.multiply(np.ones((1, 600), np.float32))
        assert len(releases) == count
    assert releases[0] is weights


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rows", [1, 5, 170, 1000])
@pytest.mark.parametrize("shape", [(600, 700), (384, 768), (4608, 100), (3000, 130)], ids=str)
def test_all_calls_return_the_same_bits(shape, rows, count):
    for is_transposed in (False, True):
        product = make_panel_product(make_weights(shape, is_transposed).copy("K"), PackedMemory(1 << 30))
        values = make_floats((rows, shape[0]), 1)
        with use_threads(count):
            results = [product.multiply(values, set_negatives_to_zero) for _ in range(3)]
            np.testing.assert_array_equal(product.multiply(values).clip(0), results[0])
        np.testing.assert_array_equal(results[1], results[0])
        np.testing.assert_array_equal(results[2], results[0])
        panels._products.clear()


def test_products_with_the_same_weights_share_panels(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(panels, "has_small_kernels", lambda: True)
    weights = make_weights((600, 700))
    memory = PackedMemory(weights.nbytes)
    products = [make_panel_product(weights, memory) for _ in range(2)]
    assert products[0] is products[1]
    assert make_panel_product(weights[:, ::-1], memory) is None
    key = (weights.__array_interface__["data"][0], weights.shape, weights.strides)
    assert key in panels._products
    products.clear()
    gc.collect()
    assert key not in panels._products


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("shape", [(600, 700), (96, 384)], ids=str)
def test_kernel_equals_definition(shape, transpose_b):
    def compare_products(a, b, inputs):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

    weights = make_weights(shape[::-1] if transpose_b else shape)
    attributes = {"transpose_b": transpose_b}
    for x in ((3, shape[0]), (2, 5, shape[0]), (shape[0],), (0, shape[0]), (2, 0, shape[0]), (4, 2), ()):
        check("MatMul-1", [make_floats(x), weights], attributes, constants=(1,), compare=compare_products)
    site = CallSite(find_operation("MatMul-1"), attributes, (None, weights), (False, False), 1)
    kernel = specialize(site)
    assert isinstance(kernel, PanelKernel)
    assert site.describe().startswith("panels of 64 columns: ")


@pytest.mark.parametrize(
    ("name", "has_kernels"),
    [(b"SkylakeX", True), (b"Cooperlake", True), (b"SapphireRapids", True), (b"Haswell", False), (b"Zen", False),
     (b"armv8", False)],
)  # fmt: skip
def test_processor_decides_whether_blas_has_small_kernels(name, has_kernels, monkeypatch):
    class Function:
        restype = None

        def __call__(self):
            return name

    class Library:
        scipy_openblas_get_corename64_ = Function()

    monkeypatch.setenv("IRRUN_CPU", "host")
    monkeypatch.setattr(blas, "_load_numpy_library", Library)
    assert blas.has_small_kernels.__wrapped__() is has_kernels


def test_unknown_libraries_have_no_small_kernels(monkeypatch):
    monkeypatch.setattr(blas, "_load_numpy_library", object)
    assert not blas.has_small_kernels.__wrapped__()
    monkeypatch.setattr(blas, "_load_numpy_library", None)
    assert not blas.has_small_kernels.__wrapped__()


@pytest.mark.parametrize("layout", ["usable", "transposed", "unaligned"])
def test_few_weights_are_copied_only_if_they_are_not_usable(layout):
    weights = make_weights((96, 384), layout == "transposed")
    if layout == "unaligned":
        raw = np.empty(weights.nbytes + 1, np.uint8)
        unaligned = raw[1:].view(np.float32).reshape(weights.shape)
        unaligned[...] = weights
        weights = unaligned
    memory = PackedMemory(0)
    product = make_panel_product(weights, memory)
    viewed = product._viewed
    assert viewed.flags.c_contiguous
    assert viewed.flags.aligned
    assert np.shares_memory(viewed, weights) == (layout == "usable")
    assert viewed.flags.writeable == (layout == "usable")
    np.testing.assert_array_equal(viewed, weights)


@pytest.mark.parametrize(
    ("lead", "rows", "inner", "columns", "is_divided"),
    [
        (100, 100, 100, 100, False),  # up to a million multiplications
        (6, 100, 100, 101, True),
        (5, 100, 100, 101, False),  # less than 6 millions in total
        (2, 100, 100, 300, True),
        (1, 48, 256, 600, False),  # long rows of enough rows and columns
        (1, 600, 256, 48, False),
        (1, 47, 256, 600, True),
        (1, 600, 256, 47, True),
        (1, 48, 255, 600, True),
    ],
)
def test_products_are_divided_into_blocks_if_that_pays(lead, rows, inner, columns, is_divided, monkeypatch):
    calls = []
    monkeypatch.setattr(panels, "has_small_kernels", lambda: True)
    monkeypatch.setattr(panels, "_multiply_by_panels", lambda *arguments: calls.append(arguments))
    zero = np.zeros(1, np.float32)
    shapes = (lead, rows, inner), (lead, inner, columns)
    a, b = (np.lib.stride_tricks.as_strided(zero, shape, (0, 0, 4)) for shape in shapes)
    monkeypatch.setattr(np, "matmul", lambda *_, **__: None)
    out = np.empty((lead, rows, columns), np.float32)
    multiply_in_blocks(a, b, out)
    assert bool(calls) == is_divided
    multiply_in_blocks(np.lib.stride_tricks.as_strided(zero, a.shape, (0, 4, 0)), b, out)
    monkeypatch.setattr(panels, "has_small_kernels", lambda: False)
    multiply_in_blocks(a, b, out)
    assert len(calls) == is_divided
