"""Loop-invariant code motion: instructions that do not depend on the iteration run once per loop."""

from __future__ import annotations

from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import ABSENT, BodyProgram, Instruction, Program

__all__ = ["divide_body", "run"]


def run(program: Program, resources: Resources) -> None:
    """Move the loop-invariant instructions of bodies to their beginning and count them.

    Args:
        program: Changed in place: `invariant_count` of its bodies' programs is set.
        resources: Not used.
    """
    for _, instruction in program.walk():
        if "body" in instruction.bodies:  # of TensorIterator and Loop; the bodies of If run once
            _hoist_in_body(instruction.bodies["body"])


def divide_body(body: BodyProgram) -> tuple[list[Instruction], list[Instruction]]:
    """Return the instructions of the body of a loop that do not depend on the iteration, and all others."""
    program = body.program
    variant = {edge.parameter for edge in body.back_edges}
    variant.update(entry.parameter for entry in body.inputs if entry.axis is not None or entry.purpose)
    invariant_slots = {ABSENT, *program.constant_layers}
    invariant_slots.update(slot for i, slot in enumerate(program.parameters) if i not in variant)
    first: list[Instruction] = []
    rest: list[Instruction] = []
    for instruction in program.instructions:
        is_invariant = instruction.is_pure and invariant_slots.issuperset(instruction.inputs)
        if is_invariant:
            invariant_slots.update(instruction.outputs)
        (first if is_invariant else rest).append(instruction)
    return first, rest


def _hoist_in_body(body: BodyProgram) -> None:
    program = body.program
    first, rest = divide_body(body)
    program.instructions = [*first, *rest]
    program.invariant_count = len(first)
    program.free_after_last_use()
