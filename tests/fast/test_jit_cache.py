"""The folder of compiled kernels, and when its size is checked."""

from __future__ import annotations

import hashlib
import os
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a cache."""
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    return tmp_path / "jit"


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: content[:32],
        lambda content: content[:31],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: bytes([content[0] ^ 1]) + content[1:],
    ],
    ids=["shorter", "without code", "without digest", "empty", "longer", "other digest"],
)
def test_damaged_kernels_are_not_loaded(folder, change):
    cache.save("target/key", b"code")
    path = folder / "target/key"
    content = path.read_bytes()
    assert content == hashlib.sha256(b"code").digest() + b"code"
    path.write_bytes(change(content))
    assert cache.load("target/key") is None
    path.write_bytes(content)
    assert cache.load("target/key") == b"code"
    assert cache.load("target/other") is None


def test_kernels_without_code_are_not_loaded(folder):
    cache.save("target/key", b"")
    assert (folder / "target/key").exists()
    assert cache.load("target/key") is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners")
@pytest.mark.parametrize("name", ["target/key", "target", ""])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_kernels_that_others_may_write_are_neither_loaded_nor_saved(folder, name, mode):
    cache.save("target/key", b"code")
    path = folder / name
    before = path.stat().st_mode
    path.chmod(before | mode)
    assert cache.load("target/key") is None
    if name != "target/key":
        cache.save("target/other", b"code")
        assert not (folder / "target/other").exists()
    path.chmod(before | 0o044)
    assert cache.load("target/key") == b"code"
    own = os.stat(path)
    assert cache._is_private(own)
    assert not cache._is_private(SimpleNamespace(st_uid=own.st_uid + 1, st_mode=own.st_mode))


def test_loaded_kernels_are_the_most_recently_used(folder):
    cache.save("target/key", b"code")
    path = folder / "target/key"
    os.utime(path, (1, 1))
    assert cache.load("target/key") == b"code"
    assert path.stat().st_mtime > 1


def test_files_are_found_in_any_target(folder):
    assert not cache.has_file("a.host")
    assert cache.find("a.host") is None
    cache.save("first/key", b"code")
    cache.save("second/a.host", b"processor")
    (folder / "a.host").write_bytes(b"no target")
    assert cache.has_file("a.host")
    assert cache.find("a.host") == b"processor"
    assert not cache.has_file("b.host")
    assert cache.find("b.host") is None


def test_files_are_counted_by_target_and_kind(folder):
    assert cache.list_groups() == []
    names = ("b/1", "b/2", "b/3.program", "b/4.alias", "b/5.host", "b/6.check", "a/7", "a/8.program")
    for name in names:
        cache.save(name, b"code")
    (folder / "old").write_bytes(b"1234")
    (folder / ".unfinished").write_bytes(b"12345")
    size = 32 + 4
    groups = [cache.Group("", 1, 0, 4, 1), cache.Group("a", 1, 1, 2 * size, 2), cache.Group("b", 2, 1, 6 * size, 6)]
    assert cache.list_groups() == groups
    assert cache.clear() == cache.Group("", 5, 2, 8 * size + 4 + 5, 10)
    assert list(folder.iterdir()) == []
    assert cache.clear() == cache.Group("", 0, 0, 0, 0)


def test_least_recently_used_files_are_removed_until_a_quarter_is_free(folder, monkeypatch):
    size = 32 + 68
    for number in range(8):
        cache.save(f"target/{number}", bytes(68))
        os.utime(folder / f"target/{number}", (number, number))
    monkeypatch.setattr(cache, "MAX_BYTES", 8 * size)
    cache._limit_size(folder)
    assert len(list(folder.rglob("*"))) == 1 + 8
    monkeypatch.setattr(cache, "MAX_BYTES", 8 * size - 1)
    cache._limit_size(folder)
    assert sorted(path.name for path in folder.glob("target/*")) == ["3", "4", "5", "6", "7"]
