"""HTML for notebooks: compact tables without scripts, with all text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from irrun.errors import escape_unprintable
from irrun.formatting import format_number

if TYPE_CHECKING:
    import numpy as np

__all__ = ["describe_array", "make_frame", "make_table", "shorten"]

#: Characters of a text that a table shows.
MAX_TEXT = 100
#: Elements of an array that a table shows.
FIRST_ELEMENTS = 4


def make_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = (), notes: str = ""
) -> str:
    """Return a table as HTML.

    Args:
        title: The text above the table.
        header: The titles of the columns.
        rows: The cells. Long texts are shortened; their title attribute contains more of them.
        right: The titles of the columns that are aligned to the right.
        notes: A text below the table.
    """
    styles = ["text-align:right;white-space:nowrap" if name in right else "text-align:left" for name in header]
    head = "".join(f'<th style="{style}">{escape(name)}</th>' for name, style in zip(header, styles, strict=True))
    lines = []
    for row in rows:
        cells = (_make_cell(str(cell), style) for cell, style in zip(row, styles, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    table = f"<table>{head}<tbody>{''.join(lines)}</tbody></table>" if lines else ""
    footer = f"<div>{escape(notes)}</div>" if notes else ""
    return f'<div style="overflow-x:auto"><div><b>{escape(title)}</b></div>{table}{footer}</div>'


def make_frame(page: str, height: int) -> str:
    """Return a frame that shows a page, isolated from the document that contains it.

    Args:
        page: The page as HTML. Its scripts run without access to the document.
        height: The height in pixels.
    """
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{int(height)}px;border:1px solid #8888"></iframe>'
    )


def escape(text: str) -> str:
    """Return a text with all special and unprintable characters escaped.

    Args:
        text: The text.
    """
    return html.escape(escape_unprintable(text))


def shorten(text: str, length: int = MAX_TEXT) -> str:
    """Return a text without its middle, since the ends of a key are the most distinctive.

    Args:
        text: The text.
        length: Maximum number of characters.
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def describe_array(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Return the range and the first elements of an array as text.

    Args:
        array: The array, of any element type.
    """
    import numpy as np

    if not array.size:
        return "empty", ""
    first = array.reshape(-1)[:FIRST_ELEMENTS]
    if array.dtype.kind in "biuf" or (array.dtype.names is None and array.dtype.kind == "V"):
        kind = np.int64 if array.dtype.kind in "bi" else np.uint64 if array.dtype.kind == "u" else np.float64
        shown = " ".join(map(format_number, first.astype(kind).tolist()))
        with np.errstate(all="ignore"):
            bounds = " to ".join(format_number(np.asarray(x).astype(kind).item()) for x in (array.min(), array.max()))
    else:
        shown, bounds = " ".join(map(str, first.tolist())), ""
    return bounds, shorten(shown + (" …" if array.size > FIRST_ELEMENTS else ""))


def _make_cell(text: str, style: str) -> str:
    title = f' title="{escape(shorten(text, 4 * MAX_TEXT))}"' if len(text) > MAX_TEXT else ""
    return f'<td style="{style}"{title}>{escape(shorten(text))}</td>'
