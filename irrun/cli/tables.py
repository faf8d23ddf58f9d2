"""Tables: complete in files and pipes, and as wide as the window on terminals.

On a terminal, names are shortened in the middle and texts are wrapped. Numbers, types and shapes are always whole:
columns that do not fit are left out, starting with the last, and listed below the table.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import click

from irrun.cli.terminal import can_encode, find_width, measure_width, shorten_middle
from irrun.errors import escape_unprintable
from irrun.formatting import format_count

__all__ = [
    "ValueList",
    "arrange_columns",
    "format_columns",
    "format_seconds",
    "format_table",
    "print_lines",
    "print_omitted",
    "print_table",
]

#: How the cells of a column are narrowed: names lose their middle, texts are wrapped at spaces, lists of values show
#: fewer of them, and all other cells are wrapped at spaces and after +, never within a word.
Kind = Literal["name", "text", "list", "value"]

#: Characters between two columns.
GAP = 2
#: Widths to which names and texts are narrowed: to the first before other columns, to the last at the end.
NAME_WIDTHS, TEXT_WIDTHS = (24, 12, 8), (32, 16)
#: Lists of values are narrowed to this width before names are narrowed to the second one.
LIST_WIDTH = 20


class ValueList(str):
    """A cell that contains values. If it is too wide, it shows fewer values, each complete.

    Args:
        values: The texts of the values.
        is_complete: Whether these are all values.
    """

    def __new__(cls, values: Sequence[str], is_complete: bool) -> ValueList:
        """Return the complete text of the cell, for pipes."""
        texts = [*map(escape_unprintable, values), *([] if is_complete else ["..."])]
        cell = super().__new__(cls, " ".join(texts))
        cell.values = texts
        return cell

    values: list[str]

    @property
    def least(self) -> int:
        """The width of its first value."""
        return measure_width(" ".join([self.values[0][:12], "..."][: len(self.values)])) if self.values else 0

    def fit(self, width: int) -> str:
        """Return as many values as fit."""
        if measure_width(self) <= width:
            return self
        count = len(self.values) - 1
        while count > 1 and measure_width(" ".join(self.values[:count])) + 4 > width:
            count -= 1
        return " ".join([shorten_middle(self.values[0], width - 4), *self.values[1:count], "..."])


@dataclass(frozen=True)
class _Column:
    """A column of a table.

    Attributes:
        title: Its title.
        kind: How it is narrowed.
        cells: Its cells.
    """

    title: str
    kind: Kind
    cells: tuple[str, ...]

    @property
    def natural(self) -> int:
        """The width of the column if there is room."""
        return max(map(measure_width, (self.title, *self.cells)))

    @property
    def limits(self) -> list[int]:
        """The widths to which the column is narrowed, step by step."""
        words = max((measure_width(word) for word in self.title.split()), default=0)
        title = max([words, *map(measure_width, self.cells)])  # the title is wrapped
        if self.kind == "name":
            first, second, last = (min(title, limit) for limit in NAME_WIDTHS)
            return [title, title, first, second, second, last]
        if self.kind == "text":
            return [title, *(min(title, max(limit, words)) for limit in TEXT_WIDTHS)]
        if self.kind == "list":
            least = max([words, *(c.least if isinstance(c, ValueList) else measure_width(c) for c in self.cells)])
            return [*[max(min(title, LIST_WIDTH), least)] * 3, least]
        return [title, title, title, title, max([words, *(measure_width(p) for c in self.cells for p in _split(c))])]

    def lay_out(self, cell: str, width: int, ellipsis: str) -> list[str]:
        """Return the lines of a cell."""
        if measure_width(cell) <= width:
            return [cell]
        if self.kind == "name":
            return [shorten_middle(cell, width, ellipsis)]
        if isinstance(cell, ValueList):
            return [cell.fit(width)]
        if self.kind == "value":
            return _join(_split(cell), width)
        return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def print_omitted(count: int, noun: str) -> None:
    """Print how many rows of a table are omitted, such as "2 more layers", and the option that prints them."""
    click.echo(f"{format_count(count, f'more {noun}')}; --all prints {'it' if count == 1 else 'them'}")


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    names: Sequence[str] | None = None,
    texts: Sequence[str] = (),
) -> None:
    """Print a table. On a terminal, it is at most as wide as the terminal.

    Args:
        header: The titles of the columns.
        rows: The cells. `ValueList` cells are narrowed by showing fewer values.
        right: The titles of the columns that are aligned to the right.
        names: The titles of columns that may be shortened in the middle; by default the first one.
        texts: The titles of columns that may wrap between words.
    """
    if not sys.stdout.isatty():
        click.echo(format_columns([header, *rows]))
        return
    has_symbols = can_encode(sys.stdout)
    for line in format_table(header, rows, find_width(sys.stdout), right, names, texts, has_symbols):
        click.echo(line)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines. On a terminal, long lines wrap between words, so that they can be copied.

    Args:
        lines: The lines, of printable characters.
    """
    width = find_width(sys.stdout) if sys.stdout.isatty() else 0
    for line in lines:
        if not width or measure_width(line) <= width:
            click.echo(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        wrapper = textwrap.TextWrapper(width, indent, f"{indent}  ", break_long_words=False, break_on_hyphens=False)
        for part in wrapper.wrap(line.lstrip()):
            click.echo(part)


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    right: Sequence[str] = (),
    names: Sequence[str] | None = None,
    texts: Sequence[str] = (),
    has_symbols: bool = True,
) -> Iterator[str]:
    """Yield the lines of a table for a terminal.

    Args:
        header: As for `print_table`.
        rows: As for `print_table`.
        width: The number of columns of the terminal.
        right: As for `print_table`.
        names: As for `print_table`.
        texts: As for `print_table`.
        has_symbols: Whether characters outside ASCII may be used.
    """
    ellipsis, rule = ("…", "─") if has_symbols else ("...", "-")
    names = header[:1] if names is None else names
    columns = []
    for i, title in enumerate(header):
        cells = tuple(row[i] if isinstance(row[i], ValueList) else escape_unprintable(row[i]) for row in rows)
        is_list = any(isinstance(cell, ValueList) for cell in cells)
        kind: Kind = "name" if title in names else "text" if title in texts else "list" if is_list else "value"
        columns.append(_Column(title, kind, cells))
    if sum(column.natural + GAP for column in columns) - GAP > width:
        columns = [column for i, column in enumerate(columns) if not i or any(column.cells) or not rows]
    widths = arrange_columns([(column.natural, column.limits) for column in columns], width)
    shown = columns[: len(widths)]
    titles = [_join(c.title.split(), w) or [""] for c, w in zip(shown, widths, strict=True)]
    _use_gaps(shown, widths, [max(map(measure_width, lines)) for lines in titles], width, ellipsis)

    def join(cells: Sequence[list[str]], is_title: bool = False) -> Iterator[str]:
        """Yield the lines of a row. Titles are aligned to the bottom."""
        height = max(map(len, cells))
        padded = [[*[""] * (height - len(c)), *c] if is_title else [*c, *[""] * (height - len(c))] for c in cells]
        for line in zip(*padded, strict=True):
            parts = [
                " " * (w - measure_width(text)) + text if c.title in right else text + " " * (w - measure_width(text))
                for text, w, c in zip(line, widths, shown, strict=True)
            ]
            yield (" " * GAP).join(parts).rstrip()

    yield from join(titles, is_title=True)
    yield rule * min(sum(widths) + GAP * (len(widths) - 1), width)
    for row in zip(*(column.cells for column in shown), strict=True):
        yield from join([c.lay_out(cell, w, ellipsis) for c, cell, w in zip(shown, row, widths, strict=True)])
    if len(shown) < len(columns):
        missing = ", ".join(column.title for column in columns[len(shown) :])
        yield from textwrap.wrap(f"no room for: {missing}", width)


def _use_gaps(
    columns: Sequence[_Column], widths: list[int], title_widths: Sequence[int], available: int, ellipsis: str
) -> None:
    """Narrow columns to their wrapped cells, and give the space to lists and names."""
    for i, column in enumerate(columns):
        if widths[i] < column.natural and column.kind in ("value", "text"):
            lines = [line for cell in column.cells for line in column.lay_out(cell, widths[i], ellipsis)]
            widths[i] = min(widths[i], max([title_widths[i], *map(measure_width, lines)]))
    for kind in ("list", "name"):
        for i, column in enumerate(columns):
            if column.kind == kind:
                widths[i] += min(column.natural - widths[i], available - GAP * (len(widths) - 1) - sum(widths))


def arrange_columns(extents: Sequence[tuple[int, Sequence[int]]], available: int) -> list[int]:
    """Return the widths of columns. Narrow the widest until all fit; if they cannot, leave out the last ones.

    Args:
        extents: For each column, its natural width, and the widths to which it is narrowed one after another. All
                columns are narrowed to their first width before any is narrowed to its second.
        available: The width of the table, including `GAP` characters between columns.
    """
    count = len(extents)
    while count > 1:
        room = available - GAP * (count - 1)
        widths = [natural for natural, _ in extents[:count]]
        for stage in range(max(len(limits) for _, limits in extents)):
            floors = [min(w, x[min(stage, len(x) - 1)]) for w, (_, x) in zip(widths, extents, strict=False)]
            limit = max(widths)
            while sum(widths) > room and limit > min(floors):
                limit -= 1
                widths = [max(min(w, limit), floor) for w, floor in zip(widths, floors, strict=True)]
        if sum(widths) <= room:
            return widths
        count -= 1
    return [min(extents[0][0], max(available, 1))]


def format_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines with aligned columns, two spaces apart."""
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def format_seconds(seconds: float) -> str:
    """Return a time in milliseconds.

    Args:
        seconds: The time.
    """
    return f"{seconds * 1000:.2f} ms"


def _split(cell: str) -> list[str]:
    """Split a cell at the places where it may wrap: a number stays with its unit and the word before it."""
    return re.findall(r"[A-Za-z_][^\s+]*\+|(?:to )?\S+(?: (?:[KMGT]?B|ms|dB|[KMGT]|more)(?!\S))?", cell)


def _join(parts: Sequence[str], width: int) -> list[str]:
    """Join parts into lines of limited width, each with at least one part."""
    lines: list[str] = []
    for part in parts:
        gap = "" if lines and lines[-1].endswith("+") else " "
        if lines and measure_width(lines[-1] + gap + part) <= width:
            lines[-1] += gap + part
        else:
            lines.append(part)
    return lines
