"""The layer to export as a rule sees it, and the registry of rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, op
from irrun.ir.graph import Layer
from irrun.shapes import PartialShape

__all__ = ["RULES", "NotConstantError", "Result", "Rule", "Site", "exports"]

Array = np.ndarray[Any, Any]

#: The result of a rule: the outputs of the layer.
Result: TypeAlias = Value | Sequence[Value]


class NotConstantError(UnsupportedError):
    """A rule requires a constant input.

    Args:
        position: The position of the input.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"input {position} is not constant")
        self.position = position


class Site:
    """A layer to export.

    Args:
        layer: The layer.
        inputs: The ONNX values of its inputs; None for unconnected inputs.
        attributes: Its attributes, with defaults.
        outputs: The partial shapes of its outputs; None if unknown.
        types: The declared element types of its outputs; None if unknown.
    """

    def __init__(
        self,
        layer: Layer,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
        outputs: Sequence[PartialShape | None] = (),
        types: Sequence[ElementType | None] = (),
    ) -> None:
        self.layer = layer
        self.inputs = list(inputs)
        self.attributes = attributes
        self.outputs = list(outputs)
        self.types = list(types)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, position: int) -> Value:
        """Return an input.

        Raises:
            UnsupportedError: The input is not connected.
        """
        value = self.get(position)
        if value is None:
            raise UnsupportedError(f"input {position} is not connected")
        return value

    def get(self, position: int) -> Value | None:
        """Return an input; None if it is not connected."""
        return self.inputs[position] if position < len(self.inputs) else None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the layer."""
        try:
            return self.__dict__["attributes"][name]
        except KeyError:
            raise AttributeError(name) from None

    def read(self, position: int) -> Array:
        """Return the value of an input that must be constant.

        Raises:
            UnsupportedError: The input is not constant.
        """
        array = self[position].read()
        if array is None:
            raise NotConstantError(position)
        return array

    def read_integers(self, position: int) -> list[int]:
        """Return the integers of an input that must be constant."""
        return [int(i) for i in self.read(position).reshape(-1)]

    def get_rank(self, position: int) -> int:
        """Return the rank of an input.

        Raises:
            UnsupportedError: The rank is dynamic.
        """
        rank = self[position].rank
        if rank is None:
            raise UnsupportedError(f"the rank of input {position} is dynamic")
        return rank

    def assume_rank(self, position: int, rank: int) -> None:
        """Set the rank that the operation requires of an input, if its rank is dynamic."""
        value = self.get(position)
        if value is not None and value.shape is None and value.node is None:
            value.shape = PartialShape([-1] * rank)
        elif value is not None and value.shape is None:
            copy = op("Identity", value)
            copy.shape = PartialShape([-1] * rank)
            self.inputs[position] = copy

    def get_shape(self, position: int) -> list[int | None]:
        """Return the dimensions of an input; dynamic ones are None.

        Raises:
            UnsupportedError: The rank is dynamic.
        """
        self.get_rank(position)
        return [int(d) if isinstance(d, int) else None for d in self[position].shape or ()]

    def get_static_shape(self, position: int, start: int = 0) -> list[int]:
        """Return the dimensions of an input from an axis on.

        Raises:
            UnsupportedError: A dimension is dynamic.
        """
        shape = [d for d in self.get_shape(position)[start:] if d is not None]
        if len(shape) != max(0, self.get_rank(position) - start):
            raise UnsupportedError(f"input {position} has the dynamic shape {self[position].shape}")
        return shape


#: Exports a layer: adds nodes to the current graph, and returns the outputs.
Rule: TypeAlias = Callable[[Site], Result]

#: Rules by operation, such as "Gather-8" and "RMS-ie_internal_opset".
RULES: dict[str, Rule] = {}


_R = TypeVar("_R", bound=Rule)


def exports(*operations: str, compute: str = "") -> Callable[[_R], _R]:
    """Register the decorated function as the rule of operations.

    Args:
        operations: Operations with their versions, such as "Gather-8".
        compute: "f32" if low-precision floats are computed in f32, and results are rounded to their type; "only f32"
            if f64 is computed in f32 too. By default, values keep their types.
    """

    def decorate(rule: _R) -> _R:
        registered = _compute_wide(rule, all_types=compute != "f32") if compute else rule
        for operation in operations:
            RULES[operation] = registered
        return rule

    return decorate


def _compute_wide(rule: Rule, *, all_types: bool) -> Rule:
    """Return a rule that computes inputs of low-precision floats, or of all floats, in f32."""

    def is_converted(value: Value | None) -> bool:
        return value is not None and value.type.is_float and (value.type.bits < 32 or all_types)

    @functools.wraps(rule)
    def export(site: Site) -> Result:
        original = next((v.type for v in site.inputs if v is not None and is_converted(v)), None)
        if original is None or original.name == "f32":
            return rule(site)
        inputs = [cast(v, "f32") if v is not None and is_converted(v) else v for v in site.inputs]
        for before, after in zip(site.inputs, inputs, strict=True):
            if before is not None and after is not None:
                after.shape = before.shape
        wide = Site(site.layer, inputs, site.attributes, site.outputs, site.types)
        result = rule(wide)
        results = [result] if isinstance(result, Value) else list(result)
        return [cast(value, original) if value.type.name == "f32" else value for value in results]

    return export


def round_to(value: Value, element_type: ElementType) -> Value:
    """Convert a floating-point value to a type, rounding to nearest for integer types."""
    return cast(value if element_type.is_float else op("Round", value), element_type)
