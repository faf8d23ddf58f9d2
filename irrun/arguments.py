"""Checks of the arguments of public functions. Errors name the argument, the value and the expectation."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Iterable
from typing import Any

from irrun.errors import InputError

__all__ = [
    "check_choice",
    "check_flag",
    "check_function",
    "check_functions",
    "check_instance",
    "check_integer",
    "check_list",
    "check_number",
    "check_path",
    "check_paths",
    "check_text",
    "check_texts",
    "describe_value",
]

#: Characters of a value that a message shows.
MAX_SHOWN = 60


def describe_value(value: object) -> str:
    """Return a short description of any value, for a message."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"an array of {dtype} with shape {list(shape)}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        try:
            text = repr(value)
        except ValueError:  # an integer with more digits than Python converts
            return "a large integer"
        return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, os.PathLike):
        return f"the path {str(value)!r}"
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"an empty {type(value).__name__}" if not value else f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def fail(name: str, value: object, expected: str) -> InputError:
    """Return the error for an argument.

    Args:
        name: The name of the argument.
        value: Its value.
        expected: The expectation, such as "a positive integer".
    """
    return InputError(f"{name} is {describe_value(value)}, expected {expected}")


def check_instance(name: str, value: Any, types: type | tuple[type, ...], expected: str) -> Any:
    """Return an argument that must be an instance of some types."""
    if not isinstance(value, types):
        raise fail(name, value, expected)
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return an argument that must be True or False; 0 and 1 and booleans of NumPy are accepted."""
    try:
        if value in (True, False) and not hasattr(value, "__len__"):
            return bool(value)
    except (TypeError, ValueError):
        pass
    raise fail(name, value, "True or False")


def check_integer(name: str, value: Any, minimum: int | None = None) -> int:
    """Return an argument that must be an integer, also one of NumPy, as an int."""
    expected = "an integer" if minimum is None else f"an integer of at least {minimum}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise fail(name, value, expected) from None
    if minimum is not None and number < minimum:
        raise fail(name, value, expected)
    return number


def check_number(name: str, value: Any, minimum: float | None = None, expected: str = "") -> float:
    """Return an argument that must be a number other than NaN, as a float."""
    expected = expected or ("a number" if minimum is None else f"a number of at least {minimum:g}")
    try:
        if isinstance(value, (bool, str, bytes)) or getattr(value, "shape", ()) != ():
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise fail(name, value, expected) from None
    if number != number or (minimum is not None and number < minimum):
        raise fail(name, value, expected)
    return number


def check_text(name: str, value: Any, expected: str = "a text") -> str:
    """Return an argument that must be a str."""
    if not isinstance(value, str):
        raise fail(name, value, expected)
    return value


def check_choice(name: str, value: Any, choices: Collection[Any]) -> Any:
    """Return an argument that must be one of some values."""
    try:
        if value in choices and not isinstance(value, os.PathLike):
            return value
    except (TypeError, ValueError):  # unhashable, or an array
        pass
    *others, last = map(repr, choices)
    raise fail(name, value, f"{', '.join(others)} or {last}")


def check_path(name: str, value: Any, expected: str = "a path", *, accepts_null: bool = False) -> str:
    """Return an argument that must be a path, as a str.

    Args:
        name: The name of the argument.
        value: Its value.
        expected: The expectation.
        accepts_null: Whether a null character, which no path contains, is left to the caller.
    """
    try:
        path = os.fspath(value)
    except TypeError:
        raise fail(name, value, expected) from None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if "\0" in path and not accepts_null:
        raise InputError(f"{name} contains a null character, expected {expected}")
    return str(path)


def check_function(name: str, value: Any) -> Any:
    """Return an argument that must be a function or None."""
    if value is not None and not callable(value):
        raise fail(name, value, "a function or None")
    return value


def check_functions(name: str, value: Any) -> list[Any]:
    """Return an argument that must be a list of functions."""
    functions = check_list(name, value, "a list of functions")
    for function in functions:
        if not callable(function):
            raise fail(f"an element of {name}", function, "a function")
    return functions


def check_list(name: str, value: Any, expected: str) -> list[Any]:
    """Return the elements of an argument that must be iterable, but not a text or a mapping."""
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise fail(name, value, expected)
    try:
        return list(value)
    except TypeError:  # an array without dimensions
        raise fail(name, value, expected) from None


def check_texts(name: str, value: Any, expected: str = "a text or a list of texts") -> list[str]:
    """Return the texts of an argument that must be a text or a list of them."""
    texts = [value] if isinstance(value, str) else check_list(name, value, expected)
    return [check_text(f"an element of {name}", text, expected) for text in texts]


def check_paths(name: str, value: Any, expected: str = "a path or a list of paths") -> list[str]:
    """Return the paths of an argument that must be a path or a list of them."""
    paths = [value] if isinstance(value, (str, os.PathLike)) else check_list(name, value, expected)
    return [check_path(f"an element of {name}", path, expected) for path in paths]
