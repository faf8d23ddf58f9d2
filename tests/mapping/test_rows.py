"""What the results say about their rows: names, order, states, errors, fill values, and inputs that are tried again."""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

from irrun.distributed import MapOptions, map_inputs  # noqa: E402
from mapping.conftest import write_model  # noqa: E402

SKIP = MapOptions(on_error="skip")
SHAPE_ERROR = "input x: f32[?,8] does not accept shape [1, 9]: dimension 1 is 9, expected 8"


def save(path, value=1.0, width=8):
    np.save(path, np.full((1, width), value, np.float32))
    return path.name


def read(name):
    group = zarr.open_group("out.zarr", mode="r")
    value = group[name][...]
    return value.tolist() if value.dtype.kind in "OT" else value


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """Write two good inputs and three bad ones, and return the folder as a user names it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "a.npy").symlink_to(folder / "moved.npy")  # sorted by its target, it would come later
    save(folder / "b.npy", 2)
    (folder / "c.npy").write_bytes(b"broken")
    save(folder / "d.npy", 3)
    save(folder / "e.npy", width=9)
    return "inputs"


def test_rows_have_names_states_and_errors(model, inputs, scheduler):
    result = map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    assert read("rows/input") == [f"inputs/{letter}.npy" for letter in "abcde"]
    assert read("rows/status") == ["skipped", "done", "skipped", "done", "failed"]
    errors = read("rows/error")
    assert errors[1] == errors[3] == ""
    assert errors[0].startswith("cannot read inputs/a.npy: No such file")
    assert errors[2].startswith("inputs/c.npy cannot be read as npy")
    assert errors[4] == SHAPE_ERROR
    y = read("y")
    assert np.isnan(y[[0, 2, 4]]).all()
    np.testing.assert_array_equal(y[1], irrun.run(model, np.load("inputs/b.npy"))[0][0])
    assert (result.count, result.done, result.skipped, result.failed) == (5, 2, 2, 1)
    assert result.computed == 5
    assert [(e.row, e.name, e.status) for e in result.errors][2] == (4, "inputs/e.npy", "failed")
    assert result["inputs/e.npy"] == SHAPE_ERROR


def test_rows_that_are_complete_are_not_written_again(model, inputs, scheduler, tmp_path):
    def list_files():
        files = [path for path in (tmp_path / "out.zarr/rows").rglob("*") if path.is_file()]
        return {path: (status.st_ino, status.st_mtime_ns) for path in files for status in [path.stat()]}

    map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    before, states = list_files(), read("rows/status")
    assert len(before) > 4
    map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    assert list_files() == before
    zarr.open_group("out.zarr", mode="r+")["rows/status"][0] = "done"
    map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    assert read("rows/status") == states
    assert {path.parent for path, status in list_files().items() if before.get(path) != status} <= {
        path.parent for path in before if "status" in path.parts
    }


def test_retry_tries_repaired_inputs_again(model, inputs, scheduler):
    map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    before = read("y")
    (model.parent / inputs / "c.npy").unlink()
    save(model.parent / inputs / "c.npy", 4)
    (model.parent / inputs / "b.npy").write_bytes(b"")  # its row is done
    assert map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler).skipped == 2
    result = map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler, retry=True)
    assert (result.computed, result.skipped, result.failed) == (3, 1, 1)
    assert read("rows/status") == ["skipped", "done", "done", "done", "failed"]
    assert read("rows/error")[2] == ""
    after = read("y")
    np.testing.assert_array_equal(after[[0, 1, 3, 4]], before[[0, 1, 3, 4]])
    np.testing.assert_array_equal(after[2], irrun.run(model, np.load("inputs/c.npy"))[0][0])
    with pytest.raises(irrun.InputError, match=r"inputs/a\.npy"):
        map_inputs("model.xml", [inputs], "out.zarr", scheduler=scheduler, retry=True)


def test_command_line_reports_rows(model, inputs, scheduler, capsys):
    command = ["map", "model.xml", inputs, "-o", "out.zarr", "--on-error", "skip", "--scheduler", scheduler]
    code, out, err = call(capsys, *command)
    assert code == 1
    assert out == "wrote out.zarr, 2 of 5 rows, 2 were skipped, 1 failed; --retry retries them\n"
    assert err.splitlines()[2] == f"failed, row 4: inputs/e.npy: {SHAPE_ERROR}"
    code, out, _ = call(capsys, *command)
    assert code == 1
    assert out == "out.zarr already has 2 of 5 rows, 2 were skipped, 1 failed; --retry retries them\n"
    for name in "ace":
        (model.parent / inputs / f"{name}.npy").unlink()
        save(model.parent / inputs / f"{name}.npy")
    code, out, err = call(capsys, *command, "--retry", "--json")
    described = json.loads(out)
    assert (code, err, described["done"], described["computed"], described["errors"]) == (0, "", 5, 3, [])
    assert described["arrays"] == [{"name": "y", "type": "<f4", "shape": [5, 4], "fill": "nan"}]
    assert call(capsys, *command) == (0, "out.zarr already has 5 rows\n", "")


def test_json_describes_errors(model, inputs, scheduler, capsys):
    command = ["map", "model.xml", inputs, "-o", "out.zarr", "--on-error", "skip", "--scheduler", scheduler, "--json"]
    code, out, _ = call(capsys, *command)
    described = json.loads(out)
    assert code == 1
    assert (described["rows"], described["skipped"], described["failed"], described["jit"]) == (5, 2, 1, False)
    assert described["errors"][2] == {"row": 4, "name": "inputs/e.npy", "status": "failed", "message": SHAPE_ERROR}


def test_rows_follow_the_order_of_the_arguments(model, inputs, scheduler):
    folder = model.parent / inputs
    names = [str(folder / f"{letter}.npy") for letter in "db"]
    map_inputs("model.xml", [*names, "inputs/[cb].npy"], "out.zarr", SKIP, scheduler=scheduler)
    # The path of an .npy file is an array of samples, as in a run over one array.
    assert read("rows/input") == [f"{names[0]}[0]", f"{names[1]}[0]", "inputs/b.npy", "inputs/c.npy"]
    assert read("rows/status") == ["done", "done", "done", "skipped"]


def test_patterns_keep_links_to_missing_files(model, inputs, scheduler):
    map_inputs("model.xml", ["inputs/*.npy"], "out.zarr", SKIP, scheduler=scheduler)
    assert read("rows/input") == [f"inputs/{letter}.npy" for letter in "abcde"]


def test_runs_continue_in_another_folder(model, inputs, scheduler, monkeypatch, tmp_path):
    map_inputs("model.xml", [inputs], "out.zarr", SKIP, scheduler=scheduler)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = map_inputs(model, [tmp_path / inputs], tmp_path / "out.zarr", SKIP, scheduler=scheduler)
    assert (result.computed, result.skipped) == (0, 2)
    os.rename(tmp_path / inputs / "b.npy", tmp_path / inputs / "b2.npy")
    with pytest.raises(irrun.InputError, match="belongs to another run: inputs differ"):
        map_inputs(model, [tmp_path / inputs], tmp_path / "out.zarr", SKIP, scheduler=scheduler)


def write_types(folder):
    """Write a model of two inputs, whose outputs are i32, u8, boolean, and a name that is reserved."""
    types = ("i32", "u8", "boolean", "i32")
    layers = [
        layer(0, "Parameter", data='shape="?,?" element_type="f32"', outputs=[port(0)], name="x"),
        layer(1, "Parameter", data='shape="?,?" element_type="f32"', outputs=[port(0)], name="z"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2)], name="sum"),
    ]
    edges = [(0, 0, 2, 0), (1, 0, 2, 1)]
    for i, (name, kind) in enumerate(zip(("whole", "small", "a/b", "rows"), types, strict=True)):
        data = f'destination_type="{kind}"'
        layers.append(layer(3 + i, "Convert", data=data, inputs=[port(0)], outputs=[port(1)], name=name))
        layers.append(layer(13 + i, "Result", inputs=[port(0)], name=f"result{i}"))
        edges += [(2, 2, 3 + i, 0), (3 + i, 1, 13 + i, 0)]
    return write(folder, net(layers, edges))


def test_all_types_have_fill_values_and_other_shapes_are_separate(tmp_path, scheduler, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_types(tmp_path)
    for name, width in (("a", 2), ("b", 3), ("c", 2)):
        save(tmp_path / f"x{name}.npy", 5, width)
        save(tmp_path / f"z{name}.npy", 6, width)
    (tmp_path / "zc.npy").write_bytes(b"")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        result = map_inputs("model.xml", ["x=x?.npy", "z=z?.npy"], "out.zarr", SKIP, scheduler=scheduler)
        group = zarr.open_group("out.zarr", mode="r")
        assert sorted(name for name, _ in group.members()) == [
            "a_b", "output_rows", "ragged", "rows", "small", "whole"
        ]  # fmt: skip
    assert not [w for w in shown if w.category is not ResourceWarning]
    assert (result.arrays["whole"].dtype, result.arrays["whole"].shape) == ("<i4", (2,))
    assert group["whole"][...].tolist() == [[11, 11], [-(2**31)] * 2, [-(2**31)] * 2]
    assert group["small"][...].tolist() == [[11, 11], [255, 255], [255, 255]]
    assert group["a_b"][...].tolist() == [[True, True], [False, False], [False, False]]
    assert group["ragged/whole/1"][...].tolist() == [11, 11, 11]
    assert read("rows/status") == ["done", "done", "skipped"]
    assert read("rows/ragged").tolist() == [False, True, False]
    assert read("rows/input") == [["xa.npy", "za.npy"], ["xb.npy", "zb.npy"], ["xc.npy", "zc.npy"]]
    assert dict(group["rows/input"].attrs) == {"inputs": ["x", "z"]}


def test_strings_have_any_length(tmp_path, scheduler, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = chain("Relu", shape=(1,)).replace('element_type="f32"', 'element_type="string"')
    text = text.replace('"Relu"', '"Squeeze"').replace('precision="FP32"', 'precision="STRING"')
    write(tmp_path, text)
    np.save("texts.npy", np.array([["a"], ["much longer"], ["ä\n"]]))
    map_inputs("model.xml", ["texts.npy"], "out.zarr", scheduler=scheduler)
    assert read("layer1") == ["a", "much longer", "ä\n"]


def test_map_batches_gives_the_same_rows(model, scheduler, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(2).standard_normal((20, 8)).astype(np.float32)
    np.save("x.npy", x)
    map_inputs("model.xml", ["x.npy"], "out.zarr", MapOptions(batch=4), scheduler=scheduler)
    result = irrun.map_batches("model.xml", x, options=MapOptions(batch=4))
    assert result.chunks[0] == (4,) * 5
    np.testing.assert_array_equal(result.compute(scheduler="synchronous"), read("y"))


def test_map_batches_skips_samples(tmp_path):
    (tmp_path / "ops.py").write_text(
        "import irrun\n"
        "@irrun.op('Picky', opset='extension')\n"
        "def picky(data):\n"
        "    if (data < 0).any():\n"
        "        raise irrun.InputError('negative')\n"
        "    return data\n"
    )
    path = write(tmp_path, chain("Picky", shape=("?", 2), versions=["extension"]))
    x = np.array([[1, 1], [-1, 1], [2, 2]], np.float32)
    options = MapOptions(on_error="skip", imports=(str(tmp_path / "ops.py"),))
    result = irrun.map_batches(path, x, batch=3, options=options).compute(scheduler="synchronous")
    assert result[[0, 2]].tolist() == [[1, 1], [2, 2]]
    assert np.isnan(result[1]).all()


def test_models_for_one_sample_run_on_batches(tmp_path, scheduler, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(2).standard_normal((7, 8)).astype(np.float32)
    np.save("x.npy", x)
    expected = irrun.compile_model(write_model(tmp_path))(x)[0]
    write_model(tmp_path, batch="1")
    sizes = []
    infer = irrun.InferRequest.infer

    def record(request, values, **keywords):
        sizes.append(len(values[0]))
        return infer(request, values, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(irrun.InferRequest, "infer", record)
        map_inputs("model.xml", ["x.npy"], "out.zarr", MapOptions(batch=5), scheduler=scheduler)
    np.testing.assert_allclose(read("y"), expected, rtol=1e-6)
    assert sizes[-2:] == [5, 2]


def test_shapes_and_limits_are_passed_to_workers(tmp_path, scheduler, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((3, 8), np.float32))
    write_model(tmp_path, batch="4")
    map_inputs("model.xml", ["x.npy"], "out.zarr", MapOptions(shapes=("x=?,8",)), scheduler=scheduler)
    assert read("y").shape == (3, 4)
    for options, message in (
        (MapOptions(shapes=("y=?,8",)), "unknown input 'y'"),
        (MapOptions(shapes=("x=?,8",), timeout=0), "exceeded its time limit of 0 s"),
    ):
        with pytest.raises(irrun.IrrunError, match=message):
            map_inputs("model.xml", ["x.npy"], "other.zarr", options, scheduler=scheduler)
    for arguments in ({"timeout": -1}, {"weights_memory": "much"}, {"memory": "much"}):
        with pytest.raises(irrun.InputError):
            MapOptions(**arguments)
