"""Patterns for texts of ASCII only, which the standard library matches faster than the package `regex`.

The standard library has no time limit. So a pattern is converted only if its matches take a time that is bounded by a
power of the length of the text, and used only for texts that are short enough.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from irrun.text.packages import import_regex

__all__ = ["AsciiPattern", "convert_to_ascii"]

#: Most steps of a search in the standard library.
MAX_STEPS = 10**9
#: A quantifier with more repetitions counts as one without a limit.
FEW = 4

#: What translated patterns consist of.
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
        longest: Characters of the longest text that it should search.
    """

    compiled: re.Pattern[str]
    longest: int


def convert_to_ascii(translated: str) -> AsciiPattern | None:
    """Return a pattern for texts of ASCII.

    Args:
        translated: A pattern of `regex` that `translate` returns.

    Returns:
        None if the pattern is not simple enough.
    """
    pieces: list[str] = []
    flags = [""]
    degrees, best = [0], [0]  # repeated characters of the alternative, and most in an alternative, by open group
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
        elif token["close"]:
            if len(flags) == 1:
                return None
            flags.pop()
            degree = max(best.pop(), degrees.pop())
            degrees[-1] += degree
            kind = "close" if not degree else "repeating"
        elif token["bar"]:
            best[-1], degrees[-1] = max(best[-1], degrees[-1]), 0
        elif kind == "quantifier":
            most = 1 if text[0] == "?" else int(token["high"]) if token["high"] else None
            if last not in ("char", "close", "repeating") or (last != "char" and most != 1):
                return None
            degrees[-1] += most is None or most > FEW
        pieces.append(text)
        last = kind
    try:
        compiled = re.compile("".join(pieces))
    except (re.error, OverflowError, RecursionError):
        return None
    return AsciiPattern(compiled, int(MAX_STEPS ** (1 / (max(best[0], degrees[0]) + 1))))


@functools.lru_cache(maxsize=4096)
def _list_chars(text: str, flags: str) -> str:
    """Return a class of the ASCII characters that an expression for one character matches."""
    compiled = import_regex().compile(f"(?{flags}:{text})" if flags else text)
    codes = [code for code in range(128) if compiled.fullmatch(chr(code))]
    if not codes:
        return r"[^\x00-\U0010ffff]"
    return "[" + "".join(f"\\x{code:02x}" for code in codes) + "]"
