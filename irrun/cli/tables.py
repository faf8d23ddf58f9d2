"""Tables that fit the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from irrun.cli.show import format_columns

__all__ = ["format_seconds", "print_table"]


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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from irrun.errors import escape_unprintable

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, title in enumerate(header):
        table.add_column(
            title,
            justify="right" if title in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=12 if i == 0 else None,
        )
    for row in rows:
        table.add_row(
            *(
                Text(_shorten_middle(escape_unprintable(cell)) if i == 0 else escape_unprintable(cell))
                for i, cell in enumerate(row)
            )
        )
    Console().print(table)


def _shorten_middle(text: str, length: int = 60) -> str:
    """Return a text without its middle, since the ends of a key are the most distinctive."""
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def format_seconds(seconds: float) -> str:
    """Return a time in milliseconds.

    Args:
        seconds: The time.
    """
    return f"{seconds * 1000:.2f} ms"
