"""Fusion: elementwise operations are computed together with each other, and with the operation before them.

A *region* is a set of instructions of which only the last one has consumers outside: an *anchor*, such as a
convolution, and the elementwise operations that follow it, or elementwise operations alone. One instruction replaces
it, whose kernel applies an `ElementwiseChain` to the result of the anchor, as far as possible while it is in the
processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from irrun.fast.elementwise import ElementwiseChain, Operand
from irrun.fast.fused import FusedKernel
from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import CallSite, specialize
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.fusion_regions import Region, RegionFinder
from irrun.runtime.passes.phases import Resources
from irrun.runtime.passes.specialization import list_refusals, make_site
from irrun.runtime.program import Instruction, Program, Refusal

__all__ = ["run"]

Array = np.ndarray[Any, Any]


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
        kernel = _make_anchor_kernel(site, chain)
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


def _make_anchor_kernel(site: CallSite, chain: ElementwiseChain) -> Callable[..., Any]:
    """Return the kernel of an anchor and the operations that follow it."""
    if site.operation.convolves:
        from irrun.fast.convolution import make_kernel

        scale, rest = _split_scale(chain, site)
        kernel = make_kernel(site, rest, scale)
        if kernel is not None:
            return kernel
    if site.operation.multiplies_matrices:
        from irrun.fast.matrix import make_product_kernel

        product = make_product_kernel(site, chain)
        if product is not None:
            return product
    if site.operation.kind == "rowwise":
        from irrun.fast.normalization import make_normalization_kernel

        normalization = make_normalization_kernel(site, chain)
        if normalization is not None:
            return normalization
    return FusedKernel(specialize(site) or site.call_plain, len(site.variable_inputs), chain)


def _split_scale(chain: ElementwiseChain, site: CallSite) -> tuple[Array | None, ElementwiseChain | None]:
    """Return the constant that the result of a convolution is multiplied by first, per channel, and what follows."""
    filters = site.get_constant(1)
    step = chain.steps[0]
    if filters is None or step.name != "Multiply" or Operand("input", 0) not in step.operands:
        return None, chain
    other = next((o for o in step.operands if o.kind == "constant"), None)
    uses_value_again = any(Operand("input", 0) in s.operands for s in chain.steps[1:])
    if other is None or uses_value_again:
        return None, chain
    scale = chain.constants[other.index]
    channels = filters.shape[0] * (filters.shape[1] if site.operation.has_groups else 1)
    rank = filters.ndim - (2 if site.operation.has_groups else 1)
    shape = (1,) * (rank + 1 - scale.ndim) + scale.shape
    if scale.size != 1 and shape != (1, channels, *[1] * (rank - 1)):
        return None, chain
    if not np.isfinite(scale).all():
        return None, chain
    flat = np.broadcast_to(scale.reshape(-1), (channels,))
    if len(chain.steps) == 1:
        return flat, None

    def renumber(operand: Operand) -> Operand:
        if operand.kind != "step":
            return operand
        return Operand("step", operand.index - 1) if operand.index else Operand("input", 0)

    steps = tuple(s._replace(operands=tuple(map(renumber, s.operands))) for s in chain.steps[1:])
    return flat, ElementwiseChain(steps, chain.input_count, chain.constants)
