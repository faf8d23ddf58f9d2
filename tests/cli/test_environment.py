"""`irrun info` without a model."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun


def test_versions_and_processor_are_shown(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("IRRUN_JIT", "auto")
    code, out, _ = call(capsys, "info")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith(f"irrun {irrun.__version__}, Python {platform.python_version()}, NumPy {np.__version__}")
    assert platform.machine() in lines[1]
    assert lines[2].startswith("compiled kernels: --jit auto; llvmlite ") == bool(importlib.util.find_spec("llvmlite"))


def test_missing_compiler_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("irrun.runtime.compilation.is_installed", lambda: False)
    monkeypatch.setenv("IRRUN_JIT", "auto")
    _, out, _ = call(capsys, "info")
    assert "compiled kernels: --jit auto; not installed: pip install 'irrun[jit]'\n" in out
    assert json.loads(call(capsys, "info", "--json")[1])["jit"] == {"installed": False, "default": "auto"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the level is one of x86-64")
def test_level_limits_the_features(capsys, monkeypatch):
    monkeypatch.setattr("irrun.runtime.compilation.is_installed", lambda: False)
    monkeypatch.setenv("IRRUN_CPU", "x86-64-v2")
    facts = json.loads(call(capsys, "info", "--json")[1])
    assert facts["processor"] == {"level": "x86-64-v2", "features": []}


def test_compiler_is_described(capsys, monkeypatch, tmp_path):
    pytest.importorskip("llvmlite")
    from irrun.fast.jit.compiler import get_lanes, get_target

    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("IRRUN_JIT", "1")
    facts = json.loads(call(capsys, "info", "--json")[1])
    expected = {"installed": True, "default": "on", "target": get_target(), "f32_per_vector": get_lanes()}
    assert facts["jit"].items() >= expected.items()
    assert facts["cache"] == {"folder": str(tmp_path / "jit"), "bytes": 0}


@pytest.mark.parametrize("arguments", [("--plan",), ("--layers", "conv*"), ("--batch", "2"), ("--precision", "f64")])
def test_options_of_models_require_a_model(arguments, capsys):
    code, out, err = call(capsys, "info", *arguments)
    assert (code, out) == (2, "")
    assert ("expected a model" in err) != ("require --plan" in err)


def test_unknown_processors_are_errors(capsys, monkeypatch):
    monkeypatch.setenv("IRRUN_CPU", "pentium")
    code, _, err = call(capsys, "info")
    assert code == 2
    assert err.startswith("irrun: IRRUN_CPU is 'pentium', expected ")


@pytest.mark.skipif(os.name != "posix", reason="closes file descriptors before the process starts")
@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)])
@pytest.mark.parametrize("arguments", [("ops", "Gather"), ("debug", "m.xml", "--input", "random", "--break", "*")])
def test_standard_streams_may_be_closed(closed, arguments, tmp_path):
    write(tmp_path, chain("Relu"), name="m")

    def close():
        for number in closed:
            os.close(number)

    environment = {**os.environ, "PYTHONPATH": str(Path(irrun.__file__).parents[1])}
    command = [sys.executable, "-m", "irrun", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, preexec_fn=close, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
