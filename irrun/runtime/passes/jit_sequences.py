"""Sequences: neighboring instructions with compiled kernels become one, which runs without the interpreter.

The program keeps its instructions, which profiles measure one by one. Requests without instruments run the sequences.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.fast.jit.sequences import Computation, Concatenation, Member, SequenceKernel, Views
from irrun.ir.graph import Port
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["join_instructions"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Operations whose outputs are views of their first input.
VIEWS = frozenset(("Reshape", "Split", "Squeeze", "Unsqueeze", "VariadicSplit"))
#: Members of a sequence at most. In between, runs check their time limits, and whether other programs use the cores.
MAX_MEMBERS = 40


def join_instructions(program: Program) -> None:
    """Set the sequences of a program, if it has neighboring instructions with compiled kernels."""
    ports = _map_ports(program)
    last_uses = {slot: len(program.instructions) for slot in program.results}
    for number, instruction in enumerate(program.instructions):
        for slot in instruction.inputs:
            last_uses[slot] = max(number, last_uses.get(slot, 0))
    joined: list[Instruction] = []
    pending: list[Instruction] = []
    members: list[Member] = []

    def flush(stop: int) -> None:
        """Append the pending instructions, which end before number `stop`."""
        if sum(not isinstance(member, Views) for member in members) < 2:
            joined.extend(pending)
        else:
            joined.append(_join(pending, members, lambda slot: last_uses.get(slot, -1) >= stop))
        pending.clear()
        members.clear()

    for number, instruction in enumerate(program.instructions):
        member = _make_member(program, instruction, ports)
        if member is None or len(pending) == MAX_MEMBERS:
            flush(number)
        if member is None:
            joined.append(instruction)
        else:
            pending.append(instruction)
            members.append(member)
    flush(len(program.instructions))
    if len(joined) < len(program.instructions):
        program.sequences = joined
        replace(program, instructions=joined).free_after_last_use()


def _join(
    instructions: Sequence[Instruction], members: Sequence[Member], is_used_later: Callable[[int], bool]
) -> Instruction:
    """Return the instruction that computes others."""
    computed = {slot for instruction in instructions for slot in instruction.outputs}
    inputs = tuple(dict.fromkeys(slot for x in members for slot in _list_inputs(x) if slot not in computed))
    outputs = [slot for i in instructions for slot in i.outputs if is_used_later(slot)]
    kernel = SequenceKernel(tuple(members), inputs, tuple(outputs))
    return replace(
        instructions[-1],
        kernel=kernel,
        inputs=inputs,
        outputs=tuple(outputs),
        attributes={},
        plain=tuple(instructions),
        description=kernel.description,
    )


def _list_inputs(member: Member) -> tuple[int, ...]:
    return (member.input,) if isinstance(member, Views) else member.inputs


def _make_member(program: Program, instruction: Instruction, ports: Mapping[int, Port]) -> Member | None:
    """Return an instruction as a member of a sequence, or None if it cannot be one."""
    if instruction.bodies or instruction.provided or ABSENT in instruction.inputs:
        return None
    if not all(_is_f32(program, ports.get(slot)) for slot in instruction.outputs):
        return None
    bind = getattr(instruction.kernel, "bind", None)
    if bind is not None:
        return Computation(instruction.inputs, instruction.outputs[0], bind)
    definition = instruction.definitions[0]
    if len(instruction.definitions) != 1:
        return None
    if definition.operation.type == "Concat" and len(definition.inputs) > 1:
        return Concatenation(definition.inputs, definition.outputs[0], int(definition.attributes["axis"]))
    constants = [program.initial[slot] for slot in instruction.inputs[1:]]
    if definition.operation.type in VIEWS and all(value is not None for value in constants):
        view = functools.partial(_call, instruction.kernel, constants, instruction.attributes)
        if _are_contiguous(view, ports.get(instruction.inputs[0])):
            return Views(instruction.inputs[0], instruction.outputs, view)
    return None


def _call(kernel: Callable[..., Any], constants: Sequence[Any], attributes: dict[str, Any], data: Array) -> Any:
    return kernel(data, *constants, **attributes)


def _map_ports(program: Program) -> dict[int, Port]:
    """Return the ports of the parameters and of the outputs of all instructions by their slots."""
    ports: dict[int, Port] = {}
    for layer, slot in zip(program.parameter_layers, program.parameters, strict=False):
        ports.update(zip((slot,), layer.outputs, strict=False))
    for instruction in program.instructions:
        ports.update(zip(instruction.outputs, instruction.layer.outputs, strict=False))
    return ports


def _is_f32(program: Program, port: Port | None) -> bool:
    """Return whether a value is declared and computed in f32."""
    if port is None or port.element_type is None:
        return False
    declared = port.element_type.dtype
    return bool(program.computed_types.get(declared, declared) == F32)


def _are_contiguous(view: Callable[[Array], Any], port: Port | None) -> bool:
    """Return whether the views of a value are contiguous, as far as its declared shape is known."""
    shape = None if port is None else port.shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        return True
    views = view(np.empty(tuple(shape), F32))
    return all(x.flags.c_contiguous for x in (views if isinstance(views, (tuple, list)) else (views,)))
