"""The command cache, which shows and removes compiled kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import call

from irrun.fast.jit import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a cache with two kernels and a mark of one target, and an old kernel."""
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    for key in ("target/first", "target/second", f"target/model{cache.MARK}", "old"):
        cache.save(key, b"")
    mebibyte = bytes(1 << 20)
    (tmp_path / "jit/target/first").write_bytes(mebibyte)
    (tmp_path / "jit/target/second").write_bytes(2 * mebibyte)
    (tmp_path / f"jit/target/model{cache.MARK}").write_bytes(b"1234")
    (tmp_path / "jit/old").write_bytes(4 * mebibyte)
    return tmp_path / "jit"


def test_kernels_are_listed_by_target(folder, capsys):
    code, out, err = call(capsys, "cache")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{folder}: 7 MiB of at most 512 MiB",
        "  older versions of irrun: 1 kernels, 4 MiB",
        "  target: 2 kernels, 3 MiB, complete for 1 models",
    ]
    code, out, _ = call(capsys, "cache", "--json")
    assert json.loads(out) == {
        "folder": str(folder),
        "max_bytes": 512 << 20,
        "targets": [
            {"target": "", "kernels": 1, "models": 0, "bytes": 4 << 20},
            {"target": "target", "kernels": 2, "models": 1, "bytes": (3 << 20) + 4},
        ],
    }


def test_all_kernels_are_removed(folder, capsys):
    code, out, err = call(capsys, "cache", "--clear")
    assert (code, out, err) == (0, f"removed 4 files (7 MiB) from {folder}\n", "")
    assert not list(folder.iterdir())
    code, out, _ = call(capsys, "cache", "--clear", "--json")
    assert json.loads(out)["removed"] == {"files": 0, "bytes": 0}
    assert json.loads(out)["targets"] == []


def test_kernels_that_cannot_be_removed_are_reported(folder, monkeypatch, capsys):
    def refuse(path, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    code, out, err = call(capsys, "cache", "--clear")
    assert (code, out) == (2, "")
    assert err.startswith("irrun: cannot remove the compiled kernels: ")
    assert "Permission denied" in err
    assert len(cache.list_groups()) == 2


def test_missing_home_is_reported(monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("Could not determine home directory.")

    for name in ("IRRUN_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", fail)
    code, out, err = call(capsys, "cache")
    assert (code, out) == (2, "")
    assert "Could not determine home directory" in err
