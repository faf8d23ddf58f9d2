"""Decorators of functions that create nodes."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from irrun.openvino.ports import Output, as_output
from irrun.openvino.utils.types import as_node, as_nodes

__all__ = ["MultiMethod", "binary_op", "custom_preprocess_function", "nameable_op", "overloading", "unary_op"]


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


def unary_op(node_factory_function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that creates a node of one node accept a value instead; see also `nameable_op`."""

    @functools.wraps(node_factory_function)
    def wrapper(input_value: Any, *args: Any, **kwargs: Any) -> Any:
        return node_factory_function(as_node(input_value, name=kwargs.get("name")), *args, **kwargs)

    return nameable_op(wrapper)


def binary_op(node_factory_function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that creates a node of two nodes accept values instead; see also `nameable_op`."""

    @functools.wraps(node_factory_function)
    def wrapper(left: Any, right: Any, *args: Any, **kwargs: Any) -> Any:
        return node_factory_function(*as_nodes(left, right, name=kwargs.get("name")), *args, **kwargs)

    return nameable_op(wrapper)


class MultiMethod:
    """A function with one implementation for each list of argument types.

    Args:
        name: The name of the function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.typemap: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def register(self, kinds: tuple[Any, ...], function: Callable[..., Any]) -> None:
        """Add an implementation.

        Raises:
            TypeError: These types have one.
        """
        if kinds in self.typemap:
            raise TypeError("duplicate registration")
        self.typemap[kinds] = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the first implementation that accepts the arguments.

        Raises:
            TypeError: There is none.
        """
        for kinds, function in self.typemap.items():
            names = list(inspect.signature(function).parameters)
            fits = kwargs.keys() <= set(names) and (kwargs or len(args) == len(kinds))
            if fits and all(_is_instance(value, kind) for value, kind in zip(args, kinds, strict=False)):
                return function(*args, **kwargs)
        raise TypeError(f"The necessary overload for {self.name} was not found")


def _is_instance(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_is_instance(value, alternative) for alternative in get_args(kind))
    if kind is None:
        return value is None
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and isinstance(value, kind)


registry: dict[str, MultiMethod] = {}


def overloading(*kinds: Any) -> Callable[[Callable[..., Any]], MultiMethod]:
    """Return a decorator that adds a function to the implementations of its name.

    Args:
        kinds: The types of the arguments.
    """

    def register(function: Callable[..., Any]) -> MultiMethod:
        method = registry.setdefault(function.__name__, MultiMethod(function.__name__))
        method.register(kinds, function)
        return method

    return register
