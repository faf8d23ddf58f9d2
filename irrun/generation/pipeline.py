"""Tokenizer, language model and detokenizer as one function from text to text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from irrun.errors import InputError, ModelError
from irrun.generation.config import GenerationConfig
from irrun.generation.sampling import Sampler
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.options import RunSettings
from irrun.runtime.request import CompiledModel, InferRequest

__all__ = ["GeneratedText", "TextGenerator", "generate"]

TOKENIZER, DETOKENIZER = "openvino_tokenizer.xml", "openvino_detokenizer.xml"
#: The names of language models, in the order in which they are looked for.
MODELS = ("openvino_language_model.xml", "openvino_model.xml", "model.xml")
#: Inputs of language models. `beam_idx` is the row of the cache that each row continues.
INPUTS = ("input_ids", "attention_mask", "position_ids", "beam_idx")
#: What an incomplete character looks like. It may be completed by the next token.
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class GeneratedText:
    """A text that a model generated.

    Attributes:
        prompt: What it continues.
        text: The text.
        tokens: The tokens, with the one that ended the text.
        prompt_tokens: The number of tokens of the prompt.
        reason: Why it ended: "stop" (a token or a stop string) or "length".
        first_seconds: Seconds until the first token.
        seconds: Seconds of the generation.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    reason: str
    first_seconds: float
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """The speed after the first token; 0 if there is only one."""
        seconds = self.seconds - self.first_seconds
        return (len(self.tokens) - 1) / seconds if len(self.tokens) > 1 and seconds > 0 else 0.0


class TextGenerator:
    """Continues texts with the models of a folder.

    The language model keeps its key-value cache in variables, as optimum-intel exports it. Its inputs are `input_ids`
    and any of `attention_mask`, `position_ids` and `beam_idx`; its output is `logits`.

    Args:
        folder: The folder with openvino_tokenizer.xml, openvino_detokenizer.xml and openvino_model.xml.
        **options: Options of runs, such as `jit`, `threads`, `memory`, and the `timeout` of each token.

    Attributes:
        config: The configuration in generation_config.json, with the end of texts that the tokenizer states.

    Raises:
        InputError: A file is missing.
        ModelError: A file is damaged, or the language model has other inputs or outputs.
    """

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"{folder} is not a folder; expected one with {TOKENIZER} and {MODELS[1]}")
        tokenizer = read_model(self._find(TOKENIZER))
        self._settings = RunSettings(**options)
        self._tokenizer = self._settings.compile(tokenizer)
        self._detokenizer = self._settings.compile(read_model(self._find(DETOKENIZER)))
        self._model = self._settings.compile(read_model(self._find(*MODELS)))
        self._inputs = _check_model(self._model)
        config = GenerationConfig.read(self.folder)
        if config.eos_token_id is None and not config.stop_token_ids:
            config = config.replace({"eos_token_id": _find_end_token(tokenizer)})
        self.config = config

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        outputs = self._tokenizer([np.array([text], object)])
        return [int(token) for token in outputs["input_ids"][0]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens. Special tokens are left out."""
        if not tokens:
            return ""
        value = self._detokenizer([np.array([tokens], np.int64)])[0][0]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def generate(
        self, prompt: str, config: GenerationConfig | None = None, streamer: Callable[[str], object] | None = None
    ) -> GeneratedText:
        """Continue a text.

        Args:
            prompt: The text.
            config: How; by default, `config` of the generator.
            streamer: Called with each part of the text as soon as it is known. The generation ends if it returns True.

        Raises:
            InputError: The prompt has no tokens, or nothing limits the length.
            IrrunError: A layer failed.
        """
        config = config or self.config
        start = time.perf_counter()
        prompt_tokens = self.encode(prompt)
        if not prompt_tokens:
            raise InputError("the prompt has no tokens")
        limit = config.count_tokens(len(prompt_tokens))
        writer = _Writer(self, config, streamer, prompt if config.echo else "")
        sampler = Sampler(config, prompt_tokens)
        first, reason = 0.0, "length"
        tokens: list[int] = []
        scores = self._iterate_scores(prompt_tokens, tokens)
        while len(tokens) < limit:
            tokens.append(sampler.choose(next(scores)))
            first = first or time.perf_counter() - start
            is_end = tokens[-1] in config.end_tokens and len(tokens) >= config.min_new_tokens
            if is_end or writer.write(tokens):
                reason = "stop"
                break
        text = writer.finish(tokens)
        seconds = time.perf_counter() - start
        return GeneratedText(prompt, text, tuple(tokens), len(prompt_tokens), reason, first, seconds)

    def _iterate_scores(self, prompt: Sequence[int], tokens: Sequence[int]) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the scores of the next token, each after the one before was added to `tokens`."""
        request = self._model.create_infer_request()
        past, new = 0, list(prompt)
        while True:
            yield self._run(request, past, new)
            past, new = past + len(new), [tokens[-1]]

    def _run(self, request: InferRequest, past: int, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        count = len(tokens)
        values: dict[str, np.ndarray[Any, Any]] = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, past + count), np.int64),
            "position_ids": np.arange(past, past + count, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        inputs = {name: values[name] for name in self._inputs}
        logits = request.infer(inputs, timeout=self._settings.timeout)["logits"]
        scores: np.ndarray[Any, Any] = logits[0, -1].astype(np.float32)
        return scores

    def _find(self, *names: str) -> Path:
        for name in names:
            if (self.folder / name).exists():
                return self.folder / name
        raise InputError(f"{self.folder} has no {' or '.join(names)}")


class _Writer:
    """Passes the parts of a text on as soon as no later token changes them.

    Args:
        generator: Decodes tokens.
        config: The stop strings.
        streamer: Receives the parts.
        prefix: What the text begins with.
    """

    def __init__(
        self, generator: TextGenerator, config: GenerationConfig, streamer: Callable[[str], object] | None, prefix: str
    ) -> None:
        self._decode = generator.decode
        self._stops = tuple(stop for stop in config.stop_strings if stop)
        self._keeps_stop = config.include_stop_str_in_output
        self._streamer = streamer
        self._prefix = prefix
        self._written = 0
        self._stopped: str | None = None

    def write(self, tokens: Sequence[int]) -> bool:
        """Pass on what is new, and return whether the text ends."""
        if self._streamer is None and not self._stops:
            return False
        text = self._decode(tokens)
        ends = [(position, stop) for stop in self._stops if (position := text.find(stop)) >= 0]
        if ends:
            position, stop = min(ends)
            self._stopped = text[: position + (len(stop) if self._keeps_stop else 0)]
            return True
        held = max((_count_overlap(text, stop) for stop in self._stops), default=0)
        known = text[: len(text) - held] if held else text
        return not known.endswith(INCOMPLETE) and self._pass_on(self._prefix + known)

    def finish(self, tokens: Sequence[int]) -> str:
        """Pass on the rest, and return the whole text."""
        text = self._prefix + (self._decode(tokens) if self._stopped is None else self._stopped)
        self._pass_on(text)
        return text

    def _pass_on(self, text: str) -> bool:
        part, self._written = text[self._written :], max(self._written, len(text))
        return self._streamer is not None and bool(part) and self._streamer(part) is True


@overload
def generate(
    folder: str | Path,
    prompts: str,
    config: GenerationConfig | Mapping[str, Any] | None = None,
    streamer: Callable[[str], object] | None = None,
    **options: Any,
) -> GeneratedText: ...


@overload
def generate(
    folder: str | Path,
    prompts: list[str] | tuple[str, ...],
    config: GenerationConfig | Mapping[str, Any] | None = None,
    streamer: Callable[[str], object] | None = None,
    **options: Any,
) -> list[GeneratedText]: ...


def generate(
    folder: str | Path,
    prompts: str | Sequence[str],
    config: GenerationConfig | Mapping[str, Any] | None = None,
    streamer: Callable[[str], object] | None = None,
    **options: Any,
) -> GeneratedText | list[GeneratedText]:
    """Continue texts with the models of a folder; see `TextGenerator`.

    Args:
        folder: The folder that optimum-intel exported.
        prompts: A text, or several.
        config: How, as a configuration or as changes of the folder's one: `{"max_new_tokens": 100}`.
        streamer: Called with each part of the text as soon as it is known. A text ends if it returns True.
        **options: Options of `TextGenerator`.

    Returns:
        The text, or a list of as many texts as there are prompts.

    Raises:
        IrrunError: A file is missing or damaged, an option is out of range, or a layer failed.
    """
    generator = TextGenerator(folder, **options)
    if not isinstance(config, GenerationConfig):
        config = generator.config.replace(config or {})
    if isinstance(prompts, str):
        return generator.generate(prompts, config, streamer)
    return [generator.generate(prompt, config, streamer) for prompt in prompts]


def _check_model(model: CompiledModel) -> list[str]:
    """Return the names of the inputs of a language model.

    Raises:
        ModelError: It has other inputs, or no output "logits".
    """
    names = [next((name for name in INPUTS if name in spec.names), spec.any_name) for spec in model.inputs]
    unknown = [name for name in names if name not in INPUTS]
    if unknown or "input_ids" not in names:
        expected = ", ".join(INPUTS)
        raise ModelError(
            f"the inputs of the language model are {', '.join(names)}; expected input_ids and any of {expected}",
            path=model.model.path,
        )
    if not any("logits" in spec.names for spec in model.outputs):
        found = ", ".join(spec.any_name for spec in model.outputs)
        raise ModelError(f"the language model has no output logits; found {found}", path=model.model.path)
    return names


def _find_end_token(tokenizer: Model) -> int | None:
    """Return the token that ends a text, as the file of the tokenizer states it."""
    match = re.search(r'<eos_token_id value="(\d+)"', tokenizer.rt_info or "")
    return int(match[1]) if match else None


def _count_overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-n:])), 0)
