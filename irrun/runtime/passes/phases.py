"""The order of phases, which rewrite a program, with the purpose and the condition of each.

A phase is a module of this package. It is imported only if a program needs it, because imports take most of the time of
small models. The module has rules (`RULES`), or a function `run(program, resources)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from irrun.fast.packing import PackedMemory
from irrun.ops._support.context import Variables
from irrun.ops._support.operation import Operation
from irrun.runtime.program import Program

__all__ = ["PHASES", "Facts", "Phase", "Resources", "list_needed"]


@dataclass(frozen=True, eq=False)
class Resources:
    """Resources for phases.

    Attributes:
        packed: Memory for additional copies of weights in other forms.
        arranged: Memory for rearranged copies of compressed weights.
        use_jit: Whether kernels are compiled.
    """

    packed: PackedMemory
    arranged: PackedMemory
    use_jit: bool


class Facts:
    """The facts that decide whether a phase is needed.

    Args:
        program: The program, including its bodies.
        use_jit: Whether kernels are compiled.
    """

    def __init__(self, program: Program, use_jit: bool) -> None:
        self.use_jit = use_jit
        self._programs = list(program.walk_programs())

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of the operations."""
        return frozenset(operation.type for operation in self._operations)

    @cached_property
    def _operations(self) -> set[Operation]:
        return {i.operation for program in self._programs for i in program.instructions}

    def has(self, is_wanted: Callable[[Operation], bool]) -> bool:
        """Return whether the card of any operation satisfies a predicate."""
        return any(is_wanted(operation) for operation in self._operations)

    @property
    def has_bodies(self) -> bool:
        """Whether there are bodies."""
        return len(self._programs) > 1

    @property
    def has_constants(self) -> bool:
        """Whether there are constants."""
        return any(program.constant_layers for program in self._programs)

    @property
    def has_compressed_weights(self) -> bool:
        """Whether products read weights that stay compressed."""
        return any(program.compressed for program in self._programs)

    @property
    def has_variables(self) -> bool:
        """Whether instructions use variables."""
        return any(Variables in i.provided.values() for program in self._programs for i in program.instructions)


@dataclass(frozen=True)
class Phase:
    """A phase.

    Attributes:
        module: The module of this package.
        reason: Its purpose, and the reason for its place in the order.
        is_needed: Whether it may change a program.
    """

    module: str
    reason: str
    is_needed: Callable[[Facts], bool] = lambda facts: True

    def run(self, program: Program, resources: Resources) -> None:
        """Rewrite a program and its bodies in place."""
        module = importlib.import_module(f"irrun.runtime.passes.{self.module}")
        if hasattr(module, "RULES"):
            from irrun.runtime.passes.engine import apply_rules

            apply_rules(program, module.RULES)
        else:
            module.run(program, resources)


#: The phases of the program for runs without observers, in order.
PHASES = (
    Phase("common_subexpressions", "compute shapes and masks once; before other phases take instructions",
          lambda facts: "ShapeOf" in facts.types),
    Phase("compressed_weights", "read integer weights in their stored form; no later phase knows their chains",
          lambda facts: facts.has_constants),
    Phase("grouped_attention", "do not repeat heads; before attention is compiled",
          lambda facts: "ScaledDotProductAttention" in facts.types),
    Phase("growing_variables", "append keys and values in place", lambda facts: facts.has_variables),
    Phase("quantization", "drop limits that a quantization repeats; before chains are formed",
          lambda facts: facts.has(lambda operation: operation.has_levels)),
    Phase("loops_to_sequences", "compute all iterations at once; before bodies are specialized for one iteration",
          lambda facts: facts.has_bodies),
    Phase("loop_iterations", "prepare the slices of all other loops once", lambda facts: facts.has_bodies),
    Phase("jit_loops", "compile all other loops; instructions of bodies are plain until here",
          lambda facts: facts.use_jit and facts.has_bodies),
    Phase("early_projections", "combine channels before they are enlarged; convolutions are plain until here",
          lambda facts: "Interpolate" in facts.types and facts.has(lambda operation: operation.convolves)),
    Phase("root_mean_squares", "normalize in one compiled kernel; before chains of elementwise operations are compiled",
          lambda facts: facts.use_jit and "ReduceMean" in facts.types),
    Phase("rotary_embeddings", "rotate positions in one compiled kernel; before its operations are compiled",
          lambda facts: facts.use_jit and "Concat" in facts.types),
    Phase("jit", "compile kernels with the operations after them; NumPy computes the rest",
          lambda facts: facts.use_jit),
    Phase("merged_products", "compute compiled products of the same value together",
          lambda facts: facts.use_jit and facts.has_compressed_weights),
    Phase("fusion", "compute chains of elementwise operations by tiles"),
    Phase("specialization", "choose kernels for all other instructions"),
    Phase("jit_recurrences", "compile the steps of recurrent sequences; their weights are prepared now",
          lambda facts: facts.use_jit and (facts.has_bodies or facts.has(lambda o: o.kind == "recurrent"))),
    Phase("loop_invariants", "move instructions that do not depend on the iteration; the instructions are final now",
          lambda facts: facts.has_bodies),
    Phase("jit_sequences", "join neighboring compiled kernels", lambda facts: facts.use_jit),
)  # fmt: skip


def list_needed(program: Program, use_jit: bool) -> Iterator[Phase]:
    """Yield the phases that a program needs, in order."""
    facts = Facts(program, use_jit)
    yield from [phase for phase in PHASES if phase.is_needed(facts)]
