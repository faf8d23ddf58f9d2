"""Tests of Fourier transforms that conformance tests do not cover: errors, f64, inverses."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.limits import limit_allocations
from irrun.ops.signals import dft_7, idft_7, irdft_9, istft_16, rdft_9, stft_15


def create_random(*shape):
    return np.random.default_rng(1).normal(size=shape)


def test_transforms_of_f64_have_precision_of_f64():
    x = create_random(3, 5, 8, 2)
    axes = np.array([-1, 0])
    result = dft_7(x, axes)
    assert result.dtype == np.float64
    expected = np.fft.fft2(x[..., 0] + 1j * x[..., 1], axes=(2, 0))
    np.testing.assert_allclose(result[..., 0] + 1j * result[..., 1], expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(idft_7(result, axes), x, atol=1e-13)
    real = x[..., 0]
    np.testing.assert_allclose(irdft_9(rdft_9(real, axes), axes, np.array([8, 3])), real, atol=1e-13)


def test_dft_without_axes_changes_nothing():
    x = create_random(3, 2).astype(np.float32)
    np.testing.assert_array_equal(dft_7(x, np.zeros(0, np.int64)), x)


@pytest.mark.parametrize("step", [2, 3, 8])
@pytest.mark.parametrize("transpose", [True, False])
def test_istft_inverts_stft(step, transpose):
    size, length = 8, 8 + 5 * step
    signal = create_random(2, length)
    window = np.hanning(size + 2)[1:-1]
    spectrum = stft_15(signal, window, np.array(size), np.array(step), transpose_frames=transpose)
    assert spectrum.shape == ((2, 5, 6, 2) if transpose else (2, 6, 5, 2))
    if not transpose:
        spectrum = spectrum.swapaxes(1, 2)
    result = istft_16(spectrum, window, np.array(size), np.array(step), center=False, normalized=False)
    np.testing.assert_allclose(result, signal, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_stft_and_istft_have_shapes_of_specification(batch):
    window, size, step = np.ones(7), np.array(11), np.array(3)
    signal = create_random(*batch, 56)
    assert stft_15(signal, window, size, step, transpose_frames=False).shape == (*batch, 16, 6, 2)
    spectrum = stft_15(signal, window, size, step, transpose_frames=True)
    assert spectrum.shape == (*batch, 6, 16, 2)
    for center, length, expected in (
        (False, [], 56),
        (False, [np.array(64)], 64),
        (False, [np.array([64])], 64),
        (True, [], 46),  # the specification has 45, which holds only for frames of even size
    ):
        with np.errstate(invalid="ignore"):  # no frame covers the ends
            result = istft_16(spectrum, window, size, step, *length, center=center, normalized=False)
        assert result.shape == (*batch, expected)


def test_invalid_inputs_are_reported():
    x = create_random(4, 6, 2).astype(np.float32)
    with pytest.raises(InputError, match="complex"):
        dft_7(x[..., :1], np.array([0]))
    with pytest.raises(InputError, match="axes"):
        dft_7(x, np.array([2]))
    with pytest.raises(InputError, match="twice"):
        dft_7(x, np.array([0, -2]))
    with pytest.raises(InputError, match="signal_size has 1 elements, expected 2"):
        rdft_9(x, np.array([0, 1]), np.array([3]))
    with pytest.raises(InputError, match=r"signal_size is \[-2\]"):
        irdft_9(x, np.array([0]), np.array([-2]))
    eight, four, window = np.array(8), np.array(4), np.ones(8, np.float32)
    with pytest.raises(InputError, match="length >= 8"):
        stft_15(x[:, :, 0], window, eight, four, transpose_frames=False)
    with pytest.raises(InputError, match="window"):
        stft_15(create_random(20), np.ones(9), eight, four, transpose_frames=False)
    with pytest.raises(InputError, match="frame_step are 8 and 0"):
        stft_15(create_random(20), window, eight, np.array(0), transpose_frames=False)
    with pytest.raises(InputError, match="frames of size 8"):
        istft_16(x, window, eight, four, center=True, normalized=False)


def test_empty_batch_has_empty_result():
    eight, four, window = np.array(8), np.array(4), np.ones(8, np.float32)
    assert stft_15(np.zeros((0, 40), np.float32), window, eight, four, transpose_frames=True).shape == (0, 5, 9, 2)
    spectrum = np.zeros((0, 5, 3, 2), np.float32)
    assert istft_16(spectrum, window, eight, four, center=False, normalized=False).shape == (0, 16)


def test_transform_of_empty_data_is_empty():
    spectrum, axes = np.zeros((3, 0, 2), np.float32), np.array([0, 1])
    for transform in (dft_7, idft_7):
        assert transform(spectrum, axes).shape == (3, 0, 2)
        assert transform(np.ones((3, 2), np.float32), axes[:1], axes[:1]).shape == (0, 2)
    assert rdft_9(np.zeros((3, 0), np.float32), axes).shape == (3, 0, 2)
    assert rdft_9(np.zeros((0, 3), np.float32), axes).shape == (0, 2, 2)
    assert irdft_9(spectrum, axes).shape == (3, 0)
    single = irdft_9(np.ones((3, 1, 2), np.float32), axes)  # 2 * (1 - 1) elements
    assert single.shape == (3, 0)
    assert single.dtype == np.float32


def test_elements_that_no_window_covers_are_zero():
    spectrum = np.ones((3, 2, 2), np.float32)
    for window in (np.float32([0, 0, 0, 0]), np.float32([0, 1, 1, 0])):
        with np.errstate(invalid="ignore"):
            result = istft_16(spectrum, window, np.array(4), np.array(4), center=False, normalized=False)
        assert result.shape == (8,)
        np.testing.assert_array_equal(result[np.tile(window, 2) == 0], 0)
        assert np.isfinite(result).all()


@pytest.mark.parametrize("shape", [(3, 1, 2), (0, (1 << 43) + 1, 1, 2)])
def test_memory_of_frames_is_limited(shape):
    """The distance of frames and the size of frames of an empty batch do not depend on the memory that data takes."""
    size, window = np.array(2 * (shape[-3] - 1)), np.ones(4, np.float32)
    with pytest.raises(InputError, match=r"the result would take .* bytes, expected at most"):
        istft_16(np.ones(shape, np.float32), window, size, np.array(1 << 44), center=False, normalized=False)


def test_long_frames_take_memory_of_their_length():
    size, step = 1 << 14, 1 << 13
    window = np.ones(size, np.float32)
    signal = create_random(3 * step).astype(np.float32)
    frames = stft_15(signal, window, np.array(size), np.array(step), transpose_frames=True)
    with limit_allocations(1 << 22):
        result = istft_16(frames, window, np.array(size), np.array(step), center=False, normalized=False)
    np.testing.assert_allclose(result, signal, atol=1e-5)
