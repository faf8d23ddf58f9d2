"""Chains of elementwise operations on f32, computed tile by tile while a tile is in the processor's cache.

An `ElementwiseChain` describes the operations. It is computed alone, or as the epilogue of a convolution or
matrix product on each block of the result. Input 0 is the *running value*: the result has its shape, and all other
operands broadcast to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from irrun.deadlines import within_time
from irrun.fast.errors import NoKernelError
from irrun.fast.expressions import table as expressions
from irrun.fast.expressions.numpy import BlockFunction, compile_expression, compile_steps
from irrun.fast.scratch import get_scratch
from irrun.fast.support import BLOCK, F32, TILE, call_by_rows, count_blocks, find_contiguous_order, merge_axes
from irrun.limits import check_allocation
from irrun.shapes import get_broadcast_shape
from irrun.threads import run_parallel

__all__ = ["BoundChain", "ElementwiseChain", "Operand", "Step"]

Array = np.ndarray[Any, Any]
#: The slices of a tile along each axis of the collapsed shape.
Index = tuple[slice, ...]

#: Maximum number of kept combinations of shapes per chain.
MAX_SHAPES = 64


@dataclass(frozen=True, repr=False)
class Operand:
    """An operand of a step.

    Attributes:
        kind: Whether it is an input of the chain, a constant of the chain or the result of an earlier step.
        index: Its number.
    """

    kind: Literal["input", "constant", "step"]
    index: int


class Step(NamedTuple):
    """One expression of a chain.

    Attributes:
        name: The name of the expression: "Gelu".
        operands: Its operands.
        parameters: Its parameters.
    """

    name: str
    operands: tuple[Operand, ...]
    parameters: tuple[Any, ...] = ()

    @classmethod
    def create(cls, name: str, *operands: Operand, parameters: tuple[Any, ...] = ()) -> Step:
        """Return a step."""
        return cls(name, operands, parameters)


@dataclass(eq=False, repr=False)
class ElementwiseChain:
    """A directed acyclic graph of elementwise operations on f32. The last step is the result.

    Attributes:
        steps: In order of computation.
        input_count: Number of inputs. Input 0 is the running value.
        constants: f32. They broadcast to the running value like NumPy's operands.
    """

    steps: tuple[Step, ...]
    input_count: int = 1
    constants: tuple[Array, ...] = ()

    def __call__(self, *inputs: Array, may_overwrite: bool = False) -> Array:
        """Compute the chain.

        Args:
            inputs: f32, as many as `input_count`.
            may_overwrite: Whether the result may be written to the running value.

        Raises:
            NoKernelError: An input does not have the type f32.
        """
        for x in inputs:
            if x.dtype is not F32:
                raise NoKernelError("expected f32")
        value = inputs[0]
        shape = value.shape
        if not value.size or not value.ndim or not self.keeps_shape(shape, inputs[1:]):
            return self.evaluate_whole(*inputs)
        if self.input_count == 1 and not value.flags.c_contiguous and not self.constants:
            transposed = find_contiguous_order(value)
            if transposed is not None:
                order, value = transposed
                computed: Array = self(value, may_overwrite=may_overwrite).transpose(np.argsort(order))
                return computed
        is_reusable = may_overwrite and value.flags.c_contiguous and value.flags.writeable
        result = value if is_reusable else np.empty(shape, F32)
        if value.size <= TILE:
            _compute_block(self.function, result, (*inputs, *self.constants))
            return result
        bound = BoundChain(self, inputs, shape)
        target = bound.collapse(result)
        count = count_blocks(value.size)
        tiles = list(bound.iterate_tiles(-(-value.size // count)))
        step = -(-len(tiles) // count)

        def compute_part(part: int) -> None:
            for index in tiles[part * step : (part + 1) * step]:
                bound.apply(target[index], index)

        run_parallel(compute_part, -(-len(tiles) // step))
        return result

    def evaluate_whole(self, *inputs: Array) -> Array:
        """Compute the chain step by step on whole arrays; operands may have more elements than the running value."""
        values: list[Array] = []
        sources = {"input": inputs, "constant": self.constants, "step": values}
        for step in self.steps:
            operands = [sources[o.kind][o.index] for o in step.operands]
            shape = get_broadcast_shape(*(x.shape for x in operands))
            check_allocation(shape, F32)
            out = np.empty(shape, F32)
            if out.size:
                compile_expression(step.name, len(operands), step.parameters, reuses_operands=False).compute(
                    *operands, out
                )
            values.append(out)
        return values[-1]

    def keeps_shape(self, shape: tuple[int, ...], operands: Sequence[Array]) -> bool:
        """Return whether all operands broadcast to the shape of the running value.

        Args:
            shape: The shape of the running value.
            operands: The other inputs.
        """
        key = (shape, *[x.shape for x in operands])
        keeps = self._checked_shapes.get(key)
        if keeps is None:
            try:
                keeps = get_broadcast_shape(*key, *(x.shape for x in self.constants)) == shape
            except ValueError:
                keeps = False
            if len(self._checked_shapes) >= MAX_SHAPES:
                self._checked_shapes.clear()
            self._checked_shapes[key] = keeps
        return keeps

    @cached_property
    def _checked_shapes(self) -> dict[tuple[tuple[int, ...], ...], bool]:
        return {}

    @cached_property
    def function(self) -> BlockFunction:
        """The function that computes all steps on a block, which may be the running value."""
        starts = {"input": 0, "constant": self.input_count, "step": self.input_count + len(self.constants)}
        steps = tuple(
            expressions.Step(name, tuple(starts[o.kind] + o.index for o in operands), parameters)
            for name, operands, parameters in self.steps
        )
        return compile_steps(steps, tuple(i == 0 for i in range(starts["step"])))


class BoundChain:
    """A chain with input values, ready to be applied to blocks of the result.

    All arrays are viewed with as few axes as possible: the axes of `shape`.

    Args:
        chain: The chain.
        inputs: f32, the inputs of the chain. Input 0 is not needed if blocks are computed in place.
        shape: Shape of the result.
        axes: The collapsed shape. By default, axes are merged wherever the layout of all operands allows it.
    """

    def __init__(
        self,
        chain: ElementwiseChain,
        inputs: Sequence[Array | None],
        shape: Sequence[int],
        axes: Sequence[int] | None = None,
    ) -> None:
        self.chain = chain
        views = [
            x if x is None or x.size == 1 or x.shape == shape else np.broadcast_to(x, shape)
            for x in (*inputs, *chain.constants)
        ]
        if axes is None:
            axes = _collapse(shape, [v for v in views if v is not None and v.size > 1])
        #: The collapsed shape.
        self.shape = tuple(axes)
        collapsed = [v if v is None else v.reshape(() if v.size == 1 else self.shape) for v in views]
        self._inputs = collapsed[: len(inputs)]
        self._constants = cast("list[Array]", collapsed[len(inputs) :])

    def collapse(self, array: Array) -> Array:
        """Reshape a contiguous array to the collapsed shape."""
        return array.reshape(self.shape)

    def iterate_tiles(self, size: int) -> Iterator[Index]:
        """Yield the slices of tiles of at most about `size` elements."""
        inner = math.prod(self.shape)
        steps: list[int] = []
        for length in self.shape:
            inner //= length
            steps.append(max(1, min(length, size // inner)))
        # An axis is divided only if the axes before it are taken one by one.
        for position in range(len(steps) - 1):
            if steps[position] > 1:
                steps[position + 1 :] = self.shape[position + 1 :]
                break

        # A recursive function would create a reference cycle and keep the operands in memory.
        parts = [
            [slice(start, min(start + step, length)) for start in range(0, length, step)]
            for length, step in zip(self.shape, steps, strict=True)
        ]
        return itertools.product(*parts)

    def apply(self, block: Array, index: Index) -> None:
        """Compute one block.

        Args:
            block: The destination of the result. It contains the running value, unless the constructor received it.
            index: The slices of the block in the collapsed shape.
        """
        inputs = [block if v is None else v[index] if v.ndim else v for v in self._inputs]
        constants = [v[index] if v.ndim else v for v in self._constants]
        call_by_rows(block.shape[-1], _compute_block, self.chain.function, block, (*inputs, *constants))

    def apply_to_rows(self, block: Array, rows: slice, columns: slice) -> None:
        """Compute a block of a matrix by tiles. The chain must have been bound to the axes of the matrix.

        Args:
            block: See `apply`.
            rows: The rows of the matrix that the block covers.
            columns: The columns.
        """
        step = max(1, BLOCK // block.shape[1])
        for start in within_time(range(rows.start, rows.stop, step)):
            part = slice(start, min(start + step, rows.stop))
            self.apply(block[part.start - rows.start : part.stop - rows.start], (part, columns))


def _compute_block(function: BlockFunction, block: Array, operands: Sequence[Array]) -> None:
    """Compute a chain on a block, from operands that broadcast to it."""
    factor = function.scratch_factor
    function.compute(*operands, block, get_scratch("chain", factor * block.size) if factor else None)


def _collapse(shape: Sequence[int], views: Sequence[Array]) -> tuple[int, ...]:
    """Return the shape with the fewest axes that can express all views and a contiguous array."""
    own = [F32.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    sizes, _ = merge_axes(shape, [own, *(v.strides for v in views)])
    return tuple(sizes)
