"""Constants that are not unpacked yet: codes of 4 bits that compiled kernels read as they are stored.

Their arrays exist, but take no memory. Before anything else reads them, they are filled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from irrun.fast.compressed import gather_rows
from irrun.packing import PostponedNibbles
from irrun.runtime.passes.engine import View
from irrun.runtime.program import Program

__all__ = ["fill_and_call", "fill_others", "fill_postponed", "fill_used"]

#: Operations between the codes and the weights.
CHAIN = ("Convert", "Subtract", "Multiply", "Reshape")


def fill_postponed(program: Program) -> None:
    """Unpack all postponed constants of a program, in bodies too."""
    for current in program.walk_programs():
        for constant in current.postponed.values():
            constant.fill()
        current.postponed = {}


def fill_others(program: Program) -> None:
    """Unpack the postponed constants that are more than the codes of compressed weights, in bodies too."""
    for current in program.walk_programs():
        if not current.postponed:
            continue
        view = View(current)

        def is_compressed(slot: int, current: Program = current, view: View = view) -> bool:
            """Return whether only compressed weights that have the stored codes depend on a slot."""
            if slot in current.results:
                return False
            weights = current.compressed.get(slot)
            if weights is not None:
                return weights.nibbles is not None
            consumers = view.consumers[slot]
            return bool(consumers) and all(
                i.operation.type in CHAIN and slot not in i.inputs[1:] and all(map(is_compressed, i.outputs))
                for i in consumers
            )

        for slot in [slot for slot in current.postponed if not is_compressed(slot)]:
            current.postponed.pop(slot).fill()


def fill_used(program: Program, fast: Program) -> None:
    """Unpack the postponed constants that an optimized program reads, in bodies too.

    Instructions that a fast one replaces fill them when they run: see `fill_and_call`.

    Args:
        program: The plain program.
        fast: The optimized program.
    """
    constants = [c for current in program.walk_programs() for c in current.postponed.values()]
    postponed = {id(_find_owner(constant.array)): constant for constant in constants}
    for current, instruction in fast.walk():
        arrays = [current.initial[slot] for slot in instruction.inputs]
        unpacked = [] if instruction.kernel is gather_rows else getattr(instruction.kernel, "unpacked_codes", None)
        if unpacked is None:  # it may have bound the constants of the instructions that it replaces
            for kernel in (plain.kernel for plain in instruction.plain):
                if isinstance(kernel, functools.partial) and kernel.func is fill_and_call:
                    arrays += [constant.array for constant in kernel.args[0]]
        for array in (*arrays, *(unpacked or ())):
            constant = postponed.get(id(_find_owner(array)))
            if constant is not None:
                constant.fill()


def _find_owner(array: Any) -> Any:
    """Return the array that owns the memory of an array."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def fill_and_call(constants: Iterable[PostponedNibbles], kernel: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    """Unpack constants and call a kernel that reads them."""
    for constant in constants:
        constant.fill()
    return kernel(*inputs, **named)
