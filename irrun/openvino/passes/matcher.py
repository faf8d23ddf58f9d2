"""`Matcher`, which compares a graph with a pattern."""

from __future__ import annotations

import itertools
from typing import Any

from irrun.openvino.passes.patterns import Pattern, is_same_type
from irrun.openvino.passes.predicates import Symbols
from irrun.openvino.ports import NodeData, Output, as_output
from irrun.ops._support import registry

__all__ = ["Matcher"]


class Matcher:
    """Compares a graph with a pattern.

    Args:
        node: The root of the pattern, a node or an output. Nodes of any type may be part of a pattern.
        name: The name.
    """

    def __init__(self, node: Any, name: str = "") -> None:
        self._root = as_output(node)
        self._name = name
        self._clear()

    def _clear(self) -> None:
        self._values: dict[NodeData, Output] = {}
        self._matched: list[Output] = []
        self.symbols: Symbols = {}

    def match(self, value: Any) -> bool:
        """Match a node or an output, and keep what the parts of the pattern matched."""
        self._clear()
        return self.match_value(self._root, Output(value, 0) if isinstance(value, NodeData) else as_output(value))

    def match_value(self, pattern: Output, value: Output) -> bool:
        """Match a part of the pattern; a failure leaves no trace."""
        node = pattern._node
        if node in self._values:
            return self._values[node] == value
        saved = dict(self._values), list(self._matched), dict(self.symbols)
        if self._match_node(pattern, value):
            return True
        self._values, self._matched, self.symbols = saved
        return False

    def _match_node(self, pattern: Output, value: Output) -> bool:
        node = pattern._node
        if isinstance(node, Pattern):
            return node.match_value(self, value)
        if node is not value._node and not is_same_type(value._node, node._type, node._version):
            return False
        if pattern._index != value._index:
            return False
        self.record(node, value)
        return node is value._node or self.match_arguments(node, value._node)

    def match_arguments(self, pattern: NodeData, node: NodeData) -> bool:
        """Match the inputs of a node, in any order if the operation is commutative."""
        expected, found = pattern._sources, node._sources
        if len(expected) != len(found):
            return False
        is_commutative = registry.get_card(node._type, node._version).commutative
        for order in itertools.permutations(expected) if is_commutative else [tuple(expected)]:
            saved = dict(self._values), list(self._matched), dict(self.symbols)
            if all(e is f or (e and f and self.match_value(e, f)) for e, f in zip(order, found, strict=True)):
                return True
            self._values, self._matched, self.symbols = saved
        return False

    def record(self, pattern: NodeData, value: Output) -> None:
        """Keep what a node of the pattern matched."""
        self._values[pattern] = value
        self._matched.append(value)

    # -- results

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_match_root(self) -> Any:
        """Return the node that the root matched."""
        return self.get_match_value().node

    def get_match_value(self) -> Output:
        """Return the output that the root matched."""
        return self._matched[0]

    def get_match_values(self) -> list[Output]:
        """Return all matched outputs, beginning at the root."""
        return list(dict.fromkeys(self._matched))

    def get_match_nodes(self) -> list[Any]:
        """Return all matched nodes, beginning at the root."""
        return list(dict.fromkeys(value.node for value in self._matched))

    def get_pattern_value_map(self) -> dict[Any, Output]:
        """Return the matched outputs by the nodes of the pattern."""
        return dict(self._values)

    def get_symbols(self) -> dict[str, Any]:
        """Return the values of the symbols of shapes by name."""
        return dict(self.symbols)
