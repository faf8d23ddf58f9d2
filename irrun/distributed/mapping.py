"""Runs over folders of samples, which write their results chunk by chunk and can be resumed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from irrun.distributed.cluster import check_is_installed, connect
from irrun.distributed.jobs import Job, MapOptions, create_job
from irrun.distributed.store import MANIFEST, RECORDS, check_manifest, read_record, write_json
from irrun.distributed.workers import describe_outputs, run_chunk
from irrun.errors import InputError

__all__ = ["Progress", "map_inputs"]

#: Called with the number of samples that are finished, and of all.
Progress = Callable[[int, int], None]


def map_inputs(
    model: str | os.PathLike[str],
    inputs: Sequence[str],
    output: str | os.PathLike[str],
    options: MapOptions | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Run a model over many inputs and write the results to a Zarr group; continue if it exists.

    Each output of the model is an array whose first axis counts samples. Samples whose output has another shape than
    that of the first sample are arrays of their own in the group "ragged".

    Args:
        model: The .xml file.
        inputs: Texts of the form `[name=]source`: a folder or glob pattern of images, .npy and .npz files, or an array
            (.npy or .zarr) whose first axis counts samples. Without a name: the next input.
        output: The folder of the Zarr group.
        options: Batches, errors and images.
        scheduler: Address of a Dask scheduler; by default a local cluster with one process per core.
        workers: Number of processes of the local cluster.
        progress: Called after each chunk.

    Returns:
        The messages of the inputs that were skipped, by the names of the inputs.

    Raises:
        InputError: Dask or Zarr is not installed, a source does not exist, their numbers of samples differ, the output
            belongs to a run of another model or other options, or an input is broken and `on_error` is "stop".
    """
    check_is_installed()
    job = create_job(model, inputs, output, options or MapOptions())
    options = job.options
    root = Path(output)
    is_new = not root.exists()
    manifest = check_manifest(root, job)
    chunks = range(-(-job.count // job.size))
    records = {chunk: record for chunk in chunks if (record := read_record(root, chunk)) is not None}
    remaining = [chunk for chunk in chunks if chunk not in records]
    errors = {name: text for record in records.values() for name, text in record["errors"].items()}
    finished = sum(len(job.get_range(chunk)) for chunk in records)
    if progress:
        progress(finished, job.count)
    if not remaining:
        return errors
    try:
        with connect(job, scheduler, workers) as client:
            if not manifest.get("outputs"):
                _create_outputs(client, job, root, manifest)
            for record in _compute_chunks(client, job, remaining):
                errors.update(record["errors"])
                if record["errors"] and options.on_error == "stop":
                    raise _create_error(*next(iter(record["errors"].items())))
                finished += record["count"]
                if progress:
                    progress(finished, job.count)
    finally:
        if is_new and not any((root / RECORDS).iterdir()):  # a run that failed at once leaves nothing behind
            shutil.rmtree(root, ignore_errors=True)
    return errors


def _create_error(name: str, message: str) -> InputError:
    """Return the error for an input; a message that starts with the name of its file does not repeat it."""
    return InputError(message if message.startswith(name) else f"{name}: {message}")


def _compute_chunks(client: Any, job: Job, chunks: Sequence[int]) -> Iterator[Any]:
    """Yield the record of each chunk, with a bounded number of tasks in the scheduler."""
    import distributed

    as_completed: Any = distributed.as_completed
    pending = iter(chunks)
    window = 4 * max(1, sum(client.nthreads().values()))
    shared = client.scatter(job, broadcast=True, hash=False)

    def submit(chunk: int) -> Any:
        return client.submit(run_chunk, shared, chunk, pure=False, retries=3)

    futures = as_completed([submit(chunk) for _, chunk in zip(range(window), pending, strict=False)])
    for future in futures:
        record = future.result()
        for chunk in pending:
            futures.add(submit(chunk))
            break
        yield record


def _create_outputs(client: Any, job: Job, root: Path, manifest: dict[str, Any]) -> None:
    """Create the arrays of the outputs, whose types and shapes are those of the first sample that can be computed."""
    import zarr

    group = zarr.open_group(str(root), mode="a")
    outputs: dict[str, Any] = {}
    for index in range(job.count):
        outputs = client.submit(describe_outputs, job, index, pure=False).result()
        if "error" not in outputs:
            break
        if job.options.on_error == "stop":
            raise _create_error(job.get_name(index), outputs["error"])
    else:
        raise InputError("none of the inputs can be computed")
    for name, (shape, dtype) in outputs.items():
        group.create_array(
            name, shape=(job.count, *shape), chunks=(job.size, *(max(n, 1) for n in shape)), dtype=dtype, overwrite=True
        )
    manifest["outputs"] = {name: [list(shape), dtype] for name, (shape, dtype) in outputs.items()}
    write_json(root / MANIFEST, manifest)
