"""Language models, from tokens to tokens, with the time of each token."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.generation.beam_search import search_beams
from irrun.generation.config import GenerationConfig
from irrun.generation.decoder import Decoder, compile_language_model
from irrun.generation.pipeline import count_overlap
from irrun.generation.sampling import Sampler
from irrun.ir.model import Model
from irrun.openvino_genai.enumerations import GenerationFinishReason, StreamingStatus
from irrun.openvino_genai.streamers import StreamerBase, to_status
from irrun.openvino_genai.tokenizer import Tokenizer
from irrun.runtime.options import RunSettings

__all__ = ["GeneratedTokens", "LanguageModel"]


@dataclass
class GeneratedTokens:
    """The continuation of a prompt.

    Attributes:
        tokens: The tokens, without the tokens of a stop string.
        score: The sum of the logarithms of their probabilities.
        reason: Why the text ended.
        is_cancelled: Whether the streamer asked to remove the prompt.
        is_finished: Whether the text ended; False while tokens are generated.
        times: When each token was chosen, in seconds.
        inferences: Seconds of each run of the model.
        samplings: Seconds of each choice of a token.
        logarithms: The logarithms of the probabilities of tokens.
    """

    tokens: list[int] = field(default_factory=list)
    score: float = 0.0
    reason: GenerationFinishReason = GenerationFinishReason.LENGTH
    is_cancelled: bool = False
    is_finished: bool = False
    times: list[float] = field(default_factory=list)
    inferences: list[float] = field(default_factory=list)
    samplings: list[float] = field(default_factory=list)
    logarithms: list[float] = field(default_factory=list)


class LanguageModel:
    """A language model.

    Args:
        model: The model.
        settings: The settings for compiling it.
        tokenizer: Converts tokens to texts, for finding stop strings.

    Raises:
        ModelError: The model has other inputs or outputs.
    """

    def __init__(self, model: Model, settings: RunSettings, tokenizer: Tokenizer) -> None:
        self._compiled = compile_language_model(model, settings)
        self._tokenizer = tokenizer
        self._kept: Decoder | None = None  # of the last chat

    def generate(
        self,
        prompt: Sequence[int],
        config: GenerationConfig,
        has_logprobs: bool,
        streamer: StreamerBase | None,
        is_chat: bool,
    ) -> GeneratedTokens:
        """Continue a prompt.

        Args:
            prompt: Its tokens.
            config: The options.
            has_logprobs: Whether the score comes from the model, not from the candidates for sampling.
            streamer: Receives tokens as soon as no stop string begins in their text.
            is_chat: Whether to keep the cache for a prompt that continues this one.

        Raises:
            IrrunError: A layer failed.
        """
        *_, result = self.iterate(prompt, config, has_logprobs, streamer, is_chat)
        return result

    def iterate(
        self,
        prompt: Sequence[int],
        config: GenerationConfig,
        has_logprobs: bool,
        streamer: StreamerBase | None = None,
        is_chat: bool = False,
    ) -> Iterator[GeneratedTokens]:
        """Continue a prompt, and yield the same result after each token and at the end; see `generate`.

        Raises:
            IrrunError: A layer failed.
        """
        result = GeneratedTokens()
        decoder, self._kept = (self._kept if is_chat else None) or Decoder(self._compiled), None
        sampler = Sampler(config, prompt)
        limit = config.count_tokens(len(prompt))
        tokens, passed = result.tokens, 0
        logarithms = result.logarithms
        while len(tokens) < limit:
            start = time.perf_counter()
            scores = (decoder.run([tokens[-1:]], [0]) if tokens else decoder.start(prompt))[0]
            inferred = time.perf_counter()
            token, probability = sampler.choose_several(scores, len(tokens), 1)[0]
            tokens.append(token)
            result.times.append(time.perf_counter())
            result.inferences.append(inferred - start)
            result.samplings.append(result.times[-1] - inferred)
            logarithms.append(_compute_log_probability(scores, token) if has_logprobs else probability)
            end, held = self._find_stop(tokens, config)
            if end is not None:
                del tokens[end:], logarithms[end:]
                result.reason = GenerationFinishReason.STOP
                break
            is_end = tokens[-1] in config.end_tokens and len(tokens) >= config.min_new_tokens
            if is_end:
                result.reason = GenerationFinishReason.STOP
            if streamer is not None and len(tokens) - held > passed:
                ready = tokens[passed : len(tokens) - held]
                passed = len(tokens) - held
                status = to_status(streamer.write(ready))
                if status is not StreamingStatus.RUNNING:
                    result.reason = GenerationFinishReason.STOP
                    result.is_cancelled = status is StreamingStatus.CANCEL
                    break
            if is_end:
                break
            if len(tokens) < limit:
                yield result
        self._kept = decoder if is_chat else None
        if streamer is not None:
            if tokens[passed:]:
                streamer.write(tokens[passed:])
            streamer.end()
        result.score = sum(logarithms, 0.0)
        if config.echo:
            tokens[:0] = prompt
        result.is_finished = True
        yield result

    def draw(self, prompt: Sequence[int], config: GenerationConfig, has_logprobs: bool) -> list[GeneratedTokens]:
        """Sample several continuations of a prompt; return them, the most probable first.

        Args:
            prompt: Its tokens.
            config: The options.
            has_logprobs: Whether scores come from the model, not from the candidates for sampling.

        Raises:
            IrrunError: A layer failed.
        """
        decoder, sampler = Decoder(self._compiled), Sampler(config, prompt)
        results = [GeneratedTokens() for _ in range(config.num_return_sequences)]
        logarithms: dict[int, list[float]] = {id(result): [] for result in results}
        limit = config.count_tokens(len(prompt))
        first = results[0]
        running, rows = list(results), [0] * len(results)
        start = time.perf_counter()
        scores = decoder.run([prompt], [0])
        chosen = sampler.choose_several(scores[0], 0, len(results))
        while True:
            first.inferences.append(time.perf_counter() - start)
            first.times.append(time.perf_counter())
            first.samplings.append(0.0)
            kept = []
            for position, (result, (token, probability)) in enumerate(zip(running, chosen, strict=True)):
                result.tokens.append(token)
                row = scores[rows[position]]
                known = logarithms[id(result)]
                known.append(_compute_log_probability(row, token) if has_logprobs else probability)
                end, _ = self._find_stop(result.tokens, config)
                if end is not None:
                    del result.tokens[end:], known[end:]
                is_end = token in config.end_tokens and len(result.tokens) >= config.min_new_tokens
                if end is not None or is_end:
                    result.reason = GenerationFinishReason.STOP
                elif len(result.tokens) < limit:
                    kept.append(position)
            if not kept:
                break
            running, rows = [running[position] for position in kept], [rows[position] for position in kept]
            start = time.perf_counter()
            scores = decoder.run([result.tokens[-1:] for result in running], rows)
            rows = list(range(len(running)))
            chosen = [
                sampler.choose_several(scores[row], len(result.tokens), 1)[0]
                for row, result in zip(rows, running, strict=True)
            ]
        for result in results:
            result.score = sum(logarithms[id(result)], 0.0)
            result.tokens[:0] = prompt if config.echo else ()
        return sorted(results, key=lambda result: -result.score)

    def search(self, prompt: Sequence[int], config: GenerationConfig) -> list[GeneratedTokens]:
        """Continue a prompt by beam search; return the results, the best first.

        Args:
            prompt: Its tokens.
            config: The options.

        Raises:
            IrrunError: A layer failed.
        """
        decoder = Decoder(self._compiled)
        times: list[float] = []
        inferences: list[float] = []

        def run(tokens: Sequence[Sequence[int]], rows: Sequence[int]) -> np.ndarray[Any, Any]:
            start = time.perf_counter()
            scores = decoder.run(tokens, rows)
            times.append(time.perf_counter())
            inferences.append(times[-1] - start)
            return scores

        beams = search_beams(config, prompt, run([prompt], [0]), run)
        results = []
        for beam in beams:
            reason = GenerationFinishReason.STOP if beam.reason == "stop" else GenerationFinishReason.LENGTH
            tokens = [*(prompt if config.echo else ()), *beam.tokens]
            results.append(GeneratedTokens(tokens, float(beam.score), reason))
        results[0].times, results[0].inferences, results[0].samplings = times, inferences, [0.0] * len(times)
        return results

    def _find_stop(self, tokens: Sequence[int], config: GenerationConfig) -> tuple[int | None, int]:
        """Return the number of tokens before a stop string, or None, and how many last tokens may belong to one."""
        stops = [stop for stop in config.stop_strings if stop]
        if not stops:
            return None, 0
        text = self._decode(tokens)
        positions = [position for stop in stops if (position := text.find(stop)) >= 0]
        if positions:
            if config.include_stop_str_in_output:
                return len(tokens), 0
            position = min(positions)
            return next(n for n in range(len(tokens), -1, -1) if len(self._decode(tokens[:n])) <= position), 0
        overlap = max(count_overlap(text, stop) for stop in stops)
        held = 0
        while held < len(tokens) and len(self._decode(tokens[: len(tokens) - held])) > len(text) - overlap:
            held += 1
        return None, held

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens))
        return text


def _compute_log_probability(scores: np.ndarray[Any, Any], token: int) -> float:
    """Return the log-probability of a token."""
    shifted = scores.astype(np.float64) - scores.max()
    return float(shifted[token] - np.log(np.exp(shifted).sum()))
