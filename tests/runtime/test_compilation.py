"""What runs is decided when a model is compiled, and when kernels are compiled for later models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_text import chain, write

import irrun
import irrun.runtime.compiled_model  # before its functions are replaced
from irrun.fast.jit import cache
from irrun.runtime import compilation
from irrun.runtime.compilation import ProgramKernels, resolve_jit
from irrun.runtime.options import RunSettings
from irrun.runtime.prepared_model import PreparedModel

#: Compiled kernels round its functions differently.
TYPES = ("Sigmoid", "Tanh", "Exp")
X = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Start without compiled kernels; return the folder of their cache."""
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "_known", {})
    return tmp_path / "cache" / "jit"


@pytest.fixture
def path(tmp_path):
    """Write a model that pays to be compiled."""
    pytest.importorskip("llvmlite")
    return write(tmp_path, chain(*TYPES, shape=X.shape))


@pytest.fixture
def pays(monkeypatch):
    """Let a single run pay for compilation."""
    monkeypatch.setattr(compilation, "MIN_RUNS", 1)
    monkeypatch.setattr(compilation, "MIN_SECONDS", 0.0)


class Kernels(ProgramKernels):
    """Kernels that are compiled without LLVM; `events` are the threads that compile."""

    def __init__(self, error=None):
        super().__init__("name")
        self.events = []
        self.error = error
        self.is_done = False

    def are_complete(self):
        return self.is_done

    def set_complete(self, program=None):
        self.is_done = True

    def compile(self) -> Any:
        self.events.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("seconds", "count"),
    [([9, 9], 0), ([9, 9, 9], 1), ([0.1] * 4, 0), ([0.125] * 4, 1), ([0.5, 0, 0], 1), ([0] * 50, 0), ([1] * 9, 1)],
)
def test_compilation_starts_after_three_runs_of_half_a_second(seconds, count):
    kernels = Kernels()
    for time in seconds:
        kernels.count_run(time, kernels.compile)
    kernels.wait()
    assert kernels.events == ["irrun-jit"] * count
    assert kernels.is_done == bool(count)


def test_waiting_ends_when_the_kernels_are_complete():
    kernels, may_continue = Kernels(), threading.Event()

    def compile_late():
        may_continue.wait(30)
        return kernels.compile()

    for _ in range(3):
        kernels.count_run(1, compile_late)
    assert not kernels.is_done
    threading.Timer(0.05, may_continue.set).start()
    kernels.wait()
    assert kernels.is_done


def test_failing_compilation_is_not_repeated():
    kernels = Kernels(ValueError())
    for _ in range(9):
        kernels.count_run(1, kernels.compile)
        kernels.wait()
    assert len(kernels.events) == 1
    assert not kernels.is_done


def test_compilation_ends_with_the_process(path, tmp_path):
    """The process does not wait until kernels are complete that it does not use."""
    program = (
        "import sys, numpy as np, irrun\n"
        "from irrun.fast.jit import compiler\n"
        "from irrun.runtime import compilation\n"
        "compilation.MIN_RUNS, compilation.MIN_SECONDS = 1, 0\n"
        "get, compiled, text = compiler._Compiler.get, [], {}\n"
        "def wait(self, *arguments):\n"
        "    compilation.threading.main_thread().join()\n"
        "    return get(self, *arguments)\n"
        "compiler._Compiler.get = wait\n"
        "compiler._Compiler.compile = lambda *_: print('compiled')\n"
        "irrun.compile_model(sys.argv[1], jit='auto')(np.zeros((64, 128), np.float32))\n"
        "print('ran')\n"
    )
    assert run_python(program, path) == "ran\n"


def run_python(program, *arguments):
    """Return what a program prints in another process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(irrun.__file__).parents[1])}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=120).stdout


def compute(path, jit):
    """Return the result of a new model, and whether compiled kernels computed it."""
    compiled = irrun.compile_model(path, jit=jit)
    return compiled(X)[0], compiled._is_compiled


def test_results_keep_their_bits_while_kernels_are_compiled(path, pays):
    numpy, _ = compute(path, False)
    compiled = irrun.compile_model(path, jit="auto")
    request = compiled.create_infer_request()
    optimize = compiled._optimize
    is_started, may_continue = threading.Event(), threading.Event()

    def wait(uses_jit):
        is_started.set()
        may_continue.wait(30)
        return optimize(uses_jit)

    compiled._optimize = wait
    np.testing.assert_array_equal(request.infer(X)[0], numpy)
    assert is_started.wait(30)

    def run(number):
        own = compiled.create_infer_request()
        if number == 3:
            may_continue.set()
        return [own.infer(X)[0] for _ in range(50)]

    with ThreadPoolExecutor(4) as threads:
        results = [value for values in threads.map(run, range(4)) for value in values]
    compiled.finish_compilation()  # waits
    results += [request.infer(X)[0], compiled(X)[0], compiled.create_infer_request().infer(X)[0]]
    assert len(results) == 203
    for value in results:
        np.testing.assert_array_equal(value, numpy)
    assert not compiled._is_compiled
    # Models that are compiled later use the kernels from their first run on.
    expected, _ = compute(path, True)
    assert not np.array_equal(expected, numpy)
    value, is_compiled = compute(path, "auto")
    assert is_compiled
    np.testing.assert_array_equal(value, expected)


def test_models_share_their_runs(path, monkeypatch):
    """A loop that compiles the model for each run gets compiled kernels, too."""
    monkeypatch.setattr(compilation, "MIN_SECONDS", 0.0)
    for _ in range(3):
        assert not compute(path, "auto")[1]
    (kernels,) = compilation._known.values()
    kernels.wait()
    assert compute(path, "auto")[1]


def test_kernels_depend_on_the_model_and_the_options(path, tmp_path):
    compute(path, True)
    others = [{"memory": 1 << 30}, {"weights_memory": 1 << 20}, {"precision": "declared"}]
    assert [irrun.compile_model(path, jit="auto", **options)._is_compiled for options in ({}, *others)] == [
        True,
        False,
        False,
        False,
    ]
    assert not irrun.compile_model(path, jit=False)._is_compiled
    model = irrun.read_model(path)
    model.reshape([128, 64])
    assert not irrun.compile_model(model, jit="auto")._is_compiled
    folder = tmp_path / "other"
    folder.mkdir()
    renamed = write(folder, chain(*TYPES, shape=X.shape).replace('name="layer', 'name="other'))
    assert irrun.compile_model(renamed, jit="auto")._is_compiled


def test_new_shapes_are_computed_by_the_same_kernels(tmp_path, pays):
    """Shapes that were not known when the model was compiled change nothing."""
    pytest.importorskip("llvmlite")
    path = write(tmp_path, chain(*TYPES, shape=("?", 128)))
    compiled = irrun.compile_model(path, jit="auto")
    before = [compiled(X[:n])[0] for n in (64, 32)]
    compiled.finish_compilation()
    after = [compiled(X[:n])[0] for n in (64, 32, 48)]
    expected = [irrun.compile_model(path, jit=False)(X[:n])[0] for n in (64, 32, 48)]
    later = irrun.compile_model(path, jit="auto")
    assert later._is_compiled
    for value, other in zip(before + after, expected[:2] + expected, strict=True):
        np.testing.assert_array_equal(value, other)
    on = irrun.compile_model(path, jit=True)
    for n in (64, 32, 48):
        np.testing.assert_array_equal(later(X[:n])[0], on(X[:n])[0])


OTHER_PROCESS = """
import json, sys, numpy as np, irrun
from irrun.fast.jit import compiler
count, compile_text = [], compiler._Compiler.compile
compiler._Compiler.compile = lambda *arguments: count.append(1) or compile_text(*arguments)
compiled = irrun.compile_model(sys.argv[1], jit=sys.argv[3] == "on" or "auto")
before = len(count)
value = compiled(np.load(sys.argv[2]))[0]
print(json.dumps([compiled._is_compiled, before, len(count) - before, value.tobytes().hex()]))
"""


def test_other_processes_use_the_kernels_from_the_first_run_on(path, tmp_path, folder):
    """Kernels that are damaged or missing are compiled again before the first run."""

    def run(jit):
        is_compiled, *counts, value = json.loads(run_python(OTHER_PROCESS, path, tmp_path / "x.npy", jit))
        return is_compiled, counts, value

    np.save(tmp_path / "x.npy", X)
    numpy, expected = (compute(path, jit)[0].tobytes().hex() for jit in (False, True))
    cache.clear()
    assert run("auto") == (False, [0, 0], numpy)
    is_compiled, (count, other), value = run("on")
    assert (is_compiled, value, other) == (True, expected, 0)
    assert run("auto") == (True, [0, 0], expected)
    files = [file for file in folder.rglob("*") if file.is_file()]
    kernels = [file for file in files if not file.suffix]
    (mark,) = (file for file in files if file.suffix == cache.MARK)
    assert len(kernels) == count > 0
    kernels[0].write_bytes(kernels[0].read_bytes()[:-1])
    for file in kernels[1:]:
        file.unlink()
    assert run("auto") == (True, [count, 0], expected)
    mark.write_bytes(b"damaged")
    assert run("auto") == (False, [0, 0], numpy)


def test_kernels_are_kept_by_the_process_without_a_cache(path, pays, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "file"))
    compiled = irrun.compile_model(path, jit="auto")
    compiled(X)
    compiled.finish_compilation()
    assert not compiled._is_compiled
    assert compute(path, "auto")[1]


def test_models_without_compiled_kernels_leave_no_mark(tmp_path, folder):
    pytest.importorskip("llvmlite")
    assert irrun.compile_model(write(tmp_path, chain("Relu")), jit=True)._is_compiled
    assert not folder.exists()


def test_kernels_that_cannot_be_loaded_leave_the_model_to_numpy(path, monkeypatch):
    numpy, _ = compute(path, False)
    compute(path, True)
    optimize = irrun.runtime.passes.optimize

    def fail(program, resources):
        if resources.use_jit:
            raise RuntimeError("no memory for code")
        return optimize(program, resources)

    monkeypatch.setattr(irrun.runtime.passes, "optimize", fail)
    value, is_compiled = compute(path, "auto")
    assert not is_compiled
    np.testing.assert_array_equal(value, numpy)
    with pytest.raises(RuntimeError, match="no memory for code"):
        irrun.compile_model(path, jit=True)


def test_kernels_can_be_compiled_until_the_first_run(path):
    """Runs with observers compute with the plain kernels, and decide nothing."""
    expected, _ = compute(path, True)
    compilation._known.clear()
    cache.clear()
    compiled = irrun.compile_model(path, jit="auto")
    compiled(X, observers=[lambda *_: None])
    assert "jit auto (not compiled)" in repr(compiled)
    compiled.finish_compilation()
    assert "jit auto (compiled)" in repr(compiled)
    np.testing.assert_array_equal(compiled(X)[0], expected)
    compilation._known.clear()
    cache.clear()
    other = irrun.compile_model(path, jit="auto")
    before = other(X)[0]
    other.finish_compilation()
    assert "jit auto (not compiled)" in repr(other)
    np.testing.assert_array_equal(other(X)[0], before)


def test_runs_with_observers_are_not_counted(path, pays):
    compiled = irrun.compile_model(path, jit="auto")
    compiled(X, observers=[lambda *_: None])
    (kernels,) = compilation._known.values()
    assert kernels._run_count == 0
    compiled(X)
    assert kernels._run_count == 1
    kernels.wait()


def test_nothing_is_compiled_without_llvm(tmp_path, monkeypatch, pays):
    monkeypatch.setattr(compilation, "is_installed", lambda: False)
    compiled = irrun.compile_model(write(tmp_path, chain("Relu")), jit="auto")
    compiled(np.zeros((2, 3), np.float32))
    compiled.finish_compilation()
    assert "llvmlite is not installed" in repr(compiled)
    assert compilation._known == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "auto"), ("auto", "auto"), ("0", False), ("off", False), (" OFF ", False), ("1", True), ("on", True)],
)
def test_environment_sets_the_default(text, expected, monkeypatch):
    monkeypatch.setattr(compilation, "is_installed", lambda: True)
    monkeypatch.setenv("IRRUN_JIT", text)
    assert resolve_jit(None) == expected
    assert resolve_jit(False) is False
    monkeypatch.delenv("IRRUN_JIT")
    assert resolve_jit(None) == "auto"


def test_compiled_kernels_require_llvm(monkeypatch):
    monkeypatch.setattr(compilation, "is_installed", lambda: False)
    assert resolve_jit("auto") == "auto"
    assert resolve_jit(False) is False
    with pytest.raises(ValueError, match=r"^compiled kernels require llvmlite: pip install 'irrun\[jit\]'"):
        resolve_jit(True)
    monkeypatch.setattr(compilation, "is_installed", lambda: True)
    assert resolve_jit(True) is True
    for value in ("on", 2, "f32"):
        with pytest.raises(ValueError, match="expected True, False or 'auto'"):
            resolve_jit(value)
    monkeypatch.setenv("IRRUN_JIT", "yes")
    with pytest.raises(ValueError, match="IRRUN_JIT is 'yes', expected one of auto, on, off, 1, 0"):
        resolve_jit(None)


@pytest.mark.parametrize("jit", [True, False, "auto"])
def test_settings_compile_no_kernels_for_plain_programs(tmp_path, jit):
    model = irrun.read_model(write(tmp_path, chain("Relu")))
    settings = RunSettings(jit=jit)
    assert settings.compile(model).jit == jit
    assert settings.compile(model, optimize=False).jit is False
    assert settings.compile(model, jit=False).jit is False


@pytest.mark.parametrize(
    ("is_compiled", "jit", "text"),
    [
        (False, "auto", "preparing the program"),
        (False, False, "preparing the program"),
        (True, True, "compiling kernels"),
        (True, "auto", "loading kernels"),
    ],
)
def test_preparation_of_a_model_is_described(is_compiled, jit, text):
    model = object.__new__(PreparedModel)
    model._is_compiled, model.jit = is_compiled, jit
    assert model._describe_preparation() == text


@pytest.mark.parametrize("level", [None, "x86-64-v3"])
@pytest.mark.parametrize("is_installed", [False, True])
@pytest.mark.parametrize("jit", [True, False, "auto"])
def test_target_is_checked_if_kernels_may_be_compiled_for_a_level(level, is_installed, jit, monkeypatch):
    pytest.importorskip("llvmlite")
    checked = []
    monkeypatch.setattr("irrun.fast.jit.compiler.check_target", lambda: checked.append(True))
    monkeypatch.setattr(compilation, "get_level", lambda: level)
    monkeypatch.setattr(compilation, "is_installed", lambda: is_installed)
    if jit is True and not is_installed:
        with pytest.raises(ValueError, match="require llvmlite"):
            resolve_jit(jit)
    else:
        assert resolve_jit(jit) == jit
    assert bool(checked) == (level is not None and is_installed and jit is not False)
