"""Pinned maps of Unicode normalization, which `tools/unicode_tables.py` writes.

OpenVINO Tokenizers normalizes by SentencePiece's maps of Unicode 14: the longest prefix that a map contains is
replaced, and marks are not put in order. The results differ from `unicodedata.normalize`.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping
from pathlib import Path

__all__ = ["load_map", "pack_maps"]

_FILE = Path(__file__).with_name("normalization.xz")
#: What separates maps, the name of a map from its entries, entries, and the parts of an entry.
_MAPS, _NAME, _ENTRIES, _PARTS = "\x04\x03\x02\x01"


def pack_maps(maps: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return maps as the contents of the file before its compression.

    Args:
        maps: Maps of sequences of characters to what replaces them, by name.
    """
    parts = []
    for name, replacements in maps.items():
        entries = _ENTRIES.join(f"{key}{_PARTS}{replacements[key]}" for key in sorted(replacements))
        parts.append(f"{name}{_NAME}{entries}")
    return _MAPS.join(parts).encode()


@functools.cache
def load_map(name: str) -> dict[str, str] | None:
    """Return a map of sequences of characters to what replaces them; None if there is no map of that name.

    Args:
        name: "nfc", "nfd", "nfkc" or "nfkd", each also with " casefold" behind it, or "casefold".
    """
    for part in lzma.decompress(_FILE.read_bytes()).decode().split(_MAPS):
        found, _, entries = part.partition(_NAME)
        if found == name:
            pairs = (entry.partition(_PARTS) for entry in entries.split(_ENTRIES))
            return {key: value for key, _, value in pairs}
    return None
