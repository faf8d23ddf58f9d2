"""Kernels of MatMul that the pass `jit` creates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import CONSTANT, RESULT, TABLE, Binding, Layout, Operand, Shape, keep_binding, make_layout
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.products import Product
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Task
from irrun.fast.jit.variable_products import bind_products, describe_products
from irrun.limits import check_allocation

__all__ = ["ProductKernel", "VariableProductKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class _BoundProduct:
    """A product for inputs of certain shapes.

    Attributes:
        shape: The shape of the result.
        task: The task.
        table: The addresses of the operands for each block of rows, without variable operands.
        variables: The positions of the variable operands.
    """

    shape: Shape
    task: Task
    table: Array
    variables: list[int]

    def address(self, operands: Sequence[Array]) -> Array:
        """Return the table with the addresses of contiguous variable operands."""
        if not operands:
            return self.table
        table: Array = self.table.copy()
        for position, x in zip(self.variables, operands, strict=True):
            table[:, position] += get_address(x)
        return table

    def list_operands(self, first: int) -> list[Operand]:
        """Return the elements of the table; the variable operands are the inputs from number `first` on."""
        inputs = {position: number for number, position in enumerate(self.variables, first)}
        return [
            (inputs.get(position, CONSTANT), int(offset)) for row in self.table for position, offset in enumerate(row)
        ]


def _make_bound(shape: Shape, task: Task, table: Array, constants: Sequence[Array | None]) -> _BoundProduct:
    """Add the addresses of constant operands to the table of offsets, and return the product."""
    for position, x in enumerate(constants):
        if x is not None:
            table[:, position] += get_address(x)
    return _BoundProduct(shape, task, table, [i for i, x in enumerate(constants) if x is None])


class ProductKernel(CompiledKernel):
    """The kernel of a product with constant weights and an epilogue.

    Args:
        rank: The declared rank of the data.
        weights: f32, shape [K, N], with any strides.
        steps: The steps of the epilogue.
        operands: The value of each operand of the epilogue if it is constant, or None.
        transposes: Whether the last two dimensions of the data are swapped.
    """

    description = "compiled: product, panels of packed weights"

    def __init__(
        self,
        rank: int,
        weights: Array,
        steps: tuple[Step, ...],
        operands: Sequence[Array | None],
        transposes: bool = False,
    ) -> None:
        self._rank, self._steps = rank, steps
        self._transposes = transposes
        self._product = Product(weights)
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._bindings: dict[tuple[Shape, ...], _BoundProduct] = {}

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Multiply, and compute the epilogue."""
        if self._transposes:
            data = data.swapaxes(-1, -2)
        key = (data.shape, *[x.shape for x in variables])
        bound = self._bindings.get(key)
        if bound is None:
            bound = self._bind(data.shape, key[1:])
        if data.dtype != F32 or not all(x.dtype == F32 for x in variables):
            raise NoKernelError("expected f32")
        check_allocation(bound.shape, F32)
        data = make_contiguous(data)
        held = [make_contiguous(x) for x in variables]
        table = bound.address(held)
        result = np.empty(bound.shape, F32)
        bound.task.run(get_address(data), get_address(result), get_address(table))
        return result

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the product of contiguous inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes, or the data is transposed.
        """
        if self._transposes:
            raise NoKernelError("expected data that is not transposed")
        shapes = tuple(layout.shape for layout in layouts)
        bound = self._bindings.get(shapes) or self._bind(shapes[0], shapes[1:])
        operands = bound.list_operands(1)
        return Binding(bound.shape, [bound.task], (0, RESULT, TABLE), operands, 0, self._constants)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the data and the variable operands."""
        self._bind(_swap(shapes[0]) if self._transposes else shapes[0], tuple(shapes[1:]))

    def _bind(self, data_shape: Shape, shapes: tuple[Shape, ...]) -> _BoundProduct:
        if len(data_shape) != self._rank or data_shape[-1] != self._product.inner or not math.prod(data_shape):
            raise NoKernelError("expected data of shape [..., K]")
        shape = (*data_shape[:-1], self._product.columns)
        remaining = iter(shapes)
        operands = [next(remaining) if x is None else x.shape for x in self._constants]
        expression = Expression(tuple(classify_operand(x, shape) for x in operands), self._steps)
        task, table = self._product.make_task(math.prod(data_shape[:-1]), expression)
        bound = _make_bound(shape, task, table, self._constants)
        keep_binding(self._bindings, (data_shape, *shapes), bound)
        return bound


def classify_operand(operand: Shape, shape: Shape) -> str:
    """Return the kind of an epilogue operand for a product of a shape.

    Raises:
        NoKernelError: The operand broadcasts in another way.
    """
    if len(operand) <= len(shape):
        if math.prod(operand) == 1:
            return "scalar"
        if operand == shape:
            return "full"
        if operand[-1] == math.prod(operand) == shape[-1]:
            return "column"
    raise NoKernelError("expected an operand with the shape of the result or of its columns")


class VariableProductKernel(CompiledKernel):
    """The kernel of products of two variable values, such as attention scores, with an epilogue.

    The thread that computes a product first packs the right-hand matrix into scratch memory.

    Args:
        transposes: Whether each of the values is transposed.
        steps: The steps of the epilogue.
        operands: The value of each operand of the epilogue if it is constant, or None.
    """

    description = "compiled: products, panels packed by each thread"
    reads_layouts = True

    def __init__(
        self, transposes: tuple[bool, bool], steps: tuple[Step, ...], operands: Sequence[Array | None]
    ) -> None:
        self._transposes, self._steps = transposes, steps
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._bindings: dict[tuple[Shape, ...], _BoundProduct] = {}

    def __call__(self, a: Array, b: Array, *variables: Array) -> Array:
        """Multiply, and compute the epilogue."""
        left, right = (x.swapaxes(-1, -2) if t else x for x, t in zip((a, b), self._transposes, strict=True))
        if left.strides[-1] != F32.itemsize or not left.flags.aligned:  # rows of one element may keep other strides
            left = make_contiguous(left)
        if not right.flags.aligned:
            right = make_contiguous(right)
        key = (left.shape, left.strides, right.shape, right.strides, *[x.shape for x in variables])
        bound = self._bindings.get(key) or self._bind(Layout(*key[:2]), Layout(*key[2:4]), key[4:])
        if not left.dtype == right.dtype == F32 or not all(x.dtype == F32 for x in variables):
            raise NoKernelError("expected f32")
        check_allocation(bound.shape, F32)
        held = [make_contiguous(x) for x in variables]
        table = bound.address(held)
        result = np.empty(bound.shape, F32)
        bound.task.run(get_address(left), get_address(right), get_address(result), get_address(table))
        return result

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the values and the variable operands."""
        left, right = (_swap(s) if t else s for s, t in zip(shapes[:2], self._transposes, strict=True))
        self._bind(make_layout(left), make_layout(right), tuple(shapes[2:]))

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the products of values of certain layouts, with contiguous operands.

        Raises:
            NoKernelError: No kernel supports these layouts.
        """
        if not all(layout.is_contiguous for layout in layouts[2:]):
            raise NoKernelError("expected contiguous operands")
        left, right = (
            Layout(_swap(x.shape), _swap(x.strides)) if t else x
            for x, t in zip(layouts[:2], self._transposes, strict=True)
        )
        shapes = tuple(layout.shape for layout in layouts[2:])
        bound = self._bindings.get((*left, *right, *shapes)) or self._bind(left, right, shapes)
        operands = bound.list_operands(2)
        return Binding(bound.shape, [bound.task], (0, 1, RESULT, TABLE), operands, 0, self._constants)

    def _bind(self, left: Layout, right: Layout, shapes: tuple[Shape, ...]) -> _BoundProduct:
        """Return the products of values of certain layouts, and operands of certain shapes."""
        layout = describe_products(*left, *right)
        shape = layout.shape
        remaining = iter(shapes)
        operands = [next(remaining) if x is None else x.shape for x in self._constants]
        expression = Expression(tuple(classify_item_operand(x, shape) for x in operands), self._steps)
        steps = [_get_item_steps(x, shape) for x in operands]
        task, table = bind_products(layout, expression, steps)
        bound = _make_bound(shape, task, table, self._constants)
        keep_binding(self._bindings, (*left, *right, *shapes), bound)
        return bound


def _swap(shape: Shape) -> Shape:
    """Return a shape with swapped last two dimensions."""
    return (*shape[:-2], *shape[:-3:-1])


def classify_item_operand(operand: Shape, shape: Shape) -> str:
    """Return the kind of an epilogue operand for products in the last two dimensions.

    Raises:
        NoKernelError: The operand broadcasts in another way.
    """
    lead, item = operand[:-2], operand[-2:]
    if len(operand) > len(shape) or any(
        d not in (1, n) for d, n in zip(reversed(lead), reversed(shape[:-2]), strict=False)
    ):
        raise NoKernelError("expected an operand that broadcasts to the result")
    return classify_operand(item, shape[-2:])


def _get_item_steps(operand: Shape, shape: Shape) -> tuple[Shape, int]:
    """Return the bytes between the elements of an operand along each leading axis, and between its rows."""
    item = operand[-2:]
    size = F32.itemsize * math.prod(item)
    lead = (1,) * (len(shape) - max(2, len(operand))) + operand[:-2]
    steps = tuple(0 if d == 1 else size * math.prod(lead[i + 1 :]) for i, d in enumerate(lead))
    return steps, F32.itemsize * shape[-1] if item == shape[-2:] else 0
