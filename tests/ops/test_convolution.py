"""Convolutions beyond the conformance tests: f64, block sizes, examples, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.convolution import backprop, deformable
from irrun.ops.convolution.backprop import convolution_backprop_data_1, group_convolution_backprop_data_1
from irrun.ops.convolution.binary_convolution import binary_convolution_1
from irrun.ops.convolution.deformable import deformable_convolution_8
from irrun.ops.convolution.forward import convolution_1, group_convolution_1


def make_attributes(rank, stride=1, pad=0, dilation=1):
    return {
        "strides": [stride] * rank,
        "pads_begin": [pad] * rank,
        "pads_end": [pad] * rank,
        "dilations": [dilation] * rank,
    }


def convolve_by_definition(data, filters, stride, pad, dilation):
    """Compute a 2D group convolution element by element."""
    groups, c_out, c_in, height, width = filters.shape
    padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    rows = (padded.shape[2] - (height - 1) * dilation - 1) // stride + 1
    columns = (padded.shape[3] - (width - 1) * dilation - 1) // stride + 1
    result = np.zeros((len(data), groups, c_out, rows, columns))
    for n, g, o, y, x in itertools.product(*map(range, result.shape)):
        window = padded[
            n,
            g * c_in : (g + 1) * c_in,
            y * stride : y * stride + (height - 1) * dilation + 1 : dilation,
            x * stride : x * stride + (width - 1) * dilation + 1 : dilation,
        ]
        result[n, g, o, y, x] = (window * filters[g, o]).sum()
    return result.reshape(len(data), groups * c_out, rows, columns)


@pytest.mark.parametrize("block_size", [1, 40, 300, 1 << 20])
@pytest.mark.parametrize(("groups", "c_out", "c_in"), [(1, 3, 4), (2, 2, 3), (4, 1, 1)])
def test_result_does_not_depend_on_block_size(monkeypatch, block_size, groups, c_out, c_in):
    for module in (backprop, deformable):
        monkeypatch.setattr(module, "BLOCK_SIZE", block_size)
    rng = np.random.default_rng(7)
    data = rng.normal(size=(3, groups * c_in, 6, 7))
    filters = rng.normal(size=(groups, c_out, c_in, 3, 2))
    expected = convolve_by_definition(data, filters, 2, 1, 1)
    result = group_convolution_1(data, filters, **make_attributes(2, stride=2, pad=1))
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)

    # The transposed convolution is the adjoint: <conv(x), y> equals <x, backprop(y)> for all x and y.
    y = rng.normal(size=expected.shape)
    back = group_convolution_backprop_data_1(y, filters, np.array([6, 7]), **make_attributes(2, stride=2, pad=1))
    assert back.shape == data.shape
    np.testing.assert_allclose((expected * y).sum(), (data * back).sum(), rtol=1e-12)

    if groups == 1:
        offsets = np.zeros((3, 2 * 6, *expected.shape[2:]))
        undeformed = deformable_convolution_8(data, offsets, filters[0], **make_attributes(2, stride=2, pad=1))
        np.testing.assert_allclose(undeformed, expected, rtol=1e-5, atol=1e-5)


def test_integer_sums_wrap():
    data = np.full((1, 1, 3), 100, np.int8)
    filters = np.full((1, 1, 3), 3, np.int8)
    assert convolution_1(data, filters, **make_attributes(1)).tolist() == [[[np.int8(900 - 1024)]]]


def test_negative_padding_crops():
    data = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    filters = np.ones((1, 1, 2), np.float32)
    attributes = make_attributes(1) | {"pads_begin": [-2], "pads_end": [1]}
    assert convolution_1(data, filters, **attributes).tolist() == [[[5, 7, 9, 5]]]


def test_empty_batch_or_channels():
    shape = convolution_1(np.zeros((0, 2, 5)), np.zeros((3, 2, 2)), **make_attributes(1)).shape
    assert shape == (0, 3, 4)
    assert not convolution_1(np.zeros((1, 0, 5)), np.zeros((3, 0, 2)), **make_attributes(1)).any()
    assert group_convolution_1(np.zeros((1, 0, 5)), np.zeros((0, 1, 1, 2)), **make_attributes(1)).shape == (1, 0, 4)
    offsets, data = np.zeros((1, 8, 4, 4), np.float32), np.zeros((1, 0, 5, 5), np.float32)
    filters = np.zeros((2, 0, 2, 2), np.float32)
    result = deformable_convolution_8(data, offsets, filters, **make_attributes(2))
    assert result.shape == (1, 2, 4, 4)
    assert not result.any()


def test_inputs_may_be_read_only():
    data, filters = np.ones((1, 1, 4)), np.ones((1, 1, 1))
    data.setflags(write=False)
    filters.setflags(write=False)
    assert convolution_1(data, filters, **make_attributes(1)).tolist() == [[[1, 1, 1, 1]]]


def test_binary_convolution_counts_equal_bits():
    data = np.array([1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1], np.float32).reshape(1, 1, 4, 4)
    filters = np.array([1, 0, 1, 0, 1, 0, 1, 0, 1], np.uint8).reshape(1, 1, 3, 3)
    attributes = {"mode": "xnor-popcount", "pad_value": 0.0}
    result = binary_convolution_1(data, filters, **make_attributes(2), **attributes)
    assert result.reshape(-1).tolist() == [1, 1, 3, -1]
    result = binary_convolution_1(data, filters, **make_attributes(2, pad=1), **attributes)
    assert result.reshape(-1).tolist() == [1, -3, -1, 1, -3, 1, 1, -5, -3, 3, -1, 1, 1, -5, 1, -3]
    attributes["pad_value"] = 1.0
    result = binary_convolution_1(data, filters, **make_attributes(2, pad=1), **attributes)
    assert result.reshape(-1).tolist() == [3, -1, 1, 3, -1, 1, 1, -3, -1, 3, -1, 3, 3, -3, 3, -1]


@pytest.mark.parametrize(
    ("data", "filters", "attributes", "message"),
    [
        ((1, 2, 5), (3, 4, 2), make_attributes(1), "channels"),
        ((1, 2, 5, 5), (3, 2, 2), make_attributes(1), "kernel"),
        ((1, 2, 5), (3, 2), make_attributes(1), "C_OUT"),
        ((1, 2, 5), (3, 2, 6), make_attributes(1), "does not fit"),
        ((1, 2, 5), (3, 2, 2), make_attributes(1, stride=0), "strides"),
        ((1, 2, 5), (3, 2, 2), make_attributes(2), "one for each"),
    ],
)
def test_mismatched_inputs_are_reported(data, filters, attributes, message):
    with pytest.raises(InputError, match=message):
        convolution_1(np.zeros(data), np.zeros(filters), **attributes)


def test_transposed_convolution_reports_mismatched_inputs():
    with pytest.raises(InputError, match="does not match filters"):
        convolution_backprop_data_1(np.zeros((1, 2, 5)), np.zeros((3, 2, 2)), **make_attributes(1))
    with pytest.raises(InputError, match="spatial shape"):
        convolution_backprop_data_1(np.zeros((1, 2, 1)), np.zeros((2, 2, 2)), **make_attributes(1, pad=1))


def test_deformable_convolution_reports_mismatched_inputs():
    data, filters = np.zeros((1, 4, 5, 5)), np.zeros((2, 4, 3, 3))
    with pytest.raises(InputError, match="offsets"):
        deformable_convolution_8(data, np.zeros((1, 17, 3, 3)), filters, **make_attributes(2))
    with pytest.raises(InputError, match="mask"):
        deformable_convolution_8(data, np.zeros((1, 18, 3, 3)), filters, np.zeros((1, 3)), **make_attributes(2))
    with pytest.raises(InputError, match="deformable_group"):
        deformable_convolution_8(data, np.zeros((1, 18, 3, 3)), filters, **make_attributes(2), deformable_group=3)


def test_empty_batch_produces_empty_batch():
    data = np.zeros((0, 2, 4, 4), np.float32)
    assert convolution_1(data, np.ones((3, 2, 2, 2), np.float32), **make_attributes(2)).shape == (0, 3, 3, 3)
    result = convolution_backprop_data_1(data, np.ones((2, 3, 2, 2), np.float32), **make_attributes(2, stride=2))
    assert result.shape == (0, 3, 8, 8)
    result = deformable_convolution_8(data, np.zeros((0, 8, 3, 3)), np.ones((3, 2, 2, 2)), **make_attributes(2))
    assert result.shape == (0, 3, 3, 3)
    assert group_convolution_backprop_data_1(data, np.ones((2, 1, 3, 2, 2)), **make_attributes(2)).shape == (0, 6, 5, 5)


def test_windows_in_padding_after_cropped_data_are_zero():
    data = np.ones((1, 1, 2), np.float32)
    attributes = make_attributes(1) | {"pads_begin": [-3], "pads_end": [4]}
    assert not convolution_1(data, np.ones((1, 1, 1), np.float32), **attributes).any()
