"""Commands refuse to overwrite the files that they read, by whatever path or link."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun.atomic_files import atomic_write, check_not_overwriting, keep_files
from irrun.inspection import record, reduce


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a model, its weights, an input, and links to them."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Relu", "Negative"))
    Path("model.bin").write_bytes(b"\0" * 64)
    np.save("x.npy", np.ones((2, 3), np.float32))
    np.savez("all.npz", x=np.ones((2, 3), np.float32))
    os.symlink("model.xml", "symbolic.trace")
    os.link("model.xml", "hard.npz")
    os.symlink("x.npy", "symbolic.npy")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("trace model.xml -i zeros -o model.xml", "model.xml"),
        ("trace model.xml -i zeros -o model.bin", "model.bin"),
        ("trace model.xml -i zeros -o symbolic.trace", "model.xml"),
        ("trace model.xml -i x.npy -o x.npy", "x.npy"),
        ("run model.xml -i zeros -o hard.npz", "model.xml"),
        ("run model.xml -i x.npy -o symbolic.npy", "x.npy"),
        ("run model.xml -i 0=x.npy -o x.npy", "x.npy"),
        ("run model.xml -i all.npz:x -o all.npz", "all.npz"),
        ("run model.xml -i symbolic.npy -o ./x.npy", "symbolic.npy"),
        ("profile model.xml -i x.npy --runs 1 --chrome hard.npz", "model.xml"),
        ("profile model.xml -i x.npy --runs 1 -o x.npy", "x.npy"),
        ("report model.xml -i x.npy -o x.npy", "x.npy"),
        ("report model.xml -i x.npy --against all.npz -o all.npz", "all.npz"),
        ("report model.xml -i x.npy --against . -o symbolic.npy", "x.npy"),
        ("reduce model.xml -i x.npy --fails inf -o .", "model.xml"),
        ("debug model.xml -i x.npy -o x.npy", "x.npy"),
        ("compare model.xml -i x.npy --against hard.xml --junit x.npy", "x.npy"),
        ("compare model.xml -i x.npy --against hard.xml --cure 1 --ignored-scope hard.npz", "model.xml"),
        ("compare model.xml -i x.npy --against hard.xml --cure 1 -o hard.xml", "model.xml"),
        ("upgrade model.xml -o hard.xml", "model.xml"),
        ("run model.xml -i zeros --import custom.py -o custom.json", "custom.py"),
    ],
)
def test_files_that_a_command_reads_are_not_overwritten(folder, arguments, named, capsys):
    os.link("model.xml", "hard.xml")
    Path("custom.py").write_text("")
    os.symlink("custom.py", "custom.json")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, out, err = call(capsys, *arguments.split())
    assert (code, out) == (2, "")
    assert f"this would overwrite the input file {named}; choose another output" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_files_in_folders_of_outputs_are_not_overwritten(folder, capsys):
    name = irrun.read_model("model.xml").outputs[0].names[0]
    Path("x.npy").rename(f"{name}.npy")
    before = Path(f"{name}.npy").read_bytes()
    for option in ("-o", "--dump"):
        code, _, err = call(capsys, "model.xml", "-i", f"{name}.npy", option, ".")
        assert code == 2
        assert f"this would overwrite the input file {name}.npy" in err
    assert Path(f"{name}.npy").read_bytes() == before


def test_replay_keeps_the_model_that_the_trace_names(folder, capsys):
    assert call(capsys, "trace", "model.xml", "-i", "zeros", "-o", "run.trace")[0] == 0
    before = Path("model.xml").read_bytes()
    code, _, err = call(capsys, "replay", "run.trace", "layer1", "-o", "hard.npz")
    assert code == 2
    assert "this would overwrite the input file model.xml" in err
    assert Path("model.xml").read_bytes() == before


def test_other_files_are_overwritten(folder, capsys):
    for name in ("out.npy", "out.npy", "model.npy"):
        assert call(capsys, "model.xml", "-i", "x.npy", "-o", name)[0] == 0
    assert call(capsys, "model.xml", "-i", "zeros", "-o", "x.npy")[0] == 0
    for _ in range(2):
        assert call(capsys, "compare", "model.xml", "model.xml", "-i", "x.npy", "--junit", "report.xml")[0] == 0
        assert call(capsys, "profile", "model.xml", "-i", "x.npy", "--runs", 1, "--chrome", "calls.json")[0] == 0


def test_functions_keep_the_files_of_their_models(folder):
    model = irrun.read_model("model.xml")
    assert model.files == [Path("model.xml"), Path("model.bin")]
    for path in ("model.xml", "model.bin", "hard.npz"):
        with pytest.raises(irrun.InputError, match="this would overwrite the input file model"):
            record(model, [np.ones((2, 3), np.float32)], path)
    reduction = reduce(model, [np.ones((2, 3), np.float32)], fails="min<0")
    with pytest.raises(irrun.InputError, match="this would overwrite the input file model"):
        reduction.save(folder)
    assert irrun.read_model("model.xml").inputs


def test_files_are_kept_inside_of_blocks_only(folder):
    with keep_files(["x.npy"]):
        with keep_files(["model.xml", "missing", "nul\0"]), pytest.raises(irrun.InputError, match=r"model\.xml"):
            check_not_overwriting(["missing", "hard.npz"])
        check_not_overwriting(["hard.npz"])
        with pytest.raises(irrun.InputError, match=r"x\.npy"), atomic_write(Path("symbolic.npy")):
            pass
    with atomic_write(Path("x.npy")) as file:
        file.write(b"new")
    assert Path("symbolic.npy").read_bytes() == b"new"
