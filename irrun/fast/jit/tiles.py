"""Code shared by kernels of products and convolutions: their results are tiles of rows and vectors."""

from __future__ import annotations

from irrun.fast.jit.code import Function, Value

__all__ = ["prefetch_tile"]

#: Elements of a cache line.
LINE_SIZE = 16


def prefetch_tile(f: Function, place: tuple[Value, Value], rows: int, columns: int) -> None:
    """Append prefetches of the results of a tile: stores to lines far from the processor would delay later tiles.

    Args:
        f: The function.
        place: The address of the first row, and the elements between rows.
        rows: The number of rows.
        columns: The number of columns.
    """
    for row in range(rows):
        for column in range(0, columns, LINE_SIZE):
            f.prefetch(f.offset(place[0], place[1] * row + column), level=1, is_written=True)
