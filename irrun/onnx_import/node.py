"""The nodes of an ONNX graph as rules see them, and the registration of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ModelError, UnsupportedError
from irrun.onnx_import.graph import Graph, Value, check_axis, constant
from irrun.onnx_import.types import get_element_type

__all__ = ["Item", "Node", "Rule", "find_rule", "translate"]

#: The value of an ONNX name: a tensor, a sequence of known length, or an optional without a value.
Item: TypeAlias = "Value | list[Value] | None"


class Importer(Protocol):
    """The interface of the importer for rules of control flow."""

    graph: Graph

    def create(self, graph: Graph) -> Importer:
        """Return an importer for a body."""

    def find(self, name: str) -> Item:
        """Return the value of a name."""

    def set(self, name: str, item: Item) -> None:
        """Set the value of a name."""

    def import_body(self, proto: Any) -> list[Item]:
        """Import the nodes of a GraphProto after its inputs have been set, and return its outputs."""


class Node:
    """A node of an ONNX graph, as a rule sees it.

    Args:
        proto: The NodeProto.
        version: The version of the operators of its domain.
        items: The values of the inputs; None for omitted inputs.
        attributes: The attributes, as Python values.
        importer: The importer of its graph, for rules of control flow.
        is_in_function: Whether the node belongs to a function.

    Attributes:
        type: The operator.
        version: The version of the operators of its domain.
        items: The values of the inputs, including sequences.
        attributes: The attributes.
        output_count: The number of outputs.
    """

    def __init__(
        self,
        proto: Any,
        version: int,
        items: Sequence[Item],
        attributes: Mapping[str, Any],
        importer: Importer,
        is_in_function: bool,
    ) -> None:
        self.proto = proto
        self.type = str(proto.op_type)
        self.version = version
        self.items = list(items)
        self.attributes = attributes
        self.importer = importer
        self.is_in_function = is_in_function
        self.output_count = len(proto.output)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> Value:
        """Return an input.

        Raises:
            ModelError: The node does not have it.
            UnsupportedError: The input is a sequence.
        """
        value = self.get(position)
        if value is None:
            raise ModelError(f"input {position} is missing")
        return value

    def get(self, position: int) -> Value | None:
        """Return an input; None if it is omitted."""
        item = self.items[position] if position < len(self.items) else None
        if isinstance(item, list):
            raise UnsupportedError(f"input {position} is a sequence, expected a tensor")
        return item

    @property
    def inputs(self) -> list[Value]:
        """All inputs of a variadic operator.

        Raises:
            ModelError: The node has no inputs.
        """
        if not self.items:
            raise ModelError("the inputs are missing")
        return [self[i] for i in range(len(self.items))]

    def has_output(self, position: int) -> bool:
        """Return whether an output is used."""
        return position < self.output_count and bool(self.proto.output[position])

    def read(self, position: int) -> np.ndarray[Any, Any] | None:
        """Return the value of an input that must be constant; None if it is omitted.

        Raises:
            UnsupportedError: The input depends on inputs of the model.
        """
        value = self.get(position)
        if value is None:
            return None
        array = value.read()
        if array is None:
            raise UnsupportedError(f"input {position} depends on inputs of the model, expected a constant")
        return array

    def read_integers(self, position: int) -> list[int] | None:
        """Return a constant input as integers; None if it is omitted."""
        array = self.read(position)
        return None if array is None else [int(v) for v in array.reshape(-1)]

    def get_int(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute.

        Raises:
            ModelError: The attribute is missing and has no default, or it has another type.
        """
        value = self._get(name, default, int, "an integer")
        return int(value)

    def get_axis(self, name: str, default: int | None, rank: int) -> int:
        """Return an axis attribute as a non-negative number; see `get_int`."""
        return check_axis(self.get_int(name, default), rank)

    def get_float(self, name: str, default: float | None = None) -> float:
        """Return a number attribute; see `get_int`."""
        return float(self._get(name, default, (int, float), "a number"))

    def get_text(self, name: str, default: str | None = None) -> str:
        """Return a text attribute; see `get_int`."""
        return str(self._get(name, default, str, "a text"))

    def get_ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """Return an attribute with a list of integers; see `get_int`."""
        return [int(v) for v in self._get(name, default, (list, tuple), "a list of integers")]

    def get_type(self, name: str, default: ElementType | None = None) -> ElementType:
        """Return an element type attribute; see `get_int`."""
        if default is not None and name not in self.attributes:
            return default
        return get_element_type(self.get_int(name))

    def has(self, name: str) -> bool:
        """Return whether the node has an attribute."""
        return name in self.attributes

    def _get(self, name: str, default: Any, kind: Any, expected: str) -> Any:
        value = self.attributes.get(name, default)
        if value is None:
            raise ModelError(f"the attribute {name} is missing, expected {expected}")
        if not isinstance(value, kind):
            raise ModelError(f"the attribute {name} is {value!r}, expected {expected}")
        return value

    def get_axes(self, position: int, name: str = "axes") -> Value | None:
        """Return axes as i64, from an input (newer versions) or an attribute (older versions); None if omitted."""
        if name in self.attributes:
            return constant(np.array(self.get_ints(name), np.int64))
        return self.get(position)

    def refuse(self, what: str) -> UnsupportedError:
        """Return an error for an unsupported feature."""
        return UnsupportedError(f"{what} is not supported")


#: A rule takes a node and returns its outputs.
Rule: TypeAlias = Callable[[Node], "Value | Sequence[Item]"]

_RULES: dict[tuple[str, str], Rule] = {}


def translate(*operators: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Register a function as the rule of operators, for all their versions.

    Args:
        operators: The names of the operators.
        domain: Their domain.
    """

    def register(rule: Rule) -> Rule:
        for operator in operators:
            assert (domain, operator) not in _RULES, operator
            _RULES[domain, operator] = rule
        return rule

    return register


def find_rule(domain: str, operator: str) -> Rule | None:
    """Return the rule of an operator; None if there is none."""
    return _RULES.get(("" if domain == "ai.onnx" else domain, operator))
