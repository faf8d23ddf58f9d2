"""The times of a generation."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["MeanStdPair", "PerfMetrics", "RawPerfMetrics", "SummaryStats"]


@dataclass(frozen=True, repr=False)
class MeanStdPair:
    """A mean and a standard deviation, -1 if there is nothing to measure.

    Attributes:
        mean: The mean.
        std: The standard deviation.
    """

    mean: float = 0.0
    std: float = 0.0

    def __iter__(self) -> Iterator[float]:
        return iter((self.mean, self.std))


@dataclass(frozen=True, repr=False)
class SummaryStats:
    """A mean, a standard deviation, a minimum and a maximum.

    Attributes:
        mean: The mean.
        std: The standard deviation.
        min: The minimum.
        max: The maximum.
    """

    mean: float = 0.0
    std: float = 0.0
    min: float = 0.0
    max: float = 0.0

    def as_tuple(self) -> tuple[float, float, float, float]:
        """Return the four numbers."""
        return self.mean, self.std, self.min, self.max


@dataclass(repr=False)
class RawPerfMetrics:
    """Times in microseconds.

    Attributes:
        generate_durations: Times of calls of generate.
        tokenization_durations: Times for converting prompts to tokens.
        detokenization_durations: Times for converting tokens to texts.
        chat_template_durations: Times for applying the chat template.
        m_times_to_first_token: Time to the first token of each call.
        m_new_token_times: When tokens were chosen, from an arbitrary start.
        token_infer_durations: Times of the model runs for each token.
        m_batch_sizes: Tokens of each run.
        m_durations: Times between tokens.
        inference_durations: Total time of the model runs of each call.
        grammar_compile_times: Always empty, since there is no structured output.
        sampling_durations: Times for choosing tokens.
    """

    generate_durations: list[float] = field(default_factory=list)
    tokenization_durations: list[float] = field(default_factory=list)
    detokenization_durations: list[float] = field(default_factory=list)
    chat_template_durations: list[float] = field(default_factory=list)
    m_times_to_first_token: list[float] = field(default_factory=list)
    m_new_token_times: list[float] = field(default_factory=list)
    token_infer_durations: list[float] = field(default_factory=list)
    m_batch_sizes: list[int] = field(default_factory=list)
    m_durations: list[float] = field(default_factory=list)
    inference_durations: list[float] = field(default_factory=list)
    grammar_compile_times: list[float] = field(default_factory=list)
    sampling_durations: list[float] = field(default_factory=list)


class PerfMetrics:
    """Statistics of the times of a generation, in milliseconds. The times of several calls are added up.

    Attributes:
        raw_metrics: The times.
    """

    def __init__(self) -> None:
        self.raw_metrics = RawPerfMetrics()
        self._load_time = 0.0
        self._input_tokens = 0
        self._generated_tokens = 0

    def __add__(self, metrics: PerfMetrics) -> PerfMetrics:
        """Return the metrics of all calls.

        Raises:
            RuntimeError: The metrics come from different pipelines.
        """
        if not isinstance(metrics, PerfMetrics):
            return NotImplemented
        if metrics._load_time != self._load_time:
            raise RuntimeError("generation metrics can be accumulated only for the same pipeline")
        result = copy.deepcopy(self)
        for name, values in vars(metrics.raw_metrics).items():
            if name != "m_new_token_times":
                getattr(result.raw_metrics, name).extend(values)
        result._input_tokens += metrics._input_tokens
        result._generated_tokens += metrics._generated_tokens
        return result

    __iadd__ = __add__

    def get_load_time(self) -> float:
        """Return the time for reading and compiling in milliseconds."""
        return self._load_time

    def get_num_generated_tokens(self) -> int:
        """Return the number of generated tokens."""
        return self._generated_tokens

    def get_num_input_tokens(self) -> int:
        """Return the number of tokens of the prompt."""
        return self._input_tokens

    def get_ttft(self) -> MeanStdPair:
        """Return the time to the first token."""
        return measure(self.raw_metrics.m_times_to_first_token)

    def get_tpot(self) -> MeanStdPair:
        """Return the time per token after the first one."""
        return measure(self.raw_metrics.m_durations)

    def get_ipot(self) -> MeanStdPair:
        """Return the time of model runs per token."""
        return measure(self.raw_metrics.token_infer_durations)

    def get_throughput(self) -> MeanStdPair:
        """Return the number of tokens per second."""
        mean, std = self.get_tpot()
        return MeanStdPair(1000 / mean if mean else math.inf, std * 1000 / mean**2 if mean else math.nan)

    def get_inference_duration(self) -> MeanStdPair:
        """Return the time of model runs per call."""
        return measure(self.raw_metrics.inference_durations)

    def get_generate_duration(self) -> MeanStdPair:
        """Return the time of a call."""
        return measure(self.raw_metrics.generate_durations)

    def get_tokenization_duration(self) -> MeanStdPair:
        """Return the time for converting a prompt to tokens."""
        return measure(self.raw_metrics.tokenization_durations)

    def get_detokenization_duration(self) -> MeanStdPair:
        """Return the time for converting tokens to a text."""
        return measure(self.raw_metrics.detokenization_durations)

    def get_chat_template_duration(self) -> MeanStdPair:
        """Return the time for applying the chat template."""
        return measure(self.raw_metrics.chat_template_durations)

    def get_sampling_duration(self) -> MeanStdPair:
        """Return the time for choosing tokens."""
        return measure(self.raw_metrics.sampling_durations)

    def get_grammar_compiler_init_times(self) -> dict[str, float]:
        """Return an empty dictionary, since there is no structured output."""
        return {}

    def get_grammar_compile_time(self) -> SummaryStats:
        """Return -1, since there is no structured output."""
        return SummaryStats(-1.0, -1.0, -1.0, -1.0)


def measure(durations: Sequence[float]) -> MeanStdPair:
    """Return the mean and the standard deviation of durations in milliseconds.

    Args:
        durations: The durations in microseconds.
    """
    if not durations:
        return MeanStdPair(-1.0, -1.0)
    mean = sum(durations) / len(durations)
    variance = sum((duration - mean) ** 2 for duration in durations) / len(durations)
    return MeanStdPair(mean / 1000, math.sqrt(variance) / 1000)
