"""Specialization of kernels with the facts known when a model is compiled.

A specializer returns a *specialized kernel* for a call site. It gets only the variable inputs,
in order, and only does the remaining work. It must return the same as the plain kernel, within the bounds
that `tests/fast` states, for every input that the plain kernel accepts: where it handles a special case (an element
type, a rank), it checks that and otherwise calls `site.call_plain(...)`. It may raise any exception for inputs that
the plain kernel refuses; the executor then runs the plain kernel, which reports the error.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, update_wrapper
from typing import Any, TypeVar

import numpy as np

from irrun.fast.methods import Choice
from irrun.fast.modules import MODULES
from irrun.fast.packing import PackedMemory
from irrun.ops._support.operation import Operation
from irrun.ops._support.scratch import check_plain_scratch

__all__ = ["CallSite", "SpecializedKernel", "get_summary", "load_specializers", "specialize", "specializes"]

Array = np.ndarray[Any, Any]
SpecializedKernel = Callable[..., Any]

#: Limit of `CallSite.packed` for a single instruction.
DEFAULT_PACKED_BYTES = 1 << 28


@dataclass(eq=False, repr=False)
class CallSite:
    """The facts about an instruction when a model is compiled.

    Attributes:
        operation: The operation.
        attributes: Keyword arguments of the plain kernel, except for arguments from the request.
        constants: One entry per input: its value if it is constant, else None.
        is_absent: One entry per input: whether it is an optional input that is not connected.
        output_count: The number of outputs that have consumers or precede one that has.
        packed: The memory limit for weights that the kernel keeps in another form.
        aligns_weights: Whether the kernel may keep an aligned copy of a constant that is not aligned.
        shape: The shape of the first input, if it is known.
        description: The implementation of the kernel, and why it was chosen. Specializers with several implementations
            set it.
        refused: The names of other implementations, with the reasons why they were not chosen.
    """

    operation: Operation
    attributes: Mapping[str, Any]
    constants: tuple[Array | None, ...]
    is_absent: tuple[bool, ...]
    output_count: int
    packed: PackedMemory = field(default_factory=lambda: PackedMemory(DEFAULT_PACKED_BYTES))
    aligns_weights: bool = False
    shape: tuple[int, ...] | None = None
    description: str = ""
    refused: tuple[tuple[str, str], ...] = ()

    @cached_property
    def variable_inputs(self) -> tuple[int, ...]:
        """The positions of the inputs of a specialized kernel."""
        return tuple(
            i
            for i, (value, absent) in enumerate(zip(self.constants, self.is_absent, strict=True))
            if value is None and not absent
        )

    def get_constant(self, position: int) -> Array | None:
        """Return the value of an input if it is constant, or None."""
        return self.constants[position] if position < len(self.constants) else None

    def has_input(self, position: int) -> bool:
        """Return whether an input is connected."""
        return position < len(self.constants) and not self.is_absent[position]

    def set_choice(self, choice: Choice) -> None:
        """Keep the chosen method, and why others were not chosen."""
        self.description, self.refused = choice.description, choice.refused

    def describe(self) -> str:
        """Return the implementation of the kernel: its description, or else the specializer's phrase."""
        return self.description or get_summary(self.operation)

    def call_plain(self, *inputs: Array) -> Any:
        """Call the plain kernel with the variable inputs."""
        arguments = list(self.constants)
        for position, value in zip(self.variable_inputs, inputs, strict=True):
            arguments[position] = value
        check_plain_scratch(self.operation, arguments)
        return self.operation.kernel(*arguments, **self.attributes)


#: Called with sites that have at least one variable input.
Specializer = Callable[[CallSite], SpecializedKernel | None]
Function = TypeVar("Function", bound=Callable[..., SpecializedKernel | None])
_specializers: dict[str, Specializer] = {}


def specializes(*operations: str, **options: Any) -> Callable[[Function], Function]:
    """Register the decorated function as the specializer of operations.

    Args:
        operations: Types with versions, as `str(operation)` spells them: "Gather-8".
        options: Further arguments of the function for these operations, such as the ufunc that computes
            them. If operations differ in them, decorate the function more than once.
    """

    def decorate(function: Function) -> Function:
        specializer = update_wrapper(partial(function, **options), function) if options else function
        for name in operations:
            _specializers[name] = specializer
        return function

    return decorate


@cache
def load_specializers(operation_type: str) -> bool:
    """Import the module that specializes an operation type, and return whether there is one."""
    module = MODULES.get(operation_type)
    if module is not None:
        importlib.import_module(f"irrun.fast.{module}")
    return module is not None


def specialize(site: CallSite) -> SpecializedKernel | None:
    """Return a specialized kernel for a call site, or None if the plain kernel stays.

    Operations that a user registered in place of irrun's own are never replaced. Neither are operations on
    constants: they are computed once, unless the results exceed the memory of weights.
    """
    if site.operation.is_custom or not site.variable_inputs or not load_specializers(site.operation.type):
        return None
    specializer = _specializers.get(str(site.operation))
    return specializer(site) if specializer else None


def get_summary(operation: Operation) -> str:
    """Return a phrase that describes the specializer of an operation; empty if there is none."""
    load_specializers(operation.type)
    specializer = _specializers.get(str(operation))
    summary = (specializer.__doc__ or "").strip().partition("\n")[0].rstrip(".") if specializer else ""
    return summary[:1].lower() + summary[1:]
