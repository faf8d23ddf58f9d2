"""Pinned maps for Unicode normalization, written by `tools/unicode_tables.py`.

OpenVINO Tokenizers normalizes with SentencePiece's maps for Unicode 14: the longest prefix that a map contains is
replaced, and marks are not reordered. The results differ from `unicodedata.normalize`.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping
from pathlib import Path

__all__ = ["load_map", "pack_maps"]

_FILE = Path(__file__).with_name("normalization.xz")
#: Separators of maps, of a map's name and its entries, of entries, and of the parts of an entry.
_MAPS, _NAME, _ENTRIES, _PARTS = "\x04\x03\x02\x01"


def pack_maps(maps: Mapping[str, Mapping[str, str]]) -> bytes:
    """Serialize maps to the uncompressed contents of the file.

    Args:
        maps: Maps from sequences of characters to their replacements, by name.
    """
    parts = []
    for name, replacements in maps.items():
        entries = _ENTRIES.join(f"{key}{_PARTS}{replacements[key]}" for key in sorted(replacements))
        parts.append(f"{name}{_NAME}{entries}")
    return _MAPS.join(parts).encode()


@functools.cache
def load_map(name: str) -> dict[str, str] | None:
    """Return a map from sequences of characters to their replacements; None if there is no map of that name.

    Args:
        name: "nfc", "nfd", "nfkc" or "nfkd", each also with " casefold" behind it, or "casefold".
    """
    for part in lzma.decompress(_FILE.read_bytes()).decode().split(_MAPS):
        found, _, entries = part.partition(_NAME)
        if found == name:
            pairs = (entry.partition(_PARTS) for entry in entries.split(_ENTRIES))
            return {key: value for key, _, value in pairs}
    return None
