"""Translation of irrun's exceptions to OpenVINO's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from irrun.errors import IrrunError

__all__ = ["translate_errors"]

Function = TypeVar("Function", bound=Callable[..., Any])


def translate_errors(function: Function) -> Function:
    """Let a function raise RuntimeError where irrun raises an exception of another class."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except IrrunError as error:
            if isinstance(error, RuntimeError):
                raise
            raise RuntimeError(str(error)) from error

    return wrapper  # type: ignore[return-value]
