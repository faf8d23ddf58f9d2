"""Merges of byte pair encoding, compared with the plain definition, and details of patterns and maps."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.errors import InputError
from irrun.text.bpe import BytePairEncoder
from irrun.text.pattern_parser import translate
from text.strings import run, to_strings, to_u8

MERGES = [(b"a", b"b"), (b"ab", b"c"), (b"c", b"a"), (b"b", b"b"), (b"ca", b"ab"), (b"abc", b"abc"), (b"a", b"a")]


def make_encoder():
    tokens = [b"a", b"b", b"c", *(left + right for left, right in MERGES)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    return BytePairEncoder(dict(vocabulary), ([a for a, _ in MERGES], [b for _, b in MERGES])), vocabulary


def merge_one_by_one(text, vocabulary):
    """Return the tokens of a text: the first pair of the lowest rank is merged until there is none."""
    parts = [text[i : i + 1] for i in range(len(text))]
    while True:
        pairs = [(MERGES.index(pair), i) for i, pair in enumerate(itertools.pairwise(parts)) if pair in MERGES]
        if not pairs:
            return [vocabulary[part] for part in parts]
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 40])
def test_merges_equal_those_one_by_one(length):
    encoder, vocabulary = make_encoder()
    rng = np.random.default_rng(length)
    for _ in range(30):
        text = bytes(rng.choice(list(b"abc"), length).tolist())
        expected = merge_one_by_one(text, vocabulary)
        assert encoder._merge_by_heap([vocabulary[text[i : i + 1]] for i in range(length)]) == expected, text
        assert encoder._merge_in_order([vocabulary[text[i : i + 1]] for i in range(length)]) == expected, text
        assert list(encoder.encode(text)) == expected, text


@pytest.mark.parametrize("pattern", [".+", ".*b", "a|", "|a", "()", "(a|)b", "(?:)", ".{2}"])
def test_items_that_may_be_empty_or_repeated(pattern):
    text = "ab\nbaab"
    found = [match.span() for match in re.finditer(translate(pattern)[0], text)]
    assert found == [match.span() for match in re.finditer(pattern, text)]


def test_maps_whose_tries_have_parts_of_units_are_refused():
    for size in (3, 6, 7):
        charsmap = np.uint32(size).tobytes() + bytes(16)
        with pytest.raises(InputError, match=f"the map of 20 bytes is malformed: its trie has {size} bytes"):
            run("CharsMapNormalization", *to_strings("a"), to_u8(charsmap))
