"""Rewrites of a program, one idea per module, none of them required for correctness."""

from __future__ import annotations

from collections.abc import Callable

from irrun.runtime.passes.budget import DEFAULT_LIMIT, Budget
from irrun.runtime.passes.constant_alignment import align_constants
from irrun.runtime.passes.constant_folding import fold_constants
from irrun.runtime.passes.decompression import upcast_decompression
from irrun.runtime.passes.loop_invariants import hoist_loop_invariants
from irrun.runtime.passes.loop_iterations import specialize_loops
from irrun.runtime.passes.loops_to_sequences import convert_loops_to_sequences
from irrun.runtime.passes.specialization import specialize_instructions
from irrun.runtime.program import Program

__all__ = [
    "DEFAULT_LIMIT",
    "Budget",
    "align_constants",
    "apply_passes",
    "fold_constants",
    "optimize",
    "upcast_decompression",
]


def optimize(program: Program) -> Program:
    """Return a faster program that computes the same outputs within stated bounds.

    Args:
        program: The plain program; it is not changed.
    """
    fast = program.copy()
    convert_loops_to_sequences(fast)
    specialize_loops(fast)
    specialize_instructions(fast)
    hoist_loop_invariants(fast)
    return fast


def apply_passes(program: Program, fold_limit: int, release: Callable[[], None]) -> None:
    """Run all passes.

    Args:
        program: Changed in place.
        fold_limit: Bytes that new constants may take.
        release: Releases the memory of the weights that were read; called now and then, so that the originals of
            new constants do not stay in memory beside them.
    """
    budget = Budget(fold_limit, release=release)
    upcast_decompression(program)
    fold_constants(program, budget)
    align_constants(program, budget)
    budget.finish()
