"""`LLMPipeline`: a language model that continues texts and tokens."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irrun.ir.reader import read_model
from irrun.openvino.errors import translate_errors
from irrun.openvino.tensor import Tensor
from irrun.openvino_genai.chat_history import ChatHistory
from irrun.openvino_genai.configured import ConfiguredPipeline
from irrun.openvino_genai.generation_config import UNLIMITED, GenerationConfig
from irrun.openvino_genai.language_model import GeneratedTokens, LanguageModel
from irrun.openvino_genai.parsers import apply_parsers
from irrun.openvino_genai.perf_metrics import PerfMetrics
from irrun.openvino_genai.results import DecodedResults, EncodedResults
from irrun.openvino_genai.settings import find_model, make_settings
from irrun.openvino_genai.streamers import TextParserStreamer, make_streamer
from irrun.openvino_genai.tokenizer import TokenizedInputs, Tokenizer

__all__ = ["LLMPipeline"]

#: The names of language models, in order of precedence.
MODELS = ("openvino_model.xml", "openvino_language_model.xml", "model.xml")
#: Names of the arguments of the three constructors.
SIGNATURES: tuple[tuple[str, ...], ...] = (
    ("model", "weights", "tokenizer", "device", "generation_config"),
    ("models_path", "tokenizer", "device", "config"),
    ("models_path", "device", "config"),
)
_DEPRECATED = (
    "start_chat() / finish_chat() API is deprecated and will be removed in the next major release. Please use "
    "generate() with ChatHistory argument."
)


@dataclass
class _Prompts:
    """Prompts as tokens, with the times of their conversion.

    Attributes:
        rows: The tokens of each prompt.
        tokenizations: Seconds of each conversion to tokens.
        templates: Seconds of each application of the chat template.
    """

    rows: list[list[int]] = field(default_factory=list)
    tokenizations: list[float] = field(default_factory=list)
    templates: list[float] = field(default_factory=list)


class LLMPipeline(ConfiguredPipeline[GenerationConfig]):
    """Continues texts.

    The arguments are one of `(models_path, device)`, `(models_path, tokenizer, device)` and `(model, weights,
    tokenizer, device, generation_config=None)`, with a folder, or the contents of a model and a tensor of its weights.
    Further keywords are properties of the device.

    Raises:
        RuntimeError: A file is missing or invalid, or the device or a property is unknown.
        TypeError: An argument is missing.
    """

    @translate_errors
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        start = time.perf_counter()
        values = _bind(args, kwargs)
        config = values.get("config") or {}
        if config:
            warnings.warn(
                "'config' parameters is deprecated, please use kwargs to pass config properties instead.",
                DeprecationWarning,
                stacklevel=3,
            )
        settings = make_settings(values["device"], {**config, **kwargs})
        if "model" in values:
            weights = values["weights"]
            model = read_model(values["model"].encode(), np.ascontiguousarray(weights.data))
            self._tokenizer: Tokenizer = values["tokenizer"]
            self._config = copy.deepcopy(values.get("generation_config") or GenerationConfig())
        else:
            folder = Path(values["models_path"])
            model = read_model(find_model(folder, *MODELS))
            self._tokenizer = values.get("tokenizer") or Tokenizer(folder)
            path = folder / "generation_config.json"
            self._config = GenerationConfig(path) if path.exists() else GenerationConfig()
        self._set_end_token(self._config)
        self._model = LanguageModel(model, settings, self._tokenizer)
        self._chat: ChatHistory | None = None
        self._load_time = (time.perf_counter() - start) * 1000

    def start_chat(self, system_message: str = "") -> None:
        """Begin a chat: prompts and answers are added to a history. It is deprecated."""
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        self._chat = ChatHistory([{"role": "system", "content": system_message}] if system_message else [])

    def finish_chat(self) -> None:
        """End a chat. It is deprecated."""
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        self._chat = None

    @translate_errors
    def generate(
        self, inputs: Any, generation_config: GenerationConfig | None = None, streamer: Any = None, **kwargs: Any
    ) -> Any:
        """Continue texts.

        Args:
            inputs: A text, several, a `ChatHistory`, `TokenizedInputs`, or a tensor of tokens.
            generation_config: The options; None for the default configuration.
            streamer: A function of texts, or a `StreamerBase`, which receives tokens.
            **kwargs: Options that override the configuration.

        Returns:
            A str for a text, `EncodedResults` for tokens, or else `DecodedResults`.

        Raises:
            RuntimeError: An option is out of range, or a layer failed.
            TypeError: An argument has a wrong type.
        """
        start = time.perf_counter()
        if generation_config is not None and not isinstance(generation_config, GenerationConfig):
            raise TypeError("generate(): incompatible function arguments: expected a GenerationConfig")
        config = copy.deepcopy(generation_config or self._config)
        config.update_generation_config(**kwargs)
        self._set_end_token(config)
        config.validate()
        is_text = not isinstance(inputs, (Tensor, TokenizedInputs))
        if isinstance(streamer, TextParserStreamer):
            streamer.reset()
        prompts = self._encode(inputs, config) if is_text else _Prompts(_list_rows(inputs))
        results = self._generate(
            prompts.rows, config, streamer, self._chat is not None or isinstance(inputs, ChatHistory)
        )
        metrics = self._measure(prompts, results, start)
        options: dict[str, Any] = {
            "scores": [result.score for result in results],
            "finish_reasons": [result.reason for result in results],
            "perf_metrics": metrics,
        }
        if not is_text:
            metrics.raw_metrics.generate_durations.append((time.perf_counter() - start) * 1e6)
            return EncodedResults([result.tokens for result in results], **options)
        texts = []
        for result in results:
            before = time.perf_counter()
            texts.append(self._tokenizer.decode(result.tokens))
            metrics.raw_metrics.detokenization_durations.append((time.perf_counter() - before) * 1e6)
        metrics.raw_metrics.generate_durations.append((time.perf_counter() - start) * 1e6)
        if self._chat is not None and not isinstance(inputs, ChatHistory):
            if results[0].is_cancelled:
                self._chat.pop()
            else:
                self._chat.append({"role": "assistant", "content": texts[0]})
        if isinstance(inputs, str) and config.num_return_sequences == 1:
            return texts[0]
        messages = [streamer.get_parsed_message()] if isinstance(streamer, TextParserStreamer) else []
        return DecodedResults(texts, apply_parsers(config.parsers, texts, messages), **options)

    __call__ = generate

    def _encode(self, inputs: Any, config: GenerationConfig) -> _Prompts:
        """Return the tokens of texts or of a chat."""
        if not isinstance(inputs, (str, ChatHistory)) and not (
            isinstance(inputs, Sequence) and all(isinstance(text, str) for text in inputs)
        ):
            raise TypeError(
                "generate(): incompatible function arguments: expected a str, a list of str, a ChatHistory, "
                f"TokenizedInputs or a Tensor, found {type(inputs).__name__}"
            )
        prompts = _Prompts()
        if isinstance(inputs, ChatHistory):
            if not self._tokenizer.chat_template:
                raise RuntimeError("Chat template must not be empty when using ChatHistory in generate method.")
            if not config.apply_chat_template:
                raise RuntimeError("Chat template must be applied when using ChatHistory in generate method.")
            if not len(inputs):
                raise RuntimeError("Chat history must not be empty when using ChatHistory in generate method.")
            self._encode_chat(inputs, prompts)
            return prompts
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        if self._chat is not None:
            if len(texts) != 1:
                raise RuntimeError("Can't chat with multiple prompts")
            self._chat.append({"role": "user", "content": texts[0]})
            self._encode_chat(self._chat, prompts)
            return prompts
        for text in texts:
            if config.apply_chat_template and self._tokenizer.chat_template:
                self._encode_chat(ChatHistory([{"role": "user", "content": text}]), prompts)
            else:
                self._encode_text(text, prompts, add_special_tokens=True)
        return prompts

    def _encode_chat(self, history: ChatHistory, prompts: _Prompts) -> None:
        start = time.perf_counter()
        text = self._tokenizer.apply_chat_template(history, True)
        prompts.templates.append(time.perf_counter() - start)
        self._encode_text(text, prompts, add_special_tokens=False)

    def _encode_text(self, text: str, prompts: _Prompts, add_special_tokens: bool) -> None:
        start = time.perf_counter()
        tokens = self._tokenizer.encode(text, add_special_tokens=add_special_tokens).input_ids.data
        prompts.rows.append(tokens[0].tolist())
        prompts.tokenizations.append(time.perf_counter() - start)

    def _generate(
        self, rows: Sequence[Sequence[int]], config: GenerationConfig, streamer: Any, is_chat: bool
    ) -> list[GeneratedTokens]:
        if not rows:
            raise IndexError("there are no prompts")
        if not all(rows):
            raise RuntimeError("Prompt length cannot be 0")
        writer = make_streamer(streamer, self._tokenizer)
        if writer is not None and (len(rows) > 1 or config.num_return_sequences > 1 or config.is_beam_search()):
            raise RuntimeError(
                "Currently streaming is possible only with batch size=1 and only for greedy or multinomial decoding"
            )
        if config.max_new_tokens == UNLIMITED and config.max_length == UNLIMITED:
            config.max_new_tokens = UNLIMITED - 1  # the end token or a stop string ends the text
        options = config._to_irrun()
        if options.num_beams > 1:
            return [result for row in rows for result in self._model.search(row, options)]
        has_logprobs = config.logprobs > 0
        if options.num_return_sequences > 1:
            return [result for row in rows for result in self._model.draw(row, options, has_logprobs)]
        return [self._model.generate(row, options, has_logprobs, writer, is_chat) for row in rows]

    def _iterate(self, inputs: Any, config: GenerationConfig) -> Iterator[list[GeneratedTokens]]:
        """Check the arguments of a request, and return an iterator of its results after each token.

        Several sequences are yielded at the end only.
        """
        config = copy.deepcopy(config)
        self._set_end_token(config)
        config.validate()
        is_text = not isinstance(inputs, (Tensor, TokenizedInputs))
        rows = self._encode(inputs, config).rows if is_text else _list_rows(inputs)
        if len(rows) != 1 or not rows[0]:
            raise RuntimeError(f"a request needs one prompt with tokens, found {len(rows)} prompts")
        if config.is_beam_search() or config.num_return_sequences > 1:
            return self._iterate_once(rows, config)
        options = config._to_irrun()
        return ([result] for result in self._model.iterate(rows[0], options, config.logprobs > 0))

    def _iterate_once(self, rows: Sequence[Sequence[int]], config: GenerationConfig) -> Iterator[list[GeneratedTokens]]:
        results = self._generate(rows, config, None, False)
        for result in results:
            result.is_finished = True
        yield results

    def _measure(self, prompts: _Prompts, results: Sequence[GeneratedTokens], start: float) -> PerfMetrics:
        """Return the times of a generation, given its start in seconds."""
        metrics = PerfMetrics()
        metrics._load_time = self._load_time
        metrics._input_tokens = len(prompts.rows[0])  # as OpenVINO GenAI counts
        raw = metrics.raw_metrics
        raw.tokenization_durations = [seconds * 1e6 for seconds in prompts.tokenizations]
        raw.chat_template_durations = [seconds * 1e6 for seconds in prompts.templates]
        for result in results:
            times = [seconds * 1e6 for seconds in result.times]
            raw.m_new_token_times += times
            raw.m_batch_sizes += [1] * len(times)
            raw.m_durations += np.diff(times).tolist()
            raw.token_infer_durations += [seconds * 1e6 for seconds in result.inferences]
            raw.sampling_durations += [seconds * 1e6 for seconds in result.samplings]
            metrics._generated_tokens += len(times)
        if raw.m_new_token_times:
            raw.m_times_to_first_token.append(raw.m_new_token_times[0] - start * 1e6)
        raw.inference_durations.append(sum(raw.token_infer_durations))
        return metrics


def _bind(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove arguments from the keywords, and return them by name.

    Raises:
        TypeError: An argument is missing.
    """
    if (len(args) > 1 and isinstance(args[1], Tensor)) or "model" in kwargs:
        names = SIGNATURES[0]
    elif (len(args) > 1 and isinstance(args[1], Tokenizer)) or "tokenizer" in kwargs:
        names = SIGNATURES[1]
    else:
        names = SIGNATURES[2]
    values = dict(zip(names, args, strict=False))
    values |= {name: kwargs.pop(name) for name in names[len(args) :] if name in kwargs}
    missing = [name for name in names[:-1] if name not in values]
    if missing or len(args) > len(names):
        raise TypeError(f"LLMPipeline(): incompatible constructor arguments: expected {', '.join(names)}")
    return values


def _list_rows(inputs: Tensor | TokenizedInputs) -> list[list[int]]:
    """Return the tokens of each prompt, without padding."""
    if isinstance(inputs, Tensor):
        rows: list[list[int]] = inputs.data.tolist()
        return rows
    masks = inputs.attention_mask.data == 1
    return [row[mask].tolist() for row, mask in zip(inputs.input_ids.data, masks, strict=True)]
