"""Options for choosing tokens and ending texts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irrun.arguments import check_flag, describe_value
from irrun.errors import InputError
from irrun.generation.folder_files import MAX_TOKEN, read_object

__all__ = ["GenerationConfig"]

#: Maximum number of texts generated at once.
MAX_TEXTS = 10_000
#: When beam search ends -> the value of Hugging Face's `early_stopping`.
STOP_CRITERIA = {"early": True, "heuristic": False, "never": "never"}


@dataclass(frozen=True)
class GenerationConfig:
    """The options of a generation, with the names and meanings of OpenVINO GenAI's GenerationConfig.

    Attributes:
        max_new_tokens: Maximum number of new tokens; None for the limit of `max_length`.
        max_length: Maximum number of tokens of prompt and text together; None for no limit.
        min_new_tokens: Minimum number of new tokens; before that, no token ends the text.
        do_sample: Whether to sample tokens; otherwise, the most probable token is chosen.
        temperature: Divisor of scores before sampling.
        top_k: Sample from this number of most probable tokens; 0 for all.
        top_p: Sample from the most probable tokens with this total probability.
        min_p: Sample from tokens with at least this share of the largest probability; 0 for all.
        repetition_penalty: Divisor of positive scores of tokens in the prompt or text.
        presence_penalty: Subtracted from the scores of tokens in the text.
        frequency_penalty: Subtracted for each occurrence of a token in the text.
        stop_strings: Texts that end the generation.
        include_stop_str_in_output: Whether the result includes the stop string.
        stop_token_ids: Tokens that end the generation, in addition to `eos_token_id`.
        eos_token_id: The token that ends a text; None if there is none.
        ignore_eos: Whether to continue after `eos_token_id` and `stop_token_ids`. In beam search, they always end a
            text.
        num_return_sequences: Number of texts for each prompt.
        num_beams: Number of beams; 1 for no beam search.
        num_beam_groups: Number of groups of beams.
        diversity_penalty: Subtracted from the score of a token for each beam of an earlier group that chose it.
        length_penalty: Scores of texts are divided by their length to the power of this number.
        no_repeat_ngram_size: Beam search never repeats a sequence of this many tokens; 0 for no limit.
        stop_criteria: Beam search ends when there are enough texts ("early"), when a better text is unlikely
            ("heuristic"), or when a better text is impossible ("never").
        echo: Whether the result begins with the prompt.
        rng_seed: The seed for sampling.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop_strings: tuple[str, ...] = ()
    include_stop_str_in_output: bool = False
    stop_token_ids: tuple[int, ...] = ()
    eos_token_id: int | None = None
    ignore_eos: bool = False
    num_return_sequences: int = 1
    num_beams: int = 1
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    stop_criteria: str = "heuristic"
    echo: bool = False
    rng_seed: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A value is out of range, or contradicts another one.
        """
        for name, low, high in (
            ("max_new_tokens", 1, math.inf),
            ("max_length", 1, math.inf),
            ("min_new_tokens", 0, math.inf),
            ("top_k", 0, math.inf),
            ("top_p", 0, 1),
            ("min_p", 0, 1),
            ("presence_penalty", -2, 2),
            ("frequency_penalty", -2, 2),
            ("rng_seed", 0, 2**32 - 1),
            ("num_return_sequences", 1, MAX_TEXTS),
            ("num_beams", 1, MAX_TEXTS),
            ("num_beam_groups", 1, MAX_TEXTS),
            ("diversity_penalty", -math.inf, math.inf),
            ("length_penalty", -math.inf, math.inf),
            ("no_repeat_ngram_size", 0, math.inf),
        ):
            value = getattr(self, name)
            if value is None and name.startswith("max_"):
                continue
            _check_number(name, value, isinstance(getattr(type(self), name), int) or name.startswith("max_"))
            if not low <= value <= high:
                limits = f"at least {low}" if high == math.inf else f"{low} to {high}"
                raise InputError(f"{name} is {describe_value(value)}; expected {limits}")
        for name in ("temperature", "repetition_penalty"):
            _check_number(name, getattr(self, name))
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}; expected a positive number")
        if not isinstance(self.stop_criteria, str) or self.stop_criteria not in STOP_CRITERIA:
            shown = describe_value(self.stop_criteria)
            raise InputError(f"stop_criteria is {shown}; expected one of {', '.join(STOP_CRITERIA)}")
        for name in ("do_sample", "include_stop_str_in_output", "ignore_eos", "echo"):
            check_flag(name, getattr(self, name))
        for text in self.stop_strings:
            if not isinstance(text, str):
                raise InputError(f"stop_strings has {describe_value(text)}; expected texts")
        for name, tokens in (("stop_token_ids", self.stop_token_ids), ("eos_token_id", (self.eos_token_id,))):
            for token in tokens:
                if token is not None and (type(token) is not int or not 0 <= token <= MAX_TOKEN):
                    raise InputError(f"{name} is {describe_value(token)}; expected a token of 0 to {MAX_TOKEN}")
        self._check_beams()

    def _check_beams(self) -> None:
        penalties = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty)
        has_groups = self.num_beam_groups > 1
        if self.num_beams == 1:
            rules = {"num_return_sequences needs do_sample or num_beams": self.num_return_sequences > 1}
            rules = {} if self.do_sample else rules
        else:
            rules = {
                "beam search does not sample; omit do_sample or num_beams": self.do_sample,
                "beam search does not support stop_strings": bool(self.stop_strings),
                "beam search does not support repetition, presence and frequency penalties": penalties != (1, 0, 0),
                "num_return_sequences is larger than num_beams": self.num_return_sequences > self.num_beams,
                "num_beams is not a multiple of num_beam_groups": self.num_beams % self.num_beam_groups != 0,
                "several num_beam_groups need a diversity_penalty": has_groups and self.diversity_penalty == 0,
                "diversity_penalty needs several num_beam_groups": not has_groups and self.diversity_penalty != 0,
            }
        for message, is_violated in rules.items():
            if is_violated:
                raise InputError(message)

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end a text, unless beam search generates it."""
        return frozenset() if self.ignore_eos else self.stop_tokens

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The tokens that end a text unless `ignore_eos` is set."""
        return frozenset(self.stop_token_ids) | ({self.eos_token_id} if self.eos_token_id is not None else set())

    def count_tokens(self, prompt: int) -> int:
        """Return the maximum number of tokens to generate.

        Args:
            prompt: The number of tokens of the prompt.

        Raises:
            InputError: Nothing limits the length.
        """
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.max_length is None:
            raise InputError("the length of the text has no limit: set max_new_tokens or max_length")
        return max(self.max_length - prompt, 0)

    @classmethod
    def read(cls, folder: Path) -> GenerationConfig:
        """Read generation_config.json of a folder, or return the defaults.

        Args:
            folder: The folder.

        Raises:
            InputError: The file is damaged.
        """
        path = folder / "generation_config.json"
        return cls().replace(read_object(path), str(path))

    def replace(self, values: Mapping[str, Any], source: str = "") -> GenerationConfig:
        """Return a copy with other values. Fields of a file that are not generation options are ignored.

        Args:
            values: The values, by name.
            source: The file of the values; empty if a user sets them.

        Raises:
            InputError: A name is unknown, or a value is out of range.
        """
        where = f"{source}: " if source else ""
        fields = {field.name: field for field in dataclasses.fields(self)}
        changes: dict[str, Any] = {}
        stopping = [name for name, value in STOP_CRITERIA.items() if source and value == values.get("early_stopping")]
        if stopping:
            changes["stop_criteria"] = stopping[0]
        for name, value in values.items():
            if name not in fields:
                if not source:
                    raise InputError(f"unknown option {name}; expected one of {', '.join(sorted(fields))}")
                continue
            default = fields[name].default
            if name == "eos_token_id" and isinstance(value, (list, tuple)):  # several tokens end a text
                changes["stop_token_ids"] = (*changes.get("stop_token_ids", self.stop_token_ids), *value)
                continue
            if (value is None and default is not None) or (source and name == "eos_token_id" and value == -1):
                continue
            if isinstance(default, tuple) and not isinstance(value, (list, tuple, set, frozenset)):
                if not isinstance(value, (str, int)):
                    raise InputError(f"{where}{name} is {describe_value(value)}; expected a list")
                value = (value,)
            changes[name] = tuple(value) if isinstance(default, tuple) else value
            if name == "stop_criteria" and isinstance(value, str):
                changes[name] = value.lower()
        try:
            return dataclasses.replace(self, **changes)
        except InputError as error:
            raise InputError(f"{where}{error.message}") from None


def _check_number(name: str, value: object, is_integer: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int if is_integer else (int, float)):
        raise InputError(f"{name} is {describe_value(value)}; expected {'an integer' if is_integer else 'a number'}")
