"""The results of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irrun.openvino_genai.enumerations import GenerationFinishReason
from irrun.openvino_genai.perf_metrics import PerfMetrics

__all__ = ["DecodedResults", "EncodedResults"]


class _Results:
    """The common fields of results as texts and as tokens.

    Attributes:
        scores: Sums of the logarithms of probabilities; 0 for greedy decoding.
        finish_reasons: Why each sequence ended.
        perf_metrics: How long it took.
        extended_perf_metrics: Always None, since there is no speculative decoding.
    """

    def __init__(
        self,
        scores: Sequence[float] = (),
        finish_reasons: Sequence[GenerationFinishReason] = (),
        perf_metrics: PerfMetrics | None = None,
    ) -> None:
        self.scores = list(scores)
        self.finish_reasons = list(finish_reasons)
        self.perf_metrics = perf_metrics or PerfMetrics()
        self.extended_perf_metrics = None


class DecodedResults(_Results):
    """The texts of a generation, starting with all texts of the first prompt.

    Attributes:
        texts: The texts.
        parsed: The messages that parsers made of the texts; none without parsers.
    """

    def __init__(self, texts: Sequence[str] = (), parsed: Sequence[Any] = (), **others: Any) -> None:
        super().__init__(**others)
        self.texts = list(texts)
        self.parsed = list(parsed)

    def __str__(self) -> str:
        if len(self.texts) == 1:
            return self.texts[0]
        return "\n".join(f"{score:.6f}: {text}" for score, text in zip(self.scores, self.texts, strict=True))


class EncodedResults(_Results):
    """The tokens of a generation, starting with all sequences of the first prompt.

    Attributes:
        tokens: The tokens.
    """

    def __init__(self, tokens: Sequence[Sequence[int]] = (), **others: Any) -> None:
        super().__init__(**others)
        self.tokens = [list(row) for row in tokens]
