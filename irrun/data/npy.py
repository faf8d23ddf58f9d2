"""Headers of .npy files and of members of .npz files, checked before memory is allocated."""

from __future__ import annotations

import io
import math
import zipfile
from typing import Any, BinaryIO

import numpy as np

__all__ = ["MAX_HEADER", "check_compression", "read_npy_header"]

#: Maximum size of a header in bytes, as in NumPy, which however reads headers of any size before rejecting them.
MAX_HEADER = 10_000
#: Compression methods of .npz files. For other methods, zipfile expands whole blocks, to any size.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
VERSIONS = ((1, 0), (2, 0), (3, 0))


def read_npy_header(file: BinaryIO | Any, size: int | None = None) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an .npy file.

    Args:
        file: The file, at its start. It is at the start of the data afterwards.
        size: The size of the file in bytes, for a check.

    Returns:
        The shape, whether the order is Fortran's, and the type.

    Raises:
        ValueError: The header is invalid or too large, or the file is smaller than its data.
    """
    version = np.lib.format.read_magic(file)
    if version not in VERSIONS:
        raise ValueError(f"expected version 1, 2 or 3 of the format, found {version[0]}.{version[1]}")
    prefix = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length} bytes, expected at most {MAX_HEADER}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(io.BytesIO(prefix + file.read(length)))
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {list(shape)} has a negative dimension")
    required = file.tell() + math.prod(shape) * dtype.itemsize
    if size is not None and size < required and not dtype.hasobject:
        raise ValueError(f"it has {size} bytes, {required} are required for shape {list(shape)} of {dtype}")
    return shape, is_fortran, dtype


def check_compression(member: zipfile.ZipInfo) -> None:
    """Check that a member of an .npz file is compressed as NumPy does it, so that it can be read in parts.

    Raises:
        ValueError: It is not.
    """
    if member.compress_type not in COMPRESSIONS:
        text = f"{member.filename!r} has the compression {member.compress_type} of zip files"
        raise ValueError(f"{text}, expected 8 (deflate) or 0 (none)")
