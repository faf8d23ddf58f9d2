"""Single operations on random inputs, compared with OpenVINO Tokenizers.

`IRRUN_TEXT_INPUTS` states the number of inputs per operation. Where the reference reads memory that it does not own or
never writes, inputs avoid it.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("regex")
pytest.importorskip("openvino_tokenizers")

from irrun.ops._support import registry
from text.generators import make_ragged, make_strings
from text.oracle import Oracle, make_node
from text.strings import from_strings, run, to_ragged, to_strings, to_u8

COUNT = int(os.environ.get("IRRUN_TEXT_INPUTS", "8"))
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = (
    *(GPT2, LLAMA, GPT4O, r"\s+", r"\p{P}", r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]|[\x{4E00}-\x{9FFF}]", r"\w+|[^\w\s]+"),
    *("▁", ".", r"\p{Nd}|\p{Nl}|\p{No}", r"[0-9][0-9][0-9]", r"(?=[0-9])", r"\b", r"(", r"\d{1,3}(?=(?:\d{3})*\b)"),
    *(
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"\p{Han}",
        r"(?:\r?\n)+(?!\r?\n)",
        r"[^\W\d]|(?<x>x)\k<x>?",
        r"(?i)hello|STRASSE|k|ſ",
        "a*",
    ),
)
REPLACEMENTS = (
    *(
        (r" ", "▁"),
        (r"(^)(.)", r"▁\2"),
        (r"\s+", " "),
        (r"(\w+)'(\w)", r"$2'$1"),
        (r"^\s+|\s+$", ""),
        ("a|(b)", "[$1]"),
    ),
    *(("", "-"), (r"[\p{Mn}]", ""), (r"(?i)[a-f]", "<$0>"), (r"\n", r"\\n"), (r"(", "x"), (r"(.)(?=\1)", "${1}$$")),
    *((r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)", r"\1"), (r".", "0123456789abcdef"), (r"[[:punct:]]", "$")),
)


@pytest.fixture
def random(request):
    return np.random.default_rng([*request.node.originalname.encode(), int(os.environ.get("IRRUN_SEED", "0"))])


def compare(operation_type, inputs, attributes=None, constants=(), oracle=None):
    """Check that the outputs of irrun are those of the reference."""
    attributes = attributes or {}
    oracle = oracle or Oracle(operation_type, inputs, attributes, constants)
    expected = oracle.run(inputs)
    found = run(operation_type, *inputs, **attributes)
    assert len(found) == len(expected)
    for port, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), (operation_type, attributes, port)
        assert a.tolist() == b.tolist(), (operation_type, attributes, port, inputs)


def make_flags(random, count):
    return random.random(count) < 0.2


def test_regex_normalization(random):
    for i in range(COUNT):
        pattern, replacement = map(to_u8, REPLACEMENTS[random.integers(len(REPLACEMENTS))])
        inputs = make_strings(random, int(random.integers(1, 20)), i % 2)
        if i % 3:
            inputs.append(make_flags(random, inputs[0].size))
        attributes = {"global_replace": bool(i % 5)}
        compare("RegexNormalization", [*inputs, pattern, replacement], attributes, (-1, -2))


def test_regex_split(random):
    behaviours = ("remove", "isolate", "contiguous", "mergedwithprevious", "mergedwithnext")
    for i in range(COUNT):
        inputs = make_strings(random, 20, i % 2)
        rows, flags = make_ragged(random, 4, 20, i % 4 == 3), [make_flags(random, 20)]
        if i % 3 == 0:  # the reference has a flag for each row only
            rows, flags = [np.arange(20, dtype=np.int32), np.arange(1, 21, dtype=np.int32)], []
        attributes = {
            "behaviour": str(random.choice(behaviours)),
            "invert": bool(random.integers(2)),
            "max_splits": int(random.choice([-1, -1, 1, 3])),
        }
        compare("RegexSplit", [*rows, *inputs, *flags, to_u8(SPLITS[random.integers(len(SPLITS))])], attributes, (-1,))


def test_regex_split_with_tokens(random):
    tokens = to_strings("<s>", "a", "")
    for i in range(COUNT // 4):
        inputs = make_strings(random, 20, i % 2, most=2)
        rows = [np.arange(20, dtype=np.int32), np.arange(1, 21, dtype=np.int32)]
        attributes = {"behaviour": "isolate", "invert": False, "max_splits": -1}
        compare(
            "RegexSplit",
            [*rows, *inputs, to_u8(SPLITS[random.integers(len(SPLITS))]), *tokens],
            attributes,
            (-1, -2, -3, -4),
        )


def test_many_special_tokens(random):
    for i in range(COUNT):
        parts = ["<", ">", "a", "ab", "unused", "|", "é", "中", "\\", "]", "^", " "]
        tokens = ["".join(random.choice(parts, random.integers(1, 4))) for _ in range(40)]
        pattern = "(" + "|".join("".join(c if c.isalnum() else "\\" + c for c in token) for token in tokens) + ")"
        texts = ["".join(random.choice(parts, 12)) for _ in range(1 + 10 * (i % 2))]
        rows = [np.arange(len(texts), dtype=np.int32), np.arange(1, len(texts) + 1, dtype=np.int32)]
        compare("SpecialTokensSplit", [*rows, *to_strings(*texts), to_u8(pattern)], {}, (-1,))


def test_special_tokens_split(random):
    patterns = (
        r"(<s>|</s>)|(?:\s*)(\[MASK\])(?:\s*)",
        r"(<s>)|(?:\s*)(</s>)|(\[MASK\])(?:\s*)",
        "(a)?b",
        "((",
        "(?<!a)(b)",
    )
    for i in range(COUNT):
        inputs = make_strings(random, 20, i % 2)
        rows = make_ragged(random, 4, 20, False)
        compare("SpecialTokensSplit", [*rows, *inputs, to_u8(patterns[i % len(patterns)])], {}, (-1,))


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normalize_unicode(random, form):
    for i in range(COUNT // 4):
        inputs = make_strings(random, 30, i % 2)
        flags = [make_flags(random, 30)] if i % 2 else []
        compare("NormalizeUnicode", [*inputs, *flags], {"normalization_form": form})


def test_chars_map_normalization(random):
    for i in range(COUNT):
        inputs = make_strings(random, 30, i % 2)
        flags = [make_flags(random, 30)] if i % 3 else []
        attributes = {
            "add_dummy_prefix": bool(random.integers(2)),
            "remove_extra_whitespaces": bool(random.integers(2)),
            "escape_whitespaces": bool(random.integers(2)),
            "normalization_form": str(random.choice(["nfc", "nfd", "nfkc", "nfkd", "identity"])),
            "nmt": False,
        }
        attributes["case_fold"] = attributes["normalization_form"] == "identity" or bool(random.integers(2))
        compare("CharsMapNormalization", [*inputs, *flags], attributes)


def test_invalid_utf8_in_normalization(random):
    for i in range(COUNT // 2):
        inputs = make_bytes(random)
        compare("NormalizeUnicode", inputs, {"normalization_form": ("NFC", "NFKD")[i % 2]})


def test_case_fold(random):
    for i in range(COUNT):
        inputs = make_strings(random, 30, i % 2)
        if i % 3:
            compare("CaseFold", inputs, {"encoding": "utf-8", "lower": True})
        else:
            flags = make_flags(random, 30)
            compare("CaseFold", [*inputs, flags], {"encoding": "utf-8", "lower": True})
            compare("CaseFold", inputs, {"encoding": "", "lower": True})


def make_bytes(random):
    """Return strings whose bytes are often those at the edges of UTF-8."""
    edges = [0, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4]
    edges += [0xF5, 0xF7, 0xF8, 0xFF, 0x80, 0x80, 0xBF, 0xBF, 0xA0]
    sizes = random.integers(0, 12, 20)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return [bounds[:-1], bounds[1:], random.choice(np.array(edges, np.uint8), bounds[-1])]


def test_utf8_validate(random):
    for i in range(COUNT):
        inputs = make_bytes(random) if i % 4 else make_strings(random, 20, False)
        compare("UTF8Validate", inputs, {"replace_mode": bool(i % 2)})


def test_byte_fallback(random):
    words = ["<0x0A>", "<0xff>", "<0xFF>", "<mask>", "<0x41>", "<<x41>", "<0x4>>", "a", "", "▁b", "<0x0Ab", "abcdef"]
    for _ in range(COUNT):
        compare("ByteFallback", to_strings(*random.choice(words, 20)))


def test_vocab_decoder(random):
    for i in range(COUNT):
        vocabulary = make_strings(random, 30, i % 2, most=2)
        ids = random.integers(-2, 33, (int(random.integers(1, 4)), int(random.integers(0, 9)))).astype(np.int32)
        skipped = random.integers(0, 30, 3)
        if i % 3:
            compare("VocabDecoder", [ids, *vocabulary, skipped.astype(np.int32)])
        else:
            compare("VocabDecoder", [ids, *vocabulary], {"skip_tokens": skipped.tolist()})


def test_fuze_ragged(random):
    for i in range(COUNT):
        rows = make_ragged(random, 5, 20, i % 2)
        rows[0] = np.minimum(rows[0], 19)
        compare("FuzeRagged", [*rows, *make_strings(random, 20, i % 3 == 0)[:2]])


def test_chars_to_bytes(random):
    for i in range(COUNT):
        strings = make_strings(random, 20, False)
        rows = make_ragged(random, 5, 20, False)
        *_, chars_begin, chars_end, chars = run("BytesToChars", *rows, *strings)
        compare("BytesToChars", [*rows, *strings])
        compare("BytesToChars", [*rows, *strings, make_flags(random, 20)])
        compare("CharsToBytes", [*make_ragged(random, 5, 20, i % 2, overlaps=False), chars_begin, chars_end, chars])


def test_truncate(random):
    for i in range(COUNT):
        side = to_u8(("left", "right")[i % 2])
        mode = to_u8(str(random.choice(["only_first", "only_second", "longest_first"])))
        elements = random.integers(0, 99, 30).astype(np.int32)
        ragged = [v for _ in range(1 + i % 3 // 1 % 2) for v in (*make_ragged(random, 5, 30, i % 4 < 2), elements)]
        most = np.array(random.integers(0, 20), np.int32)
        compare("Truncate", [*ragged, most, side, mode], {}, (-1, -2, -3))


def test_combine_segments(random):
    for i in range(COUNT):
        tensors = []
        for kind in random.integers(0, 3, int(random.integers(1, 5))):
            count = int(random.integers(1, 20))
            elements = random.integers(0, 99, count).astype(np.int32)
            if kind == 0:
                tensors += [np.array(0, np.int32), np.array(count, np.int32), elements]
            else:
                tensors += [*make_ragged(random, 4, count, i % 2), elements]
        numbers = np.arange(len(tensors) // 3, dtype=np.int32)
        if any(t.ndim for t in tensors[::3]) and not _overlaps(tensors):
            compare("CombineSegments", [*tensors, numbers])


def _overlaps(tensors):
    """Return whether the result has more elements than the reference makes room for."""
    return any(
        int((ends - begins).sum()) > elements.size
        for begins, ends, elements in (tensors[i : i + 3] for i in range(0, len(tensors), 3))
    )


def test_ragged_to_dense(random):
    types = (np.int32, np.float32, np.int64, np.uint8)
    for i in range(COUNT):
        inner = ((), (), (2,), (2, 3))[i % 4]
        data = random.integers(0, 99, (20, *inner)).astype(types[i % len(types)])
        rows = make_ragged(random, 5, 20, i % 3)
        size, value = np.array(random.integers(0, 9), np.int32), np.array(7, data.dtype)
        right = [np.array(bool(random.integers(2)))] if i % 2 else []
        compare("RaggedToDense", [*rows, data, size, value, *right], {"pad_right": bool(random.integers(2))})


def test_ragged_to_sparse(random):
    for _ in range(COUNT):
        compare("RaggedToSparse", make_ragged(random, 5, 20, False))


def test_ragged_to_ragged(random):
    for _ in range(COUNT):
        ids = np.sort(random.integers(0, 8, int(random.integers(0, 20)))).astype(np.int32)
        compare("RaggedToRagged", [ids, np.array(8, np.int32)])


def test_equal_str(random):
    for _ in range(COUNT):
        first = to_strings(*random.choice(["a", "b", "", "中"], int(random.choice([0, 1, 8]))))
        second = to_strings(*random.choice(["a", "b", "", "中"], int(random.choice([0, 1, 8]))))
        compare("EqualStr", [*first, *second])


def test_numeric_to_string(random):
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-5, 123456.7, 1234567.0, 1e20, 0.1, 1 / 3]
    types = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")  # the plugin passes boolean as u8
    for i in range(COUNT):
        dtype = np.dtype(types[i % len(types)])
        # The plugin computes 64 bits as 32, and unsigned integers of 32 bits as signed ones.
        narrow = {"i8": "i4", "u4": "u2", "u8": "u2", "f8": "f4"}.get(dtype.str[1:], dtype.str)
        bits = random.integers(0, 256, 6 * np.dtype(narrow).itemsize, np.uint8)
        with np.errstate(all="ignore"):
            data = bits.view(narrow).astype(dtype).reshape(2, 3)
        if dtype.kind == "f":
            data.reshape(-1)[:3] = np.array(random.choice(special, 3), np.float32)
        if dtype == np.float64:
            data = np.nan_to_num(data, posinf=1.0, neginf=-1.0)
        compare("NumericToString", [data])


def test_string_to_hash_bucket(random):
    for i in range(COUNT):
        sizes = random.integers(0, (5, 20, 40, 70, 200)[i % 5], 12)
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        chars = random.integers(0, 256, bounds[-1], np.uint8)
        begins, ends = bounds[:-1].reshape(3, 4), bounds[1:].reshape(3, 4)
        compare("StringToHashBucket", [begins, ends, chars], {"num_buckets": int(random.integers(1, 1 << 40))})


def test_contrib_string_join(random):
    shapes = ((), (1,), (5,), (2, 3), (0, 3), (3, 0), (2, 3, 2), (1, 1))
    for i in range(COUNT):
        shape = shapes[i % len(shapes)]
        begins, ends, chars = make_strings(random, int(np.prod(shape)), i % 2, most=2)
        axis = np.array(random.integers(-len(shape), max(len(shape), 1)), (np.int32, np.int64)[i % 2])
        inputs = [begins.reshape(shape), ends.reshape(shape), chars, to_u8((", ", "", "x")[i % 3]), axis]
        compare("ContribStringJoin", inputs, {}, (-1, -2))


def test_contrib_string_split(random):
    shapes = ((), (5,), (2, 3), (0, 3), (2, 3, 2))
    for i in range(COUNT):
        shape = shapes[i % len(shapes)]
        texts = ["".join(random.choice([",", "a", ", ", "bc"], 5)) for _ in range(int(np.prod(shape)))]
        inputs = [*to_strings(*texts, shape=shape), to_u8((",", ", ", "")[i % 3]), np.array(bool(random.integers(2)))]
        compare("ContribStringSplit", inputs, {}, (-2,))


def test_string_tensor_unpack(random):
    for _ in range(COUNT // 2):
        begins, ends, chars = make_strings(random, 6, False)
        header = np.array([6, *begins[:1], *ends], np.int32)
        compare("StringTensorUnpack", [np.concatenate([header.view(np.uint8), chars])], {"mode": "begins_ends"})
        strings = np.empty((2, 3), object)
        strings.reshape(-1)[:] = from_strings(begins, ends, chars)
        compare("StringTensorUnpack", [strings], {"mode": "begins_ends"})
        compare("StringTensorPack", [begins, ends, chars], {"mode": "begins_ends"})


def test_ragged_tensor_pack(random):
    for _ in range(COUNT // 4):
        data = random.integers(0, 9, (10, 2)).astype(np.float32)
        compare("RaggedTensorPack", [*make_ragged(random, 4, 10, True), data])


#: Operation -> inputs, and the attributes that it needs.
SMALLEST_CALLS = {
    "BPETokenizer": ([*to_ragged(["a"]), *to_strings("a", "b", "ab"), *to_strings("a b")], {}),
    "CaseFold": (to_strings("a"), {}),
    "CharsMapNormalization": (to_strings("a"), {"normalization_form": "nfc"}),
    "NormalizeUnicode": (to_strings("a"), {}),
    "RaggedToDense": (
        [*np.array([[0], [1]], np.int32), np.array([7], np.int32), np.array(3, np.int32), np.array(0, np.int32)],
        {},
    ),
    "RegexNormalization": ([*to_strings("a"), to_u8("a"), to_u8("b")], {}),
    "RegexSplit": ([*to_ragged(["a"]), to_u8("a")], {}),
    "StringTensorPack": (to_strings("a"), {}),
    "StringTensorUnpack": ([np.array([1, 0, 4, 7], np.int32).view(np.uint8)], {}),
    "UTF8Validate": (to_strings("a"), {}),
    "UnigramTokenizer": ([*to_ragged(["a"]), *to_strings("a", "b"), np.array([1, 2], np.float32)], {}),
    "VocabDecoder": ([np.zeros((1, 1), np.int32), *to_strings("a", "b")], {}),
    "WordpieceTokenizer": ([*to_ragged(["a"]), *to_strings("a", "b"), np.array(0, np.int32)], {}),
    "StringToHashBucket": (to_strings("a"), {"num_buckets": 7}),
}


@pytest.mark.parametrize("operation_type", SMALLEST_CALLS)
def test_defaults_of_attributes_are_those_of_the_reference(operation_type):
    """Attributes that are omitted have the values that the reference gives them."""
    inputs, required = SMALLEST_CALLS[operation_type]
    run(operation_type, *inputs, **required)
    operation = registry.find(operation_type, "extension")
    found = {attribute.name: attribute.default for attribute in operation.attributes if not attribute.required}
    assert {**found, **required} == make_node(operation_type, inputs, required).get_attributes()
