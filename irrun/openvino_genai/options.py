"""Options of OpenVINO GenAI: attributes with defaults, and the conversions of their values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from irrun.arguments import describe_value
from irrun.openvino_genai.enumerations import StopCriteria

__all__ = [
    "OptionSet",
    "Options",
    "keep_default",
    "to_bool",
    "to_criteria",
    "to_languages",
    "to_number",
    "to_optional",
    "to_text",
    "to_texts",
    "to_token_list",
    "to_tokens",
]


def to_bool(value: Any) -> bool:
    """Return a flag.

    Raises:
        TypeError: The value is not a flag.
    """
    if not isinstance(value, bool):
        raise TypeError(f"expected a bool, found {describe_value(value)}")
    return value


def to_number(value: Any) -> float:
    """Return a number.

    Raises:
        TypeError: The value is not a number.
    """
    if isinstance(value, (str, bytes)):
        raise TypeError(f"expected a number, found {describe_value(value)}")
    return float(value)


def to_criteria(value: Any) -> StopCriteria:
    """Return a criterion.

    Raises:
        TypeError: The value is not a criterion.
    """
    if not isinstance(value, StopCriteria):
        raise TypeError(f"expected a StopCriteria, found {describe_value(value)}")
    return value


def to_text(value: Any) -> str:
    """Return a text.

    Raises:
        TypeError: The value is something else.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a str, found {describe_value(value)}")
    return value


def to_texts(value: Iterable[str]) -> set[str]:
    """Return a set of texts.

    Raises:
        TypeError: The value is something else.
    """
    if isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"expected a set of str, found {describe_value(value)}")
    return set(value)


def to_tokens(value: Iterable[Any]) -> set[int]:
    """Return a set of tokens."""
    return {operator.index(token) for token in value}


def to_token_list(value: Iterable[Any]) -> list[int]:
    """Return a list of tokens."""
    return [operator.index(token) for token in value]


def to_languages(value: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of languages."""
    return {to_text(name): operator.index(token) for name, token in value.items()}


def to_optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion that keeps None."""
    return lambda value: None if value is None else convert(value)


def keep_default(value: Any) -> Any:
    """Return the default of an option that irrun does not support.

    Raises:
        RuntimeError: The value is not the default.
    """
    if value not in (None, [], ()):
        raise RuntimeError("irrun does not support structured output")
    return value


#: The options, with their defaults and conversions.
Options = Mapping[str, tuple[Any, Callable[[Any], Any]]]


class OptionSet:
    """Attributes with defaults and conversions."""

    _OPTIONS: ClassVar[Options] = {}

    def __init__(self) -> None:
        for name, (default, _) in self._OPTIONS.items():
            self.__dict__[name] = default.copy() if isinstance(default, (set, list, dict)) else default

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._OPTIONS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            self.__dict__[name] = self._OPTIONS[name][1](value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: incompatible value {describe_value(value)}: {error}") from None

    def __getattr__(self, name: str) -> Any:  # for type checkers: options are in __dict__
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
