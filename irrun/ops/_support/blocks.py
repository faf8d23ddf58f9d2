"""Blocks: parts of a computation that are computed one after another, so that intermediate values stay small."""

from __future__ import annotations

from collections.abc import Iterator

from irrun.deadlines import within_time

__all__ = ["BLOCK_ELEMENTS", "iterate_blocks"]

#: Elements of a block: enough to hide the overhead of NumPy's calls.
BLOCK_ELEMENTS = 1 << 18


def iterate_blocks(count: int, size: int, multiple: int = 1) -> Iterator[slice]:
    """Yield slices that cover a range, and check the time limit of the run before each.

    Args:
        count: Length of the range.
        size: Elements that are computed for each position.
        multiple: The slices begin at multiples of it.
    """
    step = max(1, BLOCK_ELEMENTS // max(1, size * multiple)) * multiple
    return within_time(slice(start, min(start + step, count)) for start in range(0, count, step))
