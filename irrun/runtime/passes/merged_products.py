"""Merged products: compiled products of the same value with several compressed weights become one instruction.

Queries, keys and values of a decoder, and the two projections of its feed-forward network, are computed from the same
value. Together, their products are long enough to be divided between threads.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from irrun.fast.jit.compressed import CompressedKernel
from irrun.runtime.program import Instruction, Program

__all__ = ["merge_products"]


def merge_products(program: Program) -> None:
    """Merge compiled products with compressed weights, in bodies too.

    Args:
        program: Changed in place. A merged product is computed where its first one was.
    """
    groups: dict[int, list[Instruction]] = defaultdict(list)
    for instruction in program.instructions:
        if isinstance(instruction.kernel, CompressedKernel):
            groups[instruction.inputs[0]].append(instruction)
        for body in instruction.bodies.values():
            merge_products(body.program)
    replacements: dict[int, Instruction | None] = {}
    for members in groups.values():
        if len(members) > 1:
            replacements.update((id(member), None) for member in members)
            replacements[id(members[0])] = _merge(members)
    if replacements:
        instructions = [replacements.get(id(i), i) for i in program.instructions]
        program.instructions = [i for i in instructions if i is not None]
        program.free_after_last_use()


def _merge(members: list[Instruction]) -> Instruction:
    kernels = [member.kernel for member in members if isinstance(member.kernel, CompressedKernel)]
    plain: list[Instruction] = []
    for instruction in (i for member in members for i in member.plain):
        if not any(instruction is known for known in plain):
            plain.append(instruction)
    return replace(
        members[0],
        kernel=CompressedKernel(*(weights for kernel in kernels for weights in kernel.weights)),
        outputs=tuple(slot for member in members for slot in member.outputs),
        plain=tuple(plain),
    )
