"""Groups of layers: modules of the source framework, divided into groups small enough to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from irrun.inspection.modules import ModulePath
from irrun.inspection.report.summaries import shorten
from irrun.ir.graph import Layer

__all__ = ["MAX_MEMBERS", "Group", "build_groups"]

#: Maximum number of members of a group that a reader can take in.
MAX_MEMBERS = 80
#: The size of the parts that larger groups are divided into.
SECTION = 40
#: Modules that are nested more deeply belong to their ancestor of this depth.
MAX_DEPTH = 16


@dataclass(eq=False)
class Group:
    """A group of layers and groups.

    Attributes:
        label: The label.
        path: The module path; empty for a part of a large group.
        members: The layers and groups in the order of execution.
    """

    label: str = ""
    path: ModulePath = ()
    members: list[Layer | Group] = field(default_factory=list)

    def count_layers(self) -> int:
        """Return the number of layers in the group and in the groups in it."""
        return sum(member.count_layers() if isinstance(member, Group) else 1 for member in self.members)


def build_groups(
    layers: Sequence[Layer], paths: Mapping[int, ModulePath], edges: Iterable[tuple[Layer, Layer]] = ()
) -> Group:
    """Return the groups of one graph as a tree.

    Args:
        layers: The layers in the order of execution.
        paths: The module paths by `id` of the layer.
        edges: Producers and consumers of values. Large groups are divided where few values cross.

    Returns:
        The root, which represents the graph. No group has more than `MAX_MEMBERS` members.
    """
    root = Group()
    groups: dict[ModulePath, Group] = {(): root}
    for layer in layers:
        path = paths.get(id(layer), ())[:MAX_DEPTH]
        _find_group(groups, path).members.append(layer)
    pairs = [(id(producer), id(consumer)) for producer, consumer in edges]
    _dissolve_cycles(root, layers, pairs)
    _merge(root)
    while len(root.members) == 1 and isinstance(root.members[0], Group):
        root = root.members[0]
    _set_labels(root)
    _cut(root, pairs)
    return root


def _find_group(groups: dict[ModulePath, Group], path: ModulePath) -> Group:
    for length in range(len(path) + 1):
        part = path[:length]
        if part not in groups:
            groups[part] = Group(path=part)
            groups[part[:-1]].members.append(groups[part])
    return groups[path]


def _merge(group: Group) -> None:
    """Dissolve groups that contain a single layer or group."""
    members: list[Layer | Group] = []
    for member in group.members:
        if isinstance(member, Group):
            _merge(member)
            if len(member.members) == 1:
                member = member.members[0]
        members.append(member)
    group.members = members


def _dissolve_cycles(root: Group, layers: Sequence[Layer], edges: Sequence[tuple[int, int]]) -> None:
    """Dissolve innermost groups with a cycle through other layers, such as an activation called several times."""
    order = {id(layer): i for i, layer in enumerate(layers)}
    producers: list[list[int]] = [[] for _ in layers]
    for producer, consumer in edges:
        if producer in order and consumer in order:
            producers[order[consumer]].append(order[producer])

    def visit(group: Group) -> None:
        members: list[Layer | Group] = []
        for member in group.members:
            if isinstance(member, Group):
                visit(member)
                if _has_cycle([order[n] for n in _list_numbers(member)], producers) and not any(
                    isinstance(inner, Group) for inner in member.members
                ):
                    members += member.members
                    continue
            members.append(member)
        group.members = sorted(members, key=lambda member: order[next(_list_numbers(member))])

    visit(root)


def _has_cycle(indices: Sequence[int], producers: Sequence[Sequence[int]]) -> bool:
    """Return whether a value of some layers returns to them through other layers."""
    inside = set(indices)
    reached: set[int] = set()
    for i in range(min(indices, default=0), max(indices, default=-1) + 1):
        if i in inside:
            if not reached.isdisjoint(producers[i]):
                return True
        elif any(p in inside or p in reached for p in producers[i]):
            reached.add(i)
    return False


def _set_labels(group: Group) -> None:
    """Label the groups in a group by their path in it. A number gets the name of its module list as a prefix."""
    for member in group.members:
        if isinstance(member, Group):
            start = len(group.path)
            start -= bool(start and member.path[start].isdigit())
            member.label = shorten(".".join(member.path[start:]), 120)
            _set_labels(member)


def _cut(group: Group, edges: Sequence[tuple[int, int]]) -> None:
    """Divide the members of large groups into groups of consecutive members, where few values cross."""
    for member in group.members:
        if isinstance(member, Group):
            _cut(member, edges)
    while len(group.members) > MAX_MEMBERS:
        position, cut = 1, []
        bounds = _choose_bounds(_count_crossing(group.members, edges))
        for start, end in pairwise(bounds):
            part = group.members[start:end]
            size = sum(m.count_layers() if isinstance(m, Group) else 1 for m in part)
            cut.append(Group(f"layers {position}–{position + size - 1}", members=part))
            position += size
        group.members = list[Any](cut)


def _count_crossing(members: Sequence[Layer | Group], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return, for each position, the number of earlier members with values used by later members."""
    indices = {number: i for i, member in enumerate(members) for number in _list_numbers(member)}
    last = list(range(len(members)))
    for producer, consumer in edges:
        if producer in indices and consumer in indices:
            last[indices[producer]] = max(last[indices[producer]], indices[consumer])
    changes = [0] * (len(members) + 1)
    for start, end in enumerate(last):
        changes[start] += 1
        changes[end] -= 1
    crossing = [0, *accumulate(changes)]
    return crossing[: len(members)]


def _list_numbers(member: Layer | Group) -> Iterator[int]:
    if isinstance(member, Group):
        for inner in member.members:
            yield from _list_numbers(inner)
    else:
        yield id(member)


def _choose_bounds(crossing: Sequence[int]) -> list[int]:
    """Return the bounds of parts of about `SECTION` members, given the number of values that cross each position."""
    bounds = [0]
    while len(crossing) - bounds[-1] > 3 * SECTION // 2:
        wanted = bounds[-1] + SECTION
        candidates = range(wanted - SECTION // 2, wanted + SECTION // 2)
        bounds.append(min(candidates, key=lambda i: (crossing[i], abs(i - wanted))))
    return [*bounds, len(crossing)]
