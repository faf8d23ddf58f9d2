"""`ContinuousBatchingPipeline`: requests for texts, which run together token by token."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from irrun.openvino.errors import translate_errors
from irrun.openvino.tensor import Tensor
from irrun.openvino_genai.chat_history import ChatHistory
from irrun.openvino_genai.enumerations import GenerationFinishReason, GenerationStatus
from irrun.openvino_genai.generation_config import GenerationConfig
from irrun.openvino_genai.language_model import GeneratedTokens
from irrun.openvino_genai.llm_pipeline import LLMPipeline
from irrun.openvino_genai.perf_metrics import PerfMetrics
from irrun.openvino_genai.scheduler_config import SchedulerConfig
from irrun.openvino_genai.tokenizer import Tokenizer

__all__ = [
    "ContinuousBatchingPipeline",
    "EncodedGenerationResult",
    "GenerationHandle",
    "GenerationOutput",
    "GenerationResult",
    "PipelineMetrics",
]

_SIGNATURES: tuple[tuple[str, ...], ...] = (
    ("models_path", "tokenizer", "scheduler_config", "device", "properties"),
    (
        "models_path",
        "scheduler_config",
        "device",
        "properties",
        "tokenizer_properties",
        "vision_encoder_properties",
    ),
)


@dataclass
class PipelineMetrics:
    """What the last step did. There is no common cache, so its numbers are 0.

    Attributes:
        requests: The number of requests.
        scheduled_requests: The number of requests that got a token.
    """

    requests: int = 0
    scheduled_requests: int = 0
    cache_usage: float = 0.0
    max_cache_usage: float = 0.0
    avg_cache_usage: float = 0.0
    cache_size_in_bytes: int = 0
    kv_cache_size_in_bytes: int = 0
    la_peak_pool_blocks: int = 0


@dataclass
class GenerationOutput:
    """Tokens of a sequence, since the last time that they were read.

    Attributes:
        generated_ids: The tokens.
        generated_log_probs: The logarithms of their probabilities.
        score: The sum of all logarithms of the sequence.
        finish_reason: Why the sequence ended; NONE while it does not.
    """

    generated_ids: list[int] = field(default_factory=list)
    generated_log_probs: list[float] = field(default_factory=list)
    score: float = 0.0
    finish_reason: GenerationFinishReason = GenerationFinishReason.NONE


class GenerationResult:
    """The texts of a request.

    Attributes:
        m_request_id: The number of the request.
        m_generation_ids: The texts.
        m_scores: Sums of the logarithms of probabilities.
        m_status: The state of the request.
        perf_metrics: How long it took.
        extended_perf_metrics: Always None.
    """

    def __init__(self) -> None:
        self.m_request_id = 0
        self.m_generation_ids: list[Any] = []
        self.m_scores: list[float] = []
        self.m_status = GenerationStatus.RUNNING
        self.perf_metrics = PerfMetrics()
        self.extended_perf_metrics = None

    def get_generation_ids(self) -> list[Any]:
        """Return the texts."""
        return self.m_generation_ids

    def __repr__(self) -> str:
        texts = "".join(
            f"{{ {score:g}, {text} }}\n" for score, text in zip(self.m_scores, self.m_generation_ids, strict=True)
        )
        return f"<py_continuous_batching.GenerationResult {self.m_request_id}\n{texts}\n>"


class EncodedGenerationResult:
    """The tokens of a request.

    Attributes:
        m_request_id: The number of the request.
        m_generation_ids: The tokens of each sequence.
        m_scores: Sums of the logarithms of probabilities.
        finish_reasons: Why each sequence ended.
        perf_metrics: How long it took.
        extended_perf_metrics: Always None.
    """

    def __init__(self) -> None:
        self.m_request_id = 0
        self.m_generation_ids: list[list[int]] = []
        self.m_scores: list[float] = []
        self.finish_reasons: list[GenerationFinishReason] = []
        self.perf_metrics = PerfMetrics()
        self.extended_perf_metrics = None


class GenerationHandle:
    """A request, whose tokens are read while it runs.

    Args:
        results: Yields the sequences after each token and at the end.
    """

    def __init__(self, results: Iterator[list[GeneratedTokens]]) -> None:
        self._results = results
        self._sequences: list[GeneratedTokens] = []
        self._status = GenerationStatus.RUNNING
        self._read: list[int] = []
        self._is_new = False

    def _step(self) -> bool:
        """Generate a token, and return whether the request goes on."""
        if self._status in (GenerationStatus.STOP, GenerationStatus.CANCEL):
            self._status = GenerationStatus.IGNORED
            return False
        self._sequences, self._is_new = next(self._results), True
        if all(sequence.is_finished for sequence in self._sequences):
            self._status = GenerationStatus.FINISHED
        return self._status is GenerationStatus.RUNNING

    def _take(self) -> list[GenerationOutput]:
        """Return the tokens that were not read."""
        if not self._is_new:
            return []
        self._is_new = False
        is_finished = self._status is GenerationStatus.FINISHED
        read = self._read or [0] * len(self._sequences)
        self._read = [len(sequence.tokens) for sequence in self._sequences]
        return [
            GenerationOutput(
                sequence.tokens[start:],
                sequence.logarithms[start:],
                sequence.score if is_finished else sum(sequence.logarithms, 0.0),
                sequence.reason if is_finished else GenerationFinishReason.NONE,
            )
            for start, sequence in zip(read, self._sequences, strict=True)
        ]

    def get_status(self) -> GenerationStatus:
        """Return the state of the request."""
        return self._status

    def can_read(self) -> bool:
        """Return whether there are tokens that were not read."""
        return self._is_new and self._status not in (GenerationStatus.STOP, GenerationStatus.CANCEL)

    def read(self) -> dict[int, GenerationOutput]:
        """Return the tokens that were not read, by the number of their sequence."""
        return dict(enumerate(self._take()))

    def read_all(self) -> list[GenerationOutput]:
        """Return the tokens that were not read, the most probable sequence first."""
        return sorted(self._take(), key=lambda output: -output.score)

    def stop(self, finish_reason: GenerationFinishReason = GenerationFinishReason.STOP) -> None:
        """End the request, and keep its tokens."""
        self._status = GenerationStatus.STOP

    def cancel(self) -> None:
        """End the request, and drop its tokens."""
        self._status = GenerationStatus.CANCEL


class ContinuousBatchingPipeline:
    """Continues the texts of several requests together.

    The arguments are `(models_path, scheduler_config, device, properties, tokenizer_properties,
    vision_encoder_properties)` or `(models_path, tokenizer, scheduler_config, device, properties)`; properties may be
    left out. Further keywords are properties of the device.

    Raises:
        RuntimeError: A file is missing or invalid, or the device or a property is unknown.
        TypeError: An argument is missing or of another type.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        has_tokenizer = "tokenizer" in kwargs or (len(args) > 1 and isinstance(args[1], Tokenizer))
        names = _SIGNATURES[0] if has_tokenizer else _SIGNATURES[1]
        values = dict(zip(names, args, strict=False))
        values |= {name: kwargs.pop(name) for name in names[len(args) :] if name in kwargs}
        required = names[: names.index("properties")]
        if len(args) > len(names) or not set(required) <= set(values):
            raise TypeError(f"ContinuousBatchingPipeline(): incompatible constructor arguments: expected {required}")
        if not isinstance(values["scheduler_config"], SchedulerConfig):
            raise TypeError("ContinuousBatchingPipeline(): incompatible constructor arguments: no SchedulerConfig")
        properties: Mapping[str, Any] = {**(values.get("properties") or {}), **kwargs}
        tokenizer = (values["tokenizer"],) if has_tokenizer else ()
        self._pipeline = LLMPipeline(values["models_path"], *tokenizer, values["device"], **properties)
        self._requests: list[GenerationHandle] = []
        self._metrics = PipelineMetrics()

    def get_tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        return self._pipeline.get_tokenizer()

    def get_config(self) -> GenerationConfig:
        """Return a copy of the default configuration."""
        return self._pipeline.get_generation_config()

    def get_metrics(self) -> PipelineMetrics:
        """Return what the last step did."""
        return copy.copy(self._metrics)

    def start_chat(self, system_message: str = "") -> None:
        """Begin a chat. It is deprecated."""
        self._pipeline.start_chat(system_message)

    def finish_chat(self) -> None:
        """End a chat. It is deprecated."""
        self._pipeline.finish_chat()

    def generate(self, prompts: Any, generation_config: Any = None, streamer: Any = None, **kwargs: Any) -> list[Any]:
        """Continue texts.

        Args:
            prompts: Texts, chats or tensors of tokens, as a list with a list of configurations, or one.
            generation_config: The options of each prompt, or of the only one.
            streamer: Receives the text of a single prompt.
            **kwargs: `input_ids` in place of `prompts`, and options that override the configuration.

        Returns:
            A `GenerationResult` for each prompt, or an `EncodedGenerationResult` for tokens.

        Raises:
            IndexError: There are fewer configurations than prompts.
            RuntimeError: An option is out of range, or a layer failed.
            TypeError: An argument has a wrong type.
        """
        is_single = isinstance(prompts, (str, ChatHistory))
        items = [prompts] if is_single else prompts
        configs = [generation_config] if is_single else generation_config
        if not isinstance(items, Sequence) or not isinstance(configs, Sequence):
            raise TypeError("generate(): incompatible function arguments: expected prompts and as many configurations")
        if streamer is not None and len(items) > 1:
            raise RuntimeError(
                "Currently streaming is possible only with batch size=1 and only for greedy or multinomial decoding"
            )
        if len(configs) < len(items):
            raise IndexError(f"there are {len(configs)} configurations, expected {len(items)}")
        results = []
        for i, (item, config) in enumerate(zip(items, configs, strict=False)):
            output = self._pipeline.generate([item] if isinstance(item, str) else item, config, streamer, **kwargs)
            result: Any = EncodedGenerationResult() if isinstance(item, Tensor) else GenerationResult()
            result.m_request_id, result.m_scores = i, output.scores
            result.perf_metrics = output.perf_metrics
            if isinstance(item, Tensor):
                result.m_generation_ids, result.finish_reasons = output.tokens, output.finish_reasons
            else:
                result.m_generation_ids, result.m_status = output.texts, GenerationStatus.FINISHED
            results.append(result)
        self._metrics = PipelineMetrics(len(items), len(items))
        return results

    @translate_errors
    def add_request(self, request_id: int, prompt: Any, generation_config: GenerationConfig) -> GenerationHandle:
        """Add a request, which `step` continues.

        Args:
            request_id: Its number.
            prompt: A text, a chat, or a tensor of tokens.
            generation_config: The options.

        Raises:
            RuntimeError: An option is out of range.
            TypeError: An argument has a wrong type.
        """
        if not isinstance(generation_config, GenerationConfig):
            raise TypeError("add_request(): incompatible function arguments: expected a GenerationConfig")
        handle = GenerationHandle(self._pipeline._iterate(prompt, generation_config))
        self._requests.append(handle)
        return handle

    @translate_errors
    def step(self) -> None:
        """Generate a token of each request.

        Raises:
            RuntimeError: A layer failed.
        """
        scheduled = sum(request.get_status() is GenerationStatus.RUNNING for request in self._requests)
        self._metrics = PipelineMetrics(len(self._requests), scheduled)
        self._requests = [request for request in self._requests if request._step()]

    def has_non_finished_requests(self) -> bool:
        """Return whether a request goes on."""
        return bool(self._requests)
