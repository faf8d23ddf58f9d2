"""Graphs under construction, in any set of operations: operators of their values, and the current graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

__all__ = ["GraphBuilder", "Numbers", "Operators"]

#: Types of values that become constants.
Numbers: TypeAlias = int | float | bool | Sequence[Any] | np.ndarray[Any, Any]

V = TypeVar("V", bound="Operators")
G = TypeVar("G", bound="GraphBuilder")


def _unary(operator: str) -> Callable[[V], V]:
    return lambda value: value.calculate(operator, value)


def _binary(operator: str) -> Callable[[V, V | Numbers], V]:
    return lambda value, other: value.calculate(operator, value, other)


def _reflected(operator: str) -> Callable[[V, V | Numbers], V]:
    return lambda value, other: value.calculate(operator, value.to_constant(other), value)


class Operators:
    """Python's operators on the values of a graph. Each adds an operation to the graph."""

    __slots__ = ()

    __add__, __radd__ = _binary("+"), _reflected("+")
    __sub__, __rsub__ = _binary("-"), _reflected("-")
    __mul__, __rmul__ = _binary("*"), _reflected("*")
    __truediv__, __rtruediv__ = _binary("/"), _reflected("/")
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")
    __and__, __or__ = _binary("&"), _binary("|")
    __neg__, __invert__ = _unary("negative"), _unary("~")

    def calculate(self: V, operator: str, *operands: V | Numbers) -> V:
        """Add an operation to the current graph, and return its result.

        Args:
            operator: The operator in Python; "negative" for the sign.
            operands: The values and numbers.
        """
        raise NotImplementedError

    def to_constant(self: V, numbers: V | Numbers) -> V:
        """Return a constant of the type of this value."""
        raise NotImplementedError


class GraphBuilder:
    """A graph under construction.

    Attributes:
        current: The current graph of the class.
        scope: The name of the layer or node that operations are added for.
    """

    current: ClassVar[ContextVar[Any]]
    scope: str

    @contextmanager
    def activate(self: G) -> Iterator[G]:
        """Make this the current graph inside a `with` block."""
        token = self.current.set(self)
        try:
            yield self
        finally:
            self.current.reset(token)

    @contextmanager
    def rename(self, scope: str) -> Iterator[None]:
        """Add operations for a layer or node inside a `with` block."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before
