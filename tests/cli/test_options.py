"""The options that all commands which run a model share: --against, and the settings of runs."""

from __future__ import annotations

import importlib.util
import io
import json

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun.inspection import check, compare, profile, record, reduce, replay
from irrun.inspection.report import make_report

#: Commands that run a model, with the arguments that they require besides the model and the inputs.
RUNNING = {
    "run": (),
    "trace": (),
    "compare": ("--against", "f64"),
    "reduce": ("--against", "f64"),
    "debug": ("--break-if", "nan"),
    "report": (),
    "profile": ("--runs", "1"),
    "bench": ("--runs", "1"),
    "check": (),
}
#: Commands whose values are computed by the plain kernels.
PLAIN = ("trace", "compare", "reduce", "debug", "check", "replay")
X = np.ones((64, 128), np.float32)


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of Relu and Exp, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, chain("Relu", "Exp", shape=(64, 128))).relative_to(tmp_path)


@pytest.fixture
def without_llvm(monkeypatch):
    """Hide llvmlite."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "llvmlite" else find_spec(n, *a))


def list_arguments(command, model):
    """Return the arguments with which a command runs or compiles a model."""
    if command == "info":
        return model, "--plan"
    if command == "replay":
        record(model, X, "run.trace")
        return "run.trace", "layer1"
    return model, "-i", "ones", *RUNNING[command]


@pytest.mark.parametrize("command", RUNNING)
def test_commands_that_run_a_model_have_the_same_options(command, capsys):
    out = call(capsys, command, "--help")[1]
    for option in ("input", "weights", "seed", "layout", "channels", "mean", "scale", "shape", "batch"):
        assert f"--{option} " in out, option
    for option in ("precision", "jit", "threads", "memory", "weights-memory", "timeout", "import"):
        assert f"--{option} " in out, option


@pytest.mark.parametrize("command", [*RUNNING, "replay"])
def test_limits_end_all_commands(command, model, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))  # the debugger opens where a run fails
    arguments = list_arguments(command, model)
    code, _, err = call(capsys, command, *arguments, "--timeout", "0")
    assert code == 2
    assert err == "irrun: model.xml: the run exceeded its time limit of 0 s\n"
    code, _, err = call(capsys, command, *arguments, "--memory", "1K")
    assert code == 2
    assert "(change it with memory= or --memory)" in err
    assert err.count("\n") == 1


def test_a_report_of_a_run_that_exceeds_its_time_limit_is_written(model, capsys):
    assert call(capsys, "report", model, "-i", "ones", "--timeout", "0", "-o", "r.html")[0] == 2
    assert "exceeded its time limit" in (model.parent / "r.html").read_text()


@pytest.mark.parametrize("command", [*RUNNING, "info", "replay"])
def test_unusable_values_of_the_environment_are_one_line(command, model, capsys, monkeypatch, without_llvm):
    arguments = list_arguments(command, model)
    for value, message in (
        ("on", "IRRUN_JIT is on; compiled kernels require llvmlite: pip install 'irrun[jit]'"),
        ("many", "IRRUN_JIT is 'many', expected one of auto, on, off, 1, 0"),
    ):
        monkeypatch.setenv("IRRUN_JIT", value)
        code, _, err = call(capsys, command, *arguments)
        if command in PLAIN:  # which compile no kernels
            assert code == (1 if command == "reduce" else 0)
        else:
            assert (code, err) == (2, f"irrun: {message}\n")
    monkeypatch.delenv("IRRUN_JIT")
    monkeypatch.setenv("IRRUN_NUM_THREADS", "many")
    code, _, err = call(capsys, command, *arguments)
    assert (code, err) == (2, "irrun: IRRUN_NUM_THREADS is 'many', expected a number of threads\n")


@pytest.mark.parametrize("command", PLAIN)
def test_compiled_kernels_are_refused_where_they_do_not_apply(command, model, capsys):
    arguments = list_arguments(command, model)
    code, _, err = call(capsys, command, *arguments, "--jit", "on")
    assert code == 2
    assert "--jit on does not apply: this command uses the plain kernels" in err
    assert call(capsys, command, *arguments, "--jit", "off")[0] == (1 if command == "reduce" else 0)


def test_invalid_values_of_the_api_are_errors_of_irrun(model):
    for options in (
        {"memory": -1},
        {"memory": "much"},
        {"weights_memory": -1},
        {"threads": 0},
        {"threads": "2"},
        {"precision": "f8"},
        {"jit": "on"},
        {"device_name": "GPU"},
        {"config": {"PERFORMANCE_HINT": "LATENCY"}},
    ):
        with pytest.raises(irrun.InputError) as caught:
            irrun.compile_model(model, **options)
        assert isinstance(caught.value, ValueError)
    compiled = irrun.compile_model(model, weights_memory="1M", memory="1M")
    assert compiled.memory == 1 << 20
    for timeout in (-1, float("nan")):
        with pytest.raises(irrun.InputError, match="timeout is"):
            compiled(X, timeout=timeout)


def test_compiled_kernels_without_llvm_are_an_error_of_irrun(model, without_llvm, monkeypatch):
    monkeypatch.setenv("IRRUN_JIT", "on")
    with pytest.raises(irrun.InputError, match="IRRUN_JIT is on; compiled kernels require llvmlite"):
        irrun.compile_model(model)
    with pytest.raises(irrun.InputError, match=r"^compiled kernels require llvmlite"):
        irrun.compile_model(model, jit=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda model, **settings: compare(model, "f64", X, **settings),
        lambda model, **settings: check(model, X, **settings),
        lambda model, **settings: record(model, X, **settings),
        lambda model, **settings: reduce(model, X, fails="nan", **settings),
        lambda model, **settings: profile(model, X, runs=1, **settings),
        lambda model, **settings: replay(record(model, X), model, "layer1", **settings),
    ],
    ids=["compare", "check", "record", "reduce", "profile", "replay"],
)
def test_functions_have_the_settings_of_the_commands(model, function):
    function(model, precision="declared", threads=1, memory="1M", weights_memory=0, timeout=100)
    with pytest.raises(irrun.TimeLimitError):
        function(model, timeout=0)
    with pytest.raises(irrun.InputError, match="memory"):
        function(model, memory=1024)
    with pytest.raises(irrun.InputError, match="threads"):
        function(model, threads=0)


def test_reports_and_traces_have_the_settings_of_the_commands(model):
    assert "exceeded its time limit" in make_report(model, X, timeout=0)
    with pytest.raises(irrun.InputError, match="threads"):
        make_report(model, X, threads=0)
    assert record(model, X, precision="f64").precision == "f64"


def test_old_spellings_of_against_are_accepted(model, capsys):
    for arguments in (("f64",), ("--against", "f64")):
        code, out, _ = call(capsys, "compare", model, *arguments, "-i", "ones", "--json")
        assert code == 0
        assert json.loads(out)["reference"] == "f64"
    for option in ("--against", "--compare"):
        assert call(capsys, "report", model, option, "f64", "-i", "ones", "-o", "r.html")[0] == 0
        assert '"reference":{"name":"f64"' in (model.parent / "r.html").read_text()
    assert "--compare" not in call(capsys, "report", "--help")[1]


def test_two_references_and_none_are_refused(model, capsys):
    code, _, err = call(capsys, "compare", model, "f64", "--against", "openvino", "-i", "ones")
    assert code == 2
    assert "--against and WITH cannot be combined, found 'openvino' and 'f64'" in err
    code, _, err = call(capsys, "report", model, "--compare", "f64", "--against", "openvino", "-i", "ones")
    assert code == 2
    assert "--against and --compare cannot be combined" in err
    code, _, err = call(capsys, "compare", model, "-i", "ones")
    assert code == 2
    assert "Missing option '--against', the reference" in err


def test_settings_of_a_plan_require_a_plan(model, capsys):
    code, _, err = call(capsys, "info", model, "--precision", "f64")
    assert code == 2
    assert "require --plan" in err
    assert call(capsys, "info", model, "--plan", "--precision", "f64", "--threads", "1", "--jit", "off")[0] == 0


def test_a_reduction_keeps_its_precision_in_the_script(model, capsys):
    arguments = ("-i", "ones", "--fails", "max>1", "-o", "part", "--precision", "f64", "--memory", "1M")
    assert call(capsys, "reduce", model, *arguments)[0] == 0
    script = (model.parent / "part" / "repro.py").read_text()
    assert "irrun.compile_model(model, optimize=False, precision='f64', memory=1048576)" in script
