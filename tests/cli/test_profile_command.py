"""The command profile, and the options for inputs that all commands share."""

from __future__ import annotations

import csv
import importlib
import io
import json
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

from irrun.cli import COMMANDS
from irrun.inspection.machine import Machine

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
RUN = ("profile", EXAMPLE / "model.xml", "--input", EXAMPLE / "input.npy", "--runs", "1")


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    module = importlib.import_module("irrun.inspection.profiling")
    monkeypatch.setattr(module, "measure_machine", lambda threads: Machine(threads, 1e11, 1e10))


def test_table_names_layers_executor_and_total(capsys):
    code, out, err = call(capsys, *RUN, "--top", "5")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Profile: ")
    assert "optimized program" in lines[0]
    header = next(i for i, line in enumerate(lines) if line.startswith("layer "))
    assert lines[header + 6].startswith("executor")
    assert lines[header + 7].startswith("total")
    assert lines[header + 8].endswith("more rows; --all prints them")


def test_table_has_the_30_rows_that_take_most_time(tmp_path, capsys):
    path = write(tmp_path, chain(*["Relu", "Sigmoid"] * 16, shape=(64, 64)))
    code, out, _ = call(capsys, "profile", path, "--input", "random", "--plain", "--runs", "1")
    assert code == 0
    lines = out.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("layer "))
    rows = lines[header + 1 : header + 31]
    assert all(row.startswith("layer") for row in rows)
    assert lines[header + 31].startswith("executor")
    assert "2 more rows; --all prints them" in lines
    times = [float(row.split()[3]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert "Print the first N rows.  [default: 30]" in " ".join(call(capsys, "profile", "--help")[1].split("\n"))


def test_plain_program_is_measured_on_request(capsys):
    _, out, _ = call(capsys, *RUN, "--plain", "--by", "type")
    assert "plain program" in out.splitlines()[0]
    assert any(line.startswith("LSTMCell ") for line in out.splitlines())


def test_json_and_csv_have_one_entry_per_group(capsys, tmp_path):
    _, out, _ = call(capsys, *RUN, "--json", "--by", "module")
    assert {"(network)"} <= {entry["key"] for entry in json.loads(out)["modules"]}
    _, out, _ = call(capsys, *RUN, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["key"] for row in rows} >= {"beam_search", "beam_search[*]/decoder"}
    target = tmp_path / "types.csv"
    code, out, _ = call(capsys, *RUN, "--by", "type", "-o", target)
    assert (code, out) == (0, f"wrote {target}\n")
    assert "LSTMSequence" in {row["key"] for row in csv.DictReader(target.open(encoding="utf-8"))}


def test_chrome_trace_is_written(capsys, tmp_path):
    target = tmp_path / "trace.json"
    code, out, _ = call(capsys, *RUN, "--chrome", target)
    assert code == 0
    assert out.splitlines()[-1] == f"wrote {target}"
    assert json.loads(target.read_text(encoding="utf-8"))["traceEvents"]


def test_counters_of_openvino_have_their_own_table(capsys):
    pytest.importorskip("openvino")
    code, out, err = call(capsys, *RUN, "--against", "openvino", "--threads", "1", "--top", "2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert any(line.startswith("OpenVINO 20") for line in lines)
    assert any("only in OpenVINO" in line for line in lines)
    assert lines[-1].startswith("total")
    _, out, _ = call(capsys, *RUN, "--against", "openvino", "--threads", "1", "--by", "type")
    assert any(line.startswith("LSTMSequence ") and "ref_any_f32" in line for line in out.splitlines())


@pytest.mark.parametrize("count", [0, 1, 2])
def test_layers_worth_making_faster_are_listed_last(count, capsys, monkeypatch):
    candidates = [("conv", "half of the time"), ("a\nb", "a tenth")][:count]
    monkeypatch.setattr("irrun.inspection.profile_table.describe_candidates", lambda profile: candidates)
    _, out, _ = call(capsys, *RUN)
    expected = ["", "worth making faster:", "  conv: half of the time", "  a b: a tenth"][: count + 2 if count else 0]
    assert ("worth making faster" in out) == bool(count)
    if count:
        assert out.splitlines()[-count - 2 :] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--json", "--csv"), "--json and --csv cannot be combined"),
        (("--depth", "2"), "--depth requires --by module"),
        (("--runs", "0"), "0 is not in the range"),
        (("--chrome", EXAMPLE / "model.xml"), "this would overwrite the input file"),
        (("-o", EXAMPLE / "model.bin"), "this would overwrite the input file"),
    ],
)
def test_invalid_options_are_refused(capsys, options, message):
    code, out, err = call(capsys, *RUN, *options)
    assert (code, out) == (2, "")
    assert message in err


def test_missing_openvino_is_an_error(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    code, _, err = call(capsys, *RUN, "--against", "openvino")
    assert code == 2
    assert err == "irrun: --against openvino requires OpenVINO: pip install 'irrun[openvino]'\n"


def test_failing_model_is_an_error(capsys, tmp_path):
    path = write(tmp_path, chain("Elu", data=('alpha="1"',)))
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    code, _, err = call(capsys, "profile", path, "--input", tmp_path / "x.npy")
    assert code == 2
    assert "does not accept shape [5, 3]" in err
    assert err.count("\n") == 1


def test_all_commands_describe_the_options_for_inputs_alike():
    names = ("run", "trace", "compare", "check", "reduce", "debug", "report", "profile", "bench")
    assert set(names) <= set(COMMANDS)
    shared = ("inputs", "weights", "seed", "layout", "channels", "mean", "scale")
    texts = []
    for name in names:
        command = importlib.import_module(f"irrun.cli.{name}").command
        options = {p.name: p for p in command.params if isinstance(p, click.Option)}
        texts.append([options[option].get_help_record(click.Context(command)) for option in shared])
    assert all(text == texts[0] for text in texts)
