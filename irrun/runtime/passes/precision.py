"""Computation of graphs in f16 and bf16 in f32, or of all floating-point graphs in f64.

OpenVINO's CPU plugin computes f16 graphs in f32 if its precision hint is f32. Values are then not rounded between
operations. The declared types of the inputs, outputs and variables of the model stay, as does the rounding of

- constants that are stored in a wider type and converted to f16;
- values that a Convert of the model rounds to bf16.

Instructions that this pass inserts are not observed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ir.graph import Layer, Port
from irrun.ops._support import registry
from irrun.ops._support.operation import Operation
from irrun.runtime.custom_kernels import GuardedKernel
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["PRECISIONS", "change_precision", "has_low_precision"]

F16, BF16, F32, F64 = (ELEMENT_TYPES[name] for name in ("f16", "bf16", "f32", "f64"))
#: Precision -> the types that it replaces, with the type that replaces them.
PRECISIONS: dict[str, dict[ElementType, ElementType]] = {
    "declared": {},
    "f32": {F16: F32, BF16: F32},
    "f64": {F16: F64, BF16: F64, F32: F64},
}
#: Constants of at most this many bytes are converted at once, larger ones by constant folding or in each run.
SMALL_CONSTANT = 1 << 16


def change_precision(program: Program, precision: str, keeps_output_types: bool = True) -> None:
    """Compute a program and its bodies in another precision.

    Args:
        program: Changed in place, before any other pass.
        precision: A key of `PRECISIONS`.
        keeps_output_types: Whether outputs are converted to their declared types.
    """
    types = PRECISIONS[precision]
    if not types or not (precision == "f64" or has_low_precision(program)):
        return
    for current in program.walk_programs():
        converter = _Converter(current, types)
        if current is program:
            converter.convert_interface(keeps_output_types)
        else:
            converter.convert_body()


def has_low_precision(program: Program) -> bool:
    """Return whether a program or one of its bodies computes in f16 or bf16.

    Constants that are converted to other types before other operations use them, such as compressed weights, do not
    count.
    """
    return any(map(_computes_in_low_precision, program.walk_programs()))


def _computes_in_low_precision(program: Program) -> bool:
    """Return whether a program computes in f16 or bf16 outside its bodies."""
    types = PRECISIONS["f32"]
    if any(_get_declared_type(layer.outputs) in types for layer in program.parameter_layers):
        return True
    constants = set(program.constant_layers)
    low = {s for s in constants if _get_type(program.initial[s]) in types}
    for instruction in program.instructions:
        if _is_constant(instruction, constants):
            constants.update(instruction.outputs)
            low.update(s for s in instruction.outputs if _find_declared_type(instruction, s) in types)
            continue
        if any(type(value) is ElementType and value in types for value in instruction.attributes.values()):
            return True
        if low and not instruction.operation.converts and not low.isdisjoint(instruction.inputs):
            return True
    return False


class _Converter:
    """Changes the types of one program."""

    def __init__(self, program: Program, types: Mapping[ElementType, ElementType]) -> None:
        self.program = program
        self.types = types
        convert = registry.find("Convert", "opset1")
        assert convert is not None
        self.operation: Operation = convert
        self.instructions: list[Instruction] = []
        #: Slot of a value in its declared type -> slot of the same value in the new type.
        self.slots: dict[int, int] = {}
        #: Slots of values that depend only on constants, with their declared types. Where f16 becomes f32, they are
        #: computed as declared: the passes for compressed weights recognize them.
        self.constants: dict[int, ElementType | None] = {
            s: _get_type(program.initial[s]) for s in program.constant_layers
        }
        self.keeps_constants = F32 not in types
        program.computed_types = {source.dtype: target.dtype for source, target in types.items()}

    def convert_interface(self, keeps_output_types: bool) -> None:
        """Change the program. Its parameters and results keep their declared types."""
        program = self.program
        for slot, layer in zip(program.parameters, program.parameter_layers, strict=True):
            declared = _get_declared_type(layer.outputs)
            if declared is not None and declared in self.types:
                self.slots[slot] = self.add_convert(slot, self.types[declared], layer)
        self.convert_instructions()
        program.instructions = self.instructions
        for i, layer in enumerate(program.result_layers):
            slot = program.results[i]
            if slot in program.parameters or slot in program.constant_layers:
                continue
            declared = _get_declared_type(layer.inputs) or self.find_declared_type(slot)
            if keeps_output_types and declared is not None and declared in self.types:
                program.results[i] = self.add_convert(slot, declared, layer)
        program.free_after_last_use()

    def convert_body(self) -> None:
        """Change the program of a body, which gets values in the new types."""
        self.convert_instructions()
        self.program.results = [self.get_slot(slot) for slot in self.program.results]
        self.program.instructions = self.instructions
        self.program.free_after_last_use()

    def find_declared_type(self, slot: int) -> ElementType | None:
        """Return the declared type of the value in a slot of an instruction's output, or None."""
        for instruction in self.program.instructions:
            if slot in instruction.outputs:
                return _find_declared_type(instruction, slot)
        return None

    def convert_instructions(self) -> None:
        for instruction in self.program.instructions:
            is_constant = _is_constant(instruction, self.constants)
            if is_constant and self.keeps_constants:
                self.instructions.append(instruction)
            elif instruction.operation.converts:
                self.change_convert(instruction)
            else:
                self.change_instruction(instruction)
            if is_constant:
                self.constants.update((s, _find_declared_type(instruction, s)) for s in instruction.outputs)

    def change_instruction(self, instruction: Instruction) -> None:
        """Replace the types in the attributes and the inputs."""
        instruction.inputs = tuple(self.get_slot(slot) for slot in instruction.inputs)
        if isinstance(instruction.kernel, GuardedKernel):
            instruction.kernel = instruction.kernel.with_types(self.types)
        attributes = instruction.attributes
        is_random = instruction.operation.type == "RandomUniform"  # its bits depend on the type if it is f32 or f64
        types = {F16: F32, BF16: F32} if is_random else self.types
        replaced = {name: types[v] for name, v in attributes.items() if type(v) is ElementType and v in types}
        if replaced:
            instruction.attributes = {**attributes, **replaced}
        keeps_type = is_random and self.types.get(F32) == F64
        if keeps_type:
            self.narrow_bounds(instruction)
        self.instructions.append(instruction)
        if keeps_type or instruction.operation.type == "ConvertPromoteTypes":
            self.widen_outputs(instruction)

    def change_convert(self, instruction: Instruction) -> None:
        """Replace the type that a Convert converts to; see the module for rounding that stays."""
        source, target = instruction.inputs[0], instruction.attributes["destination_type"]
        constant_type = self.constants.get(source)
        if target in self.types:
            is_rounded = target != F32 and source in self.constants and (not constant_type or constant_type.bits > 8)
            if is_rounded or target == BF16:
                source = self.add_convert(
                    source if source in self.constants else self.get_slot(source), target, instruction.layer
                )
            instruction.attributes = {**instruction.attributes, "destination_type": self.types[target]}
        # Constants are converted from their stored type.
        instruction.inputs = (source if source in self.constants else self.get_slot(source),)
        self.instructions.append(instruction)

    def narrow_bounds(self, instruction: Instruction) -> None:
        """Convert the bounds of random numbers to the type of the numbers."""
        shape, *bounds = instruction.inputs
        element_type = instruction.attributes["output_type"]
        if element_type.is_float:
            bounds = [self.add_convert(slot, element_type, instruction.layer) for slot in bounds]
        instruction.inputs = (shape, *bounds)

    def widen_outputs(self, instruction: Instruction) -> None:
        """Convert the outputs of an instruction that keeps its own types."""
        outputs = []
        for slot in instruction.outputs:
            declared = _find_declared_type(instruction, slot)
            if declared is not None and declared in self.types:
                outputs.append(self.program.add_slot())
                self.instructions.append(self.make_convert(outputs[-1], slot, self.types[declared], instruction.layer))
            else:
                outputs.append(slot)
        instruction.outputs = tuple(outputs)

    def get_slot(self, slot: int) -> int:
        """Return the slot of a value in the new type: the same slot if the value is computed in that type."""
        if slot in self.slots or slot not in self.constants:
            return self.slots.get(slot, slot)
        value, element_type = self.program.initial[slot], self.constants[slot]
        if (
            element_type is None
            or element_type not in self.types
            or not (self.keeps_constants or slot in self.program.constant_layers)
        ):
            return slot
        target = self.types[element_type]
        layer = self.program.constant_layers.get(slot)
        if value is not None and layer is not None and value.nbytes <= SMALL_CONSTANT:
            with np.errstate(all="ignore"):
                converted = value.astype(target.dtype)
            converted.flags.writeable = False
            result = self.program.add_slot(converted, layer)
        else:
            result = self.add_convert(slot, target, layer or self.find_layer(slot))
        self.slots[slot] = result
        return result

    def find_layer(self, slot: int) -> Layer:
        """Return the layer that computes a slot."""
        return next(i.layer for i in self.program.instructions if slot in i.outputs)

    def add_convert(self, slot: int, target: ElementType, layer: Layer) -> int:
        """Append an instruction that converts a value, and return the slot of the result."""
        result = self.program.add_slot()
        self.instructions.append(self.make_convert(slot, result, target, layer))
        return result

    def make_convert(self, source: int, result: int, target: ElementType, layer: Layer) -> Instruction:
        # Constant folding estimates sizes by the declared types of ports.
        shape = layer.outputs[0].shape if layer.outputs else None
        return Instruction(
            self.operation.kernel,
            (source,),
            (result,),
            replace(layer, type="Convert", outputs=[Port(1, target, shape)], bodies={}, constant=None),
            self.operation,
            {"destination_type": target},
            is_observed=False,
        )


def _get_type(value: np.ndarray[Any, Any] | None) -> ElementType | None:
    return None if value is None else ElementType.of(value.dtype)


def _is_constant(instruction: Instruction, constants: Container[int]) -> bool:
    """Return whether the outputs of an instruction depend only on constants."""
    return instruction.is_pure and all(slot == ABSENT or slot in constants for slot in instruction.inputs)


def _find_declared_type(instruction: Instruction, slot: int) -> ElementType | None:
    """Return the declared type of an output."""
    position, ports = instruction.outputs.index(slot), instruction.layer.outputs
    return ports[position].element_type if position < len(ports) else None


def _get_declared_type(ports: list[Port]) -> ElementType | None:
    return ports[0].element_type if ports else None
