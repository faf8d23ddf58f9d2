"""The first operations of compiled kernels with epilogues: convolutions, products and normalizations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import ConvolutionKernel, NormalizationKernel
from irrun.fast.jit.product_kernels import ProductKernel, VariableProductKernel
from irrun.fast.jit.variable_products import MAX_PACKED_SIZE, MIN_ROWS
from irrun.runtime.passes.jit_compilation import Compilation, Group, Kernel, is_row_or_full

__all__ = ["start_group"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
#: Minimum number of weights for compiled products.
MIN_WEIGHTS = 1 << 10


def start_group(compilation: Compilation, number: int) -> Group | None:
    """Return the group that an instruction starts, or None."""
    operation = compilation.instructions[number].operation
    if operation.convolves:
        return start_convolution(compilation, number)
    if operation.multiplies_matrices:
        return start_product(compilation, number)
    return start_normalization(compilation, number) if str(operation) == "MVN-6" else None


def start_convolution(compilation: Compilation, number: int) -> Group | None:
    """Return the group of a convolution with constant filters."""
    instruction, view = compilation.instructions[number], compilation.view
    filters = view.get_constant(instruction.inputs[1])
    value, data = instruction.outputs[0], instruction.inputs[0]
    shape = view.get_shape(value)
    if filters is None or filters.dtype != F32 or shape is None or not view.is_f32(data) or not view.is_f32(value):
        return None
    if len(shape) not in (3, 4) or view.get_constant(data) is not None or not filters.size:
        return None
    if not compilation.packed.fits(filters.nbytes):
        return None
    grouped = filters if instruction.operation.has_groups else filters[np.newaxis]
    if grouped.ndim != len(shape) + 1:
        return None

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return ConvolutionKernel(grouped, instruction.attributes, steps, operands, compilation.packed)

    group = Group(value, shape, create, (data,), [number], {value: ("value", 0)})
    compilation.extend(group)
    return group


def start_product(compilation: Compilation, number: int) -> Group | None:
    """Return the group of a product with constant weights, or of products of two values."""
    instruction, view = compilation.instructions[number], compilation.view
    if all(view.get_constant(slot) is None for slot in instruction.inputs):
        return start_variable_product(compilation, number)
    data, weights = instruction.inputs[0], view.get_constant(instruction.inputs[1])
    value = instruction.outputs[0]
    shape = view.get_shape(value)
    if weights is None or weights.ndim != 2 or weights.dtype != F32 or shape is None or not weights.size:
        return None
    transposes = bool(instruction.attributes.get("transpose_a"))
    if not view.is_f32(data) or not view.is_f32(value):
        return None
    if view.get_constant(data) is not None or weights.size < MIN_WEIGHTS or not compilation.packed.fits(weights.nbytes):
        return None
    rank = len(shape) if (data_shape := view.get_shape(data)) is None else len(data_shape)
    if transposes and rank < 2:
        return None
    matrix = weights.T if instruction.attributes.get("transpose_b") else weights

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        compilation.packed.reserve(weights.nbytes)
        return ProductKernel(rank, matrix, steps, operands, transposes)

    group = Group(value, shape, create, (data,), [number], {value: ("value", 0)})
    group.accepts = functools.partial(is_row_or_full, shape)
    compilation.extend(group)
    return group


def start_variable_product(compilation: Compilation, number: int) -> Group | None:
    """Return the group of products of two values of known shapes."""
    instruction, view = compilation.instructions[number], compilation.view
    value = instruction.outputs[0]
    shapes = [view.get_shape(slot) for slot in (value, *instruction.inputs)]
    if not all(map(view.is_f32, (value, *instruction.inputs))):
        return None
    if any(shape is None or None in shape or len(shape) < 2 for shape in shapes):
        return None
    transposes = tuple(bool(instruction.attributes.get(f"transpose_{name}")) for name in "ab")
    rows, columns = (shapes[0] or ())[-2:]
    inner = (shapes[2] or ())[-1 if transposes[1] else -2]
    if rows < MIN_ROWS or inner * columns > MAX_PACKED_SIZE:
        return None

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return VariableProductKernel((transposes[0], transposes[1]), steps, operands)

    group = Group(value, shapes[0] or (), create, instruction.inputs, [number], {value: ("value", 0)})
    group.accepts = lambda operand: is_row_or_full((rows, columns), operand[-2:])
    compilation.extend(group)
    return group


def start_normalization(compilation: Compilation, number: int) -> Group | None:
    """Return the group of a normalization along the last axes."""
    instruction, view = compilation.instructions[number], compilation.view
    data, axes, value = (
        instruction.inputs[0],
        view.get_constant(instruction.inputs[1]),
        instruction.outputs[0],
    )
    shape = view.get_shape(value)
    if axes is None or shape is None or not axes.size or not view.is_f32(data) or not view.is_f32(value):
        return None
    rank, count = len(shape), axes.size
    numbers = sorted(int(axis) + (rank if axis < 0 else 0) for axis in axes.reshape(-1))
    if count > rank or numbers != list(range(rank - count, rank)):
        return None

    def create(steps: tuple[Step, ...], operands: Sequence[Array | None]) -> Kernel:
        return NormalizationKernel(rank, count, instruction.attributes, steps, operands)

    group = Group(value, shape, create, (data,), [number], {value: ("value", 0)})
    group.accepts = functools.partial(is_row_or_full, shape) if count == 1 else lambda operand: False
    compilation.extend(group)
    return group
