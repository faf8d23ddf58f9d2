"""Compressed weights: compute products with them, and read rows of them, without decompressing all of them.

Exporters store weights [N, K] as codes of few bits. A chain of instructions decompresses them: Convert, Subtract of
a zero point, Multiply by a scale, Reshape of groups, Convert. Constant folding would replace the chain by weights in
f32, which take four to eight times the memory. Where only MatMul and Gather consume them, the chain is kept instead,
and a specialized kernel replaces it together with its consumer.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.fast.arranged_weights import ArrangedWeights, multiply_by_arranged_weights
from irrun.fast.compressed import (
    CompressedWeights,
    gather_rows,
    has_only_finite_values,
    is_compressed_type,
    multiply_by_weights,
)
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.budget import Budget
from irrun.runtime.passes.engine import Pattern, View
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import Instruction, Program

__all__ = ["decompress_weights", "find_compressed_weights", "run"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

GATHER = Pattern("rows", has=lambda operation: operation.gathers)
SUBTRACT = Pattern("centered codes", ("Subtract",))
MULTIPLY = Pattern("scaled codes", ("Multiply",))
RESHAPE = Pattern("ungrouped weights", ("Reshape",))
#: Operations that may compute a zero point or a scale from a constant.
PARAMETER = Pattern("zero point or scale", ("Convert", "Reshape", "Unsqueeze"))

#: Weights of fewer elements are decompressed when a model is compiled.
MIN_ELEMENTS = 1 << 14
#: Weights of a model that take no more memory in f32 stay in the processor's cache and are decompressed.
MIN_TOTAL_BYTES = 32 << 20


def find_compressed_weights(program: Program, min_total_bytes: int = MIN_TOTAL_BYTES) -> None:
    """Find weights that can stay compressed, in bodies too.

    Args:
        program: `compressed` is set; its slots are not folded afterwards.
        min_total_bytes: Minimum total size in f32 for weights to stay compressed, in bytes.
    """
    programs = list(program.walk_programs())
    for current in programs:
        current.compressed = _Finder(current).run()
    total = sum(w.codes.size * 4 for current in programs for w in current.compressed.values())
    if total < min_total_bytes:
        for current in programs:
            current.compressed = {}


def decompress_weights(program: Program, budget: Budget) -> None:
    """Decompress f16 weights, in bodies too, as far as the budget allows, since products are faster in f32.

    Args:
        program: Changed in place.
        budget: The memory limit for decompressed weights.
    """
    for current in program.walk_programs():
        view = View(current)
        consumers, producers = view.consumers, view.producers
        decompressed = []
        for slot, weights in sorted(current.compressed.items(), key=lambda item: item[1].codes.size):
            is_multiplied = any(i.operation.multiplies_matrices for i in consumers[slot])
            if weights.codes.dtype != np.float16 or not is_multiplied or weights.codes.size * 4 > budget.memory:
                continue
            value = weights.decompress()
            value.flags.writeable = False
            budget.spend_memory(value.nbytes)
            current.initial[slot] = value
            current.constant_layers[slot] = producers[slot].layer
            del current.compressed[slot]
            decompressed.append(slot)
        if decompressed:
            _remove_chains(current, decompressed, producers)


def run(program: Program, resources: Resources) -> None:
    """Replace the consumers of compressed weights and the chains that decompress them, in bodies too.

    Args:
        program: Changed in place.
        resources: The memory of copies of weights that are arranged for products.
    """
    for current in program.walk_programs():
        if not current.compressed:
            continue
        producers = {slot: i for i in current.instructions for slot in i.outputs}
        current.instructions = [_replace_consumer(current, i, producers) for i in current.instructions]
        _remove_chains(current, current.compressed, producers)
        _arrange_weights(current, resources.arranged)


def _replace_consumer(program: Program, instruction: Instruction, producers: dict[int, Instruction]) -> Instruction:
    slot = next((s for s in instruction.inputs if s in program.compressed), None)
    if slot is None or not _is_consumer(program, instruction, slot):
        return instruction
    is_product = instruction.inputs[1] == slot  # the weights of a Gather are its first input
    return replace(
        instruction,
        kernel=multiply_by_weights if is_product else gather_rows,
        attributes={"weights": program.compressed[slot]},
        inputs=(instruction.inputs[0 if is_product else 1],),
        plain=(*(_bind_constants(program, i) for i in _list_chain(program, slot, producers)), instruction),
    )


def _arrange_weights(program: Program, memory: PackedMemory) -> None:
    """Replace the weights of products by rearranged copies, as far as the memory allows."""
    copies: dict[int, ArrangedWeights] = {}
    for instruction in program.instructions:
        if instruction.kernel is not multiply_by_weights:
            continue
        weights: CompressedWeights = instruction.attributes["weights"]
        size = weights.codes.size
        if id(weights) not in copies:
            if not ArrangedWeights.is_arrangeable(weights) or not memory.fits(size):
                continue
            copies[id(weights)] = ArrangedWeights(weights)
            memory.reserve(size)
        instruction.kernel = multiply_by_arranged_weights
        instruction.attributes = {"weights": copies[id(weights)]}


def _bind_constants(program: Program, instruction: Instruction) -> Instruction:
    """Return an instruction without inputs if all of them are constant, so that the program need not keep them."""
    if not all(slot in program.constant_layers for slot in instruction.inputs):
        return instruction
    arguments = [program.initial[slot] for slot in instruction.inputs]
    kernel = functools.partial(instruction.kernel, *arguments)
    postponed = [program.postponed[slot] for slot in instruction.inputs if slot in program.postponed]
    if postponed:
        from irrun.runtime.passes.postponed_constants import fill_and_call

        kernel = functools.partial(fill_and_call, postponed, kernel)
    return replace(instruction, kernel=kernel, inputs=())


def _is_consumer(program: Program, instruction: Instruction, slot: int) -> bool:
    """Return whether an instruction multiplies by transposed weights or gathers rows of them."""
    inputs = instruction.inputs
    if inputs.count(slot) != 1:
        return False
    if instruction.operation.multiplies_matrices:
        attributes = instruction.attributes
        return inputs[1] == slot and bool(attributes.get("transpose_b")) and not attributes.get("transpose_a")
    if GATHER.accepts(instruction):
        axis = program.initial[inputs[2]] if inputs[2] in program.constant_layers else None
        is_first_axis = axis is not None and axis.size == 1 and int(axis.reshape(())) in (0, -2)
        return inputs[0] == slot and is_first_axis and not instruction.attributes.get("batch_dims")
    return False


def _list_chain(program: Program, slot: int, producers: dict[int, Instruction]) -> list[Instruction]:
    """Return the instructions that compute a slot from constants, in order."""
    chain: list[Instruction] = []

    def visit(current: int) -> None:
        instruction = producers.get(current)
        is_known = current in program.constant_layers and current != slot
        if instruction is None or is_known or any(i is instruction for i in chain):
            return
        for source in instruction.inputs:
            visit(source)
        chain.append(instruction)

    visit(slot)
    return chain


def _remove_chains(program: Program, slots: Collection[int], producers: dict[int, Instruction]) -> None:
    """Remove the instructions that compute some slots, unless something else consumes their outputs."""
    chains = {id(i) for slot in slots for i in _list_chain(program, slot, producers)}
    used = set(program.results)
    kept = []
    for instruction in reversed(program.instructions):
        required = used.intersection(instruction.outputs).difference(program.constant_layers)
        if id(instruction) not in chains or required:
            kept.append(instruction)
            used.update(instruction.inputs)
    program.instructions = kept[::-1]
    program.drop_unused_constants()


class _Finder:
    """Finds the compressed weights of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.view = View(program)
        self.producers, self.consumers = self.view.producers, self.view.consumers

    def run(self) -> dict[int, CompressedWeights]:
        weights: dict[int, CompressedWeights] = {}
        for slot, consumers in self.consumers.items():
            if slot not in self.producers or slot in self.program.results:
                continue
            if all(_is_consumer(self.program, i, slot) for i in consumers):
                parsed = self.parse_chain(slot)
                if parsed is not None and parsed.codes.size >= MIN_ELEMENTS:
                    weights[slot] = parsed
        return weights

    def parse_chain(self, slot: int) -> CompressedWeights | None:
        """Return the weights that a chain of instructions decompresses, or None for an unexpected form."""
        slot = self.skip_identity(slot)
        shape = None
        instruction = self.producers.get(slot)
        if instruction is not None and RESHAPE.accepts(instruction):
            shape = self.parse_shape(instruction)
            if shape is None:
                return None
            slot = self.skip_identity(instruction.inputs[0])
        scale = zero_point = None
        if (operands := self.split_operands(slot, MULTIPLY)) is not None:
            slot, scale = operands
        if (operands := self.split_operands(slot, SUBTRACT)) is not None:
            slot, zero_point = operands
        codes = self.parse_codes(slot)
        if codes is None:
            return None
        weights = _make_weights(codes, zero_point, scale, shape)
        if weights is not None and weights.shape[1] % 2 == 0:
            weights.nibbles = self.find_nibbles(self.producers[slot].inputs[0], weights.shape)
        return weights

    def skip_identity(self, slot: int) -> int:
        """Return the input of a Convert from f32 to f32, or the slot itself."""
        instruction = self.producers.get(slot)
        if instruction is None or not instruction.converts_to(F32):
            return slot
        source = self.producers.get(instruction.inputs[0])
        return instruction.inputs[0] if source is not None and _computes_f32(source) else slot

    def parse_shape(self, instruction: Instruction) -> tuple[int, int] | None:
        target = self.view.get_constant(instruction.inputs[1])
        if target is None or target.shape != (2,) or int(target.min()) <= 0:
            return None
        return int(target[0]), int(target[1])

    def split_operands(self, slot: int, pattern: Pattern) -> tuple[int, Array] | None:
        """Return the slot of the first operand and the value of the constant second one."""
        instruction = self.producers.get(slot)
        if instruction is None or not pattern.accepts(instruction):
            return None
        value = self.compute_constant(instruction.inputs[1])
        return None if value is None or value.dtype != F32 else (instruction.inputs[0], value)

    def parse_codes(self, slot: int) -> Array | None:
        instruction = self.producers.get(slot)
        if instruction is None or not instruction.converts_to(F32):
            return None
        codes = self.view.get_constant(instruction.inputs[0])
        if codes is None or not is_compressed_type(codes.dtype) or not codes.flags.aligned:
            return None
        if codes.dtype == np.float16 and not has_only_finite_values(codes):
            return None
        return codes

    def find_nibbles(self, slot: int, shape: tuple[int, int]) -> Array | None:
        """Return the codes of a constant of u4 or i4 as they are stored, shape [N, K / 2]."""
        layer = self.program.constant_layers.get(slot)
        constant = None if layer is None else layer.constant
        if constant is None or constant.data is None or constant.element_type.name not in ("i4", "u4"):
            return None
        return np.frombuffer(constant.data, np.uint8, constant.size).reshape(shape[0], shape[1] // 2)

    def compute_constant(self, slot: int) -> Array | None:
        """Return a zero point or a scale, which may be converted or reshaped."""
        if slot in self.program.postponed:
            self.program.postponed.pop(slot).fill()
        value = self.view.get_constant(slot)
        if value is not None:
            return value
        instruction = self.producers.get(slot)
        if instruction is None or not PARAMETER.accepts(instruction):
            return None
        arguments = [self.compute_constant(s) for s in instruction.inputs]
        if any(argument is None for argument in arguments):
            return None
        try:
            return np.asarray(instruction.kernel(*arguments, **instruction.attributes))
        except Exception:  # the model reports it when it runs
            return None


def _computes_f32(instruction: Instruction) -> bool:
    """Return whether the result is f32 according to the declared types, which the pass of decompression set."""
    if instruction.operation.converts:
        return instruction.converts_to(F32)
    ports = instruction.layer.outputs
    return bool(ports) and ports[0].element_type is not None and ports[0].element_type.dtype == F32


def _make_weights(
    codes: Array, zero_point: Array | None, scale: Array | None, shape: tuple[int, int] | None
) -> CompressedWeights | None:
    """Return weights with zero points and scales per group, or None if they do not have this form."""
    if codes.ndim not in (2, 3) or not codes.size:
        return None
    rows, columns = codes.shape[0], codes.size // codes.shape[0]
    if (shape is None and codes.ndim != 2) or (shape is not None and shape != (rows, columns)):
        return None
    groups = codes.shape[1] if codes.ndim == 3 else 1
    parameters = []
    for value in (zero_point, scale):
        if value is None or value.size == 1:
            parameters.append(None if value is None else value.reshape(1, 1))
            continue
        if value.ndim != codes.ndim or value.shape[-1] != 1 or (codes.ndim == 3 and value.shape[1] != groups):
            return None
        if value.shape[0] != rows:
            return None
        # Kernels read the parameters of many rows for one group at a time.
        parameters.append(np.asfortranarray(value.reshape(rows, groups)))
    zero_points = parameters[0]
    if zero_points is not None and zero_points.min() == zero_points.max():
        parameters[0] = zero_points[:1, :1].copy() if zero_points.any() else None
    return CompressedWeights(codes.reshape(rows, columns), parameters[0], parameters[1], groups)
