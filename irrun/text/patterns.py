r"""PCRE2 regular expressions, translated for the package `regex`.

OpenVINO Tokenizers compiles patterns by PCRE2 for UTF-8 with Unicode properties. `regex` differs in the
meaning of `\w`, `\s`, `\b`, POSIX classes and scripts, options inside a pattern, names of properties, `{` as fuzzy
matching, and the version of Unicode. A pattern that PCRE2 does not compile matches nothing.

These differences remain: recursion, conditions, and references to a group inside of it are rejected, `\X` keeps
conjuncts of Indic scripts together, and `[:upper:]` matches any case if case is ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from irrun.deadlines import check_time, get_deadline
from irrun.errors import InputError, TimeLimitError
from irrun.text.ascii_patterns import AsciiPattern, convert_to_ascii
from irrun.text.literals import find_literals
from irrun.text.packages import import_regex
from irrun.text.pattern_parser import translate
from irrun.text.pattern_sets import PatternError, UnsupportedPatternError
from irrun.text.simple_patterns import SimplePattern, find_simple_pattern
from irrun.text.unicode_ranges import is_unassigned

__all__ = ["Pattern", "collect_spans", "compile_pattern", "prepare"]

Array = np.ndarray[Any, Any]

#: Time limit of a search in seconds, if the run has none.
SEARCH_SECONDS = 60.0
#: Minimum length of long texts, whose matches may not fit into memory as separate texts.
LONG = 1 << 20
#: An unassigned code point in plane 14, where no scripts are planned.
UNASSIGNED = 0xE0FFF


class Pattern:
    """A compiled pattern.

    Args:
        source: The PCRE2 pattern.
        captures: Whether groups capture, even if the pattern does not refer to them.

    Attributes:
        compiled: The `regex` pattern. None if PCRE2 does not compile the pattern; it then matches nothing.
        has_context: Whether a match depends on the text around it.
        ascii: The pattern for ASCII texts; None if it is not simple enough.
        simple: The simple pattern, if it matches single characters.
        group_count: The number of capturing groups.
        matches_nothing: Whether the pattern matches an empty text.

    Raises:
        InputError: The pattern cannot be translated, or the package `regex` is not installed.
    """

    def __init__(self, source: str, captures: bool = True) -> None:
        import_regex()
        self.source = source
        self.compiled: Any = find_literals(source) if captures else None
        self.has_context = False
        self.ascii: AsciiPattern | None = None
        self.simple: SimplePattern | None = None
        if self.compiled is None:
            self._compile(captures)
        self.group_count: int = self.compiled.groups if self.compiled else 0
        self.matches_nothing = self.compiled is not None and self.compiled.match("") is not None

    def _compile(self, captures: bool) -> None:
        regex = import_regex()
        try:
            translated, self.has_context = translate(self.source, captures)
            self.compiled = regex.compile(translated)
        except UnsupportedPatternError as error:
            raise InputError(f"the pattern {_shorten(self.source)} is not supported: {error}") from None
        except regex.error as error:
            if "open group" in str(error):
                message = "it refers to a group that it is part of"
                raise InputError(f"the pattern {_shorten(self.source)} is not supported: {message}") from None
            return
        except (PatternError, OverflowError, RecursionError, ValueError):  # numbers of thousands of digits, too
            return
        self.ascii = convert_to_ascii(translated)
        self.simple = find_simple_pattern(translated)

    def find_matches(self, text: str) -> Iterator[Any]:
        """Yield all matches up to the first empty one.

        Args:
            text: The text, with characters of Unicode 17 only (see `prepare`).

        Raises:
            TimeLimitError: The search takes longer than the time limit.
            InputError: The run has no time limit, and the search takes more than a minute.
        """
        if self.compiled is None:
            return
        try:
            for match in self.find_all(text):
                if match.start() == match.end():
                    return
                yield match
        except TimeoutError:
            self.refuse()

    def find_all(self, text: str) -> Iterator[Any]:
        """Return the matches in a text, including matches after empty ones.

        Raises:
            TimeoutError: A search takes too long; see `refuse`.
        """
        if self.ascii is not None and text.isascii() and len(text) <= self.ascii.longest:
            return self.ascii.compiled.finditer(text)
        matches: Iterator[Any] = self.compiled.finditer(text, timeout=get_seconds())
        return matches

    def find_texts(self, text: str) -> list[str]:
        """Return the texts of all matches, including matches after empty ones, for patterns without capturing groups.

        Raises:
            TimeLimitError: The search takes longer than the time limit.
            InputError: The run has no time limit, and the search takes more than a minute.
        """
        if self.compiled is None:
            return []
        if self.ascii is not None and text.isascii() and len(text) <= self.ascii.longest:
            return self.ascii.compiled.findall(text)
        try:
            texts: list[str] = self.compiled.findall(text, timeout=get_seconds())
        except TimeoutError:
            self.refuse()
        return texts

    def find_sizes(self, text: str) -> list[int]:
        """Return the lengths of all matches, including empty ones, for patterns without capturing groups.

        Raises:
            TimeLimitError: The search takes longer than the time limit.
            InputError: The run has no time limit, and the search takes more than a minute.
        """
        if self.compiled is None or len(text) <= LONG:
            return list(map(len, self.find_texts(text)))
        try:
            return [match.end() - match.start() for match in self.find_all(text)]
        except TimeoutError:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the error of a search that takes too long.

        Raises:
            TimeLimitError: The run exceeded its time limit.
            InputError: The run has no time limit.
        """
        check_time()
        shown = _shorten(self.source)
        if get_deadline() is not None:
            raise TimeLimitError(f"the search for the pattern {shown} exceeded the time limit of the run")
        raise InputError(f"the search for the pattern {shown} takes more than {SEARCH_SECONDS:g} s")


def collect_spans(matches: Iterable[Any]) -> Array:
    """Return the starts and ends of matches, i64 [matches, 2]."""
    return np.fromiter(chain.from_iterable(match.span() for match in matches), np.int64).reshape(-1, 2)


def _shorten(source: str) -> str:
    return repr(source if len(source) <= 60 else source[:57] + "...")


def get_seconds() -> float:
    """Return the time limit of a search in seconds.

    Raises:
        TimeLimitError: The run has exceeded its time limit.
    """
    check_time()
    deadline = get_deadline()
    return SEARCH_SECONDS if deadline is None else max(deadline.get_remaining_seconds(), 0.01)


@functools.lru_cache(maxsize=256)
def compile_pattern(source: bytes, captures: bool = True) -> Pattern:
    """Return a pattern, and keep it for later calls.

    Args:
        source: The pattern in UTF-8. Invalid UTF-8 matches nothing.
        captures: Whether groups capture, even if the pattern does not refer to them.
    """
    try:
        return Pattern(source.decode(), captures)
    except UnicodeDecodeError:
        return Pattern("(")


def prepare(text: str) -> str:
    """Replace characters that are not in Unicode 17 by one that no version assigns.

    Args:
        text: The text.
    """
    if text.isascii():
        return text
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    unknown = is_unassigned(codes)
    if not unknown.any():
        return text
    replaced = codes.copy()
    replaced[unknown] = UNASSIGNED
    prepared: str = replaced.tobytes().decode("utf-32-le", "surrogatepass")
    return prepared
