"""Compiled kernels for convolutions, products, chains of elementwise operations and others, one instruction each."""

from __future__ import annotations

from irrun.fast.compressed import multiply_by_weights
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.jit_compilation import Compilation
from irrun.runtime.passes.jit_groups import replace_group
from irrun.runtime.passes.jit_singles import SINGLES
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import Program

__all__ = ["compile_program", "run"]


def run(program: Program, resources: Resources) -> None:
    """Replace instructions by compiled kernels, in bodies too.

    Args:
        program: Changed in place. Instructions that are replaced are kept as `plain`.
        resources: The memory of the weights of kernels.
    """
    for current in program.walk_programs():
        if not current.is_replaced:
            compile_program(current, resources.packed)


def compile_program(program: Program, packed: PackedMemory) -> None:
    """Replace the instructions of one program: quantized layers, then operations with epilogues, then all others.

    Args:
        program: Changed in place.
        packed: The memory of the weights of kernels.
    """
    compilation = Compilation(program, packed)
    if any(instruction.operation.quantizes for instruction in program.instructions):
        from irrun.runtime.passes.jit_quantized import use_quantized_kernels

        use_quantized_kernels(compilation)
    for number, instruction in enumerate(program.instructions):
        if number not in compilation.taken and instruction.kernel is multiply_by_weights:
            replace_compressed_product(compilation, number)
        compilation.attempt(number, replace_group)
    for number, instruction in enumerate(program.instructions):
        compilation.attempt(number, SINGLES.get(instruction.operation.type, Compilation.replace_expression))
    compilation.finish()


def replace_compressed_product(compilation: Compilation, number: int) -> None:
    """Replace a product with compressed weights by one that reads the stored form.

    Args:
        compilation: The compilation.
        number: The number of the instruction.
    """
    from irrun.fast.jit.compressed import CompressedKernel, supports

    instruction = compilation.instructions[number]
    if supports(instruction.attributes["weights"]):
        kernel = CompressedKernel(instruction.attributes["weights"])
        compilation.replace([number], kernel, instruction.inputs, plain=instruction.plain)
