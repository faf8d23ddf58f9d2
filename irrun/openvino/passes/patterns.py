"""Pattern nodes that match any of several nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from irrun.openvino.node import Node
from irrun.openvino.opsets import LAST_OPSET
from irrun.openvino.passes.predicates import Predicate, Symbols
from irrun.openvino.ports import NodeData, Output, as_output
from irrun.ops._support import registry

__all__ = ["AnyInput", "Context", "Optional", "Or", "Pattern", "WrapType", "is_same_type"]


class Context(Protocol):
    """The interface of the matcher for patterns."""

    symbols: Symbols

    def match_value(self, pattern: Output, value: Output) -> bool:
        """Match a part of the pattern."""

    def match_arguments(self, pattern: NodeData, node: NodeData) -> bool:
        """Match the inputs of a node."""

    def record(self, pattern: NodeData, value: Output) -> None:
        """Keep what a node of the pattern matched."""


class Pattern(Node):
    """Base class of the nodes that only patterns contain.

    Args:
        inputs: The patterns of the inputs.
        predicate: An additional condition.
    """

    def __init__(self, inputs: Iterable[Output] = (), predicate: Any = None) -> None:
        super().__init__(type(self).__name__, "util", list(inputs))
        self._predicate = predicate if isinstance(predicate, Predicate) else Predicate(predicate)

    def __repr__(self) -> str:
        return f"<{self._type}>"

    def match_value(self, context: Context, value: Output) -> bool:
        """Return whether an output matches, and record the matches."""
        raise NotImplementedError

    def _accept(self, context: Context, value: Output) -> bool:
        if not self._predicate(context.symbols, value):
            return False
        context.record(self, value)
        return True


class AnyInput(Pattern):
    """A pattern that matches all outputs.

    Args:
        predicate: A condition that they must meet.
    """

    def __init__(self, predicate: Callable[..., bool] | Predicate | None = None) -> None:
        super().__init__((), predicate)

    def match_value(self, context: Context, value: Output) -> bool:
        """See `Pattern`."""
        return self._accept(context, value)


class Or(Pattern):
    """A pattern that matches what one of several patterns matches.

    Args:
        inputs: Nodes or outputs of the patterns, in order of preference.
    """

    def __init__(self, inputs: Iterable[Any]) -> None:
        super().__init__([as_output(pattern) for pattern in inputs])

    def match_value(self, context: Context, value: Output) -> bool:
        """See `Pattern`."""
        if not any(source is not None and context.match_value(source, value) for source in self._sources):
            return False
        return self._accept(context, value)


class WrapType(Pattern):
    """A pattern that matches the nodes of some types.

    Args:
        type_name: A type and its opset, such as "opset8.Relu", or a list of them.
        arguments: The patterns of the inputs: a node, an output, or a list of them; and a condition. Without patterns
            any inputs match.

    Raises:
        RuntimeError: The opset or type does not exist.
    """

    def __init__(self, type_name: str | Iterable[str], *arguments: Any, **keywords: Any) -> None:
        names = [type_name] if isinstance(type_name, str) else list(type_name)
        self._types = [_parse_type(name) for name in names]
        super().__init__(*_split_arguments(arguments, keywords))

    def match_value(self, context: Context, value: Output) -> bool:
        """See `Pattern`."""
        node = value._node
        if not any(is_same_type(node, name, opset) for name, opset in self._types):
            return False
        return self._accept(context, value) and (not self._sources or context.match_arguments(self, node))


class Optional(WrapType):
    """A pattern that matches nodes of some types, or what the pattern of their first input matches.

    Args:
        type_names: See `WrapType`.
        arguments: See `WrapType`.
    """

    def match_value(self, context: Context, value: Output) -> bool:
        """See `Pattern`."""
        if super().match_value(context, value):
            return True
        first = self._sources[0] if self._sources else None
        return first is not None and context.match_value(first, value)


def _split_arguments(arguments: Iterable[Any], keywords: dict[str, Any]) -> tuple[list[Output], Any]:
    """Return the inputs and the predicate of a pattern."""
    inputs: list[Output] = []
    predicate: Any = None
    for argument in (*arguments, *keywords.values()):
        if isinstance(argument, Predicate) or not isinstance(argument, (Node, Output, list, tuple)):
            predicate = argument
        else:
            patterns = argument if isinstance(argument, (list, tuple)) else [argument]
            inputs.extend(as_output(pattern) for pattern in patterns)
    return inputs, predicate


def _parse_type(name: str) -> tuple[str, str]:
    """Return the type and the opset of "opset8.Relu"."""
    opset, _, node_type = re.sub("::", ".", name).partition(".")
    number = opset.removeprefix("opset")
    if not (opset.startswith("opset") and number.isdecimal() and 1 <= int(number) <= LAST_OPSET):
        raise RuntimeError(f"Unsupported opset type: {opset}")
    if registry.find(node_type, opset) is None:
        raise RuntimeError(f"Unrecognized operation type: {node_type}")
    return node_type, opset


def is_same_type(node: NodeData, node_type: str, version: str) -> bool:
    """Return whether a node has a type, in an opset with the same version of the operation."""
    return node._type == node_type and (
        node._version == version or registry.find(node._type, node._version) is registry.find(node_type, version)
    )
