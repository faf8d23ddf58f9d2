"""Replacement of matches, as in `pcre2_substitute`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from irrun.deadlines import within_time
from irrun.limits import check_allocation, check_scratch
from irrun.text.batch import Batch
from irrun.text.patterns import Pattern, collect_spans, compile_pattern, prepare
from irrun.text.ragged import expand_ranges
from irrun.text.simple_patterns import CHARACTER_BYTES, SimplePattern, find_runs

__all__ = ["Replacement", "compile_replacement"]

Array = np.ndarray[Any, Any]

#: A group by number or name, or an escaped dollar sign.
_REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\d+|[A-Za-z_]\w*))?")


class Replacement:
    r"""A pattern and its replacement.

    Args:
        pattern: The pattern.
        template: The replacement. `$n` and `\n` refer to groups.
        is_global: Whether all matches are replaced, not only the first one.
    """

    def __init__(self, pattern: Pattern, template: bytes, is_global: bool) -> None:
        text = re.sub(rb"\\([1-9])", rb"$\1", template)
        self.size = len(text)
        self.pattern = pattern
        self.count = None if is_global else 1
        self.parts = _parse_template(text.decode("utf-8", "surrogateescape"), pattern)

    def replace(self, text: bytes) -> bytes:
        """Replace matches in a text.

        Raises:
            InputError: A search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        if self.pattern.compiled is None or self.parts is None:
            return text
        subject = text.decode("utf-8", "surrogateescape")
        matches = self._find_matches(prepare(subject))
        first = next(matches, None)
        result = None if first is None else self._substitute(subject, chain([first], matches))
        if result is None:
            return text
        encoded = result.encode("utf-8", "surrogateescape")
        return encoded if self._fits(len(text), len(encoded), first) else text

    def _find_matches(self, searched: str) -> Iterator[Any]:
        """Return the matches that are replaced."""
        try:
            yield from islice(self.pattern.find_all(searched), self.count)
        except TimeoutError:
            self.pattern.refuse()

    def _substitute(self, subject: str, matches: Iterable[Any]) -> str | None:
        """Return a text with replaced matches; None if it stays unchanged because a group has no match."""
        pieces: list[str] = []
        position = 0
        for match in matches:
            begin, end = match.span()
            filled = self._fill(match, subject)
            if filled is None:
                return None
            pieces += (subject[position:begin], filled)
            position = end
        pieces.append(subject[position:])
        return "".join(pieces)

    def _fits(self, size: int, result_size: int, first: Any) -> bool:
        """Return whether a result fits in the buffer. Its size depends on the groups of the first match."""
        if result_size < 4 * (size + self.size):
            return True
        groups = max((i for i in range(1, self.pattern.group_count + 1) if first.span(i)[0] >= 0), default=0)
        return result_size < 4 * (size + (groups + 1) * self.size)

    def replace_all(self, batch: Batch, skips: Array) -> tuple[Array, Array] | None:
        """Replace matches in all strings at once, if possible.

        Args:
            batch: The strings.
            skips: Which strings stay unchanged, boolean [strings].

        Returns:
            The start of each string, then the end, i64 [strings + 1]; and the text of all strings, u8 [bytes]. None if
            strings must be replaced one by one.

        Raises:
            InputError: A search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        if self.pattern.compiled is None or self.parts is None:
            return batch.byte_bounds, batch.chars
        simple = self.pattern.simple
        is_literal = all(isinstance(part, str) for part in self.parts)
        if simple is not None and self.count is None and (simple.kind != "run" or is_literal):
            return self._replace_chars(simple, batch, skips)
        if self.pattern.has_context or self.pattern.matches_nothing:
            return None
        spans = collect_spans(self.pattern.find_matches(batch.prepared))
        if not spans.size:
            return batch.byte_bounds, batch.chars
        return self._replace_some(batch, skips, spans)

    def _replace_some(self, batch: Batch, skips: Array, spans: Array) -> tuple[Array, Array]:
        """Replace matches in the strings that may have one: strings that overlap a match in the whole text."""
        begins, ends = batch.bounds[:-1], batch.bounds[1:]
        found = np.searchsorted(spans[:, 0], ends, "left") > np.searchsorted(spans[:, 1], begins, "right")
        text, edges = batch.chars.tobytes(), batch.byte_bounds
        pieces: list[bytes] = []
        sizes, position = np.diff(edges), 0
        for i in within_time(np.flatnonzero(found & ~skips).tolist()):
            begin, end = int(edges[i]), int(edges[i + 1])
            replaced = self.replace(text[begin:end])
            pieces += (text[position:begin], replaced)
            sizes[i], position = len(replaced), end
        pieces.append(text[position:])
        return np.concatenate([[0], np.cumsum(sizes)]), np.frombuffer(b"".join(pieces), np.uint8)

    def _replace_chars(self, pattern: SimplePattern, batch: Batch, skips: Array) -> tuple[Array, Array] | None:
        """Replace characters of a set; None if a result does not fit, or a group has no match."""
        lengths = np.diff(batch.bounds)
        check_scratch(CHARACTER_BYTES * batch.codes.size)
        found = pattern.find(batch.codes, batch.bounds)
        if skips.any():
            found &= ~np.repeat(skips, lengths)
        if not found.any():
            return batch.byte_bounds, batch.chars
        matched = np.flatnonzero(found)
        widths = np.ones(found.size, np.int64) if batch.is_ascii else batch.widths.copy()
        if pattern.kind == "run":
            begins, _ = find_runs(found, batch.bounds)
            texts = [
                "".join(part for part in self.parts or () if isinstance(part, str)).encode("utf-8", "surrogateescape")
            ]
            choices = np.zeros(begins.size, np.int64)
            widths[matched] = 0
        else:
            begins = matched
            codes, choices = np.unique(batch.codes[matched], return_inverse=True)
            texts = []
            for code in codes.tolist():
                char = chr(code)
                replaced = self._substitute(char, self._find_matches(prepare(char)))
                if replaced is None:
                    return None
                texts.append(replaced.encode("utf-8", "surrogateescape"))
        pool_ends = np.cumsum([len(text) for text in texts])
        pool_begins = np.concatenate([[0], pool_ends[:-1]])
        widths[begins] = (pool_ends - pool_begins)[choices]
        check_allocation((int(widths.sum()),), np.dtype(np.int64))
        offsets = np.zeros(found.size + 1, np.int64)
        np.cumsum(widths, out=offsets[1:])
        bounds = offsets[batch.bounds]
        sizes = np.diff(batch.byte_bounds)
        if ((np.diff(bounds) >= 4 * (sizes + self.size)) & (sizes > 0)).any():  # empty strings stay empty
            return None
        result = np.empty(int(offsets[-1]), np.uint8)
        kept = ~found
        if batch.is_ascii:
            result[offsets[:-1][kept]] = batch.chars[kept]
        else:
            result[expand_ranges(offsets[:-1][kept], offsets[1:][kept])] = batch.chars[np.repeat(kept, batch.widths)]
        pool = np.frombuffer(b"".join(texts), np.uint8)
        inserted = expand_ranges(offsets[begins], offsets[begins + 1])
        result[inserted] = pool[expand_ranges(pool_begins[choices], pool_ends[choices])]
        return bounds, result

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
    """Return a replacement, and keep it for later calls.

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
        is_number = name.isascii() and name.isdigit()
        group = int(name.lstrip("0")[:9] or 0) if is_number else names.get(name)
        if group is None or group > pattern.group_count:
            return None
        parts.append(group)
    parts.append(template[position:])
    return [part for part in parts if part != ""]
