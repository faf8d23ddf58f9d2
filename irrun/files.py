"""Writing files so that nothing is ever half written."""

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
    """A file to write that takes the place of `path` when the block ends, and vanishes if it fails.

    A link stays a link, to a new file; a file keeps its permissions.

    Raises:
        OSError: it cannot be written, or what is there is no regular file.
    """
    path = Path(os.path.realpath(path))
    try:
        there = path.stat().st_mode
    except OSError:  # there is none, or making the temporary file tells why not
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    else:
        if stat.S_ISDIR(there):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(there):
            raise OSError(f"{path} is no regular file")
        mode = stat.S_IMODE(there)
    descriptor, temporary = tempfile.mkstemp(prefix=".irrun-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
