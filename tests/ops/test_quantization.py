"""Quantization operations: edge cases and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.quantization import fake_convert_13, fake_quantize_1


def make_limits(*values):
    return [np.array([v], np.float32) for v in values]


def test_fake_quantize_rounds_to_nearest_even():
    data = np.array([-1, 0, 0.5, 1.5, 2.5, 3.5, 99], np.float32)
    assert fake_quantize_1(data, *make_limits(0, 15, 0, 15), levels=16).tolist() == [0, 0, 0, 2, 2, 4, 15]


def test_fake_quantize_supports_scalars_in_f64():
    result = fake_quantize_1(np.float64(0.3) * np.ones(()), *(np.array(v, np.float64) for v in (0, 1, 0, 1)), levels=11)
    assert result.shape == ()
    assert result.dtype == np.float64
    assert float(result) == pytest.approx(0.3, rel=1e-15)


def test_fake_quantize_pdpd_matches_leading_dimensions():
    data = np.full((2, 3), 5, np.float32)
    high = np.array([1, 9], np.float32)
    low = np.zeros(2, np.float32)
    result = fake_quantize_1(data, low, high, low, high, levels=256, auto_broadcast="pdpd")
    assert result[0].tolist() == [1, 1, 1]
    np.testing.assert_allclose(result[1], 5, atol=9 / 255)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0, 1, 0, 1), [0, 0, 0.5, 1, 1]),
        ((0, 1, 1, 0), [1, 1, 0.5, 0, 0]),
        ((0.5, 0.5, 2, 3), [2, 2, 2, 3, 3]),
        ((0, 1, 0, np.inf), [0, 0, np.inf, np.inf, np.inf]),
        ((0, 1, 4, 4), [4, 4, 4, 4, 4]),
    ],
)
def test_fake_quantize_maps_values_outside_of_the_range_to_its_limits(limits, expected):
    data = np.float32([-1, 0, 0.5, 1, 2])
    with np.errstate(all="ignore"):
        result = fake_quantize_1(data, *make_limits(*limits), levels=3)
    assert result.tolist() == expected


def test_fake_quantize_rejects_invalid_limits_and_levels():
    with pytest.raises(InputError, match="broadcast"):
        fake_quantize_1(np.zeros((2, 3), np.float32), *[np.zeros((2,), np.float32)] * 4, levels=16)
    with pytest.raises(InputError, match="levels"):
        fake_quantize_1(np.zeros(3, np.float32), *make_limits(0, 1, 0, 1), levels=1)


@pytest.mark.parametrize(("kind", "dtype"), [("f8e4m3", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)])
def test_fake_convert_keeps_values_of_the_8_bit_type(kind, dtype):
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    values = values[np.isfinite(values)]
    result = fake_convert_13(values, np.ones(1, np.float32), destination_type=kind)
    np.testing.assert_array_equal(result, values)


def test_fake_convert_is_f8e4m3_by_default():
    data = np.array([1.3, 100.7, -449], np.float32)
    one = np.ones(1, np.float32)
    np.testing.assert_array_equal(fake_convert_13(data, one), fake_convert_13(data, one, destination_type="f8e4m3"))
    assert (fake_convert_13(data, one) != fake_convert_13(data, one, destination_type="f8e5m2")).any()


def test_fake_convert_saturates():
    data = np.array([1e30, -1e30, 449, -60000], np.float32)
    one = np.ones(1, np.float32)
    with np.errstate(over="ignore"):
        assert fake_convert_13(data, one, destination_type="f8e4m3").tolist() == [448, -448, 448, -448]
        assert fake_convert_13(data, one, destination_type="f8e5m2").tolist() == [57344, -57344, 448, -57344]
