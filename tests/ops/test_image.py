"""Tests of image operations that conformance tests do not cover: errors, known values, comparison with Pillow."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support import registry
from irrun.ops._support.numerics import round_half_away
from irrun.ops.image.color import bgr_to_nv12_17, i420_to_rgb_8, nv12_to_bgr_8, nv12_to_rgb_8, rgb_to_nv12_17
from irrun.ops.image.grid_sample import grid_sample_9
from irrun.ops.image.interpolate import interpolate_1, interpolate_4, interpolate_11


def resize(x, target, axes=(2, 3), by="sizes", **attributes):
    attributes = {"mode": "nearest", "shape_calculation_mode": by, **attributes}
    target = np.array(target, np.int64 if by == "sizes" else np.float32)
    return interpolate_11(x, target, np.array(axes), **attributes)


def test_interpolate_accepts_attributes_as_written_in_files():
    operation = registry.find("Interpolate", "opset4")
    bound = operation.bind(
        {
            "mode": "linear_onnx",
            "shape_calculation_mode": "scales",
            "pads_begin": "0, 0, 1, 1",
            "pads_end": "0",
            "antialias": "false",
            "cube_coeff": "-0.75",
        }
    )
    x = np.ones((1, 1, 2, 2), np.float32)
    result = operation.kernel(x, np.array([1, 1]), np.array([2, 2], np.float32), np.array([2, 3]), **bound)
    assert result.shape == (1, 1, 6, 6)
    operation = registry.find("Interpolate", "opset1")
    bound = operation.bind({"axes": "2,3", "mode": "nearest", "align_corners": "0", "pads_begin": "0", "pads_end": "0"})
    assert operation.kernel(x, np.array([3, 4]), **bound).shape == (1, 1, 3, 4)


@pytest.mark.parametrize("mode", ["bilinear_pillow", "bicubic_pillow"])
def test_interpolate_pillow_modes_match_pillow(mode):
    image = pytest.importorskip("PIL.Image")
    method = image.Resampling.BILINEAR if mode == "bilinear_pillow" else image.Resampling.BICUBIC
    x = np.random.default_rng(0).normal(size=(13, 17)).astype(np.float32)
    for height, width in ((5, 7), (26, 9), (13, 30)):
        expected = np.asarray(image.fromarray(x).resize((width, height), method))
        result = resize(x, (height, width), (0, 1), mode=mode, cube_coeff=-0.5)
        np.testing.assert_allclose(result, expected, atol=1e-6)


def test_interpolate_nearest_keeps_values_of_any_type():
    x = np.arange(4, dtype=np.uint64).reshape(2, 2) + 2**63
    assert resize(x, (4, 2), (0, 1)).tolist() == x.repeat(2, axis=0).tolist()


def test_interpolate_to_size_zero_is_empty_but_from_size_zero_is_reported():
    assert resize(np.zeros((1, 1, 3, 3), np.float32), (0, 5), mode="cubic").shape == (1, 1, 0, 5)
    assert resize(np.zeros((0, 1, 0, 3), np.float32), (2, 2)).shape == (0, 1, 2, 2)
    with pytest.raises(InputError, match="empty"):
        resize(np.zeros((1, 1, 0, 3), np.float32), (2, 2))


@pytest.mark.parametrize(
    ("attributes", "target", "axes", "message"),
    [
        ({}, (2,), (2, 3), "found 1 sizes for 2 axes"),
        ({}, (2, -1), (2, 3), "negative"),
        ({}, (2, 2), (2, 4), "axes 4 is out of range"),
        ({}, (2, 2), (2, -2), "twice"),
        ({"by": "scales"}, (2, np.nan), (2, 3), "finite"),
        ({"pads_begin": [0, 0, -1]}, (2, 2), (2, 3), "negative"),
        ({"mode": "bicubic_pillow"}, (2,), (2,), "two axes"),
    ],
)
def test_interpolate_invalid_inputs_are_reported(attributes, target, axes, message):
    with pytest.raises(InputError, match=message):
        resize(np.zeros((1, 1, 4, 4), np.float32), target, axes, **attributes)


def test_interpolate_4_uses_sizes_or_scales():
    x = np.arange(4, dtype=np.float32)
    arguments = x, np.array([8]), np.array([0.5], np.float32)
    assert interpolate_4(*arguments, mode="nearest", shape_calculation_mode="sizes").shape == (8,)
    assert interpolate_4(*arguments, mode="nearest", shape_calculation_mode="scales").shape == (2,)


def test_interpolate_1_ignores_pads_of_other_axes():
    x = np.ones((2, 3, 4, 4), np.float32)
    result = interpolate_1(
        x, np.array([8, 8]), axes=[2, 3], mode="nearest", pads_begin=[1, 0, 0, 0], pads_end=[0, 1, 0, 0]
    )
    assert result.shape == (2, 3, 8, 8)
    assert (result == 1).all()


def test_interpolate_1_applies_single_pad_to_all_resized_axes():
    x = np.arange(1, 9, dtype=np.float32).reshape(2, 1, 2, 2)
    result = interpolate_1(x, np.array([4, 4]), axes=[2, 3], mode="nearest", pads_begin=[1], pads_end=[1])
    np.testing.assert_array_equal(result, np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))))


def test_round_half_away_rounds_away_from_zero():
    x = np.array([0.5, 1.5, -0.5, -2.5, 0.49999997, 8388609.0], np.float32)
    assert round_half_away(x).tolist() == [1, 2, -1, -3, 0, 8388609]


def test_color_conversion_has_known_values():
    # From OpenVINO's tests, which tolerate a difference of 2.
    red = np.array([0x51] * 4 + [0x5A, 0xF0], np.uint8).reshape(1, 3, 2, 1)
    for rgb in (nv12_to_rgb_8(red), i420_to_rgb_8(red)):
        assert np.abs(rgb.reshape(4, 3).astype(int) - [255, 0, 0]).max() <= 2
    mixed = np.array([0x51, 0xEB, 0x51, 0xEB, 0x6D, 0xB8], np.uint8).reshape(1, 3, 2, 1)
    bgr = nv12_to_bgr_8(mixed).reshape(4, 3).astype(int)
    assert np.abs(bgr - [[37, 37, 164], [215, 216, 255]] * 2).max() <= 2
    assert nv12_to_rgb_8(red).tolist() == [[[[254, 0, 0]] * 2] * 2]


def test_nv12_round_trip_preserves_colors():
    # Colors that are constant over 2x2 pixels change only by rounding.
    rgb = np.random.default_rng(0).integers(40, 200, (1, 4, 4, 3)).repeat(2, 1).repeat(2, 2).astype(np.uint8)
    result = nv12_to_rgb_8(rgb_to_nv12_17(rgb))
    assert np.abs(result.astype(int) - rgb).max() <= 3
    planes = bgr_to_nv12_17(rgb[..., ::-1], single_plane=False)
    np.testing.assert_array_equal(nv12_to_rgb_8(*planes), result)


def test_color_conversion_invalid_shapes_are_reported():
    zeros = np.zeros
    with pytest.raises(InputError, match="even H and W"):
        nv12_to_rgb_8(zeros((1, 4, 2, 1), np.uint8))
    with pytest.raises(InputError, match="the UV plane"):
        nv12_to_rgb_8(zeros((1, 4, 4, 1), np.uint8), zeros((1, 2, 2, 1), np.uint8))
    with pytest.raises(InputError, match="the V plane"):
        i420_to_rgb_8(*(zeros(s, np.uint8) for s in ((1, 4, 4, 1), (1, 2, 2, 1), (1, 2, 3, 1))))
    with pytest.raises(InputError, match="found 2 planes"):
        i420_to_rgb_8(zeros((1, 6, 4, 1), np.uint8), zeros((1, 2, 2, 1), np.uint8))
    with pytest.raises(InputError, match="expected"):
        rgb_to_nv12_17(zeros((1, 3, 4, 3), np.uint8))


def test_grid_sample_reports_invalid_shapes_and_accepts_nan():
    data = np.ones((1, 2, 3, 4), np.float32)
    with pytest.raises(InputError, match="grid"):
        grid_sample_9(data, np.zeros((1, 2, 2, 3), np.float32))
    with pytest.raises(InputError, match="at least one pixel"):
        grid_sample_9(data[:, :, :0], np.zeros((1, 2, 2, 2), np.float32), padding_mode="border")
    assert not grid_sample_9(data[:, :, :0], np.zeros((1, 2, 2, 2), np.float32)).any()
    grid = np.full((1, 1, 1, 2), np.nan, np.float32)
    with np.errstate(all="ignore"):
        assert grid_sample_9(data, grid, mode="nearest").tolist() == [[[[0]], [[0]]]]


def test_grid_sample_truncates_booleans():
    data = np.array([True, True, False]).reshape(1, 1, 1, 3)
    grid = np.array([[-1, 0], [-0.5, 0], [0, 0], [0.5, 0], [1, 0]], np.float32).reshape(1, 1, 5, 2)
    result = grid_sample_9(data, grid, align_corners=True)
    assert result.dtype == np.bool_
    assert result.reshape(-1).tolist() == [True, True, True, False, False]


def test_inputs_are_not_modified():
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(np.float32)
    before = x.copy()
    x.flags.writeable = False
    for mode in ("nearest", "linear", "linear_onnx", "cubic", "bicubic_pillow"):
        resize(x, (4, 6), mode=mode, pads_begin=[0, 0, 0, 0])
    grid_sample_9(x, np.zeros((1, 2, 2, 2), np.float32), mode="bicubic")
    np.testing.assert_array_equal(x, before)


def test_interpolate_by_small_scales_is_empty():
    image = np.ones((1, 1, 2, 2), np.float32)
    for mode in ("nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow"):
        result = interpolate_11(
            image, np.array([0.1, 1], np.float32), np.array([2, 3]), mode=mode, shape_calculation_mode="scales"
        )
        assert result.shape == (1, 1, 0, 2)


def test_antialiasing_does_not_change_enlarged_images():
    x = np.random.default_rng(0).standard_normal((1, 1, 5, 6)).astype(np.float32)
    for sizes in ((5, 12), (10, 6), (10, 12)):
        plain, smooth = (resize(x, sizes, mode="linear", antialias=antialias) for antialias in (False, True))
        np.testing.assert_array_equal(smooth, plain)
    plain, smooth = (resize(x, (2, 3), mode="linear", antialias=antialias) for antialias in (False, True))
    assert (smooth != plain).any()


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_only_volumes_are_averaged_by_antialiasing(rank):
    """As in the reference implementation, where "linear" of smaller ranks is "linear_onnx"."""
    x = np.random.default_rng(4).random((1,) * (rank - 2) + (2, 12)).astype(np.float32)
    size, axes = np.array([4]), [rank - 1]
    plain, smooth = (
        interpolate_1(x, size, axes=axes, mode="linear", align_corners=False, antialias=antialias)
        for antialias in (False, True)
    )
    assert np.array_equal(plain, smooth) == (rank < 5)
    if rank == 5:
        assert np.ptp(smooth) < np.ptp(plain)
