"""Passes, which rewrite a program; one module each. None is required for correctness.

A pass is imported only if a program may need it, because imports take most of the time of small models.
"""

from __future__ import annotations

from collections.abc import Callable

from irrun.runtime.passes.phases import Resources, list_needed
from irrun.runtime.program import Program

__all__ = ["apply_passes", "optimize"]


def optimize(program: Program, resources: Resources) -> Program:
    """Return a faster program that computes the same outputs within stated bounds.

    Args:
        program: The plain program; it is not changed.
        resources: Memory for copies of weights, and whether kernels are compiled.
    """
    fast = program.copy()
    for phase in list_needed(fast, resources.use_jit):
        phase.run(fast, resources)
    return fast


def apply_passes(program: Program, weights_memory: int, release: Callable[[], None], keeps_compressed: bool) -> None:
    """Run the passes that do not change what observers see.

    Args:
        program: Changed in place.
        weights_memory: Bytes that new constants may take.
        release: Releases the memory of the weights that were read; called repeatedly, so that the originals of
            new constants do not stay in memory as well.
        keeps_compressed: Whether weights stay compressed or unaligned if specialized kernels can use them so.
    """
    if not any(current.constant_layers for current in program.walk_programs()):
        return
    from irrun.runtime.passes.budget import Budget
    from irrun.runtime.passes.compressed_weights import decompress_weights, find_compressed_weights
    from irrun.runtime.passes.constant_alignment import align_constants
    from irrun.runtime.passes.constant_folding import fold_constants
    from irrun.runtime.passes.decompression import upcast_decompression

    budget = Budget(weights_memory, release)
    upcast_decompression(program)
    if keeps_compressed:
        find_compressed_weights(program)
    if any(current.postponed for current in program.walk_programs()):
        from irrun.runtime.passes.postponed_constants import fill_others

        fill_others(program)
    fold_constants(program, budget)
    decompress_weights(program, budget)
    align_constants(program, budget, postpones=keeps_compressed)
    budget.finish()
