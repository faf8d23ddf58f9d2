"""Removal of operations that have no effect before a FakeQuantize, which limits its input itself."""

from __future__ import annotations

import math
from collections import defaultdict

from irrun.runtime.program import Instruction, Program

__all__ = ["remove_limits_before_quantization"]


def remove_limits_before_quantization(program: Program) -> None:
    """Remove Clamp and Relu whose result is only quantized, if they change nothing within the input range.

    Args:
        program: Changed in place, without its bodies.
    """
    consumers: dict[int, list[Instruction]] = defaultdict(list)
    for instruction in program.instructions:
        for slot in instruction.inputs:
            consumers[slot].append(instruction)
    sources: dict[int, int] = {}
    for instruction in program.instructions:
        limits = _get_limits(instruction)
        if limits is None or instruction.outputs[0] in program.results:
            continue
        readers = consumers[instruction.outputs[0]]
        if readers and all(_is_quantized_within(program, reader, instruction.outputs[0], limits) for reader in readers):
            sources[instruction.outputs[0]] = sources.get(instruction.inputs[0], instruction.inputs[0])
    program.instructions = [i for i in program.instructions if i.outputs[0] not in sources]
    for instruction in program.instructions:
        instruction.inputs = tuple(sources.get(slot, slot) for slot in instruction.inputs)
    program.free_after_last_use()


def _get_limits(instruction: Instruction) -> tuple[float, float] | None:
    """Return the range that an operation limits its input to, or None for other operations."""
    name = str(instruction.operation)
    if name == "Relu-1":
        return 0.0, math.inf
    if name == "Clamp-1":
        return float(instruction.attributes["min"]), float(instruction.attributes["max"])
    return None


def _is_quantized_within(program: Program, reader: Instruction, slot: int, limits: tuple[float, float]) -> bool:
    """Return whether an instruction quantizes a value to a range within limits."""
    if str(reader.operation) != "FakeQuantize-1" or reader.inputs.index(slot) or slot in reader.inputs[3:]:
        return False
    low, high = (program.initial[s] if s in program.constant_layers else None for s in reader.inputs[1:3])
    if low is None or high is None or low.shape != high.shape:
        return False
    # Limits of Clamp are rounded to the type of the data, so that equal limits stay equal.
    least, greatest = low.dtype.type(limits[0]), low.dtype.type(limits[1])
    return bool((low < high).all() and (low >= least).all() and (high <= greatest).all())
