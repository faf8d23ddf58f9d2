"""The records of finished chunks: the state of each sample, and the files with the results."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from irrun.atomic_files import atomic_write

__all__ = [
    "DONE",
    "FAILED",
    "PENDING",
    "RECORDS",
    "SKIPPED",
    "Record",
    "describe_file",
    "describe_files",
    "get_record_path",
    "read_json",
    "write_json",
    "write_record",
]

#: The folder of the records.
RECORDS = "irrun-chunks"
#: The key of the checksum of a JSON file.
CHECKSUM = "checksum"
#: The states of rows: computed, not readable, not accepted by the model, and not reached yet.
DONE, SKIPPED, FAILED, PENDING = "done", "skipped", "failed", "pending"


@dataclass
class Record:
    """The record of a chunk.

    Attributes:
        count: The number of its samples.
        errors: The status and the message of each sample without results, by index.
        ragged: The samples with an output of a different shape.
        files: The size and checksum of each file with results, by its path in the folder.
    """

    count: int
    errors: dict[int, tuple[str, str]] = field(default_factory=dict)
    ragged: list[int] = field(default_factory=list)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: Any) -> Record:
        """Return the record described by JSON.

        Raises:
            ValueError: It does not describe a record. Some malformed JSON raises other exceptions.
        """
        errors = {int(index): (str(status), str(text)) for index, (status, text) in value["errors"].items()}
        if not {status for status, _ in errors.values()} <= {SKIPPED, FAILED}:
            raise ValueError("unknown status")
        files = {str(name): (int(size), int(checksum)) for name, (size, checksum) in value["files"].items()}
        return cls(int(value["count"]), errors, [int(index) for index in value["ragged"]], files)


def describe_file(path: Path) -> tuple[int, int] | None:
    """Return the size and the CRC-32 of a file, or None if it cannot be read."""
    checksum = size = 0
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                checksum = zlib.crc32(block, checksum)
                size += len(block)
    except OSError:
        return None
    return size, checksum


def describe_files(root: Path, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the size and the CRC-32 of files, and of all files in folders, by their paths in the folder.

    Raises:
        OSError: A file was not written.
    """
    files = {}
    for name in names:
        path = root / name
        paths = [Path(folder) / file for folder, _, found in os.walk(path) for file in found] or [path]
        for file in paths:
            found_file = describe_file(file)
            if found_file is None:
                raise OSError(f"{file} was not written")
            files[file.relative_to(root).as_posix()] = found_file
    return files


def get_record_path(root: Path, chunk: int) -> Path:
    """Return the path of the record of a chunk."""
    return root / RECORDS / f"{chunk:08d}.json"


def write_record(root: Path, chunk: int, record: Record) -> None:
    """Write the record of a chunk."""
    write_json(get_record_path(root, chunk), asdict(record))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file with its checksum, atomically."""
    text = json.dumps({**value, CHECKSUM: _compute_checksum(value)})
    with atomic_write(path) as file:
        file.write(text.encode())


def read_json(path: Path) -> Any:
    """Return the contents of a JSON file without its checksum. Files of older versions have no checksum.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not JSON, or its checksum differs.
        RecursionError: The JSON is nested too deeply.
    """
    value = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(value, dict) and value.pop(CHECKSUM, None) not in (None, _compute_checksum(value)):
        raise ValueError("its checksum differs")
    return value


def _compute_checksum(value: Mapping[str, Any]) -> int:
    """Return the CRC-32 of contents, without their checksum."""
    return zlib.crc32(json.dumps({k: v for k, v in value.items() if k != CHECKSUM}, sort_keys=True).encode())
