"""Atomic writing of files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write"]


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
        OSError: The file cannot be written, or `path` exists and is not a regular file.
    """
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


def _get_mode(path: Path) -> int:
    """Return the permissions of an existing file, or the default permissions of a new one."""
    try:
        mode = path.stat().st_mode
    except OSError:  # it does not exist, or creating the temporary file reports why it cannot be written
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a regular file")
    return stat.S_IMODE(mode)
