"""The JSON files in folders exported by optimum-intel: special tokens and the chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from irrun.arguments import describe_value
from irrun.errors import InputError
from irrun.generation.tokenization import TextTokenizer

__all__ = ["MAX_TOKEN", "SpecialTokens", "find_chat_template", "read_object"]

#: Special tokens.
SPECIAL = ("pad", "bos", "eos")
#: Maximum token.
MAX_TOKEN = 2**31 - 1
#: Files with the chat template in "chat_template"; later files take precedence over earlier ones.
TEMPLATES = ("tokenizer_config.json", "processor_config.json", "chat_template.json")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or {} if the file does not exist.

    Args:
        path: The file.

    Raises:
        InputError: The file cannot be read, or is not a JSON object.
    """
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object")
    return values


def find_chat_template(folder: Path) -> str | None:
    """Return the chat template of a folder, or None.

    Args:
        folder: The folder, with chat_template.jinja or one of the files in TEMPLATES.

    Raises:
        InputError: A file is damaged.
    """
    template = None
    for name in TEMPLATES:
        found = read_object(folder / name).get("chat_template")
        if isinstance(found, list):  # several templates, by name
            named = [entry for entry in found if isinstance(entry, dict) and entry.get("name") == "default"]
            found = named[-1].get("template") if named else None
        template = found if isinstance(found, str) else template
    path = folder / "chat_template.jinja"
    try:
        return path.read_text(encoding="utf-8") if path.exists() else template
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


class SpecialTokens:
    """The special tokens of a tokenizer, as OpenVINO GenAI finds them in its folder and its files.

    Args:
        tokenizer: The tokenizer.
        folder: Its folder, or None.

    Attributes:
        ids: The tokens "pad", "bos" and "eos"; -1 if unknown.
        texts: Their texts; empty if unknown.

    Raises:
        InputError: A file is damaged.
    """

    def __init__(self, tokenizer: TextTokenizer, folder: Path | None) -> None:
        self.ids = dict.fromkeys(SPECIAL, -1)
        self.texts = dict.fromkeys(SPECIAL, "")
        if folder is not None:
            self._read(folder)
        for name in SPECIAL:
            token = tokenizer.get_token(f"{name}_token_id")
            self.ids[name] = self.ids[name] if token is None else token
        for name in SPECIAL:
            if self.ids[name] != -1 and not self.texts[name] and tokenizer.detokenizer is not None:
                rows = np.array([[self.ids[name]]], np.int64)
                self.texts[name] = tokenizer.decode(rows, skip_special_tokens=False)[0]
            elif self.ids[name] == -1 and self.texts[name] and tokenizer.tokenizer is not None:
                tokens, _ = tokenizer.encode([self.texts[name]])
                self.ids[name] = int(tokens[0, -1]) if tokens.size else -1

    def _read(self, folder: Path) -> None:
        config, special, tokenizer = (
            read_object(folder / name) for name in ("config.json", "special_tokens_map.json", "tokenizer_config.json")
        )
        for name in SPECIAL:
            token = config.get(f"{name}_token_id")
            if isinstance(token, int) and not isinstance(token, bool):
                if token > MAX_TOKEN:
                    raise InputError(f"{folder / 'config.json'}: {name}_token_id is {describe_value(token)}")
                self.ids[name] = max(token, -1)
            for values in (special, tokenizer):
                value = values.get(f"{name}_token")
                content = value.get("content") if isinstance(value, dict) else value if values is tokenizer else None
                if isinstance(content, str) and not self.texts[name]:
                    self.texts[name] = content
        if tokenizer:
            self.texts["pad"] = self.texts["pad"] or self.texts["eos"]
            added = tokenizer.get("added_tokens_decoder", {})
            for key, value in added.items() if isinstance(added, dict) else ():
                is_token = isinstance(value, dict) and key.isascii() and key.isdigit() and len(key) < 10
                content = value.get("content") if is_token else None
                for name in SPECIAL:
                    if self.ids[name] == -1 and self.texts[name] and content == self.texts[name]:
                        self.ids[name] = int(key)
            if added and self.ids["pad"] == -1:
                self.ids["pad"] = self.ids["eos"]
