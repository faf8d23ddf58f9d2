"""The interface of all compiled kernels: preparing, binding and calling them.

A compiled kernel is called with arrays, or *bound*: binding it to input layouts returns a `Binding` with tasks that run
without the interpreter. Sequences consist of bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import Binding, Layout, Shape

__all__ = ["CompiledKernel"]


class CompiledKernel:
    """A compiled kernel.

    Attributes:
        description: The method of computation, for plans and profiles.
        reads_layouts: Whether inputs that are not contiguous can be bound.
        returns_codes: Whether the result is codes in bytes instead of f32.
        output_sizes: The lengths of several outputs along the last axis, on which the result of a binding joins them.
            There is one output if it is empty.
    """

    description: str
    reads_layouts = False
    returns_codes = False
    output_sizes: Sequence[int] = ()

    #: Computes the outputs. It raises `NoKernelError` for unsupported inputs.
    __call__: Callable[..., Any]

    @property
    def can_bind(self) -> bool:
        """Whether the kernel has bindings."""
        return type(self).bind is not CompiledKernel.bind

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the code for inputs of declared shapes, so that runs do not wait for it.

        Args:
            shapes: The shapes of the inputs that are not constant.

        Raises:
            NoKernelError: No kernel supports these shapes.
        """

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the kernel for inputs of certain layouts, in f32 or codes.

        Codes count as elements of four bytes: the last axis of their layout is a quarter as long as in the array.

        Args:
            layouts: The layouts of the inputs; they are contiguous unless the kernel reads other layouts.

        Raises:
            NoKernelError: No kernel supports these layouts, or the kernel cannot be bound.
        """
        raise NoKernelError("the kernel is called with arrays only")
