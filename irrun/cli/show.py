"""Formatting of tensors as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.data.json_output import FIRST_ELEMENTS, describe_tensor
from irrun.data.save import to_storable
from irrun.element_types import ElementType
from irrun.errors import escape_unprintable

__all__ = ["describe_tensor", "format_bytes", "format_columns", "format_tensors", "summarize_tensor"]

Array = np.ndarray[Any, Any]


def format_tensors(outputs: Mapping[str, Array]) -> str:
    """Return a table with one row per tensor: name, type, shape, range, first values."""
    rows = [("output", "type", "shape", "range", "first values")]
    return format_columns(rows + [(name, *summarize_tensor(value)) for name, value in outputs.items()])


def summarize_tensor(value: Array) -> tuple[str, str, str, str]:
    """Return the type, shape, range and first values of a tensor as text."""
    shape = "[" + ",".join(map(str, value.shape)) + "]"
    return str(ElementType.of(value.dtype)), shape, _format_range(value), _format_first(value)


def format_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines with aligned columns, two spaces apart."""
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def format_bytes(count: int) -> str:
    """Return a number of bytes with a decimal unit, such as "1.5 MB"."""
    size, units = float(count), ["GB", "MB", "KB", "B"]
    while round(size, 1) >= 1000 and len(units) > 1:
        size /= 1000
        units.pop()
    return f"{count} B" if units[-1] == "B" else f"{size:.1f} {units[-1]}"


def _format_range(value: Array) -> str:
    array = to_storable(value)
    if not array.size:
        return "empty"
    if array.dtype.kind == "b":
        return f"{int(array.sum())} true"
    if array.dtype.kind in "iu":
        return f"{array.min()} to {array.max()}"
    if array.dtype.kind != "f":
        return ""
    low, high = array.min(), array.max()
    if np.isfinite([low, high]).all():
        return f"{low:.6g} to {high:.6g}"
    finite = array[np.isfinite(array)]
    bounds = f"{finite.min():.6g} to {finite.max():.6g} " if finite.size else ""
    return f"{bounds}({array.size - finite.size} not finite)"


def _format_first(value: Array) -> str:
    array = to_storable(value).reshape(-1)[:FIRST_ELEMENTS]
    elements = [f"{v:.6g}" if array.dtype.kind == "f" else repr(v.item()) for v in array]
    return " ".join(elements) + (" ..." if value.size > FIRST_ELEMENTS else "")
