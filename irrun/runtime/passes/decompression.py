"""Decompression of weights in f32: integers, zero points and scales in f16 give f32 without rounding on the way.

Files say: Convert integers to f16, Subtract the zero point, Multiply by the scale, Reshape, Convert to f32. OpenVINO
does not round to f16 in between, neither where it folds constants nor where it multiplies by compressed weights.
A network of many layers shows the difference: rounding there costs a thousandth of its outputs.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from irrun.elements import ElementType
from irrun.runtime.program import Instruction, Program

__all__ = ["widen_decompression"]

F32 = ElementType.of(np.dtype(np.float32))


def widen_decompression(program: Program) -> int:
    """Make every such chain compute in f32, in bodies too; what else computes in f16 is left alone.

    Args:
        program: changed in place.

    Returns:
        How many chains were found.
    """
    found = sum(widen_decompression(b.program) for i in program.instructions for b in i.bodies.values())
    return found + _Widening(program).run()


class _Widening:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.makers = {slot: i for i in program.instructions for slot in i.outputs}
        self.readers: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in program.instructions:
            for slot in dict.fromkeys(instruction.inputs):
                self.readers[slot].append(instruction)

    def run(self) -> int:
        chains = [chain for i in self.program.instructions if (chain := list(self.chain(i)))]
        for chain in chains:
            for instruction in chain:
                self.widen(instruction)
        return len(chains)

    def chain(self, last: Instruction) -> Iterator[Instruction]:
        """The instructions that make what `last`, a Convert to f32, reads; none where it ends no decompression."""
        if not _converts_to(last, np.float32) or not self.alone(last.inputs[0]):
            return
        found = []
        slots = [last.inputs[0]]
        multiplied = False
        while slots:
            slot = slots.pop()
            maker = self.makers.get(slot)
            if maker is None:
                value = self.program.initial[slot]
                if value is None or value.dtype != np.float16:
                    return
                continue
            if not self.alone(slot):
                return
            kind = maker.operation.type
            if _converts_to(maker, np.float16):
                value = self.program.initial[maker.inputs[0]]
                if value is None or ElementType.of(value.dtype).is_float:
                    return
            elif kind in ("Multiply", "Subtract"):
                multiplied |= kind == "Multiply"
                slots.extend(maker.inputs)
            elif kind == "Reshape":
                slots.append(maker.inputs[0])
            else:
                return
            found.append(maker)
        if multiplied:
            yield from found

    def alone(self, slot: int) -> bool:
        return len(self.readers[slot]) == 1 and slot not in self.program.results

    def widen(self, instruction: Instruction) -> None:
        if instruction.operation.type == "Convert":
            kernel: Any = instruction.kernel
            instruction.kernel = functools.partial(kernel.func, **{**kernel.keywords, "destination_type": F32})
            return
        slots = instruction.inputs[:1] if instruction.operation.type == "Reshape" else instruction.inputs
        instruction.inputs = (*map(self.wide, slots), *instruction.inputs[len(slots) :])

    def wide(self, slot: int) -> int:
        """The slot, or a new one with the constant in f32."""
        value = self.program.initial[slot]
        if slot in self.makers or value is None:
            return slot
        wide = value.astype(np.float32)
        wide.flags.writeable = False
        self.program.initial.append(wide)
        self.program.constant_layers[len(self.program.initial) - 1] = self.program.constant_layers[slot]
        return len(self.program.initial) - 1


def _converts_to(instruction: Instruction, dtype: Any) -> bool:
    if instruction.operation.type != "Convert" or not isinstance(instruction.kernel, functools.partial):
        return False
    destination = instruction.kernel.keywords.get("destination_type")
    return isinstance(destination, ElementType) and destination.dtype == dtype
