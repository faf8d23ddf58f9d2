"""Random inputs of operations on text."""

from __future__ import annotations

import numpy as np

from text.strings import encode, to_u8

__all__ = ["TEXTS", "make_any_text", "make_ragged", "make_strings", "make_text"]

#: Fragments of text of many kinds.
TEXTS = (
    *("a", "b", "the", "Hello", "World", "don't", "WE'LL", "x1", "2024", "3.14", "foo_bar", "<s>", "</s>", "[MASK]"),
    *(" ", "  ", "   ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u180e", "\u3000", "\u200b", "\u200d", "\ufeff"),
    *("é", "e\u0301", "ß", "ẞ", "ſ", "K", "ﬁ", "Ⅷ", "½", "²", "١٢", "٣", "Ā", "İ", "ı", "Å", "A\u030a"),
    *(
        "中文",
        "日本語",
        "カ゛",
        "ｶﾞ",
        "한국",
        "\u1112\u1161\u11ab",
        "ру́сский",
        "Ελλάδα",
        "עִבְרִית",
        "العَرَبِيَّة",
        "हिन्दी",
        "ไทย",
    ),
    *("👍🏽", "👨‍👩‍👧", "🇩🇪", "𝔘𝔫𝔦", "𐐀", "\U000e0001", "\ue000", "\u0378", "\U00016d40"),
    *("!", "?!", "...", "—", "«»", "$", "+", "`", "|", "~", "^", "\\", "@#", "'s", "'", '"', "▁", "Ġ", "_", "-"),
)


def make_text(random, most=8):
    """Return a random text of up to some fragments."""
    return "".join(random.choice(TEXTS, random.integers(0, most + 1)))


def make_strings(random, count, has_gaps, most=8):
    """Return random strings as three inputs.

    Args:
        random: The random numbers.
        count: The number of strings.
        has_gaps: Whether strings leave gaps and overlap; the first one begins at 0.
        most: Most fragments of a string.
    """
    texts = [encode(make_text(random, most)) for _ in range(count)]
    bounds = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    begins, ends = bounds[:-1].copy(), bounds[1:].copy()
    if has_gaps and count > 2:
        order = random.permutation(count - 1) + 1
        kept = random.random(count - 1) < 0.8
        begins[1:], ends[1:] = begins[order], np.where(kept, ends[order], begins[order])
    return [begins, ends, to_u8(b"".join(texts))]


def make_ragged(random, rows, count, has_gaps, overlaps=True):
    """Return the bounds of random rows of `count` elements.

    Args:
        random: The random numbers.
        rows: The number of rows.
        count: The number of elements.
        has_gaps: Whether rows leave gaps.
        overlaps: Whether rows with gaps overlap.
    """
    if not has_gaps:
        cuts = np.sort(random.integers(0, count + 1, rows - 1))
        bounds = np.concatenate([[0], cuts, [count]]).astype(np.int32)
        return [bounds[:-1], bounds[1:]]
    bounds = random.integers(0, count + 1, (rows, 2)).astype(np.int32)
    bounds = np.sort(bounds, axis=1) if overlaps else np.sort(bounds, axis=None).reshape(rows, 2)
    return [bounds[:, 0].copy(), bounds[:, 1].copy()]


#: What tokenizers treat as special.
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|startoftext|>", "<start_of_turn>", "<extra_id_3>"),
    *("<s>", "</s>", "<unk>", "<pad>", "<mask>", "[MASK]", "[CLS]", "[SEP]", "[UNK]", "<0x41>", "\n\n"),
)
#: Words as in documentation.
_SENTENCE = (
    "The runtime computes each operation by NumPy , and prints intermediate values . A kernel `convolution_1` ( see "
    "docs/design.md ) gets arrays: float32 [1, 3, 224, 224] and padding=2; it's 1,234.5 ms -- don't re-run! "
    "unbelievable tokenization antidisestablishmentarianism ResNet-50 x86_64 C++ O'Neill e.g. I.e. U.S.A. naïve café"
)
WORDS = tuple(_SENTENCE.split())


def make_any_text(random):
    """Return a random text: fragments, characters of all planes, words, special tokens, a long word or numbers."""
    kind = random.integers(0, 10)
    if kind < 3:
        return make_text(random, 12)
    if kind < 5:
        codes = random.integers(1, 0x110000 if kind == 3 else 0x3000, random.integers(1, 20)).tolist()
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
    if kind == 5:
        return " ".join(random.choice(WORDS, random.integers(1, 30)))
    if kind == 6:
        return "".join(random.choice([*SPECIAL, *TEXTS, *WORDS], random.integers(1, 8)))
    if kind == 7:
        return "".join(random.choice(list("abcdehilnorst"), random.integers(1, 400)))
    if kind == 8:
        return " ".join(map(str, random.integers(0, 10 ** random.integers(1, 12), random.integers(1, 5))))
    length = int(random.integers(1, 1000))
    few = ("", " ", "\n", " \n x", "\u0301" * 3, "a" * length, "é" * length, "漢" * 200, "▁" * (length % 50))
    return str(random.choice(few))
