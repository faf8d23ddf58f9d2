"""Decompression of weights in f32: integers with zero points and scales in f16 become f32 without rounding to f16.

Files convert codes to f16 (or gather them from a codebook in f16), subtract the zero point, multiply by the scale,
reshape, and convert to f32. OpenVINO does not round to f16 in between, neither when it folds constants nor when it
multiplies by compressed weights. In deep networks, this rounding would change the outputs by a thousandth. Values of 16
bits or more before the first Convert, such as scales that have scales themselves, are rounded to f16 as declared.

A FakeQuantize of constants in f16 is computed in f32 too. Its values are codes multiplied by a scale, which compiled
kernels recover.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.conversion import convert
from irrun.runtime.passes.engine import View
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["upcast_decompression"]

Array = np.ndarray[Any, Any]

F32 = ELEMENT_TYPES["f32"]


def upcast_decompression(program: Program) -> int:
    """Compute chains that decompress weights in f32, in bodies too; other computations in f16 stay.

    Args:
        program: Changed in place.

    Returns:
        The number of chains; chains that share a value count as one.
    """
    return sum(_Upcaster(current).run() for current in program.walk_programs())


class _Upcaster:
    """Upcasts the decompression chains of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.consumers = View(program).consumers
        self.producers = self.find_producers()
        #: Slot of a constant -> slot that holds it in f32.
        self.upcast_slots: dict[int, int] = {}

    def find_producers(self) -> dict[int, Instruction]:
        """Return the instructions that compute f16 from constants, by their output slot."""
        producers: dict[int, Instruction] = {}
        constant = set(self.program.constant_layers)
        for instruction in self.program.instructions:
            if instruction.is_pure and constant.issuperset(s for s in instruction.inputs if s != ABSENT):
                constant.update(instruction.outputs)
            if instruction.operation.converts:
                is_f16 = instruction.converts_to(np.float16) and instruction.inputs[0] in constant
            else:
                slots = _get_value_slots(instruction)
                is_f16 = bool(slots) and all(s in producers or self.is_f16_constant(s) for s in slots)
            if is_f16:
                producers[instruction.outputs[0]] = instruction
        return producers

    def is_f16_constant(self, slot: int) -> bool:
        value = self.program.initial[slot]
        return value is not None and value.dtype == np.float16

    def run(self) -> int:
        chains = [chain for chain in self.find_chains() if self.is_decompression(chain)]
        for slot in (slot for chain in chains for slot in chain):
            self.upcast_instruction(self.producers[slot])
        return len(chains)

    def find_chains(self) -> list[set[int]]:
        """Return the connected components of the slots in `producers`."""
        neighbors: dict[int, list[int]] = {slot: [] for slot in self.producers}
        for slot, instruction in self.producers.items():
            for source in _get_value_slots(instruction):
                if source in neighbors:
                    neighbors[slot].append(source)
                    neighbors[source].append(slot)
        chains = []
        remaining = set(neighbors)
        while remaining:
            chain: set[int] = set()
            stack = [remaining.pop()]
            while stack:
                slot = stack.pop()
                chain.add(slot)
                stack.extend(remaining.intersection(neighbors[slot]))
                remaining.difference_update(neighbors[slot])
            chains.append(chain)
        return chains

    def is_decompression(self, chain: set[int]) -> bool:
        """Return whether a chain multiplies or quantizes, and nothing outside of it consumes f16."""
        if not any(self.producers[slot].operation.decompression == "scale" for slot in chain):
            return False
        if not chain.isdisjoint(self.program.results):
            return False
        consumers = [consumer for slot in chain for consumer in self.consumers[slot]]
        return all(c.converts_to(np.float32) or self.producers.get(c.outputs[0]) is c for c in consumers)

    def upcast_instruction(self, instruction: Instruction) -> None:
        # Constant folding estimates sizes by the declared types of ports.
        outputs = [replace(port, element_type=F32) for port in instruction.layer.outputs]
        instruction.layer = replace(instruction.layer, outputs=outputs)
        if instruction.operation.converts:
            declared = functools.partial(instruction.kernel, **instruction.attributes)
            instruction.kernel = _convert_upcast
            instruction.attributes = {"destination_type": F32, "declared": declared}
            return
        slots = _get_value_slots(instruction)
        if instruction.operation.quantizes and self.is_f16_constant(slots[0]):
            # f16 weights are converted where they are used, limits are converted here.
            instruction.kernel = functools.partial(_quantize_upcast, kernel=instruction.kernel)
            instruction.inputs = (slots[0], *map(self.upcast_slot, slots[1:]))
            return
        instruction.inputs = (*map(self.upcast_slot, slots), *instruction.inputs[len(slots) :])

    def upcast_slot(self, slot: int) -> int:
        """Return the slot, or a new one that holds its constant in f32."""
        value = self.program.initial[slot]
        if value is None:
            return slot
        if slot in self.upcast_slots:
            return self.upcast_slots[slot]
        upcast_value = value.astype(np.float32)
        upcast_value.flags.writeable = False
        self.upcast_slots[slot] = self.program.add_slot(upcast_value, self.program.constant_layers[slot])
        return self.upcast_slots[slot]


def _get_value_slots(instruction: Instruction) -> tuple[int, ...]:
    """Return the slots of the inputs that are values; empty for operations that decompression does not use."""
    operation = instruction.operation
    if operation.kind == "view" and len(instruction.outputs) == 1:
        return instruction.inputs[:1]
    if operation.decompression is None:
        return ()
    has_parameters = operation.kind != "elementwise" and not operation.concatenates
    return instruction.inputs[:1] if has_parameters else instruction.inputs


def _convert_upcast(data: Array, *, destination_type: ElementType, declared: Any) -> Array:
    """Convert `data` to f32; types of 16 bits or more via f16, which the kernel `declared` converts to."""
    return convert(declared(data) if ElementType.of(data.dtype).bits >= 16 else data, destination_type)


def _quantize_upcast(data: Array, *limits: Array, kernel: Any, **attributes: Any) -> Array:
    """Quantize `data` in f32."""
    result: Array = kernel(data.astype(np.float32), *limits, **attributes)
    return result
