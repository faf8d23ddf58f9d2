"""Decompression of weights in f32: integers, zero points and scales in f16 give f32 without rounding on the way.

Files say: Convert codes to f16 (or pick them from a codebook in f16), Subtract the zero point, Multiply by the
scale, Reshape, Convert to f32. OpenVINO does not round to f16 in between, neither where it folds constants nor where
it multiplies by compressed weights. A network of many layers shows the difference: rounding there costs a
thousandth of its outputs. What takes 16 bits or more before the first Convert, such as scales with scales of their
own, is rounded to f16 there all the same.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.conversion import convert
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["upcast_decompression"]

Array = np.ndarray[Any, Any]

F32 = ELEMENT_TYPES["f32"]
#: What decompression is made of besides Convert, and how many of the first inputs give the values.
VALUES = {
    **dict.fromkeys(("Add", "Concat", "Divide", "Multiply", "Subtract"), None),
    **dict.fromkeys(
        ("Broadcast", "Gather", "Reshape", "Slice", "Squeeze", "StridedSlice", "Transpose", "Unsqueeze"), 1
    ),
}


def upcast_decompression(program: Program) -> int:
    """Make every such chain compute in f32, in bodies too; what else computes in f16 is left alone.

    Args:
        program: changed in place.

    Returns:
        How many chains were found; those that share a value count as one.
    """
    found = sum(upcast_decompression(b.program) for i in program.instructions for b in i.bodies.values())
    return found + _Widening(program).run()


class _Widening:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in program.instructions:
            for slot in dict.fromkeys(instruction.inputs):
                self.readers[slot].append(instruction)
        self.narrow = self.found()

    def found(self) -> dict[int, Instruction]:
        """What makes f16 from constants, by the slot that it makes."""
        narrow: dict[int, Instruction] = {}
        constant = set(self.program.constant_layers)
        for instruction in self.program.instructions:
            if (
                instruction.operation.folding != "never"
                and not (instruction.bodies or instruction.provided)
                and constant.issuperset(s for s in instruction.inputs if s != ABSENT)
            ):
                constant.update(instruction.outputs)
            if instruction.operation.type == "Convert":
                is_narrow = _converts_to(instruction, np.float16) and instruction.inputs[0] in constant
            else:
                slots = _values(instruction)
                is_narrow = bool(slots) and all(s in narrow or self.is_stored_narrow(s) for s in slots)
            if is_narrow:
                narrow[instruction.outputs[0]] = instruction
        return narrow

    def is_stored_narrow(self, slot: int) -> bool:
        value = self.program.initial[slot]
        return value is not None and value.dtype == np.float16

    def run(self) -> int:
        chains = [chain for chain in self.chains() if self.is_decompression(chain)]
        for slot in (slot for chain in chains for slot in chain):
            self.widen(self.narrow[slot])
        return len(chains)

    def chains(self) -> list[set[int]]:
        """The slots of `narrow`, those together of which one is made from another."""
        linked: dict[int, list[int]] = {slot: [] for slot in self.narrow}
        for slot, instruction in self.narrow.items():
            for source in _values(instruction):
                if source in linked:
                    linked[slot].append(source)
                    linked[source].append(slot)
        chains = []
        left = set(linked)
        while left:
            chain: set[int] = set()
            stack = [left.pop()]
            while stack:
                slot = stack.pop()
                chain.add(slot)
                stack.extend(left.intersection(linked[slot]))
                left.difference_update(linked[slot])
            chains.append(chain)
        return chains

    def is_decompression(self, chain: set[int]) -> bool:
        """Whether it multiplies, and nothing reads of it in f16."""
        if not any(self.narrow[slot].operation.type == "Multiply" for slot in chain):
            return False
        if not chain.isdisjoint(self.program.results):
            return False
        readers = [reader for slot in chain for reader in self.readers[slot]]
        return all(_converts_to(r, np.float32) or self.narrow.get(r.outputs[0]) is r for r in readers)

    def widen(self, instruction: Instruction) -> None:
        # Folding asks the ports how large values will be, and checks how they are declared.
        outputs = [replace(port, element_type=F32) for port in instruction.layer.outputs]
        instruction.layer = replace(instruction.layer, outputs=outputs)
        if instruction.operation.type == "Convert":
            declared = functools.partial(instruction.kernel, **instruction.attributes)
            instruction.kernel = _converted
            instruction.attributes = {"destination_type": F32, "declared": declared}
            return
        slots = _values(instruction)
        instruction.inputs = (*map(self.wide, slots), *instruction.inputs[len(slots) :])

    def wide(self, slot: int) -> int:
        """The slot, or a new one with the constant in f32."""
        value = self.program.initial[slot]
        if value is None:
            return slot
        wide = value.astype(np.float32)
        wide.flags.writeable = False
        self.program.initial.append(wide)
        self.program.constant_layers[len(self.program.initial) - 1] = self.program.constant_layers[slot]
        return len(self.program.initial) - 1


def _values(instruction: Instruction) -> tuple[int, ...]:
    """The slots of the inputs that give the values; none for operations that decompression does without."""
    operation = instruction.operation
    return instruction.inputs[: VALUES[operation.type]] if operation.type in VALUES and not operation.opset else ()


def _converted(data: Array, *, destination_type: ElementType, declared: Any) -> Array:
    """`data` in f32; what takes 16 bits or more by way of f16, which the kernel `declared` converts to."""
    return convert(declared(data) if ElementType.of(data.dtype).bits >= 16 else data, destination_type)


def _converts_to(instruction: Instruction, dtype: Any) -> bool:
    if instruction.operation.type != "Convert":
        return False
    destination = instruction.attributes.get("destination_type")
    return isinstance(destination, ElementType) and destination.dtype == dtype
