"""The .bin beside a model: mapped, not read; every offset and size is checked against its length."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from irrun.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MissingWeightsError", "Weights", "WeightsSource"]

#: Where weights may come from: a path, bytes, or an array.
WeightsSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]


class MissingWeightsError(ModelError):
    """The weights file of a model does not exist."""


class Weights:
    """Bytes that constants are views of.

    Args:
        buffer: the bytes; None where the model has no weights.
        path: the file they come from, for messages.
    """

    def __init__(self, buffer: Any = b"", path: Path | None = None, missing: Path | None = None) -> None:
        self._mapping = buffer if isinstance(buffer, mmap.mmap) else None
        self._buffer = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
        self.path = path
        self._missing = missing

    def __len__(self) -> int:
        return len(self._buffer)

    @staticmethod
    def open(source: WeightsSource | None, model_path: Path | None = None) -> Weights:
        """The weights from what a user named, or from the .bin beside the model.

        Raises:
            ModelError: the file that the user named cannot be read. A .bin that should stand beside the model
                and does not is reported by the first constant that needs it.
        """
        if source is None:
            if model_path is None:
                return Weights()
            beside = model_path.with_suffix(".bin")
            return _map(beside) if beside.is_file() else Weights(missing=beside)
        if isinstance(source, (str, os.PathLike)):
            return _map(Path(source))
        if isinstance(source, (bytes, bytearray, memoryview)):
            return Weights(source)
        if not hasattr(source, "reshape"):
            raise TypeError(f"weights are a path, bytes or an array, not a {type(source).__name__}")
        import numpy as np

        return Weights(np.ascontiguousarray(source).reshape(-1).view(np.uint8))

    def view(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` on, without a copy.

        Raises:
            ModelError: they are not inside the file, or there is no file.
        """
        if offset < 0 or size < 0:
            raise ModelError(f"offset {offset} and size {size} of a constant must not be negative")
        if size:
            self.check_exists()
        if offset + size > len(self._buffer) and size:
            where = self.path or "the weights"
            raise ModelError(f"needs bytes {offset} to {offset + size} of {where}, which has {len(self._buffer)} bytes")
        return self._buffer[offset : offset + size]

    def check_exists(self) -> None:
        """Check that the weights file exists.

        Raises:
            MissingWeightsError: It does not.
        """
        if self._missing is not None:
            message = f"the weights file {self._missing} is missing; pass its path as weights if it is elsewhere"
            raise MissingWeightsError(message)

    def release(self) -> None:
        """Give back the memory of what was read so far from a mapped file; it is read again where it is needed."""
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)


def _map(path: Path) -> Weights:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for whoever writes into it
            raise ValueError("it is a folder" if path.is_dir() else "it is no regular file")
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if not length:
                return Weights(path=path)
            return Weights(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelError(f"cannot read the weights: {reason}", path=path) from error
