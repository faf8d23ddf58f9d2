"""The folder of the results: a Zarr group, a manifest, and a record of each finished chunk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irrun.atomic_files import atomic_write
from irrun.distributed.jobs import Job
from irrun.errors import InputError

__all__ = [
    "MANIFEST",
    "RAGGED",
    "RECORDS",
    "check_manifest",
    "get_record_path",
    "read_output_names",
    "read_record",
    "write_json",
]

#: Options that results do not depend on, and files whose contents are part of the digest of the model.
SEPARATE_OPTIONS = ("on_error", "threads", "imports")
MANIFEST, RECORDS, RAGGED = "irrun.json", "irrun-chunks", "ragged"


def check_manifest(root: Path, job: Job) -> dict[str, Any]:
    """Return the manifest of the output, which is created if it does not exist.

    Raises:
        InputError: The output belongs to another run, or is something else.
    """
    names = hashlib.sha256("\n".join(job.get_name(i) for i in range(job.count)).encode()).hexdigest()
    options = {name: value for name, value in asdict(job.options).items() if name not in SEPARATE_OPTIONS}
    description = {"model": job.digest, "samples": job.count, "inputs": names, "options": options, "chunk": job.size}
    description = json.loads(json.dumps(description))
    path = root / MANIFEST
    if path.exists():
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name, value in description.items() if manifest.get(name) != value]
        if differing:
            raise InputError(f"{root} belongs to another run: {', '.join(differing)} differ; choose another output")
        return dict(manifest)
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root} exists and is not the output of a run; choose another output")
    import zarr

    zarr.open_group(str(root), mode="a")
    (root / RECORDS).mkdir(exist_ok=True)
    write_json(path, description)
    return dict(description)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file as a whole or not at all."""
    with atomic_write(path) as file:
        file.write(json.dumps(value).encode())


def get_record_path(root: Path, chunk: int) -> Path:
    """Return the path of the record of a chunk."""
    return root / RECORDS / f"{chunk:08d}.json"


def read_record(root: Path, chunk: int) -> Any:
    """Return the record of a chunk, or None if it is not finished."""
    try:
        return json.loads(get_record_path(root, chunk).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_output_names(output: str) -> list[str]:
    """Return the names of the arrays of a run; listing the group would warn of the files that are not arrays."""
    manifest = json.loads((Path(output) / MANIFEST).read_text(encoding="utf-8"))
    return list(manifest["outputs"])
