"""Inputs and options of `irrun map` that are refused, without results that are half written."""

from __future__ import annotations

import re

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun

pytest.importorskip("distributed")
pytest.importorskip("zarr")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["junk.npy"], "junk.npy: "),
        (["y=data.npy"], "unknown input 'y'; the model has x: f32[2,3]"),
        (["empty"], "empty contains no images, .npy or .npz files"),
        (["empty.zarr"], "cannot read "),
        (["data.npy", "--memory", "x"], "--memory: expected a size such as 800M or 2G, found 'x'"),
        (["data.npy", "--mean", "a"], "--mean: expected a list of numbers, found 'a'"),
        (["data.npy", "--import", "no.py"], "--import: expected a Python file, found 'no.py'"),
        (["data.npy", "--scheduler", "nope"], "cannot connect to the scheduler: missing port number"),
    ],
)
def test_mistakes_are_reported_in_one_line(tmp_path, monkeypatch, arguments, message, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Relu"), name="model")
    (tmp_path / "junk.npy").write_bytes(b"junk")
    np.save(tmp_path / "data.npy", np.ones((4, 2, 3), np.float32))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.zarr").mkdir()
    code, out, err = call(capsys, "map", "model.xml", *arguments, "-o", "results.zarr")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "pickle" not in err
    assert not (tmp_path / "results.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "model is None, expected the path of an .xml file"),
        ({"inputs": 3}, "inputs is 3, expected a list of folders, patterns or files"),
        ({"inputs": [None]}, "an element of inputs is None"),
        ({"inputs": []}, "missing input x: f32"),
        ({"inputs": ["x" * 5000]}, "is not a folder, a pattern of files, or an array"),
        ({"output": None}, "output is None, expected the path of a folder"),
        ({"options": {}}, "options is an empty dict, expected a MapOptions"),
        ({"scheduler": 3}, "scheduler is 3, expected the address of a Dask scheduler"),
        ({"workers": 0}, "workers is 0, expected an integer of at least 1"),
        ({"retry": "yes"}, "retry is 'yes', expected True or False"),
        ({"progress": 3}, "progress is 3, expected a function"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, model, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    good = {"model": model, "inputs": [tmp_path / "x.npy"], "output": tmp_path / "out.zarr"}
    with pytest.raises(irrun.InputError, match=re.escape(message)):
        irrun.distributed.map_inputs(**{**good, **arguments})
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 3}, "model is 3, expected the path of an .xml file"),
        ({"data": [1, 2]}, "data is a list of 2, expected a NumPy, Zarr or Dask array"),
        ({"data": np.float32(1)}, "data is an array of float32 with shape [], expected a NumPy"),
        ({"batch": 1.5}, "batch is 1.5, expected an integer of at least 1"),
        ({"options": 3}, "options is 3, expected a MapOptions"),
    ],
)
def test_wrong_arguments_of_lazy_runs_are_named(arguments, message, model):
    with pytest.raises(irrun.InputError, match=re.escape(message)):
        irrun.map_batches(**{"model": model, "data": np.ones((3, 8), np.float32), **arguments})


@pytest.mark.slow
def test_run_that_fails_at_once_leaves_nothing_behind(tmp_path, capsys):
    model = write(tmp_path, chain("Relu"))
    np.save(tmp_path / "data.npy", np.ones((4, 5, 5), np.float32))
    code, _, err = call(capsys, "map", model, tmp_path / "data.npy", "-o", tmp_path / "results.zarr", "--workers", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert "data.npy[0]: input x: f32[2,3] does not accept shape [5, 5]" in err
    assert not (tmp_path / "results.zarr").exists()
