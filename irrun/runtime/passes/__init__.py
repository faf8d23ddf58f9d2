"""Rewrites of a Program, one idea per file, each of them optional."""

from __future__ import annotations

from irrun.runtime.passes.constant_alignment import align_constants
from irrun.runtime.passes.constant_folding import DEFAULT_LIMIT, fold_constants
from irrun.runtime.passes.decompression import widen_decompression
from irrun.runtime.program import Program

__all__ = ["DEFAULT_LIMIT", "align_constants", "apply_passes", "fold_constants", "widen_decompression"]


def apply_passes(program: Program, fold_limit: int = DEFAULT_LIMIT) -> int:
    """Run all passes on a program; the constants that they make take no more than `fold_limit` bytes.

    Returns:
        The bytes taken.
    """
    widen_decompression(program)
    taken = fold_constants(program, fold_limit)
    return taken + align_constants(program, fold_limit - taken)
