"""TopK and SearchSorted: cases that OpenVINO does not define, and invalid inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ir_text import run_layer

from irrun.errors import InputError
from irrun.ops.sort.search_sorted import search_sorted_15
from irrun.ops.sort.topk import topk_1, topk_11


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("length", [9, 300])
def test_selection_agrees_with_a_stable_sort(mode, length):
    rng = np.random.default_rng(length)
    data = rng.integers(-5, 5, (4, length)).astype(np.float32)
    key = -data if mode == "max" else data
    for k in (0, 1, 4, 9):
        values, indices = topk_11(data, np.array(k), axis=1, mode=mode, sort="value", stable=True)
        expected = np.argsort(key, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(data, expected, 1))
        _, by_index = topk_11(data, np.array(k), axis=1, mode=mode, sort="index")
        np.testing.assert_array_equal(by_index, np.sort(expected, axis=1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_many_of_many_elements_are_selected(dtype):
    """Neighbors of the position at which long rows are partitioned need not be in order."""
    data = np.random.default_rng(0).integers(0, 256, (50, 1000)).astype(dtype)
    for k in range(96, 104):
        _, indices = topk_11(data, np.array(k), axis=1, mode="min", sort="value", stable=True)
        np.testing.assert_array_equal(indices, np.argsort(data, axis=1, kind="stable")[:, :k])


def test_nan_comes_last():
    data = np.array([1, np.nan, 3, 2], np.float32)
    for mode, order in (("max", [2, 3, 0, 1]), ("min", [0, 3, 2, 1])):
        _, indices = topk_1(data, np.array(4), axis=0, mode=mode, sort="value")
        np.testing.assert_array_equal(indices, order)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, np.bool_])
def test_types_outside_numpy_are_supported(dtype):
    data = np.array([1, 0, 5, 3]).astype(dtype)
    values, _ = topk_1(data, np.array(1), axis=0, mode="max", sort="value")
    assert values.dtype == data.dtype
    assert values[0] == data.max() if dtype is np.bool_ else values[0] == 5


def test_k_out_of_range_is_reported():
    for k in (3, -1):
        with pytest.raises(InputError, match=r"k is .*expected \[0, 2\]"):
            topk_1(np.zeros(2, np.float32), np.array(k), axis=0, mode="max", sort="value")


def test_search_sorted_in_empty_rows_returns_zeros():
    indices = search_sorted_15(np.zeros((2, 0), np.float32), np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(indices, np.zeros((2, 3)))
    with pytest.raises(InputError, match="expected the same dimensions"):
        search_sorted_15(np.zeros((3, 2), np.float32), np.ones((2, 3), np.float32))


def test_sort_by_index_reproduces_the_example():
    data = np.array([5, 3, 1, 2, 5, 5], np.float32)
    values, indices = topk_11(data, np.array(4), axis=0, mode="min", sort="index", stable=True)
    np.testing.assert_array_equal(values, [5, 3, 1, 2])
    np.testing.assert_array_equal(indices, [0, 1, 2, 3])


@pytest.mark.parametrize("name", ["right", "right_mode"])
def test_search_sorted_accepts_both_names_of_its_attribute(tmp_path, name):
    """The specification names it `right`, OpenVINO writes `right_mode`."""
    inputs = [np.array([[1, 2, 2, 3]], np.float32), np.array([[2, 3]], np.float32)]
    (indices,) = run_layer(tmp_path, "SearchSorted", "opset15", f'{name}="True"', *inputs)
    np.testing.assert_array_equal(indices, [[3, 4]])
    assert indices.dtype == np.int64
