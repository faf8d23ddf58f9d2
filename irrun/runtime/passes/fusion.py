"""Fusion: compute elementwise operations together with each other, and with the operation before them.

A *region* is a set of instructions of which only the last one has consumers outside: an *anchor*, such as a
convolution, and the elementwise operations that follow it, or elementwise operations alone. One instruction replaces
the region. Its kernel applies an `ElementwiseChain` to the result of the anchor, as far as possible while the result is
in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from irrun.fast.fused import FusedKernel, fuse
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.fusion_regions import Region, RegionFinder
from irrun.runtime.passes.phases import Resources
from irrun.runtime.passes.specialization import list_refusals, make_site
from irrun.runtime.program import Instruction, Program, Refusal

__all__ = ["run"]


def run(program: Program, resources: Resources) -> None:
    """Replace regions by single instructions, in bodies too.

    Args:
        program: Changed in place.
        resources: The memory of prepared weights.
    """
    for current in program.walk_programs():
        view = View(current)
        for region in RegionFinder(view, is_body=current is not program).find_regions():
            try:
                fused = _fuse_region(current, region, resources.packed)
            except Exception as error:  # the plain kernel refuses constants with a message when it runs
                current.refusals += [Refusal(member.layer.name, "fuse", str(error)) for member in region.members]
                continue
            for member in region.members[:-1]:
                view.replace(member)
            view.replace(region.members[-1], fused)
        view.commit()


def _fuse_region(program: Program, region: Region, packed: PackedMemory) -> Instruction:
    """Return the instruction that replaces a region."""
    last, chain = region.members[-1], region.chain
    if region.anchor is None:
        kernel: Callable[..., Any] = partial(chain, may_overwrite=True) if region.may_overwrite else chain
        inputs = region.inputs
        description = f"chain of {len(chain.steps)} operations, by tiles{', in place' if region.may_overwrite else ''}"
    else:
        site = make_site(program, region.anchor, packed)
        kernel = fuse(site, chain)
        inputs = (*(region.anchor.inputs[i] for i in site.variable_inputs), *region.inputs[1:])
        names = ", ".join(member.operation.type for member in region.members[1:])
        is_plain = isinstance(kernel, FusedKernel) and kernel.kernel == site.call_plain
        description = f"{'plain' if is_plain else site.describe()}; with {names}"
        program.refusals += list_refusals(site, region.anchor)
    return replace(
        last,
        kernel=kernel,
        attributes={},
        inputs=inputs,
        plain=tuple(region.members),
        description=description,
    )
