"""How values are shown: for people as a table, for programs as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.data.save import to_storable
from irrun.element_types import ElementType
from irrun.errors import escape_unprintable

__all__ = ["columns", "describe", "human_bytes", "summary", "table"]

Array = np.ndarray[Any, Any]

#: Outputs of up to this many elements are printed in full as JSON.
FULL = 1000
FIRST = 6


def table(outputs: Mapping[str, Array]) -> str:
    """One row per output: name, type, shape, range, first values."""
    rows = [("output", "type", "shape", "range", "first values")]
    return columns(rows + [(name, *summary(value)) for name, value in outputs.items()])


def summary(value: Array) -> tuple[str, str, str, str]:
    """Type, shape, range and first values."""
    shape = "[" + ",".join(map(str, value.shape)) + "]"
    return str(ElementType.of(value.dtype)), shape, _range(value), _first(value)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of equal width, two spaces apart."""
    rows = [[escape_unprintable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def describe(name: str, value: Array) -> dict[str, Any]:
    """What JSON tells of one output; `values` only where it is small."""
    plain = to_storable(value)
    found: dict[str, Any] = {
        "name": name,
        "type": str(ElementType.of(value.dtype)),
        "shape": list(value.shape),
    }
    if plain.dtype.kind in "iuf" and plain.size:
        with np.errstate(all="ignore"):  # infinities have no mean
            found.update(min=_json(plain.min()), max=_json(plain.max()), mean=_json(plain.mean(dtype=np.float64)))
    found["first"] = [_json(v) for v in plain.reshape(-1)[:FIRST]]
    if math.prod(max(n, 1) for n in plain.shape) <= FULL:  # [1000000,0] is empty too, but long
        found["values"] = _nested(plain.tolist())
    return found


def human_bytes(count: int) -> str:
    """A size as people read it."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def _range(value: Array) -> str:
    plain = to_storable(value)
    if not plain.size:
        return "empty"
    if plain.dtype.kind in "iu":
        return f"{plain.min()} to {plain.max()}"
    if plain.dtype.kind == "f":
        low, high, odd = plain.min(), plain.max(), 0
        if not np.isfinite([low, high]).all():
            finite = plain[np.isfinite(plain)]
            odd = plain.size - finite.size
            low, high = (finite.min(), finite.max()) if finite.size else (None, None)
        told = "" if low is None else f"{low:.6g} to {high:.6g}"
        return told + (f" ({odd} not finite)" if odd else "")
    return f"{int(plain.sum())} true" if plain.dtype.kind == "b" else ""


def _first(value: Array) -> str:
    plain = to_storable(value).reshape(-1)[:FIRST]
    shown = [f"{v:.6g}" if plain.dtype.kind == "f" else repr(v.item()) for v in plain]
    return " ".join(shown) + (" ..." if value.size > FIRST else "")


def _json(value: Any) -> Any:
    value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _nested(value: Any) -> Any:
    if isinstance(value, list):
        return [_nested(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
