"""Patterns that are alternatives of many literal texts, such as the special tokens of a vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["LiteralMatch", "LiteralPattern", "find_literals"]

#: Minimum number of texts; fewer are left to the regular expression packages.
MANY = 32

_TEXT = r"(?:[^\\()\[\]{}.*+?^$|]|\\[^a-zA-Z0-9])+"
_TEXTS = re.compile(rf"\({_TEXT}(?:\|{_TEXT})*\)")
_ONE_TEXT = re.compile(_TEXT)


class LiteralMatch(NamedTuple):
    """A match, with the methods of regular expression matches.

    Attributes:
        first: The start of the match.
        last: The end of the match.
    """

    first: int
    last: int

    def start(self) -> int:
        """Return the start of the match."""
        return self.first

    def end(self) -> int:
        """Return the end of the match."""
        return self.last

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return the start and the end of the match, which is also its only group."""
        return self.first, self.last


class LiteralPattern:
    """Alternative texts. If several match, the first one counts.

    Args:
        texts: The texts, in order.
    """

    groups = 1
    groupindex: dict[str, int] = {}  # noqa: RUF012  an empty mapping, as of other patterns without names

    def __init__(self, texts: list[str]) -> None:
        self._ranks = {text: rank for rank, text in reversed(list(enumerate(texts)))}
        self._lengths = sorted({len(text) for text in texts})
        firsts = "".join(sorted({re.escape(text[0]) for text in texts}))
        self._first = re.compile(f"[{firsts}]")

    def match(self, text: str) -> LiteralMatch | None:
        """Return the match at the beginning of a text."""
        return self._match_at(text, 0)

    def _match_at(self, text: str, position: int) -> LiteralMatch | None:
        found = [end for length in self._lengths if text[position : (end := position + length)] in self._ranks]
        found = [end for end in found if end <= len(text)]
        if not found:
            return None
        return LiteralMatch(position, min(found, key=lambda end: self._ranks[text[position:end]]))

    def finditer(self, text: str, timeout: float | None = None) -> Iterator[LiteralMatch]:
        """Yield the matches in a text, in time linear in its length."""
        position = 0
        for candidate in self._first.finditer(text):
            if candidate.start() >= position:
                match = self._match_at(text, candidate.start())
                if match is not None:
                    position = match.last
                    yield match

    def findall(self, text: str, timeout: float | None = None) -> list[str]:
        """Return the texts of all matches."""
        return [text[match.first : match.last] for match in self.finditer(text)]


def find_literals(pattern: str) -> LiteralPattern | None:
    """Return the literals of a PCRE2 pattern if it consists of many alternative texts."""
    if pattern.count("|") < MANY or not pattern.isprintable() or _TEXTS.fullmatch(pattern) is None:
        return None
    return LiteralPattern([re.sub(r"\\(.)", r"\1", text) for text in _ONE_TEXT.findall(pattern[1:-1])])
