"""Members of sequences of compiled kernels: kernels, views and concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import Layout, get_layout
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.protocol import CompiledKernel

__all__ = [
    "Computation",
    "Concatenation",
    "Member",
    "Views",
    "list_inputs",
    "list_outputs",
    "view_elements",
    "view_layout",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Computation:
    """A compiled kernel as a member of a sequence.

    Attributes:
        inputs: Slots of the inputs.
        output: The slot of the output.
        kernel: The kernel.
    """

    inputs: tuple[int, ...]
    output: int
    kernel: CompiledKernel


@dataclass(frozen=True)
class Views:
    """A member that returns views of its input, or of a contiguous copy of it.

    Attributes:
        input: The slot of the input.
        outputs: Slots of the outputs.
        view: Returns the outputs for an input.
    """

    input: int
    outputs: tuple[int, ...]
    view: Callable[[Array], Any]


@dataclass(frozen=True)
class Concatenation:
    """A member that concatenates its inputs.

    Attributes:
        inputs: Slots of the inputs.
        output: The slot of the output.
        axis: The axis, which may be negative.
    """

    inputs: tuple[int, ...]
    output: int
    axis: int


Member = Computation | Views | Concatenation


def list_inputs(member: Member) -> tuple[int, ...]:
    """Return the slots of the inputs of a member."""
    return (member.input,) if isinstance(member, Views) else member.inputs


def list_outputs(member: Member) -> tuple[int, ...]:
    """Return the slots of the outputs of a member."""
    return member.outputs if isinstance(member, Views) else (member.output,)


def view_elements(codes: Array) -> Array:
    """Return codes in bytes as elements of four bytes, as members see them.

    Raises:
        NoKernelError: The codes are empty, or rows are not a multiple of four.
    """
    if not codes.size or codes.shape[-1] % F32.itemsize:
        raise NoKernelError("expected rows of codes")
    return make_contiguous(codes).view(F32)


def view_layout(view: Callable[[Array], Any], layout: Layout) -> list[tuple[Layout, int]] | None:
    """Return the layouts of views of a value and their offsets in bytes, or None if they are copies.

    Raises:
        NoKernelError: A view is empty or reversed.
    """
    size = F32.itemsize + sum((d - 1) * s for d, s in zip(layout.shape, layout.strides, strict=True))
    if not math.prod(layout.shape) or any(stride < 0 for stride in layout.strides):
        raise NoKernelError("a view is empty or reversed")
    data: Array = np.ndarray(layout.shape, F32, np.empty(size, np.uint8), 0, layout.strides)  # is not read
    results = view(data)
    views: Sequence[Array] = results if isinstance(results, (tuple, list)) else (results,)
    if any(not x.size or any(stride < 0 for stride in x.strides) for x in views):
        raise NoKernelError("a view is empty or reversed")
    if not all(np.may_share_memory(x, data) for x in views):
        return None
    return [(get_layout(x), get_address(x) - get_address(data)) for x in views]
