"""The commands trace, replay, compare and check."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

from irrun.inspection import Trace

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"


@pytest.fixture
def models(tmp_path):
    good = write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="1"', ""]), name="good")
    bad = write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="2"', ""]), name="bad")
    return good, bad


def test_trace_is_written_and_printed(models, tmp_path, capsys):
    target = tmp_path / "run.trace"
    code, out, err = call(capsys, "trace", models[0], "--input", "random", "-o", target)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["layer", "operation", "type", "shape", "time", "range", "mean", "remarks"]
    assert [line.split()[0] for line in lines[1:4]] == ["x", "layer1", "layer2"]
    assert lines[-1].startswith(f"wrote {target} (3 values, ")
    assert list(Trace.open(target)) == ["x", "layer1", "layer2"]
    code, out, _ = call(capsys, "trace", target, "--type", "Elu", "--json")
    assert [value["key"] for value in json.loads(out)["values"]] == ["layer1"]


def test_trace_is_filtered_and_sorted(capsys):
    arguments = ("trace", EXAMPLE / "model.xml", "--input", EXAMPLE / "input.npy", "--json")
    _, out, _ = call(capsys, *arguments, "--layers", "beam_search[3]/*", "--sort", "time", "--top", 3)
    values = json.loads(out)["values"]
    assert len(values) == 3
    assert all(value["key"].startswith("beam_search[3]/") for value in values)
    assert [v["seconds"] for v in values] == sorted((v["seconds"] for v in values), reverse=True)
    code, _, err = call(capsys, *arguments, "--layers", "beam_serch*")
    assert code == 2
    assert "no layer matches 'beam_serch*'; did you mean" in err


def test_layer_in_a_body_is_replayed(tmp_path, capsys):
    target = tmp_path / "run.trace"
    call(capsys, "trace", EXAMPLE / "model.xml", "--input", EXAMPLE / "input.npy", "-o", target)
    code, out, _ = call(capsys, "replay", target, "beam_search[3]/decoder")
    assert code == 0
    assert "beam_search[3]/decoder.0 equals the recorded value" in out


def test_replay_of_a_changed_model_differs(models, tmp_path, capsys):
    target = tmp_path / "run.trace"
    call(capsys, "trace", models[0], "--input", "random", "-o", target)
    assert call(capsys, "replay", target, "layer1")[0] == 0
    code, out, _ = call(capsys, "replay", target, "layer1", "--model", models[1], "--json")
    assert code == 1
    assert json.loads(out)["same_model"] is False
    code, _, err = call(capsys, "replay", target, "layre1")
    assert code == 2
    assert "unknown layer 'layre1'; did you mean layer1" in err


def test_compare_states_the_first_layer_on_the_first_line(models, capsys):
    code, out, err = call(capsys, "compare", *models, "--input", "random")
    assert (code, err) == (1, "")
    assert out.splitlines()[0].startswith("layer1 (Elu) is the first layer that adds an error (max abs ")
    assert "2 of 2 layers matched, all of them by name" in out.splitlines()[1]
    code, out, _ = call(capsys, "compare", models[0], models[0], "--input", "random")
    assert code == 0
    assert out.splitlines()[0] == "no layer adds an error"
    code, out, _ = call(capsys, "compare", *models, "--input", "random", "--json")
    assert code == 1
    assert json.loads(out)["first"] == "layer1"
    assert call(capsys, "compare", models[0], "missing.xml", "--input", "random")[0] == 2
    assert call(capsys, "compare", models[0], "f64", "--input", "random")[0] == 0


def test_cure_requires_a_quantized_model(models, capsys):
    code, _, err = call(capsys, "compare", *models, "--input", "random", "--cure", 2)
    assert code == 2
    assert "expected a quantized and a floating-point model" in err


def test_check_reports_errors_and_accepts_several_inputs(tmp_path, capsys):
    path = write(tmp_path, chain("Sqrt", "Relu"))
    np.save(tmp_path / "a.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "b.npy", -np.ones((2, 3), np.float32))
    assert call(capsys, "check", path, "--input", tmp_path / "a.npy")[:2] == (0, f"{path}: no findings\n")
    code, out, _ = call(capsys, "check", path, "--input", tmp_path / "a.npy", "--input", tmp_path / "b.npy")
    assert code == 1
    assert out.splitlines()[0].startswith("first error: layer1 (Sqrt): 6 NaN elements, made here")
    code, out, _ = call(capsys, "check", path, "-i", tmp_path / "a.npy", "-i", tmp_path / "b.npy", "--json")
    report = json.loads(out)
    assert (report["runs"], report["first"], report["passed"]) == (2, "layer1", False)


def test_show_and_trace_of_run_take_globs(capsys):
    arguments = (EXAMPLE / "model.xml", "--input", EXAMPLE / "input.npy")
    _, out, _ = call(capsys, *arguments, "--show", "beam_search[3]/decoder*", "--show", "Squeeze_22")
    names = [line.split()[0] for line in out.splitlines()[1:]]
    assert names == ["beams", "scores", "Squeeze_22", "beam_search[3]/decoder.0", "beam_search[3]/decoder.1"]
    for option in (["--trace", "beam_search[3]/*"], ["--trace=beam_search[3]/*"]):
        _, out, _ = call(capsys, "run", *arguments, *option)
        table = out[: out.index("\n\n")].splitlines()
        assert table[0].split()[4] == "time"
        assert all(line.startswith("beam_search[3]/") for line in table[1:])
