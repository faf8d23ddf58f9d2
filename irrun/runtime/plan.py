"""The plan of a compiled model: for each instruction, its layers and the chosen implementation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from irrun.runtime.program import Instruction, Program

__all__ = ["PlanEntry", "list_plan"]


@dataclass(frozen=True)
class PlanEntry:
    """An instruction of the program that runs without observers.

    Attributes:
        layers: The names of the layers that it computes.
        operations: The types of their operations.
        implementation: The chosen implementation, and why it was chosen, or "plain".
        depth: The number of bodies that contain it.
        refused: Rewrites that do not apply to its layers, each with the reason.
    """

    layers: tuple[str, ...]
    operations: tuple[str, ...]
    implementation: str
    depth: int
    refused: tuple[str, ...] = ()


def list_plan(program: Program) -> Iterator[PlanEntry]:
    """Yield the entries of a program and of its bodies, in order of execution.

    Args:
        program: The optimized program.
    """
    reasons: dict[tuple[Program, str], dict[str, None]] = {}
    for current in program.walk_programs():
        for refusal in current.refusals:
            reasons.setdefault((current, refusal.layer), {})[f"{refusal.rule}: {refusal.reason}"] = None
    for current, depth, instruction in program.traverse():
        if instruction is not None:
            operations = tuple(definition.operation.type for definition in instruction.definitions)
            refused = tuple(reason for name in instruction.layers for reason in reasons.get((current, name), ()))
            implementation = "compiled: a part of the loop" if current.is_replaced else _describe(instruction)
            yield PlanEntry(instruction.layers, operations, implementation, depth, refused)


def _describe(instruction: Instruction) -> str:
    """Return the description of an instruction, or else the summary of its kernel."""
    if instruction.description:
        return instruction.description
    if not instruction.plain:
        return "plain"
    return _get_summary(instruction.kernel) or "specialized"


def _get_summary(kernel: Callable[..., Any]) -> str:
    """Return the first line of the docstring of a function or of the class of an object, as a phrase."""
    while isinstance(kernel, functools.partial):
        kernel = kernel.func
    owner = kernel if inspect.isroutine(kernel) else type(kernel)
    first = (inspect.getdoc(owner) or "").partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:]
