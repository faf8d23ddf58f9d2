"""The memory that the machine, its control groups and the limits of the process have left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irrun import machine_memory


def write_groups(monkeypatch, folder: Path, lines: str, groups: dict[str, dict[str, str]]) -> None:
    """Replace /proc and the control groups of this process by files in a folder."""
    for group, files in groups.items():
        for name, text in files.items():
            (folder / group).mkdir(parents=True, exist_ok=True)
            (folder / group / name).write_text(text)
    (folder / "proc/self").mkdir(parents=True, exist_ok=True)
    (folder / "proc/self/cgroup").write_text(lines)
    (folder / "proc/self/statm").write_text("3 2 1")
    (folder / "proc/meminfo").write_text("MemTotal: 900 kB\nMemAvailable:     64 kB\n")
    monkeypatch.setattr(machine_memory, "_CGROUP_ROOT", folder / "groups")
    monkeypatch.setattr(machine_memory, "Path", lambda path: folder / path.lstrip("/"))


def describe_group(limit, used, *stat: str, version: int = 2) -> dict[str, str]:
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    return {names[0]: str(limit), names[1]: str(used), **({"memory.stat": "\n".join(stat)} if stat else {})}


@pytest.mark.parametrize(
    ("lines", "groups", "expected"),
    [
        ("0::/job/step\n", {"groups/job/step": describe_group(40960, 8192)}, 32768),
        ("0::/job/step\n", {"groups/job/step": describe_group("max", 1), "groups/job": describe_group(9000, 0)}, 9000),
        ("0::/user:1/step\n", {"groups/user:1/step": describe_group(40960, 8192)}, 32768),
        ("0::/elsewhere\n", {"groups": describe_group(5000, 4000)}, 1000),
        (
            "0::/job\n",
            {"groups/job": describe_group(9000, 8000, "anon 1", "inactive_file 500", "active_file 20")},
            1520,
        ),
        ("0::/job\n", {"groups/job": describe_group(9000, 100, "active_file 300")}, 9000),
        ("0::/job\n", {"groups/job": describe_group(9000, 9500)}, 0),
        ("4:cpu,memory:/a\n", {"groups/memory/a": describe_group(8000, 1000, version=1)}, 7000),
        ("4:cpu:/a\n", {"groups/memory/a": describe_group(8000, 1000, version=1)}, 65536),
        ("0::/a\n", {"groups/a": describe_group(1 << 40, 0)}, 65536),
        ("0::/../../x\n", {"x": describe_group(5, 0)}, 65536),
    ],
)
def test_available_memory_respects_control_groups(lines, groups, expected, tmp_path, monkeypatch):
    write_groups(monkeypatch, tmp_path, lines, groups)
    assert machine_memory.get_available_memory() == expected


def test_available_memory_respects_the_limit_of_the_address_space(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    write_groups(monkeypatch, tmp_path, "", {})
    pages = resource.getpagesize()
    for limit, expected in ((10 * pages, 7 * pages), (2 * pages, 0), (resource.RLIM_INFINITY, 65536)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert machine_memory.get_available_memory() == expected


def test_available_memory_has_a_default(tmp_path, monkeypatch):
    machine_memory.get_default_limit()  # is kept by the process, and must be that of the real machine
    monkeypatch.setattr(machine_memory, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert machine_memory.get_available_memory() == machine_memory.get_default_limit()


def test_one_array_may_take_half_of_the_machine_or_container(tmp_path, monkeypatch):
    write_groups(monkeypatch, tmp_path, "0::/a\n", {"groups/a": describe_group(6000, 5000)})
    sizes = {"SC_PHYS_PAGES": 5, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    compute = machine_memory.get_default_limit.__wrapped__
    assert compute() == 3000
    (tmp_path / "proc/self/cgroup").unlink()
    assert compute() == 10240
    monkeypatch.delattr(os, "sysconf")
    assert compute() == 8 << 30
