"""Products with, and rows of, compressed weights on arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import irrun.fast.compressed as module
from fast.harness import make_floats
from irrun.fast import arranged_weights
from irrun.fast.arranged_weights import ArrangedWeights, multiply_by_arranged_weights
from irrun.fast.compressed import CompressedWeights, gather_rows, get_buffer, is_compressed_type, multiply_by_weights
from irrun.fast.errors import NoKernelError
from irrun.threads import use_threads

F32 = np.float32
ROWS, COLUMNS = 150, 48


def make_weights(zero_point, scale, groups, dtype=np.int8):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 8, (ROWS, COLUMNS)).astype(dtype)
    shapes = {"none": None, "one": (1, 1), "groups": (ROWS, groups)}

    def draw(kind, low):
        shape = shapes[kind]
        return None if shape is None else np.asfortranarray(rng.random(shape) * 4 + low).astype(F32)

    return CompressedWeights(codes, draw(zero_point, -2), draw(scale, 0.5), groups)


def decompress(weights):
    """Return the weights in f64."""
    values = weights.codes.astype(np.float64).reshape(ROWS, weights.groups, -1)
    if weights.zero_point is not None:
        values = values - weights.zero_point[:, :, np.newaxis]
    if weights.scale is not None:
        values = values * weights.scale[:, :, np.newaxis]
    return values.reshape(ROWS, COLUMNS)


@pytest.fixture(params=["whole", "tiles", "rows", "parts"])
def _division(request, monkeypatch):
    """Divide the weights into tiles of 21 or 10 rows, of one row, or into three parts of tiles of 16 rows."""
    sizes = {"tiles": (1024, 500), "rows": (1, 1), "parts": (16 * COLUMNS, 16 * COLUMNS)}.get(request.param)
    if sizes is not None:
        monkeypatch.setattr(module, "TILE_SIZE", sizes[0])
        monkeypatch.setattr(module, "SMALL_TILE_SIZE", sizes[1])
    if request.param == "parts":
        monkeypatch.setattr(module, "count_parts", lambda rows, size: 3)


@pytest.mark.usefixtures("_division")
@pytest.mark.parametrize("zero_point", ["none", "one", "groups"])
@pytest.mark.parametrize("scale", ["none", "one", "groups"])
@pytest.mark.parametrize("groups", [1, 4])
def test_products_and_rows_agree_with_f64(zero_point, scale, groups):
    weights = make_weights(zero_point, scale, groups)
    exact = decompress(weights)
    np.testing.assert_allclose(weights.decompress(), exact, rtol=1e-6, atol=1e-6)
    for rows in (1, 3, 8, 9):
        x = make_floats((2, rows, COLUMNS)) if rows < 8 else make_floats((rows, COLUMNS))
        bound = COLUMNS * 2.0**-22 * (np.abs(x) @ (np.abs(exact).T + 10))
        for count in (1, 2):
            with use_threads(count):
                actual = multiply_by_weights(x, weights=weights)
            assert actual.dtype == F32
            assert actual.shape == (*x.shape[:-1], ROWS)
            assert (np.abs(actual - x @ exact.T) <= bound).all()
    indices = np.array([[3, -1, 0], [ROWS - 1, -ROWS, 7]])
    gathered = gather_rows(indices, weights=weights)
    assert gathered.shape == (2, 3, COLUMNS)
    np.testing.assert_array_equal(gathered, weights.decompress()[indices])
    np.testing.assert_array_equal(gather_rows(np.array(5, np.uint8), weights=weights), weights.decompress()[5])
    assert gather_rows(np.zeros((0, 2), np.int32), weights=weights).shape == (0, 2, COLUMNS)


@pytest.mark.parametrize("indices", [[ROWS], [-ROWS - 1], [0, ROWS], [0.0]], ids=str)
def test_rows_that_do_not_exist_are_refused(indices):
    with pytest.raises(NoKernelError, match=r"out of range|expected integers"):
        gather_rows(np.array(indices), weights=make_weights("none", "one", 1))


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinite_inputs_have_the_products_of_decompressed_weights(value, rows, groups):
    """Products of zero codes and infinity are NaN, which zero points would make of finite weights."""
    weights = make_weights("one", "groups", groups)
    x = np.ones((rows, COLUMNS), F32)
    x[0, 5] = value
    with np.errstate(invalid="ignore"):
        expected = x @ weights.decompress().T
        actual = multiply_by_weights(x, weights=weights)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(expected))


@pytest.mark.parametrize(
    "data",
    [np.ones((2, COLUMNS)), np.ones((2, COLUMNS - 1), F32), np.ones((0, COLUMNS), F32), np.ones((), F32)],
    ids=["f64", "columns", "no rows", "scalar"],
)
def test_other_data_is_refused(data):
    with pytest.raises(NoKernelError, match="expected f32"):
        multiply_by_weights(data, weights=make_weights("none", "one", 1))


def test_compressed_types_have_at_most_8_bits_or_are_f16():
    types = [np.int8, np.uint8, np.float16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn]
    assert all(is_compressed_type(np.dtype(t)) for t in types)
    others = [np.float32, np.int16, np.bool_, ml_dtypes.bfloat16, np.int32, object, "U3"]
    assert not any(is_compressed_type(np.dtype(t)) for t in others)


def test_buffer_of_a_thread_grows():
    first = get_buffer(10)
    assert np.shares_memory(first, get_buffer(module.TILE_SIZE))
    size = module.TILE_SIZE + 7
    larger = get_buffer(size)
    assert larger.size == size
    assert np.shares_memory(larger, get_buffer(10))


@pytest.mark.parametrize(
    ("method", "rows", "zero_point", "scale", "groups"),
    [
        ("multiply_groups", 8, "groups", "groups", 4),
        ("multiply_decompressed", 9, "groups", "groups", 4),
        ("multiply_groups", 1, "none", "groups", 4),
        ("multiply_groups", 1, "one", "none", 4),
        ("multiply_decompressed", 1, "none", "none", 4),
        ("multiply_codes", 8, "one", "groups", 1),
        ("multiply_codes", 9, "none", "groups", 1),
        ("multiply_codes", 9, "one", "none", 1),
        ("multiply_decompressed", 9, "none", "none", 1),
    ],
)
def test_products_are_scaled_instead_of_weights(method, rows, zero_point, scale, groups):
    """Those of up to 8 rows, or of weights without groups, if the rows are finite."""
    weights = make_weights(zero_point, scale, groups)
    x = np.ones((rows, COLUMNS), F32)
    assert module._choose_method(x, weights).__name__ == method
    x[-1, 3] = np.inf
    assert module._choose_method(x, weights).__name__ == "multiply_decompressed"


@pytest.mark.parametrize(("rows", "value", "is_scaled"), [(8, 1, True), (9, 1, False), (8, np.inf, False)])
def test_products_of_arranged_groups_are_scaled_for_few_finite_rows(rows, value, is_scaled, monkeypatch):
    calls = []

    def record(name):
        original = getattr(arranged_weights, name)

        def call(*arguments):
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(arranged_weights, name, call)

    record("_multiply_codes")
    record("_multiply_values")
    x = np.ones((rows, COLUMNS), F32)
    x[-1, 3] = value
    weights = ArrangedWeights(make_weights("none", "groups", 4))
    with np.errstate(invalid="ignore"):
        multiply_by_arranged_weights(x, weights=weights)
    assert set(calls) == {"_multiply_codes" if is_scaled else "_multiply_values"}


@pytest.mark.parametrize(("rows", "blocks"), [(1024, [1024]), (1025, [576, 449]), (64, [64]), (65, [65])])
def test_blocks_of_arranged_weights_have_the_documented_size(rows, blocks):
    """At most 1,024 rows, and multiples of 64 but for the last one."""
    weights = CompressedWeights(np.zeros((rows, 4), np.int8), None, np.ones((rows, 2), F32), 2)
    sections = [block.rows for block in ArrangedWeights(weights).blocks]
    assert [section.stop - section.start for section in sections] == blocks
    assert sections[0].start == 0
    assert sections[-1].stop == rows
