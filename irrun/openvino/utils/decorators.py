"""Decorators of functions that create nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from irrun.openvino.node import Output, as_output

__all__ = ["custom_preprocess_function", "nameable_op"]


def custom_preprocess_function(custom_function: Callable[[Output], Any]) -> Callable[[Output], Output]:
    """Let a function for `PreProcessSteps.custom` return a node instead of an output."""

    @functools.wraps(custom_function)
    def wrapper(node: Output) -> Output:
        return as_output(custom_function(node))

    return wrapper


def nameable_op(node_factory_function: Callable[..., Any]) -> Callable[..., Any]:
    """Set the friendly name of the node that a function creates to its argument `name`."""

    @functools.wraps(node_factory_function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        node = node_factory_function(*args, **kwargs)
        if kwargs.get("name"):
            node.set_friendly_name(kwargs["name"])
        return node

    return wrapper
