"""Compiled loops: if all operations of a body have a compiled form, iterations run without the interpreter.

The body stays unchanged for profiles, and for shapes without a plan.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from irrun.fast.jit.body_operations import can_compile
from irrun.fast.jit.body_plans import BodyStep, count_strides
from irrun.fast.jit.compiled_loops import CompiledLoop, InvariantStep, LoopBody
from irrun.fast.jit.nests import StridedLayout
from irrun.fast.packing import PackedMemory
from irrun.fast.vectorization import get_kernel
from irrun.ir.graph import Port
from irrun.runtime.passes.engine import Changes, Match, RefusalError, Rule, View, apply_rules
from irrun.runtime.passes.loop_invariants import divide_body
from irrun.runtime.passes.loops_to_sequences import LOOP, has_trip_count
from irrun.runtime.passes.phases import Resources
from irrun.runtime.passes.specialization import make_site
from irrun.runtime.program import ABSENT, BodyProgram, Instruction, Program

__all__ = ["run"]

Array = np.ndarray[Any, Any]

#: The size of dynamic dimensions for compiling kernels before their shapes are known.
ASSUMED_DIMENSION = 2


def run(program: Program, resources: Resources) -> None:
    """Replace the kernels of loops, in bodies too.

    Args:
        program: Changed in place.
        resources: The memory of the weights of kernels.
    """
    apply_rules(program, [Rule("compile a loop", LOOP, partial(_build, resources.packed), _check)])


def _check(view: View, match: Match) -> str:
    loop = match["loop"]
    if "body" not in loop.bodies:
        return "all iterations are computed at once" if loop.plain else "the kernel is not irrun's plain kernel"
    return "an input is not connected" if ABSENT in loop.inputs else ""


def _build(packed: PackedMemory, view: View, match: Match) -> Changes:
    loop = match["loop"]
    body = loop.bodies["body"]
    described = _describe_body(body, packed)
    weights = sum(x.nbytes for own in described.steps for x in own.site.constants if x is not None and x.ndim == 2)
    if not packed.fits(weights):
        raise RefusalError("the prepared weights do not fit into the memory for weights")
    is_static, parameters, invariants = _declare_values(body, described, loop)
    try:
        varying = _list_varying(body)
        described.make_plan(parameters, invariants, varying, list(dict.fromkeys(described.results)))
    except Exception as error:
        if is_static:
            raise RefusalError(str(error) or type(error).__name__) from error
    else:
        body.program.is_replaced = True
    packed.reserve(weights)
    kernel = CompiledLoop(loop.kernel, described, has_trip_count(loop.operation))
    yield loop, (replace(loop, kernel=kernel, description="compiled: all iterations"),)


def _describe_body(body: BodyProgram, packed: PackedMemory) -> LoopBody:
    """Return the body with its operations.

    Raises:
        RefusalError: An operation has no compiled form.
    """
    program = body.program
    constants = {slot: x for slot in program.constant_layers if (x := program.initial[slot]) is not None}
    first, rest = divide_body(body)
    invariant_instructions = {id(instruction) for instruction in first}
    known = {ABSENT, *constants}
    invariant: list[InvariantStep] = []
    steps: list[BodyStep] = []
    for instruction in (*first, *rest):
        if instruction.bodies or instruction.provided or instruction.plain:
            raise RefusalError(f"{instruction.layer.describe()} is not compiled in bodies")
        step = BodyStep(make_site(program, instruction, packed), instruction.inputs, instruction.outputs)
        is_known = known.issuperset(instruction.inputs) and instruction.operation.folding != "never"
        if is_known or instruction.operation.gives_shape:
            known.update(instruction.outputs)
        elif id(instruction) in invariant_instructions:
            invariant.append(_make_invariant_step(step))
            continue
        elif reason := can_compile(step):
            raise RefusalError(f"{reason}: {instruction.layer.describe()}")
        steps.append(step)
    return LoopBody(constants, tuple(program.parameters), tuple(program.results), tuple(invariant), tuple(steps))


def _make_invariant_step(step: BodyStep) -> InvariantStep:
    try:
        kernel = get_kernel(step.site)
    except Exception as error:  # the plain kernels refuse constants with a message when they run
        raise RefusalError("a constant in the body is invalid") from error
    return InvariantStep(kernel, tuple(step.inputs[i] for i in step.site.variable_inputs), step.outputs)


def _list_varying(body: BodyProgram) -> list[int]:
    """Return the slots of the Parameters that differ between iterations."""
    numbers = {entry.parameter for entry in body.inputs if entry.axis is not None or entry.purpose}
    numbers.update(edge.parameter for edge in body.back_edges)
    return [body.program.parameters[number] for number in sorted(numbers)]


def _declare_values(
    body: BodyProgram, described: LoopBody, loop: Instruction
) -> tuple[bool, dict[int, StridedLayout], dict[int, Array]]:
    """Return whether all declared shapes are static, the layouts of the Parameters, and invariant values.

    Values have the declared shapes and types, with a number instead of dynamic dimensions.
    """
    program = body.program
    ports = program.map_ports()
    slices = {entry.parameter: entry for entry in body.inputs if entry.axis is not None}
    is_static = True
    parameters = {}
    for number, slot in enumerate(program.parameters):
        static, shape, dtype = _declare(program, ports.get(slot))
        is_static &= static
        strides = count_strides(shape, dtype)
        if number in slices:
            entry = slices[number]
            outer = _declare(program, loop.layer.inputs[entry.port])[1]
            if len(outer) == len(shape):
                strides = count_strides(outer, dtype)
        parameters[slot] = StridedLayout(shape, strides, dtype)
    invariants: dict[int, Array] = {}
    read = {slot for step in described.steps for slot in step.inputs} | set(described.results)
    for own in described.invariant:
        for slot in own.outputs:
            if slot in read:
                static, shape, dtype = _declare(program, ports.get(slot))
                is_static &= static
                invariants[slot] = np.broadcast_to(np.zeros((), dtype), shape)
    return is_static, parameters, invariants


def _declare(program: Program, port: Port | None) -> tuple[bool, tuple[int, ...], np.dtype[Any]]:
    """Return whether a declared shape is static, the shape, and the type of the value."""
    if port is None or port.element_type is None or port.shape is None:
        return False, (ASSUMED_DIMENSION,), np.dtype(np.float32)
    declared = port.element_type.dtype
    shape = tuple(d if isinstance(d, int) else ASSUMED_DIMENSION for d in port.shape)
    return port.shape.is_static, shape, np.dtype(program.computed_types.get(declared, declared))
