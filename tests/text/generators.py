"""Random inputs of operations on text."""

from __future__ import annotations

import numpy as np

from text.strings import encode, to_u8

__all__ = ["TEXTS", "make_ragged", "make_strings", "make_text"]

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
