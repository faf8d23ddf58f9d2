"""A program: a flat list of instructions over numbered slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.graph import Layer, Port
from irrun.ops._support.context import BackEdgeDescription, BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.operation import Operation

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from irrun.fast.compressed import CompressedWeights
    from irrun.packing import PostponedNibbles

__all__ = ["ABSENT", "BodyProgram", "Instruction", "Program", "Refusal"]

T = TypeVar("T")

#: The slot that always holds None, for optional inputs that are not connected.
ABSENT = 0


@dataclass(slots=True, eq=False, repr=False)
class Instruction:
    """A layer after lowering.

    Attributes:
        kernel: The function that computes the layer, called with the values of `inputs` and the `attributes`.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs, at least one.
        layer: The layer before lowering.
        operation: The registered operation.
        attributes: Keyword arguments of the kernel.
        frees: Slots with values that are not needed after this instruction.
        bodies: Bodies that the kernel gets, by the name of the parameter.
        provided: Types of the other arguments that each request provides, by the name of the parameter.
        plain: The instructions that this one replaces. They run if its kernel raises an exception.
        is_observed: Whether observers are called after it; false for conversions inserted by a pass.
        description: The name of a fast kernel, and why it was chosen; empty for the plain kernel.
    """

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    layer: Layer
    operation: Operation
    attributes: dict[str, Any] = field(default_factory=dict)
    frees: tuple[int, ...] = ()
    bodies: dict[str, BodyProgram] = field(default_factory=dict)
    provided: dict[str, type] = field(default_factory=dict)
    plain: tuple[Instruction, ...] = ()
    is_observed: bool = True
    description: str = ""

    def copy(self) -> Instruction:
        """Return a copy with copies of the bodies, much faster than `dataclasses.replace`."""
        bodies = self.map_bodies(BodyProgram.copy)
        return Instruction(
            self.kernel, self.inputs, self.outputs, self.layer, self.operation, self.attributes, self.frees, bodies,
            self.provided, self.plain, self.is_observed, self.description,
        )  # fmt: skip

    def map_bodies(self, function: Callable[[BodyProgram], T]) -> dict[str, T]:
        """Return the results of a function for each body, by the name of the parameter."""
        return {name: function(body) for name, body in self.bodies.items()} if self.bodies else {}

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers that the instruction computes."""
        return tuple(i.layer.name for i in self.definitions)

    @property
    def definitions(self) -> tuple[Instruction, ...]:
        """The instructions of the layers that the instruction computes, without conversions between them."""
        return tuple(i for i in self.plain if i.is_observed) or (self,)

    @property
    def is_pure(self) -> bool:
        """Whether the results depend on the inputs only, and no body runs."""
        return not self.bodies and not self.provided and self.operation.folding != "never"

    @property
    def broadcasts_like_numpy(self) -> bool:
        """Whether its inputs broadcast as in NumPy, if they broadcast."""
        return bool(self.attributes.get("auto_broadcast", "numpy") == "numpy")

    def converts_to(self, dtype: DTypeLike) -> bool:
        """Return whether the instruction converts a value to a type."""
        destination = self.attributes.get("destination_type")
        return self.operation.converts and isinstance(destination, ElementType) and destination.dtype == dtype

    def find_first_layer(self) -> Layer:
        """Return the first layer that the instruction computes."""
        first = self.definitions[0]
        return self.layer if first is self else first.find_first_layer()

    def count_layers(self) -> int:
        """Return the number of layers that the instruction computes, in the instructions that it joins too."""
        return sum(i.count_layers() for i in self.plain if i.is_observed) or 1


class Refusal(NamedTuple):
    """A rewrite that was considered but does not apply.

    Attributes:
        layer: The name of the layer.
        rule: The name of the rule.
        reason: Why it does not apply.
    """

    layer: str
    rule: str
    reason: str


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """The instructions that executors run. Executors share a program and never change it.

    Attributes:
        instructions: In order of execution.
        initial: The value of every slot before the first instruction: a constant or None.
        parameters: One slot per Parameter, in order.
        results: One slot per Result, in order.
        parameter_layers: The Parameters.
        result_layers: The Results.
        constant_layers: For each slot that holds a constant, the layer that produced it.
        unaligned: Slots of weights that are copied when they are used again: see the pass `constant_alignment`.
        postponed: Constants that are not unpacked yet, by their slots: codes of weights that compiled kernels read as
            they are stored. `irrun.runtime.passes.postponed_constants` unpacks them.
        compressed: Weights that are not folded, by the slot of their values: see the pass `compressed_weights`.
        computed_types: The types of arrays that are replaced by others: see the pass `precision`.
        invariant_count: In the body of a loop, the number of leading instructions that run in the first iteration
            only.
        sequences: If not None, executors without an instrument run these instead of `instructions`. Some of them
            are joined; see the pass `jit_sequences`.
        is_replaced: Whether it is a body that runs only if its compiled form does not apply.
        refusals: Rules that matched but did not apply; `irrun info --plan` prints them.
    """

    instructions: list[Instruction]
    initial: list[np.ndarray[Any, Any] | None]
    parameters: list[int]
    results: list[int]
    parameter_layers: list[Layer]
    result_layers: list[Layer]
    constant_layers: dict[int, Layer] = field(default_factory=dict)
    unaligned: set[int] = field(default_factory=set)
    postponed: dict[int, PostponedNibbles] = field(default_factory=dict)
    compressed: dict[int, CompressedWeights] = field(default_factory=dict)
    computed_types: dict[np.dtype[Any], np.dtype[Any]] = field(default_factory=dict)
    invariant_count: int = 0
    sequences: list[Instruction] | None = None
    is_replaced: bool = False
    refusals: list[Refusal] = field(default_factory=list)

    def copy(self) -> Program:
        """Return a program that shares layers and constants with this one, but not instructions."""
        return replace(
            self,
            instructions=[instruction.copy() for instruction in self.instructions],
            initial=self.initial.copy(),
            constant_layers=dict(self.constant_layers),
            sequences=None,
            is_replaced=False,
            refusals=[],
        )

    def map_ports(self) -> dict[int, Port]:
        """Return the output ports of the parameters, and of all instructions and what they replace, by their slots."""
        ports: dict[int, Port] = {}
        for layer, slot in zip(self.parameter_layers, self.parameters, strict=False):
            ports.update(zip((slot,), layer.outputs, strict=False))
        for instruction in self.instructions:
            for own in (*instruction.plain, instruction):
                ports.update(zip(own.outputs, own.layer.outputs, strict=False))
        return ports

    def add_slot(self, value: np.ndarray[Any, Any] | None = None, layer: Layer | None = None) -> int:
        """Add a slot and return it.

        Args:
            value: The value if it is constant.
            layer: The layer that the constant comes from.
        """
        self.initial.append(value)
        slot = len(self.initial) - 1
        if layer is not None:
            self.constant_layers[slot] = layer
        return slot

    def drop_unused_constants(self) -> None:
        """Free the constants that no instruction reads, and plan again when values are freed."""
        consumed = {s for i in self.instructions for j in (i, *i.plain) for s in j.inputs}.union(self.results)
        for slot in [s for s in self.constant_layers if s not in consumed]:
            del self.constant_layers[slot]
            self.initial[slot] = None
        self.free_after_last_use()

    def get_constant_results(self) -> dict[int, np.ndarray[Any, Any]]:
        """Return the values of the Results that are constant, by their index."""
        results: dict[int, np.ndarray[Any, Any]] = {}
        for i, slot in enumerate(self.results):
            value = self.initial[slot]
            if slot in self.constant_layers and value is not None:
                results[i] = value
        return results

    def get_computed_dtype(self, port: Port) -> np.dtype[Any] | None:
        """Return the type of a port's value: the declared type, unless the program replaces it."""
        if port.element_type is None:
            return None
        declared: np.dtype[Any] = port.element_type.dtype
        computed: np.dtype[Any] = self.computed_types.get(declared, declared)
        return computed

    def traverse(self, depth: int = 0) -> Iterator[tuple[Program, int, Instruction | None]]:
        """Iterate over this program and its bodies in order of execution.

        Args:
            depth: The number of bodies that contain this program.

        Yields:
            A program, the number of bodies that contain it, and one of its instructions, before the instructions of
            its bodies. None means the end of the program.
        """
        for instruction in self.instructions:
            yield self, depth, instruction
            if instruction.bodies:
                for steps in instruction.map_bodies(lambda body: body.program.traverse(depth + 1)).values():
                    yield from steps
        yield self, depth, None

    def walk(self) -> Iterator[tuple[Program, Instruction]]:
        """Iterate over all instructions, bodies included.

        Yields:
            The program of the instruction, and the instruction.
        """
        return ((program, instruction) for program, _, instruction in self.traverse() if instruction is not None)

    def walk_programs(self) -> Iterator[Program]:
        """Iterate over this program and its bodies, the inner ones first."""
        return (program for program, _, instruction in self.traverse() if instruction is None)

    def free_after_last_use(self) -> None:
        """Set `frees` of every instruction, so that each value is freed after its last consumer."""
        kept = {ABSENT, *self.results, *self.constant_layers}
        seen = set(kept)
        for instruction in reversed(self.instructions):
            slots = dict.fromkeys((*instruction.inputs, *instruction.outputs))
            instruction.frees = tuple(slot for slot in slots if slot not in seen)
            seen.update(slots)


@dataclass(slots=True, eq=False, repr=False)
class BodyProgram:
    """A lowered body and its port map, in positions instead of ids."""

    program: Program
    inputs: tuple[InputDescription, ...]
    outputs: tuple[OutputDescription, ...]
    back_edges: tuple[BackEdgeDescription, ...]
    output_count: int

    def copy(self) -> BodyProgram:
        """Return a body with a copy of the program."""
        return replace(self, program=self.program.copy())

    def make_runner(
        self,
        owner: Layer,
        run: Callable[..., list[np.ndarray[Any, Any]]],
        expect_iterations: Callable[[int | None], None],
        is_measured: bool,
    ) -> BodyRunner:
        """Return what the kernel of a layer gets for a body.

        Args:
            owner: The layer.
            run: Runs the program.
            expect_iterations: Called with the number of iterations that follow.
            is_measured: Whether an instrument measures the kernels of the body.
        """
        result_ports = [r.inputs[0] for r in self.program.result_layers]
        parameter_ports = [p.outputs[0] for p in self.program.parameter_layers]
        return BodyRunner(
            run=run,
            parameter_count=len(self.program.parameters),
            output_count=self.output_count,
            inputs=self.inputs,
            outputs=self.outputs,
            back_edges=self.back_edges,
            output_shapes=tuple(map(_get_declared_shape, owner.outputs)),
            result_shapes=tuple(map(_get_declared_shape, result_ports)),
            result_dtypes=tuple(map(self.program.get_computed_dtype, result_ports)),
            parameter_shapes=tuple(map(_get_declared_shape, parameter_ports)),
            parameter_dtypes=tuple(map(self.program.get_computed_dtype, parameter_ports)),
            constant_results=self.program.get_constant_results(),
            expect_iterations=expect_iterations,
            is_measured=is_measured,
        )


def _get_declared_shape(port: Port) -> tuple[int | None, ...] | None:
    """Return the declared shape with None for dynamic dimensions, or None if the rank is dynamic."""
    return None if port.shape is None else tuple(d if isinstance(d, int) else None for d in port.shape)
