"""The exceptions of irrun and the formatting of their messages."""

from __future__ import annotations

import re

__all__ = [
    "ExecutionError",
    "InputError",
    "IrrunError",
    "ModelError",
    "TimeLimitError",
    "UnsupportedError",
    "escape_unprintable",
    "to_one_line",
]

#: Maximum number of characters of a message: enough for a list of all unsupported operations.
MAX_LENGTH = 20_000
_LONG_WORD = re.compile(r"\S{300,}")


def escape_unprintable(text: str) -> str:
    """Return `text` with unprintable characters replaced by their escape sequences.

    Names come from untrusted files. Their control characters, terminal escape sequences and bidirectional marks must
    not reach the terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def to_one_line(text: str) -> str:
    """Return `text` as one printable line; long words and very long texts are shortened."""
    text = _LONG_WORD.sub(lambda word: f"{word[0][:120]}...{word[0][-60:]}", " ".join(text.split()))
    if len(text) > MAX_LENGTH:
        text = f"{text[: MAX_LENGTH - 300]} ... {text[-300:]}"
    return escape_unprintable(text)


class IrrunError(Exception):
    """Base class of the exceptions of irrun.

    Args:
        message: The finding and the expectation, in one line.
        path: The file that contains the error.
        line: The line in that file, counted from 1.
        layer: The description of the layer, as `Layer.describe()` returns it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: object | None = None,
        line: int | None = None,
        layer: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.layer = layer

    def __str__(self) -> str:
        location = "" if self.path is None else escape_unprintable(str(self.path))
        if self.line is not None:
            location += f":{self.line}" if location else f"line {self.line}"
        parts = (location, to_one_line(self.layer or ""), to_one_line(self.message))
        return ": ".join(part for part in parts if part)


class ModelError(IrrunError, RuntimeError):
    """A model file or its weights are invalid."""


class InputError(IrrunError, ValueError):
    """An input or argument is invalid: its name, shape, type or value, or the file that it is read from."""


class UnsupportedError(IrrunError, RuntimeError):
    """A model requires operations, versions or types that irrun does not support; the message lists all of them."""


class ExecutionError(IrrunError, RuntimeError):
    """A kernel failed."""


class TimeLimitError(ExecutionError):
    """A run exceeded its time limit."""
