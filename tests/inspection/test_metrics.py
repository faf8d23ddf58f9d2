"""Metrics of the difference between arrays of all element types."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import irrun
from irrun.inspection import Metrics, measure, measure_top_k, metrics
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
    assert result.differing == result.count == 1


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
    assert measure_top_k(np.arange(12), -np.arange(12)) == 0
    assert measure_top_k(np.arange(12), np.arange(12) - 12 * (np.arange(12) == 7)) == 0.8  # 5 by default
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


def test_metrics_of_equal_arrays_are_complete():
    equal = Metrics(0.0, 0.0, 0.0, 1.0, INF, 0.0, 0.0, 0, 0, True)
    assert measure(np.zeros((0, 2)), np.zeros((0, 2))) == equal
    assert measure(np.ones(3), np.ones(3)) == replace(equal, count=3)
    assert measure(np.ones(3), np.ones(3, np.float32)) == replace(equal, count=3)
    assert measure(np.array(["a", "b"], object), np.array(["a", "b"], object)) == replace(equal, count=2)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, ml_dtypes.bfloat16])
def test_metrics_are_those_of_the_formulas(monkeypatch, chunk, dtype):
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    b = rng.integers(1, 100, (4, 10)).astype(dtype)
    a = b.copy()
    a[1:3] += rng.integers(1, 20, (2, 10)).astype(dtype)
    tolerance = np.broadcast_to(np.float64([[0], [3], [12], [0]]), b.shape)
    x, y = a.astype(np.float64), b.astype(np.float64)
    noise = np.abs(x - y)
    result = measure(a, b, tolerance)
    assert result.max_abs == noise.max()
    assert result.max_rel == (noise / y).max()
    assert result.rms == pytest.approx(math.sqrt((noise**2).mean()))
    assert result.cosine == pytest.approx((x * y).sum() / math.sqrt((x**2).sum() * (y**2).sum()))
    assert result.sqnr_db == pytest.approx(10 * math.log10((y**2).sum() / (noise**2).sum()))
    assert result.over_tolerance == (noise > tolerance).mean() > 0
    assert result.differing == int(np.count_nonzero(noise))
    assert result.count == 40
    assert result.same_shape
    if dtype in (np.int16, np.uint8):
        assert result.max_ulps == noise.max()
    assert measure(a, b, 3).over_tolerance == (noise > 3).mean()
    assert measure(a, b).over_tolerance == (noise > 0).mean()


def test_cosine_is_between_minus_one_and_one():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.standard_normal(3)
        assert -1 <= measure(-3 * x, x).cosine <= -1 + 1e-12
        assert 1 - 1e-12 <= measure(3 * x, x).cosine <= 1
    assert measure(np.float64([1, 0]), np.float64([0, 1])).cosine == 0


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_cosine_does_not_depend_on_the_magnitude(scale):
    assert measure(scale * np.float64([3, 4]), scale * np.float64([4, 3])).cosine == pytest.approx(0.96)


@pytest.mark.parametrize("other", [NAN, INF, -INF])
def test_elements_that_are_not_finite_do_not_affect_the_cosine(other):
    value, reference = np.float32([other, 3, 4]), np.float32([1, 4, 3])
    for result in (measure(value, reference), measure(reference, value)):
        assert result.cosine == pytest.approx(0.96)
        assert (result.max_abs, result.rms, result.sqnr_db, result.differing) == (INF, INF, -INF, 3)


def test_differences_of_tiny_values_beside_infinities_are_measured():
    result = measure(np.float64([INF, 1e-200]), np.float64([INF, 2e-200]))
    assert (result.max_abs, result.differing) == (1e-200, 1)
    assert result.sqnr_db == pytest.approx(20 * math.log10(2))
    assert result.rms == pytest.approx(1e-200 / math.sqrt(2))


def test_texts_have_all_metrics():
    result = measure(np.array(list("abcd"), object), np.array(list("abce"), object))
    assert result == Metrics(1.0, 1.0, 0.5, 0.75, pytest.approx(20 * math.log10(2)), 1.0, 0.25, 1, 4)
    assert measure(np.array(["1"], object), np.float32([2])).differing == 1
    assert measure(np.float32([2]), np.array(["1"], object)).differing == 1


@pytest.mark.parametrize(
    ("codes", "other", "name", "ulps"),
    [
        (127, 128, "float8_e8m0fnu", 1),
        (127, 129, "float8_e8m0fnu", 2),
        (0, 1, "float4_e2m1fn", 1),
        (0, 9, "float4_e2m1fn", 1),
        (7, 15, "float4_e2m1fn", 14),
        (0, 1, "float16", 1),
        (0x8000, 1, "float16", 1),
        (0x8001, 1, "float16", 2),
        (0x7BFF, 0xFBFF, "float16", 2 * 0x7BFF),
        (0, 0x80000001, "float32", 1),
    ],
)
def test_ulps_are_counted_across_zero(codes, other, name, ulps):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    a, b = (np.array([c], f"u{dtype.itemsize}").view(dtype) for c in (codes, other))
    assert measure(a, b).max_ulps == measure(b, a).max_ulps == ulps


def test_ulps_of_either_sign_count():
    near, far = np.float32([1e-45, -3e-45, 0.0, 2]), np.float32([-1e-45, -1e-45, -0.0, 2])
    assert measure(near, far).max_ulps == 2
    assert measure(near, np.float32([-1e-45, -8e-45, -0.0, 2])).max_ulps == 4
    assert measure(near, np.float32([-8e-45, -3e-45, -0.0, 2])).max_ulps == 7
    assert measure(np.float64([1, -INF]), np.float64([1, -1.7976931348623157e308])).max_ulps == 1


def test_ulps_are_those_of_the_narrower_type():
    one = np.float32([1])
    assert measure(one + np.float32(2**-10), one.astype(np.float16)).max_ulps == 1
    assert measure(np.float64([1 + 2**-40]), one).max_ulps == 0
    assert measure(np.float32([1.5]), np.int8([1])).max_ulps == 1 << 22
    assert measure(np.float32([NAN]), one).max_ulps == INF
    assert measure(np.float32([1, NAN]), np.float32([2, NAN])).max_ulps == 1 << 23
    assert measure(np.bool_([True, True]), np.bool_([False, True])).max_ulps == 1
    assert measure(np.int8([1]), np.int32([3])).max_ulps == 2
    half, brain = np.float16([1]), np.array([1 + 2**-7], ml_dtypes.bfloat16)
    assert measure(brain, half).max_ulps == 1
    assert measure(half, brain).max_ulps == 8
    codes = np.uint8([3, 1]).view([("u3", np.uint8)])
    result = measure(codes, np.uint8([1, 1]).view(codes.dtype))
    assert (result.max_ulps, result.max_abs, result.differing) == (2, 2, 1)
    normal = np.uint8([3, 1]).view([("nf4", np.uint8)])
    assert measure(normal, normal[::-1]).max_ulps == 2
    assert are_identical(codes, codes.copy())
    assert not are_identical(codes, codes[::-1])


def test_five_largest_elements_are_compared_by_default():
    reference = np.arange(6.0)
    assert measure_top_k(-reference, reference) == 0.8
    assert measure_top_k(np.float32([1, 1, 1]), np.float32([1, 1, 2]), 2) == 0.5
    assert measure_top_k(reference, reference, 0) == 1
    rows = np.float32([[[1, 2]], [[2, 1]]])
    assert measure_top_k(rows, rows[::-1], 1) == 0
    assert measure_top_k(np.float32([-INF, NAN, -1]), np.float32([-1, NAN, -INF]), 1) == 0


@pytest.mark.parametrize("chunk", [2, 1 << 16])
def test_statistics_are_those_of_all_parts(monkeypatch, chunk):
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    x = np.float64([[0, 1, NAN], [-2, INF, 0], [NAN, -INF, 0.5]])
    finite = x[np.isfinite(x)]
    assert describe_values(x) == {
        "min": -2,
        "max": 1,
        "mean": pytest.approx(finite.mean()),
        "std": pytest.approx(finite.std()),
        "zeros": 2,
        "nans": 2,
        "infinities": 2,
    }


def test_statistics_that_overflow_are_unknown():
    large = describe_values(np.float64([1e200, 1]))
    assert (large["mean"], large["std"]) == (5e199, None)
    huge = describe_values(np.float64([1e308, 1e308]))
    assert (huge["max"], huge["mean"], huge["std"]) == (1e308, None, None)
    assert describe_values(np.float64([0.1, 0.1, 0.1]))["std"] == pytest.approx(0, abs=1e-8)
    empty = {"min": None, "max": None, "mean": None, "std": None, "zeros": 0, "nans": 0, "infinities": 0}
    assert describe_values(np.zeros(0)) == empty
    assert describe_values(np.int8([-1, 0]))["min"] == -1
    assert describe_values(np.uint8([3, 1]).view([("u3", np.uint8)]))["max"] == 3


def test_metrics_without_infinities_are_numbers_in_json():
    names = ["max_abs", "max_rel", "rms", "cosine", "sqnr_db", "max_ulps", "over_tolerance"]
    result = measure(np.float32([2, 1]), np.float32([1, 1]))
    assert result.to_json() == {name: getattr(result, name) for name in names}
    incomparable = measure(np.zeros(2), np.zeros(3)).to_json()
    assert list(incomparable.values()) == ["inf", "inf", "inf", 0.0, "-inf", "inf", 1.0]


def test_empty_arrays_have_the_metrics_of_no_difference():
    assert measure(np.zeros(0, np.float32), np.zeros(0, np.float32)) == Metrics(
        max_abs=0.0,
        max_rel=0.0,
        rms=0.0,
        cosine=1.0,
        sqnr_db=INF,
        max_ulps=0.0,
        over_tolerance=0.0,
        differing=0,
        count=0,
        same_shape=True,
    )
    empty = measure(np.zeros(0, np.float32), np.zeros(0, np.float32))
    zeros = dict.fromkeys(("max_abs", "max_rel", "rms", "max_ulps", "over_tolerance", "differing", "count"), 0)
    assert vars(empty) == {**zeros, "cosine": 1, "sqnr_db": INF, "same_shape": True}


@pytest.mark.parametrize("function", [measure, measure_top_k])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("text", "'text'"),
        ({"a": 1}, "a dict of 1"),
        ({1, 2}, "a set of 2"),
        ([[1], [1, 2]], "a list of 2"),
        (np.zeros(1, "datetime64[s]"), "an array of datetime64[s] with shape [1]"),
    ],
    ids=str,
)
def test_values_that_are_no_arrays_are_refused(function, value, shown):
    for name, arguments in (("actual", (value, np.float32([1]))), ("reference", (np.float32([1]), value))):
        with pytest.raises(irrun.InputError, match=f"^{name} is {re.escape(shown)}, expected an array of an element"):
            function(*arguments)


@pytest.mark.parametrize("value", [2, 2.0, True, [1, 2], (1.0, 2.0), np.float32(2), [[1, 2], [3, 4]]], ids=str)
def test_numbers_and_lists_are_arrays(value):
    assert measure(value, np.asarray(value)).is_exact
    assert measure_top_k(np.asarray(value), value) == 1


def test_tolerances_are_numbers_or_arrays_of_numbers():
    actual, reference = np.float32([1, 2, 3]), np.float32([1, 3, 5])
    assert measure(actual, reference, 1).over_tolerance == pytest.approx(1 / 3)
    assert measure(actual, reference, np.array([0, 2, 2])).over_tolerance == 0
    for tolerance in (-1, "1", None, [1, 2, 3]):
        with pytest.raises(irrun.InputError, match=r"^tolerance is .*, expected a number of at least 0, or an array"):
            measure(actual, reference, tolerance)
    with pytest.raises(irrun.InputError, match=r"^tolerance is an array of bool.*, expected an array of numbers"):
        measure(actual, reference, np.ones(3, bool))
