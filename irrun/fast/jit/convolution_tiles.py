"""Tiles of compiled convolutions: channels and neighboring pixels with sums in registers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from irrun.fast.jit.compiler import get_lanes

__all__ = ["TILE_FIELDS", "Form", "divide_pixels", "get_tile", "get_tile_size", "has_extras", "list_forms"]

Array = np.ndarray[Any, Any]

#: Number of fields of a tile: its first pixel, its form, and its number of pixels.
TILE_FIELDS = 3
#: Maximum number of extra pixels in all tiles together: more would take as long as a vector.
MAX_EXTRAS = 8


class Form(NamedTuple):
    """The form of a tile of pixels.

    Attributes:
        vectors: The number of vectors.
        extras: The number of pixels after them.
        is_masked: Whether the last vector may be incomplete.
    """

    vectors: int
    extras: int
    is_masked: bool = False


def get_tile() -> tuple[int, int]:
    """Return the number of channels and of vectors that fill the registers."""
    return (8, 3) if get_lanes() == 16 else (4, 3)


def get_tile_size() -> int:
    """Return the number of elements between the products of the channels of a tile."""
    return get_tile()[1] * get_lanes() + 16


def list_forms() -> list[Form]:
    """Return the forms of tiles. With 16 registers, tiles cannot have extras."""
    vectors = get_tile()[1]
    extras = range(4 if get_lanes() == 16 else 1)
    return [*(Form(vectors, i) for i in extras), *(Form(i, 0, True) for i in range(vectors, 0, -1))]


def has_extras() -> bool:
    """Return whether tiles may have extras."""
    return any(form.extras for form in list_forms())


def divide_pixels(count: int) -> Array:
    """Return the tiles of a number of neighboring pixels, shape [TILES, TILE_FIELDS].

    A tile of one vector would wait for its own sums, so two tiles are made narrower instead.
    """
    forms, lanes, vectors = list_forms(), get_lanes(), get_tile()[1]
    max_extras = max(form.extras for form in forms)
    whole, rest = divmod(count, lanes)
    for extras in (rest, 0):
        total = whole if extras or not rest else whole + 1
        widths = [vectors] * (total // vectors)
        if total % vectors == 1 and widths:
            widths[-1:] = [vectors - 1, 2]
        elif total % vectors:
            widths.append(total % vectors)
        full = widths.count(vectors)
        if extras <= min(MAX_EXTRAS, full * max_extras):
            break
    tiles = []
    start = 0
    for i, width in enumerate(widths):
        own = 0
        if width == vectors and extras:
            own = extras * (i + 1) // full - extras * i // full
        size = min(width * lanes + own, count - start)
        is_masked = width < vectors or size < width * lanes
        tiles.append((start, forms.index(Form(width, own, is_masked)), size))
        start += size
    return np.array(tiles, np.int64)
