"""The texts that commands print: whole outputs of small models, defaults, and progress on terminals."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun.cli import COMMANDS
from irrun.cli.trace import sort_values
from irrun.inspection.machine import Machine


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with models that differ in the first layer, and an input."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="1"', ""]), name="good")
    write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="2"', ""]), name="bad")
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3) - 3)
    return tmp_path


#: Command -> option -> default. What users rely on when they omit an option.
DEFAULTS: dict[str, dict[str, object]] = {
    "map": {"batch": 1, "on_error": "stop", "precision": "f32", "layout": "auto", "channels": "BGR"},
    "run": {"precision": "f32", "seed": 0, "layout": "auto", "channels": "BGR"},
    "trace": {"sort": "order", "precision": "f32", "seed": 0},
    "compare": {"sort": "order", "seed": 0},
    "profile": {"runs": 10, "by": "layer", "precision": "f32"},
    "bench": {"requests": 1, "precision": "f32"},
    "report": {"kind": "html"},
    "debug": {"precision": "f32"},
    "check": {"precision": "f32"},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_options_have_the_documented_defaults(name):
    command = importlib.import_module(f"irrun.cli.{name}").command
    options = {p.name: p for p in command.params if isinstance(p, click.Option)}
    assert {option: options[option].default for option in DEFAULTS[name]} == DEFAULTS[name]


def test_comparison_is_printed_as_two_lines_and_two_tables(folder, capsys):
    assert call(capsys, "compare", "good.xml", "bad.xml", "--input", "x.npy") == (
        1,
        "layer1 (Elu) is the first layer that adds an error (max abs 0.9502, SQNR 8.1 dB): "
        "alpha is 1, but 2 in the reference\n"
        "good.xml against bad.xml (f32): 2 of 2 layers matched, all of them by name\n"
        "\n"
        "layer   type  verdict  own dB  own max abs  accumulated dB  accumulated max abs\n"
        "layer1  Elu   adds     8.1     0.9502       8.1             0.9502\n"
        "1 layer inherits an error; --all prints them\n"
        "\n"
        "output  dB    max abs  top 5\n"
        "layer2  14.4  0.1488   100%\n",
        "",
    )
    assert call(capsys, "compare", "good.xml", "good.xml", "--input", "x.npy")[1] == (
        "no layer adds an error\n"
        "good.xml against good.xml (f32): 2 of 2 layers matched, all of them by name\n"
        "\n"
        "output  dB     max abs  top 5\n"
        "layer2  equal  0        100%\n"
    )


def list_layers(out):
    """Return the first words of the rows of the table of layers."""
    return [line.split()[0] for line in out.split("\n\n")[1].splitlines()[1:]]


def test_rows_of_a_comparison_are_sorted_selected_and_limited(tmp_path, capsys):
    types = ["Elu", "Abs"] + ["Negative"] * 26
    for name, alpha in (("a", "1"), ("b", "2")):
        write(tmp_path, chain(*types, data=[f'alpha="{alpha}"', *[""] * 27]), name=name)
    arguments = ("compare", tmp_path / "a.xml", tmp_path / "b.xml", "--input", "[[-1,-2,-3],[1,2,3]]")
    names = [f"layer{i}" for i in range(1, 29)]
    _, out, _ = call(capsys, *arguments)
    assert list_layers(out) == ["layer1", "27"]
    assert "27 layers inherit errors; --all prints them" in out
    _, out, _ = call(capsys, *arguments, "--all")
    assert list_layers(out) == names
    assert "more layers" not in out
    _, out, _ = call(capsys, *arguments, "--layers", "layer1", "--layers", "layer2")
    assert list_layers(out) == names[:2]
    _, out, _ = call(capsys, *arguments, "--layers", "layer*")
    assert list_layers(out) == names
    _, out, _ = call(capsys, *arguments, "--all", "--sort", "own")
    assert list_layers(out) == names  # the first has the largest error
    order = json.loads(call(capsys, *arguments, "--json")[1])
    assert (order["first"], order["agrees"]) == ("layer1", False)


@pytest.mark.parametrize(
    ("limit", "rest"), [(1, "2 more layers; --all prints them"), (2, "1 more layer; --all prints it"), (3, "")]
)
def test_causes_of_a_comparison_are_limited(limit, rest, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("irrun.cli.compare.MAX_ROWS", limit)
    for name, alpha in (("a", 1), ("b", 2)):
        write(tmp_path, chain("Elu", "Elu", "Elu", data=[f'alpha="{alpha}"'] * 3), name=name)
    arguments = ("compare", tmp_path / "a.xml", tmp_path / "b.xml", "--input", "[[-1,-2,-3],[1,2,3]]")
    _, out, _ = call(capsys, *arguments)
    assert len(list_layers(out)) == limit + bool(rest)
    assert rest in out
    assert ("more layer" in out) == bool(rest)
    for more in (["--all"], ["--layers", "layer*"]):
        _, out, _ = call(capsys, *arguments, *more)
        assert len(list_layers(out)) == 3
        assert "more layer" not in out


def test_layers_to_keep_in_floating_point_are_printed(tmp_path, capsys):
    pytest.importorskip("openvino")
    from inspection import networks
    from inspection.test_cure import quantize

    exact = networks.save(networks.make_resnet((1,)), tmp_path, "exact")
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)
    np.save(tmp_path / "x.npy", x)
    irrun.save_model(quantize(irrun.read_model(exact), x), tmp_path / "int8.xml")
    arguments = ("compare", exact, tmp_path / "int8.xml", "--input", tmp_path / "x.npy", "--cure", 2)
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (1, "")
    lines = out.split("\n\n")[-1].splitlines()
    assert re.fullmatch(r"layers to keep in floating point; the outputs now have an SQNR of \d+\.\d dB:", lines[0])
    steps = [re.fullmatch(r"  (\S+) \(Convolution\): (\d+\.\d) dB", line) for line in lines[1:3]]
    names = [step[1] for step in steps if step]
    assert lines[3] == f"nncf.IgnoredScope(names={names!r})"
    code, out, _ = call(capsys, *arguments, "--json")
    report = json.loads(out)
    assert code == 1
    assert [step["layer"] for step in report["cure"]["layers"]] == names
    assert report["agrees"] is False
    np.save(tmp_path / "y.npy", -x)
    target = float(steps[0][2]) - 0.1
    arguments = (*arguments[:-2], "--input", tmp_path / "y.npy", "--until", f"{target}dB", "-o", tmp_path / "cured.xml")
    code, out, err = call(capsys, *arguments, "--ignored-scope", tmp_path / "scope.json")
    assert (code, err) == (1, "")
    assert re.search(r"with 1 other input: \d+\.\d dB, then \d+\.\d dB", out)
    assert re.search(r"in OpenVINO: \d+\.\d dB, then \d+\.\d dB", out)
    assert json.loads((tmp_path / "scope.json").read_text()) == {"names": names[:1]}
    cured = irrun.compile_model(tmp_path / "cured.xml")(x)[0]
    expected = irrun.compile_model(exact)(x)[0]
    assert 10 * np.log10(np.sum(expected**2) / np.sum((cured - expected) ** 2)) == pytest.approx(target + 0.1, abs=0.06)


def test_accuracy_over_a_folder_is_the_target(tmp_path, capsys):
    from inspection import test_cure

    exact, quantized = test_cure.make_product(0, shape=(1, 8)), test_cure.make_product(255, shape=(1, 8))
    irrun.save_model(exact, tmp_path / "exact.xml")
    irrun.save_model(quantized, tmp_path / "int8.xml")
    (tmp_path / "inputs").mkdir()
    lines = ["file,label"]
    rng = np.random.default_rng(0)
    scores = []
    for i in range(16):
        x = rng.standard_normal((1, 8), np.float32)
        np.save(tmp_path / f"inputs/{i:02}.npy", x)
        label = int(irrun.compile_model(exact)(x)[0].argmax())
        lines.insert(1, f"{i:02}.npy,{label}")
        scores.append(int(irrun.compile_model(quantized)(x)[0].argmax()) == label)
    accuracy = np.mean(scores[:12])  # a quarter of the inputs confirms the result
    assert accuracy < 1
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    arguments = ("compare", tmp_path / "exact.xml", tmp_path / "int8.xml", "--input", tmp_path / "inputs")
    code, out, err = call(capsys, *arguments, "--labels", tmp_path / "labels.csv", "--until", "1")
    assert (code, err) == (1, "")
    lines = out.split("\n\n")[-1].splitlines()
    assert lines[0] == f"layers to keep in floating point; the outputs now have an accuracy of {accuracy:.4f}:"
    assert re.fullmatch(r"  m \(MatMul\): 1\.0000", lines[1])
    assert "the floating-point model reaches 1.0000" in lines
    code, _, err = call(capsys, *arguments, "--labels", tmp_path / "labels.csv")
    assert (code, "--labels requires --cure or --until" in err) == (2, True)
    (tmp_path / "labels.csv").write_text("00.npy,1")
    code, _, err = call(capsys, *arguments, "--labels", tmp_path / "labels.csv", "--cure", 1)
    assert (code, "labels.csv has no label of" in err) == (2, True)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("order", ["x", "layer1", "layer2", "layer3"]),
        ("name", ["layer1", "layer2", "layer3", "x"]),
        ("max", ["layer2", "layer3", "x", "layer1"]),
        ("size", ["x", "layer1", "layer2", "layer3"]),
    ],
)
def test_values_of_a_trace_are_sorted(sort, order, tmp_path, capsys):
    path = write(tmp_path, chain("Relu", "Exp", "Negative", shape=(3,)))
    code, out, _ = call(capsys, "trace", path, "--input", "[-1.5, 0, 0.75]", "--sort", sort)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["layer", "operation", "type", "shape", "time", "range", "mean", "remarks"]
    assert [line.split()[0] for line in lines[1:]] == order


def test_values_without_statistics_come_last_in_the_order_of_the_largest():
    values = [
        SimpleNamespace(key="texts", statistics={}),
        SimpleNamespace(key="small", statistics={"min": -0.5, "max": 0.25}),
        SimpleNamespace(key="large", statistics={"min": -2.0, "max": 1.0}),
    ]
    assert [value.key for value in sort_values(values, "max")] == ["large", "small", "texts"]  # type: ignore[arg-type]


def test_trace_states_values_that_are_not_finite(tmp_path, capsys):
    path = write(tmp_path, chain("Log", "Relu", shape=(4,)))
    _, out, _ = call(capsys, "trace", path, "--input", "[-1, 0, 1, 0]")
    row = next(line for line in out.splitlines() if line.startswith("layer1 "))
    assert re.search(r"0 to 0\s+0\s+1 NaN, 2 inf$", row)


def test_run_states_the_written_files_the_trace_and_the_declarations(folder, capsys):
    arguments = ("run", "good.xml", "--input", "x.npy")
    assert call(capsys, *arguments, "--check", "-o", "y.npz")[1] == "wrote y.npz\n2 layers checked, all as declared\n"
    report = json.loads(call(capsys, *arguments, "--json")[1])
    assert list(report) == ["outputs"]
    report = json.loads(call(capsys, *arguments, "--json", "--check", "--trace", "-o", "y.npz")[1])
    assert report["written"] == ["y.npz"]
    assert report["mismatches"] == []
    assert [entry["name"] for entry in report["trace"]] == ["layer1", "layer2"]
    text = (folder / "good.xml").read_text().replace("<dim>3</dim></port></output>", "<dim>4</dim></port></output>")
    (folder / "wrong.xml").write_text(text)
    code, out, _ = call(capsys, "run", "wrong.xml", "--input", "[[1,2,3],[4,5,6]]", "--check")
    assert code == 1
    assert out.splitlines()[-1].startswith("2 layers checked, 2 wrong declarations")


def test_weights_memory_and_jit_are_passed_to_the_model(folder, capsys, monkeypatch):
    options = []
    compiled_model = irrun.CompiledModel

    def record(*arguments, **keywords):
        options.append(keywords["weights_memory"])
        return compiled_model(*arguments, **keywords)

    monkeypatch.setattr("irrun.runtime.compiled_model.CompiledModel", record)
    dump = ("--dump", "new/values")
    for arguments in (
        (),
        ("--weights-memory", "0"),
        ("--weights-memory", "2K"),
        dump,
        (*dump, "--weights-memory", "1K"),
    ):
        assert call(capsys, "run", "good.xml", "--input", "x.npy", *arguments)[0] == 0
    assert options == [None, 0, 2048, 0, 1024]
    code, _, err = call(capsys, "run", "good.xml", "--input", "x.npy", "--weights-memory", "many")
    assert code == 2
    assert "expected a size such as 800M or 2G, found 'many'" in err


@pytest.mark.parametrize("options", [("--json",), ("--csv",), ()])
def test_profile_names_the_files_that_it_writes(options, folder, capsys, monkeypatch):
    module = importlib.import_module("irrun.inspection.profiling")
    monkeypatch.setattr(module, "measure_machine", lambda threads: Machine(threads, 1e11, 1e10))
    arguments = ("profile", "good.xml", "--input", "x.npy", "--runs", "1", *options)
    _, out, _ = call(capsys, *arguments, "-o", "p.out", "--chrome", "c.json")
    assert out == "wrote p.out\nwrote c.json\n"
    text = (folder / "p.out").read_text()
    assert text.startswith("key,") if options == ("--csv",) else "layers" in json.loads(text)
    _, out, _ = call(capsys, *arguments, "--chrome", "c.json")
    assert ("wrote c.json" in out) is (not options)  # JSON and CSV on stdout stay readable for programs


def test_operation_catalog_is_wrapped_at_names(capsys):
    _, out, _ = call(capsys, "ops")
    assert all(len(line) <= 100 and not line.endswith("-") for line in out.splitlines())
    assert re.search(r"\n\n\d+ versioned operations of the numbered opsets, \d+ others\n$", out)


@pytest.mark.parametrize("name", ["run", "trace", "reduce", "profile", "compare"])
def test_nothing_is_written_to_stderr_that_is_no_terminal(name, folder, capsys, monkeypatch):
    module = importlib.import_module("irrun.inspection.profiling")
    monkeypatch.setattr(module, "measure_machine", lambda threads: Machine(threads, 1e11, 1e10))
    monkeypatch.setattr("irrun.cli.progress.DELAY", -1)
    more = {"reduce": ("--fails", "max>0.1"), "profile": ("--runs", "1"), "compare": ("--sort", "own")}
    reference = ("bad.xml",) if name == "compare" else ()
    assert call(capsys, name, "good.xml", *reference, "--input", "x.npy", *more.get(name, ()))[2] == ""


def test_reduction_is_printed(folder, capsys):
    code, out, _ = call(capsys, "reduce", "good.xml", "--input", "x.npy", "--fails", "min>0.2", "-o", "part")
    lines = out.splitlines()
    assert code == 0
    assert re.fullmatch(r"good\.xml: \d layers reduced to 1 layer in \d+ trials", lines[0])
    assert lines[1].strip() == "layer2"
    assert [line.partition(" ")[0] for line in lines[3:]] == ["wrote"] * (len(lines) - 3)
    assert (folder / "part/model.xml").is_file()
    code, out, _ = call(capsys, "reduce", "good.xml", "--input", "x.npy", "--fails", "max>7")
    assert (code, out) == (1, "good.xml does not fail\n")
    code, out, _ = call(capsys, "reduce", "good.xml", "--input", "x.npy", "--fails", "max>7", "--json")
    assert (code, json.loads(out)) == (1, {"fails": False})
    report = json.loads(call(capsys, "reduce", "good.xml", "-i", "x.npy", "--fails", "min>0.2", "--json")[1])
    assert (report["fails"], report["written"]) == (True, [])
    (folder / "file").write_text("")
    code, _, err = call(capsys, "reduce", "good.xml", "-i", "x.npy", "--fails", "min>0.2", "-o", "file")
    assert code == 2
    assert "Directory 'file' is a file" in err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "irrun: interrupted\n"),
        (MemoryError(), 2, "irrun: out of memory\n"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 2, "irrun: cannot write the output: No space left on device\n"),
    ],
)
def test_errors_of_the_system_are_one_line(error, code, text, folder, capsys, monkeypatch):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("irrun.cli._discard_stdout", lambda: None)
    monkeypatch.setattr(irrun, "read_model", fail)
    assert call(capsys, "run", "good.xml", "--input", "x.npy") == (code, "", text)


def test_help_lists_commands_and_examples(capsys):
    _, out, _ = call(capsys, "--help")
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name}\s+{re.escape(summary.split()[0])}", out, re.M)
    assert "Examples:" in out
    code, _, err = call(capsys, "compair")
    assert code == 2
    assert "did you mean compare?" in err
    code, _, err = call(capsys, "run", "good.xml", "x.npy")
    assert code == 2
    assert "pass inputs with --input" in err


def test_replay_writes_outputs_and_requires_a_model(folder, capsys):
    assert call(capsys, "trace", "good.xml", "--input", "x.npy", "-o", "run.trace")[0] == 0
    code, out, _ = call(capsys, "replay", "run.trace", "layer2", "-o", "y.npy")
    assert code == 0
    assert "wrote y.npy\n" in out
    np.testing.assert_array_equal(
        np.load("y.npy"), irrun.compile_model("good.xml", optimize=False)(np.load("x.npy"))[0]
    )


def test_debugger_without_breakpoints_prints_or_saves_the_outputs(folder, capsys):
    arguments = ("debug", "good.xml", "--input", "x.npy", "--break-if", "nan")
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (0, "the run ended without reaching a breakpoint\n")
    assert out.splitlines()[0].split() == ["output", "type", "shape", "range", "first", "values"]
    assert call(capsys, *arguments, "-o", "y.npy")[1] == "wrote y.npy\n"


def test_texts_of_several_prompts_are_separated_by_lines(capsys):
    pytest.importorskip("regex")
    folder = Path(__file__).parents[2] / "examples" / "text_generation"
    code, out, _ = call(capsys, "generate", folder, "Once there was", "A cat", "--max-new-tokens", "4")
    assert code == 0
    first, middle, second, *_ = [*out.split("\n"), ""]
    assert first
    assert not middle
    assert second


@pytest.mark.parametrize(
    ("command", "option"),
    [("compare", name) for name in ("--output", "--ignored-scope", "--labels", "--junit")]
    + [("profile", name) for name in ("--chrome", "--output")],
)
def test_folders_are_no_files(command, option, tmp_path, capsys):
    code, out, err = call(capsys, command, "m.xml", option, tmp_path)
    assert (code, out) == (2, "")
    assert "is a directory" in err
