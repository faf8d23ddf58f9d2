"""Pooling where conformance does not reach: errors, ties, many windows."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.pooling import adaptive_avg_pool_8, adaptive_max_pool_8, avg_pool_16, max_pool_1, max_pool_8

PLAIN = {"strides": [1], "pads_begin": [0], "pads_end": [0]}


def test_the_first_of_equal_maxima_is_named():
    data = np.array([[[1, 3, 3, 0, 3]]], np.float32)
    values, places = max_pool_8(data, kernel=[3], **PLAIN)
    assert values.tolist() == [[[3, 3, 3]]]
    assert places.tolist() == [[[1, 1, 2]]]


def test_places_count_from_the_axis():
    data = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    described = {"kernel": [4], **PLAIN}
    assert max_pool_8(data, **described)[1].reshape(-1).tolist() == [3, 7, 11, 15]
    assert max_pool_8(data, **described, axis=1)[1].reshape(-1).tolist() == [3, 7, 3, 7]
    assert max_pool_8(data, **described, axis=-1)[1].reshape(-1).tolist() == [3, 3, 3, 3]


SMALL = [[-1, 2, 3], [4, 5, -6], [-7, 8, 9]]
COUNTED = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
SHIFTED = [[10, 11, 12], [13, 14, 15], [16, 17, 18]]


@pytest.mark.parametrize(
    ("data", "described", "values", "places"),
    [
        # The page has -6 at 5 beside the 3 at 2, in a window that has both.
        (
            [SMALL],
            {"pads_begin": [1, 1], "pads_end": [1, 1]},
            [[[-1, 2, 3, 3], [4, 5, 5, 3], [4, 8, 9, 9], [-7, 8, 9, 9]]],
            [[[0, 1, 2, 2], [3, 4, 4, 2], [3, 7, 8, 8], [6, 7, 8, 8]]],
        ),
        (
            [[-1, 2, 3, 5, -7, 9, 1]],
            {**PLAIN, "kernel": [3], "auto_pad": "valid"},
            [[3, 5, 5, 9, 9]],
            [[2, 3, 3, 5, 5]],
        ),
        (
            [SMALL],
            {"auto_pad": "same_lower"},
            [[[-1, 2, 3], [4, 5, 5], [4, 8, 9]]],
            [[[0, 1, 2], [3, 4, 4], [3, 7, 8]]],
        ),
        (
            [SMALL, [[2, -1, 5], [6, -7, 1], [8, 2, -3]]],
            {"auto_pad": "same_upper"},
            [[[5, 5, 3], [8, 9, 9], [8, 9, 9]], [[6, 5, 5], [8, 2, 1], [8, 2, -3]]],
            [[[4, 4, 2], [7, 8, 8], [7, 8, 8]], [[12, 11, 11], [15, 16, 14], [15, 16, 17]]],
        ),
        (
            [SMALL],
            {"auto_pad": "valid", "rounding_type": "ceil", "strides": [2, 2]},
            [[[5, 3], [8, 9]]],
            [[[4, 2], [7, 8]]],
        ),
        (
            [COUNTED],
            {"pads_begin": [1, 1], "pads_end": [1, 1], "strides": [2, 2], "rounding_type": "ceil_torch"},
            [[[1, 3], [7, 9]]],
            [[[0, 2], [6, 8]]],
        ),
        (
            [COUNTED],
            {"pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [2, 2]},
            [[[5, 6, 5], [8, 9, 8], [5, 6, 5]]],
            [[[4, 5, 4], [7, 8, 7], [4, 5, 4]]],
        ),
        (
            [COUNTED, SHIFTED],
            {"axis": 2},
            [[[5, 6], [8, 9]], [[14, 15], [17, 18]]],
            [[[4, 5], [7, 8]], [[4, 5], [7, 8]]],
        ),
    ],
)
def test_examples_of_the_specification(data, described, values, places):
    plain = {"kernel": [2, 2], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    found = max_pool_8(np.array([data], np.float32), **plain | described)
    assert [x.tolist() for x in found] == [[values], [places]]


def test_nan_is_passed_over():
    data = np.array([[[np.nan, 1, np.nan, np.nan]]], np.float32)
    assert max_pool_1(data, kernel=[2], **PLAIN).tolist() == [[[1, 1, float(np.finfo(np.float32).min)]]]


def test_bytes_are_rounded_and_wider_integers_cut_off():
    described = {"kernel": [2], "exclude_pad": True, **PLAIN}
    for dtype, expected in ((np.int8, [[[-2, 0]]]), (np.int32, [[[-1, 0]]])):
        assert avg_pool_16(np.array([[[-3, 0, 1]]], dtype), **described).tolist() == expected


def test_a_window_with_nothing_in_it_has_the_mean_zero():
    described = {"kernel": [1], "strides": [2], "pads_begin": [1], "pads_end": [1], "exclude_pad": True}
    assert avg_pool_16(np.ones((1, 1, 3), np.float32), **described).tolist() == [[[0, 1, 0]]]


def test_adaptive_windows_overlap():
    data = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    assert adaptive_avg_pool_8(data, np.array([3])).tolist() == [[[0.5, 2, 3.5]]]
    values, places = adaptive_max_pool_8(data[..., ::-1], np.array([3]))
    assert values.tolist() == [[[4, 3, 1]]]
    assert places.tolist() == [[[0, 1, 3]]]


def test_infinity_stays_in_its_window():
    data = np.array([[[np.inf, 1, 2, 3]]], np.float32)
    assert adaptive_avg_pool_8(data, np.array([2])).tolist() == [[[np.inf, 2.5]]]


@pytest.mark.parametrize(
    ("shape", "described", "message"),
    [
        ((1, 1), {"kernel": [], **PLAIN}, "shape"),
        ((1, 1, 4, 4), {"kernel": [2], **PLAIN}, "kernel"),
        ((1, 1, 4), {"kernel": [5], **PLAIN}, "does not fit"),
        ((1, 1, 4), {"kernel": [0], **PLAIN}, "kernel"),
        ((1, 1, 4), {"kernel": [2], **PLAIN, "strides": [1, 1]}, "strides"),
    ],
)
def test_what_does_not_fit_is_reported(shape, described, message):
    with pytest.raises(InputError, match=message):
        max_pool_1(np.zeros(shape, np.float32), **described)


def test_adaptive_pooling_reports_what_does_not_fit():
    with pytest.raises(InputError, match="output_shape"):
        adaptive_avg_pool_8(np.zeros((1, 1, 4)), np.array([2, 2]))
    with pytest.raises(InputError, match="empty"):
        adaptive_max_pool_8(np.zeros((1, 1, 0)), np.array([2]))


def test_adaptive_pooling_of_no_images_is_empty():
    assert adaptive_avg_pool_8(np.zeros((0, 2, 0), np.float32), np.array([3])).shape == (0, 2, 3)
    assert adaptive_avg_pool_8(np.zeros((1, 2, 0), np.float32), np.array([0])).shape == (1, 2, 0)
    values, places = adaptive_max_pool_8(np.zeros((1, 0, 0), np.float32), np.array([2]))
    assert values.shape == places.shape == (1, 0, 2)


def test_adaptive_maximum_passes_over_nan_except_in_front():
    nan = np.nan
    data = np.array([[[[1, 2, nan], [nan, 9, 3]], [[nan, 2, 5], [4, 5, 3]]]], np.float32)
    values, places = adaptive_max_pool_8(data, np.array([1, 1]))
    np.testing.assert_array_equal(values.reshape(-1), [9, nan])
    np.testing.assert_array_equal(places.reshape(-1), [4, 0])
