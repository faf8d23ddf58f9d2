"""`irrun run` on models of strings."""

from __future__ import annotations

import json

import pytest
from command_line import call
from ir_text import layer, net, port, write


@pytest.fixture
def model(tmp_path):
    """Return the path of a model that folds the case of strings."""
    ranges = [port(i, (-1,), kind) for i, kind in enumerate(("I32", "I32", "U8"))]
    outputs = [port(i + 3, (-1,), kind) for i, kind in enumerate(("I32", "I32", "U8"))]
    layers = [
        layer(0, "Parameter", data='shape="?" element_type="string"', outputs=[port(0, (-1,), "STRING", "text")]),
        layer(1, "StringTensorUnpack", "opset15", "", [port(3, (-1,))], ranges),
        layer(2, "CaseFold", "extension", 'encoding="utf-8" lower="true"', ranges, outputs),
        layer(3, "StringTensorPack", "opset15", "", ranges, [port(3, (-1,), "STRING")]),
        layer(4, "Result", inputs=[port(0, (-1,))], name="folded"),
    ]
    edges = [(0, 0, 1, 3), *((1, i, 2, i) for i in range(3)), *((2, i + 3, 3, i) for i in range(3)), (3, 3, 4, 0)]
    return write(tmp_path, net(layers, edges))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Hello World", ["hello world"]),
        ('["A", "ÄB", ""]', ["a", "äb", ""]),
        ('"A"', ["a"]),
        ("[MASK]", ["[mask]"]),
        ("42", ["42"]),
        ("X + 1 = Y", ["x + 1 = y"]),
        ("text=A", ["a"]),
        ("{A}", ["{a}"]),
        ("A\udcff", ["a\ufffd"]),
    ],
)
def test_texts_are_inputs(model, capsys, given, expected):
    code, out, _ = call(capsys, "run", model, "--input", given, "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == expected


def test_lines_of_a_file_are_strings(model, capsys, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes("A\n\nÄ B\r\n".encode())
    code, out, _ = call(capsys, "run", model, "--input", file, "--json")
    assert code == 0
    assert json.loads(out)["outputs"][0]["values"] == ["a", "", "ä b\r"]


def test_strings_are_shown(model, capsys):
    code, out, _ = call(capsys, "run", model, "--input", "Hello")
    assert code == 0
    assert "'hello'" in out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("prompt=A", "unknown input 'prompt'"),
        ("[1]", "does not accept a int among its strings"),
        ("missing.json", "cannot read missing.json"),
    ],
)
def test_mistakes_are_named(model, capsys, given, message):
    code, _, err = call(capsys, "run", model, "--input", given)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("command", ["compare", "profile", "bench"])
def test_models_of_strings_are_compared_with_openvino(model, capsys, command):
    pytest.importorskip("openvino_tokenizers")
    code, out, err = call(capsys, command, model, "--against", "openvino", "--input", "Hello", *RUNS[command])
    assert (code, err) == (0, "")
    assert EXPECTED[command] in out


#: Options that keep measurements short.
RUNS = {"compare": [], "profile": ["--runs", 1], "bench": ["--runs", 1]}
EXPECTED = {"compare": "no layer adds an error", "profile": "CaseFold", "bench": "throughput"}
