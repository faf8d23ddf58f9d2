"""Mistakes on the command line and in Python whose messages say how to correct them."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from command_line import call
from ir_text import chain, layer, net, port, write, write_row_loop

import irrun
from irrun.cli import _group


@pytest.fixture
def model(tmp_path):
    """A model that computes Relu of x, f32[2,3]."""
    return write(tmp_path, chain("Relu"))


@pytest.fixture
def loop(tmp_path):
    """A model with a TensorIterator "it" that computes layer1, the Relu of each row of x."""
    return write_row_loop(tmp_path)


@pytest.mark.parametrize("option", ["--show", "--trace"])
@pytest.mark.parametrize("pattern", ["it[2]/layer1", "it[9]/*", "*[7]/layer1"])
def test_iterations_that_did_not_run_are_reported(loop, tmp_path, option, pattern, capsys):
    output = tmp_path / "out.npz"
    code, out, err = call(capsys, loop, "-i", "ones", option, pattern, "-o", output)
    assert (code, out) == (2, "")
    assert err == f"irrun: no executed layer matches '{pattern}'; --trace lists the iterations that ran\n"
    assert not output.exists()


def test_patterns_of_executed_layers_are_not_reported(loop, capsys):
    code, out, _ = call(capsys, loop, "-i", "ones", "--show", "it[1]/layer1", "--show", "it*", "--trace", "it[0]/*")
    assert code == 0
    for key in ("it[0]/layer1", "it[1]/layer1"):
        assert key in out


def test_patterns_of_constants_are_reported(tmp_path, capsys):
    layers = [
        layer(0, "Const", data='element_type="f32" shape="1" offset="0" size="4"', outputs=[port(0, (1,), "FP32")]),
        layer(1, "Relu", inputs=[port(0, (1,))], outputs=[port(1, (1,), "FP32")]),
        layer(2, "Result", inputs=[port(0, (1,))]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0)]), np.ones(1, np.float32).tobytes())
    code, _, err = call(capsys, path, "--show", "layer1*")
    assert code == 2
    assert "'layer1*'; values that depend only on constants are computed when the model is compiled" in err
    assert call(capsys, path, "--show", "layer1*", "--weights-memory", "0")[0] == 0


@pytest.mark.parametrize(
    ("name", "meant"), [("layer1", "it[0]/layer1"), ("it/layer1", "it[0]/layer1"), ("laier1", "it[0]/layer1")]
)
def test_names_of_values_in_bodies_are_suggested(loop, name, meant, capsys):
    code, _, err = call(capsys, loop, "-i", "ones", "--show", name)
    assert (code, err) == (2, f"irrun: unknown value {name!r}; did you mean {meant}?\n")


def test_names_of_the_graph_itself_are_suggested_first(loop, model, capsys):
    assert "unknown value 'itt'; did you mean it?" in call(capsys, loop, "-i", "ones", "--show", "itt")[2]
    assert "unknown value 'laier1'; did you mean layer1" in call(capsys, model, "-i", "ones", "--show", "laier1")[2]
    assert call(capsys, model, "-i", "ones", "--show", "zzz")[2] == "irrun: unknown value 'zzz'\n"
    loop.write_text(loop.read_text().replace('name="it"', 'name="layer10"'))
    message = "unknown value 'layer1'; did you mean layer10[0]/layer1?"  # which has exactly this name
    assert message in call(capsys, loop, "-i", "ones", "--show", "layer1")[2]
    assert "unknown value 'layer11'; did you mean layer10, " in call(capsys, loop, "-i", "ones", "--show", "layer11")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("random:2,y", "expected a shape such as random:1,3,224,224 for input x: f32[2,3], found random:2,y"),
        ("ones:-1,3", "expected a shape such as ones:1,3,224,224 for input x: f32[2,3], found ones:-1,3"),
        ("1,2,3", "is not a file, JSON, random, zeros or ones, for input x: f32[2,3]; write lists as [1,2,3]"),
        ("{folder}", "is a folder, expected a .npy, .npz, .bin, .json or image file for input x: f32[2,3]"),
        ("/dev/null", "is not a regular file, expected"),
        ("{folder}/junk.npy", "junk.npy cannot be read as npy: it is not an .npy file, for input x"),
        ("{folder}/empty.npy", "empty.npy cannot be read as npy: it is not an .npy file, for input x"),
    ],
)
def test_values_that_are_no_input_are_explained(model, tmp_path, text, message, capsys):
    (tmp_path / "junk.npy").write_bytes(b"hello")
    (tmp_path / "empty.npy").touch()
    code, out, err = call(capsys, model, "-i", text.format(folder=tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "pickle" not in err


@pytest.mark.parametrize("text", ["random:2,3", "ones:2x3", "zeros:[2,3]", "random: 2, 3", "ones"])
def test_shapes_of_generated_inputs_have_several_forms(model, text, capsys):
    assert call(capsys, model, "-i", text)[0] == 0


def test_input_without_its_option_is_explained(model, tmp_path, capsys):
    code, _, err = call(capsys, model, tmp_path / "x.npy")
    assert code == 2
    assert "x.npy); pass inputs with --input (see: irrun run --help)" in err
    assert "inputs are passed" not in call(capsys, "info", model, "more")[2]


def test_similar_command_is_suggested(model, capsys):
    assert "conformance; did you mean profile?" in call(capsys, "prfile", model)[2]
    assert "did you mean" not in call(capsys, "zzz", model)[2]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x.npy", "a str; irrun.load_inputs reads files"),
        ([[1, 2, 3], [4, 5]], "a list with rows of 2 and 3 elements"),
        ([[1, 2, 3], "x"], "a list"),
        ([], "shape [0]: found 1 dimension, expected 2"),
        ([[], []], "shape [2, 0]: dimension 1 is 0, expected 3"),
    ],
)
def test_values_that_are_no_array_are_explained(model, value, reason):
    with pytest.raises(irrun.InputError) as error:
        irrun.run(model, {"x": value})
    assert str(error.value) == f"input x: f32[2,3] does not accept {reason}"


def scale(data, *, factor: float = 1.0):
    return data * factor


def test_misspelled_attribute_of_a_function_is_reported(tmp_path):
    operation = irrun.Operation.from_function(scale, "Scale", opset="extension")
    path = write(tmp_path, chain("Scale", versions=["extension"], data=['facter="2"']))
    with pytest.raises(irrun.ModelError, match="does not have the attribute facter; did you mean factor"):
        irrun.compile_model(path, operations=[operation])


def test_operations_must_be_a_list_of_operations(tmp_path):
    path = write(tmp_path, chain("Scale", versions=["extension"]))
    with pytest.raises(TypeError, match=r"expected operations, found a function; see Operation.from_function"):
        irrun.compile_model(path, operations=[scale])
    operation = irrun.Operation.from_function(scale, "Scale", opset="extension")
    with pytest.raises(TypeError, match="operations is the operation Scale-extension, expected a list"):
        irrun.compile_model(path, operations=operation)


def test_error_of_a_ufunc_in_a_custom_kernel_is_shown(tmp_path):
    """An attribute without an annotation is a string."""
    operation = irrun.Operation.from_function(lambda x, *, factor: x * factor, "Scale", opset="extension")
    path = write(tmp_path, chain("Scale", versions=["extension"], data=['factor="2"']))
    with pytest.raises(irrun.ExecutionError, match=r"UFunc\w+Error"):
        irrun.compile_model(path, operations=[operation])(np.ones((2, 3), np.float32))


CUSTOM = """
import irrun

@irrun.op("Mistake", opset="extension")
def double(data):
    return data * 2
"""


@pytest.fixture
def custom(tmp_path, monkeypatch):
    """A model with a custom operation, and the option that registers it for one test."""
    from irrun.ops._support import registry

    monkeypatch.setattr(registry, "_registry", registry.Registry(registry.list_operations()))
    (tmp_path / "my_ops.py").write_text(CUSTOM)
    return write(tmp_path, chain("Mistake", versions=["extension"]), name="custom"), tmp_path / "my_ops.py"


@pytest.mark.parametrize(
    "arguments",
    [
        ["trace", "{model}", "-i", "ones", "-o", "{folder}/run.trace"],
        ["compare", "{model}", "f64", "-i", "ones"],
        ["check", "{model}", "-i", "ones"],
        ["report", "{model}", "-i", "ones", "-o", "{folder}/page.html"],
        ["profile", "{model}", "-i", "ones", "--runs", "1"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_that_run_models_import_operations(custom, tmp_path, arguments, capsys):
    model, operations = custom
    command = [a.format(model=model, folder=tmp_path) for a in arguments]
    code, _, err = call(capsys, *command)
    assert code == 2
    assert "on the command line with --import FILE.py" in err
    assert call(capsys, *command, "--import", operations)[0] == 0
    if arguments[0] == "trace":
        assert "equals the recorded value" in call(capsys, "replay", tmp_path / "run.trace", "layer1")[1]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "m.xml", "--input", "a"],
        ["run", "m.xml", "-o", "a"],
        ["m.xml", "--input", "a"],
        ["compare", "m.xml", "a"],
        ["replay", "r.trace", "conv1", "-o", "a"],
        ["map", "m.xml", "a"],
    ],
)
def test_files_are_completed(words):
    complete = ShellComplete(_group, {}, "irrun", "_IRRUN_COMPLETE")
    assert [(item.type, item.value) for item in complete.get_completions(words[:-1], words[-1])] == [("file", "a")]


def test_size_of_zero_is_refused_where_it_means_nothing(model, capsys):
    code, _, err = call(capsys, model, "-i", "ones", "--memory", "0")
    assert (code, err.count("\n")) == (2, 1)
    assert "--memory: expected a size such as 800M or 2G" in err
    assert call(capsys, model, "-i", "ones", "--weights-memory", "0")[0] == 0


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ((3, 11, 0), "mapping requires zarr: pip install 'irrun[dask]'"),
        ((3, 10, 9), "mapping requires Zarr 3 and Python 3.11 or later, found Python "),
    ],
)
def test_mapping_without_its_libraries_is_reported(version, message, model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    np.save(tmp_path / "x.npy", np.ones((4, 2, 3), np.float32))
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "zarr" else find_spec(name, *a))
    monkeypatch.setattr("irrun.distributed.cluster.sys", SimpleNamespace(version_info=version))
    code, _, err = call(capsys, "map", model, tmp_path / "x.npy", "-o", tmp_path / "r.zarr")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not (tmp_path / "r.zarr").exists()


def test_cure_without_another_model_is_refused_before_the_run(model, capsys):
    code, out, err = call(capsys, "compare", model, "f64", "-i", "ones", "--cure", "2")
    assert (code, out) == (2, "")
    assert "--against: --cure requires another IR (other.xml), found 'f64'" in err


def test_conditions_that_no_recorded_value_satisfies_are_reported(loop, tmp_path, capsys):
    trace = tmp_path / "run.trace"
    assert call(capsys, "trace", loop, "-i", "ones", "-o", trace)[0] == 0
    assert "it[1]/layer1" in call(capsys, "trace", trace, "--type", "Relu")[1]
    code, out, err = call(capsys, "trace", trace, "--type", "Relux", "--layers", "it*")
    assert (code, out) == (2, "")
    assert err == "irrun: no recorded value matches it*, --type Relux\n"
    code, _, err = call(capsys, "replay", trace, "layer1")
    assert (code, err) == (2, "irrun: unknown layer 'layer1'; did you mean it[0]/layer1?\n")
    code, _, err = call(capsys, "replay", loop, "layer1")
    assert (code, err) == (2, f"irrun: {loop} is not a valid trace: File is not a zip file\n")


def test_profile_that_cannot_be_written_is_reported_with_its_path(model, tmp_path, capsys):
    (tmp_path / "file").touch()
    code, _, err = call(capsys, "profile", model, "-i", "ones", "--runs", "1", "-o", tmp_path / "file" / "p.csv")
    assert (code, err) == (2, f"irrun: cannot write {tmp_path}/file/p.csv: File exists\n")


def test_empty_lists_have_the_type_of_the_input(tmp_path):
    text = chain("Abs", shape=(0,)).replace('element_type="f32"', 'element_type="i32"').replace("FP32", "I32")
    result = irrun.run(write(tmp_path, text), {"x": []})[0]
    assert (result.dtype, result.shape) == (np.int32, (0,))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["embed"], "FOLDER"),
        (["embed", "."], "TEXT..."),
        (["run"], "MODEL"),
        (["upgrade"], "MODEL"),
        (["trace"], "MODEL"),
        (["compare"], "MODEL"),
        (["profile"], "MODEL"),
        (["map"], "MODEL"),
        (["extract"], "MODEL"),
        (["generate"], "FOLDER"),
    ],
)
def test_missing_arguments_are_named(arguments, name, capsys):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err == f"irrun: Missing argument '{name}'. (see: irrun {arguments[0]} --help)\n"
