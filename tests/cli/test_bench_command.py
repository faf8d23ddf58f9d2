"""`irrun bench`: its tables, JSON and errors."""

from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of Relu and Exp with a dynamic dimension, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, chain("Relu", "Exp", shape=(-1, 128))).relative_to(tmp_path)


ROWS = [
    "read model",
    "compile model",
    "first inference",
    "latency: median",
    "average",
    "minimum",
    "90 % within",
    "99 % within",
    "maximum",
    "throughput",
    "memory growth",
]


def split_table(out):
    """Return the lines before the table, its header and its rows."""
    text, _, table = out.partition("\n\n")
    header, *rows = [re.split(r"  +", line.rstrip()) for line in table.splitlines()]
    return text.splitlines(), header, rows


def test_measurements_are_printed(model, capsys):
    code, out, err = call(capsys, "bench", model, "--runs", "3", "--threads", "2", "--jit", "off", "--batch", "4")
    assert (code, err) == (0, "")
    lines, header, rows = split_table(out)
    assert lines[0] == "model.xml: 2 threads, 1 request, precision f32"
    assert lines[1] == "inputs: x f32[4,128], random values"
    assert re.fullmatch(r"kernels: 0 compiled, \d+ specialized, \d+ plain \(--jit off\)", lines[2])
    assert re.fullmatch(r"measured: 3 runs in \S+ s, after 3 warm-up runs", lines[3])
    assert header == ["", "irrun"]
    assert [row[0] for row in rows] == ROWS
    assert all(re.fullmatch(r"[\d.]+ (ms|runs/s|[MG]iB)|-", row[1]) for row in rows)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_requests_are_printed(model, capsys):
    np.save("a.npy", np.zeros((2, 128), np.float32))
    arguments = ("--runs", "4", "--threads", "4", "--requests", "2", "--jit", "off", "--precision", "f64")
    lines, _, _ = split_table(call(capsys, "bench", model, "-i", "a.npy", *arguments)[1])
    assert lines[0] == "model.xml: 4 threads, 2 requests with 2 threads each, precision f64"
    assert lines[1] == "inputs: x f32[2,128]"
    assert lines[3].endswith("after 3 warm-up runs of each request")


def test_openvino_is_printed_beside(model, capsys):
    pytest.importorskip("openvino")
    code, out, _ = call(capsys, "bench", model, "--runs", "2", "--jit", "off", "--against", "openvino")
    assert code == 0
    lines, header, rows = split_table(out)
    assert re.fullmatch(r"OpenVINO [\d.]+: 2 runs in \S+ s, in f32, alternating with irrun", lines[4])
    assert header == ["", "irrun", "OpenVINO", "irrun/OpenVINO"]
    assert [row[0] for row in rows] == ROWS
    assert all(re.fullmatch(r"[\d.]+", row[3]) for row in rows if "-" not in row)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_compilation_is_told(model, capsys, monkeypatch, tmp_path):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("irrun.runtime.compilation._known", {})
    lines, _, rows = split_table(call(capsys, "bench", model, "--runs", "1", "--jit", "auto", "--batch", "64")[1])
    text = " ".join(" ".join(lines).split())
    assert re.search(
        r"kernels: \d+ compiled, .* \(--jit auto\); they were compiled before the measured runs, in \S+ s",
        text,
    )
    assert [row[0] for row in rows] == [*ROWS[:2], "compile kernels", *ROWS[2:]]


def test_missing_compiler_is_told(model, capsys, monkeypatch):
    monkeypatch.setattr("irrun.runtime.compilation.is_installed", lambda: False)
    _, out, _ = call(capsys, "bench", model, "--runs", "1", "--jit", "auto")
    assert "llvmlite is not installed: pip install 'irrun[jit]'" in " ".join(out.split())


def test_measurements_are_json(model, capsys):
    code, out, _ = call(capsys, "bench", model, "--runs", "2", "--jit", "off", "--json")
    result = json.loads(out)
    assert (code, result["irrun"]["runs"], result["openvino"]) == (0, 2, None)
    assert result["inputs"] == {"x": "f32[1,128]"}


def test_table_fits_narrow_terminals(model, capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stdout = Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("COLUMNS", "60")
    call(capsys, "bench", model, "--runs", "2", "--jit", "off")
    lines = stdout.getvalue().splitlines()
    assert any(line.startswith("latency: median") for line in lines)
    assert all(len(line) <= 60 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runs", "0"), "Invalid value for '--runs': 0 is not in the range"),
        (("--seconds", "0"), "Invalid value for '--seconds': 0.0 is not in the range"),
        (("--requests", "0"), "Invalid value for '--requests': 0 is not in the range"),
        (("--against", "torch"), "Invalid value for '--against'"),
        (("-i", "[1,2]"), "does not accept shape [2]"),
    ],
)
def test_mistakes_are_one_line(model, arguments, message, capsys):
    code, out, err = call(capsys, "bench", model, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
