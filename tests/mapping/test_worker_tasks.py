"""Tasks of workers that are called in this process: batches, states, errors, results of other shapes, and records."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ir_text import chain, layer, net, port, write

from irrun.distributed import MapOptions, jobs, samples, workers
from irrun.distributed.jobs import create_job, hash_file, read_shaped_model, resolve_kernels
from irrun.distributed.manifest import OutputArray, describe_job, name_arrays, read_manifest, to_array_name
from irrun.distributed.mapping import MapResult, RowError, _get_result
from irrun.distributed.records import Record, describe_file, describe_files
from irrun.distributed.samples import Samples, Source, check_counts, find_source
from irrun.distributed.store import ResultStore
from irrun.errors import ExecutionError, InputError
from irrun.ir.model import TensorSpec
from irrun.runtime.compiled_model import compile_model
from irrun.shapes import PartialShape

PICKY = """import irrun
@irrun.op('Picky', opset='extension')
def picky(data):
    if (data < 0).any():
        raise irrun.InputError(f'negative among {len(data)}')
    return data + 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_job(model, values, **options):
    """Return the job of a model on the rows of an array."""
    np.save("x.npy", np.asarray(values, np.float32))
    return create_job(model, ["x.npy"], "out.zarr", MapOptions(jit=False, **options))


def make_picky_job(folder, values, **options):
    (folder / "ops.py").write_text(PICKY)
    model = write(folder, chain("Picky", shape=("?", 2), versions=["extension"]))
    return make_job(model, values, imports=("ops.py",), **options)


def write_sum(folder, shape):
    """Write a model whose output is the sum of its inputs until now."""
    text = ",".join(map(str, shape))
    variable = f'variable_id="v" variable_type="f32" variable_shape="{text}"'
    zeros = f'element_type="f32" shape="{text}" offset="0" size="{4 * int(np.prod(shape))}"'
    layers = [
        layer(0, "Parameter", data=f'shape="{text}" element_type="f32"', outputs=[port(0, shape, "FP32")], name="x"),
        layer(1, "Const", data=zeros, outputs=[port(0, shape, "FP32")]),
        layer(2, "ReadValue", "opset6", variable, [port(0, shape)], [port(1, shape, "FP32")]),
        layer(3, "Add", inputs=[port(0, shape), port(1, shape)], outputs=[port(2, shape, "FP32")], name="total"),
        layer(4, "Assign", "opset6", 'variable_id="v"', [port(0, shape)], [port(1, shape, "FP32")]),
        layer(5, "Result", inputs=[port(0, shape)]),
    ]
    edges = [(1, 0, 2, 0), (2, 1, 3, 0), (0, 0, 3, 1), (3, 2, 4, 0), (3, 2, 5, 0)]
    return write(folder, net(layers, edges), bytes(4 * int(np.prod(shape))))


def write_column_sum(folder):
    """Write a model whose output is the sum over its batch."""
    axes = 'element_type="i64" shape="1" offset="0" size="8"'
    layers = [
        layer(0, "Parameter", data='shape="?,2" element_type="f32"', outputs=[port(0, ("?", 2), "FP32")], name="x"),
        layer(1, "Const", data=axes, outputs=[port(0, (1,), "I64")]),
        layer(2, "ReduceSum", "opset1", 'keep_dims="true"', [port(0), port(1)], [port(2, (1, 2), "FP32")], name="sum"),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return write(folder, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]), bytes(8))


# Samples of a chunk


def test_samples_of_a_batch_that_fails_run_alone(folder):
    job = make_picky_job(folder, [[1, 1], [-1, 1], [2, 2], [-3, 0], [4, 5]], batch=3)
    results, errors = workers.compute_samples(job, range(5))
    assert {i: value["layer1"].tolist() for i, value in sorted(results.items())} == {0: [2, 2], 2: [3, 3], 4: [5, 6]}
    assert sorted(errors) == [1, 3]
    assert [errors[i][0] for i in (1, 3)] == ["failed", "failed"]
    assert all("negative among 1" in errors[i][1] for i in (1, 3))


def test_samples_of_a_batch_run_together(folder):
    job = make_picky_job(folder, [[1, 1], [-1, 1], [2, 2]], batch=2)
    compiled = workers.compile_for_worker(job.model, job.digest, job.options)
    request = compiled.create_infer_request()
    values = {i: [np.full((1 + i, 2), i, np.float32)] for i in range(3)}
    results = workers._run_group(request, compiled, [0, 1, 2], values, None)
    assert {i: value["layer1"].tolist() for i, value in results.items()} == {
        0: [1, 1], 1: [[2, 2]] * 2, 2: [[3, 3]] * 3
    }  # fmt: skip
    with pytest.raises(InputError, match="negative among 2"):
        workers._run_group(request, compiled, [0, 1], {0: [-np.ones((1, 2), np.float32)], 1: values[0]}, None)


def test_only_samples_of_the_same_shapes_and_types_share_a_batch():
    f32, f64 = np.zeros((1, 2), np.float32), np.zeros((1, 2))
    values = {3: [f32], 1: [f32], 2: [f64], 5: [f32[:, :1]], 4: [f32], 6: [f64]}
    assert workers._group_by_shape(values, 2) == [[3, 1], [4], [2, 6], [5]]
    assert workers._group_by_shape(values, 1) == [[3], [1], [4], [2], [6], [5]]


def test_outputs_that_do_not_count_samples_are_computed_one_by_one(folder):
    job = make_job(write_column_sum(folder), [[1, 2], [3, 4], [5, 6]], batch=2)
    results, errors = workers.compute_samples(job, [0, 1, 2])
    assert {i: value["sum"].tolist() for i, value in sorted(results.items())} == {0: [1, 2], 1: [3, 4], 2: [5, 6]}
    assert not errors
    compiled = workers.compile_for_worker(job.model, job.digest, job.options)
    request = compiled.create_infer_request()
    one = [np.ones((1, 2), np.float32)]
    with pytest.raises(InputError, match=r"^the first axis of an output does not count samples$"):
        workers._run_group(request, compiled, [0, 1], {0: one, 1: one}, None)


def test_models_with_state_run_over_the_steps_of_each_sample(folder):
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    job = make_job(write_sum(folder, (1, 2)), values, batch=2)
    results, errors = workers.compute_samples(job, [0, 1])
    assert not errors
    for i in range(2):
        np.testing.assert_array_equal(results[i]["total"], values[i].cumsum(0))


@pytest.mark.parametrize(
    ("shape", "length", "expected"),
    [((2, 1), 4, [[0], [1], [2], [4]]), ((2, 1), 2, [[0], [1]]), ((1,), 3, [0, 1, 3])],
    ids=["two steps", "one step", "rank 1"],
)
def test_steps_of_a_sample_have_the_length_of_the_input(folder, shape, length, expected):
    compiled = compile_model(write_sum(folder, shape))
    request = compiled.create_infer_request()
    values = [np.arange(length, dtype=np.float32).reshape(length, *shape[1:])]
    for _ in range(2):  # each sample starts from the initial state
        result = workers._run_sequence(request, compiled, values, None)
        assert {name: value.tolist() for name, value in result.items()} == {"total": expected}


def test_first_sample_declares_the_outputs(folder):
    job = make_picky_job(folder, [[1, 1], [-1, 1]])
    assert workers.describe_outputs(job, 0) == {"layer1": OutputArray((2,), "<f4")}
    state, message = workers.describe_outputs(job, 1)
    assert state == "failed"
    assert "negative among 1" in message


def test_texts_and_types_without_zarr_type_are_converted():
    texts = workers.convert_type(np.array([["a\udcff", "b"]]))
    assert (texts.dtype, texts.tolist()) == (np.dtype(object), [["a\\udcff", "b"]])
    import ml_dtypes

    assert workers.convert_type(np.ones(2, ml_dtypes.bfloat16)).dtype == np.float32
    outputs = workers._prepare_outputs({"a": np.ones((1, 3)), "A": np.ones((2, 3)), "rows": np.float32([7])})
    assert {name: value.shape for name, value in outputs.items()} == {"a": (3,), "A_2": (2, 3), "output_rows": ()}
    assert workers._drop_batch(np.array(3.0)).shape == ()


# Chunks and their records


def open_store(job):
    store = ResultStore.open(job_root(job), job)
    store.read_records()
    return store


def job_root(job):
    return Path(job.output)


def test_chunks_write_results_and_their_record(folder):
    zarr = pytest.importorskip("zarr")
    job = make_picky_job(folder, [[i, -1 if i == 17 else i] for i in range(18)], on_error="skip")
    assert (job.size, job.chunk_count) == (16, 2)
    store = open_store(job)
    outputs = {"layer1": OutputArray((2,), "<f4"), "other": OutputArray((), "<i2")}
    store.create_arrays(outputs)
    record = workers.run_chunk(job, outputs, 1)
    assert record.count == 2
    assert {i: status for i, (status, _) in record.errors.items()} == {17: "failed"}
    assert record.ragged == [16]  # it has no output "other"
    assert sorted(record.files) == ["layer1/c/1/0", "other/c/1"]
    assert record.files["other/c/1"] == describe_file(store.root / "other/c/1")
    group = zarr.open_group(job.output, mode="r")
    np.testing.assert_array_equal(group["layer1"][16:], [[17, 17], [np.nan, np.nan]])
    assert group["other"][16:].tolist() == [-(2**15)] * 2
    assert not (store.root / "ragged" / "other").exists()
    text = json.loads((store.root / "irrun-chunks/00000001.json").read_text())
    assert (text["count"], text["ragged"], list(text["errors"])) == (2, [16], ["17"])
    # Only errors are tried again.
    np.save("x.npy", np.float32([[i, 50] for i in range(18)]))
    record = workers.run_chunk(job, outputs, 1, record)
    assert (record.count, record.errors, record.ragged) == (2, {}, [16, 17])
    np.testing.assert_array_equal(zarr.open_group(job.output, mode="r")["layer1"][16:], [[17, 17], [18, 51]])


def test_chunks_write_results_of_other_shapes(folder):
    zarr = pytest.importorskip("zarr")
    job = make_job(write(folder, chain("Relu", shape=("?", "?"))), np.ones((2, 3)))
    store = open_store(job)
    outputs = {"layer1": OutputArray((2,), "<f4")}
    store.create_arrays(outputs)
    record = workers.run_chunk(job, outputs, 0)
    assert record.ragged == [0, 1]
    assert {name for name in record.files if name.endswith("zarr.json")} == {
        f"ragged/layer1/{i}/zarr.json" for i in range(2)
    }
    assert zarr.open_array("out.zarr/ragged/layer1/1", mode="r")[...].tolist() == [1, 1, 1]


def test_failures_that_end_the_run_write_nothing(folder):
    pytest.importorskip("zarr")
    job = make_picky_job(folder, [[1, 1], [-1, 1]])
    store = open_store(job)
    outputs = {"layer1": OutputArray((2,), "<f4")}
    store.create_arrays(outputs)
    record = workers.run_chunk(job, outputs, 0)
    assert (record.count, list(record.errors), record.ragged, record.files) == (2, [1], [], {})
    assert not (store.root / "layer1/c").exists()
    assert list((store.root / "irrun-chunks").iterdir()) == []


def test_records_of_chunks_without_results_are_accepted(folder):
    pytest.importorskip("zarr")
    job = make_picky_job(folder, [[1, -(i > 15)] for i in range(18)], on_error="skip")
    store = open_store(job)
    store.create_arrays({"layer1": OutputArray((2,), "<f4")})
    record = workers.run_chunk(job, store.outputs, 1)
    assert sorted(record.errors) == [16, 17]
    again = ResultStore.open(store.root, job)
    assert again.read_records() == 2
    assert (again.damaged, again.records) == (0, {1: record})
    (store.root / "layer1/c/1/0").write_bytes(b"")
    again = ResultStore.open(store.root, job)
    assert again.read_records() == 0
    assert (again.damaged, again.records) == (2, {})


def test_groups_with_attributes_are_damaged(folder):
    pytest.importorskip("zarr")
    store = ResultStore.open(folder / "out", make_picky_job(folder, [[1, 1]]))
    group = store._repair_group()
    before = (folder / "out/zarr.json").stat().st_mtime_ns
    assert dict(store._repair_group().attrs) == {}
    assert (folder / "out/zarr.json").stat().st_mtime_ns == before
    group.attrs["x"] = 1
    assert dict(store._repair_group().attrs) == {}


def test_files_have_sizes_and_checksums(folder):
    (folder / "a").write_bytes(bytes(range(256)) * 5000)
    assert describe_file(folder / "a") == (1280000, zlib.crc32(bytes(range(256)) * 5000))
    (folder / "b" / "c").mkdir(parents=True)
    (folder / "b" / "c" / "d").write_bytes(b"123456789")
    (folder / "b" / "e").write_bytes(b"")
    assert describe_files(folder, ["b"]) == {"b/c/d": (9, 0xCBF43926), "b/e": (0, 0)}
    assert describe_file(folder / "no") is None
    with pytest.raises(OSError, match=re.escape(f"{folder / 'no'} was not written")):
        describe_files(folder, ["b", "no"])


def test_records_are_parsed_strictly():
    value = {"count": 2, "errors": {"1": ["failed", "why"]}, "ragged": [0], "files": {"y/c/0": [3, 4]}}
    assert Record.parse(value) == Record(2, {1: ("failed", "why")}, [0], {"y/c/0": (3, 4)})
    with pytest.raises(ValueError, match="unknown status"):
        Record.parse({**value, "errors": {"1": ["done", "why"]}})


# The manifest


def test_arrays_of_outputs_have_valid_unique_names():
    names = ["a", "A", "a", "b/c\\d", "rows", "", "..", "__x", "a"]
    assert name_arrays(names[:2]) == {"a": "a", "A": "A_2"}
    assert name_arrays(["a", "A", "a_2", "A_2"]) == {"a": "a", "A": "A_2", "a_2": "a_2_2", "A_2": "A_2_3"}
    assert [to_array_name(name) for name in names[3:8]] == ["b_c_d", "output_rows", "output", "output", "output___x"]
    assert to_array_name("ä" * 100) == "ä" * 75


def test_manifests_that_cannot_be_read_are_named(folder, monkeypatch):
    path = folder / "irrun.json"
    assert read_manifest(folder) is None
    path.write_text("{}")
    monkeypatch.setattr(type(path), "read_text", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "denied")))
    with pytest.raises(InputError, match=re.escape(f"cannot read {path}: denied")):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("<f2", "nan"), ("<i2", "-32768"), ("|u1", "255"), ("|b1", "False"), ("string", "")]
)
def test_rows_without_results_contain_a_fill_value(dtype, fill):
    output = OutputArray((2, 1), dtype)
    block = output.make_block(3)
    assert (block.shape, str(output.fill)) == ((3, 2, 1), fill)
    assert [str(value) for value in block.reshape(-1)] == [fill] * 6
    assert output.accepts(np.empty((2, 1), output.numpy_type))
    assert not output.accepts(np.empty((1, 2), output.numpy_type))
    assert not output.accepts(np.empty((2, 1), np.float64))


@pytest.mark.parametrize("make", [lambda path: path.write_text("x"), lambda path: (path / "sub").mkdir(parents=True)])
def test_folders_of_something_else_are_kept(folder, make):
    job = make_picky_job(folder, [[1, 1]])
    make(job_root(job))
    with pytest.raises(InputError, match=r"out\.zarr exists and is not the output of a run; choose another output$"):
        ResultStore.open(job_root(job), job)


def test_empty_folders_are_used_and_kept(folder):
    job = make_picky_job(folder, [[1, 1]])
    job_root(job).mkdir()
    assert not ResultStore.open(job_root(job), job).remove_if_useless()
    assert job_root(job).is_dir()
    (folder / "file").write_text("")
    with pytest.raises(InputError, match=re.escape(f"cannot write {folder / 'file/out'}: Not a directory")):
        ResultStore.open(folder / "file/out", job)
    assert ResultStore.open(folder / "new", job).remove_if_useless()
    assert not (folder / "new").exists()


# Jobs and samples


def test_options_are_checked_and_normalized():
    options = MapOptions(memory="2G", weights_memory=0)
    assert (options.memory, options.weights_memory) == ("2G", "0")
    assert (options.batch, options.on_error, options.precision, options.threads, options.jit) == (
        1, "stop", "f32", 1, None
    )  # fmt: skip
    for name, value in {"memory": 0, "weights_memory": "x"}.items():
        with pytest.raises(
            InputError, match=f"^{name} is '?{value}'?, expected a number of bytes, or a text such as '80"
        ):
            MapOptions(**{name: value})


def test_kernels_are_compiled_for_many_samples(monkeypatch):
    auto = MapOptions(jit="auto")
    for installed in (True, False):
        monkeypatch.setattr(jobs, "is_installed", lambda: installed)  # noqa: B023
        found = [resolve_kernels(auto, count).jit for count in (None, 199, 200)]
        assert found == [installed, False, installed]
    assert resolve_kernels(MapOptions(jit=False), None).jit is False


def test_first_sample_is_selected(folder):
    job = make_picky_job(folder, np.ones((40, 2)), batch=5)
    assert (job.size, job.chunk_count, job.get_range(2), job.get_range(1)) == (20, 2, range(40, 40), range(20, 40))
    first = job.select_first()
    assert (first.count, first.inputs[0][1].count, first.inputs[0][0]) == (1, 1, 0)
    several = Samples((Source((), None), Source(("a", "b")), Source(("c.npy",), 4)), "/f")
    assert several.select_first() == Samples((Source(("a",)),), "/f")
    assert Samples((Source(("c.npy",), 4),), "/f").select_first() == Samples((Source(("c.npy",), 1),), "/f")
    assert [several.get_name(i) for i in range(several.count)] == ["a", "b", *(f"c.npy[{i}]" for i in range(4))]
    assert several.get_path(2) == "/f/c.npy[0]"


def test_sources_are_checked(folder):
    model = write(folder, chain("Relu"))
    np.save("x.npy", np.float32(3))
    with pytest.raises(InputError, match=r"^x\.npy is a scalar, expected an array with samples along its first axis$"):
        find_source("x.npy")
    (folder / "one.png").write_bytes(b"")
    assert find_source("one.png") == Source(("one.png",))
    two = Samples((Source(("a", "b")),), "/f")
    with pytest.raises(
        InputError, match=r"^expected the same positive number of samples for all inputs, found \[0, 2\]$"
    ):
        check_counts([two, Samples((), "/f")])
    with pytest.raises(InputError, match=r"found \[0\]$"):
        check_counts([Samples((), "/f")])
    assert check_counts([two, two]) == 2
    np.save("y.npy", np.ones((2, 2, 3), np.float32))
    job = create_job(model, ["y.npy", "x=y.npy"], "out", MapOptions())
    assert (job.count, job.input_names, job.get_name(3)) == (4, ("x",), "y.npy[1]")


def test_inputs_beyond_those_of_the_model_are_refused():
    names = {"x": 0, "z": 1}
    specs = ["x: f32[2]", "z: f32[2]"]
    assert jobs._find_position("z=a", names, {}, specs) == (1, "a")
    assert jobs._find_position("a", names, {0: []}, specs) == (1, "a")
    assert jobs._find_position("a", {"x": 0}, {0: []}, specs[:1]) == (0, "a")
    with pytest.raises(InputError, match=r"^too many inputs: 'a'; the model has 2$"):
        jobs._find_position("a", names, {0: [], 1: []}, specs)
    with pytest.raises(InputError, match=r"^unknown input 'w'; the model has x: f32\[2\]; z: f32\[2\]$"):
        jobs._find_position("w=a", names, {}, specs)


def test_files_are_hashed(folder):
    (folder / "a").write_bytes(b"abc")
    assert hash_file(folder / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(InputError, match=re.escape(f"cannot read {folder / 'no'}: No such file or directory")):
        hash_file(folder / "no")


def test_samples_have_the_rank_of_the_input(folder):
    np.save("x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    source = Samples((Source(("x.npy",), 2),), str(folder))
    options = MapOptions().image
    for shape, expected in (((1, 3), (1, 3)), (("?",), (3,)), (None, (1, 3))):
        spec = TensorSpec((), None, shape, None)
        value = source.load(1, spec, options)
        assert (value.shape, value.reshape(-1).tolist()) == (expected, [3, 4, 5])


# Results and errors of runs


def test_results_count_their_rows(folder):
    errors = [RowError(1, "b", "skipped", "why"), RowError(2, "c", "failed", "because"), RowError(4, "e", "failed", "")]
    result = MapResult(folder, 7, errors)
    assert (result.done, result.skipped, result.failed, dict(result)) == (
        4,
        1,
        2,
        {"b": "why", "c": "because", "e": ""},
    )
    assert (result.arrays, result.computed, result.damaged, result.jit) == ({}, 0, 0, False)


class KilledWorker(Exception):
    """An error of the name that Dask gives to the end of a worker."""


class FutureCancelledError(Exception):
    """An error of the name that Dask gives to a lost connection."""


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (InputError("broken"), InputError, "broken"),
        (KilledWorker("x"), ExecutionError,
         "rows 0 to 3: a worker process died each time; if the memory is too small, use fewer workers"),
        (FutureCancelledError("x"), ExecutionError,
         "rows 0 to 3: the connection to the scheduler was lost; run the same command again to continue"),
        (OSError("no space"), ExecutionError, "rows 0 to 3: OSError: no space"),
    ],
)  # fmt: skip
def test_errors_of_tasks_are_translated(error, kind, message):
    class Future:
        def result(self):
            raise error

    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        _get_result(Future(), "rows 0 to 3")


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_files_that_are_replaced_between_runs_are_read_again(kind, folder):
    """Processes of a cluster serve several runs, and so do programs."""

    def save(values):
        if kind == "npy":
            np.save("new.npy", values)
            Path("new.npy").replace("x.npy")
        else:
            pytest.importorskip("zarr").save_array("x.zarr", values, overwrite=True)

    path = str(folder / f"x.{kind}")
    for values in (np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32), np.ones((5, 3), np.float32)):
        save(values)
        assert find_source(path).count == len(values)
        np.testing.assert_array_equal(samples.open_array(path)[1], values[1])
        assert samples.open_array(path) is samples.open_array(path)


def test_patterns_of_files_may_include_folders(folder):
    for name in ("b.npy", "photos/a.npy", "photos/deep/er/c.npy", "photos/deep/d.txt", "photos/e.npy/f.npy"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert find_source("photos/**/*.npy").names == ("photos/a.npy", "photos/deep/er/c.npy", "photos/e.npy/f.npy")
    assert find_source("photos/*.npy").names == ("photos/a.npy",)
    assert find_source("*.npy").names == ("b.npy",)
    assert find_source("photos").names == ("photos/a.npy",)


def test_first_input_determines_the_steps_of_a_sample(folder, monkeypatch):
    steps = []

    class Request:
        def reset_state(self):
            steps.append("reset")

        def infer(self, values, timeout):
            steps.append([len(value) for value in values])
            assert timeout == 3
            return SimpleNamespace(to_dict=lambda: {"y": values[0]})

    model = SimpleNamespace(inputs=[SimpleNamespace(partial_shape=PartialShape([2, 1]))])
    values = [np.arange(5).reshape(5, 1), np.arange(9)]
    found = workers._run_sequence(Request(), model, values, 3)  # type: ignore[arg-type]
    assert steps == ["reset", [2, 2], [2, 2], [1, 2]]
    assert found["y"].tolist() == values[0].tolist()


def test_new_results_describe_their_run(folder):
    job = make_picky_job(folder, [[1, 1]])
    store = ResultStore.open(folder / "out", job)
    assert read_manifest(store.root) == describe_job(store.job)


@pytest.mark.parametrize(("batch", "is_dynamic"), [(1, False), (2, True), (3, True)])
def test_models_of_one_sample_get_a_dynamic_batch_for_larger_batches(folder, batch, is_dynamic):
    path = write(folder, chain("Relu", shape=(1, 2)))
    (parameter,) = read_shaped_model(str(path), MapOptions(batch=batch)).graph.find_layers("Parameter")
    assert parameter.outputs[0].shape[0].is_static != is_dynamic
