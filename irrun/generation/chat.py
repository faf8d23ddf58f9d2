"""The chat template of a folder, with its special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irrun.errors import InputError
from irrun.generation.chat_template import render_chat
from irrun.generation.folder_files import SpecialTokens, find_chat_template
from irrun.generation.tokenization import TextTokenizer

__all__ = ["ChatFormat"]


class ChatFormat:
    """Converts messages to one text.

    Args:
        folder: The folder, with chat_template.jinja or tokenizer_config.json.
        tokenizer: Its tokenizer. Its file may contain the template, too.

    Raises:
        InputError: The folder has no template, or a file is damaged.
    """

    def __init__(self, folder: Path, tokenizer: TextTokenizer) -> None:
        template = find_chat_template(folder) or tokenizer.get_info("chat_template")
        if not template:
            raise InputError(f"{folder} has no chat template; expected chat_template.jinja or tokenizer_config.json")
        self._template = template
        texts = SpecialTokens(tokenizer, folder).texts
        self._variables = {f"{name}_token": text for name, text in texts.items()}

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return messages as one text, with the prefix of an answer.

        Args:
            messages: Messages such as `{"role": "user", "content": "Hello"}`.

        Raises:
            ChatTemplateError: The template is invalid or refuses messages, or Jinja is not installed.
        """
        return render_chat(self._template, messages, True, self._variables)
