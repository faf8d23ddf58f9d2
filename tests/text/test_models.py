"""BPETokenizer, WordpieceTokenizer, UnigramTokenizer, VocabEncoder and TrieTokenizer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from irrun.deadlines import Deadline, end_at
from irrun.errors import InputError, TimeLimitError
from irrun.ops._support import registry
from irrun.text.reuse import reuse
from text.strings import run, to_ragged, to_strings

TOKENS = ("a", "b", "c", "ab", "bc", "abc", "<unk>", "é", "<0x78>")


def encode_bpe(merges, *rows, tokens=TOKENS, added=(), **attributes):
    """Return the tokens of rows of words, with pairs in one input."""
    inputs = [*to_ragged(*rows), *to_strings(*tokens), *to_strings(*merges)]
    if added:
        inputs += [*to_strings(*(token for token, _ in added)), np.array([value for _, value in added], np.int32)]
    return read_rows(*run("BPETokenizer", *inputs, **attributes))


def read_rows(begins, ends, tokens):
    assert begins.dtype == ends.dtype == tokens.dtype == np.int32
    return [tokens[a:b].tolist() for a, b in zip(begins, ends, strict=True)]


@pytest.mark.parametrize(
    ("merges", "word", "expected"),
    [
        (["a b", "b c", "ab c"], "abc", [5]),
        (["b c", "a b", "ab c"], "abc", [0, 4]),
        (["a b"], "abab", [3, 3]),
        (["a b"], "éabé", [7, 3, 7]),
        (["a b"], "axb", [3]),  # a byte without token is dropped
        (["ab c", "a b", "b c"], "abc", [5]),
        (["a b", "ab c"], "abc", [0, 4]),  # the token bc is a symbol, because no merge makes it
        (["a b", "b c"], "", []),
    ],
)
def test_pairs_merge_by_rank(merges, word, expected):
    assert encode_bpe(merges, [word]) == [expected]


def test_older_pairs_merge_first():
    tokens = ("a", "b", "aa", "aab", "aaaa")
    assert encode_bpe(["a a", "aa aa"], ["aaaaaaa"], tokens=tokens) == [[4, 2, 0]]
    assert encode_bpe(["a a", "aa b"], ["aaab"], tokens=tokens) == [[2, 0, 1]]


def test_pairs_of_the_same_age_merge_in_the_order_of_a_heap():
    # The added token is equal to what its neighbors merge into, so that the last merge makes two equal pairs.
    tokens = ("a", "b", "ab", "abab", "c")
    words = ("[S]ab[S]c" * 6, "[S]ab[S]c" * 30)
    first, second = encode_bpe(["a b", "ab ab"], *([word] for word in words), tokens=tokens, added=[("[S]", 2)])
    assert first == [3, 2, 4, 3, 2, 4, 3, 2, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4]
    assert second[:15] == [3, 2, 4, 3, 2, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4]


def test_added_tokens_are_symbols():
    rows = encode_bpe(["a b"], ["ab<s>ab", "<s"], ["<s>"], added=[("<s>", 50), ("ab", 60), ("<s>", 70)])
    assert rows == [[3, 50, 3], [50]]


def test_tokens_that_consist_of_each_other():
    tokens = ("a", "b", "c", "d", "e", "ab", "abc", "abcd")
    merges = ["a b", "ab c", "abc d", "abcd e"]
    assert encode_bpe(merges, ["abcde", "xabx"], tokens=tokens, added=[("abcde", 5)]) == [[5, 5]]


def test_long_tokens_with_separators():
    token = "▁" + "a" * 200 + "▁a"  # once took exponential time
    assert encode_bpe(["a a"], [f"aa▁{token}"], tokens=("▁", "a", "aa", token)) == [[2, 0, 3]]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [0]),
        ({"unk_token": "<unk>"}, [0, 6, 6]),
        ({"unk_token": "<unk>", "fuse_unk": True}, [0, 6, 6]),
        ({"unk_token": "<unk>", "byte_fallback": True}, [0, 8, 6]),
        ({"unk_token": "?", "byte_fallback": True}, [0, 8]),
        ({"end_suffix": "b"}, [0, 1]),
    ],
)
def test_bytes_without_token(attributes, expected):
    assert encode_bpe(["b c"], ["axy"], **attributes) == [expected]


def test_parts_of_pairs_may_be_two_inputs():
    tokens = (" ", "a", " a", "a ")
    inputs = [*to_ragged([" a"]), *to_strings(*tokens), *to_strings(" "), *to_strings("a")]
    assert read_rows(*run("BPETokenizer", *inputs)) == [[2]]
    added = [*to_strings("b"), np.array([9], np.int32)]
    inputs[0:5] = to_ragged(["b a"])
    assert read_rows(*run("BPETokenizer", *inputs, *added)) == [[9, 2]]


def test_a_pair_without_space_repeats_a_token():
    assert encode_bpe(["aa"], ["aaa"], tokens=("a", "aa", "aaaa")) == [[1, 0]]


def test_words_of_sentencepiece_merge_one_by_one():
    tokens = ("▁", "a", "b", "▁▁", "▁a", "ab", "▁ab")
    merges = ("▁ a", "▁a b", "a b", "▁ ▁")
    text = "▁ab▁▁ab▁" * 40
    expected = encode_bpe(merges, ["ab▁ab", "▁"], tokens=tokens)
    assert expected == [[5, 6, 0]]
    assert encode_bpe(merges, [text], tokens=tokens) == [[6, 0, 6] + [0, 6, 0, 6] * 39 + [0]]


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        (["a x"], "the merge 0 of 'a' and 'x' needs the token 'x', which is not in the vocabulary"),
        (["a b", "c a"], "the merge 1 of 'c' and 'a' needs the token 'ca', which is not in the vocabulary"),
    ],
)
def test_merges_outside_of_the_vocabulary_are_refused(merges, message):
    with pytest.raises(InputError, match=message):
        encode_bpe(merges, ["a"])


def test_tokens_that_are_not_utf8_are_shown_as_bytes():
    with pytest.raises(InputError, match=r"the merge 0 of b'\\xff' and 'a' needs the token b'\\xff'"):
        encode_bpe([b"\xff a"], ["a"])


def test_hostile_inputs_are_refused():
    words, tokens, merges = to_ragged(["a"]), to_strings(*TOKENS), to_strings("a b")
    with pytest.raises(InputError, match="found 12 inputs, expected 11, 14, 15 or 18"):
        run("BPETokenizer", *words, *tokens, *merges, merges[0])
    with pytest.raises(InputError, match="found 1 left parts and 2 right parts of merges"):
        run("BPETokenizer", *words, *tokens, *merges, *to_strings("a", "b"))
    with pytest.raises(InputError, match="expected integers for 1 tokens"):
        run("BPETokenizer", *words, *tokens, *merges, *to_strings("x"), np.zeros(2, np.int32))
    with pytest.raises(InputError, match=r"string 0 is the range \[0, 99\), expected one within 23 elements"):
        run("BPETokenizer", *words, np.array([0], np.int32), np.array([99], np.int32), tokens[2], *merges)
    with pytest.raises(InputError, match=r"row 0 is the range \[0, 2\)"):
        run("BPETokenizer", words[0], words[1] + np.int32(1), *words[2:], *tokens, *merges)


def split_words(*words, tokens=("un", "##able", "##a", "##b", "x", "[UNK]", "éa", "##é"), unknown=5, **attributes):
    inputs = [*to_ragged(list(words)), *to_strings(*tokens), np.array(unknown, np.int32)]
    return read_rows(*run("WordpieceTokenizer", *inputs, **attributes))[0]


def test_words_are_split_into_the_longest_pieces():
    assert split_words("unable", "unab", "x", "éaé") == [0, 1, 0, 2, 3, 4, 6, 7]


def test_words_that_cannot_be_split_are_unknown():
    assert split_words("unc", "able", "y", "unab") == [5, 5, 5, 0, 2, 3]
    assert split_words("unable", "xa", max_bytes_per_word=5) == [5, 4, 2]
    assert split_words("xx", "ax", suffix_indicator="") == [5, 5]


def split_by_scores(text, tokens, scores, **attributes):
    inputs = [*to_ragged([text]), *to_strings(*tokens), np.array(scores, np.float32)]
    return read_rows(*run("UnigramTokenizer", *inputs, **attributes))[0]


@pytest.mark.parametrize(
    ("text", "scores", "expected"),
    [
        ("ab", [0, -1, -1, -1.5], [3]),
        ("ab", [0, -1, -1, -2.5], [1, 2]),
        ("ab", [0, -1, -1, -2], [3]),  # of equal sums, the token that begins first
        ("xyab", [0, -1, -1, -1], [0, 3]),
        ("a漢b", [0, -1, -1, -1], [1, 0, 2]),
        ("", [0, -1, -1, -1], []),
    ],
)
def test_sums_of_scores_decide(text, scores, expected):
    assert split_by_scores(text, ("<unk>", "a", "b", "ab"), scores) == expected


def test_scores_are_added_in_f32():
    # In f64 the sum of two tokens is larger; in f32 it equals the score of the longer token, which came first.
    assert split_by_scores("ab", ("<unk>", "a", "b", "ab"), [0, -16777216, -0.5, -16777216]) == [3]
    assert split_by_scores("ab", ("<unk>", "a", "b", "ab"), [0, -8388608, -0.5, -8388609]) == [1, 2]


def test_unknown_tokens_are_joined():
    assert split_by_scores("a??a", ("a", "<unk>", "b"), [-1, 0, 0], unk_token_id=1) == [0, 1, 0]


@pytest.mark.parametrize("operation", ["BPETokenizer", "WordpieceTokenizer", "UnigramTokenizer", "TrieTokenizer"])
def test_long_words_end_at_the_limit_of_time(operation):
    tokens = ["a", "##a", *("a" * i + "b" for i in range(1, 2000)), *("##" + "a" * i + "b" for i in range(1, 2000))]
    numbers = np.arange(len(tokens), dtype=np.int32)
    rest = {
        "BPETokenizer": [*to_strings("a"), *to_strings("b"), *to_strings("b", "ab"), numbers[:2]],
        "WordpieceTokenizer": [numbers[:1]],
        "UnigramTokenizer": [numbers.astype(np.float32)],
        "TrieTokenizer": [numbers],
    }[operation]
    attributes = {"max_bytes_per_word": 10**9} if operation == "WordpieceTokenizer" else {}
    inputs = [*to_ragged(["a" * 1000000]), *to_strings(*tokens), *rest]
    with end_at(Deadline(0.2)), pytest.raises(TimeLimitError):
        run(operation, *inputs, **attributes)


def test_hostile_scores_are_refused():
    with pytest.raises(InputError, match="found 1 scores for 2 tokens"):
        split_by_scores("a", ("a", "b"), [0])
    with pytest.raises(InputError, match="the token 1 of the vocabulary is empty"):
        split_by_scores("a", ("a", ""), [0, 0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_strings_are_looked_up(dtype):
    values = np.array([5, 6, 7, 8], dtype)
    inputs = [*to_strings("b", "x", "é", "a"), *to_strings("a", "b", "é", "b"), values, np.array(-1, dtype)]
    (result,) = run("VocabEncoder", *inputs)
    assert result.dtype == dtype
    assert result.tolist() == [6, -1, 7, 5]


def test_the_longest_entries_are_found():
    def split(text):
        inputs = [*to_ragged([text], []), *to_strings("a", "ab", "abcd", "c", "a"), np.arange(5, dtype=np.int32)]
        return read_rows(*run("TrieTokenizer", *inputs))

    assert split("abcaabcd") == [[1, 3, 4, 2], []]
    with pytest.raises(InputError, match="no token of the vocabulary begins at byte 2 of 'abd'"):
        split("abd")


def test_entries_with_the_value_minus_1_are_not_found():
    def split(text):
        values = np.array([-1, 2, -1, -2, 0], np.int32)
        inputs = [*to_ragged([text], []), *to_strings("a", "ab", "bcd", "b", "bc"), values]
        return read_rows(*run("TrieTokenizer", *inputs))

    assert split("abbcb") == [[2, 0, -2], []]
    for text, position in (("a", 0), ("aab", 0), ("bcd", 2)):
        with pytest.raises(InputError, match=f"no token of the vocabulary begins at byte {position} of '{text}'"):
            split(text)


def test_rows_may_overlap_and_leave_gaps():
    begins, ends = np.array([1, 0, 2], np.int32), np.array([3, 2, 2], np.int32)
    words = to_strings("a", "ab", "c")
    result = run("BPETokenizer", begins, ends, *words, *to_strings(*TOKENS), *to_strings("a b"))
    assert read_rows(*result) == [[3, 2], [0, 3], []]


def test_models_are_reused_as_long_as_their_arrays_are_equal():
    calls = []

    def build(array, option):
        calls.append(option)
        return array.tolist(), option

    fixed = np.arange(3)
    fixed.flags.writeable = False
    changing = np.arange(3)
    assert reuse(build, [fixed], 1) is reuse(build, [fixed[:]], 1)
    assert reuse(build, [fixed], 2) == ([0, 1, 2], 2)
    assert reuse(build, [fixed[:2]], 2) == ([0, 1], 2)
    assert reuse(build, [changing], 3) is reuse(build, [changing.copy()], 3)
    changing[0] = 5
    assert reuse(build, [changing], 3) == ([5, 1, 2], 3)
    assert calls == [1, 2, 2, 3, 3]


DEFAULTS = {
    "BPETokenizer": {
        "byte_fallback": False,
        "cache_capacity": 20000,
        "end_suffix": "",
        "fuse_unk": False,
        "suffix_indicator": "",
        "unk_token": "",
    },
    "CaseFold": {"encoding": "utf-8", "lower": True},
    "CharsMapNormalization": {
        "add_dummy_prefix": False,
        "case_fold": False,
        "escape_whitespaces": False,
        "nmt": False,
        "normalization_form": "",
        "remove_extra_whitespaces": True,
    },
    "NormalizeUnicode": {"normalization_form": "NFD"},
    "RaggedToDense": {"m_pad_max_length": False, "pad_right": True},
    "RegexNormalization": {"global_replace": True},
    "RegexSplit": {"behaviour": "remove", "invert": False, "max_splits": -1},
    "SentencepieceTokenizer": {"add_bos": False, "add_eos": False, "alpha": 1.0, "nbest_size": 0, "reverse": False},
    "StringTensorPack": {"mode": "begins_ends"},
    "StringTensorUnpack": {"mode": "begins_ends"},
    "Truncate": {"m_num_inputs": 0},
    "UTF8Validate": {"replace_mode": False},
    "UnigramTokenizer": {"byte_fallback": False, "fuse_unk": False, "min_score": math.inf, "unk_token_id": 0},
    "VocabDecoder": {"skip_tokens": []},
    "WordpieceTokenizer": {"max_bytes_per_word": 100, "suffix_indicator": "##"},
}


def test_omitted_attributes_are_those_of_openvino_tokenizers():
    """Its headers and constructors state them."""
    operations = [o for o in registry.list_operations() if o.kernel.__module__.startswith("irrun.ops.text.")]
    assert len(operations) == 33
    found = {o.type: {a.name: a.default for a in o.attributes if not a.required} for o in operations}
    assert {name: defaults for name, defaults in found.items() if defaults} == DEFAULTS
