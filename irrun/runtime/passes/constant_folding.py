"""Constant folding: what depends on constants alone is computed once, within budgets of memory and of work.

Decompression of weights (f16 -> f32; u8 or i4, zero point and scale -> f32) is most of it. What does not fit the
budgets stays in the program: it is expanded when it is used, and freed after its last use.

Declared shapes only decide the order. A file may lie about them, so that what an instruction will take is worked
out from the values it gets, before it runs: opening a hostile file costs little memory and little time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import allocation_limit
from irrun.ops._support.numerics import is_low_precision
from irrun.runtime.passes.budget import Budget
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["fold_constants"]

#: Bytes that may be read and written in all: so many, and so many for each byte of constants.
WORK, WORK_PER_BYTE = 1 << 28, 64
#: What an instruction counts for besides its bytes.
WORK_PER_INSTRUCTION = 1 << 12

#: What operations whose folding is "small" may read: elements, and combinations of elements.
FEW, COMBINATIONS = 1 << 16, 1 << 23

Array = np.ndarray[Any, Any]


def fold_constants(program: Program, budget: Budget) -> None:
    """Replace instructions by their results where all they read is constant, in bodies too.

    Random and stateful operations and those with bodies are left alone, as are instructions that fail: they fail
    again when the program runs, with the layer's name.

    Args:
        program: changed in place.
        budget: how much the new constants may take, nothing where it is 0. Its work is set by what there is to fold.
    """
    if budget.kept > 0:
        budget.work = WORK + WORK_PER_BYTE * _stored(program)
        _fold(program, budget)


def _stored(program: Program) -> int:
    """Bytes of all constants, as far as they lie apart."""
    roots: dict[int, int] = {}
    programs = [program]
    while programs:
        one = programs.pop()
        for slot in one.constant_layers:
            value = one.initial[slot]
            if value is not None:
                place = value.__array_interface__["data"][0]
                roots[place] = max(roots.get(place, 0), value.nbytes)
        programs.extend(body.program for i in one.instructions for body in i.bodies.values())
    return sum(roots.values())


def _fold(program: Program, budget: Budget) -> None:
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            _fold(body.program, budget)
    if budget.kept > 0:
        _Folding(program, budget).run()


class _Folding:
    def __init__(self, program: Program, budget: Budget) -> None:
        self.program = program
        self.budget = budget
        #: Slots that depend on constants alone -> the position of the instruction that makes them; None for constants.
        self.makers: dict[int, int | None] = dict.fromkeys(program.constant_layers)
        #: The arrays that own the memory of constants, by identity.
        self.roots = {id(_root(v)): v for s in program.constant_layers if (v := program.initial[s]) is not None}

    def run(self) -> None:
        wanted: dict[int, None] = {}  # constant values that the rest of the program reads
        for position, instruction in enumerate(self.program.instructions):
            if self.is_constant(instruction):
                self.makers.update(dict.fromkeys(instruction.outputs, position))
            else:
                wanted.update(dict.fromkeys(s for s in instruction.inputs if self.makers.get(s) is not None))
        wanted.update(dict.fromkeys(s for s in self.program.results if self.makers.get(s) is not None))
        folded: set[int] = set()
        with np.errstate(all="ignore"):
            for slot in sorted(wanted, key=self.estimate):
                if self.budget.work < 0:
                    break
                self.fold(slot, folded)
        if any(position is not None for position in self.makers.values()):
            self.remove(folded)

    def is_constant(self, instruction: Instruction) -> bool:
        if instruction.bodies or instruction.provided or instruction.operation.folding == "never":
            return False
        return all(s == ABSENT or s in self.makers for s in instruction.inputs)

    def maker(self, slot: int) -> Instruction:
        position = self.makers[slot]
        assert position is not None
        return self.program.instructions[position]

    def estimate(self, slot: int) -> float:
        """Bytes that the value will take by its declaration; unknown ones count as small."""
        maker = self.maker(slot)
        ports = maker.layer.outputs
        position = maker.outputs.index(slot)
        if position >= len(ports):
            return 0
        port = ports[position]
        if port.shape is None or not port.shape.is_static or port.element_type is None:
            return 0
        return math.prod(int(d) for d in port.shape if isinstance(d, int)) * port.element_type.dtype.itemsize

    def fold(self, slot: int, folded: set[int]) -> None:
        if self.estimate(slot) > self.budget.kept:
            return
        try:
            value = self.value(slot)
        except Exception:
            return  # it fails again when the program runs, and is reported there
        root = _root(value)
        cost = 0 if id(root) in self.roots else root.nbytes
        if cost > self.budget.kept:
            return
        self.budget.keep(cost)
        self.roots[id(root)] = root
        value = value.view()
        value.flags.writeable = False
        self.program.initial[slot] = value
        self.program.constant_layers[slot] = self.maker(slot).layer
        folded.add(slot)

    def value(self, slot: int) -> Array:
        """The value of a slot, computed from constants; what is needed on the way is dropped after its last use."""
        initial = self.program.initial
        needed = [self.program.instructions[position] for position in self.needed(slot)]
        last = {s: n for n, instruction in enumerate(needed) for s in instruction.inputs}
        last[slot] = len(needed)
        values: dict[int, Array] = {}
        for n, instruction in enumerate(needed):
            arguments = [values[s] if s in values else initial[s] for s in instruction.inputs]
            results = self.computed(instruction, arguments)
            values.update(zip(instruction.outputs, results, strict=False))
            for s in (*instruction.inputs, *instruction.outputs):
                if last.get(s, -1) <= n:
                    values.pop(s, None)
        return values[slot]

    def needed(self, slot: int) -> list[int]:
        """The positions of the instructions that make a slot from what is there, in order."""
        found: set[int] = set()
        stack = [slot]
        while stack:
            position = self.makers.get(stack.pop())
            if position is None or position in found:
                continue
            found.add(position)
            inputs = self.program.instructions[position].inputs
            stack.extend(s for s in inputs if s != ABSENT and self.program.initial[s] is None)
        return sorted(found)

    def computed(self, instruction: Instruction, arguments: list[Array | None]) -> list[Array]:
        """The results of one instruction, if the budgets admit it.

        Raises:
            InputError: they do not.
        """
        given = [x for x in arguments if x is not None]
        read = sum(x.nbytes for x in given)
        limit = self.budget.kept
        expected = _expected(instruction, given)
        if not _is_scalable(instruction):
            limit = min(limit, 8 * COMBINATIONS)
            if sum(x.size for x in given) > FEW or math.prod(max(x.size, 1) for x in given) > COMBINATIONS:
                raise InputError("too much to be folded")
        self.budget.work -= read + WORK_PER_INSTRUCTION
        if expected > limit or expected > self.budget.work:
            raise InputError("too much to be folded")
        with allocation_limit(max(min(limit, self.budget.work), 1)):
            result = instruction.kernel(*arguments, **instruction.attributes)
        results = [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else (result,))]
        self.budget.work -= sum(r.nbytes for r in results)
        return results

    def remove(self, folded: set[int]) -> None:
        """Drop instructions whose every read result is folded, and constants that nothing reads any more."""
        needed = set(self.program.results) - folded
        kept = []
        for instruction in reversed(self.program.instructions):
            is_candidate = self.makers.get(instruction.outputs[0]) is not None
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


def _is_scalable(instruction: Instruction) -> bool:
    return instruction.operation.folding in ("elementwise", "linear")


def _expected(instruction: Instruction, given: list[Array]) -> int:
    """Bytes that the results will take at most, where the kernel does not check that itself."""
    try:
        elements = math.prod(np.broadcast_shapes(*(x.shape for x in given)))
    except ValueError:
        elements = 0
    if not elements or instruction.operation.folding != "elementwise":
        elements = max(elements, sum(x.size for x in given))
    widths = [4 if is_low_precision(x.dtype) else x.itemsize for x in given]
    widths += [p.element_type.dtype.itemsize for p in instruction.layer.outputs if p.element_type is not None]
    widths += [value.dtype.itemsize for value in instruction.attributes.values() if isinstance(value, ElementType)]
    return elements * max(widths, default=8)


def _root(value: Array) -> Array:
    """The array whose memory `value` is a view of."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value
