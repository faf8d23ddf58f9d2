"""The facts about the values in a graph before it runs, and the rules' view of a layer's inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules.dimensions import ONE, Dimension, make_dimension
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["VALUE_LIMIT", "Inputs", "ShapeError", "UnknownShapeError", "Value", "to_dimension"]

Array = np.ndarray[Any, Any]

#: Elements of values that are tracked because they may determine shapes.
VALUE_LIMIT = 1 << 14


class Constant(Protocol):
    """A constant that is read when its value is needed."""

    @property
    def shape(self) -> Sequence[int]:
        """The shape."""

    @property
    def data(self) -> object | None:
        """The stored bytes; None if there are none."""

    def to_array(self) -> Array:
        """Read the value."""


class UnknownShapeError(Exception):
    """A rule needs the shape of an input, which is unknown. The shapes of all outputs are unknown then."""


class ShapeError(ValueError):
    """The inputs of a layer do not fit its operation."""


@dataclass(slots=True, eq=False)
class Value:
    """The facts about a value of a graph.

    Attributes:
        shape: The shape; None if the rank is unknown.
        array: The value itself, if it is small and depends only on constants and static shapes.
        bounds: Lower and upper bounds of the elements of a value that depends on constants and shapes only, f64.
        constant: The constant that holds the value. It is read when `array` is needed.
    """

    shape: PartialShape | None
    array: Array | None = None
    bounds: tuple[Array, Array] | None = None
    constant: Constant | None = None

    @staticmethod
    def of_array(array: Array) -> Value:
        """Return the facts about an array that does not depend on the inputs of the model."""
        return Value(PartialShape(array.shape), array if array.size <= VALUE_LIMIT else None)

    @staticmethod
    def of_constant(constant: Constant) -> Value:
        """Return the facts about a constant."""
        is_small = constant.data is not None and math.prod(constant.shape) <= VALUE_LIMIT
        return Value(PartialShape(constant.shape), constant=constant if is_small else None)

    def get_array(self) -> Array | None:
        """Return the value itself if it is known."""
        if self.array is None and self.constant is not None:
            self.array = self.constant.to_array()
        return self.array

    def get_bounds(self) -> tuple[Array, Array] | None:
        """Return lower and upper bounds of the elements. They are equal if the value is known."""
        if self.bounds is not None:
            return self.bounds
        array = self.get_array()
        if array is None or array.dtype.kind not in "biuf":
            return None
        values = array.astype(np.float64)
        if array.dtype.kind in "iu" and array.dtype.itemsize >= 4:  # the largest integers mean the end of an axis
            values = np.where(abs(values) >= np.iinfo(array.dtype).max - 1.0, np.copysign(np.inf, values), values)
        return values, values

    def equals(self, other: Value) -> bool:
        """Return whether the same is known about another value."""
        if self.shape != other.shape or (self.constant is None) != (other.constant is None):
            return False
        if self.constant is not None or self is other:
            return self.constant is other.constant
        return _are_equal(self.array, other.array) and all(
            _are_equal(a, b) for a, b in zip(self.bounds or (None, None), other.bounds or (None, None), strict=True)
        )


def _are_equal(first: Array | None, second: Array | None) -> bool:
    if first is None or second is None:
        return first is second
    return bool(np.array_equal(first, second))


class Inputs:
    """The inputs and attributes of a layer, as a rule sees them.

    Args:
        operation: The operation.
        attributes: The attributes, with defaults.
        values: The inputs; None for one that is not connected.
        count: The number of outputs.
    """

    def __init__(
        self, operation: Operation, attributes: Mapping[str, Any], values: Sequence[Value | None], count: int
    ) -> None:
        self.operation = operation
        self.attributes = attributes
        self.values = values
        self.output_count = count

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def has(self, position: int) -> bool:
        """Return whether an input is connected."""
        return position < len(self.values) and self.values[position] is not None

    def get_name(self, position: int) -> str:
        """Return the name of an input for messages."""
        declared = self.operation.inputs
        if position < len(declared) and not declared[position].variadic:
            return declared[position].name
        return f"input {position}"

    def get_shape(self, position: int) -> PartialShape | None:
        """Return the shape of an input; None if its rank is unknown."""
        value = self.values[position] if position < len(self.values) else None
        return None if value is None else value.shape

    def require_shape(self, position: int) -> PartialShape:
        """Return the shape of an input.

        Raises:
            UnknownShapeError: The rank is unknown.
        """
        shape = self.get_shape(position)
        if shape is None:
            raise UnknownShapeError
        return shape

    def get_shapes(self) -> list[PartialShape | None]:
        """Return the shapes of all inputs."""
        return [self.get_shape(i) for i in range(len(self.values))]

    def get_rank(self, position: int) -> int | None:
        """Return the rank of an input; None if it is unknown."""
        shape = self.get_shape(position)
        return None if shape is None else len(shape)

    def get_array(self, position: int) -> Array | None:
        """Return the value of an input if it is known."""
        value = self.values[position] if position < len(self.values) else None
        return None if value is None else value.get_array()

    def get_integers(self, position: int) -> list[int] | None:
        """Return the elements of an input as integers if they are known."""
        array = self.get_array(position)
        if array is None or array.dtype.kind not in "biuf":
            return None
        return [int(n) for n in array.reshape(-1).tolist()]

    def get_integer(self, position: int) -> int | None:
        """Return the only element of an input as an integer if it is known."""
        values = self.get_integers(position)
        return values[0] if values is not None and len(values) == 1 else None

    def get_length(self, position: int) -> Dimension:
        """Return the number of elements of an input of rank 0 or 1."""
        shape = self.get_shape(position)
        if shape is None or len(shape) > 1:
            return UNBOUNDED
        return shape[0] if len(shape) else ONE

    def count(self, position: int) -> int | None:
        """Return the number of elements of an input of rank 0 or 1 if it is known."""
        length = self.get_length(position)
        return int(length) if isinstance(length, int) else None

    def get_intervals(self, position: int) -> list[tuple[float, float]] | None:
        """Return lower and upper bounds of the elements of an input if something is known about them."""
        value = self.values[position] if position < len(self.values) else None
        bounds = None if value is None else value.get_bounds()
        if bounds is None:
            return None
        low, high = (bound.reshape(-1).tolist() for bound in bounds)
        return list(zip(low, high, strict=True))

    def get_dimensions(self, position: int) -> list[Dimension] | None:
        """Return the elements of an input of sizes as dimensions; None if nothing is known about them."""
        intervals = self.get_intervals(position)
        return None if intervals is None else [to_dimension(*interval) for interval in intervals]

    def get_sizes(self, position: int) -> list[Dimension] | None:
        """Return the elements of an input as dimensions; None if nothing is known about them.

        Raises:
            ShapeError: An element is negative.
        """
        intervals = self.get_intervals(position)
        if intervals is not None and any(high < 0 for _, high in intervals):
            sizes = [int(low) for low, _ in intervals if math.isfinite(low)]
            raise ShapeError(f"{self.get_name(position)} is {sizes}, expected non-negative sizes")
        return self.get_dimensions(position)


def to_dimension(low: float, high: float) -> Dimension:
    """Return the dimension for bounds of a size; a negative size means an unknown one."""
    if high < 0 or math.isnan(low) or math.isnan(high):
        return UNBOUNDED
    return make_dimension(int(max(low, 0)) if math.isfinite(low) else 0, int(high) if math.isfinite(high) else None)
