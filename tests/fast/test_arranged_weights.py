"""Copies of compressed weights that are arranged for products."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import irrun.fast.arranged_weights as module
from irrun.fast.arranged_weights import ArrangedWeights, multiply_by_arranged_weights
from irrun.fast.compressed import CompressedWeights, multiply_by_weights
from irrun.fast.errors import NoKernelError
from irrun.threads import use_threads

RNG = np.random.default_rng(0)
F32 = np.float32
DTYPES = {"u4": ml_dtypes.uint4, "i4": ml_dtypes.int4, "i8": np.int8, "u8": np.uint8}


def make_weights(name, rows, groups, size, zero_point="groups", *, is_scale_shared=False):
    """Return weights [rows, groups * size]."""
    lowest, highest = {"u4": (0, 16), "i4": (-8, 8), "i8": (-128, 128), "u8": (0, 256)}[name]
    codes = RNG.integers(lowest, highest, (rows, groups * size)).astype(DTYPES[name])
    zero_points = {
        "none": None,
        "shared": np.full((1, 1), 128 if name == "u8" else 3, F32),
        "groups": np.asfortranarray(RNG.integers(0, 16, (rows, groups)).astype(F32)),
    }[zero_point]
    scale = RNG.random((1, 1) if is_scale_shared else (rows, groups)).astype(F32) + F32(0.1)
    return CompressedWeights(codes, zero_points, np.asfortranarray(scale), groups)


@pytest.fixture(params=[False, True], ids=["one tile", "several tiles"])
def _tiles(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "TILE_SIZE", 1 << 10)
        monkeypatch.setattr(module, "SMALL_TILE_SIZE", 1 << 10)
        monkeypatch.setattr(module, "BLOCK_ROWS", 64)


@pytest.mark.usefixtures("_tiles")
@pytest.mark.parametrize(
    ("name", "zero_point"),
    [(name, zero) for name in ("u4", "i4") for zero in ("none", "shared", "groups")]
    + [("i8", "none"), ("u8", "shared")],
)
@pytest.mark.parametrize("rows", [1, 8, 9, 33])
def test_products_agree_with_sums_in_f64(name, zero_point, rows):
    weights = make_weights(name, 150, 5, 24, zero_point)
    assert ArrangedWeights.is_arrangeable(weights)
    x = RNG.normal(size=(1, rows, 120)).astype(F32)
    exact = weights.decompress().astype(np.float64)
    actual = multiply_by_arranged_weights(x, weights=ArrangedWeights(weights))
    assert actual.shape == (1, rows, 150)
    bound = 120 * 2.0**-24 * (np.abs(x) @ np.abs(exact).T)  # of sums of 120 products in f32
    assert (np.abs(actual - x @ exact.T) <= bound).all()


@pytest.mark.usefixtures("_tiles")
def test_shared_scales_agree_with_the_same_scales_of_all_groups():
    weights = make_weights("u4", 70, 3, 16, is_scale_shared=True)
    x = RNG.normal(size=(2, 48)).astype(F32)
    actual = multiply_by_arranged_weights(x, weights=ArrangedWeights(weights))
    np.testing.assert_allclose(actual, multiply_by_weights(x, weights=weights), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 20])
def test_results_have_the_same_bits_for_any_number_of_threads(rows):
    weights = ArrangedWeights(make_weights("u4", 4000, 8, 64))
    assert len(weights.blocks) > 1
    x = RNG.normal(size=(rows, 512)).astype(F32)
    results = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            results.append(multiply_by_arranged_weights(x, weights=weights).tobytes())
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinite_and_invalid_inputs_make_the_results_of_decompressed_weights(value):
    weights = make_weights("i4", 64, 2, 16)
    x = np.ones((1, 32), F32)
    x[0, 3] = value
    with np.errstate(invalid="ignore"):
        actual = multiply_by_arranged_weights(x, weights=ArrangedWeights(weights))
        expected = x @ weights.decompress().T
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("data", [np.ones((2, 31), F32), np.ones((2, 32)), np.ones((0, 32), F32)])
def test_other_data_is_left_to_the_plain_kernels(data):
    with pytest.raises(NoKernelError, match="expected f32"):
        multiply_by_arranged_weights(data, weights=ArrangedWeights(make_weights("i4", 64, 2, 16)))


def test_weights_without_groups_or_small_integers_are_not_arranged():
    groups = make_weights("u4", 10, 2, 16)
    others = {
        "one group": make_weights("u4", 10, 1, 16),
        "differences of more than 8 bits": make_weights("u8", 10, 2, 16, "groups"),
        "fractions": replace(groups, zero_point=np.full((1, 1), 0.5, F32)),
        "no scale": replace(groups, scale=None),
        "f16": replace(groups, codes=groups.codes.astype(np.float16)),
    }
    assert ArrangedWeights.is_arrangeable(groups)
    assert [name for name, weights in others.items() if ArrangedWeights.is_arrangeable(weights)] == []
