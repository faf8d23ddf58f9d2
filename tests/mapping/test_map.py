"""Runs over many inputs on two workers: results, errors, killed workers, stop and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import irrun

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

from irrun.distributed import MapOptions, map_inputs  # noqa: E402
from irrun.distributed.manifest import MANIFEST  # noqa: E402
from irrun.distributed.records import RECORDS  # noqa: E402
from mapping.processes import find_workers  # noqa: E402

pytestmark = pytest.mark.slow

COUNT = 200


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "inputs"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for i in range(COUNT):
        np.save(folder / f"{i:05d}.npy", rng.standard_normal((1, 8)).astype(np.float32))
    return folder


def compute_expected(model, files):
    compiled = irrun.compile_model(model, threads=1)
    return np.concatenate([np.array(compiled(np.load(f))[0]) for f in sorted(files.iterdir())])


def load_results(output):
    return zarr.open_group(str(output), mode="r")["y"][...]


def test_results_equal_those_of_one_process(model, files, tmp_path):
    errors = map_inputs(model, [str(files)], tmp_path / "out.zarr", workers=2)
    assert not errors
    np.testing.assert_array_equal(load_results(tmp_path / "out.zarr"), compute_expected(model, files))


def test_arrays_and_batches(model, tmp_path):
    x = np.random.default_rng(2).standard_normal((50, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    zarr.save_array(str(tmp_path / "x.zarr"), x)
    expected = irrun.compile_model(model)(x)[0]
    for source in ("x.npy", "x.zarr"):
        output = tmp_path / f"{source}.out.zarr"
        map_inputs(model, [f"x={tmp_path / source}"], output, MapOptions(batch=8), workers=1)
        np.testing.assert_allclose(load_results(output), expected, rtol=1e-6)


def test_broken_inputs_are_recorded_or_end_the_run(model, files, tmp_path):
    (files / "00003.npy").write_bytes(b"broken")
    np.save(files / "00150.npy", np.zeros((1, 9), np.float32))
    errors = map_inputs(model, [str(files)], tmp_path / "out.zarr", MapOptions(on_error="skip"), workers=2)
    assert sorted(Path(name).name for name in errors) == ["00003.npy", "00150.npy"]
    assert map_inputs(model, [str(files)], tmp_path / "out.zarr", MapOptions(on_error="skip"), workers=2) == errors
    with pytest.raises(irrun.InputError, match=r"00003\.npy|00150\.npy"):
        map_inputs(model, [str(files)], tmp_path / "other.zarr", workers=2)


def test_manifest_refuses_another_run(model, files, tmp_path):
    output = tmp_path / "out.zarr"
    map_inputs(model, [str(files)], output, workers=1)
    with pytest.raises(irrun.InputError, match="options"):
        map_inputs(model, [str(files)], output, MapOptions(batch=4), workers=1)
    model.with_suffix(".bin").write_bytes(bytes(128))
    with pytest.raises(irrun.InputError, match="belongs to another run: model"):
        map_inputs(model, [str(files)], output, workers=1)


def test_killed_worker_and_stopped_run_lose_nothing(model, tmp_path):
    count = 2000
    x = np.random.default_rng(3).standard_normal((count, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    output = tmp_path / "out.zarr"
    records = output / RECORDS
    command = [sys.executable, "-m", "irrun", "map", str(model), str(tmp_path / "x.npy"), "-o", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(Path(irrun.__file__).parents[1])}
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes of a shell ignore it
    )
    try:
        deadline = time.monotonic() + 120
        while len(list(records.glob("*.json")) if records.exists() else []) < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        workers = find_workers(process.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
    before = {path.name: path.stat().st_mtime_ns for path in records.glob("*.json")}
    subprocess.run([*command, "--workers", "2"], env=environment, check=True, timeout=200)
    after = {path.name: path.stat().st_mtime_ns for path in records.glob("*.json")}
    assert all(after[name] == time_ns for name, time_ns in before.items())  # nothing is computed twice
    total = sum(json.loads(path.read_text())["count"] for path in records.glob("*.json"))
    assert total == count
    assert json.loads((output / MANIFEST).read_text())["samples"] == count
    compiled = irrun.compile_model(model, threads=1)
    expected = np.concatenate([np.array(compiled(x[i : i + 1])[0]) for i in range(count)])
    np.testing.assert_array_equal(load_results(output), expected)


def test_map_batches_is_lazy(model, tmp_path):
    import dask.array

    x = np.random.default_rng(2).standard_normal((50, 8)).astype(np.float32)
    result = irrun.map_batches(model, x, batch=16)
    assert isinstance(result, dask.array.Array)
    assert result.shape == (50, 4)
    expected = irrun.compile_model(model)(x)[0]
    np.testing.assert_allclose(result.compute(scheduler="synchronous"), expected, rtol=1e-6)


def test_import_stays_light():
    code = "import sys, irrun; irrun.compile_model; assert not {'dask', 'distributed', 'zarr'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
