"""Constant folding: what depends on constants alone is computed once, within a budget of memory.

Decompression of weights (f16 -> f32; u8 or i4, zero point and scale -> f32) is most of it. What does not fit the
budget stays in the program: it is expanded when it is used, and freed after its last use.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["DEFAULT_LIMIT", "fold_constants"]

#: Bytes that folded values may take in all.
DEFAULT_LIMIT = 1 << 30

Array = np.ndarray[Any, Any]


def fold_constants(program: Program, limit: int = DEFAULT_LIMIT) -> int:
    """Replace instructions by their results where all they read is constant, in bodies too.

    Random and stateful operations and those with bodies are left alone, as are instructions that fail: they fail
    again when the program runs, with the layer's name.

    Args:
        program: changed in place.
        limit: bytes that the new constants may take; 0 folds nothing.

    Returns:
        The bytes taken.
    """
    taken = 0
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            taken += fold_constants(body.program, limit - taken)
    if limit <= taken:
        return taken
    return taken + _Folding(program, limit - taken).run()


class _Folding:
    def __init__(self, program: Program, limit: int) -> None:
        self.program = program
        self.limit = limit
        self.taken = 0
        #: Slots that depend on constants alone -> the instruction that makes them; None for constants.
        self.makers: dict[int, Instruction | None] = dict.fromkeys(program.constant_layers)

    def run(self) -> int:
        candidates: list[Instruction] = []
        wanted: dict[int, None] = {}  # constant values that the rest of the program reads
        for instruction in self.program.instructions:
            if self.is_constant(instruction):
                candidates.append(instruction)
                self.makers.update(dict.fromkeys(instruction.outputs, instruction))
            else:
                wanted.update(dict.fromkeys(s for s in instruction.inputs if self.makers.get(s)))
        wanted.update(dict.fromkeys(s for s in self.program.results if self.makers.get(s)))
        if not candidates:
            return 0
        folded: set[int] = set()
        with np.errstate(all="ignore"):
            for slot in sorted(wanted, key=self.estimate):
                self.fold(slot, folded)
        self.remove(folded)
        return self.taken

    def is_constant(self, instruction: Instruction) -> bool:
        if instruction.bodies or instruction.provided or not instruction.operation.deterministic:
            return False
        return all(s == ABSENT or s in self.makers for s in instruction.inputs)

    def estimate(self, slot: int) -> float:
        """Bytes that the value will take by its declaration; unknown ones count as small."""
        maker = self.makers[slot]
        assert maker is not None
        ports = maker.layer.outputs
        position = maker.outputs.index(slot)
        if position >= len(ports):
            return 0
        port = ports[position]
        if port.shape is None or not port.shape.is_static or port.element_type is None:
            return 0
        return math.prod(int(d) for d in port.shape if isinstance(d, int)) * port.element_type.dtype.itemsize

    def fold(self, slot: int, folded: set[int]) -> None:
        if self.estimate(slot) > self.limit - self.taken:
            return
        values: dict[int, Any] = {}
        try:
            value = self.value(slot, values)
        except Exception:
            return  # it fails again when the program runs, and is reported there
        cost = 0 if value.base is not None else value.nbytes
        if cost > self.limit - self.taken:
            return
        self.taken += cost
        value = value.view()
        value.flags.writeable = False
        maker = self.makers[slot]
        assert maker is not None
        self.program.initial[slot] = value
        self.program.constant_layers[slot] = maker.layer
        folded.add(slot)

    def value(self, slot: int, values: dict[int, Any]) -> Array:
        """The value of a slot, computed from constants without recursion."""
        stack = [slot]
        while stack:
            current = stack[-1]
            maker = self.makers[current]
            if maker is None or self.program.initial[current] is not None or current in values:
                stack.pop()
                continue
            missing = [
                s
                for s in maker.inputs
                if s != ABSENT and self.program.initial[s] is None and s not in values and self.makers[s]
            ]
            if missing:
                stack.extend(missing)
                continue
            result = maker.kernel(*[self.read(s, values) for s in maker.inputs])
            results = result if isinstance(result, (tuple, list)) else (result,)
            values.update((s, np.asarray(r)) for s, r in zip(maker.outputs, results, strict=False))
            stack.pop()
        return values[slot] if slot in values else self.program.initial[slot]  # type: ignore[return-value]

    def read(self, slot: int, values: dict[int, Any]) -> Any:
        return values[slot] if slot in values else self.program.initial[slot]

    def remove(self, folded: set[int]) -> None:
        """Drop instructions whose every read result is folded, and constants that nothing reads any more."""
        needed = set(self.program.results) - folded
        kept = []
        for instruction in reversed(self.program.instructions):
            is_candidate = self.makers.get(instruction.outputs[0]) is instruction
            if is_candidate and not needed.intersection(instruction.outputs):
                continue
            kept.append(instruction)
            needed.update(s for s in instruction.inputs if s not in folded)
        self.program.instructions = kept[::-1]
        read = {s for i in kept for s in i.inputs} | set(self.program.results)
        for slot in [s for s in self.program.constant_layers if s not in read]:
            del self.program.constant_layers[slot]
            self.program.initial[slot] = None
        self.program.free_after_last_use()
