"""Patterns for ASCII texts, which the standard library matches faster than the package `regex`.

The standard library has no time limit. A pattern is therefore converted only if a power of the text length bounds the
matching time, and used only for texts that are short enough.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from irrun.text.packages import import_regex

__all__ = ["AsciiPattern", "convert_to_ascii"]

#: Maximum number of steps of a search in the standard library.
MAX_STEPS = 10**9
#: A quantifier with more repetitions counts as unlimited.
FEW = 4

#: The elements of translated patterns.
_TOKENS = re.compile(
    r"(?P<char>\[(?:\\.|[^\]\\])*\]|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\W_]|[^\x00-\x7f]|\.)"
    r"|(?P<open>\((?:\?(?:[:=!]|<[=!]|(?P<flags>[is]*(?:-[is]*)?):))?)"
    r"|(?P<close>\))|(?P<bar>\|)|(?P<anchor>\\A|\\Z|\^|\$)"
    r"|(?P<quantifier>(?:[*+?]|\{(?P<low>\d+),(?P<high>\d*)\})(?P<mode>[?+]?))"
)


class AsciiPattern(NamedTuple):
    """A pattern of the standard library.

    Attributes:
        compiled: The pattern.
        longest: Maximum length of texts to search, in characters.
    """

    compiled: re.Pattern[str]
    longest: int


def convert_to_ascii(translated: str) -> AsciiPattern | None:
    """Return a pattern for ASCII texts.

    Args:
        translated: A pattern of `regex` that `translate` returns.

    Returns:
        None if the pattern is not simple enough.
    """
    pieces: list[str] = []
    flags = [""]
    starts = _Starts()
    degrees, best = [0], [0]  # by open group: repetitions in the alternative, and their maximum
    position, last = 0, ""
    while position < len(translated):
        token = _TOKENS.match(translated, position)
        if token is None:
            return None
        position = token.end()
        kind, text = token.lastgroup or "", token[0]
        if kind in ("low", "high", "mode"):
            kind = "quantifier"
        if token["char"]:
            kind, text = "char", _list_chars(text, flags[-1])
            starts.add(text)
        elif token["open"]:
            kind = "open"
            if token["flags"] is not None:
                added, _, removed = token["flags"].partition("-")
                flags.append("".join(sorted((set(flags[-1]) | set(added)) - set(removed))))
                text = "(?:"
            else:
                flags.append(flags[-1])
            degrees.append(0)
            best.append(0)
            starts.open(is_look=token["open"].endswith(("=", "!")))
        elif token["close"]:
            if len(flags) == 1:
                return None
            flags.pop()
            degree = max(best.pop(), degrees.pop())
            degrees[-1] += degree
            kind = "close" if not degree else "repeating"
            starts.close()
        elif token["bar"]:
            best[-1], degrees[-1] = max(best[-1], degrees[-1]), 0
            starts.end_alternative()
        elif kind == "quantifier":
            most = 1 if text[0] == "?" else int(token["high"]) if token["high"] else None
            if last not in ("char", "close", "repeating") or (last != "char" and most != 1):
                return None
            degrees[-1] += most is None or most > FEW
            if text[0] in "*?" or int(token["low"] or 1) == 0:
                starts.skip()
        pieces.append(text)
        last = kind
    try:
        compiled = re.compile(starts.get_check() + "".join(pieces) + ")")
    except (re.error, OverflowError, RecursionError):
        return None
    return AsciiPattern(compiled, int(MAX_STEPS ** (1 / (max(best[0], degrees[0]) + 1))))


@dataclass(slots=True)
class _Group:
    """The possible first characters of a group's matches.

    Attributes:
        is_look: Whether the group looks ahead or behind.
        chars: The content of classes of characters.
        has_empty: Whether an alternative before the last one may be empty.
        is_empty: Whether the last alternative may be empty so far.
        was_empty: Whether it could be empty before its last item.
    """

    is_look: bool = False
    chars: list[str] = field(default_factory=list)
    has_empty: bool = False
    is_empty: bool = True
    was_empty: bool = field(init=False)


class _Starts:
    """Collects the possible first characters of matches, so that other positions are skipped quickly."""

    def __init__(self) -> None:
        self._groups = [_Group()]

    def add(self, text: str) -> None:
        """Add a class of characters."""
        group = self._groups[-1]
        group.was_empty = group.is_empty
        if group.is_empty and text.startswith("["):
            group.chars.append(text[1:-1])
        group.is_empty = False

    def open(self, is_look: bool) -> None:
        """Open a group."""
        self._groups.append(_Group(is_look))

    def close(self) -> None:
        """Close the innermost group."""
        inner = self._groups.pop()
        group = self._groups[-1]
        group.was_empty = group.is_empty
        if inner.is_look:
            return
        if group.is_empty:
            group.chars += inner.chars
            group.is_empty = inner.has_empty or inner.is_empty

    def skip(self) -> None:
        """Make the last item optional."""
        self._groups[-1].is_empty = self._groups[-1].was_empty

    def end_alternative(self) -> None:
        """End an alternative of the innermost group."""
        group = self._groups[-1]
        group.has_empty |= group.is_empty
        group.is_empty = group.was_empty = True

    def get_check(self) -> str:
        """Return the opening of a group that starts with a lookahead for the possible first characters."""
        group = self._groups[0]
        if group.has_empty or group.is_empty or not group.chars:
            return "(?:"
        chars = "".join(dict.fromkeys(group.chars))
        return f"(?=[{chars}])(?:"


@functools.lru_cache(maxsize=4096)
def _list_chars(text: str, flags: str) -> str:
    """Return a class with the ASCII characters that a single-character expression matches."""
    compiled = import_regex().compile(f"(?{flags}:{text})" if flags else text)
    codes = [code for code in range(128) if compiled.fullmatch(chr(code))]
    if not codes:
        return "(?:(?!))"  # compiles faster than an empty class
    return "[" + "".join(f"\\x{code:02x}" for code in codes) + "]"
