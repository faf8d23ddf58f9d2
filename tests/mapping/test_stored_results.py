"""Arrays and records of a run that were changed by something else: what is kept, and what is written again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from ir_text import chain, write

from irrun.distributed import MapOptions, OutputArray, arrays
from irrun.distributed.jobs import create_job
from irrun.distributed.records import FAILED, SKIPPED, Record, describe_file, get_record_path, write_record
from irrun.distributed.rows import ROWS_PER_CHUNK, _write_column, write_rows
from irrun.distributed.store import ResultStore, open_group
from irrun.errors import InputError

zarr = pytest.importorskip("zarr")


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of 40 rows, in chunks of 16."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Relu", shape=("?", 2)))
    np.save("x.npy", np.zeros((40, 2), np.float32))
    return create_job("model.xml", ["x.npy"], "out", MapOptions(jit=False))


# Columns


@pytest.fixture
def column(tmp_path):
    """Return functions that write a column, and that return when its metadata was written."""
    group = open_group(tmp_path, "a")
    values, attributes = np.array(["a", "b", "c"], object), {"values": ["a"]}

    def write_column(values=values, attributes=attributes):
        _write_column(tmp_path, group, "status", values, attributes)

    def read():
        array = group["status"]
        files = [tmp_path / "status/zarr.json", tmp_path / "status/c/0"]
        return array[...].tolist(), dict(array.attrs), [file.stat().st_mtime_ns for file in files]

    write_column()
    return write_column, read


def test_columns_with_the_same_values_are_not_written_again(column):
    write_column, read = column
    before = read()
    assert before[:2] == (["a", "b", "c"], {"values": ["a"]})
    write_column()
    assert read() == before


def test_columns_with_other_values_keep_their_metadata(column):
    write_column, read = column
    *_, (metadata, values) = read()
    write_column(np.array(["a", "x", "c"], object))
    texts, _, times = read()
    assert texts == ["a", "x", "c"]
    assert times[0] == metadata
    assert times[1] > values


@pytest.mark.parametrize(
    ("values", "attributes"), [(["a", "b", "c"], {"values": ["b"]}), (["a", "b"], {"values": ["a"]})]
)
def test_columns_with_other_attributes_or_shapes_are_created_again(values, attributes, column):
    write_column, read = column
    write_column(np.array(values, object), attributes)
    assert read()[:2] == (values, attributes)


def test_columns_are_divided_into_chunks(tmp_path):
    group = open_group(tmp_path, "a")
    for count in (3, ROWS_PER_CHUNK + 1):
        _write_column(tmp_path, group, "input", np.full((count, 2), "x", object), {})
        _write_column(tmp_path, group, "ragged", np.zeros(count, bool), {})
        assert group["input"].chunks == (min(count, ROWS_PER_CHUNK), 2)
        assert (group["ragged"].chunks, group["ragged"].dtype) == ((min(count, ROWS_PER_CHUNK),), bool)


def test_rows_describe_the_samples_of_all_chunks(job, tmp_path):
    group = open_group(tmp_path / "rows", "a")
    errors = {33: (FAILED, "refused"), 39: (SKIPPED, "broken \ud800")}
    write_rows(tmp_path / "rows", group, job, {0: Record(16), 2: Record(8, errors, [32, 34])})
    assert group["input"][...].tolist() == [f"x.npy[{i}]" for i in range(40)]
    assert dict(group["input"].attrs) == {"inputs": ["x"]}
    states = ["done"] * 16 + ["pending"] * 16 + ["done", "failed"] + ["done"] * 5 + ["skipped"]
    assert group["status"][...].tolist() == states
    assert dict(group["status"].attrs) == {"values": ["done", "skipped", "failed", "pending"]}
    assert group["error"][33:40].tolist() == ["refused", "", "", "", "", "", "broken \\ud800"]
    assert np.flatnonzero(group["ragged"][...]).tolist() == [32, 34]


def test_inputs_of_models_with_several_inputs_are_columns(job, tmp_path):
    ((_, samples),) = job.inputs
    group = open_group(tmp_path / "rows", "a")
    pair = replace(job, inputs=((0, samples), (1, samples)), input_names=("a", "b"))
    write_rows(tmp_path / "rows", group, pair, {})
    assert group["input"][38:].tolist() == [["x.npy[38]"] * 2, ["x.npy[39]"] * 2]
    assert dict(group["input"].attrs) == {"inputs": ["a", "b"]}


# Records and arrays


@pytest.fixture
def store(job, tmp_path):
    """A store in which the first and the last chunk are finished."""
    store = ResultStore.open(tmp_path / "out", job)
    store.create_arrays({"y": OutputArray((2,), "<f4"), "n": OutputArray((), "<i8")})
    group = open_group(store.root)
    for chunk in (0, 2):
        rows = job.get_range(chunk)
        group["y"][rows.start : rows.stop] = 1
        group["n"][rows.start : rows.stop] = 1
        files = {name: describe_file(store.root / name) for name in (f"y/c/{chunk}/0", f"n/c/{chunk}")}
        write_record(store.root, chunk, Record(len(rows), {}, [], files))
    return store


def reopen(store):
    again = ResultStore.open(store.root, store.job)
    finished = again.read_records()
    return finished, again.damaged, sorted(again.records)


def change_record(store, **changes):
    record = ResultStore.open(store.root, store.job)
    record.read_records()
    write_record(store.root, 2, replace(record.records[2], **changes))


def test_finished_chunks_are_found(store):
    assert reopen(store) == (24, 0, [0, 2])


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 7},
        {"errors": {40: (SKIPPED, "")}},
        {"errors": {31: (SKIPPED, "")}},
        {"ragged": [40]},
        {"files": {}},
        {"files": {"y/c/2/0": (0, 0)}},
        {"files": {"y/c/2/0": (0, 0), "n/c/2": (0, 0)}},
    ],
)
def test_records_that_do_not_fit_their_chunk_are_damaged(changes, store):
    change_record(store, **changes)
    assert reopen(store) == (16, 8, [0])


def test_errors_and_rows_of_other_shapes_of_the_chunk_are_accepted(store):
    change_record(store, errors={32: (SKIPPED, "")}, ragged=[39])
    assert reopen(store) == (24, 0, [0, 2])


def test_missing_files_are_damage_and_missing_records_are_not(store):
    (store.root / "n/c/0").unlink()
    assert reopen(store) == (8, 16, [2])
    get_record_path(store.root, 0).unlink()
    assert reopen(store) == (8, 0, [2])
    shutil.rmtree(get_record_path(store.root, 0).parent)
    assert reopen(store) == (0, 0, [])


def test_arrays_that_are_intact_are_kept(store):
    def read_times():
        return [(store.root / name).stat().st_mtime_ns for name in ("y/zarr.json", "n/zarr.json", "irrun.json")]

    before = read_times()
    reopen(store)
    assert read_times() == before


@pytest.mark.parametrize(
    "change", [{"shape": [41, 2]}, {"attributes": {}}, {"data_type": "float64"}, {"zarr_format": 2}]
)
def test_arrays_whose_metadata_changed_are_created_again(change, store):
    path = store.root / "y/zarr.json"
    before = path.read_bytes()
    path.write_text(json.dumps(json.loads(before) | change))
    assert reopen(store) == (0, 24, [])
    assert path.read_bytes() == before
    assert np.isnan(open_group(store.root)["y"][...]).all()
    assert open_group(store.root)["n"][:16].tolist() == [1] * 16


def test_arrays_describe_their_rows(store):
    group = open_group(store.root)
    assert (group["y"].shape, group["y"].chunks, group["y"].dtype) == ((40, 2), (16, 2), np.float32)
    assert (group["n"].shape, group["n"].chunks, group["n"].dtype) == ((40,), (16,), np.int64)
    assert dict(group["y"].attrs) == {"fill": "rows without results contain nan; see rows/status"}
    assert np.isnan(group["y"].fill_value)
    assert group["n"].fill_value == np.iinfo(np.int64).min


def test_only_new_folders_without_results_are_removed(job, store, tmp_path):
    assert not store.remove_if_useless()  # it has records
    (tmp_path / "empty").mkdir()
    old = ResultStore.open(tmp_path / "empty", job)
    assert not old.remove_if_useless()
    new = ResultStore.open(tmp_path / "new", job)
    assert new.remove_if_useless()
    assert not (tmp_path / "new").exists()
    again = ResultStore.open(store.root, job)
    assert not again.remove_if_useless()


# Blocks


def make_runner(**options):
    return arrays._BlockRunner("model.xml", "", MapOptions(jit=False, **options), np.dtype(np.float32), (2,))


def test_samples_of_a_block_that_fails_run_alone(job, monkeypatch):
    """Those that fail, or have results of another shape, are filled."""
    calls = []

    def run(self, block):
        calls.append(len(block))
        if len(block) > 1 or block[0, 0] == 1:
            raise InputError("refused")
        return np.ones((1, 3 if block[0, 0] == 2 else 2), np.float32) * block[0, 0]

    monkeypatch.setattr(arrays._BlockRunner, "run", run)
    block = np.repeat(np.arange(4, dtype=np.float32), 2).reshape(4, 2)
    with pytest.raises(InputError, match=r"^refused$"):
        make_runner()(block)
    assert calls == [4]
    calls.clear()
    results = make_runner(on_error="skip")(block)
    np.testing.assert_array_equal(results, [[0, 0], [np.nan] * 2, [np.nan] * 2, [3, 3]])
    assert (calls, results.dtype) == ([4, 1, 1, 1, 1], np.float32)


@pytest.mark.parametrize("data", [3, [1, 2], np.float32(1), np.zeros(())])
def test_data_without_samples_is_refused(data, job):
    with pytest.raises(InputError, match="expected a NumPy, Zarr or Dask array with samples"):
        arrays._get_shape(data)
    assert arrays._get_shape(np.zeros((2, 0))) == (2, 0)
