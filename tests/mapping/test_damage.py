"""Results of an earlier run that are damaged, and the choice of kernels that a run keeps."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import irrun
from irrun.runtime import compilation

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

from irrun.distributed import MapOptions, jobs, manifest, map_inputs  # noqa: E402
from irrun.distributed.records import write_json  # noqa: E402

COUNT = 40


@pytest.fixture
def output(model, tmp_path, scheduler):
    np.save(tmp_path / "x.npy", np.random.default_rng(2).standard_normal((COUNT, 8)).astype(np.float32))
    map_inputs(model, [str(tmp_path / "x.npy")], tmp_path / "out.zarr", scheduler=scheduler)
    return tmp_path / "out.zarr"


def resume(output, scheduler, **options):
    folder = output.parent
    return map_inputs(folder / "model.xml", [str(folder / "x.npy")], output, MapOptions(**options), scheduler=scheduler)


@pytest.mark.parametrize("text", ["{", "[]", "", "{}", "null", "\ud800", '{"model": 1, "samples": 2, "options": []}'])
def test_damaged_manifests_are_refused(output, scheduler, text):
    (output / "irrun.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(
        irrun.InputError, match=r"irrun\.json is damaged .*; delete the folder or choose another output"
    ):
        resume(output, scheduler)


@pytest.mark.parametrize("outputs", [[1], {"y": 1}, {"y": [[4], "nonsense"]}, {"../y": [[4], "<f4"]}])
def test_damaged_descriptions_of_outputs_are_refused(output, scheduler, outputs):
    text = json.loads((output / "irrun.json").read_text())
    write_json(output / "irrun.json", {**text, "outputs": outputs})
    with pytest.raises(irrun.InputError, match=r"irrun\.json is damaged \(it does not describe the outputs\)"):
        resume(output, scheduler)


def write_into(name, text):
    return lambda output: (output / name).write_text(text)


def edit_record(**values):
    def edit(output):
        path = output / "irrun-chunks" / "00000001.json"
        write_json(path, {**json.loads(path.read_text()), **values})

    return edit


def replace_text(name, before, after):
    def edit(output):
        text = (output / name).read_text()
        assert before in text
        (output / name).write_text(text.replace(before, after))

    return edit


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        (write_into("irrun-chunks/00000001.json", "{}"), 16),
        (write_into("irrun-chunks/00000001.json", "[]"), 16),
        (write_into("irrun-chunks/00000001.json", ""), 16),
        (edit_record(files={}), 16),
        (edit_record(count=3), 16),
        (edit_record(errors={"1000": ["failed", ""]}), 16),
        (edit_record(errors={"17": ["done", ""]}), 16),
        (lambda output: (output / "y/c/1/0").unlink(), 16),
        (lambda output: (output / "y/c/2/0").write_bytes((output / "y/c/0/0").read_bytes()), 8),
        (lambda output: shutil.rmtree(output / "y"), COUNT),
        (write_into("y/zarr.json", "{"), COUNT),
        (replace_text("irrun-chunks/00000001.json", '"count": 16', '"count": 61'), 16),
        (replace_text("y/zarr.json", '"NaN"', "0.0"), COUNT),
        (write_into("zarr.json", "[]"), 0),
        (write_into("rows/zarr.json", "{"), 0),
        (write_into("rows/zarr.json", '{"zarr_format": 3}'), 0),
        (lambda output: (output / "zarr.json").unlink(), 0),
        (lambda output: shutil.rmtree(output / "rows"), 0),
        (lambda output: (output / "rows/status/c/0").unlink(), 0),
        (write_into("rows/input/c/0", "x"), 0),
    ],
)
def test_damaged_results_are_computed_again(output, scheduler, damage, count):
    before = zarr.open_group(str(output), mode="r")["y"][...]
    damage(output)
    result = resume(output, scheduler)
    assert (result.damaged, result.computed) == (count, count)
    group = zarr.open_group(str(output), mode="r")
    np.testing.assert_array_equal(group["y"][...], before)
    assert group["rows/status"][...].tolist() == ["done"] * COUNT
    assert group["rows/input"][0] == f"{output.parent / 'x.npy'}[0]"
    assert resume(output, scheduler).computed == 0


def test_missing_records_are_not_damage(output, scheduler):
    shutil.rmtree(output / "irrun-chunks")
    result = resume(output, scheduler)
    assert (result.damaged, result.computed) == (0, COUNT)


def test_choice_of_kernels_is_kept(output, scheduler, monkeypatch):
    text = json.loads((output / "irrun.json").read_text())
    assert text["options"]["jit"] is False
    monkeypatch.setattr(jobs, "MIN_JIT_SAMPLES", 1)
    monkeypatch.delenv("IRRUN_JIT", raising=False)
    assert resume(output, scheduler).jit is False
    assert resume(output, scheduler, jit="auto").jit is False
    monkeypatch.setattr(manifest, "is_installed", lambda: True)
    with pytest.raises(irrun.InputError, match=r"belongs to another run: options differ \(jit was False, is True\)"):
        resume(output, scheduler, jit=True)


def test_run_with_compiled_kernels_does_not_continue_without_them(output, scheduler, monkeypatch):
    text = json.loads((output / "irrun.json").read_text())
    text["options"]["jit"] = True
    write_json(output / "irrun.json", text)
    monkeypatch.setattr(manifest, "is_installed", lambda: False)
    with pytest.raises(irrun.InputError, match=r"compiled kernels, which require llvmlite: pip install 'irrun\[jit\]'"):
        resume(output, scheduler)


def test_jit_requires_llvmlite(model, tmp_path, scheduler, monkeypatch):
    monkeypatch.setattr(compilation, "is_installed", lambda: False)
    np.save(tmp_path / "x.npy", np.zeros((2, 8), np.float32))
    with pytest.raises(irrun.InputError, match=r"pip install 'irrun\[jit\]'"):
        map_inputs(model, [str(tmp_path / "x.npy")], tmp_path / "out.zarr", MapOptions(jit=True), scheduler=scheduler)
    assert not (tmp_path / "out.zarr").exists()
