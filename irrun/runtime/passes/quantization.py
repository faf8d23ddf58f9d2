"""Removal of operations that have no effect before a FakeQuantize, which limits its input itself."""

from __future__ import annotations

import math
from dataclasses import replace

from irrun.runtime.passes.engine import Changes, Match, Pattern, Rule, View
from irrun.runtime.program import Instruction

__all__ = ["RULES"]

LIMIT = Pattern("limit", ("Clamp", "Relu"))


def _check(view: View, match: Match) -> str:
    slot = match["limit"].outputs[0]
    readers = view.consumers[slot]
    if view.is_result(slot) or not readers:
        return "the limited value is a result"
    if all(_is_quantized_within(view, reader, slot, _get_limits(match["limit"])) for reader in readers):
        return ""
    return "a consumer does not quantize the value to a range within the limits"


def _build(view: View, match: Match) -> Changes:
    limit = match["limit"]
    yield limit, ()
    for reader in view.consumers[limit.outputs[0]]:
        inputs = tuple(limit.inputs[0] if slot == limit.outputs[0] else slot for slot in reader.inputs)
        yield reader, (replace(reader, inputs=inputs),)


def _get_limits(instruction: Instruction) -> tuple[float, float]:
    """Return the range that an operation limits its input to."""
    attributes = instruction.attributes
    return (float(attributes["min"]), float(attributes["max"])) if "min" in attributes else (0.0, math.inf)


def _is_quantized_within(view: View, reader: Instruction, slot: int, limits: tuple[float, float]) -> bool:
    """Return whether an instruction quantizes a value to a range within limits."""
    if not reader.operation.has_levels or reader.inputs[0] != slot or reader.inputs.count(slot) > 1:
        return False
    low, high = (view.get_constant(s) for s in reader.inputs[1:3])
    if low is None or high is None or low.shape != high.shape:
        return False
    # Limits of Clamp are rounded to the type of the data, so that equal limits stay equal.
    least, greatest = low.dtype.type(limits[0]), low.dtype.type(limits[1])
    return bool((low < high).all() and (low >= least).all() and (high <= greatest).all())


RULES = (Rule("remove limits before a quantization that limits itself", LIMIT, _build, _check),)
