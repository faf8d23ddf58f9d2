"""Transcription of speech by Whisper: an encoder of features, and a decoder that continues forced tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import describe_value
from irrun.errors import InputError, ModelError
from irrun.generation.folder_files import read_object
from irrun.generation.sampling import Sampler
from irrun.generation.sound import MAX_SIZES, FeatureExtractor, read_sound
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions, find_file
from irrun.generation.transcription_config import TranscriptionConfig
from irrun.ir.reader import read_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.options import RunSettings
from irrun.runtime.request import InferRequest

__all__ = ["Segment", "SpeechRecognizer", "Transcript", "transcribe"]

Array = np.ndarray[Any, Any]

#: The replacement of an incomplete character, which the next token may complete.
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
#: Inputs of the decoder. `beam_idx` gives the cache row that each row continues.
INPUTS = ("input_ids", "encoder_hidden_states", "cache_position", "beam_idx")


@dataclass(frozen=True)
class Segment:
    """A part of a text.

    Attributes:
        start: The start in seconds.
        end: The end in seconds; -1 if the model does not give it.
        text: The text.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Transcript:
    """A transcript.

    Attributes:
        text: The text.
        language: The language of the speech, such as "en".
        segments: The segments, if timestamps were requested.
        tokens: The tokens, without times.
        duration: The duration of the recording in seconds.
        seconds: The computation time in seconds.
    """

    text: str
    language: str
    segments: tuple[Segment, ...]
    tokens: tuple[int, ...]
    duration: float
    seconds: float


class SpeechRecognizer:
    """Transcribes speech with the models in a folder.

    The decoder is openvino_decoder_model.xml. It keeps its key-value cache in variables, as optimum-intel exports it;
    a decoder without variables recomputes all tokens in each step.

    Args:
        folder: The folder with openvino_encoder_model.xml, openvino_decoder_model.xml and a tokenizer.
        **options: Options of runs, such as `jit`, `threads`, `memory`, and `timeout` per run.

    Attributes:
        config: The configuration in generation_config.json.
        tokenizer: Converts tokens to texts.
        extractor: Computes the features.

    Raises:
        InputError: A file is missing or damaged.
        ModelError: A model is damaged, or has other inputs or outputs.
    """

    def __init__(self, folder: str | Path, **options: Any) -> None:
        path = Path(folder)
        self._settings = RunSettings(**options)
        encoder = read_model(find_file(path, "openvino_encoder_model.xml"))
        decoder = read_model(find_file(path, "openvino_decoder_model.xml"))
        self.tokenizer = TextTokenizer.read(path, self._settings)
        self.config = TranscriptionConfig.read(path)
        if self.config.generation.eos_token_id is None and not self.config.generation.stop_token_ids:
            token = self.tokenizer.get_token("eos_token_id")
            if token is None:
                raise InputError(f"{path} has no eos_token_id, the token that ends a text")
            self.config = self.config.replace({"eos_token_id": token})
        values = read_object(path / "preprocessor_config.json")
        sizes = {name: values[name] for name in MAX_SIZES if name in values}
        self.extractor = FeatureExtractor(**sizes)
        positions = read_object(path / "config.json")
        self._source_positions = _get_size(positions, "max_source_positions", 1500)
        self._target_positions = _get_size(positions, "max_target_positions", 448)
        self._encoder, self._decoder = self._settings.compile(encoder), self._settings.compile(decoder)
        self._inputs = _check_models(self._encoder, self._decoder)
        self._is_stateful = "beam_idx" in self._inputs

    def transcribe(
        self,
        samples: Array,
        config: TranscriptionConfig | None = None,
        streamer: Callable[[list[int]], object] | None = None,
    ) -> Transcript:
        """Transcribe speech.

        A recording that is longer than the model's window of 30 s is divided at the ends of segments.

        Args:
            samples: f32 of shape [samples], from -1 to 1, with the sampling rate of `extractor`.
            config: The options; by default, `config` of the recognizer.
            streamer: Called with new tokens. If it returns True, the text ends.

        Raises:
            InputError: The recording is too short, or contains infinite values.
            IrrunError: A layer failed.
        """
        start = time.perf_counter()
        config = config or self.config
        samples = np.asarray(samples, np.float32)
        features = self.extractor.extract(samples)
        width, count = self.extractor.nb_max_frames, features.shape[1]
        has_times = config.return_timestamps or count > width
        context = [self._encode_context(text, config) for text in (config.initial_prompt, config.hotwords)]
        seconds_per_frame = self.extractor.hop_length / self.extractor.sampling_rate
        tokens: list[int] = []
        segments: list[Segment] = []
        prompt: list[int] = []
        language, offset = "", 0
        while offset < count:
            chunk = np.zeros((1, features.shape[0], width), np.float32)
            part = features[:, offset : offset + width]
            chunk[0, :, : part.shape[1]] = part
            states = self._encode(chunk)
            if not prompt:
                prompt, language = self._make_prompt(states, config)
            before = [*(context[0] if offset == 0 else ()), *context[1]]
            before = [config.prev_sot_token_id, *before] if before else []
            after = [] if has_times else [config.no_timestamps_token_id]
            new, is_stopped = self._decode(
                states, [*before, *prompt, *after], config, has_times, None if has_times else streamer
            )
            if not has_times:
                tokens = new
                break
            found, kept, step = self._divide(new, config, offset * seconds_per_frame)
            segments += found
            tokens += kept
            if is_stopped or (streamer is not None and kept and streamer(kept) is True):
                break
            offset += step
        text = self.decode(tokens)
        return Transcript(
            text,
            language,
            tuple(segments) if config.return_timestamps else (),
            tuple(tokens),
            len(samples) / self.extractor.sampling_rate,
            time.perf_counter() - start,
        )

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens. Special tokens are omitted."""
        return self.tokenizer.decode(np.array([tokens], np.int64).reshape(1, -1))[0]

    def _encode_context(self, text: str | None, config: TranscriptionConfig) -> list[int]:
        """Return the tokens of a text placed before the speech."""
        if not text:
            return []
        tokens, _ = self.tokenizer.encode([f" {text}"], TokenizerOptions(add_special_tokens=False))
        special = (config.decoder_start_token_id, config.generation.eos_token_id, config.no_timestamps_token_id)
        return [token for token in tokens[0].tolist() if token not in special]

    def _encode(self, features: Array) -> Array:
        """Return the hidden states of features, f32 of shape [1, positions, size]."""
        outputs = self._settings.infer(self._encoder, {"input_features": features})
        states: Array = outputs["last_hidden_state"]
        return states

    def _make_prompt(self, states: Array, config: TranscriptionConfig) -> tuple[list[int], str]:
        """Return the forced tokens of a text, and its language."""
        start = config.decoder_start_token_id
        if not config.is_multilingual:
            return [start], "en"
        if config.language is not None:
            language = config.find_language()
        else:
            if not config.lang_to_id:
                raise InputError("generation_config.json has no lang_to_id, the tokens of languages")
            scores = self._run(self._decoder.create_infer_request(), states, 0, [start])
            self._check_tokens(config.lang_to_id.values(), scores)
            language = max(config.lang_to_id.values(), key=lambda token: scores[token])
        name = next((name for name, token in config.lang_to_id.items() if token == language), "")
        task = config.translate_token_id if config.task == "translate" else config.transcribe_token_id
        return [start, language, task], name.strip("<|>")

    def _decode(
        self,
        states: Array,
        prompt: list[int],
        config: TranscriptionConfig,
        has_times: bool,
        streamer: Callable[[list[int]], object] | None,
    ) -> tuple[list[int], bool]:
        """Continue forced tokens; return the new tokens, and whether the streamer ended the text."""
        generation = config.generation
        if generation.max_new_tokens is None and generation.max_length is None:
            generation = generation.replace({"max_length": self._target_positions})
        limit = min(generation.count_tokens(len(prompt)), max(self._target_positions - len(prompt), 0))
        request, sampler = self._decoder.create_infer_request(), Sampler(generation, prompt)
        tokens: list[int] = []
        past, new = 0, list(prompt)
        while len(tokens) < limit:
            scores = self._run(request, states, past, new)
            self._suppress(scores, tokens, config, has_times)
            tokens.append(sampler.choose(scores))
            past, new = past + len(new), tokens[-1:]
            if not self._is_stateful:
                past, new = 0, [*prompt, *tokens]
            if streamer is not None and streamer(tokens[-1:]) is True:
                return tokens, True
            if tokens[-1] in generation.end_tokens and len(tokens) >= generation.min_new_tokens:
                break
        return tokens, False

    def _run(self, request: InferRequest, states: Array, past: int, tokens: Sequence[int]) -> Array:
        """Return the scores of the next token, f32 of shape [vocabulary]."""
        values: dict[str, Array] = {
            "input_ids": np.array([tokens], np.int64),
            "encoder_hidden_states": states,
            "cache_position": np.arange(past, past + len(tokens), dtype=np.int64),
            "beam_idx": np.zeros(1, np.int32),
        }
        inputs = {name: values[name] for name in self._inputs}
        logits = request.infer(inputs, timeout=self._settings.timeout)["logits"]
        scores: Array = logits[0, -1].astype(np.float32)
        return scores

    def _suppress(self, scores: Array, tokens: Sequence[int], config: TranscriptionConfig, has_times: bool) -> None:
        """Set the scores of disallowed tokens to -infinity."""
        suppressed = [*config.suppress_tokens, *(config.begin_suppress_tokens if not tokens else ())]
        self._check_tokens(suppressed, scores)
        scores[suppressed] = -np.inf
        if not has_times:
            return
        begin = config.no_timestamps_token_id + 1
        self._check_tokens([begin], scores)
        scores[begin - 1] = -np.inf
        is_time = [token >= begin for token in tokens]
        was_time, was_time_before = bool(is_time) and is_time[-1], len(is_time) < 2 or is_time[-2]
        if was_time and was_time_before:  # text must follow a time that begins a segment
            scores[begin:] = -np.inf
        elif was_time:  # a segment may begin, or the text end
            scores[: config.generation.eos_token_id or 0] = -np.inf
        times = [token for token in tokens if token >= begin]
        if times:  # times do not decrease
            scores[begin : times[-1] + (0 if was_time and not was_time_before else 1)] = -np.inf
        if not tokens:
            scores[:begin] = -np.inf
            scores[begin + config.max_initial_timestamp_index + 1 :] = -np.inf
        with np.errstate(invalid="ignore"):  # all tokens may be suppressed
            exponentials = np.exp(scores - scores.max())
        if exponentials[begin:].sum(dtype=np.float32) > exponentials[:begin].max():
            scores[:begin] = -np.inf  # a timestamp is more probable than any text

    def _check_tokens(self, tokens: Any, scores: Array) -> None:
        wrong = [token for token in tokens if not 0 <= token < len(scores)]
        if wrong:
            raise ModelError(
                f"generation_config.json contains the token {wrong[0]}, but the decoder has {len(scores)} tokens",
                path=self._decoder.model.path,
            )

    def _divide(
        self, tokens: Sequence[int], config: TranscriptionConfig, offset: float
    ) -> tuple[list[Segment], list[int], int]:
        """Divide tokens at timestamps.

        Args:
            tokens: The tokens of a chunk.
            config: The configuration.
            offset: The start of the chunk in seconds.

        Returns:
            The segments, their tokens, and the number of frames to the start of the next chunk.
        """
        begin, width = config.no_timestamps_token_id + 1, self.extractor.nb_max_frames
        seconds = self.extractor.chunk_length / self._source_positions  # of a step of times
        segments: list[Segment] = []
        kept: list[int] = []
        first: int | None = None  # the position of the time that begins a segment
        step = 0
        for i, token in enumerate(tokens):
            if token < begin:
                continue
            if first is None:
                first = i
            elif token != tokens[first]:
                part = list(tokens[first + 1 : i])
                start = (tokens[first] - begin) * seconds + offset
                segments.append(Segment(start, (token - begin) * seconds + offset, self.decode(part)))
                kept += part
                step, first = (token - begin) * 2, None
        if first is not None and first < len(tokens) - 1 and not segments:
            part = list(tokens[first + 1 :])
            segments.append(Segment((tokens[first] - begin) * seconds + offset, -1.0, self.decode(part)))
            kept += part
            step = width
        return segments, kept, width if first is None or step < 1 else step


def transcribe(
    folder: str | Path,
    speech: str | os.PathLike[str] | Array,
    config: TranscriptionConfig | Mapping[str, Any] | None = None,
    streamer: Callable[[str], object] | None = None,
    **options: Any,
) -> Transcript:
    """Transcribe speech with the Whisper model in a folder; see `SpeechRecognizer`.

    Args:
        folder: A folder exported by optimum-intel.
        speech: The path of a WAV file, or f32 of shape [samples], from -1 to 1, with 16,000 samples per second.
        config: A configuration, or changes to the folder's configuration: `{"language": "en"}`.
        streamer: Called with each part of the text as soon as it is known. If it returns True, the text ends.
        **options: Options of `SpeechRecognizer`.

    Raises:
        IrrunError: A file is missing or damaged, an option is out of range, or a layer failed.
    """
    recognizer = SpeechRecognizer(folder, **options)
    if not isinstance(config, TranscriptionConfig):
        config = recognizer.config.replace(config or {})
    samples = speech if isinstance(speech, np.ndarray) else read_sound(speech, recognizer.extractor.sampling_rate)
    writer = _Writer(recognizer, streamer) if streamer is not None else None
    result = recognizer.transcribe(samples, config, writer)
    if writer is not None:
        writer.finish(result.text)
    return result


class _Writer:
    """Streams parts of a text as soon as no later token can change them.

    Args:
        recognizer: Decodes tokens.
        streamer: Receives the parts.
    """

    def __init__(self, recognizer: SpeechRecognizer, streamer: Callable[[str], object]) -> None:
        self._recognizer, self._streamer = recognizer, streamer
        self._tokens: list[int] = []
        self._written = 0

    def __call__(self, tokens: Sequence[int]) -> bool:
        """Stream the text that new tokens add, and return whether the text ends."""
        self._tokens += tokens
        text = self._recognizer.decode(self._tokens)
        return not text.endswith(INCOMPLETE) and self.finish(text)

    def finish(self, text: str) -> bool:
        """Stream the rest of a text, and return whether the text ends."""
        part, self._written = text[self._written :], max(self._written, len(text))
        return bool(part) and self._streamer(part) is True


def _get_size(values: Mapping[str, Any], name: str, default: int) -> int:
    value = values.get(name, default)
    if not isinstance(value, int) or value < 1:
        raise InputError(f"config.json: {name} is {describe_value(value)}; expected a positive integer")
    return value


def _check_models(encoder: CompiledModel, decoder: CompiledModel) -> list[str]:
    """Return the names of the inputs of the decoder.

    Raises:
        ModelError: A model has other inputs or outputs.
    """
    for model, wanted, outputs in (
        (encoder, ("input_features",), "last_hidden_state"),
        (decoder, INPUTS, "logits"),
    ):
        names = [next((name for name in wanted if name in spec.names), spec.any_name) for spec in model.inputs]
        found = [name for spec in model.outputs for name in spec.names]
        if wanted[0] not in names or any(name not in wanted for name in names) or outputs not in found:
            raise ModelError(
                f"the inputs are {', '.join(names) or 'none'}, the outputs {', '.join(found) or 'none'}; expected "
                f"{', '.join(wanted)}, and the output {outputs}",
                path=model.model.path,
            )
    return names
