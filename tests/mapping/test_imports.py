"""Custom operations in runs over many inputs."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

from irrun.distributed import MapOptions, map_batches  # noqa: E402
from irrun.distributed.jobs import create_job  # noqa: E402
from irrun.distributed.workers import compute_samples  # noqa: E402
from irrun.ops._support import registry  # noqa: E402

OPERATIONS = """
import irrun

@irrun.op("Scale", opset="extension")
def scale(data):
    return data * {factor}
"""
X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


@pytest.fixture
def model(tmp_path):
    np.save(tmp_path / "x.npy", X)
    yield write(tmp_path, chain("Scale", shape=(1, 2, 3), versions=["extension"]))
    registry._registry._extensions.pop(("extension", "Scale"), None)


def write_operations(folder, factor):
    path = folder / "my_ops.py"
    path.write_text(OPERATIONS.format(factor=factor))
    return str(path)


def test_workers_import_operations_and_their_changes(model, tmp_path):
    for factor in (2, 3):
        options = MapOptions(imports=(write_operations(tmp_path, factor),))
        job = create_job(model, [str(tmp_path / "x.npy")], tmp_path / "out.zarr", options)
        results, errors = compute_samples(job, [3])
        assert not errors
        np.testing.assert_array_equal(results[3]["layer1"], X[3] * factor)


def test_blocks_of_dask_arrays_import_operations(model, tmp_path):
    options = MapOptions(imports=(write_operations(tmp_path, 2),))
    result = map_batches(model, X, options=options)
    np.testing.assert_array_equal(result.compute(scheduler="synchronous"), X * 2)
    with pytest.raises(irrun.InputError, match=r"expected a Python file, found 'no\.py'"):
        map_batches(model, X, options=MapOptions(imports=("no.py",)))


@pytest.mark.slow
def test_command_line_imports_operations_in_workers(model, tmp_path, capsys):
    operations = write_operations(tmp_path, 2)
    command = ["map", model, tmp_path / "x.npy", "-o", tmp_path / "out.zarr", "--import", operations, "--workers", 1]
    code, _, err = call(capsys, *command)
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "out.zarr"), mode="r")["layer1"][...], X * 2)
    write_operations(tmp_path, 3)
    code, _, err = call(capsys, *command)
    assert code == 2
    assert "belongs to another run: model differ" in err
