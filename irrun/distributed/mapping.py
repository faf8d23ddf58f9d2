"""Resumable runs over folders of samples, with results written chunk by chunk."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from irrun.arguments import check_flag, check_integer, check_path, check_text, describe_value
from irrun.distributed.cluster import check_is_installed, connect
from irrun.distributed.jobs import Job, MapOptions, create_job
from irrun.distributed.manifest import OutputArray
from irrun.distributed.quiet import silence_libraries
from irrun.distributed.records import SKIPPED, Record
from irrun.distributed.store import ResultStore
from irrun.distributed.workers import describe_outputs, run_chunk
from irrun.errors import ExecutionError, InputError, IrrunError
from irrun.interrupts import delay_interrupts

__all__ = ["MapResult", "Progress", "RowError", "map_inputs"]

#: Called with the number of finished samples and the total number.
Progress = Callable[[int, int], None]
#: Minimum seconds between updates of row states, and the minimum interval as a multiple of an update's duration.
UPDATE_SECONDS, UPDATE_FACTOR = 2.0, 20


class RowError(NamedTuple):
    """A row without results.

    Attributes:
        row: Its index in the arrays of the results.
        name: The names of its inputs.
        status: "skipped" if an input could not be read, "failed" if the model did not accept it.
        message: The reason.
    """

    row: int
    name: str
    status: str
    message: str


class MapResult(dict[str, str]):
    """The error messages by input name; empty if all rows are done.

    Attributes:
        output: The folder of the Zarr group.
        count: The number of rows.
        errors: The rows without results, in order.
        arrays: The array of each output by its name.
        computed: The number of rows that this run computed; others were done before.
        damaged: The number of rows that were done before and computed again because of damaged files.
        jit: Whether compiled kernels were used.
    """

    def __init__(
        self,
        output: Path,
        count: int,
        errors: Sequence[RowError] = (),
        arrays: Mapping[str, OutputArray] | None = None,
        *,
        computed: int = 0,
        damaged: int = 0,
        jit: bool = False,
    ) -> None:
        super().__init__({error.name: error.message for error in errors})
        self.output = output
        self.count = count
        self.errors = list(errors)
        self.arrays = dict(arrays or {})
        self.computed = computed
        self.damaged = damaged
        self.jit = jit

    @property
    def skipped(self) -> int:
        """The number of rows whose inputs could not be read."""
        return sum(error.status == SKIPPED for error in self.errors)

    @property
    def failed(self) -> int:
        """The number of rows that the model did not accept."""
        return len(self.errors) - self.skipped

    @property
    def done(self) -> int:
        """The number of rows with results."""
        return self.count - len(self.errors)


def map_inputs(
    model: str | os.PathLike[str],
    inputs: str | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: MapOptions | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> MapResult:
    """Run a model over many inputs and write the results to a Zarr group; continue if it exists.

    Each output of the model is an array with samples along its first axis, in the order of the inputs. If the
    output of a sample differs in shape from the first sample, it is a separate array in the group "ragged". The arrays
    "rows/input", "rows/status" and "rows/error" give the inputs of each row, whether it is done, and if not, why. Rows
    without results contain the fill value of their array: NaN, the smallest value of signed and the largest of
    unsigned integers, False or "". Results that were damaged since an earlier run are computed again.

    Args:
        model: The .xml file.
        inputs: Texts of the form `[name=]source`: a folder or glob pattern of images, .npy and .npz files, or an array
            (.npy or .zarr) with samples along its first axis. Without a name: the next input. Several sources of one
            input follow one another.
        output: The folder of the Zarr group.
        options: Batches, errors, kernels and images.
        scheduler: Address of a Dask scheduler; by default a local cluster with one process per core.
        workers: Number of processes of the local cluster.
        retry: Whether to retry inputs that an earlier run skipped.
        progress: Called after each chunk.

    Returns:
        The inputs without results (only with `on_error="skip"`), and the number of rows.

    Raises:
        InputError: Dask or Zarr is not installed, a source does not exist, sources differ in their numbers of samples,
            the output belongs to a run of another model or other options or is damaged, or an input is broken and
            `on_error` is "stop".
        ExecutionError: Workers died or could not write the results.
    """
    check_is_installed()
    check_flag("retry", retry)
    if scheduler is not None:
        check_text("scheduler", scheduler, "the address of a Dask scheduler")
    if workers is not None:
        workers = check_integer("workers", workers, 1)
    if progress is not None and not callable(progress):
        raise InputError(f"progress is {describe_value(progress)}, expected a function")
    root = Path(check_path("output", output, "the path of a folder"))
    report = progress or (lambda finished, count: None)
    with silence_libraries():
        with delay_interrupts():
            _import_libraries()
        store = ResultStore.open(root, create_job(model, inputs, output, MapOptions() if options is None else options))
        computed = 0
        try:
            finished = store.read_records()
            remaining = _find_remaining(store, retry)
            finished -= sum(len(record.errors) for record in remaining.values() if record is not None)
            report(finished, store.job.count)
            if remaining:
                with connect(store.job, scheduler, workers) as client:
                    if not store.outputs:
                        store.create_arrays(_find_outputs(client, store.job))
                    for count in _compute_chunks(client, store, remaining):
                        computed += count
                        report(finished + computed, store.job.count)
        finally:
            with delay_interrupts():
                if not store.remove_if_useless() and store.outputs:
                    store.write_rows()
    errors = [
        RowError(index, store.job.get_name(index), *record.errors[index])
        for _, record in sorted(store.records.items())
        for index in sorted(record.errors)
    ]
    return MapResult(
        root,
        store.job.count,
        errors,
        store.outputs,
        computed=computed,
        damaged=store.damaged,
        jit=bool(store.job.options.jit),
    )


def _import_libraries() -> None:
    """Import slow modules here, where an interrupt cannot break the import."""
    import distributed  # noqa: F401
    import zarr  # noqa: F401


def _find_remaining(store: ResultStore, retry: bool) -> dict[int, Record | None]:
    """Return the chunks to compute, with their records if only errors are retried."""
    remaining: dict[int, Record | None] = {}
    for chunk in range(store.job.chunk_count):
        record = store.records.get(chunk)
        if record is None or (retry and record.errors):
            remaining[chunk] = record
    return remaining


def _create_error(name: str, message: str) -> InputError:
    """Return the error for an input. The name of its file is not repeated if the message starts with it."""
    return InputError(message if message.startswith(name) else f"{name}: {message}")


def _get_result(future: Any, task: str) -> Any:
    """Return the result of a task.

    Raises:
        IrrunError: The task failed.
    """
    try:
        return future.result()
    except IrrunError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        reason = {
            "KilledWorker": "a worker process died each time; if the memory is too small, use fewer workers",
            "FutureCancelledError": "the connection to the scheduler was lost; run the same command again to continue",
        }.get(type(error).__name__)
        if reason:
            raise ExecutionError(f"{task}: {reason}") from error
        raise ExecutionError(f"{task}: {type(error).__name__}: {error}") from error


def _compute_chunks(client: Any, store: ResultStore, chunks: Mapping[int, Record | None]) -> Iterator[int]:
    """Compute chunks, and yield the number of rows computed in each.

    The number of scheduled tasks is limited.
    """
    import distributed

    job = store.job
    library: Any = distributed
    pending = iter(chunks.items())
    window = 4 * max(1, sum(client.nthreads().values()))
    # Scattered data would be lost with the last worker that has it, but the result of a task is computed again.
    shared = client.submit(_share, (job, store.outputs), pure=False, priority=1)
    chunk_of: dict[str, int] = {}

    def submit(chunk: int, previous: Record | None) -> Any:
        future = client.submit(_run_shared_chunk, shared, chunk, previous, pure=False, retries=3)
        chunk_of[future.key] = chunk
        return future

    futures = library.as_completed([submit(*item) for item in itertools.islice(pending, window)])
    next_update = monotonic() + UPDATE_SECONDS
    for future in futures:
        chunk = chunk_of.pop(future.key)
        rows = job.get_range(chunk)
        record: Record = _get_result(future, f"rows {rows.start} to {rows.stop - 1}")
        if record.errors and job.options.on_error == "stop":
            index, (_, message) = next(iter(record.errors.items()))
            raise _create_error(job.get_name(index), message)
        previous = chunks[chunk]
        store.records[chunk] = record
        for item in pending:
            futures.add(submit(*item))
            break
        yield len(rows) if previous is None else len(previous.errors)
        if monotonic() > next_update:
            start = monotonic()
            store.write_rows()
            next_update = monotonic() + max(UPDATE_SECONDS, UPDATE_FACTOR * (monotonic() - start))


def _share(shared: tuple[Job, dict[str, OutputArray]]) -> tuple[Job, dict[str, OutputArray]]:
    return shared


def _run_shared_chunk(shared: tuple[Job, dict[str, OutputArray]], chunk: int, previous: Record | None) -> Record:
    return run_chunk(*shared, chunk, previous)


def _find_outputs(client: Any, job: Job) -> dict[str, OutputArray]:
    """Return the arrays of the outputs, based on the first sample that can be computed.

    Raises:
        InputError: No sample can be computed, or an earlier one cannot and `on_error` is "stop".
    """
    first: InputError | None = None
    for index in range(job.count):
        found = _get_result(client.submit(describe_outputs, job, index, pure=False), job.get_name(index))
        if isinstance(found, dict):
            return found
        error = _create_error(job.get_name(index), found[1])
        if job.options.on_error == "stop":
            raise error
        first = first or error
    raise InputError(f"none of the inputs can be computed; {first}")
