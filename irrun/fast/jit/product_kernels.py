"""Kernels of MatMul that the pass `jit` creates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.products import Product
from irrun.fast.jit.tasks import Task
from irrun.limits import check_allocation

__all__ = ["ProductKernel"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

F32 = np.dtype(np.float32)

#: Shapes for which a kernel keeps its plan.
MAX_BINDINGS = 64


@dataclass(frozen=True)
class _BoundProduct:
    """A product for inputs of certain shapes.

    Attributes:
        shape: Of the result.
        task: The task.
        table: The addresses of the operands for each block of rows, without those of variables.
        variables: The positions of the variable operands.
    """

    shape: Shape
    task: Task
    table: Array
    variables: list[int]


class ProductKernel:
    """The kernel of a product with constant weights and an epilogue.

    Args:
        rank: The declared rank of the data.
        weights: f32, shape [K, N], with any strides.
        steps: The steps of the epilogue.
        operands: For each of its operands, its value if it is constant.
    """

    description = "compiled: product, panels of packed weights"

    def __init__(self, rank: int, weights: Array, steps: tuple[Step, ...], operands: Sequence[Array | None]) -> None:
        self._rank, self._steps = rank, steps
        self._product = Product(weights)
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._bindings: dict[tuple[Shape, ...], _BoundProduct] = {}

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Multiply, and compute the epilogue."""
        key = (data.shape, *[x.shape for x in variables])
        bound = self._bindings.get(key)
        if bound is None:
            bound = self._bind(data.shape, key[1:])
        if data.dtype != F32 or not all(x.dtype == F32 for x in variables):
            raise ValueError("expected f32")
        check_allocation(bound.shape, F32)
        data, table = make_contiguous(data), bound.table
        held = [make_contiguous(x) for x in variables]
        if held:
            table = table.copy()
            for position, x in zip(bound.variables, held, strict=True):
                table[:, position] += get_address(x)
        result = np.empty(bound.shape, F32)
        bound.task.run(get_address(data), get_address(result), get_address(table))
        return result

    def prepare(self, data_shape: Shape, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the data and the variable operands."""
        self._bind(data_shape, tuple(shapes))

    def _bind(self, data_shape: Shape, shapes: tuple[Shape, ...]) -> _BoundProduct:
        if len(data_shape) != self._rank or data_shape[-1] != self._product.inner or not math.prod(data_shape):
            raise ValueError("expected data of shape [..., K]")
        shape = (*data_shape[:-1], self._product.columns)
        remaining = iter(shapes)
        operands = [next(remaining) if x is None else x.shape for x in self._constants]
        expression = Expression(tuple(classify_operand(x, shape) for x in operands), self._steps)
        task, table = self._product.bind(math.prod(data_shape[:-1]), expression)
        for position, x in enumerate(self._constants):
            if x is not None:
                table[:, position] += get_address(x)
        bound = _BoundProduct(shape, task, table, [i for i, x in enumerate(self._constants) if x is None])
        if len(self._bindings) >= MAX_BINDINGS:
            self._bindings.clear()
        key = (data_shape, *shapes)
        self._bindings[key] = bound
        return bound


def classify_operand(operand: Shape, shape: Shape) -> str:
    """Return the kind of an operand of the epilogue of a product for a result of a shape.

    Raises:
        ValueError: It broadcasts in another way.
    """
    if len(operand) <= len(shape):
        if math.prod(operand) == 1:
            return "scalar"
        if operand == shape:
            return "full"
        if operand[-1] == math.prod(operand) == shape[-1]:
            return "column"
    raise ValueError("expected an operand with the shape of the result or of its columns")
