"""Atomic writing of files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from irrun.errors import InputError

__all__ = ["atomic_write", "check_not_overwriting", "keep_files"]

#: Files that must not be overwritten, by device and inode.
_kept: dict[tuple[int, int], Path] = {}


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends and is deleted if the block fails.

    Missing parent folders are created. If `path` is a symbolic link, its target is replaced. The permissions of an
    existing file are kept.

    Args:
        path: The file to write.

    Yields:
        The temporary file, open for writing.

    Raises:
        InputError: The file is one that `keep_files` keeps.
        OSError: The file cannot be written, or `path` exists and is not a regular file.
    """
    check_not_overwriting([path])
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = _get_mode(path)
    descriptor, temporary = tempfile.mkstemp(prefix=".irrun-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def keep_files(paths: Iterable[str | os.PathLike[str] | int]) -> Iterator[None]:
    """Refuse to overwrite files inside a `with` block, through any path or link.

    Args:
        paths: The paths of the files, or descriptors of open files. Paths that do not exist, folders and pipes have no
            effect.
    """
    before = dict(_kept)
    _kept.update(_identify(paths))
    try:
        yield
    finally:
        _kept.clear()
        _kept.update(before)


def check_not_overwriting(
    targets: Iterable[str | os.PathLike[str]], sources: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Check that writing to paths does not overwrite files that are read.

    Args:
        targets: The paths to write.
        sources: Files that are read, in addition to the files of `keep_files`.

    Raises:
        InputError: A target is one of these files, or a symbolic or hard link to one.
    """
    kept = {**_kept, **_identify(sources)}
    for identity in _identify(targets) if kept else ():
        if identity in kept:
            raise InputError(f"this would overwrite the input file {kept[identity]}; choose another output")


def _identify(paths: Iterable[str | os.PathLike[str] | int]) -> dict[tuple[int, int], Path]:
    """Return the regular files among paths and descriptors by device and inode."""
    files = {}
    for path in paths:
        with suppress(OSError, ValueError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                files[status.st_dev, status.st_ino] = Path("stdin" if isinstance(path, int) else path)
    return files


def _get_mode(path: Path) -> int:
    """Return the permissions of an existing file, or the default permissions of a new one."""
    try:
        mode = path.stat().st_mode
    except OSError:  # the file does not exist, or creating the temporary file will report the problem
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a regular file")
    return stat.S_IMODE(mode)
