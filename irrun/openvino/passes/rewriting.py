"""User-defined passes, and `Manager`, which runs passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from irrun.openvino.model import Model
from irrun.openvino.node import Node
from irrun.openvino.passes.matcher import Matcher

__all__ = ["BackwardGraphRewrite", "GraphRewrite", "Manager", "MatcherPass", "ModelPass", "PassBase"]

Callback = Callable[[Matcher], Any]


class PassBase:
    """Base class of passes."""

    def get_name(self) -> str:
        """Return the name."""
        return getattr(self, "_name", type(self).__name__)

    def set_name(self, name: str) -> None:
        """Set the name."""
        self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class ModelPass(PassBase):
    """A pass over a model. Subclasses override `run_on_model`."""

    def run_on_model(self, model: Model) -> bool:
        """Change a model, and return whether it changed.

        Raises:
            RuntimeError: A derived class does not override it.
        """
        raise RuntimeError(f"{type(self).__name__}.run_on_model is not defined")


class MatcherPass(PassBase):
    """A pattern, and a callback for the nodes that match it.

    Args:
        matcher: The matcher of the pattern.
        callback: A function of the matcher that returns whether it replaced the root.
    """

    def __init__(self, matcher: Matcher | None = None, callback: Callback | None = None) -> None:
        self._new_nodes: list[Node] = []
        self._matcher: Matcher | None = None
        if matcher is not None and callback is not None:
            self.register_matcher(matcher, callback)

    def register_matcher(self, matcher: Matcher, callback: Callback) -> None:
        """Set the matcher and the callback."""
        self._matcher, self._callback = matcher, callback

    def register_new_node(self, node: Node) -> Node:
        """Let the rewrite that runs this pass visit a new node too; return it."""
        self._new_nodes.append(node)
        return node

    def apply(self, node: Node) -> bool:
        """Match a node, and call the callback if it matches; return whether the root was replaced."""
        if self._matcher is None:
            return False
        return any(self._matcher.match(output) and bool(self._callback(self._matcher)) for output in node.outputs()[:1])

    def _take_new_nodes(self) -> list[Node]:
        nodes, self._new_nodes = self._new_nodes, []
        return nodes


class GraphRewrite(ModelPass):
    """Applies passes to the nodes of a model in topological order.

    Args:
        matcher_pass: The first pass.
    """

    def __init__(self, matcher_pass: MatcherPass | None = None) -> None:
        self.passes_list: list[MatcherPass] = [] if matcher_pass is None else [matcher_pass]

    def add_matcher(self, transformation: MatcherPass) -> MatcherPass:
        """Add a pass; return it."""
        self.passes_list.append(transformation)
        return transformation

    def _order(self, nodes: Iterable[Node]) -> list[Node]:
        return list(nodes)

    def run_on_model(self, model: Model) -> bool:
        """Apply the passes. New nodes are visited next; a node that was replaced is left."""
        queue = deque(self._order(model.get_ordered_ops()))
        changed = False
        while queue:
            node = queue.popleft()
            for item in self.passes_list:
                replaced = item.apply(node)
                queue.extendleft(reversed(item._take_new_nodes()))
                if replaced:
                    changed = True
                    break
        return changed


class BackwardGraphRewrite(GraphRewrite):
    """Applies passes to the nodes of a model in reversed topological order."""

    def _order(self, nodes: Iterable[Node]) -> list[Node]:
        return list(nodes)[::-1]


class Manager:
    """Runs passes over models."""

    def __init__(self) -> None:
        self.passes_list: list[PassBase] = []
        self._validates = True

    def __repr__(self) -> str:
        return "<Manager>"

    def register_pass(self, transformation: PassBase | None = None, **keywords: Any) -> PassBase:
        """Add a pass; return it.

        Raises:
            TypeError: It is not a pass.
        """
        if not isinstance(transformation, PassBase) or keywords:
            raise TypeError(
                "register_pass(): incompatible function arguments: expected a PassBase. "
                f"Invoked with: {transformation!r}, {keywords}"
            )
        self.passes_list.append(transformation)
        return transformation

    def run_passes(self, model: Model) -> None:
        """Run the passes in the order of their registration."""
        for item in self.passes_list:
            runner = GraphRewrite(item) if isinstance(item, MatcherPass) else item
            if isinstance(runner, ModelPass) and runner.run_on_model(model) and self._validates:
                model.validate_nodes_and_infer_types()

    def set_per_pass_validation(self, new_state: bool) -> None:
        """Set whether types and shapes are inferred anew after each pass that changed the model."""
        self._validates = new_state
