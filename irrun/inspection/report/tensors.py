"""Full tensors in a report: compressed .npy files that the page draws and offers for download."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import numpy as np

from irrun.inspection.metrics import widen

__all__ = ["DEFAULT_TENSOR_BYTES", "TensorStore"]

Array = np.ndarray[Any, Any]

#: Default limit for the compressed tensors of a report, in bytes.
DEFAULT_TENSOR_BYTES = 1_200_000
#: Number of bytes for estimating the compressed size of a tensor, and the level of compression.
SAMPLED_BYTES = 1 << 16
LEVEL = 3


class TensorStore:
    """Tensors up to a limit of compressed bytes. Preferred tensors replace others; otherwise, the first tensors stay.

    Args:
        max_bytes: Limit for all tensors in compressed bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self.omitted = 0
        self._remaining = max_bytes
        self._blobs: list[bytes | None] = []
        self._owners: list[dict[str, Any]] = []
        self._replaceable: list[int] = []

    def add(self, value: Array, owner: dict[str, Any], *, is_preferred: bool = False) -> None:
        """Add a tensor if there is room for it, and set the key `tensor` of its description to its number.

        Args:
            value: The tensor.
            owner: The description of the value.
            is_preferred: Whether the tensor may replace others.
        """
        if value.dtype.kind in "OUST" or "tensor" in owner:
            return
        available = self._remaining
        if is_preferred:
            available += sum(len(self._blobs[i] or b"") for i in self._replaceable)
        blob = _compress(value) if _estimate_size(value) <= available else None
        if blob is None or len(blob) > available:
            self.omitted += 1
            return
        while len(blob) > self._remaining:
            self._remove(self._replaceable.pop())
        owner["tensor"] = len(self._blobs)
        if not is_preferred:
            self._replaceable.append(len(self._blobs))
        self._blobs.append(blob)
        self._owners.append(owner)
        self._remaining -= len(blob)

    def to_json(self) -> list[str | None]:
        """Return the tensors for the page: zlib streams of .npy files in base64."""
        return [None if blob is None else base64.b64encode(blob).decode("ascii") for blob in self._blobs]

    def _remove(self, number: int) -> None:
        self._remaining += len(self._blobs[number] or b"")
        self._blobs[number] = None
        self._owners[number].pop("tensor", None)
        self.omitted += 1


def _estimate_size(value: Array) -> float:
    """Estimate the compressed size of a value from a part of it."""
    if value.nbytes <= 4 * SAMPLED_BYTES:
        return 0
    middle = value.size // 2
    part = value.reshape(-1)[middle : middle + SAMPLED_BYTES // value.dtype.itemsize]
    return value.nbytes * len(zlib.compress(part.tobytes(), LEVEL)) / part.nbytes


def _compress(value: Array) -> bytes:
    """Return a zlib stream of an .npy file. Types that NumPy does not have become f32."""
    stream = io.BytesIO()
    is_standard = value.dtype.isbuiltin == 1 and not value.dtype.fields
    array = value if is_standard else widen(value).astype(np.float32)
    np.save(stream, np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))), allow_pickle=False)
    return zlib.compress(stream.getvalue(), LEVEL)
