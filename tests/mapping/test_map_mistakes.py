"""Inputs and options of `irrun map` that are refused, without results that are half written."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

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


@pytest.mark.slow
def test_run_that_fails_at_once_leaves_nothing_behind(tmp_path, capsys):
    model = write(tmp_path, chain("Relu"))
    np.save(tmp_path / "data.npy", np.ones((4, 5, 5), np.float32))
    code, _, err = call(capsys, "map", model, tmp_path / "data.npy", "-o", tmp_path / "results.zarr", "--workers", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert "data.npy[0]: input x: f32[2,3] does not accept shape [5, 5]" in err
    assert not (tmp_path / "results.zarr").exists()
