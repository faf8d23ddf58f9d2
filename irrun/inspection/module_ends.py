"""The values that modules of the source framework pass to other modules, found by module paths in names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from irrun.inspection.keys import find_constant_layers
from irrun.inspection.modules import ModulePath, parse_module_path
from irrun.ir.graph import Graph, Layer

__all__ = ["ModuleEnd", "find_layer_ends", "find_layer_paths", "find_module_ends"]

Node = TypeVar("Node")
Number = TypeVar("Number", bound=Hashable)


class ModuleEnd(NamedTuple, Generic[Node]):
    """The only node that passes values of a module to other modules.

    Attributes:
        node: The node.
        users: The modules that use its value.
    """

    node: Node
    users: frozenset[ModulePath]


def find_module_ends(
    paths: Mapping[Number, ModulePath], edges: Iterable[tuple[Number, Number]]
) -> dict[ModulePath, ModuleEnd[Number]]:
    """Find nodes that are alone in their module in passing values to other modules.

    Args:
        paths: The module paths of nodes.
        edges: Pairs of a node and a user of its value.

    Returns:
        The ends by module path.
    """
    users: dict[ModulePath, dict[Number, set[ModulePath]]] = {}
    for node, user in edges:
        path, other = paths[node], paths[user]
        for depth in range(1, len(path) + 1):
            if other[:depth] != path[:depth]:
                users.setdefault(path[:depth], {}).setdefault(node, set()).add(other)
    return {
        path: ModuleEnd(node, frozenset(others))
        for path, found in users.items()
        if len(found) == 1
        for node, others in found.items()
    }


def find_layer_paths(graph: Graph) -> dict[int, ModulePath]:
    """Return the module paths in the names of layers by their ids; () for Results and names without a path.

    Args:
        graph: The graph.
    """
    return {n.id: () if n.is_output else parse_module_path(n.name) or () for n in graph.layers}


def find_layer_ends(graph: Graph) -> dict[ModulePath, ModuleEnd[Layer]]:
    """Find layers with one output that are alone in their module in passing values to other modules.

    Args:
        graph: The graph.

    Returns:
        The ends by module path.
    """
    constants = find_constant_layers(graph)
    layers = {layer.id: layer for layer in graph.layers}
    edges = ((e.from_layer, e.to_layer) for e in graph.edges if e.from_layer not in constants)
    ends = find_module_ends(find_layer_paths(graph), edges)
    return {
        path: ModuleEnd(layers[end.node], end.users) for path, end in ends.items() if len(layers[end.node].outputs) == 1
    }
