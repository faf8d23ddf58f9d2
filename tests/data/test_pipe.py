"""Inputs from stdin."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun
from irrun.data import pipe

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def model(tmp_path):
    return write(tmp_path, chain("Relu"))


@pytest.fixture
def fill_stdin(monkeypatch):
    """Return a function that replaces stdin by bytes."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def encode(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


@pytest.mark.parametrize("spec", ["-", "x=-"])
@pytest.mark.parametrize(
    "data",
    [
        encode(np.save, X),
        encode(np.savez, x=X),
        encode(np.savez_compressed, X),
        b"\xef\xbb\xbf" + json.dumps(X.tolist()).encode(),
        encode(np.save, np.asfortranarray(X)),
    ],
    ids=["npy", "npz", "unnamed", "json", "fortran"],
)
def test_stdin_is_an_input(model, fill_stdin, spec, data, capsys):
    fill_stdin(data)
    code, out, _ = call(capsys, model, "--input", spec, "--json")
    assert code == 0
    np.testing.assert_array_equal(json.loads(out)["outputs"][0]["values"], X)


def test_stdin_of_a_process_is_an_input(model):
    command = [sys.executable, "-m", "irrun", str(model), "--input", "-"]
    process = subprocess.run(command, input=encode(np.save, X), capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")
    assert b"0 to 5 " in process.stdout


def test_file_of_stdin_sets_several_inputs(tmp_path, fill_stdin):
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "a")], name="a"),
        layer(1, "Parameter", data='shape="2,3" element_type="f32"', outputs=[port(0, (2, 3), "FP32", "b")], name="b"),
        layer(2, "Subtract", inputs=[port(0), port(1)], outputs=[port(2, (2, 3), "FP32")]),
        layer(3, "Result", inputs=[port(0)]),
    ]
    compiled = irrun.compile_model(write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])))
    fill_stdin(encode(np.savez, b=X, a=X * 3))
    np.testing.assert_array_equal(compiled(irrun.load_inputs("-", compiled.inputs))[0], X * 2)


def test_types_that_numpy_does_not_name_are_read(tmp_path, fill_stdin):
    text = chain("Relu").replace('"f32"', '"f8e5m2"').replace("FP32", "F8E5M2")
    compiled = irrun.compile_model(write(tmp_path, text))
    value = X.astype(ml_dtypes.float8_e5m2)
    fill_stdin(encode(np.save, value))
    assert irrun.load_inputs("-", compiled.inputs)["x"].tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "stdin is empty or was read already, expected an .npy, .npz or .json file"),
        (b"\0\1\2", "stdin contains an unknown format, expected an .npy, .npz or .json file"),
        (b"\xff\xd8\xff", "stdin cannot be read as json: 'utf-8' codec can't decode byte"),
        (b"abc", "stdin is not valid JSON"),
        (encode(np.save, X)[:90], "stdin cannot be read as npy"),
        (encode(np.save, np.array([{}], object)), "stdin cannot be read as npy: Object arrays cannot be loaded"),
        (encode(np.savez, a=X, b=X), "stdin contains a, b for input x: f32[2,3]"),
        (encode(np.savez, x=X[:1]), "'x' in stdin has shape [1, 3], for input x: f32[2,3]"),
        (encode(np.savez, a=X)[:90], "stdin"),
        (encode(np.save, X[:1]), "input x: f32[2,3] does not accept shape [1, 3]"),
    ],
)
def test_other_contents_of_stdin_are_reported_in_one_line(model, fill_stdin, data, message, capsys):
    fill_stdin(data)
    code, _, err = call(capsys, model, "--input", "-")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_stdin_is_read_once_and_never_from_a_terminal(model, fill_stdin, monkeypatch, capsys):
    fill_stdin(encode(np.save, X))
    assert "too many inputs" in call(capsys, model, "-i", "-", "-i", "zeros")[2]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert "expected an .npy, .npz or .json file in a pipe to stdin" in call(capsys, model, "-i", "-")[2]
    code, _, err = call(capsys, "debug", model, "-i", "x=-")
    assert code == 2
    assert "--input: expected a file, since the debugger reads commands from stdin" in err


def test_memory_limits_what_is_read(model, fill_stdin, monkeypatch, capsys):
    monkeypatch.setattr(pipe, "get_available_memory", lambda: 4 << 20)
    fill_stdin(encode(np.save, np.zeros(1 << 20, np.float32)))
    code, _, err = call(capsys, model, "--input", "-")
    assert code == 2
    assert "stdin contains more than 2 MiB" in err
