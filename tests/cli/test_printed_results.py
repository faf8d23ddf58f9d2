"""What commands print for given results: words, numbers, units, limits, and the exit code."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import call
from ir_text import chain, layer, net, port, write

import irrun
from irrun.cli import main
from irrun.cli.bench import _print_bench
from irrun.cli.conformance import _print_survey
from irrun.cli.generate import _describe_speed
from irrun.cli.map import _show_inputs
from irrun.cli.ops import _split_sections
from irrun.cli.tables import format_table
from irrun.conformance.survey import Finding, OperationResult, Survey
from irrun.distributed import MapResult, OutputArray, RowError
from irrun.generation import GeneratedText
from irrun.inspection.bench_results import Bench, EngineBench, KernelState
from irrun.inspection.machine import Machine


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model of Relu and Negative, in the working folder, and an input."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((2, 3), np.float32))
    return write(tmp_path, chain("Relu", "Negative")).relative_to(tmp_path)


# map


def run_map(capsys, monkeypatch, result, *options):
    """Run `irrun map` with a given result."""
    monkeypatch.setattr("irrun.distributed.map_inputs", lambda *arguments, **named: result)
    return call(capsys, "map", "model.xml", "*.npy", "-o", "r", *options)


@pytest.mark.parametrize(
    ("result", "out", "err"),
    [
        (MapResult(Path("r"), 1, computed=1), "wrote r, 1 row\n", []),
        (MapResult(Path("r"), 2), "r already has 2 rows\n", []),
        (
            MapResult(Path("r"), 2, computed=1, damaged=1),
            "1 row of an earlier run was damaged and computed again\nwrote r, 2 rows\n",
            [],
        ),
        (
            MapResult(Path("r"), 3, computed=2, damaged=2),
            "2 rows of an earlier run were damaged and computed again\nwrote r, 3 rows\n",
            [],
        ),
        (
            MapResult(Path("r"), 3, [RowError(2, "a.npy", "failed", "a.npy: has another shape")], computed=3),
            "wrote r, 2 of 3 rows, 1 failed; --retry retries them\n",
            ["failed, row 2: a.npy: has another shape"],
        ),
        (
            MapResult(Path("r"), 3, [RowError(0, "a", "skipped", "x"), RowError(1, "b", "failed", "y")]),
            "r already has 1 of 3 rows, 1 was skipped, 1 failed; --retry retries them\n",
            ["skipped, row 0: a: x", "failed, row 1: b: y"],
        ),
    ],
)
def test_rows_of_a_mapping_are_counted(result, out, err, model, capsys, monkeypatch):
    code, printed, errors = run_map(capsys, monkeypatch, result)
    assert (code, printed, errors.splitlines()) == (1 if err else 0, out, err)


def test_many_errors_of_a_mapping_are_counted(model, capsys, monkeypatch):
    for count in (20, 21):
        errors = [RowError(row, f"{row}.npy", "skipped", "broken") for row in range(count)]
        lines = run_map(capsys, monkeypatch, MapResult(Path("r"), count, errors))[2].splitlines()
        assert lines[:20] == [f"skipped, row {row}: {row}.npy: broken" for row in range(20)]
        assert lines[20:] == ["... and 1 more; rows/error lists all of them"][: count - 20]


def test_mapping_is_described_as_json(model, capsys, monkeypatch):
    arrays = {"y": OutputArray((2,), "<f4"), "n": OutputArray((), "<i8")}
    errors = [RowError(2, "a.npy", "failed", "bad"), RowError(3, "b.npy", "skipped", "worse")]
    result = MapResult(Path("r"), 5, errors, arrays, computed=4, damaged=1, jit=True)
    code, out, err = run_map(capsys, monkeypatch, result, "--json")
    assert (code, err, out.count("\n")) == (1, "", 1)
    assert json.loads(out) == {
        "output": "r",
        "rows": 5,
        "done": 3,
        "skipped": 1,
        "failed": 1,
        "computed": 4,
        "damaged": 1,
        "jit": True,
        "arrays": [
            {"name": "y", "type": "<f4", "shape": [5, 2], "fill": "nan"},
            {"name": "n", "type": "<i8", "shape": [5], "fill": str(np.iinfo(np.int64).min)},
        ],
        "errors": [
            {"row": 2, "name": "a.npy", "status": "failed", "message": "bad"},
            {"row": 3, "name": "b.npy", "status": "skipped", "message": "worse"},
        ],
    }


def test_speed_of_a_mapping_is_measured_over_the_last_30_seconds(monkeypatch):
    steps = []

    class Line:
        def update(self, text, done, total, unit):
            steps.append((text, done, total, unit))

    update = _show_inputs(Line())  # type: ignore[arg-type]
    for seconds, finished in ((100, 0), (110, 100), (120, 100), (131, 131), (150, 169), (190, 200)):
        monkeypatch.setattr("irrun.cli.map.monotonic", lambda now=seconds: now)
        update(finished, 200)
    assert steps == [
        ("", 0, 200, "inputs"),
        ("10.0/s, 0:10 left", 100, 200, "inputs"),
        ("5.0/s, 0:20 left", 100, 200, "inputs"),
        ("1.5/s, 0:46 left", 131, 200, "inputs"),  # since 110 s
        ("2.3/s, 0:13 left", 169, 200, "inputs"),  # since 120 s
        ("0.8/s", 200, 200, "inputs"),  # since the last report, though it is older
    ]


# bench


def make_engine(name="irrun", latencies=(0.01, 0.01), peak=3 << 20, version="2026.4.1-1-releases"):
    return EngineBench(name, version, 0.0001, 1.5, 12.34567, latencies, 2.0, peak)


def make_bench(**changes):
    values = {
        "model": "m.xml",
        "inputs": dict.fromkeys("abc", "f32[1]"),
        "threads": 1,
        "requests": 1,
        "precision": "f32",
        "warm_up_runs": 3,
        "kernels": KernelState("off", {"compiled": 0, "plain": 2}, None),
        "irrun": make_engine(),
        "openvino": None,
        "process_peak": None,
    }
    return Bench(**(values | changes))


def print_bench(capsys, is_random=False, **changes):
    _print_bench(make_bench(**changes), is_random)
    text, _, table = capsys.readouterr().out.partition("\n\n")
    return " ".join(line.strip() for line in text.splitlines()), [re.split("  +", line) for line in table.splitlines()]


def test_benchmark_is_described(capsys):
    text, rows = print_bench(capsys)
    assert text == (
        "m.xml: 1 thread, 1 request, precision f32 inputs: a f32[1], b f32[1], c f32[1] "
        "kernels: 0 compiled, 2 plain (--jit off) measured: 2 runs in 2 s, after 3 warm-up runs"
    )
    assert rows == [
        ["", "irrun"],
        ["read model", "0.1 ms"],
        ["compile model", "1500 ms"],
        ["first inference", "12346 ms"],
        ["latency: median", "10 ms"],
        ["average", "10 ms"],
        ["minimum", "10 ms"],
        ["90 % within", "10 ms"],
        ["99 % within", "10 ms"],
        ["maximum", "10 ms"],
        ["throughput", "1 runs/s"],
        ["memory growth", "3 MiB"],
    ]


def test_inputs_of_a_benchmark_are_limited_to_three(capsys):
    inputs = dict.fromkeys("abcde", "f32[1]")
    assert "inputs: a f32[1], b f32[1], c f32[1] and 2 more, random" in print_bench(capsys, True, inputs=inputs)[0]
    assert "inputs" not in print_bench(capsys, inputs={})[0]


def test_requests_and_memory_of_a_benchmark_are_described(capsys):
    text, _ = print_bench(capsys, threads=4, requests=2, process_peak=5 << 20)
    assert "m.xml: 4 threads, 2 requests with 2 threads each" in text
    assert "after 3 warm-up runs of each request" in text
    assert "peak memory of the process with irrun alone: 5 MiB" in text
    assert "2 requests with 1 thread each" in print_bench(capsys, threads=2, requests=2)[0]


def test_varying_times_of_a_benchmark_are_told_once(capsys):
    varying = make_engine(latencies=(0.01, 0.03))
    message = "times vary between runs: other programs may be using the processor"
    assert message not in print_bench(capsys)[0]
    assert message not in print_bench(capsys, irrun=make_engine(latencies=(0.01, 0.01 * 2 / 0.9 - 0.01 / 9)))[0]
    assert print_bench(capsys, irrun=varying, openvino=varying)[0].count(message) == 1
    assert print_bench(capsys, openvino=varying)[0].count(message) == 1


def test_ratios_of_a_benchmark(capsys):
    other = make_engine("OpenVINO", (0.001, 0.001), None)
    text, rows = print_bench(capsys, openvino=other, irrun=make_engine(latencies=(0.01, 0.009)))
    assert "OpenVINO 2026.4.1: 2 runs in 2 s, in f32, alternating with irrun" in text
    assert rows[0] == ["", "irrun", "OpenVINO", "irrun/OpenVINO"]
    cells = {row[0]: row[1:] for row in rows}
    assert cells["minimum"] == ["9 ms", "1 ms", "9.00"]
    assert cells["maximum"] == ["10 ms", "1 ms", "10"]
    assert cells["memory growth"] == ["3 MiB", "-"]


def test_time_of_compiled_kernels_has_a_row(capsys):
    kernels = KernelState("auto", {"compiled": 1}, 0.25)
    text, rows = print_bench(capsys, kernels=kernels)
    assert "1 compiled (--jit auto); they were compiled before the measured runs, in 0.25 s" in text
    assert rows[2:4] == [["compile model", "1500 ms"], ["compile kernels", "250 ms"]]


# conformance


def test_results_of_conformance_are_printed(capsys):
    known = Finding(
        "differ", (1,), "a case", "differs by 1", fault="rounding", title="known", command="irrun compare a"
    )
    new = Finding("crashed", (2,), "a case", "the process ended", command="irrun compare b")
    survey = Survey(
        "CPU",
        "2026.4",
        "x86",
        0,
        operations=[
            OperationResult("Abs-1", "arithmetic", Counter(agree=4)),
            OperationResult("Add-1", "arithmetic", Counter(agree=1, differ=2, crashed=1), [known, new]),
            OperationResult("Cos-1", "arithmetic", Counter(refused=3), refusals=Counter({"r" * 130: 3})),
        ],
    )
    _print_survey(survey, Path("page.html"))
    table, _, text = capsys.readouterr().out.partition("\n\n")
    assert [re.split("  +", line) for line in table.splitlines()] == [
        ["operation", "cases", "agree", "differ", "refused", "crashed", "finding"],
        ["Add-1", "4", "1", "2", "0", "1", "known; the process ended"],
        ["Cos-1", "3", "0", "0", "3", "0", f"refused: {'r' * 120}"],
    ]
    assert text.splitlines() == [
        "CPU of OpenVINO 2026.4: 11 cases of 3 operations: 5 agree, 2 differ, 3 are refused, 1 crash",
        "2 findings, 1 of them known faults of OpenVINO",
        "for example: irrun compare a",
        "wrote page.html",
    ]
    survey.operations = survey.operations[:1]
    _print_survey(survey, None)
    assert capsys.readouterr().out == (
        "CPU of OpenVINO 2026.4: 4 cases of 1 operations: 4 agree, 0 differ, 0 are refused, 0 crash\n"
    )


@pytest.mark.parametrize("has_findings", [False, True])
def test_survey_decides_the_exit_code_and_writes_the_page(has_findings, tmp_path, capsys, monkeypatch):
    finding = Finding("differ", (1,), "a case", "differs by 1")
    operation = OperationResult("Add-1", "arithmetic", Counter(differ=1), [finding] if has_findings else [])
    survey = Survey("CPU", "2026.4", "x86", 0, operations=[operation])
    monkeypatch.setattr("irrun.conformance.survey.run_survey", lambda *arguments, **named: survey)
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "conformance", "-o", "page.html", "--json")
    assert (code, json.loads(out)["device"]) == (int(has_findings), "CPU")
    assert "<html" in Path("page.html").read_text()
    code, _, err = call(capsys, "conformance", "-o", "page.txt")
    assert (code, "expected an .html file, found page.txt" in err) == (2, True)
    code, _, err = call(capsys, "conformance", "-o", "page.html/page.html")
    assert (code, err.startswith("irrun: cannot write page.html/page.html: ")) == (2, True)


# generate


@pytest.mark.parametrize(
    ("count", "speed", "expected"),
    [
        (0, None, "0 tokens, the first after 0.25 s"),
        (1, 0.0, "1 token, the first after 0.25 s"),
        (2, 12.34, "2 tokens, the first after 0.25 s, 12.3 tokens per second"),
    ],
)
def test_speed_of_generation(count, speed, expected, monkeypatch):
    monkeypatch.setattr(GeneratedText, "tokens_per_second", property(lambda self: speed))
    result = GeneratedText.__new__(GeneratedText)
    vars(result).update(tokens=[0] * count, first_seconds=0.25)
    assert _describe_speed(result) == expected


@pytest.mark.parametrize("check", [False, True])
def test_json_of_generated_texts_has_a_finding_only_on_request(check, capsys, monkeypatch):
    """The finding of a check is null if all values are finite."""

    class Generator:
        model = None
        config = SimpleNamespace(max_new_tokens=1, max_length=None, num_beams=1, num_return_sequences=1)
        config.replace = lambda values: Generator.config

        def __init__(self, folder, **settings):
            pass

        def generate(self, prompt, config, streamer, observers):
            assert streamer is None
            assert len(observers) == check
            return SimpleNamespace(text=prompt, alternatives=[], tokens_per_second=2.0)

    class Check:
        finding = None

        def __init__(self, model):
            pass

        def restart(self):
            pass

    monkeypatch.setattr("irrun.generation.TextGenerator", Generator)
    monkeypatch.setattr("irrun.generation.token_observers.TokenCheck", Check)
    code, out, err = call(capsys, "generate", "f", "a", "b", "--json", *["--check"] * check)
    assert (code, err) == (0, "")
    texts = json.loads(out)
    assert [text["text"] for text in texts] == ["a", "b"]
    assert [text.get("finding", "none") for text in texts] == [None if check else "none"] * 2


# diff


def test_differences_are_limited_to_25(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, chain(*["Elu"] * 26, data=['alpha="1"'] * 26), name="a")
    write(tmp_path, chain(*["Elu"] * 26, data=['alpha="2"'] * 26), name="b")
    lines = call(capsys, "diff", "a.xml", "b.xml")[1].splitlines()
    assert lines[0] == "layer1 (Elu): alpha is 1, but 2 in the other model"
    assert lines[25:] == ["1 more; --all prints them", "28 layers matched: 26 differ, 0 added, 0 removed"]
    lines = call(capsys, "diff", "a.xml", "b.xml", "--all")[1].splitlines()
    assert lines[26:] == ["28 layers matched: 26 differ, 0 added, 0 removed"]
    assert call(capsys, "diff", "a.xml", "a.xml") == (0, "28 layers matched: no difference\n", "")
    write(tmp_path, chain(*["Elu"] * 25, data=['alpha="1"'] * 25), name="c")
    code, out, _ = call(capsys, "diff", "a.xml", "c.xml")
    assert code == 1
    assert "only in a.xml: layer26 (Elu)" in out
    code, out, _ = call(capsys, "diff", "c.xml", "a.xml")
    assert "only in a.xml: layer26 (Elu)" in out
    code, out, _ = call(capsys, "diff", "a.xml", "c.xml", "--json")
    assert (code, isinstance(json.loads(out), dict)) == (1, True)


# ops


def test_operations_are_counted(capsys):
    operations = json.loads(call(capsys, "ops", "--json")[1])
    numbered = sum(operation["opset"] is None for operation in operations)
    out = call(capsys, "ops")[1]
    assert out.splitlines()[-1] == (
        f"{numbered} versioned operations of the numbered opsets, {len(operations) - numbered} others"
    )
    comparisons = [operation for operation in operations if operation["category"] == "comparison"]
    assert f"comparison ({len(comparisons)})" in out.splitlines()


def test_pages_of_an_operation_are_separated_by_two_lines(capsys):
    out = call(capsys, "ops", "Gather")[1]
    assert [line.split()[0] for line in out.split("\n\n\n")] == ["Gather-1", "Gather-7", "Gather-8"]
    assert not out.startswith("\n")


def test_sections_of_a_docstring_have_known_titles():
    text = "Add.\n\nAs follows:\n  more\nArgs\n"
    text += "Args:\n    x: A value:\n    y: Another.\nSpec: Add-1\nReturns:\n    The sum."
    assert _split_sections(text) == {
        "": "Add.\n\nAs follows:\n  more\nArgs",
        "Args": "    x: A value:\n    y: Another.\nSpec: Add-1",
        "Returns": "The sum.",
    }


# profile


def test_json_of_a_profile_ends_with_one_line_feed(model, capsys, monkeypatch):
    monkeypatch.setattr("irrun.inspection.profiling.measure_machine", lambda threads: Machine(threads, 1e11, 1e10))
    for option in ("--json", "--csv"):
        _, out, _ = call(capsys, "profile", model, "-i", "x.npy", "--runs", "1", option)
        assert out.endswith("\n")
        assert not out.endswith("\n\n")


# Interrupts


PROGRAM = """
import signal
from irrun.cli import main
from irrun.ops._support import registry

def interrupt():
    signal.raise_signal(signal.SIGTERM)
    return []

def stop(number, frame):
    print("stopped by", number)

signal.signal(signal.SIGTERM, stop)
before = signal.getsignal(signal.SIGINT)
registry.list_operations = interrupt
main(["ops"])
assert signal.getsignal(signal.SIGTERM) is stop
assert signal.getsignal(signal.SIGINT) is before
"""


def test_handlers_of_a_program_are_kept():
    """A program that calls `main` handles its own signals; others interrupt the command."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"stopped by {int(signal.SIGTERM)}"
    assert lines[-1] == "0 versioned operations of the numbered opsets, 0 others"


def test_commands_run_in_any_thread(capsys):
    errors = []

    def run():
        try:
            main(["ops", "Relu"])
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors
    assert "Relu-1 (activation)" in capsys.readouterr().out


# Tables


def test_tables_of_exactly_the_width_of_the_terminal_are_complete():
    rows = [("a", "0.5", "")]
    lines = list(format_table(("layer", "mean", "remarks"), rows, 20))
    assert lines[0] == "layer  mean  remarks"
    assert len(lines[0]) == 20
    assert "remarks" not in next(iter(format_table(("layer", "mean", "remarks"), rows, 19)))


def test_columns_without_contents_are_kept_in_tables_without_rows():
    assert next(iter(format_table(("layer", "mean", "remarks"), [], 16))).split() != ["layer"]


# info


def test_facts_of_a_model(tmp_path, capsys):
    layers = [
        layer(0, "Parameter", data='shape="2" element_type="f32"', outputs=[port(0, (2,), "FP32", "x,y")], name="x"),
        layer(1, "Const", data='element_type="f32" shape="2" offset="0" size="8"', outputs=[port(0, (2,), "FP32")]),
        layer(2, "Add", data='other="1"', inputs=[port(0), port(1)], outputs=[port(2, (2,), "FP32")], name="sum"),
        layer(3, "Result", inputs=[port(0)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)], name=""), b"\0" * 8)
    code, out, _ = call(capsys, "info", path)
    assert code == 0
    assert out == (
        "model.xml: IR version 11, 4 layers\n\n"
        "inputs\n  x: f32[2]\n\n"
        "outputs\n  sum: f32[2]\n\n"
        "operations\n  Add-1        1\n  Constant-1   1\n  Parameter-1  1\n  Result-1     1\n\n"
        "weights: 8 B in 1 constant\n  1 f32\n\n"
        "unknown attributes (ignored)\n  Add-1 other (1)\n"
    )
    facts = json.loads(call(capsys, "info", path, "--json")[1])
    assert facts["weights"] == {"file_bytes": 8, "bytes": 8, "constants": 1, "types": {"f32": 1}}
    assert facts["inputs"] == [{"name": "x", "names": ["x", "y"], "type": "f32", "shape": "[2]"}]
    assert irrun.read_model(path).inputs[0].names == ("x", "y")
    layers = json.loads(call(capsys, "info", path, "--layers", "s*", "--json")[1])["layer_list"]
    assert layers == [
        {
            "name": "sum",
            "operation": "Add-1",
            "line": layers[0]["line"],
            "inputs": ["[]", "[]"],
            "outputs": [{"type_and_shape": "f32[2]", "names": []}],
        }
    ]
    out = call(capsys, "info", path, "--layers")[1]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["x", "layer1", "sum", "layer3"]
    assert re.split("  +", out.splitlines()[1]) == ["x", "Parameter-1", "f32[2]", "y"]
