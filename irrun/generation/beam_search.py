"""Beam search with groups, in the order and with the scores of OpenVINO GenAI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.generation.config import GenerationConfig

__all__ = ["Beam", "search_beams"]

Array = np.ndarray[Any, Any]
#: Score of the other beams at the start, which equal the first one.
LOWEST = np.finfo(np.float32).min


@dataclass(frozen=True)
class Beam:
    """A sequence that beam search continues or has finished.

    Attributes:
        tokens: The generated tokens.
        score: Sum of their log-probabilities; finished beams divide it by their length.
        row: Row of the last scores.
        reason: Why the sequence ended: "stop" or "length".
    """

    tokens: tuple[int, ...] = ()
    score: np.float32 = np.float32(0)  # noqa: RUF009
    row: int = 0
    reason: str = "length"


@dataclass
class _Group:
    ongoing: list[Beam]
    finished: list[Beam] = field(default_factory=list)
    is_done: bool = False

    def finish(self, beam: Beam, config: GenerationConfig, reason: str) -> None:
        """Keep a beam if it is one of the best."""
        score = _normalize(beam.score, len(beam.tokens), config.length_penalty)
        self.finished.append(Beam(beam.tokens, score, reason=reason))
        self.finished.sort(key=lambda item: -item.score)
        del self.finished[config.num_beams // config.num_beam_groups :]


def search_beams(
    config: GenerationConfig,
    prompt: Sequence[int],
    logits: Array,
    run: Callable[[list[list[int]], list[int]], Array],
) -> list[Beam]:
    """Return the best sequences, the best first.

    Args:
        config: The configuration.
        prompt: The tokens of the prompt.
        logits: Floats [1, vocabulary] after the prompt.
        run: Takes tokens and the rows that they continue; returns the next logits.
    """
    size = config.num_beams // config.num_beam_groups
    first = [Beam(), *(Beam(score=LOWEST) for _ in range(size - 1))]
    groups = [_Group(list(first)) for _ in range(config.num_beam_groups)]
    limit = config.count_tokens(len(prompt))
    while True:
        chosen: list[int] = []
        probabilities = _log_softmax(logits)
        for group in groups:
            if not group.is_done:
                children = _extend(group, config, prompt, probabilities, chosen)
                chosen += [child.tokens[-1] for child in children]
                group.is_done = not children or _is_done(group, config, limit)
                group.ongoing = [] if group.is_done else children
        running = [beam for group in groups for beam in group.ongoing]
        if not running:
            break
        if len(running[0].tokens) >= limit:
            for group in groups:
                for beam in group.ongoing:
                    group.finish(beam, config, "length")
            break
        logits = run([[beam.tokens[-1]] for beam in running], [beam.row for beam in running])
        rows = iter(range(len(running)))
        for group in groups:
            group.ongoing = [Beam(beam.tokens, beam.score, next(rows)) for beam in group.ongoing]
    results = [beam for group in groups for beam in group.finished]
    return sorted(results, key=lambda beam: -beam.score)[: config.num_return_sequences]


def _extend(
    group: _Group, config: GenerationConfig, prompt: Sequence[int], scores: Array, chosen: Sequence[int]
) -> list[Beam]:
    """Return the beams that continue a group, and finish beams that end with a stop token."""
    size = config.num_beams // config.num_beam_groups
    stops = config.stop_tokens
    candidates: list[Beam] = []
    for beam in group.ongoing:
        row = scores[beam.row].copy()
        for token in chosen:
            row[token] -= np.float32(config.diversity_penalty)
        if config.no_repeat_ngram_size:
            row[_find_repeating([*prompt, *beam.tokens], config.no_repeat_ngram_size)] = -np.inf
        for token in np.argsort(-row, kind="stable")[: 2 * size].tolist():
            with np.errstate(over="ignore"):
                candidates.append(Beam((*beam.tokens, token), np.float32(beam.score + row[token]), beam.row))
    candidates.sort(key=lambda beam: -beam.score)
    children: list[Beam] = []
    for index, beam in enumerate(candidates):
        if beam.tokens[-1] in stops:
            if index < size:
                group.finish(beam, config, "stop")
            continue
        children.append(beam)
        if len(children) == size:
            break
    return children


def _is_done(group: _Group, config: GenerationConfig, limit: int) -> bool:
    """Return whether no beam can beat the finished beams any more."""
    if len(group.finished) < config.num_beams // config.num_beam_groups:
        return False
    if config.stop_criteria == "early":
        return True
    best = group.ongoing[0]
    length: float = len(best.tokens)
    if config.stop_criteria == "never" and config.length_penalty > 0:
        length = limit
    return bool(group.finished[-1].score >= _normalize(best.score, length, config.length_penalty))


def _normalize(score: np.float32, length: float, penalty: float) -> np.float32:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result: np.float32 = np.float32(score / np.power(np.float32(length), np.float32(penalty)))
    return result


def _log_softmax(logits: Array) -> Array:
    largest = logits.max(axis=-1, keepdims=True)
    weights = np.exp((logits - largest).astype(np.float64)).astype(np.float32)
    sums = np.add.accumulate(weights, axis=-1, dtype=np.float32)[..., -1:]
    result: Array = logits - largest - np.log(sums.astype(np.float64)).astype(np.float32)
    return result


def _find_repeating(tokens: list[int], size: int) -> list[int]:
    """Return the tokens that would repeat a sequence of `size` tokens."""
    if len(tokens) < max(size, 2):
        return []
    tail = tokens[len(tokens) - size + 1 :]
    return [tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tokens[i : i + size - 1] == tail]
