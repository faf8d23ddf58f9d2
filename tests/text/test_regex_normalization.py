"""RegexNormalization."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.errors import InputError
from irrun.text import packages, patterns
from text.strings import from_strings, run, to_strings, to_u8


def replace(pattern, replacement, *texts, **attributes):
    result = run("RegexNormalization", *to_strings(*texts), to_u8(pattern), to_u8(replacement), **attributes)
    return from_strings(*result)


@pytest.mark.parametrize(
    ("pattern", "replacement", "text", "expected"),
    [
        (" ", "▁", "a b  c", "a▁b▁▁c"),
        ("(a)(b)", r"\2\1", "abab", "baba"),
        ("(a)(b)", "$2${1}$$", "ab", "ba$"),
        ("(a)|b", "<$1>", "ab", "ab"),  # a group without a match is an error, which leaves the text as it is
        ("a", "$1", "a", "a"),  # there is no such group
        ("(", "x", "(", "("),  # does not compile
        ("a{" + "9" * 5000 + "}", "x", "a", "a"),
        ("a", "$" + "9" * 5000, "a", "a"),
        (r"\u0041", "x", "A", "A"),  # PCRE2 does not know \u
        ("a", "123456789", "aaaa", "123456789" * 4),
        (".", "123456789", "aaaa", "123456789" * 4),
        (".", "1234567890", "a" * 50, "a" * 50),  # longer than the buffer
        ("x*", "-", "abxd", "-a-b--d-"),
        (r"\w", "#", "a_½٣ा́-", "####ा#-"),  # letters, numbers, marks without width and connectors
        (r"\s", "#", "a\u180e\u00a0b", "a##b"),
        (r"a(?i)b|c", "#", "aB AB C", "# AB #"),
        ("(^)(.)", r"▁\2", "ab", "▁ab"),
        (r"[\s\S]", "#", "é\n", "##"),
        (r"[^\W]", "#", "a-b", "#-#"),
        (r"\p{Han}", "#", "a中·", "a##"),
        (r"(?:a){e}", "#", "a{e}b", "#b"),
        ("$", "!", "a\n", "a!\n!"),
        (r"[\x{F900}-\x{FAFF}]|\x{378}", "#", "\ufaf4\u0378\u0379", "##\u0379"),  # not assigned
    ],
)
def test_matches_are_replaced(pattern, replacement, text, expected):
    assert replace(pattern, replacement, text) == [expected]


def test_only_the_first_match_is_replaced():
    assert replace("a", "b", "aa", "ca", global_replace=False) == ["ba", "cb"]


def test_bytes_of_replacements_remain():
    for pattern in ("b", "[bc]", "b+"):
        *_, chars = run("RegexNormalization", *to_strings("ab"), to_u8(pattern), np.frombuffer(b"[\xc0]", np.uint8))
        assert chars.tobytes() == b"a[\xc0]"


def test_skipped_strings_remain():
    skips = np.array([True, False])
    *strings, flags = run("RegexNormalization", *to_strings("a", "a"), skips, to_u8("a"), to_u8("b"))
    assert from_strings(*strings) == ["a", "b"]
    assert flags.tolist() == [True, False]


def test_strings_may_overlap():
    begins, ends = np.array([1, 0, 0], np.int32), np.array([3, 2, 0], np.int32)
    result = run("RegexNormalization", begins, ends, to_u8("abc"), to_u8("b"), to_u8("xyz"))
    assert from_strings(*result) == ["xyzc", "axyz", ""]
    assert result[0].tolist() == [0, 4, 8]


@pytest.mark.parametrize(("begin", "end"), [(-1, 1), (0, 4), (2, 1)])
def test_bounds_are_checked(begin, end):
    begins, ends = np.array([0, begin], np.int32), np.array([1, end], np.int32)
    with pytest.raises(InputError, match=r"string 1 is the range \[-?\d, \d\), expected one within 3 elements"):
        run("RegexNormalization", begins, ends, to_u8("abc"), to_u8("b"), to_u8("x"))


@pytest.mark.parametrize("pattern", ["(?R)?a", "(a)(?(1)b|c)", "(*UCP)a", r"(a\1?)", r"(?U)a+"])
def test_patterns_that_cannot_be_translated_are_refused(pattern):
    with pytest.raises(InputError, match=r"the pattern .* is not supported: "):
        replace(pattern, "b", "aa")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    monkeypatch.setattr(patterns, "import_regex", inspect.unwrap(packages.import_regex))
    with pytest.raises(InputError, match=r"require regex: pip install 'irrun\[text\]'"):
        replace("a pattern that was not compiled before", "b", "c")
