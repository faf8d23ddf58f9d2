"""Kernels of several instructions: an operation and the elementwise operations after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.elementwise import ElementwiseChain
from irrun.fast.specialization import CallSite, load_specializers, specialize

__all__ = ["FusedKernel", "fuse", "fuses"]

Array = np.ndarray[Any, Any]
#: Returns a kernel for a site's operation and the chain after it, or None if `FusedKernel` is best.
Fuser = Callable[[CallSite, ElementwiseChain], Callable[..., Any] | None]
_fusers: dict[str, Fuser] = {}


def fuses(*operations: str) -> Callable[[Fuser], Fuser]:
    """Register the decorated function for operations, in the module of their specializers.

    Args:
        operations: Types with versions: "MatMul-1".
    """

    def decorate(function: Fuser) -> Fuser:
        _fusers.update(dict.fromkeys(operations, function))
        return function

    return decorate


def fuse(site: CallSite, chain: ElementwiseChain) -> Callable[..., Any]:
    """Return the kernel of an operation and the elementwise operations after it.

    Args:
        site: The call site of the operation.
        chain: The operations after it.
    """
    if not site.operation.is_custom and load_specializers(site.operation.type):
        fuser = _fusers.get(str(site.operation))
        kernel = None if fuser is None else fuser(site, chain)
        if kernel is not None:
            return kernel
    return FusedKernel(specialize(site) or site.call_plain, len(site.variable_inputs), chain)


class FusedKernel:
    """Applies a chain in place to the result of a kernel.

    Args:
        kernel: A kernel that returns a new array.
        input_count: The number of its inputs, which precede the inputs of the chain.
        chain: The operations after it.
    """

    def __init__(self, kernel: Callable[..., Any], input_count: int, chain: ElementwiseChain) -> None:
        self.kernel, self.input_count, self.chain = kernel, input_count, chain

    def __call__(self, *inputs: Array) -> Array:
        """Compute the kernel and the chain.

        Args:
            inputs: The inputs of the kernel, and of the chain apart from the running value.
        """
        count = self.input_count
        return self.chain(self.kernel(*inputs[:count]), *inputs[count:], may_overwrite=True)
