"""The folder of the results: a Zarr group, a manifest, and a record of each finished chunk.

    results.zarr/
      zarr.json            the group, with the metadata of all arrays
      <output>/            one array for each output of the model; its first axis counts samples
      rows/                the inputs, states and errors of all rows; see rows.py
      ragged/<output>/<i>  the output of row i, if its shape differs from the first sample
      irrun.json           the manifest: the model, the options and the outputs
      irrun-chunks/        a record for each finished chunk, with the sizes and checksums of its files

A worker writes the results of a chunk, then its record. The process that started the run writes the rows from the
records. A record only counts if its files are intact.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from irrun.distributed.jobs import Job, resolve_kernels
from irrun.distributed.manifest import (
    MANIFEST,
    RAGGED,
    ROWS,
    OutputArray,
    check_same_run,
    describe_job,
    keep_kernels,
    parse_outputs,
    read_manifest,
)
from irrun.distributed.records import RECORDS, Record, describe_file, get_record_path, read_json, write_json
from irrun.distributed.rows import write_rows
from irrun.errors import InputError

__all__ = ["ResultStore", "get_chunk_file", "open_group"]


class ResultStore:
    """The results of a run that may be continued.

    Args:
        root: The folder.
        job: The job, with its choice of kernels.
        manifest: The contents of `irrun.json`.
        is_new: Whether the folder did not exist.

    Attributes:
        root: The folder.
        job: The job.
        outputs: The arrays of the outputs; empty until the first sample is computed.
        records: The record of each finished chunk.
        damaged: The number of rows to compute again because their results were damaged.
    """

    def __init__(self, root: Path, job: Job, manifest: dict[str, Any], is_new: bool) -> None:
        self.root = root
        self.job = job
        self.outputs = parse_outputs(root, manifest)
        self.records: dict[int, Record] = {}
        self.damaged = 0
        self._manifest = manifest
        self._is_new = is_new

    @classmethod
    def open(cls, root: Path, job: Job) -> ResultStore:
        """Return the results of a job; create them if they do not exist.

        Raises:
            InputError: The folder belongs to another run, is damaged, or is not the output of a run.
        """
        manifest = read_manifest(root)
        is_new = not root.exists()
        if manifest is not None:
            job = keep_kernels(root, job, manifest)
            check_same_run(root, manifest, describe_job(job))
            return cls(root, job, manifest, is_new)
        if not is_new and (not root.is_dir() or any(root.iterdir())):
            raise InputError(f"{root} exists and is not the output of a run; choose another output")
        job = replace(job, options=resolve_kernels(job.options, job.count))
        manifest = describe_job(job)
        try:
            (root / RECORDS).mkdir(parents=True, exist_ok=True)
            write_json(root / MANIFEST, manifest)
        except OSError as error:
            raise InputError(f"cannot write {root}: {error.strerror or error}") from None
        return cls(root, job, manifest, is_new)

    def read_records(self) -> int:
        """Read the records of finished chunks.

        A chunk is finished if its record can be read and its files match the record.

        Returns:
            The number of rows in these chunks.
        """
        (self.root / RECORDS).mkdir(exist_ok=True)
        if self.outputs:
            self._repair_arrays()
        for chunk in range(self.job.chunk_count):
            path = get_record_path(self.root, chunk)
            if not path.exists():
                continue
            record = self._read_record(chunk, path)
            if record is None:
                self.damaged += len(self.job.get_range(chunk))
                continue
            self.records[chunk] = record
        return sum(record.count for record in self.records.values())

    def create_arrays(self, outputs: Mapping[str, OutputArray]) -> None:
        """Create the arrays of the outputs.

        Args:
            outputs: The arrays by name.
        """
        group = self._repair_group()
        for name, output in outputs.items():
            self._create_array(group, name, output)
        self.outputs = dict(outputs)
        self._manifest["outputs"] = {name: [list(output.shape), output.dtype] for name, output in outputs.items()}
        self._describe_arrays()

    def _describe_arrays(self) -> None:
        """Write the manifest, with the sizes and checksums of all arrays' metadata."""
        self._manifest["metadata"] = {name: describe_file(self.root / name / "zarr.json") for name in self.outputs}
        write_json(self.root / MANIFEST, self._manifest)

    def write_rows(self) -> None:
        """Write the inputs, states and errors of all rows, and list all arrays in the metadata of the group."""
        import zarr

        library: Any = zarr
        self._repair_group()
        write_rows(self.root / ROWS, self._repair_group(ROWS), self.job, self.records)
        if any(record.ragged for record in self.records.values()):
            for name in ("", *self.outputs):
                self._repair_group(RAGGED, name)
        library.consolidate_metadata(str(self.root))

    def remove_if_useless(self) -> bool:
        """Remove the folder of a run that failed before it had results, unless the folder existed before.

        Returns:
            Whether the folder was removed.
        """
        is_useless = self._is_new and not any((self.root / RECORDS).glob("*.json"))
        if is_useless:
            shutil.rmtree(self.root, ignore_errors=True)
        return is_useless

    def _read_record(self, chunk: int, path: Path) -> Record | None:
        """Return the record of a chunk, or None if the record or one of its files is damaged."""
        rows = self.job.get_range(chunk)
        try:
            record = Record.parse(read_json(path))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        expected = {get_chunk_file(name, output, chunk) for name, output in self.outputs.items()}
        is_complete = record.count == len(rows) and bool(expected) and expected <= set(record.files)
        if not is_complete or not {*record.errors, *record.ragged} <= set(rows):
            return None
        is_intact = all(describe_file(self.root / name) == found for name, found in record.files.items())
        return record if is_intact else None

    def _repair_group(self, *names: str) -> Any:
        """Return the group or a nested one. If its metadata is missing or damaged, create it again."""
        folder = self.root.joinpath(*names)
        try:
            group = open_group(folder, "a")
            # Zarr opens groups without a type in their metadata, but does not list them.
            has_type = json.loads((folder / "zarr.json").read_bytes()).get("node_type") == "group"
            if has_type and not dict(group.attrs):
                return group
        except Exception:  # Zarr raises many types of exceptions for invalid metadata
            pass
        (folder / "zarr.json").unlink(missing_ok=True)
        return open_group(folder, "a")

    def _repair_arrays(self) -> None:
        """Recreate missing or damaged arrays; their rows are computed again."""
        group, is_changed = self._repair_group(), False
        known = self._manifest.get("metadata") or {}  # manifests of older versions have none
        for name, output in self.outputs.items():
            shape, chunks = self._get_layout(output)
            try:
                array = group[name]
                dtype = "string" if array.dtype.kind in "OT" else array.dtype.str
                is_intact = (array.shape, array.chunks, dtype) == (shape, chunks, output.dtype)
                if name in known:
                    is_intact &= describe_file(self.root / name / "zarr.json") == tuple(known[name])
            except Exception:  # as above
                is_intact = False
            if not is_intact:
                self._create_array(group, name, output)
                is_changed = True
        if is_changed:
            self._describe_arrays()

    def _create_array(self, group: Any, name: str, output: OutputArray) -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)  # damaged metadata would stop Zarr from overwriting it
        shape, chunks = self._get_layout(output)
        group.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=str if output.dtype == "string" else output.dtype,
            fill_value=output.fill,
            attributes={"fill": f"rows without results contain {output.fill!r}; see {ROWS}/status"},
            overwrite=True,
        )

    def _get_layout(self, output: OutputArray) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape and the chunks of an array: one chunk of the array for each chunk of the job."""
        return (self.job.count, *output.shape), (self.job.size, *(max(n, 1) for n in output.shape))


def open_group(root: Path, mode: str = "r+") -> Any:
    """Return the Zarr group in a folder; it looks for its arrays in the folder."""
    import zarr

    library: Any = zarr
    return library.open_group(str(root), mode=mode, use_consolidated=False)


def get_chunk_file(name: str, output: OutputArray, chunk: int) -> str:
    """Return the relative path of the file with the results of a chunk."""
    return "/".join([name, "c", str(chunk), *("0" for _ in output.shape)])
