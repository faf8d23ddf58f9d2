"""The chat template of a folder, with the special tokens that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.generation.chat_template import render_chat
from irrun.generation.tokenization import TextTokenizer

__all__ = ["ChatFormat"]

#: Files that state the chat template in "chat_template", in the order in which later ones replace earlier ones.
TEMPLATES = ("tokenizer_config.json", "processor_config.json", "chat_template.json")


class ChatFormat:
    """How messages become one text.

    Args:
        folder: The folder, with chat_template.jinja or tokenizer_config.json.
        tokenizer: Its tokenizer, whose file may state the template as well.

    Raises:
        InputError: There is no template, or a file is damaged.
    """

    def __init__(self, folder: Path, tokenizer: TextTokenizer) -> None:
        template: Any = tokenizer.get_info("chat_template")
        for name in TEMPLATES:
            found = _read_object(folder / name).get("chat_template")
            if isinstance(found, list):  # several, by name
                found = next((entry.get("template") for entry in found if entry.get("name") == "default"), None)
            template = found if isinstance(found, str) else template
        if (folder / "chat_template.jinja").exists():
            template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        if not template:
            raise InputError(f"{folder} has no chat template; expected chat_template.jinja or tokenizer_config.json")
        self._template: str = template
        self._variables = {f"{name}_token": _find_text(folder, tokenizer, name) for name in ("bos", "eos", "pad")}

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return messages as one text, with what precedes an answer.

        Args:
            messages: Messages such as `{"role": "user", "content": "Hello"}`.

        Raises:
            ChatTemplateError: The template is invalid or refuses messages, or Jinja is not installed.
        """
        return render_chat(self._template, messages, True, self._variables)


def _find_text(folder: Path, tokenizer: TextTokenizer, name: str) -> str:
    """Return the text of a special token, or an empty one."""
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        value = _read_object(folder / file).get(f"{name}_token")
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            return value
    token = tokenizer.get_info(f"{name}_token_id") or ""
    return tokenizer.decode(np.array([[int(token)]]), skip_special_tokens=False)[0] if token.isdigit() else ""


def _read_object(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object")
    return values
