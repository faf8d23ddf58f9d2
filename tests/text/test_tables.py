"""Tables behind operations on text: symbols, unassigned characters, compiled maps and candidates of tokens."""

from __future__ import annotations

import lzma
import re

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.errors import InputError
from irrun.text import charsmap, unicode_maps, words
from irrun.text.ascii_patterns import convert_to_ascii
from irrun.text.merge_borders import can_separate, find_equal_symbols
from irrun.text.patterns import Pattern
from irrun.text.replacement import Replacement
from irrun.text.sentencepiece import _check_pieces
from irrun.text.splitting import SpecialTokenSplitter
from irrun.text.unicode_ranges import _UNASSIGNED, is_unassigned
from text.strings import from_ragged, run, to_ragged, to_u8

#: So many strings that they are searched together.
COUNT = 64


def group(*pairs):
    symbols, others = np.array(pairs, np.int64).reshape(-1, 2).T
    return {symbol: sorted(members) for symbol, members in find_equal_symbols(symbols, others).items()}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(1, 1), (2, 2)], {}),
        ([(1, 2)], {1: [1, 2], 2: [1, 2]}),
        ([(1, 2), (2, 1), (1, 2)], {1: [1, 2], 2: [1, 2]}),
        ([(1, 2), (2, 3), (3, 1)], {key: [1, 2, 3] for key in (1, 2, 3)}),
        ([(1, 2), (3, 4)], {1: [1, 2], 2: [1, 2], 3: [3, 4], 4: [3, 4]}),
        ([(1, 2), (3, 4), (5, 5), (4, 1)], {key: [1, 2, 3, 4] for key in (1, 2, 3, 4)}),
    ],
)
def test_equal_symbols_are_grouped(pairs, expected):
    assert group(*pairs) == expected


def test_ranges_of_unassigned_characters_are_hexadecimal():
    import regex

    bounds = re.findall(r"([0-9a-f]+)(?:-([0-9a-f]+))?", _UNASSIGNED)
    listed = "".join(chr(i) for a, b in bounds for i in range(int(f"0x{a}", 0), int(f"0x{b or a}", 0) + 1))
    found = np.flatnonzero(is_unassigned(np.arange(0x110000, dtype=np.uint32)))
    assert found.tolist() == [ord(char) for char in regex.findall(r"\P{Cn}", listed)]


def test_texts_of_compiled_maps_end_at_a_zero():
    assert charsmap._read_text(b"ab\0cd\0", 0) == "ab"
    assert charsmap._read_text(b"ab\0cd\0", 2) == ""
    assert charsmap._read_text(b"\0cd", 0) == ""
    assert charsmap._read_text(b"ab\0cd", 3) == "cd"
    with pytest.raises(InputError, match=r"^the map is malformed: text 2 is not within 2 bytes$"):
        charsmap._read_text(b"ab", 2)


def test_maps_are_packed_and_loaded(tmp_path, monkeypatch):
    packed = unicode_maps.pack_maps({"nfc": {"b": "B", "a": "xy"}, "casefold": {}})
    assert packed == b"nfc\x03a\x01xy\x02b\x01B\x04casefold\x03"
    with lzma.open(tmp_path / "maps.xz", "wb") as file:
        file.write(unicode_maps.pack_maps({"nfc": {"b": "B", "a": "xy"}, "casefold": {"A": "a"}}))
    monkeypatch.setattr(unicode_maps, "_FILE", tmp_path / "maps.xz")
    load = unicode_maps.load_map.__wrapped__
    assert (load("nfc"), load("casefold"), load("nfd")) == ({"a": "xy", "b": "B"}, {"A": "a"}, None)


@pytest.mark.parametrize(
    ("pattern", "text", "shift", "expected"),
    [
        ("(<s>)|(</s>)", "a<s>", 0, [i % 2 for i in range(2 * COUNT)]),
        ("(<s>)", "é<s>", 0, [i % 2 for i in range(2 * COUNT)]),
        ("(<s>)", "é<s>", 1, [1] * 2 * COUNT),  # strings begin within a character
        ("(^<s>)", "a<s>", 0, [1] * 2 * COUNT),  # a match depends on the text around it
        ("(<t>)", "a<s>", 0, [0] * 2 * COUNT),
    ],
)
def test_strings_without_tokens_are_found_at_once(pattern, text, shift, expected):
    char, token = len(text.encode()) - 3, 3
    whole = text * COUNT
    begins = np.cumsum([0, *[char, token] * COUNT])
    cut = np.zeros(2 * COUNT, np.int64)
    cut[2] = shift
    found = SpecialTokenSplitter(Pattern(pattern)).find_candidates(begins[:-1] + cut, begins[1:], whole.encode())
    assert found.astype(int).tolist() == expected


@pytest.mark.parametrize(
    ("borders", "expected"),
    [
        ([(1, 2)], True),
        ([(3, 2)], True),  # separators may follow each other
        ([(3, 3)], True),
        ([(1, 3)], False),
        ([(2, 4)], False),
        ([(4, 1)], True),
    ],
)
def test_words_begin_with_separators_that_nothing_joins(borders, expected):
    separator = "\u2581".encode()
    vocabulary = {b"a": 1, b"b": 2, separator: 3, separator + b"a": 4}
    packed = np.array([(left << 32) + right for left, right in borders], np.int64)
    assert can_separate(packed, vocabulary) == expected
    assert not can_separate(packed, {b"a": 1, b"b": 2})
    assert not can_separate(packed, {**vocabulary, b"a" + separator: 5})
    assert not can_separate(packed, {**vocabulary, separator[:2]: 5})


def make_field(tag, content):
    """Return a field of a protocol buffer."""
    size = len(content)
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + content


@pytest.mark.parametrize("size", [5, 200])
@pytest.mark.parametrize("score", [b"\x15\0\0\0\0", b"\x15\0\0\0\0\x18\x02", b""])
def test_pieces_with_null_characters_are_refused(size, score):
    good = make_field(0x0A, make_field(0x0A, b"a" * size) + score)
    bad = make_field(0x0A, make_field(0x0A, b"a" * size + b"\0") + score)
    other = make_field(0x12, make_field(0x0A, b"a" * size + b"\0"))
    _check_pieces(good + other + good + b"\0")
    for content in (bad, good + bad, other + bad):
        with pytest.raises(InputError, match=r"^the SentencePiece model has a piece with a null character$"):
            _check_pieces(content)


@pytest.mark.parametrize(
    ("pattern", "text", "fits", "exceeds"),
    [("a", "a", 43, 44), ("(a)", "a", 83, 84), ("(a)|(b)", "b", 123, 124), ("(a)|(b)", "a", 83, 84)],
)
def test_buffers_of_replacements_depend_on_groups(pattern, text, fits, exceeds):
    replacement = Replacement(Pattern(pattern), b"0123456789", True)
    first = next(replacement.pattern.find_matches(text))
    assert replacement._fits(1, fits, first)
    assert not replacement._fits(1, exceeds, first)


@pytest.mark.parametrize(
    ("pattern", "degree"),
    [
        ("a", 0),
        ("a?", 0),
        ("a{0,4}", 0),
        ("a{0,5}", 1),
        ("a*", 1),
        ("(?:a*b)?", 1),
        ("a*|b*", 1),
        ("a*b*", 2),
        ("(?:a*)(?:b*)", 2),
        ("(?:a|b*)c*", 2),
        ("(?:a*b|c*d*)e*", 3),
        ("(?:a*)*", None),
        ("a)", None),
        ("*", None),
    ],
)
def test_texts_of_patterns_with_repetitions_are_short(pattern, degree):
    found = convert_to_ascii(pattern)
    limits = [1000000000, 31622, 999, 177]  # so that no search takes more than 10^9 steps
    assert (None if found is None else found.longest) == (None if degree is None else limits[degree])


def test_patterns_are_simplified():
    pattern = Pattern("[ab]")
    assert pattern.ascii is not None
    assert pattern.simple is not None
    assert Pattern("a+b").simple is None
    assert Pattern("(").ascii is None


@pytest.mark.parametrize("pattern", [" ", " (?!x)"])
def test_matches_are_merged_with_what_follows_in_the_same_string(pattern):
    texts = ["a b ", "c", " d"]
    rows = run("RegexSplit", *to_ragged(texts), to_u8(pattern), behaviour="mergedwithnext")
    assert from_ragged(*rows) == [["a", " b", " ", "c", " d"]]


def test_tokens_are_shortened_in_messages():
    assert words.shorten(b"a" * 40) == repr("a" * 40)
    assert words.shorten(b"a" * 41) == repr("a" * 37 + "...")
    assert words.shorten("ß".encode() * 40) == repr("ß" * 40)
    assert words.shorten(b"\xff" * 40) == repr(b"\xff" * 40)
    assert words.shorten(b"\xff" * 41) == repr(b"\xff" * 37 + b"...")
