"""Tokenizer, language model and detokenizer as one function from text to text."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from irrun.deadlines import Deadline, end_at
from irrun.errors import InputError
from irrun.generation.beam_search import search_beams
from irrun.generation.config import GenerationConfig
from irrun.generation.decoder import Decoder, compile_language_model
from irrun.generation.sampling import Sampler
from irrun.generation.tokenization import TextTokenizer, TokenizerOptions, find_file
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.observer import Observer
from irrun.runtime.options import RunSettings

if TYPE_CHECKING:
    from irrun.generation.chat import ChatFormat

__all__ = ["GeneratedText", "TextGenerator", "count_overlap", "generate"]

#: The names of language models, in order of precedence.
MODELS = ("openvino_language_model.xml", "openvino_model.xml", "model.xml")
#: The replacement of an incomplete character, which the next token may complete.
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
#: Number of tokens decoded together with the next token, and number above which the oldest tokens are dropped.
CONTEXT, MAX_CONTEXT = 8, 32


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GeneratedText:
    """A generated text.

    Attributes:
        prompt: The prompt.
        text: The text.
        tokens: The tokens, including the token that ended the text.
        prompt_tokens: The number of tokens of the prompt.
        reason: Why the text ended: "stop" (a token or a stop string) or "length".
        first_seconds: Seconds until the first token.
        seconds: Seconds of the generation.
        score: The sum of the tokens' log-probabilities, which beam search divides by a power of
            their number; None for greedy search.
        alternatives: The other texts, if `num_return_sequences` is larger than 1. The first text has the best score.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    reason: str
    first_seconds: float
    seconds: float
    score: float | None = None
    alternatives: tuple[GeneratedText, ...] = ()

    @property
    def tokens_per_second(self) -> float:
        """The speed after the first token; 0 if there is only one."""
        seconds = self.seconds - self.first_seconds
        return (len(self.tokens) - 1) / seconds if len(self.tokens) > 1 and seconds > 0 else 0.0


class TextGenerator:
    """Continues texts with the models in a folder.

    The language model has the input `input_ids`, any of `attention_mask`, `position_ids`, `token_type_ids` and
    `beam_idx`, and the output `logits`. Its key-value cache is in variables, as optimum-intel exports it, or in the
    inputs `past_key_values...` and outputs `present...`. Without a cache, each run computes the whole text.

    Args:
        folder: The folder with openvino_tokenizer.xml, openvino_detokenizer.xml and openvino_model.xml.
        **options: Options of runs, such as `jit`, `threads`, `memory`, and `timeout` per token.

    Attributes:
        config: The configuration in generation_config.json, with the end-of-text tokens of the tokenizer.

    Raises:
        InputError: A file is missing.
        ModelError: A file is damaged, or the language model has other inputs or outputs.
    """

    def __init__(self, folder: str | Path, **options: Any) -> None:
        self.folder = Path(folder)
        self._settings = RunSettings(**options)
        self._tokenizer = TextTokenizer.read(self.folder, self._settings)
        self._model = compile_language_model(read_model(find_file(self.folder, *MODELS)), self._settings)
        config = GenerationConfig.read(self.folder)
        token = self._tokenizer.get_token("eos_token_id")
        if token is not None and config.eos_token_id is None and not config.stop_token_ids:
            config = config.replace({"eos_token_id": token})
        self.config = config
        self._chat: ChatFormat | None = None
        self._kept: Decoder | None = None  # of the last chat

    @property
    def model(self) -> Model:
        """The language model."""
        return self._model.model

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text.
            add_special_tokens: Whether to add the tokens at the start and the end of texts.
        """
        tokens, _ = self._tokenizer.encode([text], TokenizerOptions(add_special_tokens=add_special_tokens))
        return [int(token) for token in tokens[0]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens. Special tokens are omitted."""
        return self._tokenizer.decode(np.array([tokens], np.int64))[0]

    def generate(
        self,
        prompt: str | Sequence[int],
        config: GenerationConfig | None = None,
        streamer: Callable[[str], object] | None = None,
        *,
        observers: Sequence[Observer] = (),
    ) -> GeneratedText:
        """Continue a text.

        Args:
            prompt: The text, or its tokens.
            config: The options; by default, `config` of the generator.
            streamer: Called with each part of the text as soon as it is known. If it returns True, the text ends.
            observers: Called after each layer of the language model.

        Raises:
            InputError: The prompt has no tokens, nothing limits the length, or several texts would be streamed.
            IrrunError: A layer failed.
        """
        return self._generate(prompt, config, streamer, Decoder(self._model, self._settings.timeout, observers))

    def _generate(
        self,
        prompt: str | Sequence[int],
        config: GenerationConfig | None,
        streamer: Callable[[str], object] | None,
        decoder: Decoder,
    ) -> GeneratedText:
        config = config or self.config
        start = time.perf_counter()
        tokens = self.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        if not tokens:
            raise InputError("the prompt has no tokens")
        if streamer is not None and (config.num_beams > 1 or config.num_return_sequences > 1):
            raise InputError("only one text can be streamed; expected num_beams and num_return_sequences to be 1")
        shown = prompt if isinstance(prompt, str) else self.decode(tokens)
        if not config.count_tokens(len(tokens)):
            raise InputError(f"the prompt has {len(tokens)} tokens; expected fewer than max_length")
        scores = decoder.start(tokens)
        first = time.perf_counter() - start
        if config.num_beams > 1:
            beams = search_beams(config, tokens, scores, decoder.run)
            found = [
                _Sequence(_Writer(self, config, None, shown), list(beam.tokens), float(beam.score), beam.reason)
                for beam in beams
            ]
        else:
            found = [_Sequence(_Writer(self, config, streamer, shown)) for _ in range(config.num_return_sequences)]
            _sample(found, config, tokens, scores, decoder)
            found.sort(key=lambda item: -(item.score or 0))
        texts = [sequence.writer.finish(sequence.tokens) for sequence in found]
        seconds = time.perf_counter() - start
        results = [
            GeneratedText(shown, text, tuple(item.tokens), len(tokens), item.reason, first, seconds, item.score)
            for text, item in zip(texts, found, strict=True)
        ]
        return dataclasses.replace(results[0], alternatives=tuple(results[1:]))

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        config: GenerationConfig | None = None,
        streamer: Callable[[str], object] | None = None,
        *,
        observers: Sequence[Observer] = (),
    ) -> GeneratedText:
        """Answer the last message of a chat. The folder's chat template converts the messages to a prompt.

        The cache is kept, so if messages continue the previous chat, only the new ones are computed.

        Args:
            messages: Messages such as `{"role": "user", "content": "Hello"}`.
            config: As for `generate`.
            streamer: Called with each part of the text.
            observers: Called after each layer of the language model.

        Raises:
            InputError: The folder has no chat template.
            ChatTemplateError: The template is invalid or refuses messages, or Jinja is not installed.
            IrrunError: A layer failed.
        """
        from irrun.generation.chat import ChatFormat

        self._chat = self._chat or ChatFormat(self.folder, self._tokenizer)
        seconds = self._settings.timeout
        with end_at(None if seconds is None else Deadline(seconds)):
            prompt = self._chat.render(messages)
        tokens = self.encode(prompt, add_special_tokens=False)
        decoder, self._kept = self._kept or Decoder(self._model, self._settings.timeout), None
        decoder.observers = observers
        result = self._generate(tokens, config, streamer, decoder)
        self._kept = decoder
        return dataclasses.replace(result, prompt=prompt)


@dataclass
class _Sequence:
    """A text that is being generated."""

    writer: _Writer
    tokens: list[int] = field(default_factory=list)
    score: float | None = None
    reason: str = "length"


class _Writer:
    """Streams parts of a text as soon as no later token can change them.

    Args:
        generator: Decodes tokens.
        config: The stop strings, and whether the text begins with the prompt.
        streamer: Receives the parts.
        prompt: The prompt.
    """

    def __init__(
        self, generator: TextGenerator, config: GenerationConfig, streamer: Callable[[str], object] | None, prompt: str
    ) -> None:
        self._decode = generator.decode
        self._stops = tuple(stop for stop in config.stop_strings if stop)
        self._keeps_stop = config.include_stop_str_in_output
        self._streamer = streamer
        self._prefix = prompt if config.echo else ""
        self._parts = _Decoding(generator.decode)
        self._written = 0
        self._stopped: str | None = None
        self._pass_on(self._prefix)

    def write(self, token: int) -> bool:
        """Stream the new part, and return whether the text ends."""
        if self._streamer is None and not self._stops:
            return False
        before = len(self._parts.text)
        text = self._parts.add(token)
        begin = max(before - max(map(len, self._stops), default=0) - len(INCOMPLETE), 0)
        ends = [(position, stop) for stop in self._stops if (position := text.find(stop, begin)) >= 0]
        if ends:
            position, stop = min(ends)
            self._stopped = text[: position + (len(stop) if self._keeps_stop else 0)]
            return True
        held = max((count_overlap(text, stop) for stop in self._stops), default=0)
        known = text[: len(text) - held] if held else text
        return not known.endswith(INCOMPLETE) and self._pass_on(self._prefix + known)

    def finish(self, tokens: Sequence[int]) -> str:
        """Stream the rest, and return the whole text."""
        text = self._prefix + (self._decode(tokens) if self._stopped is None else self._stopped)
        self._pass_on(text)
        return text

    def _pass_on(self, text: str) -> bool:
        part, self._written = text[self._written :], max(self._written, len(text))
        return self._streamer is not None and bool(part) and self._streamer(part) is True


class _Decoding:
    """The text of tokens that are added one by one. Each new token is decoded with a few previous ones only.

    Args:
        decode: Returns the text of tokens.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._known = ""  # the text before the text of `_tokens`
        self._skipped = 0  # length of the part of the text of `_tokens` that is in `_known`
        self.text = ""

    def add(self, token: int) -> str:
        """Add a token and return the text."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        self.text = self._known + text[self._skipped :]
        if len(self._tokens) >= MAX_CONTEXT and not text.endswith(INCOMPLETE):
            tail = self._decode(self._tokens[-CONTEXT:])
            if text.endswith(tail):
                self._known, self._skipped = self.text, len(tail)
                del self._tokens[:-CONTEXT]
        return self.text


def _sample(
    sequences: Sequence[_Sequence], config: GenerationConfig, prompt: Sequence[int], scores: Array, decoder: Decoder
) -> None:
    """Continue texts of one prompt, token by token.

    Args:
        sequences: The texts, still without tokens.
        config: The options.
        prompt: The tokens of the prompt.
        scores: Scores of the first token, f32 of shape [1, vocabulary].
        decoder: Computes the scores of later tokens.
    """
    sampler = Sampler(config, prompt)
    limit = config.count_tokens(len(prompt))
    chosen = sampler.choose_several(scores[0], 0, len(sequences))
    rows = [0] * len(sequences)
    running = list(sequences)
    while True:
        kept = []
        for position, (sequence, (token, probability)) in enumerate(zip(running, chosen, strict=True)):
            sequence.tokens.append(token)
            if config.do_sample:
                sequence.score = (sequence.score or 0) + probability
            is_end = token in config.end_tokens and len(sequence.tokens) >= config.min_new_tokens
            if is_end or sequence.writer.write(token):
                sequence.reason = "stop"
            elif len(sequence.tokens) < limit:
                kept.append(position)
        if not kept:
            return
        running, rows = [running[position] for position in kept], [rows[position] for position in kept]
        scores = decoder.run([sequence.tokens[-1:] for sequence in running], rows)
        rows = list(range(len(running)))
        chosen = [
            sampler.choose_several(scores[row], len(sequence.tokens), 1)[0]
            for row, sequence in zip(rows, running, strict=True)
        ]


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
    """Continue texts with the models in a folder; see `TextGenerator`.

    Args:
        folder: A folder exported by optimum-intel.
        prompts: A text, or several texts.
        config: A configuration, or changes to the folder's configuration: `{"max_new_tokens": 100}`.
        streamer: Called with each part of the text as soon as it is known. If it returns True, the text ends.
        **options: Options of `TextGenerator`.

    Returns:
        The text, or a list with a text for each prompt.

    Raises:
        IrrunError: A file is missing or damaged, an option is out of range, or a layer failed.
    """
    generator = TextGenerator(folder, **options)
    if not isinstance(config, GenerationConfig):
        config = generator.config.replace(config or {})
    if isinstance(prompts, str):
        return generator.generate(prompts, config, streamer)
    return [generator.generate(prompt, config, streamer) for prompt in prompts]


def count_overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string.

    Args:
        text: The text.
        stop: The stop string.
    """
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-n:])), 0)
