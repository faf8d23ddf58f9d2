"""Patterns of single characters, which NumPy finds in all strings at once."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import numpy as np

from irrun.text.packages import import_regex
from irrun.text.unicode_ranges import is_unassigned

__all__ = ["CHARACTER_BYTES", "CharClass", "SimplePattern", "find_simple_pattern"]

Array = np.ndarray[Any, Any]

#: Memory per character for searching a pattern and processing its matches, in bytes.
CHARACTER_BYTES = 40

_CHAR = r"(?:\[(?:\\.|[^\]\\])*\]|\\x[0-9a-f]{2}|[^\W_]|[^\x00-\x7f]|\.)"
_CHARS = rf"{_CHAR}(?:\|{_CHAR})*"
_UNION = rf"\(\?:{_CHARS}\)"
_GROUP = rf"(?:\((?:\?:)?(?P<group>{_CHARS}|{_UNION})\)|(?P<single>{_CHAR}|{_UNION}))"
_PATTERNS = {
    "char": re.compile(rf"(?P<several>{_CHARS})|{_GROUP}"),
    "run": re.compile(_GROUP + r"(?:(?P<plus>\+)|\{(?P<minimum>\d{1,4}),\})\+?"),
    "start": re.compile(rf"(?:\((?:\?:)?\^\)|\^){_GROUP}"),
}


class CharClass:
    """A set of characters.

    Args:
        expression: A pattern of `regex` that matches one character.
    """

    def __init__(self, expression: str) -> None:
        self._compiled = import_regex().compile(expression)
        self._known = np.zeros(0x110000, np.uint8)  # 1 for characters outside the set, 2 for characters in it
        self._learn(range(128))

    def _learn(self, codes: Any) -> None:
        for code in codes:
            self._known[code] = 2 if self._compiled.fullmatch(chr(code)) else 1

    def contains(self, codes: Array) -> Array:
        """Return which characters are in the set.

        Args:
            codes: Code points, u8 or u32 [characters].

        Returns:
            Boolean [characters].
        """
        known = self._known[codes]
        if codes.dtype != np.uint8 and not known.all():
            unknown = np.unique(codes[known == 0])
            self._learn(unknown[~is_unassigned(unknown)].tolist())
            unassigned = unknown[is_unassigned(unknown)]
            self._known[unassigned] = 2 if self._compiled.fullmatch("\U000e0fff") else 1
            known = self._known[codes]
        contained: Array = known == 2
        return contained


class SimplePattern(NamedTuple):
    """A pattern that matches characters of a set.

    Attributes:
        kind: "char" for one character, "run" for as many consecutive ones as possible, "start" for the first of a text.
        chars: The set.
        minimum: Minimum number of characters in a run.
    """

    kind: Literal["char", "run", "start"]
    chars: CharClass
    minimum: int

    def find(self, codes: Array, bounds: Array) -> Array:
        """Return which characters are parts of matches.

        Args:
            codes: The code points of all strings, u8 or u32 [characters].
            bounds: The start of each string, then the end, [strings + 1].

        Returns:
            Boolean [characters].
        """
        found = self.chars.contains(codes)
        if self.kind == "start":
            first = np.zeros(codes.size, bool)
            first[bounds[:-1][bounds[:-1] < bounds[1:]]] = True
            return found & first
        if self.kind == "run" and self.minimum > 1:
            begins, ends = find_runs(found, bounds)
            short = ends - begins < self.minimum
            found[_expand(begins[short], ends[short])] = False
        return found


def find_runs(found: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the starts and ends of runs of characters within strings.

    Args:
        found: Which characters are parts of runs.
        bounds: The start of each string, then the end.
    """
    edges = np.zeros(found.size + 1, bool)
    edges[bounds] = True
    before = np.concatenate([[False], found])
    after = np.concatenate([found, [False]])
    begins = np.flatnonzero(after & (~before | edges))
    ends = np.flatnonzero(before & (~after | edges))
    return begins, ends


def _expand(begins: Array, ends: Array) -> Array:
    lengths = ends - begins
    return np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))


def find_simple_pattern(translated: str) -> SimplePattern | None:
    """Return a translated pattern as a simple pattern, if it is one."""
    for kind, expression in _PATTERNS.items():
        match = expression.fullmatch(translated)
        if match is None:
            continue
        groups = match.groupdict()
        chars = CharClass(groups.get("several") or groups["group"] or groups["single"])
        minimum = int(groups.get("minimum") or 1)
        if minimum:
            return SimplePattern(kind, chars, minimum)  # type: ignore[arg-type]
    return None
