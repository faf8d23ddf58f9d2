"""The contents of a .bin file, mapped into memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from irrun.arguments import check_path, describe_value
from irrun.errors import ModelError
from irrun.forks import make_lock
from irrun.ir.file_kinds import HEAD_SIZE, explain_weights

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MissingWeightsError", "Weights", "WeightsSource"]

#: The weights of a model as a path, bytes, or an array.
WeightsSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]


#: MADV_POPULATE_READ of Linux since 5.14, which Python does not name.
MADV_POPULATE_READ = 22
#: Bytes that are mapped at a time; in the meantime, the process cannot request memory from the system.
MAPPED_AT_ONCE = 1 << 24
#: Minimum size of arrays that are read in advance, and maximum size of all of them together, in bytes.
MIN_PREFETCHED, MAX_PREFETCHED = 1 << 16, 1 << 30


class MissingWeightsError(ModelError):
    """The weights file of a model does not exist, or does not contain weights."""


class Weights:
    """The weights of a model. Constants are views of them.

    Args:
        buffer: The bytes.
        path: The file that contains them, for error messages.
        missing: The path of the file if it does not exist.
        reason: Why the weights are missing, if the file exists.

    Attributes:
        path: The file that contains the weights, or None.
    """

    def __init__(
        self, buffer: Any = b"", path: Path | None = None, missing: Path | None = None, reason: str | None = None
    ) -> None:
        self._mapping = buffer if isinstance(buffer, mmap.mmap) else None
        self._address: int | None = None
        #: The first pages of arrays that were released. While the lock is held, no others are released.
        self._released: set[int] = set()
        self._lock = make_lock()
        self._buffer = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        self.path = path
        self._missing = missing
        if len(buffer):
            _by_buffer[id(self._buffer.obj)] = self
        self._reason = reason

    def __len__(self) -> int:
        return len(self._buffer)

    def __reduce__(self) -> tuple[Any, ...]:
        """Describe the weights for pickle: a mapped file by its path, others by their bytes."""
        if self._mapping is not None and self.path is not None:
            return _map_file, (Path(os.path.abspath(self.path)),)
        return Weights, (bytes(self._buffer), self.path, self._missing, self._reason)

    @staticmethod
    def find(view: memoryview) -> Weights | None:
        """Return the weights that a view belongs to, or None.

        Args:
            view: The data of a constant.
        """
        return _by_buffer.get(id(view.obj))

    @staticmethod
    def open(source: WeightsSource | None, model_path: Path | None = None) -> Weights:
        """Open the weights of a model.

        Args:
            source: The weights; None or an empty path for the .bin next to the model. If that file is missing, the
                weights are empty, and views of them raise MissingWeightsError.
            model_path: The path of the .xml; None for a model that was not read from a file.

        Raises:
            ModelError: The file cannot be read.
            TypeError: `source` is of another type.
        """
        if source is None or (isinstance(source, str) and not source):
            if model_path is None:
                return Weights()
            path = model_path.with_suffix(".bin")
            return _map_file(path) if path.exists() else Weights(missing=path)
        if isinstance(source, (str, os.PathLike)):
            return _map_file(Path(check_path("weights", source, accepts_null=True)))
        if isinstance(source, (bytes, bytearray, memoryview)):
            return Weights(source)
        import numpy as np

        if not isinstance(source, np.ndarray) or source.dtype.hasobject:
            raise TypeError(f"expected weights as a path, bytes or an array, found {describe_value(source)}")
        return Weights(np.ascontiguousarray(source).reshape(-1).view(np.uint8))

    def view(self, offset: int, size: int) -> memoryview:
        """Return a part of the weights without copying it.

        Args:
            offset: The position of the first byte.
            size: The number of bytes.

        Raises:
            MissingWeightsError: The weights file is missing, and `size` is not 0.
            ModelError: The part is outside of the weights.
        """
        if offset < 0 or size < 0:
            raise ModelError(f"expected offset and size of a constant >= 0, found {offset} and {size}")
        if size:
            self.check_exists()
            if offset + size > len(self._buffer):
                name = self.path or "the weights"
                raise ModelError(
                    f"requires bytes {offset} to {offset + size} of {name}, found {len(self._buffer)} bytes"
                )
        return self._buffer[offset : offset + size]

    def check_exists(self) -> None:
        """Check that the weights file exists, and is not a pointer or a web page left by a download.

        Raises:
            MissingWeightsError: It does not exist, or does not contain weights.
        """
        if self._reason is not None:
            raise MissingWeightsError(self._reason)
        if self._missing is not None:
            hint = "if it is elsewhere, pass its path as weights (--weights)"
            raise MissingWeightsError(f"the weights file {self._missing} is missing; {hint}")

    def release(self, array: np.ndarray[Any, Any] | None = None) -> None:
        """Release the memory of a mapped file; parts that are used later are read again.

        Args:
            array: A view; its memory is released, except for pages that contain other data. None for the whole file.
        """
        if self._mapping is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        if array is None:
            self._mapping.madvise(mmap.MADV_DONTNEED)
            return
        start, stop = self._find(array)
        first, stop = -(-start // mmap.PAGESIZE), stop // mmap.PAGESIZE
        if first < stop:
            with self._lock:
                self._released.add(start)
                self._mapping.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (stop - first) * mmap.PAGESIZE)

    def contains(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array is a contiguous view of a mapped file, so that its memory can be released."""
        return self._find(array) != (0, 0)

    def prefetch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Start to map arrays into memory in another thread, if the system supports this.

        When data is read for the first time, the system maps 16 pages at a time. This takes several times as long as
        mapping many pages at once, and a quarter of the time of a first run.

        Args:
            arrays: Views, in the order of reading. Views of other memory are ignored.
        """
        if self._mapping is None or sys.platform != "linux":
            return
        sections = self._choose_sections(arrays)
        if sections:
            with suppress(RuntimeError):  # if no thread can be started, data is mapped when it is read
                threading.Thread(target=self._map_sections, args=(sections,), name="irrun-weights", daemon=True).start()

    def _choose_sections(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[tuple[int, int]]:
        """Return the positions of the arrays to map in advance."""
        sections, total = [], 0
        for start, stop in map(self._find, arrays):
            size = stop - start
            total += size
            if size >= MIN_PREFETCHED and total <= MAX_PREFETCHED:
                sections.append((start, stop))
        return sections

    def _map_sections(self, sections: Sequence[tuple[int, int]]) -> None:
        """Map sections of the file into memory, except sections released in the meantime."""
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for start, stop in sections:
            for first in range(start - start % mmap.PAGESIZE, stop, MAPPED_AT_ONCE):
                with self._lock:
                    if start in self._released:
                        break
                    size = min(MAPPED_AT_ONCE, stop - first)
                    if madvise((self._address or 0) + first, size, MADV_POPULATE_READ):
                        return  # an older system

    def _find(self, array: np.ndarray[Any, Any]) -> tuple[int, int]:
        """Return the positions of the first byte of an array, and of the byte after it; (0, 0) if it is not a view."""
        if self._mapping is None or not array.flags.forc:
            return 0, 0
        if self._address is None:
            self._address = _get_address(self._mapping)
        start = array.__array_interface__["data"][0] - self._address
        stop = start + array.nbytes
        return (start, stop) if start >= 0 and stop <= len(self._buffer) else (0, 0)


#: The weights that exist, by the identities of the objects that contain their bytes.
_by_buffer: weakref.WeakValueDictionary[int, Weights] = weakref.WeakValueDictionary()


def _get_address(mapping: mmap.mmap) -> int:
    import numpy as np

    return int(np.frombuffer(mapping, np.uint8, 1).__array_interface__["data"][0])


def _map_file(path: Path) -> Weights:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
            raise ValueError(
                f"expected a regular file, found {'a folder' if path.is_dir() else 'another kind of file'}"
            )
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if not length:
                return Weights(path=path)
            reason = explain_weights(file.read(HEAD_SIZE), path)
            if reason is not None:
                return Weights(missing=path, reason=reason)
            return Weights(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelError(f"cannot read the weights: {reason}", path=path) from error
