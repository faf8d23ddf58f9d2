"""Compiled products with compressed weights."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest

from fast.harness import run_with_threads
from irrun.fast.compressed import CompressedWeights

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps
LIMITS = {"int8": (-128, 128), "uint8": (0, 256), "int4": (-8, 8), "uint4": (0, 16)}


def make_weights(name, shape, groups, zero_point, has_nibbles=False):
    rng = np.random.default_rng(0)
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    codes = rng.integers(*LIMITS[name], shape).astype(np.int16).astype(dtype)
    scale = np.asfortranarray(rng.uniform(0.5, 1, (shape[0], groups)).astype(np.float32))
    halves = np.arange(shape[0] * groups).reshape(shape[0], groups) % 80 / 2
    zero_points = {
        "none": None,
        "scalar": np.float32([[3]]),
        "groups": np.asfortranarray(halves.astype(np.float32)),
    }
    nibbles = None
    if has_nibbles:
        low, high = np.moveaxis(codes.astype(np.int8).view(np.uint8).reshape(shape[0], -1, 2) & 15, 2, 0)
        nibbles = low | high << np.uint8(4)
    return CompressedWeights(codes, zero_points[zero_point], scale, groups, nibbles)


@pytest.mark.parametrize(
    ("name", "has_nibbles"), [*((name, False) for name in LIMITS), ("int4", True), ("uint4", True)]
)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("zero_point", ["none", "scalar", "groups"])
def test_compressed_products_agree_with_decompressed_weights(name, has_nibbles, groups, zero_point):
    from irrun.fast.jit.compressed import CompressedKernel, supports

    weights = make_weights(name, (53, 96), groups, zero_point, has_nibbles)
    assert supports(weights)
    decompressed = weights.decompress().astype(np.float64)
    # For few rows, products with codes and with the zero point are summed up apart.
    bound = np.abs(decompressed) + 2 * 40
    kernel = CompressedKernel(weights)
    for count in (1, 2, 8, 9, 16, 17, 33, 70):
        x = np.random.default_rng(count).normal(size=(1, count, 96)).astype(np.float32)
        result = run_with_threads(lambda x=x: kernel(x))
        assert result.shape == (1, count, 53)
        assert np.all(np.abs(result - x @ decompressed.T) <= 96 * EPSILON * (np.abs(x) @ bound.T))


def test_compressed_products_in_chunks_and_parts_agree_with_decompressed_weights(monkeypatch):
    from irrun.fast.jit import compressed, compressed_tiles

    monkeypatch.setattr(compressed_tiles, "BLOCK_ROWS", 64)
    monkeypatch.setattr(compressed_tiles, "MIN_PART_WORK", 1 << 16)
    monkeypatch.setattr(compressed, "MIN_PART_SIZE", 1 << 14)
    columns = 2 * compressed_tiles.CHUNK_COLUMNS + 32
    for groups in (1, columns // 32):
        weights = make_weights("int8", (101, columns), groups, "groups")
        decompressed = weights.decompress().astype(np.float64)
        for count in (1, 100):
            x = np.random.default_rng(0).normal(size=(count, columns)).astype(np.float32)
            result = run_with_threads(lambda x=x, w=weights: compressed.CompressedKernel(w)(x))
            bound = columns * EPSILON * (np.abs(x) @ (np.abs(decompressed) + 2 * 40).T)
            assert np.all(np.abs(result - x @ decompressed.T) <= bound)


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_all_pairs_of_codes_are_decoded_exactly(name):
    """Each weight is multiplied by 1, and all others by 0."""
    from irrun.fast.jit.compressed import CompressedKernel

    dtype = getattr(ml_dtypes, name)
    nibbles = np.arange(256, dtype=np.uint8).reshape(4, 64)
    codes = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(4, 128)
    weights = CompressedWeights(codes.view(dtype), None, None, 1, nibbles)
    kernel = CompressedKernel(weights)
    assert kernel._matrices[0].has_nibbles
    unit = np.eye(128, dtype=np.float32)
    np.testing.assert_array_equal(kernel(unit).T, weights.decompress())
    np.testing.assert_array_equal(np.concatenate([kernel(row) for row in unit]).reshape(128, 4).T, weights.decompress())


def test_weights_of_all_kinds_are_multiplied_together():
    from irrun.fast.jit.compressed import CompressedKernel

    kinds = [(name, has_nibbles) for name in LIMITS for has_nibbles in (False, "4" in name)]
    matrices = [make_weights(name, (21, 192), 1 + i % 3, "groups", has) for i, (name, has) in enumerate(kinds)]
    kernel = CompressedKernel(*matrices)
    for count in (1, 3, 40):
        x = np.random.default_rng(count).normal(size=(count, 192)).astype(np.float32)
        for weights, result in zip(matrices, kernel(x), strict=True):
            np.testing.assert_array_equal(result, CompressedKernel(weights)(x))


def test_infinite_data_has_the_results_of_the_definition():
    from irrun.fast.jit.compressed import CompressedKernel

    weights = make_weights("uint8", (16, 64), 2, "scalar")
    x = np.ones((12, 64), np.float32)
    x[3, 5] = np.inf
    with np.errstate(all="ignore"):
        expected = x @ weights.decompress().T
    np.testing.assert_array_equal(np.isnan(CompressedKernel(weights)(x)), np.isnan(expected))
