"""The one family of exceptions that irrun raises."""

from __future__ import annotations

import re

__all__ = ["ExecutionError", "InputError", "IrrunError", "ModelError", "UnsupportedError", "one_line", "printable"]

#: What lists all operations that a model lacks fits; a shape of a million dimensions does not.
_LONGEST = 20_000
_LONG_WORD = re.compile(r"\S{300,}")


def printable(text: str) -> str:
    """`text` with everything that a terminal would obey instead of showing it written as an escape.

    Names come from files, and files from anywhere: control characters, escape sequences and marks that turn the
    direction of writing must not get through.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str) -> str:
    """`text` as one line that can be shown, what no one would read to its end cut short."""
    text = _LONG_WORD.sub(lambda word: f"{word[0][:120]}...{word[0][-60:]}", " ".join(text.split()))
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 300]} ... {text[-300:]}"
    return printable(text)


class IrrunError(Exception):
    """Anything that irrun reports.

    Args:
        message: what was found and what was expected, one line.
        path: the file it was found in.
        line: the line of that file, counted from 1.
        layer: the layer's description, as `Layer.describe()` gives it.
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
        where = "" if self.path is None else printable(str(self.path))
        if self.line is not None:
            where += f":{self.line}" if where else f"line {self.line}"
        parts = (where, one_line(self.layer or ""), one_line(self.message))
        return ": ".join(part for part in parts if part)


class ModelError(IrrunError):
    """The model file, or its weights, say something that cannot be."""


class InputError(IrrunError):
    """What was fed does not fit: a name, a shape, a type, a value or a file."""


class UnsupportedError(IrrunError):
    """The model needs operations, versions or types that irrun lacks; the message lists all of them."""


class ExecutionError(IrrunError):
    """A kernel failed on the values that reached it."""
