"""Pooling beyond the conformance tests: errors, equal maxima, examples."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.pooling.adaptive import adaptive_avg_pool_8, adaptive_max_pool_8
from irrun.ops.pooling.windows import avg_pool_16, max_pool_1, max_pool_8

NO_PADDING = {"strides": [1], "pads_begin": [0], "pads_end": [0]}


def test_index_is_that_of_first_maximum():
    data = np.array([[[1, 3, 3, 0, 3]]], np.float32)
    values, indices = max_pool_8(data, kernel=[3], **NO_PADDING)
    assert values.tolist() == [[[3, 3, 3]]]
    assert indices.tolist() == [[[1, 1, 2]]]


def test_indices_count_from_axis():
    data = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    attributes = {"kernel": [4], **NO_PADDING}
    assert max_pool_8(data, **attributes)[1].reshape(-1).tolist() == [3, 7, 11, 15]
    assert max_pool_8(data, **attributes, axis=1)[1].reshape(-1).tolist() == [3, 7, 3, 7]
    assert max_pool_8(data, **attributes, axis=-1)[1].reshape(-1).tolist() == [3, 3, 3, 3]


SIGNED = [[-1, 2, 3], [4, 5, -6], [-7, 8, 9]]
ASCENDING = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
ASCENDING_FROM_TEN = [[10, 11, 12], [13, 14, 15], [16, 17, 18]]


@pytest.mark.parametrize(
    ("data", "attributes", "values", "indices"),
    [
        # The specification has -6 at index 5 for the window whose maximum is 3 at index 2.
        (
            [SIGNED],
            {"pads_begin": [1, 1], "pads_end": [1, 1]},
            [[[-1, 2, 3, 3], [4, 5, 5, 3], [4, 8, 9, 9], [-7, 8, 9, 9]]],
            [[[0, 1, 2, 2], [3, 4, 4, 2], [3, 7, 8, 8], [6, 7, 8, 8]]],
        ),
        (
            [[-1, 2, 3, 5, -7, 9, 1]],
            {**NO_PADDING, "kernel": [3], "auto_pad": "valid"},
            [[3, 5, 5, 9, 9]],
            [[2, 3, 3, 5, 5]],
        ),
        (
            [SIGNED],
            {"auto_pad": "same_lower"},
            [[[-1, 2, 3], [4, 5, 5], [4, 8, 9]]],
            [[[0, 1, 2], [3, 4, 4], [3, 7, 8]]],
        ),
        (
            [SIGNED, [[2, -1, 5], [6, -7, 1], [8, 2, -3]]],
            {"auto_pad": "same_upper"},
            [[[5, 5, 3], [8, 9, 9], [8, 9, 9]], [[6, 5, 5], [8, 2, 1], [8, 2, -3]]],
            [[[4, 4, 2], [7, 8, 8], [7, 8, 8]], [[12, 11, 11], [15, 16, 14], [15, 16, 17]]],
        ),
        (
            [SIGNED],
            {"auto_pad": "valid", "rounding_type": "ceil", "strides": [2, 2]},
            [[[5, 3], [8, 9]]],
            [[[4, 2], [7, 8]]],
        ),
        (
            [ASCENDING],
            {"pads_begin": [1, 1], "pads_end": [1, 1], "strides": [2, 2], "rounding_type": "ceil_torch"},
            [[[1, 3], [7, 9]]],
            [[[0, 2], [6, 8]]],
        ),
        (
            [ASCENDING],
            {"pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [2, 2]},
            [[[5, 6, 5], [8, 9, 8], [5, 6, 5]]],
            [[[4, 5, 4], [7, 8, 7], [4, 5, 4]]],
        ),
        (
            [ASCENDING, ASCENDING_FROM_TEN],
            {"axis": 2},
            [[[5, 6], [8, 9]], [[14, 15], [17, 18]]],
            [[[4, 5], [7, 8]], [[4, 5], [7, 8]]],
        ),
    ],
)
def test_max_pool_examples_of_specification(data, attributes, values, indices):
    defaults = {"kernel": [2, 2], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    outputs = max_pool_8(np.array([data], np.float32), **defaults | attributes)
    assert [x.tolist() for x in outputs] == [[values], [indices]]


def test_max_pool_ignores_nan():
    data = np.array([[[np.nan, 1, np.nan, np.nan]]], np.float32)
    assert max_pool_1(data, kernel=[2], **NO_PADDING).tolist() == [[[1, 1, float(np.finfo(np.float32).min)]]]


@pytest.mark.parametrize("outputs", [1, 2])
def test_max_pool_of_nan_matches_the_reference_implementation_and_the_cpu_plugin(outputs):
    ov = pytest.importorskip("openvino")
    data = np.arange(18, dtype=np.float32).reshape(1, 1, 3, 6)
    data[0, 0, :2, [0, 1, 2, 4]] = np.nan
    parameter = ov.opset8.parameter(data.shape, np.float32)
    node = ov.opset8.max_pool(parameter, [1, 1], [1, 1], [0, 0], [0, 0], [2, 3])
    model = ov.Model([node.output(i) for i in range(outputs)], [parameter], "pool")
    reference = [ov.Tensor(np.empty((1, 1, 2, 4), dtype)) for dtype in (np.float32, np.int64)[:outputs]]
    assert model.evaluate(reference, [ov.Tensor(data)])
    plugin = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([data])
    attributes = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 3]}
    actual = max_pool_8(data, **attributes, outputs=outputs)
    for i in range(outputs):
        np.testing.assert_array_equal(actual[i], reference[i].data)
        np.testing.assert_array_equal(actual[i], plugin[i])


def test_avg_pool_rounds_bytes_and_truncates_wider_integers():
    attributes = {"kernel": [2], "exclude_pad": True, **NO_PADDING}
    for dtype, expected in ((np.int8, [[[-2, 0]]]), (np.int32, [[[-1, 0]]])):
        assert avg_pool_16(np.array([[[-3, 0, 1]]], dtype), **attributes).tolist() == expected


def test_mean_of_window_in_padding_is_zero():
    attributes = {"kernel": [1], "strides": [2], "pads_begin": [1], "pads_end": [1], "exclude_pad": True}
    assert avg_pool_16(np.ones((1, 1, 3), np.float32), **attributes).tolist() == [[[0, 1, 0]]]


def test_adaptive_windows_overlap():
    data = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    assert adaptive_avg_pool_8(data, np.array([3])).tolist() == [[[0.5, 2, 3.5]]]
    values, indices = adaptive_max_pool_8(data[..., ::-1], np.array([3]))
    assert values.tolist() == [[[4, 3, 1]]]
    assert indices.tolist() == [[[0, 1, 3]]]


def test_infinity_does_not_affect_other_windows():
    data = np.array([[[np.inf, 1, 2, 3]]], np.float32)
    assert adaptive_avg_pool_8(data, np.array([2])).tolist() == [[[np.inf, 2.5]]]


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((1, 1), {"kernel": [], **NO_PADDING}, "shape"),
        ((1, 1, 4, 4), {"kernel": [2], **NO_PADDING}, "kernel"),
        ((1, 1, 4), {"kernel": [5], **NO_PADDING}, "does not fit"),
        ((1, 1, 4), {"kernel": [0], **NO_PADDING}, "kernel"),
        ((1, 1, 4), {"kernel": [2], **NO_PADDING, "strides": [1, 1]}, "strides"),
    ],
)
def test_mismatched_attributes_are_reported(shape, attributes, message):
    with pytest.raises(InputError, match=message):
        max_pool_1(np.zeros(shape, np.float32), **attributes)


def test_adaptive_pooling_reports_mismatched_output_shape():
    with pytest.raises(InputError, match="output_shape"):
        adaptive_avg_pool_8(np.zeros((1, 1, 4)), np.array([2, 2]))
    with pytest.raises(InputError, match="empty"):
        adaptive_max_pool_8(np.zeros((1, 1, 0)), np.array([2]))


def test_adaptive_pooling_of_empty_data_is_empty():
    assert adaptive_avg_pool_8(np.zeros((0, 2, 0), np.float32), np.array([3])).shape == (0, 2, 3)
    assert adaptive_avg_pool_8(np.zeros((1, 2, 0), np.float32), np.array([0])).shape == (1, 2, 0)
    values, indices = adaptive_max_pool_8(np.zeros((1, 0, 0), np.float32), np.array([2]))
    assert values.shape == indices.shape == (1, 0, 2)


def test_adaptive_max_pool_ignores_nan_unless_first():
    nan = np.nan
    data = np.array([[[[1, 2, nan], [nan, 9, 3]], [[nan, 2, 5], [4, 5, 3]]]], np.float32)
    values, indices = adaptive_max_pool_8(data, np.array([1, 1]))
    np.testing.assert_array_equal(values.reshape(-1), [9, nan])
    np.testing.assert_array_equal(indices.reshape(-1), [4, 0])
