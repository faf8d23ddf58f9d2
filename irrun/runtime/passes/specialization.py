"""Specialization: plain kernels are replaced by faster kernels for one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import DEFAULT_PACKED_BYTES, CallSite, get_summary, specialize
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import ABSENT, Instruction, Program, Refusal

__all__ = ["describe_kernel", "make_site", "run", "specialize_instructions"]


def run(program: Program, resources: Resources) -> None:
    """Choose the kernels of a program and of its bodies; see `specialize_instructions`."""
    specialize_instructions(program, resources.packed)


def specialize_instructions(program: Program, packed: PackedMemory | None = None) -> None:
    """Replace the kernels of a program and of its bodies by specialized kernels where they exist.

    Args:
        program: Changed in place. Instructions that are replaced keep the original as `plain`.
        packed: What prepared weights may take.
    """
    packed = packed or PackedMemory(DEFAULT_PACKED_BYTES)
    for current in program.walk_programs():
        current.instructions = [_specialize_instruction(current, i, packed) for i in current.instructions]


def make_site(program: Program, instruction: Instruction, packed: PackedMemory) -> CallSite:
    """Return what is known about an instruction."""
    constants = tuple(program.initial[s] if s in program.constant_layers else None for s in instruction.inputs)
    is_absent = tuple(s == ABSENT for s in instruction.inputs)
    return CallSite(
        instruction.operation,
        instruction.attributes,
        constants,
        is_absent,
        len(instruction.outputs),
        packed,
        not program.unaligned.isdisjoint(instruction.inputs),
    )


def describe_kernel(kernel: Callable[..., Any], instruction: Instruction) -> str:
    """Return which implementation a specialized kernel is.

    Args:
        kernel: The specialized kernel.
        instruction: The instruction that it computes.
    """
    describe = getattr(kernel, "describe", None)
    if describe is None:
        return get_summary(instruction.operation)
    port = instruction.layer.inputs[0] if instruction.layer.inputs else None
    shape = None
    if port is not None and port.shape is not None and port.shape.is_static:
        shape = port.shape.get_min_shape()
    return str(describe(shape))


def _specialize_instruction(program: Program, instruction: Instruction, packed: PackedMemory) -> Instruction:
    if instruction.bodies or instruction.provided or instruction.plain:
        return instruction
    site = make_site(program, instruction, packed)
    try:
        kernel = specialize(site)
        description = describe_kernel(kernel, instruction) if kernel is not None else ""
    except Exception as error:  # constants that the plain kernel refuses, with a message, when it runs
        program.refusals.append(Refusal(instruction.layer.name, "specialize", str(error)))
        return instruction
    if kernel is None:
        return instruction
    inputs = tuple(instruction.inputs[i] for i in site.variable_inputs)
    return Instruction(
        kernel,
        inputs,
        instruction.outputs,
        instruction.layer,
        instruction.operation,
        frees=instruction.frees,
        plain=(instruction,),
        is_observed=instruction.is_observed,
        description=description,
    )
