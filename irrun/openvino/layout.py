"""`Layout`, and the functions of `layout_helpers`."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["Layout"]

_SCALAR = "**SCALAR**"
_NAME = re.compile(r"[A-Za-z0-9_]+")

#: Names that mean the same dimension.
_ALIASES = {"B": "N", "BATCH": "N", "CHANNELS": "C", "CHANNEL": "C", "DEPTH": "D", "HEIGHT": "H", "WIDTH": "W"}


class Layout:
    """The names of the dimensions of a tensor.

    Args:
        layout: A text such as "NCHW", "N...C" or "[batch,channels]"; by default nothing is known.

    Raises:
        RuntimeError: The text is not a layout.
        TypeError: The argument is not a text.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, layout: str = "") -> None:
        if not isinstance(layout, str):
            raise TypeError(f"Layout(): incompatible constructor arguments. Invoked with: {layout!r}")
        self._is_scalar = layout.strip() == _SCALAR
        text = "" if self._is_scalar else layout.strip()
        names = _split_layout(text) if text else ["..."]
        if self._is_scalar:
            names = []
        self._names = names
        seen = [name for name in names if name not in ("?", "...")]
        for name in seen:
            if seen.count(name) > 1:
                raise RuntimeError(f"Dimension ({name}) is defined multiple times in layout")

    @staticmethod
    def scalar() -> Layout:
        """Return the layout of scalars."""
        return Layout(_SCALAR)

    def __repr__(self) -> str:
        return f"<Layout: {self}>"

    def __str__(self) -> str:
        return _SCALAR if self._is_scalar else f"[{','.join(self._names)}]"

    def to_string(self) -> str:
        """Return the layout as text."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = Layout(other)
        return isinstance(other, Layout) and str(self) == str(other)

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self._names == ["..."]

    def _fits(self, rank: int) -> bool:
        """Return whether a tensor of this rank may have the layout."""
        named = sum(name != "..." for name in self._names)
        return named <= rank if "..." in self._names else named == rank

    def has_name(self, dimension_name: str) -> bool:
        """Return whether a dimension has that name."""
        return _normalize(dimension_name) in self._names

    def get_index_by_name(self, dimension_name: str) -> int:
        """Return the index of a dimension; it is negative after "...".

        Raises:
            RuntimeError: No dimension has that name.
        """
        name = _normalize(dimension_name)
        if name not in self._names or name in ("?", "..."):
            raise RuntimeError(f"{dimension_name} dimension index is not defined")
        position = self._names.index(name)
        if "..." in self._names and position > self._names.index("..."):
            return position - len(self._names)
        return position


def _normalize(name: str) -> str:
    return _ALIASES.get(name.upper(), name.upper())


def _split_layout(text: str) -> list[str]:
    if text.startswith("["):
        if not text.endswith("]"):
            raise RuntimeError(f"Layout is invalid: {text}")
        parts = [part.strip() for part in text[1:-1].split(",")]
        names = [_check_name(part) for part in (parts if parts[-1] or len(parts) == 1 else parts[:-1])]
    else:
        if text.replace("...", "").count("."):
            raise RuntimeError("Undefined number of dimensions shall have ...")
        names = [_check_name(part) for part in re.findall(r"\.\.\.|.", text)]
    if names.count("...") > 1:
        raise RuntimeError("Undefined number of dimensions (...) is defined multiple times in layout")
    return names


def _check_name(name: str) -> str:
    if name in ("?", "..."):
        return name
    if not _NAME.fullmatch(name):
        raise RuntimeError(f"Layout name is invalid ({name}). Only english letters, digits and _ is allowed")
    return _normalize(name)


def to_layout(value: Any) -> Layout:
    """Return a `Layout` for a layout or its text."""
    return value if isinstance(value, Layout) else Layout(value)
