"""The format of trace files.

A trace file is a zip archive of uncompressed `.npy` members and an `index.json`, which is written last. Values are
written while the model runs and read when they are accessed.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from irrun.data.npy import read_npy_header
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError, IrrunError
from irrun.inspection.trace import Trace, TracedValue

__all__ = ["FORMAT", "VERSION", "TraceReader", "TraceWriter", "open_trace"]

Array = np.ndarray[Any, Any]

#: The name and the version of the file format.
FORMAT = "irrun-trace"
VERSION = 1
#: Maximum number of bytes of `index.json`.
MAX_INDEX = 1 << 28
#: Maximum number of dimensions of a value, as in NumPy.
MAX_RANK = 64


class TraceWriter:
    """Appends values to a trace file.

    Args:
        file: The file, open for writing.

    Attributes:
        archive: The zip archive; the caller closes it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)

    def write(self, member: str, value: Array) -> None:
        """Append a value.

        Args:
            member: The name of the file in the archive that stores it.
            value: The value.
        """
        with self.archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, np.asarray(_encode(value), order="C"))

    def finish(self, index: Mapping[str, Any], values: Sequence[TracedValue]) -> None:
        """Append `index.json`.

        Args:
            index: Its contents, without the values.
            values: The descriptions of the values.
        """
        text = json.dumps({**index, "values": [value.to_json() for value in values]}, allow_nan=False)
        self.archive.writestr(zipfile.ZipInfo("index.json"), text)


class TraceReader:
    """Reads a trace file. Sizes are checked before anything is read.

    Args:
        path: The file.

    Raises:
        InputError: The file cannot be read or is not a valid trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        with ExitStack() as stack, self._report_errors():
            if not os.path.isfile(path):  # opening a pipe would wait for its writer
                raise InputError("the file does not exist" if not path.exists() else "expected a regular file")
            self.archive = stack.enter_context(zipfile.ZipFile(path))
            self.members = self._list_members(path.stat().st_size)
            self.index = self._read_index()
            self.values = [_parse_value(entry) for entry in self.index.pop("values")]
            self._check_values()
            stack.pop_all()

    def to_trace(self) -> Trace:
        """Return the trace. Closing the trace closes the file."""
        trace = Trace(self.index, self.values, self.read, self.path)
        trace._close = self.archive.close
        return trace

    def _report_errors(self) -> _InvalidTrace:
        return _InvalidTrace(self.name)

    def _list_members(self, file_size: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in self.archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
                raise InputError(f"expected uncompressed members, found {info.filename!r}")
            if info.filename in members:
                raise InputError(f"it contains {info.filename!r} twice")
            members[info.filename] = info
            total += info.file_size
        if total > file_size:
            raise InputError("its members overlap")
        return members

    def _read_index(self) -> dict[str, Any]:
        info = self.members.get("index.json")
        if info is None:
            raise InputError("it does not contain index.json")
        if info.file_size > MAX_INDEX:
            raise InputError(f"expected an index.json of at most {MAX_INDEX} bytes, found {info.file_size}")
        index = json.loads(self.archive.read(info))
        if not isinstance(index, dict) or index.get("format") != FORMAT or not isinstance(index.get("values"), list):
            raise InputError("index.json does not belong to a trace")
        if index.get("version") != VERSION:
            raise InputError(f"expected version {VERSION} of the format, found {index.get('version')!r}")
        kinds = {"model": dict, "versions": dict, "inputs": list, "outputs": dict}
        for name, kind in kinds.items():
            if not isinstance(index.get(name), kind):
                raise InputError(f"{name} in index.json is invalid")
        return index

    def _check_values(self) -> None:
        keys: set[str] = set()
        for value in self.values:
            if value.key in keys:
                raise InputError(f"it contains the key {value.key!r} twice")
            keys.add(value.key)
            if value.member is not None and value.member not in self.members:
                raise InputError(f"it does not contain {value.member!r}")

    def read(self, value: TracedValue) -> Array:
        """Return a value.

        Args:
            value: Its description.

        Raises:
            InputError: The file cannot be read, or differs from the description.
        """
        with self._report_errors():
            info = self.members[str(value.member)]
            element_type = ELEMENT_TYPES[value.type]
            with self.archive.open(info) as file:
                shape, dtype = _read_header(file, value, element_type)
                size = math.prod(shape) * dtype.itemsize
                if file.tell() + size != info.file_size:
                    raise InputError(f"{value.key!r} takes {info.file_size} bytes, which does not fit its shape")
                data = file.read(size)
            array = np.frombuffer(bytearray(data), dtype).reshape(shape)
            return _decode(array, element_type)


class _InvalidTrace:
    """Context that reports every error in a file as InputError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        message = error.message if isinstance(error, IrrunError) else _describe_error(error)
        raise InputError(f"{self.name} is not a valid trace: {message}") from None


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, zipfile.BadZipFile):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _read_header(file: Any, value: TracedValue, element_type: ElementType) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an .npy member and check it against the index."""
    shape, is_fortran, dtype = read_npy_header(file)
    if tuple(shape) != value.shape or is_fortran:
        raise InputError(f"expected the shape {list(value.shape)} for {value.key!r}, found {list(shape)}")
    if element_type.kind == "string":
        is_expected = dtype.kind == "U" and bool(dtype.itemsize)
    else:
        empty = _encode(np.array([], element_type.dtype))
        is_expected = dtype == empty.dtype
    if not is_expected:
        raise InputError(f"expected the type {value.type} for {value.key!r}, found {dtype}")
    return tuple(shape), dtype


def _parse_value(entry: Any) -> TracedValue:
    """Return the description of a value after checking every field."""
    if not isinstance(entry, dict):
        raise InputError("an entry of index.json is not an object")
    texts = [entry.get(name) for name in ("key", "layer", "layer_type", "type")]
    member = entry.get("member")
    if not all(isinstance(text, str) for text in texts) or not (member is None or isinstance(member, str)):
        raise InputError("an entry of index.json is incomplete")
    if entry["type"] not in ELEMENT_TYPES:
        raise InputError(f"unknown element type {entry['type']!r}")
    shape = entry.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_RANK
        or not all(type(n) is int and 0 <= n < 2**63 for n in shape)
    ):
        raise InputError(f"{entry['key']!r} has an invalid shape")
    port, seconds, statistics = entry.get("port"), entry.get("seconds"), entry.get("statistics")
    if type(port) is not int or not isinstance(seconds, (int, float)) or not isinstance(statistics, dict):
        raise InputError(f"the entry of {entry['key']!r} is invalid")
    if not all(number is None or isinstance(number, (int, float)) for number in statistics.values()):
        raise InputError(f"{entry['key']!r} has invalid statistics")
    key, layer, layer_type, element_type = cast("list[str]", texts)
    is_selected = bool(entry.get("is_selected", True))
    return TracedValue(
        key, layer, layer_type, port, element_type, tuple(shape), statistics, float(seconds), member, is_selected
    )


def _encode(value: Array) -> Array:
    """View a value as an array of a type that .npy files support, with the same bits."""
    element_type = ElementType.of(value.dtype)
    if element_type.kind == "string":
        return value.astype(np.str_)
    if value.dtype.isbuiltin != 1:
        return np.asarray(value, order="C").view(np.dtype(f"u{value.dtype.itemsize}"))
    return value.astype(value.dtype.newbyteorder("<"), copy=False)


def _decode(array: Array, element_type: ElementType) -> Array:
    """Return the value that `_encode` encoded."""
    if element_type.kind == "string":
        return array.astype(object)
    if array.dtype != element_type.dtype:
        return array.view(element_type.dtype)
    return array


def open_trace(path: Path) -> Trace:
    """Open a trace file; see `Trace.open`.

    Args:
        path: The file.
    """
    return TraceReader(path).to_trace()
