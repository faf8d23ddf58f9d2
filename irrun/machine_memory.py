"""The memory of the machine and of the control groups of the process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

__all__ = ["get_available_memory", "get_default_limit"]

#: Limit in bytes if the size of the machine's memory is unknown.
FALLBACK_LIMIT = 8 << 30

_CGROUP_ROOT = Path("/sys/fs/cgroup")


@functools.lru_cache(maxsize=1)
def get_default_limit() -> int:
    """Return the number of bytes that one array may take: half of the memory of the machine or container."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return FALLBACK_LIMIT
    return min([total, *(limit for limit, _ in _read_cgroups())]) // 2


def get_available_memory() -> int:
    """Return the number of bytes that can be allocated without swapping, on this machine and in its container.

    The page cache, such as mapped weights that were read, counts as available.
    """
    candidates = [max(limit - used, 0) for limit, used in _read_cgroups()]
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                candidates.append(int(line.split()[1]) << 10)
    except (OSError, ValueError, IndexError):
        pass
    address_space = _read_address_space()
    if address_space is not None:
        candidates.append(address_space)
    return min(candidates, default=get_default_limit())


def _read_address_space() -> int | None:
    """Return the remaining bytes of a limit on the address space of the process (`ulimit -v`), or None."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return max(limit - pages * resource.getpagesize(), 0)
    except (ImportError, OSError, ValueError):
        return None


def _read_cgroups() -> list[tuple[int, int]]:
    """Return the limit and the usage of each control group of this process that limits memory (cgroups v1 and v2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    groups = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _CGROUP_ROOT / "memory" if controllers else _CGROUP_ROOT
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        folder = root / path.lstrip("/")
        # Inside of a container its own group is mounted as the root.
        for candidate in dict.fromkeys((folder, *folder.parents, root)):
            if candidate == root or root in candidate.parents:
                group = _read_cgroup(candidate, *names)
                if group is not None:
                    groups.append(group)
    return groups


def _read_cgroup(folder: Path, limit_name: str, usage_name: str) -> tuple[int, int] | None:
    try:
        limit = int((folder / limit_name).read_text(encoding="ascii"))
        used = int((folder / usage_name).read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    cached = 0
    try:
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "active_file"):
                cached += int(value)
    except (OSError, ValueError):
        pass
    return limit, max(used - cached, 0)
