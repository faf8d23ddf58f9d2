"""How the chunks of a run are scheduled: limits, retries, order, errors, and reports. The client is not a real one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, write

from irrun.distributed import MapOptions, OutputArray, mapping
from irrun.distributed.jobs import create_job
from irrun.distributed.mapping import map_inputs
from irrun.distributed.records import FAILED, SKIPPED, Record
from irrun.errors import ExecutionError, InputError

distributed = pytest.importorskip("distributed")
pytest.importorskip("zarr")


class Future:
    """A task that is computed when its result is asked for."""

    def __init__(self, client, function, arguments, options):
        self.key = f"task-{len(client.futures)}"
        self.function, self.arguments, self.options = function, arguments, options

    def result(self):
        arguments = [a.result() if isinstance(a, Future) else a for a in self.arguments]
        return self.function(*arguments)


class Client:
    """A client of a cluster with 3 threads."""

    def __init__(self):
        self.futures = []
        self.pending_counts = []

    def nthreads(self):
        return {"one": 1, "two": 2}

    def submit(self, function, *arguments, **options):
        future = Future(self, function, arguments, options)
        self.futures.append(future)
        return future


class Completed:
    """The futures that are done; the last one that was added comes first, as on a busy cluster."""

    def __init__(self, futures):
        self.futures = list(futures)
        self.largest = len(self.futures)

    def add(self, future):
        self.futures.append(future)
        self.largest = max(self.largest, len(self.futures))

    def __iter__(self):
        while self.futures:
            yield self.futures.pop()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch):
    """Return a function that computes chunks of a job, and what was scheduled."""
    client, groups = Client(), []

    def as_completed(futures):
        groups.append(Completed(futures))
        return groups[-1]

    monkeypatch.setattr(distributed, "as_completed", as_completed)

    def compute(job, records, chunks):
        """`records` are the records of the chunks; returns the counts of rows, the store, and the client."""
        store = SimpleNamespace(job=job, outputs={"y": OutputArray((2,), "<f4")}, records={}, writes=0)

        def run_chunk(passed_job, outputs, chunk, previous):
            assert (passed_job, outputs, previous) == (job, store.outputs, chunks[chunk])
            return records[chunk]

        def write_rows():
            store.writes += 1

        store.write_rows = write_rows
        monkeypatch.setattr(mapping, "run_chunk", run_chunk)
        return mapping._compute_chunks(client, store, chunks), store, client, groups

    return compute


def make_job(folder, count, **options):
    write(folder, chain("Relu", shape=("?", 2)))
    np.save("x.npy", np.zeros((count, 2), np.float32))
    return create_job("model.xml", ["x.npy"], "out.zarr", MapOptions(jit=False, **options))


def test_all_chunks_are_computed_and_few_are_scheduled_at_once(folder, run):
    job = make_job(folder, 16 * 20 - 5)
    records = {chunk: Record(16) for chunk in range(20)}
    counts, store, client, groups = run(job, records, dict.fromkeys(range(20)))
    assert sorted(counts) == [11, *[16] * 19]  # the last chunk is shorter
    assert store.records == records
    assert (len(groups), groups[0].largest) == (1, 12)  # four for each thread
    shared, *tasks = client.futures
    assert shared.options == {"pure": False, "priority": 1}
    assert all(task.options == {"pure": False, "retries": 3} for task in tasks)
    assert sorted(task.arguments[1] for task in tasks) == list(range(20))


def test_only_errors_of_chunks_that_are_tried_again_count(folder, run):
    job = make_job(folder, 48, on_error="skip")
    previous = Record(16, {3: (SKIPPED, "broken"), 5: (FAILED, "refused")})
    records = {0: Record(16), 2: Record(16, {40: (FAILED, "refused")})}
    counts, store, _, _ = run(job, records, {0: previous, 2: None})
    assert sorted(counts) == [2, 16]
    assert store.records == records


def test_first_error_ends_the_run_unless_errors_are_skipped(folder, run):
    errors = {21: (FAILED, "refused"), 20: (SKIPPED, "broken")}
    records = {0: Record(16), 1: Record(16, errors)}
    counts, store, _, _ = run(make_job(folder, 32), records, dict.fromkeys(range(2)))
    with pytest.raises(InputError, match=r"^x\.npy\[21\]: refused$"):
        list(counts)
    assert store.records == {}
    counts, store, _, _ = run(make_job(folder, 32, on_error="skip"), records, dict.fromkeys(range(2)))
    assert list(counts) == [16, 16]
    assert store.records == records


def test_tasks_that_fail_name_their_rows(folder, run, monkeypatch):
    counts, _, _, _ = run(make_job(folder, 40), {}, {1: None})
    with pytest.raises(ExecutionError, match=r"^rows 16 to 31: KeyError: 1$"):
        list(counts)


def test_rows_are_written_every_two_seconds_but_rarely_if_that_takes_long(folder, run, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(mapping, "monotonic", lambda: clock.now)
    job = make_job(folder, 16 * 40)
    records = {chunk: Record(16) for chunk in range(40)}
    counts, store, _, _ = run(job, records, dict.fromkeys(range(40)))
    times, duration = [], 0.25

    def write_rows():
        times.append(clock.now)
        clock.now += duration

    store.write_rows = write_rows
    for _ in counts:
        clock.now += 1.0
    assert times == [3.0, 9.25, 15.5, 21.75, 28.0, 34.25, 40.5]  # then 5 s after the end of the last one
    clock.now, duration, times[:] = 0.0, 0.0, []
    counts, store, _, _ = run(job, records, dict.fromkeys(range(10)))
    store.write_rows = write_rows
    for _ in counts:
        clock.now += 1.0
    assert times == [3.0, 6.0, 9.0]


# The outputs


def find_outputs(folder, monkeypatch, answers, **options):
    job = make_job(folder, len(answers), **options)
    client = Client()
    monkeypatch.setattr(mapping, "describe_outputs", lambda job, index: answers[index])
    try:
        return mapping._find_outputs(client, job), client
    except InputError as error:
        return str(error), client


def test_outputs_are_those_of_the_first_sample_that_can_be_computed(folder, monkeypatch):
    outputs = {"y": OutputArray((2,), "<f4")}
    broken, refused = (SKIPPED, "x.npy[0]: is broken"), (FAILED, "refused")
    found, client = find_outputs(folder, monkeypatch, [broken, outputs, refused], on_error="skip")
    assert found == outputs
    assert [future.arguments[1] for future in client.futures] == [0, 1]
    assert all(future.options == {"pure": False} for future in client.futures)
    assert find_outputs(folder, monkeypatch, [broken, outputs])[0] == "x.npy[0]: is broken"
    assert find_outputs(folder, monkeypatch, [refused, outputs])[0] == "x.npy[0]: refused"
    message = find_outputs(folder, monkeypatch, [refused, broken], on_error="skip")[0]
    assert message == "none of the inputs can be computed; x.npy[0]: refused"


# Reports


def test_progress_counts_rows_of_earlier_runs(folder, scheduler):
    write(folder, chain("Relu", shape=("?", 2)))
    values = np.arange(80, dtype=np.float32).reshape(40, 2)
    for i, value in enumerate(values):
        np.save(f"{i:02}.npy", value[None])
    Path("20.npy").write_bytes(b"broken")
    reports = []
    arguments = ("model.xml", ["*.npy"], "out.zarr", MapOptions(on_error="skip", jit=False))
    result = map_inputs(*arguments, scheduler=scheduler, progress=lambda *numbers: reports.append(numbers))
    assert reports[0] == (0, 40)
    assert [count for _, count in reports] == [40] * 4
    assert reports[-1] == (40, 40)
    assert (result.computed, result.done, [error.row for error in result.errors]) == (40, 39, [20])
    np.save("20.npy", values[20][None])
    reports.clear()
    result = map_inputs(*arguments, scheduler=scheduler, progress=lambda *numbers: reports.append(numbers))
    assert (reports, result.computed, len(result.errors)) == ([(40, 40)], 0, 1)
    reports.clear()
    result = map_inputs(*arguments, scheduler=scheduler, retry=True, progress=lambda *numbers: reports.append(numbers))
    assert (reports, result.computed, result.done, result.errors) == ([(39, 40), (40, 40)], 1, 40, [])
