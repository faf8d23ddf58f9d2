"""Operations on text, with results that are known without a reference."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("regex")

from irrun.deadlines import Deadline, end_at
from irrun.errors import InputError, TimeLimitError
from irrun.ops.text.strings import string_to_hash_bucket
from text.strings import from_ragged, from_strings, run, to_ragged, to_strings, to_u8


def i32(*values):
    return np.array(values, np.int32)


def split(pattern, *texts, **attributes):
    return from_ragged(*run("RegexSplit", *to_ragged(texts), to_u8(pattern), **attributes))[0]


@pytest.mark.parametrize(
    ("behaviour", "invert", "expected"),
    [
        ("remove", False, ["a", "b", "c"]),
        ("remove", True, [" ", " ", " ", " "]),
        ("isolate", False, [" ", "a", " ", " ", "b", " ", "c"]),
        ("contiguous", False, [" ", "a", "  ", "b", " ", "c"]),
        ("mergedwithprevious", False, [" ", "a ", "a  ", "b ", "c"]),
        ("mergedwithnext", False, [" a", " b", " c"]),
        ("mergedwithprevious", True, [" a", " b", " c"]),
        ("mergedwithnext", True, [" ", "a ", "a  ", "b "]),
    ],
)
def test_matches_are_removed_isolated_or_merged(behaviour, invert, expected):
    assert split(" ", " a  b c", behaviour=behaviour, invert=invert) == expected


def test_a_part_extends_to_the_end():
    assert split(" ", "a b c d", max_splits=2) == ["a", "b", "c d", "d"]
    with pytest.raises(InputError, match="max_splits is 0, expected -1 or at least 1"):
        split(" ", "a", max_splits=0)


def test_an_empty_match_ends_the_search():
    assert split("a*", "aabaa", behaviour="isolate") == ["aa", "baa"]


def test_patterns_of_tokenizers():
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    assert split(gpt2, "Don't  stop, naïve²中文!\n\n a", behaviour="isolate") == [
        *("Don", "'t", " ", " stop", ",", " naïve", "²", "中文", "!", "\n\n", " a")
    ]


def test_parts_are_ranges_of_the_same_text():
    rows = to_ragged(["é a", "b"], [], ["ü c"])
    result = run("RegexSplit", *rows, to_u8(" "))
    assert result[4] is rows[4]
    assert from_ragged(*result) == [["é", "a", "b"], [], ["ü", "c"]]


def test_some_strings_are_not_split():
    skips = np.array([True, False])
    *strings, flags = run("RegexSplit", *to_ragged(["a b", "a b"]), skips, to_u8(" "))
    assert from_ragged(*strings) == [["a b", "a", "b"]]
    assert flags.tolist() == [True, False, False]
    result = run("RegexSplit", *to_ragged(["a b", "c d"]), to_u8(" "), *to_strings("c d"))
    assert from_ragged(*result) == [["a", "b", "c d"]]


def test_without_text_there_is_one_empty_row():
    result = run("RegexSplit", *to_ragged([""], [""]), to_u8(" "))
    assert [r.tolist() for r in result] == [[0], [0], [0, 0], [0, 0], []]


def test_the_number_of_inputs_is_checked():
    with pytest.raises(InputError, match="found 8 inputs, expected 6, 7 or 9"):
        run("RegexSplit", *to_ragged(["a"]), *to_strings("a"))


def test_special_tokens_are_split_off_without_space():
    pattern = r"(<s>|</s>)|(?:\s*)(\[MASK\])(?:\s*)"
    *strings, flags = run("SpecialTokensSplit", *to_ragged(["<s>a [MASK] é </s>"], ["", "b", "[MASK]"]), to_u8(pattern))
    assert from_ragged(*strings) == [["<s>", "a", "[MASK]", "é ", "</s>"], ["b", "[MASK]"]]
    assert flags.tolist() == [True, False, True, False, True, False, True]


def test_strings_without_special_tokens_remain():
    *strings, flags = run("SpecialTokensSplit", *to_ragged(["ab", "c"], ["d"]), to_u8("(<s>)"))
    assert from_ragged(*strings) == [["ab", "c"], ["d"]]
    assert flags.tolist() == [False] * 3


def test_tokens_that_were_found_remain():
    skips = np.array([True, False, True])
    *strings, flags = run("SpecialTokensSplit", *to_ragged(["a<s>", "b<s>", ""]), skips, to_u8("(<s>)"))
    assert from_ragged(*strings) == [["a<s>", "b", "<s>", ""]]
    assert flags.tolist() == [True, False, True, True]


def test_an_exploding_pattern_ends_with_the_run():
    started = time.perf_counter()
    with end_at(Deadline(0.2)), pytest.raises(TimeLimitError, match="exceeded"):
        split(r"(x|x)+[yz]", "x" * 60, behaviour="isolate")
    assert time.perf_counter() - started < 20


def test_ten_million_words_take_no_more_than_the_limit_of_time():
    words = 10_000_000
    begins = np.arange(0, 2 * words, 2, dtype=np.int32)
    chars = np.tile(to_u8("a "), words)
    with end_at(Deadline(0.05)), pytest.raises(TimeLimitError):
        run("RegexSplit", i32(0), i32(words), begins, begins + 1, chars, to_u8("b"))


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("NFC", "e\u0301\u0327", "é\u0327"),  # marks are not put in order
        ("NFD", "é\ufb01", "e\u0301\ufb01"),
        ("NFKC", "ﬁ²Å①", "fi2Å1"),
        ("NFKD", "ﷺ", "صلى الله عليه وسلم"),
        ("NFC", "\u1112\u1161\u11ab", "한"),
        ("NFC", b"a\xff\xe3\x81", "a\ufffd\ufffd\ufffd"),
    ],
)
def test_unicode_is_normalized_by_maps(form, text, expected):
    assert from_strings(*run("NormalizeUnicode", *to_strings(text), normalization_form=form)) == [expected]


def test_case_is_folded_by_single_characters():
    assert from_strings(*run("CaseFold", *to_strings("ÄßẞK", "İΣς"))) == ["äßßk", "İσσ"]
    assert from_strings(*run("CaseFold", *to_strings("AÄ"), encoding="")) == ["aÄ"]
    assert from_strings(*run("CaseFold", *to_strings("aä"), encoding="", lower=False)) == ["Aä"]
    with pytest.raises(InputError, match="encoding is 'latin-1'"):
        run("CaseFold", *to_strings("a"), encoding="latin-1")


def test_spaces_are_removed_and_escaped():
    attributes = {"normalization_form": "nfkc", "add_dummy_prefix": True, "escape_whitespaces": True}
    texts = ["  a  b ", "", "   ", "a▁"]
    result = run("CharsMapNormalization", *to_strings(*texts), **attributes)
    assert from_strings(*result) == ["▁a▁b", "", "", "▁a"]
    attributes["remove_extra_whitespaces"] = False
    result = run("CharsMapNormalization", *to_strings(*texts), **attributes)
    assert from_strings(*result) == ["▁▁▁a▁▁b▁", "", "▁▁▁▁", "▁a▁"]


def make_charsmap():
    """Return a compiled map of "a" to "X" and "ab" to "YZ"."""
    units = np.zeros(0x200, np.uint32)
    root, a, b = 0x100, 0x180, 0x1C0  # the bases of the children of each node
    units[0] = root << 10
    units[root ^ 0x61] = (root ^ 0x61 ^ a) << 10 | 1 << 8 | 0x61
    units[a] = 1 << 31
    units[a ^ 0x62] = (a ^ 0x62 ^ b) << 10 | 1 << 8 | 0x62
    units[b] = 1 << 31 | 2
    return np.uint32(units.nbytes).tobytes() + units.tobytes() + b"X\0YZ\0"


def test_the_longest_key_of_a_compiled_map_is_replaced():
    result = run("CharsMapNormalization", *to_strings("aabcab", "b"), to_u8(make_charsmap()))
    assert from_strings(*result) == ["XYZcYZ", "b"]
    skips = np.array([True, False])
    result = run("CharsMapNormalization", *to_strings("a", "a"), skips, to_u8(make_charsmap()))
    assert from_strings(*result[:3]) == ["a", "X"]


@pytest.mark.parametrize("length", [1, 4, 9, 0x100, 0x804])
def test_compiled_maps_are_checked(length):
    with pytest.raises(InputError, match=r"the map .*malformed"):
        run("CharsMapNormalization", *to_strings("a"), to_u8(make_charsmap()[:length]))


def test_compiled_maps_of_other_encodings_are_refused():
    charsmap = make_charsmap().replace(b"X\0YZ", b"X\0\xff\xfe")
    with pytest.raises(InputError, match="the map is malformed: it replaces bytes that are not UTF-8"):
        run("CharsMapNormalization", *to_strings("a"), to_u8(charsmap))
    units = np.zeros(0x200, np.uint32)
    units[0] = 0x100 << 10
    units[0x161] = 0x1000 << 10 | 1 << 8 | 0x61  # its leaf is outside
    charsmap = np.uint32(units.nbytes).tobytes() + units.tobytes() + b"X\0"
    with pytest.raises(InputError, match="the map is malformed: a leaf is not within 512 units"):
        run("CharsMapNormalization", *to_strings("a"), to_u8(charsmap))


def test_tries_with_circles_are_refused():
    units = np.zeros(0x200, np.uint32)
    units[0] = 0x100 << 10
    units[0x161] = 0x61 << 10 | 0x61  # leads to itself
    charsmap = np.uint32(units.nbytes).tobytes() + units.tobytes() + b"X\0"
    with pytest.raises(InputError, match="its trie is too large or too deep"):
        run("CharsMapNormalization", *to_strings("a"), to_u8(charsmap))


def test_invalid_utf8_is_replaced_or_removed():
    texts = [
        b"a\xc0\x80b",
        b"\xe3\x81",
        b"\xe3\x81a",
        b"\xe0\x80\x80",
        b"\xff\x80",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
    ]
    result = from_strings(*run("UTF8Validate", *to_strings(*texts), replace_mode=True))
    replacement = "\ufffd".encode()
    assert result == [
        *(b"a" + replacement * 2 + b"b", replacement, replacement + b"a", replacement * 3, replacement * 2),
        *texts[5:],
    ]
    assert from_strings(*run("UTF8Validate", *to_strings(*texts[:5]))) == ["ab", "", "a", "", ""]


def test_tokens_have_texts():
    ids = np.array([[0, 2, 9, -1], [1, 2, 0, 1]], np.int32)
    vocabulary = to_strings("a", "bc", "é")
    assert from_ragged(*run("VocabDecoder", ids, *vocabulary)) == [["a", "é", "", ""], ["bc", "é", "a", "bc"]]
    result = run("VocabDecoder", ids, *vocabulary, skip_tokens=[2])
    assert from_ragged(*result) == [["a", "", "", ""], ["bc", "", "a", "bc"]]
    result = run("VocabDecoder", ids, *vocabulary, i32(1, 0), skip_tokens=[2])
    assert from_ragged(*result) == [["", "é", "", ""], ["", "é", "", ""]]
    assert from_ragged(*run("VocabDecoder", np.zeros((2, 0), np.int32), *vocabulary)) == [[""], [""]]


def test_tokens_that_exceed_the_text_are_refused():
    with pytest.raises(InputError, match=r"string 0 is the range \[0, 9\), expected one within 1 elements"):
        run("VocabDecoder", np.array([[0]], np.int32), i32(0), i32(9), to_u8("a"))


def test_bytes_are_named_in_brackets():
    texts = ["<0x41>", "a", "<0xFF>", "<0xff>", "<mask>", "<<x41>", "<0x041>", ""]
    result = run("ByteFallback", *to_strings(*texts))
    assert from_strings(*result) == [b"A", b"a", b"\xff", b"\xff", b"\xff", b"<<x41>", b"<0x041>", b""]


def test_characters_stand_for_bytes():
    rows = to_ragged(["a b", "é"], ["\n~"])
    chars = run("BytesToChars", *rows)
    assert from_ragged(*chars) == [["aĠb", "Ã©"], ["Ċ~"]]
    assert from_strings(*run("CharsToBytes", *chars)) == ["a bé", "\n~"]
    every = to_ragged([bytes(range(256))])
    assert run("CharsToBytes", *run("BytesToChars", *every))[2].tolist() == list(range(256))


@pytest.mark.parametrize("text", ["中", b"\xc4", b"\x80", "ȁ"])
def test_other_characters_stand_for_no_bytes(text):
    with pytest.raises(InputError, match="does not represent a byte"):
        run("CharsToBytes", *to_ragged([text]))


def test_rows_are_joined():
    begins, ends = run("FuzeRagged", i32(0, 2, 2), i32(2, 2, 3), i32(0, 3, 5), i32(3, 5, 6))
    assert (begins.tolist(), ends.tolist()) == ([0, 5, 5], [5, 6, 6])


@pytest.mark.parametrize(
    ("side", "mode", "length", "expected"),
    [
        ("right", "longest_first", 6, [(0, 3), (10, 13)]),
        ("left", "longest_first", 7, [(1, 5), (11, 14)]),
        ("right", "only_first", 3, [(0, 3), (10, 14)]),
        ("left", "only_second", 3, [(0, 5), (11, 14)]),
        ("right", "longest_first", 9, [(0, 5), (10, 14)]),
    ],
)
def test_pairs_of_rows_are_shortened(side, mode, length, expected):
    elements = np.arange(20, dtype=np.int32)
    ragged = [i32(0), i32(5), elements, i32(10), i32(14), elements]
    result = run("Truncate", *ragged, np.array(length, np.int32), to_u8(side), to_u8(mode))
    assert [(result[i].item(), result[i + 1].item()) for i in (0, 3)] == expected


def test_rows_are_shortened():
    ragged = [i32(0, 3), i32(3, 4), np.arange(4, dtype=np.int32)]
    options = [np.array(2, np.int32), to_u8("left"), to_u8("longest_first")]
    assert [r.tolist() for r in run("Truncate", *ragged, *options)] == [[1, 3], [3, 4], [0, 1, 2, 3]]
    assert ragged[0].tolist() == [0, 3]
    with pytest.raises(InputError, match="the side is b'up', expected left or right"):
        run("Truncate", *ragged, options[0], to_u8("up"), options[2])


def test_segments_are_combined_and_numbered():
    first = [i32(0, 2), i32(2, 3), i32(5, 6, 7)]
    single = [np.array(0, np.int32), np.array(1, np.int32), i32(1)]
    result = run("CombineSegments", *single, *first, *single, i32(0, 1, 2))
    assert [r.tolist() for r in result] == [
        *([0, 4], [4, 7], [1, 5, 6, 1, 1, 7, 1]),
        *([0, 4], [4, 7], [0, 1, 1, 2, 0, 1, 2]),
    ]


def make_rows(*rows):
    """Return rows of numbers as three inputs."""
    bounds = np.cumsum([0, *map(len, rows)])
    return [i32(*bounds[:-1]), i32(*bounds[1:]), i32(*(n for row in rows for n in row))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({2: to_u8("middle")}, "the side is b'middle', expected left or right"),
        ({3: to_u8("both")}, "the mode is b'both', expected only_first, only_second or longest_first"),
        ({1: i32(-1)}, "the largest number of elements is -1"),
    ],
)
def test_rows_are_shortened_in_known_ways(changes, message):
    inputs = {0: make_rows([1, 2], [3]), 1: i32(2), 2: to_u8("left"), 3: to_u8("only_first")} | changes
    with pytest.raises(InputError, match=message):
        run("Truncate", *inputs[0], *inputs[0], *[inputs[i] for i in (1, 2, 3)])


def test_pairs_of_rows_have_the_same_number():
    pair = [*make_rows([1, 2], [3]), *make_rows([4])]
    with pytest.raises(InputError, match="2 rows cannot be paired with 1 rows"):
        run("Truncate", *pair, i32(2), to_u8("left"), to_u8("longest_first"))


def test_combined_segments_have_one_row_or_the_same_number():
    with pytest.raises(InputError, match=r"the ragged tensors have \[2, 3\] rows, expected 3 or 1"):
        run("CombineSegments", *make_rows([1], [2]), *make_rows([3], [4], [5]), i32(0, 1))
    begins, ends, data, *_ = run("CombineSegments", *make_rows([1]), *make_rows([3], [4], [5]), i32(0, 1))
    assert [data[a:b].tolist() for a, b in zip(begins, ends, strict=True)] == [[1, 3], [1, 4], [1, 5]]


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (0, 1)])
def test_bounds_of_the_vocabulary_have_the_same_number(sizes):
    begins, ends = (np.zeros(n, np.int32) for n in sizes)
    with pytest.raises(InputError, match=r"the vocabulary has shapes .* expected equal ones"):
        run("VocabDecoder", np.zeros((1, 1), np.int32), begins, ends, to_u8("ab"))


def test_rows_are_padded():
    rows = [i32(0, 2, 2), i32(2, 2, 5), i32(1, 2, 3, 4, 5), np.array(2, np.int32), np.array(9, np.int32)]
    dense, mask = run("RaggedToDense", *rows)
    assert dense.tolist() == [[1, 2], [9, 9], [3, 4]]
    assert mask.tolist() == [[True, True], [False, False], [True, True]]
    rows[3] = np.array(3, np.int32)
    assert run("RaggedToDense", *rows, np.array(False))[0].tolist() == [[9, 1, 2], [9, 9, 9], [3, 4, 5]]
    assert run("RaggedToDense", *rows, pad_right=False)[0].tolist() == [[9, 1, 2], [9, 9, 9], [3, 4, 5]]
    assert run("RaggedToDense", *rows, m_pad_max_length=True)[0].tolist() == [[1, 2, 3], [3, 4, 5], [3, 4, 5]]


@pytest.mark.parametrize("size", [-1, 2**31 - 1])
def test_the_length_of_padded_rows_is_checked(size):
    rows = np.zeros(1000, np.int32)
    with pytest.raises(InputError, match=r"length of rows is -1|memory|at most"):
        run("RaggedToDense", rows, rows, i32(1), np.array(size, np.int32), np.array(0, np.int32))


F32 = np.zeros(1, np.float32)
LISTS = [i32(0, 1), i32(1, 2), i32(5, 6)]


@pytest.mark.parametrize(
    ("operation", "inputs", "message"),
    [
        (
            "RaggedToDense",
            [i32(0), i32(1), np.array(7, np.int32), i32(3), i32(0)],
            "expected one int32 for rows of data",
        ),
        ("RaggedToDense", [*LISTS, i32(3), i32(0, 0)], r"the padding is int32 \[2\], expected one int32"),
        ("RaggedToDense", [*LISTS, i32(3), F32], r"the padding is float32 \[1\], expected one int32"),
        ("CombineSegments", LISTS, "found 3 inputs, expected three per ragged tensor and a number for each"),
        ("CombineSegments", [*LISTS, i32(0), i32(0)], "found 5 inputs, expected three per ragged tensor"),
        ("CombineSegments", [*LISTS, i32(0, 1)], "found 4 inputs, expected three per ragged tensor"),
        ("CombineSegments", [i32(0), i32(1), i32(1, 2).reshape(2, 1), i32(0)], r"elements are int32 \[2, 1\]"),
        ("CombineSegments", [*LISTS, *LISTS[:2], np.zeros(2, np.int64), i32(0, 1)], r"elements are int64 \[2\]"),
        ("RaggedToRagged", [i32(-1, 0), i32(4)], "the rows of elements are negative or not in ascending order"),
        ("RaggedToRagged", [i32(1, 0), i32(4)], "the rows of elements are negative or not in ascending order"),
        ("CharsMapNormalization", to_strings("a"), "found 3 inputs, expected up to 5"),
        ("CharsMapNormalization", [*to_strings("a"), *[to_u8("x")] * 3], "found 6 inputs, expected up to 5"),
        ("ContribStringJoin", [*to_strings("a"), to_u8("x"), i32(0, 0)], "axis"),
        ("ContribStringJoin", [*to_strings("a"), to_u8("x"), F32], "axis"),
    ],
)
def test_inputs_that_are_wrong_in_one_respect_are_refused(operation, inputs, message):
    with pytest.raises(InputError, match=message):
        run(operation, *inputs)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"encoding": "utf-16"}, "encoding is 'utf-16' and lower True"),
        ({"lower": False}, "encoding is 'utf-8' and lower False"),
    ],
)
def test_case_is_folded_to_lower_case_of_utf8(attributes, found):
    with pytest.raises(InputError, match=f"{found}, expected utf-8 with lower case, or none"):
        run("CaseFold", *to_strings("A"), **attributes)


def test_rows_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"row 1 is the range \[1, 9\), expected one within 2 elements"):
        run("CombineSegments", i32(0, 1), i32(1, 9), i32(5, 6), i32(0))


def test_strings_are_compared():
    result = run("EqualStr", *to_strings("a", "b", "a"), *to_strings("a"))
    assert (result[0].tolist(), result[0].dtype) == ([1, 0, 1], np.int32)
    assert run("EqualStr", *to_strings("a", "b"), *to_strings())[0].tolist() == []


def test_numbers_are_written():
    values = np.array([1.5, 1e-7, 123456789, -np.nan, np.inf], np.float32)
    assert run("NumericToString", values)[0].tolist() == ["1.5", "1e-07", "1.23457e+08", "-nan", "inf"]
    assert run("NumericToString", np.array([True, False]))[0].tolist() == ["true", "false"]
    assert run("NumericToString", np.array([[-3]], np.int8))[0].tolist() == [["-3"]]
    with pytest.raises(InputError, match="the numbers are float16"):
        run("NumericToString", np.zeros(1, np.float16))


def test_strings_are_hashed():
    """The values are those of FarmHash64."""
    texts = ["", "a", "hello", "hello world", "x" * 24, "x" * 50, "abcdefghij" * 20]
    result = string_to_hash_bucket(*to_strings(*texts), num_buckets=1 << 62)
    assert result.tolist() == [
        *(
            1936946117179621455,
            3694432073954588131,
            3786372426573024488,
            1769834696496558107,
            1720933946053627091,
            4607997358663321893,
            920586471271343743,
        ),
    ]


def test_strings_are_joined_and_split():
    strings = to_strings("a", "b", "c", "d", shape=(2, 2))
    assert from_strings(*run("ContribStringJoin", *strings, to_u8("--"), np.array(0))) == ["a--c", "b--d"]
    positions, *parts, shape = run("ContribStringSplit", *to_strings("a,,b", ""), to_u8(","), np.array(True))
    assert positions.tolist() == [[0, 0], [0, 2]]
    assert from_strings(*parts) == ["a", "b"]
    assert shape.tolist() == [2, 3]


def test_rows_are_written_as_positions():
    assert run("RaggedToSparse", i32(0, 2, 2), i32(2, 2, 3))[0].tolist() == [[0, 0], [0, 1], [2, 0]]
    assert [r.tolist() for r in run("RaggedToRagged", i32(0, 0, 2), i32(4))] == [[0, 2, 2, 3], [2, 2, 3, 3]]
    with pytest.raises(InputError, match="not in ascending order"):
        run("RaggedToRagged", i32(1, 0), i32(4))


def test_strings_are_packed_and_unpacked():
    (strings,) = run("StringTensorPack", *to_strings("a", "é"), mode="begins_ends")
    assert strings.tolist() == ["a", "é"]
    assert from_strings(*run("StringTensorUnpack", strings, mode="begins_ends")) == ["a", "é"]
    packed = np.concatenate([i32(2, 0, 1, 3).view(np.uint8), to_u8("aé")])
    assert from_strings(*run("StringTensorUnpack", packed)) == ["a", "é"]


@pytest.mark.parametrize("words", [[], [-1, 0], [2, 0, 1], [1, 0, 9], [2**31 - 1, 0]])
def test_packed_strings_are_checked(words):
    with pytest.raises(InputError, match=r"packed strings have|expected one within"):
        run("StringTensorUnpack", i32(*words).view(np.uint8))
