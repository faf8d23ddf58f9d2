"""Groups of layers: modules of the source framework, none of them too large to be laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from irrun.inspection.modules import ModulePath
from irrun.inspection.report.summaries import shorten
from irrun.ir.graph import Layer

__all__ = ["MAX_MEMBERS", "Group", "build_groups"]

#: Maximum number of members of a group, as many as the page lays out in a moment.
MAX_MEMBERS = 150
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


def build_groups(layers: Sequence[Layer], paths: Mapping[int, ModulePath]) -> Group:
    """Return the groups of one graph as a tree.

    Args:
        layers: The layers in the order of execution.
        paths: The module paths by `id` of the layer.

    Returns:
        The root, which stands for the graph. No group has more than `MAX_MEMBERS` members.
    """
    root = Group()
    groups: dict[ModulePath, Group] = {(): root}
    for layer in layers:
        path = paths.get(id(layer), ())[:MAX_DEPTH]
        _find_group(groups, path).members.append(layer)
    _merge(root)
    while len(root.members) == 1 and isinstance(root.members[0], Group):
        root = root.members[0]
    _set_labels(root)
    _cut(root)
    return root


def _find_group(groups: dict[ModulePath, Group], path: ModulePath) -> Group:
    for length in range(len(path) + 1):
        part = path[:length]
        if part not in groups:
            groups[part] = Group(path=part)
            groups[part[:-1]].members.append(groups[part])
    return groups[path]


def _merge(group: Group) -> None:
    """Dissolve groups of one layer or of one group."""
    members: list[Layer | Group] = []
    for member in group.members:
        if isinstance(member, Group):
            _merge(member)
            if len(member.members) == 1:
                member = member.members[0]
        members.append(member)
    group.members = members


def _set_labels(group: Group) -> None:
    """Label the groups in a group by their path in it. A number is preceded by the name of its list of modules."""
    for member in group.members:
        if isinstance(member, Group):
            start = len(group.path)
            start -= bool(start and member.path[start].isdigit())
            member.label = shorten(".".join(member.path[start:]), 120)
            _set_labels(member)


def _cut(group: Group) -> None:
    """Divide the members of large groups into groups of consecutive members of about the same size."""
    for member in group.members:
        if isinstance(member, Group):
            _cut(member)
    while len(group.members) > MAX_MEMBERS:
        count = -(-len(group.members) // MAX_MEMBERS)
        bounds = [i * len(group.members) // count for i in range(count + 1)]
        parts = [group.members[start:end] for start, end in pairwise(bounds)]
        position, cut = 1, []
        for part in parts:
            size = sum(m.count_layers() if isinstance(m, Group) else 1 for m in part)
            label = f"layers {position} to {position + size - 1}"
            cut.append(Group(label, members=list(part)))
            position += size
        group.members = list[Any](cut)
