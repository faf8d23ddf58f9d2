"""Normalization by a map of character sequences, as in SentencePiece."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.text.ragged import expand_ranges
from irrun.text.unicode_maps import load_map

__all__ = ["Normalizer", "get_normalizer", "parse_normalizer"]

Array = np.ndarray[Any, Any]

#: Maximum length of a key in bytes.
MAX_KEY = 128
#: Maximum number of nodes in a trie. Nodes may have several parents.
MAX_NODES = 1 << 22
#: Maximum number of nodes in the tree of a map; shared nodes count once for each path.
MAX_NODES = 1 << 21
#: Maximum number of regions with kept normalization.
MAX_REGIONS = 10_000


class Normalizer:
    """Repeatedly replaces the longest prefix that a map contains.

    Bytes that are not UTF-8 become U+FFFD, one for each byte.

    Args:
        replacements: Sequences of characters -> their replacements.
        adds_prefix: Whether a space precedes each text that is not empty.
        removes_spaces: Whether repeated spaces, and spaces at both ends, are removed.
        escapes_spaces: Whether spaces become U+2581.
    """

    def __init__(
        self,
        replacements: Mapping[str, str],
        adds_prefix: bool = False,
        removes_spaces: bool = False,
        escapes_spaces: bool = False,
    ) -> None:
        self._adds_prefix = adds_prefix
        self._removes_spaces = removes_spaces
        self._space = "\u2581" if escapes_spaces else " "
        self._replacements = replacements
        self._longest = max(map(len, replacements), default=0)
        self._single: dict[int, str | int] = dict.fromkeys(range(56448, 56576), "�")
        self._single.update((ord(key), value) for key, value in replacements.items() if len(key) == 1)
        followers = sorted({char for key in replacements if len(key) > 1 for char in key[1:]})
        self._followers = frozenset(followers)
        chars = "".join(map(re.escape, followers))
        self._regions = re.compile(f"((?s:.)?[{chars}]+)") if followers else None
        self._known_regions: dict[str, str] = {}
        self._ascii = self._make_ascii_table()

    def _make_ascii_table(self) -> tuple[bytes, bytes] | None:
        """Return a table for `bytes.translate` and the bytes to delete; None if results are not ASCII."""
        values = [self._replacements.get(chr(code), chr(code)) for code in range(128)]
        has_sequences = any(len(key) > 1 and key.isascii() for key in self._replacements)
        if has_sequences or not all(value.isascii() and len(value) < 2 for value in values):
            return None
        deleted = bytes(code for code, value in enumerate(values) if not value)
        return bytes(ord(value or "\0") for value in values) + bytes(range(128, 256)), deleted

    def normalize(self, text: bytes) -> bytes:
        """Return a text with the replacements of the map."""
        if self._ascii is not None and text.isascii():
            table, deleted = self._ascii
            replaced = text.translate(table, deleted).decode("ascii")
        else:
            replaced = self._replace(text.decode("utf-8", "surrogateescape"))
        return self._arrange_spaces(replaced, text).encode()

    def _replace(self, text: str) -> str:
        if self._regions is None or self._followers.isdisjoint(text):
            return text.translate(self._single)
        # A character that no key joins with its successors ends a region, so regions are independent.
        parts = self._regions.split(text)
        parts[::2] = [part.translate(self._single) for part in parts[::2]]
        parts[1::2] = [self._known_regions.get(part) or self._replace_region(part) for part in parts[1::2]]
        return "".join(parts)

    def _replace_region(self, region: str) -> str:
        """Return the normalization of a region, in which several characters may be replaced together."""
        pieces, position = [], 0
        while position < len(region):
            for length in range(min(self._longest, len(region) - position), 0, -1):
                replacement = self._replacements.get(region[position : position + length])
                if replacement is not None:
                    break
            else:
                replacement, length = region[position].translate(self._single), 1
            pieces.append(replacement)
            position += length
        result = "".join(pieces)
        if len(region) < 16 and len(self._known_regions) < MAX_REGIONS:
            self._known_regions[region] = result
        return result

    def _arrange_spaces(self, text: str, original: bytes) -> str:
        """Return a text with normalized spaces."""
        if not original:
            return ""
        if self._removes_spaces:
            text = self._collapse(text)
        prefix = self._space if self._adds_prefix else ""
        if self._space != " ":
            text = text.replace(" ", self._space)
        text = prefix + text
        return text.rstrip(self._space) if self._removes_spaces else text

    @staticmethod
    def _collapse(text: str) -> str:
        """Remove spaces at the beginning and after spaces."""
        if "  " in text:
            text = _SPACES.sub(" ", text)
        return text.lstrip(" ")


_SPACES = re.compile(" {2,}")


@functools.lru_cache(maxsize=32)
def get_normalizer(
    form: str, folds_case: bool, adds_prefix: bool = False, removes_spaces: bool = False, escapes_spaces: bool = False
) -> Normalizer:
    """Return a normalizer for a Unicode normalization form.

    Args:
        form: "NFC", "NFD", "NFKC", "NFKD" or "identity" in any case.
        folds_case: Whether case is folded afterwards.
        adds_prefix: See `Normalizer`.
        removes_spaces: See `Normalizer`.
        escapes_spaces: See `Normalizer`.

    Raises:
        InputError: The form does not exist.
    """
    name = form.lower()
    key = name + " casefold" * folds_case if name != "identity" else "casefold" if folds_case else ""
    replacements = load_map(key)
    if replacements is None:
        raise InputError(f"the form {form!r} is unknown{' with case folding' if folds_case else ''}")
    return Normalizer(replacements, adds_prefix, removes_spaces, escapes_spaces)


@functools.lru_cache(maxsize=8)
def parse_normalizer(charsmap: bytes, adds_prefix: bool, removes_spaces: bool, escapes_spaces: bool) -> Normalizer:
    """Return a normalizer for a compiled SentencePiece map.

    Args:
        charsmap: The size of a trie, u32; the trie; and texts that end with zero bytes. Empty for no map.
        adds_prefix: See `Normalizer`.
        removes_spaces: See `Normalizer`.
        escapes_spaces: See `Normalizer`.

    Raises:
        InputError: The map is malformed.
    """
    return Normalizer(_parse_charsmap(charsmap), adds_prefix, removes_spaces, escapes_spaces)


def _parse_charsmap(charsmap: bytes) -> dict[str, str]:
    """Return the replacements of a compiled map."""
    if not charsmap:
        return {}
    size = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) <= 4 or size % 4 or not 0 < size < len(charsmap):
        raise InputError(f"the map of {len(charsmap)} bytes is malformed: its trie has {size} bytes")
    keys, values = _list_trie(np.frombuffer(charsmap, "<u4", size // 4, 4))
    texts = charsmap[4 + size :]
    try:
        replacements = {value: _read_text(texts, value) for value in set(values)}
        return {key.decode(): replacements[value] for key, value in zip(keys, values, strict=True)}
    except UnicodeDecodeError:
        raise InputError("the map is malformed: it replaces bytes that are not UTF-8") from None


def _read_text(texts: bytes, offset: int) -> str:
    if offset >= len(texts):
        raise InputError(f"the map is malformed: text {offset} is not within {len(texts)} bytes")
    stop = texts.find(b"\0", offset)
    return texts[offset : stop if stop >= 0 else None].decode()


def _list_trie(units: Array) -> tuple[list[bytes], list[int]]:
    """Return the keys of a Darts double array, and their values.

    A unit holds the value of a leaf; or the byte that leads to it, whether a leaf follows, and an offset. The child
    for a byte is at the XOR of position, offset and byte.
    """
    units = units.astype(np.int64)
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    nodes = np.flatnonzero((units & 0x80000000 == 0) & (units & 0xFF != 0))
    labels = units[nodes] & 0xFF
    order = np.argsort(nodes ^ labels, kind="stable")
    nodes, labels = nodes[order], labels[order]
    parents = nodes ^ labels  # the position and offset of the parent
    keys: list[bytes] = []
    values: list[int] = []
    names, bases = [b""], offsets[:1]
    visited = 0
    for _ in range(MAX_KEY):
        first, last = np.searchsorted(parents, bases, "left"), np.searchsorted(parents, bases, "right")
        visited += int((last - first).sum())
        if visited == 0 or not (last > first).any():
            return keys, values
        if visited > MAX_NODES:
            break
        found = expand_ranges(first, last)
        owners = np.repeat(np.arange(bases.size), last - first).tolist()
        names = [names[i] + _BYTES[c] for i, c in zip(owners, labels[found].tolist(), strict=True)]
        bases = nodes[found] ^ offsets[nodes[found]]
        leaves = np.flatnonzero((units[nodes[found]] >> 8) & 1)
        if (bases[leaves] >= units.size).any():
            raise InputError(f"the map is malformed: a leaf is not within {units.size} units")
        keys += [names[i] for i in leaves.tolist()]
        values += (units[bases[leaves]] & 0x7FFFFFFF).tolist()
    raise InputError("the map is malformed: its trie is too large or too deep")


_BYTES = [bytes([code]) for code in range(256)]
