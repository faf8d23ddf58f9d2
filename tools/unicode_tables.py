"""Write the pinned tables of Unicode in `irrun/text`.

pip install unicodedata2==17.0.0 && python3.11 tools/unicode_tables.py

The maps of normalization are those of SentencePiece's builder (`src/builder.cc`) for Unicode 14, the version of the
standard library of Python 3.11.
"""

from __future__ import annotations

import itertools
import lzma
import textwrap
import unicodedata
from pathlib import Path

from irrun.text.unicode_maps import pack_maps

FOLDER = Path(__file__).resolve().parent.parent / "irrun" / "text"
#: The version of Unicode of PCRE2 in OpenVINO Tokenizers.
PATTERN_VERSION = "17.0.0"
#: The version of Unicode of the maps of normalization in OpenVINO Tokenizers.
MAP_VERSION = "14.0.0"

#: Longest match first: replacements by the characters that they replace.
Map = dict[str, str]


def list_unassigned() -> list[tuple[int, int]]:
    """Return the first and last code points of the ranges that Unicode leaves unassigned."""
    import unicodedata2

    if unicodedata2.unidata_version != PATTERN_VERSION:
        raise SystemExit(f"found Unicode {unicodedata2.unidata_version}, expected {PATTERN_VERSION}")
    ranges: list[tuple[int, int]] = []
    for code in range(0x110000):
        if unicodedata2.category(chr(code)) == "Cn":
            first = ranges.pop()[0] if ranges and ranges[-1][1] == code - 1 else code
            ranges.append((first, code))
    return ranges


def rewrite_unassigned() -> None:
    """Write the ranges of `unicode_ranges.py` anew."""
    path = FOLDER / "unicode_ranges.py"
    head, _, rest = path.read_text(encoding="utf-8").partition('_UNASSIGNED = """\\\n')
    tail = rest.partition('"""')[2]
    words = " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in list_unassigned())
    lines = "\n".join(textwrap.wrap(words, 118, break_on_hyphens=False))
    path.write_text(f'{head}_UNASSIGNED = """\\\n{lines}\n"""{tail}', encoding="utf-8")


def list_characters() -> list[str]:
    """Return all characters of Unicode except U+0000, surrogates and code points that are no characters."""
    codes = (
        c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and not 0xFDD0 <= c < 0xFDF0 and c & 0xFFFE != 0xFFFE
    )
    return [chr(code) for code in codes]


def fold(char: str) -> str:
    """Return the simple case folding of a character."""
    folded = char.casefold()
    if len(folded) == 1:
        return folded
    lower = char.lower()
    return lower if len(lower) == 1 else char


def apply(replacements: Map, text: str, longest: int) -> str:
    """Replace the longest prefix that a map contains, until the end of a text."""
    pieces, position = [], 0
    while position < len(text):
        for length in range(min(longest, len(text) - position), 0, -1):
            replacement = replacements.get(text[position : position + length])
            if replacement is not None:
                break
        else:
            replacement, length = text[position], 1
        pieces.append(replacement)
        position += length
    return "".join(pieces)


def remove_redundant(replacements: Map) -> Map:
    """Remove the replacements of several characters that follow from shorter ones."""
    kept = {key: value for key, value in replacements.items() if len(key) == 1}
    for length in range(2, max(map(len, replacements)) + 1):
        keys = [key for key in replacements if len(key) == length]
        added = [key for key in keys if apply(kept, key, length - 1) != replacements[key]]
        kept.update((key, replacements[key]) for key in added)
    return kept


def decompose(form: str) -> Map:
    """Return the map of NFD or NFKD."""
    normalized = ((char, unicodedata.normalize(form, char)) for char in list_characters())
    return {char: text for char, text in normalized if char != text}


def compose(form: str, decomposed_form: str) -> Map:
    """Return the map of NFC or NFKC, with all sequences that have the same decomposition as a character."""
    replacements = decompose(form)
    sequences: set[str] = set()
    sources: dict[str, list[str]] = {}
    for char in list_characters():
        decomposed = unicodedata.normalize(decomposed_form, char)
        if len(decomposed) == 1:
            sources.setdefault(decomposed, []).append(char)
        else:
            sequences.add(decomposed)
    for sequence in sequences:
        composed = unicodedata.normalize(form, sequence)
        if composed != sequence:
            for source in map("".join, itertools.product(*(sources[char] for char in sequence))):
                if source != composed:
                    replacements[source] = composed
    return remove_redundant(replacements)


def add_folding(replacements: Map) -> Map:
    """Return a map whose results have no case."""
    folded = {key: "".join(map(fold, value)) for key, value in replacements.items()}
    for char in list_characters():
        if char not in folded and fold(char) != char:
            folded[char] = fold(char)
    return remove_redundant(folded)


def rewrite_maps() -> None:
    """Write `normalization.xz` anew."""
    if unicodedata.unidata_version != MAP_VERSION:
        raise SystemExit(f"found Unicode {unicodedata.unidata_version}, expected {MAP_VERSION}: run Python 3.11")
    forms = {"nfd": decompose("NFD"), "nfkd": decompose("NFKD"), "nfc": compose("NFC", "NFD")}
    forms["nfkc"] = compose("NFKC", "NFKD")
    maps = {"casefold": add_folding({"\0": "\0"}), **forms}
    del maps["casefold"]["\0"]
    maps |= {f"{form} casefold": add_folding(replacements) for form, replacements in forms.items()}
    (FOLDER / "normalization.xz").write_bytes(lzma.compress(pack_maps(maps), preset=9))


if __name__ == "__main__":
    rewrite_unassigned()
    rewrite_maps()
