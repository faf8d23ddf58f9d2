"""The expressions of FakeQuantize: the definition, and an expression with fewer passes for NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.expressions.functions import uses_numpy_broadcasting
from irrun.fast.expressions.machine import Machine, Value
from irrun.fast.expressions.table import Call, Site, elementwise
from irrun.shapes import get_broadcast_shape

__all__: list[str] = []

Array = np.ndarray[Any, Any]


@elementwise(name="NearestLevel", is_cheap=True)
def nearest_level(m: Machine, x: Value) -> Value:
    """Round the number of a level, ties to even. All expressions and epilogues of FakeQuantize round with it."""
    return m.rint(x)


def _get_limits(site: Site) -> tuple[list[Array], float] | None:
    """Return the limits and the last level if the general rule applies, else None.

    All limits are finite constants, and no input range is empty.
    """
    limits = [value for position in range(1, 5) if (value := site.get_array(position)) is not None]
    levels = int(site.attributes["levels"])
    if len(limits) < 4 or levels < 2 or not uses_numpy_broadcasting(site):
        return None
    try:
        get_broadcast_shape(*(limit.shape for limit in limits))
    except ValueError:
        return None
    with np.errstate(all="ignore"):
        width, out_width = limits[1] - limits[0], limits[3] - limits[2]
    is_general = (width > 0).all() and np.isfinite(width).all() and np.isfinite(out_width).all()
    return (limits, float(levels - 1)) if is_general else None


def _bind_definition(site: Site) -> Call | None:
    known = _get_limits(site)
    if known is None:
        return None
    (in_low, in_high, out_low, out_high), last_level = known
    # Limits of different layouts would broadcast to a table.
    if math.prod(get_broadcast_shape(*(x.shape for x in known[0]))) > max(x.size for x in known[0]):
        return None
    width, out_width = np.asarray(in_high - in_low), np.asarray(out_high - out_low)
    with np.errstate(all="ignore"):
        correction = np.asarray(out_high - (out_width + out_low))
    operands = (0, in_low, in_high, width, out_width, out_low)
    return Call(site.name, (*operands, correction) if correction.any() else operands, (last_level,))


@elementwise("FakeQuantize-1", bind=_bind_definition, machine="Vectors")
def fake_quantize(
    m: Machine,
    x: Value,
    low: Value,
    high: Value,
    width: Value,
    out_width: Value,
    out_low: Value,
    *correction: Value,
    last_level: float,
) -> Value:
    """Quantize with the operations of the definition, each of which rounds.

    `correction` is added to values above the input range.
    """
    level = nearest_level(m, (m.clip(x, low, high) - low) / width * last_level)
    result = level / last_level * out_width + out_low
    return m.select_greater(x, high, result + correction[0], result) if correction else result


def _bind_steps(site: Site) -> Call | None:
    known = _get_limits(site)
    if known is None or site.rank is None or max(limit.ndim for limit in known[0]) > site.rank:
        return None
    (in_low, in_high, out_low, out_high), last_level = known
    with np.errstate(all="ignore"):
        step = np.asarray((out_high - out_low) / np.float32(last_level))
        zero = np.asarray(np.rint(-out_low / np.where(step == 0, np.float32(1), step)))
        error = np.abs(zero * step + out_low)
        # Counting from a zero level, as in symmetric ranges, keeps zero exact.
        counts_from_zero = bool((error <= 4 * np.finfo(np.float32).eps * np.abs(out_low)).all())
    values = (in_low, np.asarray(in_high - in_low), step, zero if counts_from_zero else out_low)
    operands = (value.reshape(()) if value.size == 1 else value for value in values)
    parameters = (last_level, bool(in_low.any()), bool(out_low.any()), counts_from_zero)
    return Call(site.name, (0, *operands), parameters)


@elementwise("FakeQuantize-1", bind=_bind_steps, machine="Arrays", name="FakeQuantizeBySteps")
def fake_quantize_by_steps(
    m: Machine,
    x: Value,
    in_low: Value,
    in_range: Value,
    step: Value,
    offset: Value,
    *,
    last_level: float,
    is_shifted: bool,
    is_offset: bool,
    counts_from_zero: bool,
) -> Value:
    """Multiply the levels of the definition by their distance.

    Levels are computed with the operations of the definition, so they are the same; only the product with the
    width of a level is computed in one step. `offset` is the number of levels below zero, or the lowest output.
    """
    shifted = x - in_low if is_shifted else x
    level = m.clip(nearest_level(m, shifted / in_range * last_level), 0.0, last_level)
    if not is_offset:
        return level * step
    return (level - offset) * step if counts_from_zero else level * step + offset


@elementwise(name="Level", is_cheap=True)
def level(m: Machine, x: Value, *, last_level: float) -> Value:
    """Limit a value to the levels from 0; NaN becomes 0. Kernels for codes round the result."""
    return m.minimum_number(m.maximum_number(x, 0.0), last_level)


@elementwise(name="RoundedLevel")
def rounded_level(m: Machine, x: Value, *, first: float, last: float) -> Value:
    """Round a value in units of the distance of two levels, and limit it to the levels; NaN remains NaN."""
    return m.clip(nearest_level(m, x), first, last)
