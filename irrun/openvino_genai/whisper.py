"""`WhisperPipeline`: speech as text."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from irrun.generation.transcription import SpeechRecognizer
from irrun.openvino.errors import translate_errors
from irrun.openvino_genai.configured import ConfiguredPipeline
from irrun.openvino_genai.enumerations import StreamingStatus
from irrun.openvino_genai.generation_config import WhisperGenerationConfig
from irrun.openvino_genai.perf_metrics import MeanStdPair, PerfMetrics, measure
from irrun.openvino_genai.settings import find_model, make_settings
from irrun.openvino_genai.streamers import make_streamer, to_status
from irrun.openvino_genai.tokenizer import Tokenizer

__all__ = [
    "WhisperDecodedResultChunk",
    "WhisperDecodedResults",
    "WhisperPerfMetrics",
    "WhisperPipeline",
    "WhisperRawPerfMetrics",
]


@dataclass(frozen=True, repr=False)
class WhisperDecodedResultChunk:
    """A part of a text.

    Attributes:
        start_ts: The start in seconds.
        end_ts: The end in seconds; -1 if the model does not give it.
        text: The text.
    """

    start_ts: float = -1.0
    end_ts: float = -1.0
    text: str = ""


@dataclass(repr=False)
class WhisperRawPerfMetrics:
    """Times in microseconds. They are not measured.

    Attributes:
        features_extraction_durations: Times for computing features.
        encode_inference_durations: Times of runs of the encoder.
        decode_inference_durations: Times of runs of the decoder.
        word_level_timestamps_processing_durations: Always empty.
    """

    features_extraction_durations: list[float] = field(default_factory=list)
    encode_inference_durations: list[float] = field(default_factory=list)
    decode_inference_durations: list[float] = field(default_factory=list)
    word_level_timestamps_processing_durations: list[float] = field(default_factory=list)


class WhisperPerfMetrics(PerfMetrics):
    """Statistics of the times of a call. Only the total time and the number of tokens are known.

    Attributes:
        whisper_raw_metrics: The times.
    """

    def __init__(self) -> None:
        super().__init__()
        self.whisper_raw_metrics = WhisperRawPerfMetrics()

    def get_features_extraction_duration(self) -> MeanStdPair:
        """Return the time for computing features."""
        return measure(self.whisper_raw_metrics.features_extraction_durations)

    def get_encode_inference_duration(self) -> MeanStdPair:
        """Return the time of a run of the encoder."""
        return measure(self.whisper_raw_metrics.encode_inference_durations)

    def get_decode_inference_duration(self) -> MeanStdPair:
        """Return the time of a run of the decoder."""
        return measure(self.whisper_raw_metrics.decode_inference_durations)

    def get_word_level_timestamps_processing_duration(self) -> MeanStdPair:
        """Return -1, since word timestamps are not supported."""
        return measure(self.whisper_raw_metrics.word_level_timestamps_processing_durations)


@dataclass(repr=False)
class WhisperDecodedResults:
    """A transcript.

    Attributes:
        texts: The text.
        scores: 1.
        language: The language, such as "en".
        chunks: The segments, if they were requested.
        words: Always None.
        perf_metrics: The times of the call.
    """

    texts: list[str]
    scores: list[float]
    language: str
    chunks: list[WhisperDecodedResultChunk] | None
    words: None
    perf_metrics: WhisperPerfMetrics

    def __str__(self) -> str:
        if len(self.texts) == 1:
            return self.texts[0]
        return "\n".join(f"{score:.6f}: {text}" for score, text in zip(self.scores, self.texts, strict=True))


class WhisperPipeline(ConfiguredPipeline[WhisperGenerationConfig]):
    """Transcribes speech.

    Args:
        models_path: A folder with openvino_encoder_model.xml, openvino_decoder_model.xml and a tokenizer.
        device: The device.
        **kwargs: Options of the configuration, and properties of the device.

    Raises:
        RuntimeError: A file is missing or invalid, or the device or a property is unknown.
    """

    @translate_errors
    def __init__(self, models_path: Any, device: str, **kwargs: Any) -> None:
        start = time.perf_counter()
        folder = Path(models_path)
        find_model(folder, "openvino_encoder_model.xml")
        properties = {name: value for name, value in kwargs.items() if name not in WhisperGenerationConfig._OPTIONS}
        self._recognizer = SpeechRecognizer(folder, **vars(make_settings(device, properties)))
        self._recognizer.extractor = replace(self._recognizer.extractor, reflects_end=False)
        self._tokenizer = Tokenizer(folder)
        path = folder / "generation_config.json"
        self._config = WhisperGenerationConfig(path if path.exists() else None, **kwargs)
        self._set_end_token(self._config)
        self._load_time = (time.perf_counter() - start) * 1000

    def _find_end_token(self) -> int:
        token = self._recognizer.config.generation.eos_token_id
        return -1 if token is None else token

    @translate_errors
    def generate(
        self,
        raw_speech_input: Any,
        generation_config: WhisperGenerationConfig | None = None,
        streamer: Any = None,
        **kwargs: Any,
    ) -> WhisperDecodedResults:
        """Transcribe speech.

        Args:
            raw_speech_input: Samples from -1 to 1, with 16,000 samples per second.
            generation_config: The options; None for the default configuration.
            streamer: A function of texts, or a `StreamerBase`, which receives tokens.
            **kwargs: Options that override the configuration.

        Raises:
            RuntimeError: An option is out of range, or a layer failed.
        """
        start = time.perf_counter()
        config = copy.deepcopy(generation_config or self._config)
        config.update_generation_config(**kwargs)
        self._set_end_token(config)
        config.validate()
        writer = make_streamer(streamer, self._tokenizer)

        def write(tokens: Sequence[int]) -> bool:
            return writer is not None and to_status(writer.write(tokens)) is not StreamingStatus.RUNNING

        samples = np.asarray(raw_speech_input, np.float32)
        result = self._recognizer.transcribe(samples, config._to_transcription(), write if writer else None)
        if writer is not None:
            writer.end()
        chunks = [
            WhisperDecodedResultChunk(float(np.float32(part.start)), float(np.float32(part.end)), part.text)
            for part in result.segments
        ]
        metrics = WhisperPerfMetrics()
        metrics._load_time = self._load_time
        metrics._generated_tokens = len(result.tokens)
        metrics.raw_metrics.generate_durations.append((time.perf_counter() - start) * 1e6)
        return WhisperDecodedResults(
            [result.text], [1.0], result.language, chunks if config.return_timestamps else None, None, metrics
        )
