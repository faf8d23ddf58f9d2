"""Faster iterations of loops."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from irrun.fast.loops import iterate_loop, iterate_tensor_iterator
from irrun.runtime.passes.engine import Changes, Match, Rule, View
from irrun.runtime.passes.loops_to_sequences import LOOP, has_trip_count

__all__ = ["RULES"]


def _check(view: View, match: Match) -> str:
    loop = match["loop"]
    return "" if loop.bodies else "the kernel is not irrun's plain kernel"


def _build(view: View, match: Match) -> Changes:
    """Replace the kernel.

    An error in a body is final: the plain kernel does not run after it, since iterations may have changed variables.
    """
    loop = match["loop"]
    iterate = iterate_loop if has_trip_count(loop.operation) else iterate_tensor_iterator
    yield loop, (replace(loop, kernel=partial(iterate, loop.kernel)),)


RULES = (Rule("prepare the slices of a loop once", LOOP, _build, _check),)
