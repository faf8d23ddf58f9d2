"""The processes of a run of `irrun map`, from /proc."""

from __future__ import annotations

from pathlib import Path

__all__ = ["find_children", "find_workers"]


def find_children(parent: int) -> dict[int, int]:
    """Return the descendants of a process, each with its parent."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    children: dict[int, int] = {}
    latest = {parent: 0}
    while latest:
        latest = {process: p for process, p in parents.items() if p in latest}
        children |= latest
    return children


def find_workers(parent: int) -> list[int]:
    """Return the Dask workers of a process, which are forked from one of its children."""
    return [process for process, p in find_children(parent).items() if p != parent]
