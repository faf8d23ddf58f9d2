"""A Program: a flat list of instructions over numbered slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.ir.model import Layer
from irrun.ops._support.context import BackEdgeDescription, InputDescription, OutputDescription
from irrun.ops._support.operation import Operation

__all__ = ["ABSENT", "BodyProgram", "Instruction", "Program"]

#: The slot that always holds None: what an optional input reads that nothing is connected to.
ABSENT = 0


@dataclass(slots=True)
class Instruction:
    """One lowered layer.

    Attributes:
        kernel: called with the values of `inputs` and the `attributes`.
        attributes: keyword arguments of the kernel.
        inputs, outputs: slots; an instruction has at least one output.
        frees: slots whose values die with this instruction.
        layer: what it was lowered from.
        operation: the registered operation.
        bodies: the bodies that the kernel is handed, by the name of its parameter.
        provided: what else it is handed for each request: its variables, its state.
    """

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    layer: Layer
    operation: Operation
    attributes: dict[str, Any] = field(default_factory=dict)
    frees: tuple[int, ...] = ()
    bodies: dict[str, BodyProgram] = field(default_factory=dict)
    provided: dict[str, type] = field(default_factory=dict)


@dataclass(slots=True)
class Program:
    """What the executor runs.

    Attributes:
        instructions: in the order of execution.
        initial: the value of every slot before the first instruction: constants, else None.
        parameters: one slot per Parameter, in order.
        results: one slot per Result, in order.
        parameter_layers, result_layers: the layers that they stand for.
        constant_layers: for slots that hold constants, the layer each came from.
    """

    instructions: list[Instruction]
    initial: list[np.ndarray[Any, Any] | None]
    parameters: list[int]
    results: list[int]
    parameter_layers: list[Layer]
    result_layers: list[Layer]
    constant_layers: dict[int, Layer] = field(default_factory=dict)

    def free_after_last_use(self) -> None:
        """Let every value die with the last instruction that reads it; constants and results live on."""
        kept = {ABSENT, *self.results, *self.constant_layers}
        seen = set(kept)
        for instruction in reversed(self.instructions):
            touched = dict.fromkeys((*instruction.inputs, *instruction.outputs))
            instruction.frees = tuple(slot for slot in touched if slot not in seen)
            seen.update(touched)


@dataclass(slots=True)
class BodyProgram:
    """A lowered body and the rules that join it to its layer, in positions instead of ids."""

    program: Program
    inputs: tuple[InputDescription, ...]
    outputs: tuple[OutputDescription, ...]
    back_edges: tuple[BackEdgeDescription, ...]
    output_count: int
