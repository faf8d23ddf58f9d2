"""The first operations of compiled kernels with epilogues: convolutions, products and normalizations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import ConvolutionKernel, NormalizationKernel
from irrun.fast.jit.product_kernels import ProductKernel, VariableProductKernel
from irrun.fast.jit.variable_products import MAX_PACKED_SIZE, MIN_ROWS
from irrun.runtime.passes.jit_compilation import Compilation, Group, Kernel, is_row_or_full

__all__ = ["replace_group"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
NO_MEMORY = "the prepared weights do not fit into the memory for weights"
#: Minimum number of weights for compiled products.
MIN_WEIGHTS = 1 << 10


def replace_group(compilation: Compilation, number: int) -> None:
    """Replace the group that an instruction starts, if it is one of these operations.

    Raises:
        NoKernelError: It has no compiled kernel.
    """
    operation = compilation.instructions[number].operation
    start = start_normalization if str(operation) == "MVN-6" else None
    if operation.convolves:
        start = start_convolution
    elif operation.multiplies_matrices:
        start = start_product
    if start is not None:
        group = start(compilation, number)
        compilation.extend(group)
        compilation.replace_group(group)


def start_convolution(compilation: Compilation, number: int) -> Group:
    """Return the group of a convolution with constant filters."""
    instruction, view = compilation.instructions[number], compilation.view
    filters = view.get_constant(instruction.inputs[1])
    value, data = instruction.outputs[0], instruction.inputs[0]
    shape = view.get_shape(value)
    if filters is None or filters.dtype != F32 or not view.is_f32(data) or not view.is_f32(value):
        raise NoKernelError("not f32 with constant filters")
    if shape is None or len(shape) not in (3, 4) or view.get_constant(data) is not None or not filters.size:
        raise NoKernelError("not a variable value of rank 3 or 4")
    if not compilation.packed.fits(filters.nbytes):
        raise NoKernelError(NO_MEMORY)
    grouped = filters if instruction.operation.has_groups else filters[np.newaxis]
    if grouped.ndim != len(shape) + 1:
        raise NoKernelError("data and filters have different ranks")

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return ConvolutionKernel(grouped, instruction.attributes, steps, operands, compilation.packed)

    return Group(value, shape, create, (data,), [number], {value: ("value", 0)})


def start_product(compilation: Compilation, number: int) -> Group:
    """Return the group of a product with constant weights, or of products of two values."""
    instruction, view = compilation.instructions[number], compilation.view
    if all(view.get_constant(slot) is None for slot in instruction.inputs):
        return start_variable_product(compilation, number)
    data, weights = instruction.inputs[0], view.get_constant(instruction.inputs[1])
    value = instruction.outputs[0]
    shape = view.get_shape(value)
    if weights is None or weights.ndim != 2 or weights.dtype != F32 or not view.is_f32(data) or not view.is_f32(value):
        raise NoKernelError("not f32 with a constant matrix as the second input")
    if shape is None or view.get_constant(data) is not None:
        raise NoKernelError("not a variable value of known rank")
    if weights.size < MIN_WEIGHTS:
        raise NoKernelError(f"NumPy is as fast for fewer than {MIN_WEIGHTS:,} weights")
    if not compilation.packed.fits(weights.nbytes):
        raise NoKernelError(NO_MEMORY)
    transposes = bool(instruction.attributes.get("transpose_a"))
    rank = len(shape) if (data_shape := view.get_shape(data)) is None else len(data_shape)
    if transposes and rank < 2:
        raise NoKernelError("a vector is not transposed")
    matrix = weights.T if instruction.attributes.get("transpose_b") else weights

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        compilation.packed.reserve(weights.nbytes)
        return ProductKernel(rank, matrix, steps, operands, transposes)

    group = Group(value, shape, create, (data,), [number], {value: ("value", 0)})
    group.accepts = functools.partial(is_row_or_full, shape)
    return group


def start_variable_product(compilation: Compilation, number: int) -> Group:
    """Return the group of products of two values of known shapes."""
    instruction, view = compilation.instructions[number], compilation.view
    value = instruction.outputs[0]
    shapes = [view.get_shape(slot) for slot in (value, *instruction.inputs)]
    if not all(map(view.is_f32, (value, *instruction.inputs))):
        raise NoKernelError("not f32")
    if any(shape is None or None in shape or len(shape) < 2 for shape in shapes):
        raise NoKernelError("not matrices of known shapes")
    transposes = tuple(bool(instruction.attributes.get(f"transpose_{name}")) for name in "ab")
    rows, columns = (shapes[0] or ())[-2:]
    inner = (shapes[2] or ())[-1 if transposes[1] else -2]
    if rows < MIN_ROWS or inner * columns > MAX_PACKED_SIZE:
        raise NoKernelError(f"NumPy is as fast for fewer than {MIN_ROWS} rows, or large matrices")

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return VariableProductKernel((transposes[0], transposes[1]), steps, operands)

    group = Group(value, shapes[0] or (), create, instruction.inputs, [number], {value: ("value", 0)})
    group.accepts = lambda operand: is_row_or_full((rows, columns), operand[-2:])
    return group


def start_normalization(compilation: Compilation, number: int) -> Group:
    """Return the group of a normalization along the last axes."""
    instruction, view = compilation.instructions[number], compilation.view
    data, value = instruction.inputs[0], instruction.outputs[0]
    axes, shape = view.get_constant(instruction.inputs[1]), view.get_shape(value)
    if axes is None or shape is None or not axes.size or not view.is_f32(data) or not view.is_f32(value):
        raise NoKernelError("not f32 of known rank with constant axes")
    rank, count = len(shape), axes.size
    numbers = sorted(int(axis) + (rank if axis < 0 else 0) for axis in axes.reshape(-1))
    if count > rank or numbers != list(range(rank - count, rank)):
        raise NoKernelError("not along the last axes")

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return NormalizationKernel(rank, count, instruction.attributes, steps, operands)

    group = Group(value, shape, create, (data,), [number], {value: ("value", 0)})
    group.accepts = functools.partial(is_row_or_full, shape) if count == 1 else lambda operand: False
    return group
