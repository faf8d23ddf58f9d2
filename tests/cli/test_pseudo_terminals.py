"""All commands on terminals: the same values and programs as in pipes, and no traces of progress lines."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from generated_folders import make_embedding_folder, make_speech_folder, write_sound
from ir_text import chain, write, write_row_loop
from pseudo_terminal import needs_terminal, run_in_pipe, run_in_terminal

from irrun.cli import COMMANDS
from irrun.cli.terminal import measure_width

pytestmark = needs_terminal

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Commands in a folder with models and inputs. Some use what others wrote.
CALLS = {
    "run": ["run", "model.xml", "--input", "x.npy"],
    "run --show": ["run", "loop.xml", "--input", "x.npy", "--show", "it[1]/*"],
    "run --trace": ["run", "model.xml", "--input", "x.npy", "--trace"],
    "run --check": ["run", "model.xml", "--input", "x.npy", "--check"],
    "run --dump": ["run", "model.xml", "--input", "x.npy", "--dump", "values"],
    "run --json": ["run", "model.xml", "--input", "x.npy", "--json"],
    "run, unknown input": ["run", "model.xml", "--input", "y=x.npy"],
    "map": ["map", "model.xml", "x.npy", "-o", "FOLDER/r.zarr", "--workers", "1"],
    "info": ["info", "model.xml"],
    "info --layers": ["info", "model.xml", "--layers"],
    "info --plan": ["info", "loop.xml", "--plan"],
    "upgrade": ["upgrade", "model.xml", "-o", "new.xml"],
    "extract": ["extract", "model.xml", "--outputs", "encoder/stage0/block1/attention/self/1", "-o", "part.xml"],
    "export": ["export", "model.xml", "-o", "model.onnx"],
    "validate": ["validate", "model.xml"],
    "ops": ["ops"],
    "ops NAME": ["ops", "Gather"],
    "trace": ["trace", "model.xml", "--input", "x.npy", "-o", "run.trace"],
    "replay": ["replay", "run.trace", "encoder/stage0/block1/attention/self/1"],
    "compare": ["compare", "model.xml", "other.xml", "--input", "x.npy", "--all"],
    "diff": ["diff", "model.xml", "other.xml"],
    "reduce": ["reduce", "model.xml", "--input", "x.npy", "--against", "other.xml"],
    "debug": ["debug", "model.xml", "--input", "x.npy", "--break-if", "nan"],
    "report": ["report", "model.xml", "--input", "x.npy", "-o", "report.html"],
    "profile": ["profile", "model.xml", "--input", "x.npy", "--runs", "1"],
    "bench": ["bench", "model.xml", "--input", "x.npy", "--runs", "1"],
    "check": ["check", "model.xml", "--input", "x.npy", "--as", "f16"],
    "generate": ["generate", str(EXAMPLES / "text_generation"), "Once there was", "--max-new-tokens", "5"],
    "embed": ["embed", "embedding", "a cat", "a rather long text about a dog"],
    "transcribe": ["transcribe", "speech", "speech.wav", "--return-timestamps"],
    "cache": ["cache"],
    "conformance": ["conformance", "--ops", "Nothing*"],
}
#: What is measured differs between runs, and so does the size of a file with times.
MEASURED = ("profile", "report", "bench", "generate", "transcribe", "cache")
#: Commands that observe each value.
OBSERVING = ("run --show", "run --trace", "run --check", "run --dump", "trace", "debug")
NUMBER = re.compile(r"(?<![\w.…/])[-+]?\d[\d.]*(?:e[-+]\d+)?(?![\w.…/])")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with models and an input."""
    path = tmp_path_factory.mktemp("terminal")
    for name, alpha in (("model", 1), ("other", 2)):
        text = chain("Elu", "Sigmoid", "Tanh", data=[f'alpha="{alpha}"', "", ""])
        for number in (1, 2, 3):
            text = text.replace(f'name="layer{number}"', f'name="encoder/stage0/block1/attention/self/{number}"')
        write(path, text, name=name)
    write_row_loop(path)
    make_embedding_folder(path / "embedding")
    write_sound(make_speech_folder(path / "speech").parent / "speech.wav")
    np.save(path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3) / 3 - 1)
    return path


def list_calls(folder, name):
    """Return the calls whose requirements are installed. Folders must be new."""
    has_dask = all(importlib.util.find_spec(name) for name in ("dask", "distributed", "zarr"))
    calls = {key: arguments for key, arguments in CALLS.items() if has_dask or key != "map"}
    return {key: [text.replace("FOLDER", str(folder / name)) for text in arguments] for key, arguments in calls.items()}


@pytest.fixture(scope="module")
def in_pipe(folder):
    """The results of all commands in a pipe."""
    calls = list_calls(folder, "pipe")
    return dict(zip(calls, run_in_pipe(folder, list(calls.values())), strict=True))


@pytest.fixture(scope="module", params=[300, 80, 40])
def on_terminal(request, folder):
    """The width of a terminal, and the results of all commands there."""
    calls = list_calls(folder, str(request.param))
    if request.param != 300:
        calls.pop("map", None)  # it starts processes, which takes long
    return request.param, dict(zip(calls, run_in_terminal(folder, list(calls.values()), request.param), strict=True))


def read_words(lines):
    """Return the words of an output without rules and times."""
    text = re.sub(r"\d+\.\d+ ms", "TIME", "\n".join(lines))
    return re.sub(r"^[─ ]+$", "", text, flags=re.MULTILINE).split()


def test_all_commands_are_called():
    assert {name.split(",")[0].split()[0] for name in CALLS} >= COMMANDS.keys()


def test_commands_do_the_same_on_terminals(on_terminal, in_pipe):
    _, results = on_terminal
    for name, result in results.items():
        assert (name, result.code, result.observed) == (name, in_pipe[name].code, in_pipe[name].observed)


def test_only_commands_that_must_observe_values_run_the_plain_program(on_terminal):
    """Above all, `irrun run` uses the optimized program."""
    _, results = on_terminal
    assert all(results[name].observed == 0 for name in results if name in ("run", "run --json", "map", "replay"))
    assert all(results[name].observed > 0 for name in OBSERVING)


def test_commands_print_what_they_print_in_pipes(on_terminal, in_pipe):
    """All of it on a wide terminal, and whole numbers on all others."""
    columns, results = on_terminal
    for name, result in results.items():
        if name in MEASURED:
            continue
        words, expected = (read_words(lines) for lines in (result.lines, in_pipe[name].lines))
        if columns == 300:
            assert (name, words) == (name, expected)
        else:
            numbers = {number for word in words for number in NUMBER.findall(word)}
            known = {number for word in expected for number in NUMBER.findall(word)}
            assert (name, numbers - known) == (name, set())


def test_tables_fit_the_terminal(on_terminal):
    columns, results = on_terminal
    for name, result in results.items():
        tables = [line for line in result.lines if re.search(r"\S  +\S|──", line)]
        assert (name, [line for line in tables if measure_width(line) > columns]) == (name, [])


def test_progress_lines_are_drawn_and_leave_nothing(on_terminal):
    """`run_in_terminal` refuses escape sequences and outputs that end in the middle of a line."""
    _, results = on_terminal
    assert any(re.search(r"\r\w+\.xml  .*\d:\d\d\r", result.raw) for result in results.values())
    for name, result in results.items():
        assert (name, [line for line in result.lines if re.search(r"\.xml  |^ {5}.*[a-z] 0:0", line)]) == (name, [])


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminals_that_cannot_erase_get_no_progress_line(variables, folder):
    (result,) = run_in_terminal(folder, [["run", "model.xml", "--input", "x.npy"]], **variables)
    assert "\r" not in result.raw.replace("\r\n", "\n")


#: A model that waits forever in its second layer, and one that fails there.
OPERATIONS = """
import time
from pathlib import Path

import irrun

@irrun.op("Wait", opset="extension")
def wait(x):
    print("a line of", end=" ", flush=True)
    print("the kernel", flush=True)
    time.sleep(1000)
    return x

@irrun.op("Fail", opset="extension")
def fail(x):
    while not Path("seen").exists():
        time.sleep(0.01)
    raise ValueError("it fails")
"""


@pytest.fixture
def custom(tmp_path):
    """A folder with models of custom operations."""
    (tmp_path / "own.py").write_text(OPERATIONS)
    for name in ("Wait", "Fail"):
        write(tmp_path, chain("Relu", name, versions=("opset1", "extension")), name=name.lower())
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--trace"], ["--timeout", "900"]])
def test_interrupted_run_leaves_a_clean_line(options, custom):
    def interrupt(text):
        return "\x03" if "wait.xml" in text.partition("the kernel")[2] else None

    call = ["run", "wait.xml", "--input", "zeros", "--import", "own.py", *options]
    (result,) = run_in_terminal(custom, [call], react=interrupt)
    assert result.code == 130
    assert result.lines[0] == "a line of the kernel"
    assert result.lines[-1] == "irrun: interrupted"
    assert "wait.xml" not in "".join(result.lines)


def test_failed_run_leaves_only_its_message(custom):
    def look(text):
        if "\rfail.xml  ━━━━━━━━━━──────────  1/2 layers  Fail layer2  0:0" in text:
            (custom / "seen").touch()

    call = ["run", "fail.xml", "--input", "zeros", "--import", "own.py"]
    (result,) = run_in_terminal(custom, [call], columns=120, react=look)
    assert (result.code, len(result.lines)) == (2, 1)
    assert result.lines[0].startswith("irrun: fail.xml:")
    assert "it fails" in result.lines[0]


def test_compiled_kernels_compute_the_same_bits_on_terminals(tmp_path):
    """With --jit on, which runs with observers ignore."""
    pytest.importorskip("llvmlite")
    ov = pytest.importorskip("openvino")
    o = pytest.importorskip("openvino.opset13")
    draw = np.random.default_rng(0).normal
    data = o.parameter([1, 3, 16, 16], np.float32)
    x = data
    for inner, outer in ((3, 16), (16, 16), (16, 8)):
        filters = o.constant((draw(size=(outer, inner, 3, 3)) * 0.2).astype(np.float32))
        x = o.swish(o.convolution(x, filters, [1, 1], [1, 1], [1, 1], [1, 1]))
    ov.serialize(ov.Model([o.result(x)], [data], "model"), tmp_path / "model.xml")
    call = ["run", "model.xml", "--input", "random", "--jit", "on", "-o"]
    (in_terminal,) = run_in_terminal(tmp_path, [[*call, "terminal.npy"]])
    (in_pipe,) = run_in_pipe(tmp_path, [[*call, "pipe.npy"]])
    assert in_terminal.code == in_pipe.code == in_terminal.observed == 0
    np.testing.assert_array_equal(np.load(tmp_path / "terminal.npy"), np.load(tmp_path / "pipe.npy"))
