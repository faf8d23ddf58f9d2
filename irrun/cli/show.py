"""Formatting of tensors as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from irrun.cli.tables import ValueList, print_table
from irrun.data.json_output import FIRST_ELEMENTS, describe_tensor
from irrun.data.storable import to_storable
from irrun.element_types import ElementType
from irrun.formatting import format_number

__all__ = ["describe_tensor", "format_bytes", "print_tensors", "summarize_tensor"]

Array = np.ndarray[Any, Any]


def print_tensors(outputs: Mapping[str, Array]) -> None:
    """Print a table with one row per tensor: name, type, shape, range, first values."""
    rows = [(name, *summarize_tensor(value)) for name, value in outputs.items()]
    print_table(("output", "type", "shape", "range", "first values"), rows)


def summarize_tensor(value: Array) -> tuple[str, str, str, ValueList]:
    """Return the type, shape, range and first values of a tensor as text."""
    shape = "[" + ",".join(map(str, value.shape)) + "]"
    return str(ElementType.of(value.dtype)), shape, _format_range(value), _list_first(value)


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
        return f"{format_number(low)} to {format_number(high)}"
    finite = array[np.isfinite(array)]
    bounds = f"{format_number(finite.min())} to {format_number(finite.max())} " if finite.size else ""
    return f"{bounds}({array.size - finite.size} not finite)"


def _list_first(value: Array) -> ValueList:
    array = to_storable(value).reshape(-1)[:FIRST_ELEMENTS]
    elements = [format_number(v) if array.dtype.kind == "f" else repr(v.item()) for v in array]
    return ValueList(elements, value.size <= FIRST_ELEMENTS)
