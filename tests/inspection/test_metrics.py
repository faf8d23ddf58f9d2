"""Metrics of the difference between arrays of all element types."""

from __future__ import annotations

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

from irrun.inspection import measure, measure_top_k
from irrun.inspection.metrics import CHUNK, are_identical, describe_values
from irrun.inspection.verdicts import get_ordinary_sqnr

NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def _refuse_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_metrics_of_floats():
    result = measure(np.float32([1, 2, 3, 5]), np.float32([1, 2, 3, 4]), tolerance=0.5)
    assert (result.max_abs, result.max_rel, result.rms) == (1, 0.25, 0.5)
    assert result.sqnr_db == pytest.approx(10 * math.log10(30))
    assert result.cosine == pytest.approx(34 / math.sqrt(39 * 30))
    assert (result.over_tolerance, result.differing, result.count) == (0.25, 1, 4)
    assert result.max_ulps == 1 << 21


def test_equal_arrays_are_exact():
    for value in (X := np.float32([1, NAN, INF, -INF]), np.array(["a"], object), np.bool_([True]), np.zeros((0, 2))):
        result = measure(value, value.copy())
        assert result.is_exact
        assert (result.max_abs, result.max_ulps, result.sqnr_db, result.cosine) == (0, 0, INF, 1)
    assert measure(X, X.astype(np.float64)).is_exact
    assert measure(np.float32([0.0]), np.float32([-0.0])).is_exact


@pytest.mark.parametrize(
    ("actual", "reference"),
    [([1, NAN], [1, 2]), ([1, 2], [1, NAN]), ([1, INF], [1, -INF]), ([1, INF], [1, NAN]), ([1, INF], [1, 5])],
)
def test_difference_to_non_finite_values_is_infinite(actual, reference):
    result = measure(np.float32(actual), np.float32(reference))
    assert (result.max_abs, result.max_rel, result.rms, result.sqnr_db) == (INF, INF, INF, -INF)
    assert (result.differing, result.over_tolerance) == (1, 0.5)


def test_different_shapes_are_incomparable():
    result = measure(np.zeros(3), np.zeros(4))
    assert not result.is_exact
    assert (result.same_shape, result.max_abs, result.over_tolerance) == (False, INF, 1)


def test_integers_are_exact():
    big = 2**63 - 1
    assert measure(np.int64([big]), np.int64([big - 1])).max_abs == 1
    assert measure(np.int64([big]), np.int64([-big - 1])).max_abs == float(2**64 - 1)
    assert measure(np.uint64([2**64 - 1]), np.uint64([2**64 - 2])).max_ulps <= 2048
    assert measure(np.uint8([0]), np.uint8([255])).max_abs == 255
    assert measure(np.int8([-128]), np.int8([127])).max_abs == 255


def test_booleans_and_strings_count_differing_elements():
    result = measure(np.bool_([True, False]), np.bool_([True, True]))
    assert (result.max_abs, result.differing) == (1, 1)
    result = measure(np.array(["a", "b"], object), np.array(["a", "c"], object))
    assert (result.max_abs, result.differing, result.over_tolerance) == (1, 1, 0.5)
    assert result.sqnr_db == pytest.approx(10 * math.log10(2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float64"])
def test_ulps_count_representable_values(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    one = np.array([1, 1], dtype)
    code = f"u{dtype.itemsize}"
    following = (one.view(code) + np.array([0, 2], code)).view(dtype)
    assert measure(following, one).max_ulps == 2
    assert measure(one, following).max_ulps == 2
    smallest = np.array([1], code).view(dtype)
    assert measure(smallest, -smallest).max_ulps == 2
    assert measure(following, one.astype(np.float64)).max_ulps == 2


def test_huge_and_tiny_values_do_not_overflow():
    result = measure(np.float64([1e308, 1]), np.float64([-1e308, 1]))
    assert result.max_abs == INF or result.max_abs == 2e308
    result = measure(np.float64([2e-308]), np.float64([1e-308]))
    assert result.sqnr_db == pytest.approx(0)
    result = measure(np.float32([0, 0]), np.float32([1, 0]))
    assert (result.cosine, result.sqnr_db) == (0, 0)
    result = measure(np.float32([1, 0]), np.float32([0, 0]))
    assert (result.cosine, result.sqnr_db, result.max_rel) == (0, -INF, INF)


def test_identical_arrays_have_the_same_type_and_values():
    x = np.float32([1, 2, -0.0])
    assert are_identical(x, np.float32([1, 2, 0]))
    assert not are_identical(x, x.astype(np.float64))
    assert not are_identical(x, np.float32([1, 2]))
    assert not are_identical(x, np.float32([1, 2, 1e-45]))
    assert not are_identical(np.array(["a"], object), np.array(["a"], object))


def test_large_arrays_are_processed_in_parts():
    reference = np.arange(CHUNK + 10, dtype=np.float32)
    actual = reference.copy()
    actual[-1] += 2
    result = measure(actual, reference, np.full(reference.shape, 1.0))
    assert (result.max_abs, result.differing, result.over_tolerance) == (2, 1, 1 / reference.size)


def test_top_k_compares_rows():
    reference = np.float32([[1, 2, 3, 4], [4, 3, 2, 1]])
    actual = np.float32([[1, 2, 3, 4], [1, 2, 3, 4]])
    assert measure_top_k(actual, reference, 1) == 0.5
    assert measure_top_k(actual, reference, 2) == 0.5
    assert measure_top_k(actual, reference, 99) == 1
    assert measure_top_k(np.float32(3), np.float32(3)) == 1
    assert measure_top_k(np.zeros((0, 3)), np.zeros((0, 3))) == 1
    assert measure_top_k(np.zeros(3), np.zeros(4)) == 0
    assert measure_top_k(np.float32([NAN, 1]), np.float32([0, 1]), 1) == 1


def test_metrics_are_valid_json():
    assert measure(np.zeros(2), np.zeros(2)).to_json()["sqnr_db"] == "inf"
    assert measure(np.ones(2), np.zeros(2)).to_json()["max_abs"] == 1


def test_statistics_ignore_elements_that_are_not_finite():
    statistics = describe_values(np.float32([1, 3, NAN, INF, 0]))
    assert statistics == pytest.approx(
        {"min": 0, "max": 3, "mean": 4 / 3, "std": math.sqrt(14 / 9), "zeros": 1, "nans": 1, "infinities": 1}
    )
    assert describe_values(np.float32([NAN]))["min"] is None
    assert describe_values(np.array(["a"], object)) == {}


def test_layers_without_rounding_are_never_ill_conditioned():
    assert get_ordinary_sqnr([]) == -INF
