"""The options --shape and --batch, and the shapes of inputs that are generated."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from cli.test_options import RUNNING
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of Relu and Exp, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, chain("Relu", "Exp", shape=(1, 3, 4, 4))).relative_to(tmp_path)


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A model that adds a and b, of which b has a dynamic batch."""
    monkeypatch.chdir(tmp_path)
    layers = [
        layer(0, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3), "FP32")], name="a"),
        layer(1, "Parameter", data='shape="1,3" element_type="f32"', outputs=[port(0, (1, 3), "FP32")], name="b"),
        layer(2, "Add", inputs=[port(0), port(1)], outputs=[port(2, (1, 3), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    return write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])).relative_to(tmp_path)


def get_input_shapes(capsys, *arguments):
    code, out, err = call(capsys, "info", *arguments, "--json")
    assert code == 0, err
    return {spec["name"]: spec["shape"] for spec in json.loads(out)["inputs"]}


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x=2,3,8,8", "[2,3,8,8]"),
        ("2,3,8,8", "[2,3,8,8]"),
        ("[2,3,8,8]", "[2,3,8,8]"),
        ("x=[2, 3, 8, 8]", "[2,3,8,8]"),
        ("x[2,3,8,8]", "[2,3,8,8]"),
        ("0=2,3,8,8", "[2,3,8,8]"),
        ("2x3x8x8", "[2,3,8,8]"),
        ("x=?,3,-1,8", "[?,3,?,8]"),
        ("x=-1,3,?,8", "[?,3,?,8]"),
        ("1..8,3,4..,..6", "[1..8,3,4..,..6]"),
    ],
)
def test_shapes_have_the_forms_of_benchmark_app(text, shape, model, capsys):
    assert get_input_shapes(capsys, model, "--shape", text) == {"x": shape}


@pytest.mark.parametrize("command", RUNNING)
def test_all_commands_reshape_the_model(command, model, capsys):
    for options in (("--shape", "x=2,3,5,5"), ("--batch", "2")):
        arguments = (model, "-i", "random", *RUNNING[command], *options)
        code, _, err = call(capsys, command, *arguments)
        assert code == (1 if command == "reduce" else 0), err
        code, _, err = call(capsys, command, *arguments[:-2], *options[:1], "x")
        assert code == 2
        assert err.startswith("irrun: Invalid value for")
        assert options[0] in err


def test_outputs_have_the_new_shape(model, capsys):
    code, out, _ = call(capsys, "run", model, "-i", "random", "--shape", "1,3,6,7", "--batch", "5", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["shape"] == [5, 3, 6, 7]


def test_extracted_and_upgraded_models_have_the_new_shape(model, capsys):
    assert call(capsys, "upgrade", model, "-o", "up.xml", "--batch", "4")[0] == 0
    assert call(capsys, "extract", model, "--outputs", "layer1", "-o", "part.xml", "--shape", "x=2,3,?,8")[0] == 0
    assert str(irrun.read_model("up.xml").output(0).partial_shape) == "[4,3,4,4]"
    assert str(irrun.read_model("part.xml").output(0).partial_shape) == "[2,3,?,8]"


def test_references_get_the_shapes_of_the_model(pair, tmp_path, capsys):
    other = tmp_path / "other.xml"
    other.write_text((tmp_path / "model.xml").read_text())
    other.with_suffix(".bin").write_bytes(b"")
    for command in ("compare", "reduce", "report"):
        arguments = (command, pair, "-i", "random", "--against", other, "--batch", "3")
        assert call(capsys, *arguments)[0] == (1 if command == "reduce" else 0)


def test_several_inputs_are_reshaped(pair, capsys):
    shapes = get_input_shapes(capsys, pair, "--shape", "a=2,5", "--shape", "b=?,5")
    assert shapes == {"a": "[2,5]", "b": "[?,5]"}
    assert get_input_shapes(capsys, pair, "--shape", "a[2,5],b[1,5]") == {"a": "[2,5]", "b": "[1,5]"}
    assert get_input_shapes(capsys, pair, "--batch", "7") == {"a": "[7,3]", "b": "[7,3]"}
    assert get_input_shapes(capsys, pair, "--shape", "a=1,5", "--shape", "b=1,5", "--batch", "7") == {
        "a": "[7,5]",
        "b": "[7,5]",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shape", "c=1,3"], "unknown input 'c'; the model has a: f32[1,3]; b: f32[1,3]"),
        (["--shape", "1,3"], "expected NAME=1,3; the model has a: f32[1,3]; b: f32[1,3]"),
        (["--shape", "a=1,3,4"], "'a=1,3,4' has 3 dimensions, expected 2 for input a: f32[1,3]"),
        (["--shape", "a=1,three"], "'a=1,three' for input a: f32[1,3]: invalid dimension 'three'"),
        (["--shape", "a=..."], "expected a shape such as 1,3,224,224"),
        (["--shape", "a=1,-3"], "invalid dimension '-3'"),
        (["--shape", "a=1,3", "--shape", "a=1,4"], "two shapes for input a: f32[1,3]"),
        (["--batch", "0"], "0 is not in the range x>=1"),
    ],
)
def test_unusable_shapes_are_one_line(options, message, pair, capsys):
    code, out, err = call(capsys, "run", pair, "-i", "ones", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert options[0] in err
    assert err.count("\n") == 1


def test_a_model_without_a_batch_is_refused(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", shape=(3,)))
    code, _, err = call(capsys, "run", path, "-i", "ones", "--batch", "2")
    assert code == 2
    assert "no input has a batch: x: f32[3]" in err


def test_chosen_dimensions_are_shown_on_stderr(tmp_path, capsys):
    path = write(tmp_path, chain("Relu", shape=(-1, 3, -1, -1)))
    code, out, err = call(capsys, "run", path, "-i", "random", "--json")
    assert (code, err) == (0, "x: [-1,3,-1,-1] -> [1,3,224,224]\n".replace("-1", "?"))
    assert json.loads(out)["outputs"][0]["shape"] == [1, 3, 224, 224]
    for arguments in (("-i", "random", "--shape", "1,3,8,8"), ("-i", "random:1,3,8,8")):
        code, out, err = call(capsys, "run", path, *arguments, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["outputs"][0]["shape"] == [1, 3, 8, 8]
    assert "x: [?,3,?,?] -> [2,3,224,224]" not in call(capsys, "check", path, "-i", "random", "--batch", "2")[2]
    assert "x: [2,3,?,?] -> [2,3,224,224]\n" in call(capsys, "check", path, "-i", "random", "--batch", "2")[2]


def test_one_text_fills_all_inputs(pair, capsys):
    code, out, _ = call(capsys, "run", pair, "--input", "ones", "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == [[2, 2, 2]]
    code, out, _ = call(capsys, "run", pair, "--input", "ones", "--input", "a=[[1,2,3]]", "--json")
    assert json.loads(out)["outputs"][0]["values"] == [[2, 3, 4]]


def test_runs_on_several_sets_get_other_random_numbers(pair, capsys, monkeypatch):
    seen = []

    def check(compiled, *, input_sets, **keywords):
        seen.extend(input_sets)
        raise irrun.InputError("enough")

    monkeypatch.setattr("irrun.inspection.checks.check", check)
    assert call(capsys, "check", pair, *["-i", "a=random", "-i", "b=random"] * 2)[0] == 2
    assert len({np.asarray(value).tobytes() for arrays in seen for value in arrays.values()}) == 4


@pytest.mark.parametrize("name", ["date_translation", "text_generation"])
def test_examples_run_on_random_inputs(name, capsys):
    path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", name, "model.xml")
    for seed in (0, 1):
        assert call(capsys, "run", path, "-i", "random", "--seed", seed)[0] == 0


def test_the_batch_of_a_recurrent_state_is_its_second_axis(data, capsys):
    model = data / "silero-vad" / "model.xml"
    assert get_input_shapes(capsys, model, "--batch", "3") == {"input": "[3,576]", "state": "[2,3,128]"}
    code, out, _ = call(capsys, "run", model, "-i", "random", "--batch", "3", "--json")
    assert code == 0
    assert [output["shape"] for output in json.loads(out)["outputs"]] == [[3, 1], [2, 3, 128]]


def test_references_that_do_not_have_the_shapes_are_refused(pair, tmp_path, capsys):
    relu = write(tmp_path, chain("Relu", "Exp", shape=(1, 3, 4, 4)), name="relu")
    arguments = ("compare", relu, "--input", "ones", "--shape", "2,3,8,8", "--against")
    assert call(capsys, *arguments, relu)[0] == 0
    code, _, err = call(capsys, *arguments, pair)
    assert code == 2
    assert f"{pair}: the models have 1 and 2 inputs, expected the same inputs" in err
