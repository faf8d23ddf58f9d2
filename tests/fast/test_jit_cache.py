"""The folder of compiled kernels, and when its size is checked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from irrun.fast.jit import cache


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/irrun/jit"),
        ("linux", {"XDG_CACHE_HOME": "other"}, "other/irrun/jit"),
        ("linux", {"LOCALAPPDATA": "other"}, "home/.cache/irrun/jit"),
        ("darwin", {}, "home/Library/Caches/irrun/jit"),
        ("darwin", {"XDG_CACHE_HOME": "other"}, "home/Library/Caches/irrun/jit"),
        ("win32", {}, "home/AppData/Local/irrun/jit"),
        ("win32", {"LOCALAPPDATA": "other"}, "other/irrun/jit"),
        ("win32", {"XDG_CACHE_HOME": "other"}, "home/AppData/Local/irrun/jit"),
        ("linux", {"IRRUN_CACHE_DIR": "own", "XDG_CACHE_HOME": "other"}, "own/jit"),
        ("win32", {"IRRUN_CACHE_DIR": "own", "LOCALAPPDATA": "other"}, "own/jit"),
        ("linux", {"IRRUN_CACHE_DIR": ""}, "home/.cache/irrun/jit"),
    ],
)
def test_folder_is_that_of_the_system_unless_a_variable_names_another(platform, variables, expected, monkeypatch):
    for name in ("IRRUN_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    monkeypatch.setattr(cache, "sys", SimpleNamespace(platform=platform))
    assert cache.get_folder() == Path(expected)


def test_size_is_checked_after_one_of_sixteen_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    checks = []
    monkeypatch.setattr(cache, "_limit_size", checks.append)
    codes = [bytes([number]) for number in range(256)]
    for number, code in enumerate(codes):
        cache.save(f"target/{number}", code)
    assert checks == [tmp_path / "jit"] * sum(hashlib.sha256(code).digest()[0] % 16 == 0 for code in codes)
    assert 8 <= len(checks) <= 32


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_files_that_cannot_be_written_are_removed(error, tmp_path, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        if error is OSError:
            cache.save("target/key", b"code")
        else:
            with pytest.raises(KeyboardInterrupt):
                cache.save("target/key", b"code")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    cache.save("target/key", b"code")
    assert cache.load("target/key") == b"code"
