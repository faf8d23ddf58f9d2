"""Fusion: compute elementwise operations together with each other, and with the operation before them.

In a *region*, only the last instruction has consumers outside. A region consists of an *anchor*, such as a
convolution, and the elementwise operations that follow it, or elementwise operations alone. One instruction replaces
the region. Its kernel applies an `ElementwiseChain` to the result of the anchor, as far as possible while the result is
in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from irrun.fast.fused import FusedKernel, fuse
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.fusion_regions import Region, RegionFinder
from irrun.runtime.passes.phases import Resources
from irrun.runtime.passes.specialization import list_refusals, make_site
from irrun.runtime.program import Instruction, Program, Refusal

if TYPE_CHECKING:
    from irrun.runtime.passes.fusion_levels import LoweredRegion

__all__ = ["run"]


def run(program: Program, resources: Resources) -> None:
    """Replace regions by single instructions, in bodies too.

    Args:
        program: Changed in place.
        resources: The memory of prepared weights.
    """
    for current in program.walk_programs():
        view = View(current)
        regions = RegionFinder(view, is_body=current is not program).find_regions()
        lowered = {} if resources.use_jit else _lower_quantizations(view, regions, resources.packed)
        results = _fuse_regions(current, regions, resources.packed, lowered)
        for region, fused in results or _fuse_regions(current, regions, resources.packed, {}) or ():
            for member in region.members[:-1]:
                view.replace(member)
            view.replace(region.members[-1], fused)
        view.commit()


def _lower_quantizations(view: View, regions: Sequence[Region], packed: PackedMemory) -> dict[int, LoweredRegion]:
    """Return the regions that compute in units of levels, by identity."""
    if not any(member.operation.has_levels for region in regions for member in region.members):
        return {}
    from irrun.runtime.passes.fusion_levels import LevelPlan

    return LevelPlan(view, regions, packed).lower() or {}


def _fuse_regions(
    program: Program, regions: Sequence[Region], packed: PackedMemory, lowered: Mapping[int, LoweredRegion]
) -> list[tuple[Region, Instruction]] | None:
    """Return the instructions that replace regions, or None if one that computes in units of levels fails."""
    results = []
    for region in regions:
        try:
            fused = _fuse_region(program, region, packed, lowered.get(id(region)))
        except Exception as error:  # the plain kernel refuses constants with a message when it runs
            if id(region) in lowered:
                return None
            program.refusals += [Refusal(member.layer.name, "fuse", str(error)) for member in region.members]
            continue
        results.append((region, fused))
    return results


def _fuse_region(
    program: Program, region: Region, packed: PackedMemory, lowered: LoweredRegion | None = None
) -> Instruction:
    """Return the instruction that replaces a region."""
    last, chain = region.members[-1], region.chain
    if region.anchor is None:
        kernel: Callable[..., Any] = partial(chain, may_overwrite=True) if region.may_overwrite else chain
        inputs = region.inputs
        description = f"chain of {len(chain.steps)} operations, by tiles{', in place' if region.may_overwrite else ''}"
    else:
        site = make_site(program, region.anchor, packed)
        if lowered is not None:
            packed.reserve(lowered.filters.nbytes, site.get_constant(1))
            site.constants, chain = (None, lowered.filters), lowered.chain.chain
        kernel = fuse(site, chain)
        inputs = (*(region.anchor.inputs[i] for i in site.variable_inputs), *region.inputs[1:])
        names = ", ".join(member.operation.type for member in region.members[1:])
        is_plain = isinstance(kernel, FusedKernel) and kernel.kernel == site.call_plain
        description = f"{'plain' if is_plain else site.describe()}; with {names}"
        program.refusals += list_refusals(site, region.anchor)
    fused = replace(
        last,
        kernel=kernel,
        attributes={},
        inputs=inputs,
        plain=tuple(region.members),
        description=description,
    )
    return fused if lowered is None else _read_and_return_levels(fused, lowered)


def _read_and_return_levels(instruction: Instruction, lowered: LoweredRegion) -> Instruction:
    """Return a fused instruction with slots that hold numbers of levels."""
    return replace(
        instruction,
        inputs=tuple(lowered.slots.get(slot, slot) for slot in instruction.inputs),
        outputs=(lowered.output,),
        plain=(*lowered.before, *instruction.plain, *lowered.after),
        description=f"{instruction.description}, in levels",
    )
