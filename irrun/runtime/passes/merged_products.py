"""Merged products: compiled products of one value with several compressed weights become one instruction.

A decoder computes queries, keys and values, and the two projections of its feed-forward network, from the same value.
Together, these products are long enough to be divided between threads.
"""

from __future__ import annotations

from dataclasses import replace

from irrun.fast.jit.compressed import CompressedKernel
from irrun.runtime.passes.engine import Changes, Match, Pattern, Rule, View
from irrun.runtime.program import Instruction

__all__ = ["RULES"]


def _find_products(view: View, match: Match) -> list[Instruction]:
    """Return the products of the value that a product multiplies."""
    return [i for i in view.consumers[match["product"].inputs[0]] if isinstance(i.kernel, CompressedKernel)]


def _check(view: View, match: Match) -> str:
    if not isinstance(match["product"].kernel, CompressedKernel):
        return "the weights are not compressed, or the product is not compiled"
    return "" if len(_find_products(view, match)) > 1 else "no other product reads the same value"


def _build(view: View, match: Match) -> Changes:
    """Compute all products in the place of the first one."""
    first, *others = _find_products(view, match)
    yield first, (_merge([first, *others]),)
    for other in others:
        yield other, ()


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


PRODUCT = Pattern("product", has=lambda operation: operation.multiplies_matrices)
RULES = (Rule("merge products of the same value", PRODUCT, _build, _check),)
