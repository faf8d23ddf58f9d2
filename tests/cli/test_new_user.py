"""What new users of the command line try: complete JSON, dumps, lists of layers, custom operations, completion."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from command_line import call
from ir_text import chain, write, write_row_loop

from irrun import cli

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3

CUSTOM = """
import irrun
from helper import FACTOR

@irrun.op("Scale", opset="extension")
def scale(data, *, factor: float = 1.0):
    return (data * np.float32(factor * FACTOR))
"""


@pytest.fixture
def model(tmp_path):
    """A model that computes Relu and Exp of x, f32[2,3]."""
    np.save(tmp_path / "x.npy", X)
    return write(tmp_path, chain("Relu", "Exp"))


@pytest.fixture
def loop(tmp_path):
    """A model with a TensorIterator that computes Relu of each row of x."""
    return write_row_loop(tmp_path)


def test_json_contains_all_values_of_outputs(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", shape=(50, 60)))
    _, out, _ = call(capsys, path, "--input", "random", "--json", "--trace")
    facts = json.loads(out)
    assert np.shape(facts["outputs"][0]["values"]) == (50, 60)
    (traced,) = facts["trace"]
    assert "values" not in traced
    assert traced["omitted"] == "3000 values; --show NAME prints them, --output and --dump save them"


def test_outputs_are_saved_as_json(model, tmp_path, capsys):
    code, out, _ = call(capsys, model, "-i", tmp_path / "x.npy", "-o", tmp_path / "new" / "boxes.json")
    assert (code, out) == (0, f"wrote {tmp_path / 'new' / 'boxes.json'}\n")
    (output,) = json.loads((tmp_path / "new" / "boxes.json").read_text())["outputs"]
    np.testing.assert_allclose(output["values"], np.exp(np.maximum(X, 0)), rtol=1e-6)


@pytest.mark.parametrize("name", ["out.npz", "out.npy", "out.json", "folder/"])
def test_missing_parent_folders_of_outputs_are_created(model, tmp_path, name, capsys):
    code, _, err = call(capsys, model, "-i", "zeros", "-o", f"{tmp_path}/a/b/{name}")
    assert (code, err) == (0, "")
    assert (tmp_path / "a" / "b" / name).exists()


def test_missing_parent_folders_of_models_are_created(model, tmp_path, capsys):
    assert call(capsys, "upgrade", model, "-o", tmp_path / "c" / "new.xml")[0] == 0
    assert call(capsys, "extract", model, "--outputs", "layer1", "-o", tmp_path / "d" / "part.xml")[0] == 0
    assert (tmp_path / "c" / "new.bin").exists()
    assert (tmp_path / "d" / "part.xml").exists()


def test_dump_contains_all_values_in_bodies_too(loop, tmp_path, capsys):
    np.save(tmp_path / "x.npy", X)
    code, out, _ = call(capsys, loop, "-i", tmp_path / "x.npy", "--dump", tmp_path / "values")
    assert code == 0
    assert f"wrote 4 values to {tmp_path / 'values'}, listed in index.json" in out
    index = json.loads((tmp_path / "values" / "index.json").read_text())
    assert [entry["name"] for entry in index] == ["x", "it[0]/layer1", "it[1]/layer1", "it"]
    for entry, expected in zip(index, [X, X[:1], X[1:], X], strict=True):
        value = np.load(tmp_path / "values" / entry["file"])
        np.testing.assert_array_equal(value, expected if entry["name"] == "x" else np.maximum(expected, 0))


def test_check_reports_what_was_checked(model, tmp_path, capsys):
    code, out, _ = call(capsys, model, "-i", "zeros", "--check")
    assert code == 0
    assert out.endswith("\n2 layers checked, all as declared\n")
    wrong = write(
        tmp_path,
        chain("Relu").replace(
            '<dim>3</dim></port></output></layer>\n<layer id="2"', '<dim>4</dim></port></output></layer>\n<layer id="2"'
        ),
        name="wrong",
    )
    code, out, _ = call(capsys, wrong, "-i", "zeros", "--check")
    assert code == 1
    assert out.endswith("\n1 layer checked, 1 wrong declaration\n")


def test_layers_are_listed_by_pattern(loop, model, capsys):
    code, out, _ = call(capsys, "info", loop, "--layers")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["x", "Parameter-1", "f32[2,3]"],
        ["it", "TensorIterator-1", "f32[2,3]"],
        ["layer2", "Result-1"],
        ["it[0]/x", "Parameter-1", "f32[1,3]"],
        ["it[0]/layer1", "Relu-1", "f32[1,3]"],
        ["it[0]/result", "Result-1"],
    ]
    code, out, _ = call(capsys, "info", model, "--layers", "layer[12]*")
    assert code == 2
    code, out, _ = call(capsys, "info", model, "--layers", "*1", "--json")
    (found,) = json.loads(out)["layer_list"]
    assert (found["name"], found["operation"], found["outputs"][0]["type_and_shape"]) == (
        "layer1",
        "Relu-1",
        "f32[2,3]",
    )


def test_unknown_layers_are_reported(model, capsys):
    code, _, err = call(capsys, "info", model, "--layers", "conv*")
    assert code == 2
    assert "no layer matches 'conv*'; irrun info MODEL --layers lists all" in err
    assert "did you mean layer1" in call(capsys, "info", model, "--layers", "*ayer1x*")[2]


@pytest.fixture
def custom(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 2\n")
    (tmp_path / "my_ops.py").write_text("import numpy as np\n" + CUSTOM)
    return write(tmp_path, chain("Scale", versions=["extension"], data=['factor="3"']))


@pytest.fixture
def forget_operations():
    """Remove the operation that a test registers."""
    from irrun.ops._support import registry

    yield
    registry._registry._extensions.pop(("extension", "Scale"), None)


@pytest.mark.usefixtures("forget_operations")
def test_custom_operations_are_imported(custom, tmp_path, capsys):
    code, _, err = call(capsys, custom, "-i", "ones")
    assert code == 2
    assert 'with the decorator @irrun.op("Scale", opset="extension"), on the command line with --import FILE.py' in err
    options = ("--import", tmp_path / "my_ops.py")
    code, out, err = call(capsys, custom, "-i", "ones", *options, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["outputs"][0]["values"] == [[6, 6, 6], [6, 6, 6]]
    for command in ("info", "validate"):
        assert call(capsys, command, custom, *options)[0] == 0
    assert "factor: float, default 1.0" in call(capsys, "ops", "Scale", *options)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise KeyError('k')\n", "bad.py:2: KeyError: 'k'"),
        ("x = (\n", "SyntaxError"),
        (None, "expected a Python file, found"),
    ],
)
def test_invalid_imports_are_reported_in_one_line(model, tmp_path, text, message, capsys):
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    code, _, err = call(capsys, model, "-i", "zeros", "--import", tmp_path / "bad.py")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def complete(*arguments):
    """Return the completions of the last argument, with their types."""
    completer = ShellComplete(cli._group, {}, "irrun", "_IRRUN_COMPLETE")
    return {(item.value, item.type) for item in completer.get_completions([*map(str, arguments[:-1])], arguments[-1])}


def test_shell_completion(model):
    assert complete("") >= {("run", "plain"), ("info", "plain"), ("", "file")}
    assert complete("mod") == {("mod", "file")}
    assert complete("run", "mod") == {("mod", "file")}
    assert complete("ops", "gather") >= {("Gather", "plain"), ("GatherND", "plain")}
    assert ("--dump", "plain") in complete(model, "--du")
    assert complete("info", model, "--import", "my") == {("my", "file")}


@pytest.mark.parametrize("name", ["Acosh-3", "acosh-3", "Acosh-4", "Acosh"])
def test_operations_are_found_by_the_page_of_the_specification(name, capsys):
    code, out, _ = call(capsys, "ops", name)
    assert code == 0
    assert out.startswith("Acosh-4 (arithmetic)\n")


def test_arrays_of_other_inputs_are_not_passed(model, tmp_path, capsys):
    np.savez(tmp_path / "other.npz", y=X)
    code, _, err = call(capsys, model, "-i", f"x={tmp_path}/other.npz")
    assert code == 2
    assert "other.npz does not contain 'x', found y; select an array with" in err
    assert call(capsys, model, "-i", f"x={tmp_path}/other.npz:y")[0] == 0
    assert call(capsys, model, "-i", f"{tmp_path}/other.npz")[0] == 0
    np.savez(tmp_path / "unnamed.npz", X)
    assert call(capsys, model, "-i", f"x={tmp_path}/unnamed.npz")[0] == 0


@pytest.mark.parametrize("option", [("--mean", "1"), ("--scale", "2"), ("--layout", "HW"), ("--channels", "RGB")])
def test_image_options_require_an_image(model, tmp_path, option, capsys):
    code, _, err = call(capsys, model, "-i", tmp_path / "x.npy", *option)
    assert code == 2
    assert "layout, channels, mean and scale apply to image files only, and no input is an image file" in err
