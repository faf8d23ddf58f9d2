"""Compiled kernels in files of the user's cache folder.

The name of a file is the digest of the source text, of the processor with its features and of the version of LLVM, so
that a file never has to be invalidated. A file that is damaged is ignored: its first bytes are the digest of the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

__all__ = ["get_folder", "load", "save"]

#: Bytes of the digest in front of a kernel.
DIGEST_SIZE = 32
#: Files that the folder may hold; the oldest are removed.
MAX_FILES = 4096


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
    """Return the kernel of a key, or None if it is not in the cache, damaged, or writable by other users."""
    try:
        path = get_folder() / key
        with path.open("rb") as file:
            if not _is_private(os.fstat(file.fileno())) or not _is_private(path.parent.stat()):
                return None
            content = file.read()
    except (OSError, RuntimeError):  # no home folder
        return None
    digest, code = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
    return code if code and hashlib.sha256(code).digest() == digest else None


def save(key: str, code: bytes) -> None:
    """Save a kernel. Without permission to write, nothing happens."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = get_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder.stat()):
            return
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".")  # readable by the user only
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(temporary, folder / key)
        except BaseException:
            os.unlink(temporary)
            raise
        _remove_oldest(folder)


def _is_private(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to the user and nobody else may write it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _remove_oldest(folder: Path) -> None:
    entries = list(os.scandir(folder))
    if len(entries) > MAX_FILES:
        entries.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in entries[: MAX_FILES // 4]:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
