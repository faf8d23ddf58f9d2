"""Splitting of strings by patterns."""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from irrun.deadlines import within_time
from irrun.limits import check_scratch
from irrun.text.batch import FEW, SHORT, Batch
from irrun.text.patterns import Pattern, collect_spans, compile_pattern, prepare
from irrun.text.simple_patterns import CHARACTER_BYTES, SimplePattern

__all__ = ["Parts", "SpecialTokenSplitter", "Splitter", "get_special_token_splitter", "get_splitter"]

Array = np.ndarray[Any, Any]

#: Maximum size of strings whose parts are kept in bytes, and maximum number of them.
MAX_KEPT_BYTES, MAX_KEPT = 48, 1 << 16
#: Strings with fewer characters are converted one part at a time.
FEW_CHARACTERS = 64
#: How matches are merged with the following text, unless the pattern is inverted.
NEXT = ("mergedwithnext", False)


class Parts(NamedTuple):
    """The parts of a string.

    Attributes:
        begins: The start of each part in bytes.
        ends: The end of each part in bytes.
        flags: Whether each part is a special token.
    """

    begins: list[int]
    ends: list[int]
    flags: list[bool]


def _to_bytes(text: str, positions: list[int]) -> list[int]:
    """Convert ascending positions of characters to positions of bytes."""
    if text.isascii():
        return positions
    if len(text) < FEW_CHARACTERS:
        return [len(text[:position].encode("utf-8", "surrogateescape")) for position in positions]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    widths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    widths[codes >> 8 == 0xDC] = 1  # surrogates stand for single bytes
    offsets = np.zeros(codes.size + 1, np.int64)
    np.cumsum(widths, out=offsets[1:])
    found: list[int] = offsets[positions].tolist()
    return found


class Splitter:
    """Splits strings by a pattern.

    Args:
        pattern: The pattern.
        behaviour: What happens to matches: "remove", "isolate", "mergedwithprevious" or "mergedwithnext".
        invert: Whether to swap the roles of matches and of the text between them.
        most: The part with this number, counted from 0, extends to the end; -1 for none.
    """

    def __init__(self, pattern: Pattern, behaviour: str, invert: bool, most: int) -> None:
        self._pattern = pattern
        self._behaviour = behaviour
        self._invert = invert
        self._most = most
        self._covers = behaviour == "isolate" and not pattern.group_count
        self._kept: dict[bytes, Parts] = {}
        self._kept_sizes: dict[str, list[int]] = {}

    def split(self, text: bytes) -> Parts:
        """Return the parts of a string.

        Raises:
            InputError: The search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        parts = self._kept.get(text)
        if parts is None:
            subject = text.decode("utf-8", "surrogateescape")
            begins, ends = self._split(subject)
            if -1 < self._most < len(ends):
                ends[self._most] = len(subject)
            parts = Parts(_to_bytes(subject, begins), _to_bytes(subject, ends), [False] * len(begins))
            if len(text) <= MAX_KEPT_BYTES and len(self._kept) < MAX_KEPT:
                self._kept[text] = parts
        return parts

    def split_all(self, batch: Batch, skips: Array) -> tuple[Array, Array, Array, Array] | None:
        """Return the parts of all strings at once, if possible.

        Args:
            batch: The strings.
            skips: Which strings are not split, boolean [strings].

        Returns:
            The number of parts of each string; the start and the end of each part in the batch in bytes; and
            which parts are strings that are not split. None if strings must be split one by one.

        Raises:
            InputError: The search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        if self._most != -1:
            return None
        simple = self._pattern.simple
        keeps_order = self._behaviour in ("isolate", "remove") or (self._behaviour, self._invert) == NEXT
        if simple is not None and simple.kind != "start" and keeps_order:
            return self._split_runs(simple, batch, skips)
        if self._covers:
            return self._cover(batch, skips)
        return None

    def _cover(self, batch: Batch, skips: Array) -> tuple[Array, Array, Array, Array]:
        """Isolate the matches in all strings."""
        sizes: list[int] = []
        counts: list[int] = []
        text, kept = batch.prepared, self._kept_sizes
        bounds = batch.bounds.tolist()
        for skip, begin, end in within_time(zip(skips.tolist(), bounds, bounds[1:])):  # noqa: B905
            piece = text[begin:end]
            found = [end - begin] if skip else kept.get(piece)
            if found is None:
                found = self._pattern.find_sizes(piece)
                if sum(found) != end - begin or 0 in found:
                    first, last = self._split(piece)
                    found = [b - a for a, b in zip(first, last, strict=True)]
                if end - begin <= MAX_KEPT_BYTES and len(kept) < MAX_KEPT:
                    kept[piece] = found
            sizes += found
            counts.append(len(found))
        edges = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=edges[1:])
        edges = batch.to_bytes(edges)
        numbers = np.array(counts, np.int64)
        return numbers, edges[:-1], edges[1:], np.repeat(skips, numbers)

    def _split_runs(self, pattern: SimplePattern, batch: Batch, skips: Array) -> tuple[Array, Array, Array, Array]:
        """Split strings at characters of a set."""
        bounds = batch.bounds
        lengths = np.diff(bounds)
        check_scratch(CHARACTER_BYTES * batch.codes.size)
        found = pattern.find(batch.codes, bounds)
        if skips.any():
            found &= ~np.repeat(skips, lengths)
        starts = np.ones(found.size, bool)
        starts[1:] = (found[1:] | found[:-1]) if pattern.kind == "char" else found[1:] != found[:-1]
        starts[bounds[:-1][lengths > 0]] = True
        begins = np.flatnonzero(starts)
        ends = np.append(begins[1:], found.size)[: begins.size]
        are_matches = found[begins]
        strings = np.repeat(np.arange(lengths.size), lengths)[begins]
        if self._behaviour == "remove":
            kept = are_matches == self._invert
            if skips.any():
                kept |= skips[strings]
            begins, ends, strings = begins[kept], ends[kept], strings[kept]
        elif self._behaviour == "mergedwithnext":
            follows = np.zeros(begins.size, bool)  # whether a part begins with the match before it
            follows[1:] = are_matches[:-1] & ~are_matches[1:] & (strings[1:] == strings[:-1])
            is_last = np.append(strings[1:] != strings[:-1], True)[: begins.size]
            begins[1:] = np.where(follows[1:], begins[:-1], begins[1:])
            kept = ~are_matches | is_last
            begins, ends, strings = begins[kept], ends[kept], strings[kept]
        empty = np.flatnonzero((lengths == 0) & (skips | (self._behaviour == "mergedwithnext")))
        if empty.size:
            order = np.argsort(np.concatenate([strings, empty]), kind="stable")
            strings = np.concatenate([strings, empty])[order]
            begins, ends = (np.concatenate([edges, bounds[empty]])[order] for edges in (begins, ends))
        counts = np.bincount(strings, minlength=lengths.size)
        return counts, batch.to_bytes(begins), batch.to_bytes(ends), skips[strings]

    def _split(self, subject: str) -> tuple[list[int], list[int]]:
        """Return the starts and ends of parts in characters."""
        searched = prepare(subject)
        if self._covers:
            texts = self._pattern.find_texts(searched)
            bounds = list(accumulate(map(len, texts), initial=0))
            if bounds[-1] == len(subject) and all(texts):
                return bounds[:-1], bounds[1:]
        begins, ends, are_matches = [], [], []
        position = 0
        for match in self._pattern.find_matches(searched):
            begin, end = match.span()
            if position < begin:
                begins.append(position)
                ends.append(begin)
                are_matches.append(False)
            begins.append(begin)
            ends.append(end)
            are_matches.append(True)
            position = end
        if position < len(subject):
            begins.append(position)
            ends.append(len(subject))
            are_matches.append(False)
        if self._behaviour == "isolate":
            return begins, ends
        if self._behaviour == "remove":
            kept = [i for i, is_match in enumerate(are_matches) if is_match == self._invert]
            return [begins[i] for i in kept], [ends[i] for i in kept]
        merge = self._merge_with_next if self._behaviour == "mergedwithnext" else self._merge_with_previous
        merged = merge(list(zip(begins, ends, are_matches, strict=True)), len(subject))
        return [begin for begin, _ in merged], [end for _, end in merged]

    def _merge_with_previous(self, parts: list[tuple[int, int, bool]], size: int) -> list[tuple[int, int]]:
        """Extend each match to the start of the preceding text or match."""
        merged, last = [], 0
        for begin, end, is_match in parts:
            if is_match != self._invert:
                merged.append((last, end))
            elif end == size:
                merged.append((begin, end))
            else:
                last = begin
        return merged

    def _merge_with_next(self, parts: list[tuple[int, int, bool]], size: int) -> list[tuple[int, int]]:
        """Extend the text after a match to the start of the last match."""
        merged, last = [], -1
        for begin, end, is_match in parts:
            if is_match != self._invert:
                last = begin
            else:
                merged.append((begin if last == -1 else last, end))
        ends_in_match = not parts or parts[-1][2]
        if ends_in_match and last != size and not self._invert:
            merged.append((max(last, 0), size))
        return merged


class SpecialTokenSplitter:
    """Finds special tokens.

    Args:
        pattern: A pattern in which each alternative has a group, the token itself. Space around it is removed.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def find_candidates(self, begins: Array, ends: Array, text: bytes) -> Array:
        """Return which strings may contain a token.

        Args:
            begins: The start of each string, any shape.
            ends: The end of each string.
            text: The text of all strings.

        Returns:
            The shape of `begins`, boolean.

        Raises:
            InputError: The search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        everything = np.ones(begins.shape, bool)
        if begins.size <= FEW and len(text) <= SHORT:
            return everything
        padded = np.frombuffer(text + b" ", np.uint8)
        cuts_character = ((padded[begins] & 0xC0) == 0x80).any() or ((padded[ends] & 0xC0) == 0x80).any()
        if self._pattern.has_context or cuts_character:
            return everything
        try:
            subject = text.decode()
        except UnicodeDecodeError:
            return everything
        spans = collect_spans(self._pattern.find_matches(prepare(subject)))
        if not spans.size:
            return ~everything
        first = np.array(_to_bytes(subject, spans[:, 0].tolist()))
        last = np.array(_to_bytes(subject, spans[:, 1].tolist()))
        found: Array = np.searchsorted(first, ends, "left") > np.searchsorted(last, begins, "right")
        return found

    def split(self, text: bytes) -> Parts:
        """Return the parts of a string, and which are tokens.

        Raises:
            InputError: The search takes too long.
            TimeLimitError: The run exceeds its time limit.
        """
        subject = text.decode("utf-8", "surrogateescape")
        begins, ends, flags = [], [], []
        position = 0
        for match in self._pattern.find_matches(prepare(subject)):
            begin, end = match.span()
            if position < begin:
                begins.append(position)
                ends.append(begin)
                flags.append(False)
            token = self._find_group(match)
            begins.append(token[0])
            ends.append(token[1])
            flags.append(True)
            position = end
        if position < len(subject):
            begins.append(position)
            ends.append(len(subject))
            flags.append(False)
        return Parts(_to_bytes(subject, begins), _to_bytes(subject, ends), flags)

    def _find_group(self, match: Any) -> tuple[int, int]:
        """Return the bounds of the last group inside a match, or the bounds of the match if the group is empty."""
        begin, end = match.span()
        for group in range(self._pattern.group_count, 0, -1):
            first, last = match.span(group)
            if begin <= first <= end and last <= end:
                return (first, last) if first < last else (begin, end)
        return begin, end


@functools.lru_cache(maxsize=64)
def get_splitter(pattern: bytes, behaviour: str, invert: bool, most: int) -> Splitter:
    """Return a splitter, and keep it for later calls.

    Args:
        pattern: The pattern in UTF-8.
        behaviour: As in `Splitter`, or "contiguous", which isolates consecutive matches together.
        invert: See `Splitter`.
        most: See `Splitter`.
    """
    if behaviour == "contiguous":
        behaviour = "isolate"
        if not pattern.endswith(b"+"):
            pattern = b"(" + pattern + b")+"
    return Splitter(compile_pattern(pattern, captures=False), behaviour, invert, most)


@functools.lru_cache(maxsize=64)
def get_special_token_splitter(pattern: bytes) -> SpecialTokenSplitter:
    """Return a splitter at special tokens, and keep it for later calls.

    Args:
        pattern: The pattern in UTF-8.
    """
    return SpecialTokenSplitter(compile_pattern(pattern))
