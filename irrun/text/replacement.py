"""Replacement of matches, as `pcre2_substitute` does it."""

from __future__ import annotations

import functools
import re
from typing import Any

from irrun.text.patterns import Pattern, compile_pattern, get_seconds, prepare

__all__ = ["Replacement", "compile_replacement"]

#: A group by number or name, or an escaped dollar sign.
_REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\d+|[A-Za-z_]\w*))?")


class Replacement:
    r"""A pattern and what replaces its matches.

    Args:
        pattern: The pattern.
        template: The replacement, in which `$n` and `\n` stand for groups.
        is_global: Whether all matches are replaced, not only the first one.
    """

    def __init__(self, pattern: Pattern, template: bytes, is_global: bool) -> None:
        text = re.sub(rb"\\([1-9])", rb"$\1", template)
        self.size = len(text)
        self.pattern = pattern
        self.count = 0 if is_global else 1
        self.parts = _parse_template(text.decode("utf-8", "surrogateescape"), pattern)

    def replace(self, text: bytes) -> bytes:
        """Replace matches in a text.

        Raises:
            InputError: A search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        compiled = self.pattern.compiled
        if compiled is None or self.parts is None:
            return text
        subject = text.decode("utf-8", "surrogateescape")
        searched = prepare(subject)
        try:
            first = compiled.search(searched, timeout=get_seconds())
            if first is None:
                return text
            pieces: list[str] = []
            position = 0
            for match in compiled.finditer(searched, timeout=get_seconds()):
                begin, end = match.span()
                filled = self._fill(match, subject)
                if filled is None:
                    return text
                pieces += (subject[position:begin], filled)
                position = end
                if self.count:
                    break
            pieces.append(subject[position:])
        except TimeoutError:
            self.pattern.refuse()
        result = "".join(pieces).encode("utf-8", "surrogateescape")
        groups = max((i for i in range(1, self.pattern.group_count + 1) if first.span(i)[0] >= 0), default=0)
        return result if len(result) < 4 * (len(text) + (groups + 1) * self.size) else text

    def _fill(self, match: Any, subject: str) -> str | None:
        """Return the replacement of a match; None if it names a group without a match."""
        assert self.parts is not None
        pieces = []
        for part in self.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            begin, end = match.span(part)
            if begin < 0:
                return None
            pieces.append(subject[begin:end])
        return "".join(pieces)


@functools.lru_cache(maxsize=256)
def compile_replacement(pattern: bytes, template: bytes, is_global: bool) -> Replacement:
    """Return what replaces the matches of a pattern, which are kept for later calls.

    Args:
        pattern: The pattern in UTF-8.
        template: The replacement in UTF-8.
        is_global: Whether all matches are replaced, not only the first one.
    """
    return Replacement(compile_pattern(pattern), template, is_global)


def _parse_template(template: str, pattern: Pattern) -> list[str | int] | None:
    """Return the texts and groups of a replacement; None if PCRE2 does not accept it."""
    parts: list[str | int] = []
    position = 0
    names = pattern.compiled.groupindex if pattern.compiled else {}
    for match in _REFERENCE.finditer(template):
        parts.append(template[position : match.start()])
        position = match.end()
        dollar, braced, plain = match.groups()
        if dollar:
            parts.append("$")
            continue
        name = braced or plain
        if name is None:
            return None
        group = int(name) if name.isdigit() else names.get(name)
        if group is None or group > pattern.group_count:
            return None
        parts.append(group)
    parts.append(template[position:])
    return [part for part in parts if part != ""]
