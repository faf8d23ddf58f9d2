"""Sounds: WAV files, and the features that Whisper reads."""

from __future__ import annotations

import functools
import os
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import describe_value
from irrun.errors import InputError

__all__ = ["RATE", "FeatureExtractor", "read_sound"]

Array = np.ndarray[Any, Any]

#: Samples per second.
RATE = 16000
#: Maximum sizes of features.
MAX_SIZES = {
    "feature_size": 1024,
    "sampling_rate": 192_000,
    "hop_length": 192_000,
    "n_fft": 65_536,
    "chunk_length": 600,
    "nb_max_frames": 200_000,
}


def read_sound(path: str | os.PathLike[str], rate: int = RATE) -> Array:
    """Read a WAV file with 8, 16, 24 or 32-bit PCM samples as one channel.

    Channels are averaged. A file with another sampling rate is resampled in the frequency domain: frequencies that the
    new rate cannot represent are removed, and all others stay unchanged.

    Args:
        path: The path.
        rate: Samples per second of the result.

    Returns:
        f32 of shape [samples], from -1 to 1.

    Raises:
        InputError: The file cannot be read, is in another format, or has no samples.
    """
    try:
        with Path(path).open("rb") as file, wave.open(file) as reader:
            width, channels, found = reader.getsampwidth(), reader.getnchannels(), reader.getframerate()
            content = reader.readframes(reader.getnframes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (wave.Error, EOFError, ValueError, ArithmeticError) as error:
        reason = str(error) or "the file is truncated"
        raise InputError(f"{path} is not a WAV file with PCM samples: {reason}") from None
    if width not in (1, 2, 3, 4) or channels < 1 or found < 1:
        raise InputError(f"{path} has {8 * width} bits, {channels} channels and {found} Hz, which is not supported")
    content = content[: len(content) // (width * channels) * width * channels]
    if not content:
        raise InputError(f"{path} has no samples")
    values = _decode(content, width).reshape(-1, channels).mean(axis=1)
    return _resample(values, found, rate).astype(np.float32)


def _decode(content: bytes, width: int) -> Array:
    """Convert the bytes of samples to f64 from -1 to 1."""
    if width == 1:
        return np.frombuffer(content, np.uint8) / 128.0 - 1
    padded = np.zeros((len(content) // width, 4), np.uint8)
    padded[:, 4 - width :] = np.frombuffer(content, np.uint8).reshape(-1, width)
    return padded.view("<i4")[:, 0] / 2.0**31


def _resample(values: Array, old: int, new: int) -> Array:
    """Return samples at another rate."""
    if old == new:
        return values
    count = max(round(len(values) * new / old), 1)
    spectrum = np.fft.rfft(values)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * (count / len(values))


@dataclass(frozen=True)
class FeatureExtractor:
    """Computes log-mel features of sounds, as Whisper expects them.

    Attributes:
        feature_size: The number of bands.
        sampling_rate: Samples per second.
        hop_length: Samples between two frames.
        n_fft: Samples of a frame.
        chunk_length: The window of the model in seconds.
        nb_max_frames: The window of the model in frames.
        reflects_end: Whether the end of a recording of at least that length is mirrored, as in Whisper's training, or
            followed by silence, as in OpenVINO GenAI. At most the last two frames differ.
    """

    feature_size: int = 80
    sampling_rate: int = RATE
    hop_length: int = 160
    n_fft: int = 400
    chunk_length: int = 30
    nb_max_frames: int = 3000
    reflects_end: bool = True

    def __post_init__(self) -> None:
        """Check the sizes, which limit the memory.

        Raises:
            InputError: A size is out of range.
        """
        for name, limit in MAX_SIZES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
                raise InputError(f"preprocessor_config.json: {name} is {describe_value(value)}; expected 1 to {limit}")
        if self.hop_length > self.chunk_length * self.sampling_rate:
            raise InputError(f"preprocessor_config.json: hop_length is {self.hop_length}, longer than a chunk")

    def extract(self, samples: Array) -> Array:
        """Return the features of a sound, f32 of shape [bands, frames].

        A sound shorter than the window is padded with silence.

        Args:
            samples: f32 of shape [samples], from -1 to 1.

        Raises:
            InputError: The sound is shorter than half a frame, or contains infinite values or NaN.
        """
        if samples.ndim != 1 or len(samples) <= self.n_fft // 2:
            raise InputError(
                f"the sound has the shape {list(samples.shape)}; expected one channel of more than {self.n_fft // 2} "
                "samples"
            )
        if not np.isfinite(samples).all():
            raise InputError("the sound contains infinite values or NaN")
        length = max(len(samples), self.chunk_length * self.sampling_rate)
        padded = np.zeros(length)
        padded[: len(samples)] = samples
        padded = np.pad(padded, self.n_fft // 2, "reflect")
        if not self.reflects_end:
            padded[self.n_fft // 2 + length :] = 0
        count = length // self.hop_length
        frames = np.lib.stride_tricks.sliding_window_view(padded, self.n_fft)[:: self.hop_length][:count]
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.n_fft) / self.n_fft)
        filters = make_filters(self.feature_size, self.n_fft, self.sampling_rate)
        features = np.empty((self.feature_size, count))
        for start in range(0, count, 1000):  # limits the memory
            spectrum = np.fft.rfft(frames[start : start + 1000] * window)
            features[:, start : start + 1000] = filters @ (spectrum.real**2 + spectrum.imag**2).T
        logarithms: Array = np.log10(np.maximum(features, 1e-10))
        result: Array = ((np.maximum(logarithms, logarithms.max() - 8) + 4) / 4).astype(np.float32)
        return result


@functools.lru_cache(maxsize=4)
def make_filters(count: int, size: int, rate: int) -> Array:
    """Return triangular filters of Slaney's mel scale, each of the same area, f64 of shape [count, size // 2 + 1].

    The scale is linear up to 1000 Hz and logarithmic above.

    Args:
        count: The number of filters.
        size: Samples of a frame.
        rate: Samples per second.
    """
    step = np.log(6.4) / 27
    top = 15 + np.log(rate / 2 / 1000) / step
    mels = np.linspace(0, top, count + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(step * (mels - 15)))
    slopes = edges[:, None] - np.linspace(0, rate / 2, size // 2 + 1)
    widths = np.diff(edges)[:, None]
    triangles: Array = np.maximum(0, np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]))
    filters: Array = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters
