"""Sections of docstrings that the operations of a family share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["describes_binary", "describes_like", "describes_reduction", "describes_unary"]

Function = TypeVar("Function", bound=Callable[..., Any])

_UNARY = """\
Args:
    data: {data}, any shape.

Returns:
    The shape and type of `data`.{integers}"""

_BINARY = """\
Args:
    a: {operands}, any shape.
    b: The type of `a`, any shape that matches by the broadcasting rule.
    auto_broadcast: Broadcasting rule.
    auto_broadcast_axis: First dimension that "pdpd" matches.

Returns:
    The broadcast shape, {result}.

Raises:
    InputError: The shapes do not match by the broadcasting rule."""

_REDUCTION = """\
Args:
    data: {data}, any shape.
    axes: Integer, any shape. Negative values count from the end; if empty, no axis is reduced.
    keep_dims: Whether reduced dimensions are kept with size 1.

Returns:
    The shape of `data` with the dimensions `axes` removed or 1, the type of `data`.

Raises:
    InputError: An axis is out of range."""


def describes_unary(data: str, *, integers: str = "") -> Callable[[Function], Function]:
    """Add the input and the result of an operation on one array to its docstring.

    Args:
        data: The types of the input, such as "Numeric".
        integers: How the reference implementation treats results for integers, such as "rounded".
    """
    note = f" Results for integers are {integers}, as in the reference implementation." if integers else ""
    return _add_sections(_UNARY.format(data=data, integers=note))


def describes_binary(operands: str, result: str = "the type of `a`") -> Callable[[Function], Function]:
    """Add the inputs, attributes, result and errors of an operation on two broadcast arrays to its docstring.

    Args:
        operands: The types of the inputs, such as "Numeric".
        result: The type of the result.
    """
    return _add_sections(_BINARY.format(operands=operands, result=result))


def describes_reduction(data: str) -> Callable[[Function], Function]:
    """Add the inputs, attributes, result and errors of a reduction to its docstring.

    Args:
        data: The types of the input, such as "Numeric".
    """
    return _add_sections(_REDUCTION.format(data=data))


def describes_like(other: Callable[..., Any]) -> Callable[[Function], Function]:
    """Complete a docstring, which states what differs from a similar operation, with the rest of that docstring.

    The other docstring describes the parameters that the section "Args:" leaves out, and the results and exceptions if
    the sections "Returns:" and "Raises:" are missing.

    Args:
        other: The kernel of the similar operation.
    """

    def decorate(function: Function) -> Function:
        summary, own = _read_sections(function)
        _, shared = _read_sections(other)
        sections = {**shared, **own}
        entries = {**_read_arguments(shared.get("Args", "")), **_read_arguments(own.get("Args", ""))}
        sections["Args"] = "\n".join(entries[name] for name in inspect.signature(function).parameters)
        ordered = (title for title in ("Args", "Returns", "Raises", "Spec") if title in sections)
        function.__doc__ = "\n\n".join([summary, *(f"{title}:\n{sections[title]}" for title in ordered)])
        return function

    return decorate if __doc__ else lambda function: function  # python -OO removes docstrings


def _read_sections(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the text before the sections of a docstring, and the sections by title."""
    text, *sections = re.split(r"\n\n(?=(?:Args|Returns|Raises|Spec):\n)", inspect.cleandoc(function.__doc__ or ""))
    return text, dict(section.split(":\n", 1) for section in sections)


def _read_arguments(section: str) -> dict[str, str]:
    """Return the lines about each parameter by its name."""
    return {entry.split(":", 1)[0].strip(): entry for entry in re.split(r"\n(?=    \w)", section) if entry}


def _add_sections(sections: str) -> Callable[[Function], Function]:
    """Insert sections before the section "Spec:" of the docstring of the decorated function."""

    def decorate(function: Function) -> Function:
        summary, title, specification = inspect.cleandoc(function.__doc__ or "").partition("Spec:")
        function.__doc__ = f"{summary}{sections}\n\n{title}{specification}"
        return function

    return decorate
