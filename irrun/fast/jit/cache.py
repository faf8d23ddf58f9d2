"""Compiled kernels in files of the user's cache folder.

Each target (the versions of irrun and LLVM, and the processor) has its own folder. The name of a file is the
digest of the source text and the target with all its features, so a file never becomes stale. Each file starts with
the digest of the rest, so damaged files are ignored. If the files exceed MAX_BYTES, the least recently
used ones are removed.

Other files next to the kernels have suffixes. Marks state that all kernels of a program have been compiled. Aliases
name the kernel that a function returns for some arguments, so that its source text does not have to be made. Hosts
describe the processor, and checks state whether LLVM accepts an instruction, so that LLVM does not have to be imported.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from irrun.digests import sha256

__all__ = [
    "ALIAS",
    "CHECK",
    "HOST",
    "MARK",
    "MAX_BYTES",
    "Group",
    "clear",
    "find",
    "get_folder",
    "has_file",
    "list_groups",
    "load",
    "save",
]

#: Size of the digest in front of a kernel, in bytes.
DIGEST_SIZE = 32
#: Maximum size of the folder in bytes.
MAX_BYTES = 512 << 20
#: Prefix of files that are being written.
TEMPORARY = "."
#: Suffixes of marks, aliases, descriptions of processors, and checks of instructions.
MARK, ALIAS, HOST, CHECK = ".program", ".alias", ".host", ".check"


@dataclass(frozen=True)
class Group:
    """The kernels of one target.

    Attributes:
        name: The versions and the processor; empty for files of older versions of irrun.
        kernels: Number of kernels.
        programs: Number of programs with complete kernels.
        size: The bytes of all files.
        files: Number of all files.
    """

    name: str
    kernels: int
    programs: int
    size: int
    files: int


def get_folder() -> Path:
    """Return the folder: IRRUN_CACHE_DIR, or `irrun` in the user's cache folder of the operating system."""
    configured = os.environ.get("IRRUN_CACHE_DIR")
    if configured:
        return Path(configured) / "jit"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "irrun" / "jit"


def load(key: str) -> bytes | None:
    """Return the cached kernel of a key; None if it is missing, damaged or writable by other users.

    Args:
        key: The folder of the target and the digest, separated by a slash.
    """
    try:
        folder = get_folder()
        path = folder / key
        with path.open("rb") as file:
            statuses = (os.fstat(file.fileno()), path.parent.stat(), folder.stat())
            if not all(map(_is_private, statuses)):
                return None
            content = file.read()
        with contextlib.suppress(OSError):  # a folder that cannot be written
            os.utime(path)
    except (OSError, RuntimeError):  # no home folder
        return None
    digest, code = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
    return code if code and sha256(code).digest() == digest else None


def has_file(name: str) -> bool:
    """Return whether the folder of any target has a file with a name."""
    return _find_target(name) is not None


def find(name: str) -> bytes | None:
    """Return the content of a file with a name in the folder of any target, under the conditions of `load`."""
    target = _find_target(name)
    return None if target is None else load(f"{target}/{name}")


def _find_target(name: str) -> str | None:
    with contextlib.suppress(OSError, RuntimeError):
        folder = get_folder()
        with os.scandir(folder) as entries:
            targets = (entry.name for entry in entries if entry.is_dir())
            return next((target for target in targets if (folder / target / name).exists()), None)
    return None


def save(key: str, code: bytes) -> None:
    """Save a kernel. Do nothing without permission to write."""
    import tempfile  # takes milliseconds

    with contextlib.suppress(OSError, RuntimeError):
        digest = sha256(code).digest()
        folder = get_folder()
        path = folder / key
        for each in dict.fromkeys((folder, path.parent)):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(each.stat()):
                return
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=TEMPORARY)  # readable by the user only
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(digest + code)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        if not digest[0] % 16:  # listing all files takes milliseconds
            _limit_size(folder)


def list_groups() -> list[Group]:
    """Return the kernels in the cache by target, except files that other processes remove meanwhile."""
    files: dict[str, list[tuple[str, int]]] = {}
    with contextlib.suppress(OSError, RuntimeError):
        folder = get_folder()
        for path, status in _list_files(folder):
            if not path.name.startswith(TEMPORARY):
                name = path.parent.name if path.parent != folder else ""
                files.setdefault(name, []).append((path.suffix, status.st_size))
    return [_make_group(name, own) for name, own in sorted(files.items())]


def clear() -> Group:
    """Remove all files and return their groups. Processes that use a kernel keep it.

    Raises:
        OSError: A file could not be removed.
    """
    folder = get_folder()
    removed: list[tuple[str, int]] = []
    for path, status in list(_list_files(folder)):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            removed.append((path.suffix, status.st_size))
    if folder.is_dir():
        for each in folder.iterdir():
            with contextlib.suppress(OSError):  # another process is writing to it
                each.rmdir()
    return _make_group("", removed)


def _make_group(name: str, files: Sequence[tuple[str, int]]) -> Group:
    """Return the group of some files, given the suffix and size of each."""
    suffixes = [suffix for suffix, _ in files]
    kernels = len(files) - sum(map(suffixes.count, (MARK, ALIAS, HOST, CHECK)))
    return Group(name, kernels, suffixes.count(MARK), sum(size for _, size in files), len(files))


def _list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                yield path, path.lstat()


def _is_private(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to the user and only the user may write it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _limit_size(folder: Path) -> None:
    """Remove the least recently used files if there are more bytes than MAX_BYTES, until a quarter is free."""
    files = list(_list_files(folder))
    size = sum(status.st_size for _, status in files)
    if size <= MAX_BYTES:
        return
    for path, status in sorted(files, key=lambda item: item[1].st_mtime_ns):
        if size <= MAX_BYTES * 3 // 4:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        size -= status.st_size
