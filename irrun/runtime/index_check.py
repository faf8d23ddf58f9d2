"""An observer that finds indices out of range; like the reference implementation, kernels accept them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irrun.ir.graph import Layer
from irrun.ops._support.index_range import IndexRange
from irrun.ops._support.operation import Operation
from irrun.runtime.observer import Scope
from irrun.runtime.program import Program

__all__ = ["IndexCheck", "InvalidIndices"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class InvalidIndices:
    """Indices of a layer that are out of range.

    Attributes:
        layer: The layer.
        count: The number of indices out of range, in all iterations.
        total: The number of all indices, in all iterations.
        index: The first one.
        position: Its position in the tensor of indices.
        scope: The iterations of the bodies that contain the layer, at the first invalid index.
        minimum: The smallest valid index.
        maximum: The largest valid index.
        effect: The effect of indices out of range, such as "the result is zero there".
        is_intended: Whether models use indices out of range on purpose, as with OneHot, which ignores them.
    """

    layer: Layer
    count: int
    total: int
    index: int
    position: tuple[int, ...]
    scope: Scope
    minimum: int
    maximum: int
    effect: str
    is_intended: bool

    @property
    def message(self) -> str:
        """The finding and the expectation, without the layer."""
        counted = f"{self.count} of {self.total} {'index' if self.total == 1 else 'indices'} out of range"
        place = "".join(f" in iteration {number} of {owner.name}" for owner, number in reversed(self.scope))
        shown = f" at {list(self.position)}" if self.position else ""
        valid = f"{self.minimum} to {self.maximum}" if self.minimum <= self.maximum else "none, since the axis is empty"
        subject = f"the first is {self.index}{shown}{place}, valid are {valid}"
        return f"{counted} ({self.effect}); {subject}"

    def __str__(self) -> str:
        return f"{self.layer.describe()}: {self.message}"


class IndexCheck:
    """Observer that finds indices out of range in layers without a check in their kernels.

    Args:
        program: The program that is run, with its operations.

    Attributes:
        found: The findings, in the order of execution.
    """

    def __init__(self, program: Program) -> None:
        self._operations: dict[int, tuple[Operation, Mapping[str, Any]]] = {
            id(instruction.layer): (instruction.operation, instruction.attributes)
            for _, instruction in program.walk()
            if instruction.operation.index_range is not None
        }
        self._found: dict[int, InvalidIndices] = {}
        self._totals: dict[int, int] = {}

    @property
    def found(self) -> list[InvalidIndices]:
        """The findings, in the order of execution."""
        return [replace(found, total=self._totals[key]) for key, found in self._found.items()]

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        seconds: float,
        scope: Scope,
    ) -> None:
        """Check the indices of a layer."""
        key = id(layer)
        known = self._operations.get(key)
        if known is None:
            return
        operation, attributes = known
        indices = operation.find_index_range(inputs, outputs, attributes)
        if indices is None or not indices.indices.size:
            return
        self._totals[key] = self._totals.get(key, 0) + indices.indices.size
        count, position = _find_outside(indices)
        if not count:
            return
        previous = self._found.get(key)
        if previous is not None:
            self._found[key] = replace(previous, count=previous.count + count)
            return
        index = int(indices.indices[position])
        self._found[key] = InvalidIndices(
            layer, count, 0, index, position, scope, indices.minimum, indices.maximum, *indices[3:]
        )


def _find_outside(indices: IndexRange) -> tuple[int, tuple[int, ...]]:
    """Return the number of indices out of range, and the position of the first one."""
    values = indices.indices
    if indices.minimum <= int(values.min()) and int(values.max()) <= indices.maximum:
        return 0, ()
    wide = values.astype(np.float64) if values.dtype == np.uint64 else values.astype(np.int64)
    outside = (wide < indices.minimum) | (wide > indices.maximum)
    first = int(np.argmax(outside.reshape(-1)))
    return int(np.count_nonzero(outside)), tuple(int(i) for i in np.unravel_index(first, values.shape))
