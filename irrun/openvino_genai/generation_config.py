"""`GenerationConfig`: how tokens are chosen, and when a text ends."""

from __future__ import annotations

import operator
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

from irrun import generation
from irrun.errors import IrrunError
from irrun.generation.folder_files import read_object
from irrun.generation.transcription_config import TranscriptionConfig
from irrun.openvino_genai.adapters import AdapterConfig, to_adapters
from irrun.openvino_genai.enumerations import StopCriteria
from irrun.openvino_genai.options import (
    Options,
    OptionSet,
    keep_default,
    to_bool,
    to_criteria,
    to_languages,
    to_number,
    to_optional,
    to_text,
    to_texts,
    to_token_list,
    to_tokens,
)
from irrun.openvino_genai.parsers import to_parsers

__all__ = ["UNLIMITED", "GenerationConfig", "WhisperGenerationConfig"]

#: The value of unset limits.
UNLIMITED = 2**64 - 1
#: Options for proposals from the prompt or a draft model, which affect the speed of greedy decoding, not its results.
_PROPOSALS = ("assistant_confidence_threshold", "branching_factor", "max_ngram_size", "num_assistant_tokens")


class GenerationConfig(OptionSet):
    """How tokens are chosen, and when a text ends; see OpenVINO GenAI's documentation.

    Args:
        json_path: The path of generation_config.json.
        **kwargs: Options. Unknown options are ignored.

    Raises:
        RuntimeError: The file cannot be read, or a value has a wrong type.
    """

    _OPTIONS: ClassVar[Options] = {
        "adapters": (None, to_adapters),
        "apply_chat_template": (True, to_bool),
        "assistant_confidence_threshold": (0.0, to_number),
        "branching_factor": (1, operator.index),
        "diversity_penalty": (0.0, to_number),
        "do_sample": (False, to_bool),
        "echo": (False, to_bool),
        "eos_token_id": (-1, operator.index),
        "frequency_penalty": (0.0, to_number),
        "ignore_eos": (False, to_bool),
        "include_stop_str_in_output": (False, to_bool),
        "length_penalty": (1.0, to_number),
        "logprobs": (0, operator.index),
        "max_length": (UNLIMITED, operator.index),
        "max_new_tokens": (UNLIMITED, operator.index),
        "max_ngram_size": (0, operator.index),
        "min_new_tokens": (0, operator.index),
        "min_p": (0.0, to_number),
        "no_repeat_ngram_size": (UNLIMITED, operator.index),
        "num_assistant_tokens": (None, to_optional(operator.index)),
        "num_beam_groups": (1, operator.index),
        "num_beams": (1, operator.index),
        "num_return_sequences": (1, operator.index),
        "parsers": ([], to_parsers),
        "presence_penalty": (0.0, to_number),
        "pruning_ratio": (0, operator.index),
        "relevance_weight": (0.5, to_number),
        "repetition_penalty": (1.0, to_number),
        "return_omni_outputs": (False, to_bool),
        "rng_seed": (0, operator.index),
        "stop_criteria": (StopCriteria.HEURISTIC, to_criteria),
        "stop_strings": (set(), to_texts),
        "stop_token_ids": (set(), to_tokens),
        "structured_output_config": (None, keep_default),
        "temperature": (1.0, to_number),
        "top_k": (UNLIMITED, operator.index),
        "top_p": (1.0, to_number),
        "tree_depth": (0, operator.index),
    }

    def __init__(self, json_path: Any = None, **kwargs: Any) -> None:
        super().__init__()
        if json_path is not None:
            self._read(Path(json_path))
        self.update_generation_config(**kwargs)

    def _read(self, path: Path) -> None:
        try:
            values = read_object(path)
        except IrrunError as error:
            raise RuntimeError(str(error)) from None
        if not path.exists():
            raise RuntimeError(f"Failed to open '{path}' with generation config")
        known = {name: value for name, value in values.items() if name in self._OPTIONS and value is not None}
        tasks = values.get("task_to_id")
        for task, token in tasks.items() if isinstance(tasks, dict) else ():
            if f"{task}_token_id" in self._OPTIONS:
                known[f"{task}_token_id"] = token
        tokens = known.pop("eos_token_id", None)
        if isinstance(tokens, list):
            stops = known.get("stop_token_ids", [])
            known["stop_token_ids"] = [*stops, *tokens] if isinstance(stops, list) else stops
        if isinstance(tokens, list) and tokens:
            known["eos_token_id"] = tokens[0]
        elif isinstance(tokens, int):
            known["eos_token_id"] = tokens
        early = values.get("early_stopping")
        if early in (True, False, "never"):
            known["stop_criteria"] = {
                True: StopCriteria.EARLY, False: StopCriteria.HEURISTIC, "never": StopCriteria.NEVER
            }[early]  # fmt: skip
        self.update_generation_config(**known)

    def update_generation_config(self, **kwargs: Any) -> None:
        """Set options. Unknown options are ignored.

        Raises:
            RuntimeError: A value has a wrong type.
        """
        for name, value in kwargs.items():
            if name in self._OPTIONS:
                try:
                    setattr(self, name, value)
                except TypeError as error:
                    raise RuntimeError(str(error)) from None
        if kwargs.get("eos_token_id", -1) != -1:
            self.__dict__["stop_token_ids"] = {*self.__dict__["stop_token_ids"], self.eos_token_id}

    def set_eos_token_id(self, tokenizer_eos_token_id: int) -> None:
        """Set the token that ends a text, and add it to `stop_token_ids`."""
        self.update_generation_config(eos_token_id=tokenizer_eos_token_id)

    def is_greedy_decoding(self) -> bool:
        """Return whether the most probable tokens are chosen."""
        return not (self.do_sample or self.is_beam_search() or self.is_tree_search())

    def is_beam_search(self) -> bool:
        """Return whether several sequences compete."""
        return bool(self.num_beams > 1)

    def is_multinomial(self) -> bool:
        """Return whether tokens are sampled."""
        return bool(self.do_sample)

    def is_tree_search(self) -> bool:
        """Return whether a draft model proposes a tree."""
        return bool(self.tree_depth > 0)

    def is_assisting_generation(self) -> bool:
        """Return whether a draft model proposes tokens."""
        return bool(self.assistant_confidence_threshold > 0 or (self.num_assistant_tokens or 0) > 0)

    def is_prompt_lookup(self) -> bool:
        """Return whether the prompt proposes tokens."""
        return bool(self.max_ngram_size > 0 and (self.num_assistant_tokens or 0) > 0)

    def validate(self) -> None:
        """Check the options.

        Raises:
            RuntimeError: An option is out of range, or options contradict each other.
        """
        limited = self.max_new_tokens != UNLIMITED or self.max_length != UNLIMITED
        checks = [
            (self.num_return_sequences > 0, "num_return_sequences must be greater than 0"),
            (
                self.eos_token_id == -1 or self.eos_token_id in self.stop_token_ids,
                "'stop_token_ids' must contain 'eos_token_id'. Please, call 'set_eos_token_id' with 'eos_token_id' "
                "value",
            ),
            (all(token >= 0 for token in self.stop_token_ids), "'stop_token_ids' must be non-negative"),
            (
                not self.ignore_eos or limited,
                "ignore_eos is true, in this case either 'max_new_tokens', or 'max_length' should be defined.",
            ),
            (
                self.eos_token_id != -1 or self.stop_token_ids or self.stop_strings or limited,
                "Either 'eos_token_id', or 'stop_token_ids', or 'stop_strings', or 'max_new_tokens', or 'max_length' "
                "should be defined.",
            ),
            (
                self.max_new_tokens > 0 or self.echo,
                "'max_new_tokens' must be greater than 0, if `echo` is set, 0 is also accepted",
            ),
            (
                self.min_new_tokens <= self.max_new_tokens,
                "min_new_tokens must be less or equal max_new_tokens",
            ),
            (
                self.num_return_sequences == 1 or self.do_sample or self.is_beam_search(),
                "'num_return_sequences' can be more than 1 only in case of beam search or multinomial sampling, but "
                f"got {self.num_return_sequences}",
            ),
            *(self._check_beams() if self.is_beam_search() else self._check_penalties()),
            *(self._check_sampling() if self.do_sample else ()),
        ]
        for is_valid, message in checks:
            if not is_valid:
                raise RuntimeError(message)

    def _check_penalties(self) -> list[tuple[bool, str]]:
        return [
            (
                -2 <= self.frequency_penalty <= 2,
                f"'frequence_penalty' penalty must be within [-2.0; 2.0], but got {self.frequency_penalty:g}",
            ),
            (
                -2 <= self.presence_penalty <= 2,
                f"'presence_penalty' penalty must be within [-2.0; 2.0], but got {self.presence_penalty:g}",
            ),
            (
                self.repetition_penalty > 0,
                f"'repetition_penalty' must be a strictly positive float, but got {self.repetition_penalty:g}",
            ),
        ]

    def _check_beams(self) -> list[tuple[bool, str]]:
        beams, groups = self.num_beams, self.num_beam_groups
        return [
            (
                groups > 0 and beams % groups == 0,
                f"'num_beams' ({beams}) should be divisible by 'num_beam_groups' ({groups})",
            ),
            (
                beams >= self.num_return_sequences,
                f"'num_beams' ({beams}) must be greater equal than 'num_return_sequences' "
                f"({self.num_return_sequences})",
            ),
            (not self.do_sample, "Beam search with sampling is not supported yet."),
            (self.no_repeat_ngram_size > 0, "'no_repeat_ngram_size' must be positive"),
            (
                groups == 1 or self.diversity_penalty != 0,
                "For grouped beam search 'diversity_penalty' should not be zero, otherwise it fallbacks to non-grouped "
                "beam search",
            ),
            (
                groups > 1 or self.diversity_penalty == 0,
                "For beam search 'diversity_penalty' is applicable only when grouped beam search is used, but got "
                "'num_beam_groups' == 1",
            ),
            (
                (self.frequency_penalty, self.presence_penalty, self.repetition_penalty) == (0, 0, 1),
                "penalties of tokens are not currently supported by beam search",
            ),
        ]

    def _check_sampling(self) -> list[tuple[bool, str]]:
        return [
            (
                0 < self.top_p <= 1,
                f"When 'do_sample' is true, top_p must be a positive float > 0.0 and <= 1.0, but got {self.top_p:g}",
            ),
            (
                self.temperature > 0,
                "When 'do_sample' is true, temperature must be a strictly positive float, but got "
                f"{self.temperature:g}",
            ),
            (0 <= self.min_p < 1, f"When 'do_sample' is true, min_p must be in [0.0, 1.0), but got {self.min_p:g}"),
        ]

    def _to_irrun(self) -> generation.GenerationConfig:
        """Convert the options to irrun's.

        Raises:
            RuntimeError: irrun does not support an option.
        """
        values: dict[str, Any] = {}
        known = {field.name for field in fields(generation.GenerationConfig)}
        for name, (default, _) in self._OPTIONS.items():
            value = getattr(self, name)
            is_default = isinstance(value, AdapterConfig) or value in (default, UNLIMITED)
            if is_default or (name in _PROPOSALS and self.is_greedy_decoding()):
                continue
            if name not in known and name not in ("apply_chat_template", "logprobs", "parsers"):
                raise RuntimeError(f"irrun does not support the option {name} of GenerationConfig")
            if name in known:
                values[name] = value.name.lower() if isinstance(value, StopCriteria) else value
                if isinstance(value, set):
                    values[name] = tuple(sorted(value))
        if values.get("top_k") == 0:
            raise RuntimeError("top_k must be a strictly positive, but got 0")
        try:
            return generation.GenerationConfig().replace(values)
        except IrrunError as error:
            raise RuntimeError(str(error)) from error


class WhisperGenerationConfig(GenerationConfig):
    """The options of transcription; see OpenVINO GenAI's documentation.

    Args:
        json_path: The path of generation_config.json.
        **kwargs: Options. Unknown options are ignored.

    Raises:
        RuntimeError: The file cannot be read, or a value has a wrong type.
    """

    _OPTIONS: ClassVar[Options] = {
        **GenerationConfig._OPTIONS,
        "apply_chat_template": (False, to_bool),
        "alignment_heads": ([], lambda value: [(operator.index(a), operator.index(b)) for a, b in value]),
        "begin_suppress_tokens": ([], to_token_list),
        "decoder_start_token_id": (50258, operator.index),
        "hotwords": (None, to_optional(to_text)),
        "initial_prompt": (None, to_optional(to_text)),
        "is_multilingual": (True, to_bool),
        "lang_to_id": ({}, to_languages),
        "language": (None, to_optional(to_text)),
        "max_initial_timestamp_index": (50, operator.index),
        "no_timestamps_token_id": (50363, operator.index),
        "pad_token_id": (50257, operator.index),
        "prev_sot_token_id": (50361, operator.index),
        "return_timestamps": (False, to_bool),
        "suppress_tokens": ([], to_token_list),
        "task": (None, to_optional(to_text)),
        "transcribe_token_id": (50359, operator.index),
        "translate_token_id": (50358, operator.index),
        "word_timestamps": (False, to_bool),
    }

    def validate(self) -> None:
        """Check the options.

        Raises:
            RuntimeError: An option is out of range, or irrun does not support it.
        """
        super().validate()
        if self.word_timestamps:
            raise RuntimeError("irrun does not support word_timestamps of WhisperGenerationConfig")
        if self.is_multilingual and not self.lang_to_id:
            raise RuntimeError("'lang_to_id' map must be provided for multilingual models.")
        if self.task not in (None, "transcribe", "translate"):
            raise RuntimeError(f"'task' must be 'transcribe' or 'translate'. Task provided: '{self.task}'.")
        for name in ("language", "task"):
            if not self.is_multilingual and getattr(self, name) is not None:
                raise RuntimeError(f"Cannot specify '{name}' for not multilingual model.")

    def _to_transcription(self) -> TranscriptionConfig:
        """Convert the options to irrun's.

        Raises:
            RuntimeError: irrun does not support an option.
        """
        generation_options = GenerationConfig()
        for name in GenerationConfig._OPTIONS:
            if name != "apply_chat_template":
                generation_options.__dict__[name] = getattr(self, name)
        values = {
            item.name: getattr(self, item.name) for item in fields(TranscriptionConfig) if item.name != "generation"
        }
        language = self.language
        values["language"] = language if language is None else language.removeprefix("<|").removesuffix("|>")
        try:
            return TranscriptionConfig(generation=generation_options._to_irrun()).replace(values)
        except IrrunError as error:
            raise RuntimeError(str(error)) from error
