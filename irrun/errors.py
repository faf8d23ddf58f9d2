"""The one family of exceptions that irrun raises."""

from __future__ import annotations

__all__ = ["ExecutionError", "InputError", "IrrunError", "ModelError", "UnsupportedError"]


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
        where = "" if self.path is None else str(self.path)
        if self.line is not None:
            where += f":{self.line}" if where else f"line {self.line}"
        parts = [part for part in (where, self.layer, self.message) if part]
        return " ".join(": ".join(parts).split())


class ModelError(IrrunError):
    """The model file, or its weights, say something that cannot be."""


class InputError(IrrunError):
    """What was fed does not fit: a name, a shape, a type, a value or a file."""


class UnsupportedError(IrrunError):
    """The model needs operations, versions or types that irrun lacks; the message lists all of them."""


class ExecutionError(IrrunError):
    """A kernel failed on the values that reached it."""
