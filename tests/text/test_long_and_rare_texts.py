"""Long texts, rare vocabularies and limits, compared with plain definitions."""

from __future__ import annotations

import array
import itertools
import mmap
import re

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.deadlines import Deadline, end_at
from irrun.errors import InputError, TimeLimitError
from irrun.text import batch, bpe, merge_borders, patterns, ragged, reuse, splitting
from irrun.text.ascii_patterns import convert_to_ascii
from irrun.text.bpe import BytePairEncoder
from irrun.text.charsmap import Normalizer, _parse_charsmap, get_normalizer
from irrun.text.literals import find_literals
from irrun.text.merge_borders import find_borders
from irrun.text.pattern_parser import translate
from irrun.text.patterns import Pattern, compile_pattern, prepare
from irrun.text.ragged import make_bounds
from irrun.text.sentencepiece import _read_field
from irrun.text.unicode_ranges import is_unassigned
from irrun.text.unigram import UnigramEncoder, _round
from irrun.text.words import _encode_few
from text.test_merging import make_encoder, merge_one_by_one


def test_long_texts_are_merged_like_short_ones(monkeypatch):
    """Runs and segments of symbols are cut only where no merge joins them."""
    monkeypatch.setattr(bpe, "_MAX_SEARCHED", 3)
    monkeypatch.setattr(bpe, "_SEGMENT", 16)
    monkeypatch.setattr(bpe, "MAX_RUNS", 2)
    encoder, vocabulary = make_encoder()
    assert encoder._borders is not None
    rng = np.random.default_rng(0)
    for length in (15, 16, 17, 33, 150):
        text = bytes(rng.choice(list(b"abc"), length).tolist())
        assert list(encoder.encode(text)) == merge_one_by_one(text, vocabulary)
    assert len(encoder._runs) <= 2
    encoder._borders = None
    assert list(encoder.encode(text)) == merge_one_by_one(text, vocabulary)


@pytest.mark.parametrize("name", ["_merge_by_heap", "_merge_in_order"])
def test_merges_check_the_time_every_65536_steps(name):
    encoder, vocabulary = make_encoder()
    merge = getattr(encoder, name)

    def merge_pairs(count):
        merge([vocabulary[b"a"]] * 16 + [vocabulary[b"c"]] * (count - 16))

    with end_at(Deadline(-1)):
        merge_pairs(65500)
        with pytest.raises(TimeLimitError):
            merge_pairs(65534)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("é".encode(), [1]),
        (b"a" + "é".encode() + b"a", [0, 1, 0]),
        (b"\xc3", [2]),  # half a character
        (b"a\xffa", [0, 2, 0]),
        (b"zz", [2, 2]),
        (b"<x>a", [3, 0]),
    ],
)
def test_symbols_of_several_bytes(text, expected):
    vocabulary = {b"a": 0, "é".encode(): 1, b"?": 2, b"<x>": 3}
    assert list(BytePairEncoder(dict(vocabulary), ([], []), unknown=b"?").encode(text)) == expected
    plain = BytePairEncoder({k: v for k, v in vocabulary.items() if k != b"?"}, ([], []))
    assert list(plain.encode(text)) == [symbol for symbol in expected if symbol != 2]


def test_unknown_bytes_have_tokens_of_their_own():
    vocabulary = {b"a": 0, b"<0xC3>": 1, b"<0xFF>": 2}
    encoder = BytePairEncoder(dict(vocabulary), ([], []), byte_fallback=True)
    assert list(encoder.encode(b"a\xc3\xff\xfe")) == [0, 1, 2]
    assert list(BytePairEncoder(vocabulary, ([], [])).encode(b"a\xc3\xff\xfe")) == [0]


@pytest.mark.parametrize(
    ("unknown", "has_bytes", "expected"),
    [(b"", False, False), (b"", True, True), (b"?", False, True), (b"?", True, True)],
)
def test_words_are_encoded_separately_if_no_byte_is_dropped(unknown, has_bytes, expected):
    space = "\u2581".encode()
    tokens = [b"a", b"b", space, b"?", space + b"a", *((b"<0x%02X>" % i for i in range(256)) if has_bytes else ())]
    encoder = BytePairEncoder(
        {token: i for i, token in enumerate(tokens)}, ([space], [b"a"]), unknown=unknown, byte_fallback=has_bytes
    )
    assert encoder._separates == expected
    assert list(encoder.encode(space + b"ab" + space + b"a")) == [4, 1, 4]


def list_borders(lefts, rights, merged):
    """Return the pairs of symbols that meet in any derivation of a merge."""
    made: dict[int, list[tuple[int, int]]] = {}
    for left, right, token in zip(lefts, rights, merged, strict=True):
        made.setdefault(token, []).append((left, right))

    def ends(token, side):
        return {token} if token not in made else set().union(*(ends(pair[side], side) for pair in made[token]))

    return {(a, b) for left, right in zip(lefts, rights, strict=True) for a in ends(left, 1) for b in ends(right, 0)}


@pytest.mark.parametrize(
    "merges",
    [
        [(0, 1, 3), (3, 2, 4)],
        [(0, 1, 3), (1, 2, 4), (0, 4, 5), (3, 2, 5)],  # two ways to the same token
        [(0, 0, 3), (3, 0, 4), (0, 3, 4), (4, 1, 5), (2, 4, 6)],
        [(0, 1, 3), (2, 1, 3), (3, 3, 4)],  # tokens that begin with different symbols
        [(0, 1, 3), (0, 2, 3), (3, 1, 4), (1, 3, 5)],
        [],
    ],
)
def test_pairs_that_meet_where_tokens_merge(merges):
    lefts, rights, merged = (np.array(column, np.int64) for column in zip(*merges, strict=True)) if merges else (
        np.zeros(0, np.int64) for _ in range(3))  # fmt: skip
    found = find_borders(lefts, rights, merged, {b"a": 0, b"b": 1, b"c": 2}, None)
    assert {(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in found} >= list_borders(lefts, rights, merged)
    assert set(found.tolist()) <= {(a << 32) + b for a, b in itertools.product(range(3), repeat=2)}


def test_pairs_of_vocabularies_that_are_not_supported(monkeypatch):
    def find_all(*merges, vocabulary=None, unknown=None):
        lefts, rights, merged = np.array(merges, np.int64).T
        return find_borders(lefts, rights, merged, vocabulary or {b"a": 0, b"b": 1}, unknown)

    assert find_all((0, 1, 2)) is not None
    assert find_all((0, -1, 2)) is None
    assert find_all((0, 1, 1010)) is not None  # 5 numbers
    assert find_all((0, 1, 1011)) is None
    assert find_all((0, 1, 2), unknown=2) is None  # a token that is merged and a symbol
    assert find_all((2, 1, 3), (3, 1, 4), (4, 1, 2)) is None  # tokens that contain each other
    nothing = np.zeros(0, np.int64)
    assert find_borders(nothing, nothing, nothing, {}, None) is None
    groups = ((0, 1, 2), (1, 1, 2), (2, 2, 3))
    assert find_all(*groups) is not None
    monkeypatch.setattr(merge_borders, "MAX_BORDERS", 2)
    assert find_all(*groups) is None


def test_unassigned_characters_are_replaced_before_a_search():
    for text in ("abc", "äß€😀", ""):
        assert prepare(text) is text
    newer = "".join(map(chr, np.flatnonzero(is_unassigned(np.arange(0x110000, dtype=np.uint32)))))
    assert newer
    assert prepare(f"a{newer}b") == "a" + chr(patterns.UNASSIGNED) * len(newer) + "b"


def test_searches_that_take_too_long_name_the_pattern(monkeypatch):
    short, long = "x" * 60, "x" * 61
    with pytest.raises(InputError, match=rf"^the search for the pattern '{short}' takes more than 60 s$"):
        Pattern(short).refuse()
    with pytest.raises(InputError, match=rf"^the search for the pattern '{'x' * 57}\.\.\.' takes"):
        Pattern(long).refuse()
    with end_at(Deadline(1000)), pytest.raises(TimeLimitError, match="exceeded the time limit of the run"):
        Pattern(short).refuse()
    assert patterns.get_seconds() == 60
    with end_at(Deadline(5)):
        assert 0.01 <= patterns.get_seconds() <= 5
    # A pattern with exponentially many ways to fail.
    slow, text = Pattern("(?:é|é|(?:é|é)+)+$"), "é" * 200 + "b"
    monkeypatch.setattr(patterns, "SEARCH_SECONDS", 0.01)
    monkeypatch.setattr(patterns, "LONG", 10)
    for search in (lambda: list(slow.find_matches(text)), lambda: slow.find_texts(text), lambda: slow.find_sizes(text)):
        with pytest.raises(InputError, match=r"takes more than 0\.01 s"):
            search()


def test_sizes_of_matches(monkeypatch):
    pattern = compile_pattern(b"[a-z]+|[^a-z]", False)
    text = "ab cde é"
    assert pattern.find_texts(text) == ["ab", " ", "cde", " ", "é"]
    assert pattern.find_sizes(text) == [2, 1, 3, 1, 1]
    monkeypatch.setattr(patterns, "LONG", 3)
    assert pattern.find_sizes(text) == [2, 1, 3, 1, 1]
    invalid = compile_pattern(b"\xff")
    assert (invalid.find_texts("a"), invalid.find_sizes("a"), list(invalid.find_matches("a"))) == ([], [], [])


def test_matches_end_at_an_empty_one():
    assert [match.span() for match in Pattern("a*").find_matches("aab")] == [(0, 2)]
    assert Pattern("a*").matches_nothing
    assert not Pattern("a+").matches_nothing
    assert (Pattern("(a)(b)").group_count, Pattern("(a)(b)", captures=False).group_count) == (2, 0)


def test_many_texts_are_found():
    words = [f"w{i}" for i in range(400)]
    found = find_literals("(" + "|".join(words) + ")")
    assert found is not None
    text = "w17, w3w399 v w400"
    assert found.findall(text) == re.findall("|".join(words), text) == ["w1", "w3", "w3", "w4"]


def test_results_have_less_than_two_gigabytes():
    begins, ends = make_bounds(np.array([2**31 - 2, 1]), (2,))
    assert (begins.tolist(), ends.tolist(), ends.dtype) == ([0, 2**31 - 2], [2**31 - 2, 2**31 - 1], np.int32)
    for lengths in (np.array([2**31 - 1, 1]), [2**31 - 1, 1]):
        with pytest.raises(InputError, match="the result has 2147483648 elements, expected at most 2147483647"):
            make_bounds(lengths, (2,))


def test_scores_out_of_range_are_infinite():
    assert [_round(x) for x in (1e39, -1e39, 0.1)] == [np.inf, -np.inf, float(np.float32(0.1))]


def test_tokens_end_at_zero_bytes():
    tokens = [b"?", b"a\0b", b"c", b"a\0c"]
    encoder = UnigramEncoder(tokens, [0.0, -1.0, -1.0, -5.0], 0)
    assert list(encoder.encode(b"aca")) == [1, 2, 1]
    with pytest.raises(InputError, match="the token 1 of the vocabulary is empty"):
        UnigramEncoder([b"a", b""], [0.0, 0.0], 0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x08\x96\x01rest", (8, 1, 3)),
        (b"\x0a\x02abrest", (10, 2, 4)),
        (b"\x0a\x80\x01" + bytes(140), (10, 3, 131)),
        (b"\x09" + bytes(12), (9, 1, 9)),
        (b"\x0d" + bytes(12), (13, 1, 5)),
        (b"\x0b" + bytes(4), (11, 1, 5)),
        (b"\x08" + b"\xff" * 20, (8, 1, 11)),
        (b"\x08\xff", (8, 1, 3)),
    ],
)
def test_fields_of_protocol_buffers(content, expected):
    assert _read_field(content, 0) == expected


def test_an_empty_map_replaces_nothing():
    assert _parse_charsmap(b"") == {}


class Bytes:
    """An encoder whose tokens are bytes."""

    def encode_all(self, words):
        return [tuple(word) for word in words]


@pytest.mark.parametrize(
    ("changes", "is_encoded"),
    [
        ({}, True),
        ({"row_begins": [0, 2]}, False),
        ({"row_ends": [1, 2]}, False),
        ({"row_begins": [0, 4], "row_ends": [4, 3]}, False),
        ({"begins": [2, 1, 3]}, False),
        ({"begins": [-1, 1, 3]}, False),
        ({"ends": [1, 3, 5]}, False),
        ({"ends": [1, 3, 4]}, True),
        ({"chars": [[97, 98, 99, 100]]}, False),
    ],
)
def test_few_words_in_order_are_encoded_at_once(changes, is_encoded):
    values = {"row_begins": [0, 1], "row_ends": [1, 3], "begins": [0, 1, 3], "ends": [1, 3, 4],
              "chars": [97, 98, 99, 100]} | changes  # fmt: skip
    arrays = {name: np.array(value, np.uint8 if name == "chars" else np.int32) for name, value in values.items()}
    found = _encode_few(Bytes(), *arrays.values())
    assert (found is not None) == is_encoded
    if not changes:
        assert [part.tolist() for part in found] == [[0, 1], [1, 4], [97, 98, 99, 100]]


def test_models_of_equal_arrays_are_built_once(monkeypatch):
    built = []

    def build(*arguments):
        built.append(arguments)
        return [len(built)]

    array = np.arange(3)
    first = reuse.reuse(build, [array], 1)
    assert reuse.reuse(build, [array.copy()], 1) is first  # the memory may change, so the contents count
    assert reuse.reuse(build, [array], 2) is not first
    array[0] = 7
    assert reuse.reuse(build, [array], 1) is not first
    texts = np.array(["a", b"b"], object)
    assert reuse.reuse(build, [texts], 1) is reuse.reuse(build, [texts.copy()], 1)
    assert reuse.reuse(build, [texts.reshape(2, 1)], 1) is not reuse.reuse(build, [texts], 1)
    fixed = np.arange(4)
    fixed.flags.writeable = False
    kept = reuse.reuse(build, [fixed], 1)
    assert reuse.reuse(build, [fixed], 1) is kept
    assert reuse.reuse(build, [fixed[:]], 1) is kept  # the same memory
    assert reuse.reuse(build, [fixed[1:]], 1) is not kept
    monkeypatch.setattr(reuse, "MAX_MODELS", 1)
    others = [np.arange(i) for i in range(8)]
    for other in others:
        other.flags.writeable = False
        reuse.reuse(build, [other], 1)
    assert len(reuse._latest) <= 4
    assert reuse.reuse(build, [fixed.copy()], 1) is not kept  # the oldest model was dropped


def test_models_are_kept_as_long_as_their_constants():
    fixed = np.arange(5)
    fixed.flags.writeable = False
    before = set(reuse._entries)
    reuse.reuse(list, [fixed])
    assert len(set(reuse._entries) - before) == 1
    del fixed
    assert set(reuse._entries) <= before


def test_owners_of_memory_that_cannot_change(tmp_path):
    (tmp_path / "file").write_bytes(bytes(16))
    with open(tmp_path / "file", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    owned = np.arange(3)
    for owner, expected in ((mapped, mapped), (array.array("i", [1, 2]), None), (b"1234", None), (owned, owned)):
        view = np.asarray(owner) if owner is owned else np.frombuffer(memoryview(owner), np.int32)
        view = view[:1]
        view.flags.writeable = False
        owned.flags.writeable = False
        assert reuse._find_owner(view) is expected
    owned.flags.writeable = True
    assert reuse._find_owner(view) is None


@pytest.mark.parametrize("char", ["\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"])
def test_characters_of_joined_strings(char):
    words = [char, "", f"a{char}", char * 3] * 20
    ends = np.cumsum([len(word.encode()) for word in words])
    chars = np.frombuffer("".join(words).encode(), np.uint8)
    joined = batch.join_batch(np.concatenate([[0], ends[:-1]]), ends, chars)
    assert joined.text == "".join(words)
    assert joined.is_ascii == char.isascii()
    assert joined.codes.tolist() == [ord(c) for c in joined.text]
    assert joined.widths.tolist() == [len(c.encode()) for c in joined.text]
    assert joined.bounds.tolist() == [0, *np.cumsum([len(word) for word in words])]
    bytes_before = [0, *np.cumsum(joined.widths)]
    assert joined.offsets.tolist() == bytes_before
    assert joined.to_bytes(joined.bounds).tolist() == [0, *ends]


@pytest.mark.parametrize(("count", "size", "is_joined"), [(0, 0, False), (1, 1, True), (1, 0, True), (0, 1, True)])
def test_few_short_strings_are_not_joined(count, size, is_joined):
    begins = np.zeros(batch.FEW + count, np.int64)
    chars = np.full(batch.SHORT + size, ord("a"), np.uint8)
    assert (batch.join_batch(begins, begins + 1, chars) is not None) == is_joined


def test_strings_that_are_not_valid_are_not_joined():
    chars = np.frombuffer("é".encode() * 50, np.uint8)
    begins = np.arange(100)
    assert batch.join_batch(begins, begins + 1, chars) is None
    assert batch.join_batch(begins[::2], begins[::2] + 2, chars) is not None
    assert batch.join_batch(begins[::2], begins[::2] + 1, chars) is None


@pytest.mark.parametrize(
    ("replacements", "text", "expected"),
    [
        ({"a": "é"}, "banana", "bénéné"),
        ({"a": "xy"}, "banana", "bxynxynxy"),
        ({"a": ""}, "banana", "bnn"),
        ({"an": "x"}, "banana", "bxxa"),
        ({"é": "xy"}, "banané", "bananxy"),
        ({}, " a  b ", " a  b "),
    ],
)
def test_characters_that_maps_replace(replacements, text, expected):
    assert Normalizer(replacements).normalize(text.encode()) == expected.encode()


def test_spaces_are_kept_by_default():
    assert get_normalizer("nfc", False).normalize(b" a  b ") == b" a  b "
    assert get_normalizer("identity", True).normalize(b" A  B ") == b" a  b "


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("ab", "a"),
        ("a?b", "ab"),
        ("a*b|c", "abc"),
        ("(?:a|)b", "ab"),
        ("(?:a|b)c", "ab"),
        ("(?:a?|b)c", "abc"),
        ("(?:|a)b", "ab"),
        ("(?=x)a", "a"),
        ("(?:a?b?)c", "abc"),
        ("[a-c]+d", "abc"),
        ("(?:ab)?c", "ac"),
        ("a*", None),
        ("a|", None),
        ("|a", None),
        ("(?:a|)", None),
        ("(?:a?|b)", None),
        ("(?=a)", None),
    ],
)
def test_searches_skip_characters_that_begin_no_match(pattern, first):
    found = convert_to_ascii(translate(pattern, True)[0])
    assert found is not None
    check = re.match(r"\(\?=\[(.*?)\]\)\(\?:", found.compiled.pattern)
    codes = None if check is None else re.findall(r"\\x(..)", check[1])
    assert (codes and {chr(int(code, 16)) for code in codes}) == (first and set(first))


def test_positions_of_characters_and_bytes():
    text = "\x7f\x80\u07ff\u0800\uffff\U00010000\udc80\udcffa"
    whole = text * 20
    positions = list(range(len(whole) + 1))
    expected = [len(whole[:i].encode("utf-8", "surrogateescape")) for i in positions]
    assert splitting._to_bytes(whole, positions) == expected
    assert splitting._to_bytes(text, [0, 3, 9]) == [0, 5, 18]
    assert splitting._to_bytes("abc", [1, 3]) == [1, 3]


@pytest.mark.parametrize(("limit", "is_checked"), [(2 * (5 + 48), False), (2 * (5 + 48) - 1, True)])
def test_the_size_of_many_strings_is_checked(limit, is_checked, monkeypatch):
    checked: list[tuple[tuple[int, ...], str]] = []
    monkeypatch.setattr(ragged, "LARGE", limit)
    monkeypatch.setattr(ragged, "check_allocation", lambda shape, dtype: checked.append((shape, dtype.name)))
    ragged.check_size(np.int32([0, 1]), np.int32([4, 5]), np.zeros(5, np.uint8))
    assert checked == ([((8 + 2 * 48,), "uint8")] if is_checked else [])
