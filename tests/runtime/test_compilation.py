"""When the kernels of a model are compiled in the background."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from ir_text import chain, write

import irrun
import irrun.runtime.request  # before its functions are replaced
from irrun.runtime import compilation
from irrun.runtime.compilation import BackgroundCompilation, resolve_jit


@pytest.fixture
def events(monkeypatch):
    """Pretend that LLVM is installed; return a list of the threads that compile."""
    monkeypatch.setattr(compilation, "is_installed", lambda: True)
    return []


def start(events, result="program"):
    def compile_program():
        events.append(threading.current_thread().name)
        if isinstance(result, Exception):
            raise result
        return result

    return BackgroundCompilation(compile_program)


@pytest.mark.parametrize(
    ("seconds", "count"),
    [([9, 9], 0), ([9, 9, 9], 1), ([0.1] * 4, 0), ([0.125] * 4, 1), ([0.5, 0, 0], 1), ([0] * 50, 0), ([1] * 9, 1)],
)
def test_compilation_starts_after_three_runs_of_half_a_second(seconds, count, events):
    background = start(events)
    for time in seconds:
        background.count_run(time)
    background.wait()
    assert events == ["irrun-jit"] * count
    assert background.program == ("program" if count else None)


def test_waiting_ends_when_the_program_is_complete():
    is_started, may_continue = threading.Event(), threading.Event()

    def compile_program():
        is_started.set()
        may_continue.wait(30)
        return "program"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "is_installed", lambda: True)
        background = BackgroundCompilation(compile_program)
        for _ in range(3):
            background.count_run(1)
        is_started.wait(30)
        assert background.program is None
        threading.Timer(0.05, may_continue.set).start()
        background.finish()
        assert background.program == "program"


def test_compilation_can_be_finished_at_once(events):
    background = start(events)
    for _ in range(2):
        background.finish()
    background.count_run(9)
    assert events == [threading.current_thread().name]
    assert background.program == "program"


def test_failing_compilation_keeps_the_program(events):
    background = start(events, ValueError())
    background.finish()
    background.wait()
    assert len(events) == 1
    assert background.program is None


def test_nothing_is_compiled_without_llvm(events, monkeypatch):
    monkeypatch.setattr(compilation, "is_installed", lambda: False)
    background = start(events)
    for _ in range(5):
        background.count_run(9)
    background.wait()
    background.finish()
    start(events).finish()
    assert events == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "auto"), ("auto", "auto"), ("0", False), ("off", False), (" OFF ", False), ("1", True), ("on", True)],
)
def test_environment_sets_the_default(text, expected, events, monkeypatch):
    monkeypatch.setenv("IRRUN_JIT", text)
    assert resolve_jit(None) == expected
    assert resolve_jit(False) is False
    monkeypatch.delenv("IRRUN_JIT")
    assert resolve_jit(None) == "auto"


def test_finished_programs_replace_those_without_compiled_kernels(tmp_path, monkeypatch):
    """Runs with an observer neither count nor use the compiled kernels."""
    monkeypatch.setattr(compilation, "is_installed", lambda: True)
    compiled = irrun.compile_model(write(tmp_path, chain("Relu", "Exp")), jit="auto")
    program = irrun.compile_model(tmp_path / "model.xml", jit=False)._fast_program
    background = compiled._compilation
    background._compile = lambda: program
    x = np.ones((2, 3), np.float32)
    expected = compiled(x)[0].copy()
    times = []
    monkeypatch.setattr(background, "count_run", times.append)
    compiled(x, observers=[lambda *_: None])
    assert times == []
    compiled(x)
    assert len(times) == 1
    assert 0 < times[0] < 60
    assert compiled._fast_program is not program
    compiled.finish_compilation()
    assert compiled._fast_program is program
    assert compiled._compilation is None
    np.testing.assert_array_equal(compiled(x)[0], expected)
    compiled.finish_compilation()


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
