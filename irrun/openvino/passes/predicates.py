"""Conditions that a pattern adds to the type of a node."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irrun.openvino.attributes import get_attributes
from irrun.openvino.dimension import Dimension
from irrun.openvino.element_type import Type
from irrun.openvino.ports import Output

__all__ = [
    "Predicate",
    "attrs_match",
    "consumers_count",
    "has_static_dim",
    "has_static_dims",
    "has_static_rank",
    "has_static_shape",
    "rank_equals",
    "rank_more_than",
    "shape_matches",
    "type_matches",
    "type_matches_any",
]

#: Values of symbols by name: lengths, Dimensions, and lists of them.
Symbols = dict[str, Any]


class Predicate:
    """A condition on an output.

    Args:
        predicate: A function of an output, or of the values of symbols and an output; by default all outputs match.
    """

    def __init__(self, predicate: Callable[..., bool] | None = None) -> None:
        self._function = predicate
        self._uses_symbols = predicate is not None and len(inspect.signature(predicate).parameters) > 1

    def __call__(self, symbols: Symbols, output: Output) -> bool:
        """Return whether an output matches; `symbols` may be extended."""
        if self._function is None:
            return True
        return bool(self._function(symbols, output) if self._uses_symbols else self._function(output))


def consumers_count(n: int) -> Predicate:
    """Return the condition that an output has a number of consumers."""
    return Predicate(lambda output: len(output.get_target_inputs()) == n)


def has_static_dim(pos: int) -> Predicate:
    """Return the condition that a dimension is static."""
    return has_static_dims([pos])


def has_static_dims(dims: Sequence[int]) -> Predicate:
    """Return the condition that some dimensions are static."""

    def check(output: Output) -> bool:
        shape = output.partial_shape
        return bool(
            shape.rank.is_static and len(shape) > max(dims, default=-1) and all(shape[i].is_static for i in dims)
        )

    return Predicate(check)


def has_static_shape() -> Predicate:
    """Return the condition that all dimensions are static."""
    return Predicate(lambda output: output.partial_shape.is_static)


def has_static_rank() -> Predicate:
    """Return the condition that the number of dimensions is known."""
    return Predicate(lambda output: output.partial_shape.rank.is_static)


def rank_equals(dim: Any) -> Predicate:
    """Return the condition that an output has a rank."""
    return Predicate(lambda output: output.partial_shape.rank == Dimension(dim))


def rank_more_than(dim: Any) -> Predicate:
    """Return the condition that an output has a larger rank."""

    def check(output: Output) -> bool:
        rank = output.partial_shape.rank
        return bool(rank.is_static and rank.get_length() > int(dim))

    return Predicate(check)


def type_matches(type: Type) -> Predicate:
    """Return the condition that an output has an element type."""
    return type_matches_any([type])


def type_matches_any(types: Sequence[Type]) -> Predicate:
    """Return the condition that an output has one of some element types."""
    return Predicate(lambda output: output.element_type in types)


def attrs_match(attributes: Mapping[str, Any]) -> Predicate:
    """Return the condition that attributes of the node of an output have some values."""

    def check(output: Output) -> bool:
        found = get_attributes(output._node)
        return all(name in found and found[name] == value for name, value in attributes.items())

    return Predicate(check)


def shape_matches(shape_notation: str) -> Predicate:
    """Return the condition that an output has a shape.

    Args:
        shape_notation: The dimensions in brackets: lengths, "?" for any length, names of symbols, and at most one
            "..." or "NAME..." for any number of dimensions, as in "[Batches..., Height, 3]".
    """
    inner = shape_notation.strip().removeprefix("[").removesuffix("]")
    tokens = [token.strip() for token in inner.split(",") if token.strip()]
    groups = [i for i, token in enumerate(tokens) if token.endswith("...")]
    if len(groups) > 1:
        raise RuntimeError(f"expected at most one ... in {shape_notation}")

    def check(symbols: Symbols, output: Output) -> bool:
        shape = output.partial_shape
        if shape.rank.is_dynamic:
            return False
        values: list[Any] = [dim.get_length() if dim.is_static else dim for dim in shape]
        names = list(tokens)
        if groups:
            count = len(values) - len(tokens) + 1
            if count < 0:
                return False
            first = groups[0]
            values[first : first + count] = [values[first : first + count]]
            names[first] = names[first].removesuffix("...") or "?"
        if len(names) != len(values):
            return False
        return all(_bind(symbols, name, value) for name, value in zip(names, values, strict=True))

    return Predicate(check)


def _bind(symbols: Symbols, name: str, value: Any) -> bool:
    """Return whether a dimension has a length, or the value of a symbol. A new symbol gets its value."""
    if name == "?":
        return True
    if name.lstrip("-").isdecimal():
        return bool(isinstance(value, int) and value == int(name))
    if isinstance(value, Dimension):
        return False
    return bool(symbols.setdefault(name, value) == value)
