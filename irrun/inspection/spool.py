"""Values in a temporary file, so that runs of any size need little memory."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

__all__ = ["Spool"]

Array = np.ndarray[Any, Any]

#: Maximum size in memory before a file is used, in bytes.
MEMORY = 256 << 20


class Spool:
    """Arrays by key, in memory up to a limit and in a temporary file beyond it."""

    def __init__(self) -> None:
        self._remaining = MEMORY
        self._arrays: dict[str, Array] = {}
        self._file: Any = None
        self._end = 0
        self._stored: dict[str, tuple[int, np.dtype[Any], tuple[int, ...]]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._arrays or key in self._stored

    def put(self, key: str, value: Array) -> None:
        """Store an array.

        Args:
            key: Its key.
            value: The array.
        """
        if value.dtype.hasobject or value.nbytes <= self._remaining:
            self._arrays[key] = value
            self._remaining -= 0 if value.dtype.hasobject else value.nbytes
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="irrun-")  # noqa: SIM115
        self._file.seek(self._end)
        data = np.ascontiguousarray(value)
        self._file.write(data.reshape(-1).view(np.uint8) if data.size else b"")
        self._stored[key] = (self._end, value.dtype, value.shape)
        self._end += value.nbytes

    def get(self, key: str) -> Array | None:
        """Return the array of a key, or None.

        Args:
            key: The key.
        """
        if key in self._arrays:
            return self._arrays[key]
        if key not in self._stored:
            return None
        offset, dtype, shape = self._stored[key]
        value = np.empty(shape, dtype)
        self._file.seek(offset)
        if value.size:
            self._file.readinto(value.reshape(-1).view(np.uint8))
        return value

    def close(self) -> None:
        """Discard all arrays."""
        self._arrays.clear()
        self._stored.clear()
        if self._file is not None:
            self._file.close()
