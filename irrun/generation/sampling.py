"""The choice of the next token from its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.generation.config import GenerationConfig

__all__ = ["Sampler"]

Array = np.ndarray[Any, Any]


class Sampler:
    """Chooses the tokens of a text, or of several texts that continue one prompt.

    Random numbers are the outputs of std::mt19937 with the seed of the configuration, and candidates are in the order
    of OpenVINO GenAI, so the same scores give the same tokens. As in OpenVINO GenAI, several texts share penalties and
    random numbers.

    Args:
        config: The configuration.
        prompt: The tokens of the prompt.
    """

    def __init__(self, config: GenerationConfig, prompt: Sequence[int]) -> None:
        self._config = config
        self._prompt = prompt
        self._counts: Counter[int] = Counter()
        self._random = np.random.RandomState(config.rng_seed)

    def choose(self, scores: Array) -> int:
        """Return the next token.

        Args:
            scores: f32 of shape [vocabulary].
        """
        return self.choose_several(scores, self._counts.total(), 1)[0][0]

    def choose_several(self, scores: Array, length: int, count: int) -> list[tuple[int, float]]:
        """Return the next tokens of several texts that are equal so far, with the logarithms of their probabilities.

        The logarithms are 0 if tokens are not drawn.

        Args:
            scores: f32 of shape [vocabulary].
            length: The current number of tokens in each text.
            count: The number of tokens to choose.
        """
        scores = self._penalize(np.array(scores, np.float32), length)
        chosen = [self._draw(scores) if self._config.do_sample else (int(scores.argmax()), 0.0) for _ in range(count)]
        self._counts.update(token for token, _ in chosen)
        return chosen

    def _penalize(self, scores: Array, length: int) -> Array:
        config = self._config
        if length < config.min_new_tokens:
            scores[[token for token in config.end_tokens if token < len(scores)]] = 0  # as in OpenVINO GenAI
        if config.repetition_penalty != 1:
            seen = np.array(sorted({*self._prompt, *self._counts}), np.int64)
            seen = seen[seen < len(scores)]
            values = scores[seen].astype(np.float64)
            penalty = config.repetition_penalty
            scores[seen] = np.where(values >= 0, values / penalty, values * penalty)
        tokens = np.array(list(self._counts), np.int64)
        occurrences = np.array(list(self._counts.values()), np.float64)
        for penalties in (config.presence_penalty, config.frequency_penalty * occurrences):
            values = scores[tokens].astype(np.float64)
            scores[tokens] = values - penalties * np.where(values >= 0, 1, -1)
        return scores

    def _draw(self, scores: Array) -> tuple[int, float]:
        config = self._config
        tokens = np.arange(len(scores))
        if 0 < config.top_k < len(scores):
            tokens = np.array(_select_largest(scores, config.top_k))
            scores = scores[tokens]
        weights: Array = np.exp((scores - scores.max()) * np.float32(1 / config.temperature))
        if config.min_p > 0:
            is_kept = weights >= np.float32(config.min_p)  # the largest weight is 1
            tokens, weights = tokens[is_kept], weights[is_kept]
        if config.top_p < 1:
            order = np.argsort(-weights, kind="stable")
            sums = np.cumsum(weights[order] / weights.sum(dtype=np.float32), dtype=np.float32)
            order = order[: np.searchsorted(sums, config.top_p, "right") + 1]
            tokens, weights = tokens[order], weights[order]
        sums = np.cumsum(weights, dtype=np.float32)
        index = int(np.searchsorted(sums, sums[-1] * self._make_uniform(), "right"))
        index = min(index, len(tokens) - 1)
        return int(tokens[index]), float(np.log(weights[index] / sums[-1]))

    def _make_uniform(self) -> np.float32:
        """Return a number in [0, 1) as std::uniform_real_distribution<float> does."""
        number = np.float32(self._random.randint(0, 1 << 32, dtype=np.uint32)) / np.float32(2**32)
        return min(number, np.nextafter(np.float32(1), np.float32(0)))


def _select_largest(scores: Array, count: int) -> list[int]:
    """Return the positions of the largest scores, in the order of the C++ library's heap.

    The order decides which token a random number selects.

    Args:
        scores: f32 of shape [vocabulary].
        count: The number of scores.
    """
    heap = list(range(count))
    values = scores.tolist()
    for start in range((count - 2) // 2, -1, -1):
        _sift(heap, values, start, count, heap[start])
    position = count
    while True:
        larger = np.flatnonzero(scores[position:] > values[heap[0]])
        if not larger.size:
            return heap
        position += int(larger[0])
        if count > 1:
            _sift(heap, values, 0, count - 1, heap[-1])
        heap[-1] = position
        _rise(heap, values, count - 1, 0, position)
        position += 1


def _sift(heap: list[int], values: list[float], hole: int, count: int, item: int) -> None:
    """Fill a hole of a min-heap: move the hole to a leaf, and let the item rise from there."""
    top = hole
    while (child := 2 * hole + 2) < count:
        if values[heap[child]] > values[heap[child - 1]]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if child == count:
        heap[hole] = heap[child - 1]
        hole = child - 1
    _rise(heap, values, hole, top, item)


def _rise(heap: list[int], values: list[float], hole: int, top: int, item: int) -> None:
    while hole > top and values[heap[(hole - 1) // 2]] > values[item]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = item
