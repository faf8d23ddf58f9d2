"""Options of transcription, from the folder of a model and its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from irrun.arguments import check_choice, check_flag, describe_value
from irrun.errors import InputError
from irrun.generation.config import GenerationConfig
from irrun.generation.folder_files import read_object

__all__ = ["TranscriptionConfig"]


@dataclass(frozen=True)
class TranscriptionConfig:
    """The options of transcription, with the names and meanings of OpenVINO GenAI's WhisperGenerationConfig.

    Attributes:
        language: The language of the speech, such as "en"; None to detect it.
        task: "transcribe", or "translate" for English text.
        return_timestamps: Whether the text is divided into segments with times.
        initial_prompt: A text placed before the speech, such as the spelling of names.
        hotwords: A text placed before the speech in every window of a long recording.
        decoder_start_token_id: The first token of a text.
        transcribe_token_id: The token of the task "transcribe".
        translate_token_id: The token of the task "translate".
        prev_sot_token_id: The token before `initial_prompt` and `hotwords`.
        no_timestamps_token_id: The token before texts without times. Tokens above it are timestamps.
        begin_suppress_tokens: Tokens that cannot begin a text.
        suppress_tokens: Tokens that are never chosen.
        max_initial_timestamp_index: Maximum first timestamp, in steps of 0.02 s.
        is_multilingual: Whether the model supports several languages and tasks.
        lang_to_id: The tokens of languages, such as "<|en|>".
        generation: Options for choosing tokens.
    """

    language: str | None = None
    task: str | None = None
    return_timestamps: bool = False
    initial_prompt: str | None = None
    hotwords: str | None = None
    decoder_start_token_id: int = 50258
    transcribe_token_id: int = 50359
    translate_token_id: int = 50358
    prev_sot_token_id: int = 50361
    no_timestamps_token_id: int = 50363
    begin_suppress_tokens: tuple[int, ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    max_initial_timestamp_index: int = 50
    is_multilingual: bool = True
    lang_to_id: Mapping[str, int] = field(default_factory=dict)
    generation: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A value has a wrong type, or is out of range.
        """
        single = [item.name for item in fields(self) if item.name.endswith("_token_id")]
        for name in (*single, "max_initial_timestamp_index"):
            _check_token(name, getattr(self, name))
        for name in ("begin_suppress_tokens", "suppress_tokens"):
            for token in getattr(self, name):
                _check_token(name, token)
        if not isinstance(self.lang_to_id, Mapping):
            raise InputError(f"lang_to_id is {describe_value(self.lang_to_id)}; expected languages and their tokens")
        for token in self.lang_to_id.values():
            _check_token("lang_to_id", token)
        for name in ("language", "task", "initial_prompt", "hotwords"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InputError(f"{name} is {describe_value(value)}; expected a text")
        if self.generation.eos_token_id is not None:
            _check_token("eos_token_id", self.generation.eos_token_id)
        check_flag("is_multilingual", self.is_multilingual)
        check_flag("return_timestamps", self.return_timestamps)

    @classmethod
    def read(cls, folder: Path) -> TranscriptionConfig:
        """Read generation_config.json of a folder.

        Args:
            folder: The folder.

        Raises:
            InputError: The file is damaged.
        """
        values = read_object(folder / "generation_config.json")
        tasks = values.get("task_to_id") or {}
        found: dict[str, Any] = {
            name: values[name] for name in ("transcribe_token_id", "translate_token_id") if name in values
        }
        if isinstance(tasks, dict):
            found |= {f"{task}_token_id": token for task, token in tasks.items() if task in ("transcribe", "translate")}
        names = {item.name for item in fields(cls)} - {"language", "task", "return_timestamps", "generation"}
        found |= {name: value for name, value in values.items() if name in names and value is not None}
        return cls(generation=GenerationConfig.read(folder)).replace(found)

    def replace(self, values: Mapping[str, Any]) -> TranscriptionConfig:
        """Return a copy with other values, including values of `GenerationConfig`.

        Args:
            values: The values, by name.

        Raises:
            InputError: A name is unknown, or a value is out of range.
        """
        own = {item.name for item in fields(self)}
        changes = {name: value for name, value in values.items() if name in own}
        others = {name: value for name, value in values.items() if name not in own}
        for name in ("begin_suppress_tokens", "suppress_tokens"):
            value = changes.get(name) or ()
            if not isinstance(value, (list, tuple)):
                raise InputError(f"{name} is {describe_value(value)}; expected a list of tokens")
            if name in changes:
                changes[name] = tuple(value)
        if others:
            changes["generation"] = changes.get("generation", self.generation).replace(others)
        config = replace(self, **changes)
        check_choice("task", config.task, (None, "transcribe", "translate"))
        if not config.is_multilingual and (config.language is not None or config.task is not None):
            raise InputError("the model supports English only: language and task cannot be chosen")
        if config.language is not None:
            config.find_language()
        return config

    def find_language(self) -> int:
        """Return the token of `language`.

        Raises:
            InputError: The model does not support it.
        """
        token = self.lang_to_id.get(f"<|{self.language}|>", self.lang_to_id.get(str(self.language)))
        if token is None:
            known = ", ".join(name.strip("<|>") for name in sorted(self.lang_to_id)) or "none"
            raise InputError(f"the model does not support the language {self.language!r}; it supports {known}")
        return token


def _check_token(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise InputError(f"{name} is {describe_value(value)}; expected a token, which is 0 or a positive integer")
