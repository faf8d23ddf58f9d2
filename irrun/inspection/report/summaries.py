"""Summaries of values for the page: statistics, histogram and first values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import escape_unprintable
from irrun.inspection.metrics import describe_values, widen

__all__ = ["MAX_TEXT", "make_histogram", "shorten", "summarize"]

Array = np.ndarray[Any, Any]

#: Number of bins of a histogram.
BINS = 32
#: Maximum number of elements in a histogram; larger values are sampled evenly.
MAX_SAMPLES = 1 << 16
#: Number of first values.
FIRST_VALUES = 24
#: Maximum number of characters of a name or an attribute.
MAX_TEXT = 400


def summarize(value: Array) -> dict[str, Any]:
    """Return the type, shape, statistics, histogram and first values of a value, for JSON.

    Args:
        value: An array of any element type.
    """
    statistics = describe_values(value)
    summary: dict[str, Any] = {
        "type": str(ElementType.of(value.dtype)),
        "shape": list(value.shape),
        "bytes": int(value.nbytes),
        "stats": describe_statistics(statistics),
        "first": [_to_json(element) for element in _take_first(value)],
    }
    if statistics.get("min") is not None:
        histogram = make_histogram(value, float(statistics["min"] or 0), float(statistics["max"] or 0))
        if histogram is not None:
            summary["histogram"] = histogram
    return summary


def describe_statistics(statistics: Any) -> list[float | int | None] | None:
    """Return statistics in the order of the page: minimum, maximum, mean, deviation, zeros, NaNs, infinities.

    Args:
        statistics: The result of `describe_values`.
    """
    if not statistics:
        return None
    numbers = [statistics.get(name) for name in ("min", "max", "mean", "std")]
    counts = [statistics.get(name) for name in ("zeros", "nans", "infinities")]
    return [*(None if number is None else _round(number) for number in numbers), *counts]


def make_histogram(value: Array, low: float, high: float) -> dict[str, Any] | None:
    """Return a histogram of the finite elements of a value.

    Args:
        value: An array of numbers or booleans.
        low: The smallest finite element.
        high: The largest finite element.

    Returns:
        The bounds, the counts, and whether they come from a sample. Each integer of a small range has its own bin.
        None if all elements are equal or the range overflows f64.
    """
    span = high - low
    if not value.size or not 0 < span < math.inf:
        return None
    bins, width = BINS, span / BINS
    if _is_integral(value) and span < BINS:
        bins, width = int(span) + 1, 1.0
    # An odd step avoids hitting the same column of a matrix each time.
    step = -(-value.size // MAX_SAMPLES) | 1 if value.size > MAX_SAMPLES else 1
    sample = widen(value.reshape(-1)[::step])
    with np.errstate(all="ignore"):
        sample = sample[np.isfinite(sample)]
        positions = ((sample - low) / width).astype(np.int64)
    counts = np.bincount(np.clip(positions, 0, bins - 1), minlength=bins)
    upper = high if bins == BINS else low + bins
    return {"low": _round(low), "high": _round(upper), "counts": counts.tolist(), "sampled": step > 1}


def shorten(text: str, length: int = MAX_TEXT) -> str:
    """Return a printable text, shortened in the middle if it is too long.

    Args:
        text: The text, from an untrusted file.
        length: Maximum number of characters.
    """
    if len(text) > length:
        text = f"{text[: length - length // 3 - 1]}…{text[-(length // 3) :]}"
    return escape_unprintable(text)


def _is_integral(value: Array) -> bool:
    return bool(value.dtype.fields) or value.dtype.kind in "biu" or ElementType.of(value.dtype).is_integer


def _take_first(value: Array) -> list[Any]:
    first = value.reshape(-1)[:FIRST_VALUES]
    if first.dtype.fields:
        first = first.view(np.uint8)
    if first.dtype.kind in "OUST":
        return [str(element) for element in first]
    elements: list[Any] = (first if first.dtype.kind in "biu" else first.astype(np.float64)).tolist()
    return elements


def _to_json(element: Any) -> Any:
    """Return an element for JSON, which has no infinities and, in browsers, no large integers."""
    if isinstance(element, str):
        return shorten(element, 60)
    if isinstance(element, float):
        return _round(element) if math.isfinite(element) else str(element)
    return str(element) if isinstance(element, int) and abs(element) > 2**53 else element


def _round(number: float) -> float:
    return float(f"{number:.6g}")
