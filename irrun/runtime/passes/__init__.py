"""Passes, which rewrite a program; one module each. None of them is required for correctness.

A pass is imported when a program contains what it looks for, since imports take most of the time of small models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from irrun.fast.packing import MAX_PANEL_BYTES, PackedMemory
from irrun.fast.specialization import DEFAULT_PACKED_BYTES
from irrun.ops._support.context import Variables
from irrun.runtime.passes.fusion import fuse_elementwise_operations
from irrun.runtime.passes.specialization import specialize_instructions
from irrun.runtime.program import Program

__all__ = ["apply_passes", "optimize"]


def optimize(
    program: Program,
    use_jit: bool,
    packed_memory: int = DEFAULT_PACKED_BYTES,
    release: Callable[[np.ndarray[Any, Any] | None], None] | None = None,
    arranged_memory: int = 0,
    is_mapped: Callable[[np.ndarray[Any, Any]], bool] = lambda weights: True,
) -> Program:
    """Return a faster program that computes the same outputs within stated bounds.

    Args:
        program: The plain program; it is not changed.
        use_jit: Whether kernels are compiled, which requires the extra `jit`.
        packed_memory: Bytes that weights may take that are kept in another form in addition.
        release: Releases the memory of weights that were read, of one array or of all of them; called when copies were
            made.
        arranged_memory: Bytes that copies of compressed weights may take which are arranged for products, and at most
            those of other weights in panels.
        is_mapped: Returns whether an array is part of a mapped file.
    """
    fast = program.copy()
    programs = list(_walk(fast))
    instructions = [instruction for current in programs for instruction in current.instructions]
    has_bodies = len(programs) > 1
    if any(current.constant_layers for current in programs):
        from irrun.runtime.passes.compressed_weights import use_compressed_weights

        use_compressed_weights(fast, PackedMemory(arranged_memory, release))
    if any(instruction.operation.type == "ScaledDotProductAttention" for instruction in instructions):
        from irrun.runtime.passes.grouped_attention import group_attention

        group_attention(fast)
    if any(Variables in instruction.provided.values() for instruction in instructions):
        from irrun.runtime.passes.growing_variables import grow_variables_in_place

        grow_variables_in_place(fast)
    if any(instruction.operation.type == "FakeQuantize" for instruction in instructions):
        from irrun.runtime.passes.quantization import remove_limits_before_quantization

        for current in programs:
            remove_limits_before_quantization(current)
    if has_bodies:
        from irrun.runtime.passes.loop_iterations import specialize_loops
        from irrun.runtime.passes.loops_to_sequences import convert_loops_to_sequences

        convert_loops_to_sequences(fast)
        specialize_loops(fast)
    packed = PackedMemory(packed_memory, release, min(arranged_memory, MAX_PANEL_BYTES), is_mapped)
    if {"Convolution", "Interpolate"}.issubset(instruction.operation.type for instruction in instructions):
        from irrun.runtime.passes.early_projections import project_before_interpolation

        project_before_interpolation(fast, packed)
    if use_jit:
        from irrun.runtime.passes.jit import use_compiled_kernels

        use_compiled_kernels(fast, packed)
        if any(current.compressed for current in programs):
            from irrun.runtime.passes.merged_products import merge_products

            merge_products(fast)
    fuse_elementwise_operations(fast, packed)
    specialize_instructions(fast, packed)
    if has_bodies:
        from irrun.runtime.passes.loop_invariants import hoist_loop_invariants

        hoist_loop_invariants(fast)
    if use_jit:
        from irrun.runtime.passes.jit_sequences import join_instructions

        join_instructions(fast)
    return fast


def apply_passes(
    program: Program, weights_memory: int, release: Callable[[], None], keeps_compressed: bool = True
) -> None:
    """Run the passes that do not change what observers see.

    Args:
        program: Changed in place.
        weights_memory: Bytes that new constants may take.
        release: Releases the memory of the weights that were read; called repeatedly, so that the originals of
            new constants do not stay in memory as well.
        keeps_compressed: Whether weights that specialized kernels compute with stay compressed, or unaligned.
    """
    if not any(current.constant_layers for current in _walk(program)):
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
    fold_constants(program, budget)
    decompress_weights(program, budget)
    align_constants(program, budget, postpones=keeps_compressed)
    budget.finish()


def _walk(program: Program) -> Iterator[Program]:
    """Yield a program and those of all bodies in it."""
    stack = [program]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(body.program for i in current.instructions for body in i.bodies.values())
