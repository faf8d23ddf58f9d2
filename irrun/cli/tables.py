"""Tables that fit the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from irrun.cli.show import format_columns
from irrun.cli.terminal import shorten_middle

__all__ = ["fit_widths", "format_seconds", "print_table"]

#: Characters between two columns.
GAP = 3
#: Columns are not narrowed below this width.
MINIMUM = 8


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table. On a terminal it takes at most the width of the terminal; long cells are shortened.

    Args:
        header: The titles of the columns.
        rows: The cells.
        right: The titles of the columns that are aligned to the right.
    """
    if not sys.stdout.isatty():
        click.echo(format_columns([header, *rows]))
        return
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from irrun.errors import escape_unprintable

    console = Console()
    cells = [[escape_unprintable(cell) for cell in row] for row in rows]
    available = console.width - GAP * (len(header) - 1)
    natural = [max(map(cell_len, [title, *(row[i] for row in cells)])) for i, title in enumerate(header)]
    if sum(natural) > available:  # titles are wrapped
        words = [title.split() for title in header]
        natural = [max(map(cell_len, [*words[i], *(row[i] for row in cells)])) for i in range(len(header))]
    widths = fit_widths(natural, available)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title, width in zip(header, widths, strict=True):
        side: JustifyMethod = "right" if title in right else "left"
        table.add_column(title, justify=side, vertical="bottom", width=width)
    for first, *others in cells:
        texts = [shorten_middle(first, widths[0]), *others]
        table.add_row(*(Text(text, no_wrap=True, overflow="ellipsis") for text in texts))
    console.print(table)


def fit_widths(natural: Sequence[int], available: int) -> list[int]:
    """Return the widths of columns: the widest ones are narrowed until all fit.

    Args:
        natural: The widths of the columns without a limit.
        available: The sum of widths that fits. The first column, which contains names, may take half of it before it
            is narrowed. No column gets narrower than `MINIMUM`.
    """
    first = min(natural[0], max(available // 2, MINIMUM))
    limit = max(natural)
    while limit > MINIMUM and sum(min(width, limit) for width in natural[1:]) > available - first:
        limit -= 1
    others = [min(width, limit) for width in natural[1:]]
    return [max(min(natural[0], available - sum(others)), first), *others]


def format_seconds(seconds: float) -> str:
    """Return a time in milliseconds.

    Args:
        seconds: The time.
    """
    return f"{seconds * 1000:.2f} ms"
