"""Strings that are processed together have the same results as one by one."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.errors import InputError
from irrun.text import batch, bpe, ragged, splitting, trie
from irrun.text.bpe import BytePairEncoder
from irrun.text.patterns import Pattern, compile_pattern
from irrun.text.replacement import Replacement
from irrun.text.simple_patterns import find_runs
from irrun.text.splitting import Splitter


@pytest.fixture(autouse=True)
def join_all(monkeypatch):
    """Join few and short strings too."""
    monkeypatch.setattr(batch, "FEW", -1)


def draw_words(alphabet, count=60, longest=9, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(alphabet), rng.integers(0, longest))) for _ in range(count)]


def join(words):
    sizes = [len(word.encode()) for word in words]
    ends = np.cumsum(sizes)
    return batch.join_batch(ends - sizes, ends, np.frombuffer("".join(words).encode(), np.uint8))


@pytest.mark.parametrize("count", [1, ragged.FEW, ragged.FEW + 1])
@pytest.mark.parametrize(
    ("begin", "end", "is_valid"),
    [(0, 0, True), (9, 9, True), (0, 9, True), (-1, 3, False), (8, 10, False), (4, 3, False)],
)
def test_ranges_are_within_the_elements(count, begin, end, is_valid):
    begins, ends = np.full(count, 2), np.full(count, 5)
    begins[-1], ends[-1] = begin, end
    if is_valid:
        ragged.check_ranges(begins, ends, 9, "row")
        return
    message = rf"row {count - 1} is the range \[{begin}, {end}\), expected one within 9 elements"
    with pytest.raises(InputError, match=message):
        ragged.check_ranges(begins, ends, 9, "row")


def test_bounds_of_ranges_are_integers_of_one_shape():
    for begins, ends, message in (
        (np.zeros(2), np.zeros(2, int), "the bounds of strings are float64 and int64, expected integers"),
        (np.zeros(2, int), np.zeros(2), "the bounds of strings are int64 and float64, expected integers"),
        (np.zeros(2, int), np.zeros(3, int), r"the bounds of strings have shapes \[2\] and \[3\], expected equal"),
    ):
        with pytest.raises(InputError, match=message):
            ragged.check_ranges(begins, ends, 9, "string")


ALPHABETS = ["ab c\n", "aé ß\U00010000"]
SIMPLE = ["a", r"\s", "[^a]", r"\s+", "a{2,}", "[a ]{3,}", "^a", r"^\s"]


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("pattern", SIMPLE)
def test_characters_of_simple_patterns(pattern, alphabet):
    words = draw_words(alphabet)
    joined = join(words)
    simple = compile_pattern(pattern.encode()).simple
    expected = [
        any(match.start() <= i < match.end() for match in re.finditer(pattern, word))
        for word in words
        for i in range(len(word))
    ]
    assert simple.find(joined.codes, joined.bounds).tolist() == expected


@pytest.mark.parametrize("seed", range(4))
def test_runs_end_with_the_string(seed):
    words = draw_words("01", seed=seed)
    bounds = np.cumsum([0, *map(len, words)])
    found = np.array([char == "1" for char in "".join(words)], bool)
    runs = [
        (a + m.start(), a + m.end()) for a, word in zip(bounds, words, strict=False) for m in re.finditer("1+", word)
    ]
    begins, ends = find_runs(found, bounds)
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == runs


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("template", [b"", b"x", "é\u2581".encode(), rb"<\1>", b"x" * 40])
@pytest.mark.parametrize("pattern", [*SIMPLE, "(a)", "(a)|( )", "a+b?", "b|c", "x"])
def test_replacements_in_all_strings(pattern, template, alphabet):
    words = draw_words(alphabet, 40)
    skips = np.arange(len(words)) % 5 == 1
    replacement = Replacement(compile_pattern(pattern.encode()), template, pattern not in ("b|c", "[^a]"))
    expected = [
        word.encode() if skip else replacement.replace(word.encode()) for word, skip in zip(words, skips, strict=True)
    ]
    results = replacement.replace_all(join(words), skips)
    if results is None:
        assert len(template) == 40 or pattern.startswith("^") or (b"1" in template and "(" in pattern)
        return
    bounds, chars = results
    text = chars.tobytes()
    assert [text[a:b] for a, b in itertools.pairwise(bounds.tolist())] == expected


@pytest.mark.parametrize("pattern", ["a", "a+", "(a)"])
def test_characters_are_replaced_at_once_if_results_are_shorter_than_four_times_both_texts(pattern):
    joined = join(["", "a" * 10, "b"] * 20)
    for size in (0, 1, 6, 7, 8):
        replacement = Replacement(compile_pattern(pattern.encode()), b"x" * size, True)
        result = replacement.replace_all(joined, np.zeros(60, bool))
        assert (result is not None) == (size < 7 or pattern == "a+")


@pytest.mark.parametrize("behaviour", ["remove", "isolate", "mergedwithprevious", "mergedwithnext"])
@pytest.mark.parametrize("invert", [True, False])
@pytest.mark.parametrize("pattern", [*SIMPLE, "a+| +", "[^ ]+", "(a)b", r"\S+|\s+"])
def test_parts_of_all_strings(pattern, invert, behaviour):
    words = [*draw_words(ALPHABETS[0], 30), *(draw_words(ALPHABETS[1], 30) if invert else ())]
    skips = np.arange(len(words)) % 5 == 1
    splitter = Splitter(compile_pattern(pattern.encode()), behaviour, invert, -1)
    joined = join(words)
    results = splitter.split_all(joined, skips)
    if results is None:
        assert behaviour != "isolate" or "(" in pattern or pattern.startswith("^")
        return
    counts, begins, ends, flags = results
    text, found = joined.chars.tobytes(), iter(zip(begins.tolist(), ends.tolist(), flags.tolist(), strict=True))
    for word, skip, count in zip(words, skips, counts.tolist(), strict=True):
        own = list(itertools.islice(found, count))
        if skip:
            assert [(text[a:b], flag) for a, b, flag in own] == [(word.encode(), True)]
            continue
        parts = splitter.split(word.encode())
        encoded = word.encode()
        expected = [encoded[a:b] for a, b in zip(parts.begins, parts.ends, strict=True)]
        assert [(text[a:b], flag) for a, b, flag in own] == [(part, False) for part in expected]


def test_few_short_parts_are_kept(monkeypatch):
    monkeypatch.setattr(splitting, "MAX_KEPT", 2)
    monkeypatch.setattr(splitting, "MAX_KEPT_BYTES", 3)
    words = ["abcd", "abc", "ab", "a"]
    splitter = Splitter(Pattern("a|[^a]+"), "isolate", False, -1)
    for word in words:
        splitter.split(word.encode())
    assert list(splitter._kept) == [b"abc", b"ab"]
    splitter._cover(join(words), np.zeros(4, bool))
    assert list(splitter._kept_sizes) == ["abc", "ab"]


@pytest.mark.parametrize("name", ["trie", "symbols"])
def test_long_texts_check_the_time_every_256_bytes(name, monkeypatch):
    times = []
    for module in (bpe, trie):
        monkeypatch.setattr(module, "check_time", lambda: times.append(1))
    vocabulary = {b"a": 0}
    if name == "trie":
        assert trie.TrieEncoder(vocabulary).encode(b"a" * 1000) == (0,) * 1000
    else:
        assert BytePairEncoder(vocabulary, ([], []))._find_long_symbols(b"a" * 1000) == [0] * 1000
    assert len(times) == 4
