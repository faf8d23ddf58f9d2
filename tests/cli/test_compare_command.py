"""Options of the command compare, and mistakes in them."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

METRIC = """
import numpy

UNIT = 1

def worst(output, reference):
    return -float(numpy.abs(output - reference).max())
"""


@pytest.fixture
def models(tmp_path):
    """Models that compute Elu and Sigmoid; for negative values, Elu of the second one is different."""
    good = write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="1"', ""]), name="good")
    bad = write(tmp_path, chain("Elu", "Sigmoid", data=['alpha="2"', ""]), name="bad")
    return good, bad


@pytest.fixture
def metric(tmp_path):
    path = tmp_path / "metric.py"
    path.write_text(METRIC)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--against', the reference"),
        (["{bad}", "--against", "{bad}"], "--against and WITH cannot be combined"),
        (["{bad}", "--map", "layer1"], "expected THEIRS=OURS, found 'layer1'"),
        (["{bad}", "--map", "=layer1"], "expected THEIRS=OURS, found '=layer1'"),
        (["{bad}", "--map", "layer1="], "expected THEIRS=OURS, found 'layer1='"),
        (["{bad}", "--metric", "worst"], "expected FILE.py:FUNCTION, found 'worst'"),
        (["{bad}", "--metric", ":worst"], "expected FILE.py:FUNCTION, found ':worst'"),
        (["{bad}", "--metric", "{metric}:best"], "metric.py:best'"),
        (["{bad}", "--metric", "{metric}:UNIT"], "metric.py:UNIT'"),
        (["{bad}", "--metric", "{metric}.txt:worst"], "expected a Python file, found"),
        (["{bad}", "--fail-below", "y=high"], "high"),
        (["{bad}", "--ignored-scope", "scope.json"], "--output and --ignored-scope require --cure or --until"),
        (["{bad}", "-o", "cured.xml"], "--output and --ignored-scope require --cure or --until"),
        (["{bad}", "--labels", "labels.npy"], "--labels requires --cure or --until"),
        (["{bad}", "--cure", "1", "-o", "cured.bin"], "expected a path that ends in .xml, found cured.bin"),
        (["f64", "--cure", "1"], "--cure requires another IR (other.xml), found 'f64'"),
        (["f64", "--until", "30dB"], "--until requires another IR (other.xml), found 'f64'"),
        (["{bad}", "--input", "{empty}"], "empty does not contain files"),
    ],
)
def test_mistakes_are_reported_before_the_run(models, metric, arguments, message, tmp_path, capsys):
    good, bad = models
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/.hidden").touch()
    paths = {"bad": bad, "metric": metric, "empty": tmp_path / "empty"}
    code, out, err = call(capsys, "compare", good, *[text.format(**paths) for text in arguments])
    assert (code, out) == (2, "")
    assert message in err


def test_metric_replaces_the_sqnr_in_limits(models, metric, capsys):
    arguments = ("compare", *models, "--input", "random", "--metric", f"{metric}:worst", "--fail-below")
    code, out, _ = call(capsys, *arguments, "-0.000001")
    assert code == 1
    assert out.splitlines()[-1].startswith("below the limit: ")
    code, out, _ = call(capsys, *arguments, "-1")  # the results of Sigmoid differ by less than 1
    assert code == 0
    assert "below the limit" not in out


def test_limits_of_the_sqnr_decide_the_exit_code(models, tmp_path, capsys):
    good, bad = models
    failing, passing = tmp_path / "failing.xml", tmp_path / "passing.xml"
    arguments = ("compare", good, bad, "--input", "random", "--fail-below")
    code, out, _ = call(capsys, *arguments, "200dB", "--junit", failing)
    assert code == 1
    assert "below the limit: " in out
    assert list(ElementTree.parse(failing).iter("failure"))
    code, out, _ = call(capsys, *arguments, "-200dB", "--junit", passing)
    assert code == 0
    assert "below the limit" not in out
    assert not list(ElementTree.parse(passing).iter("failure"))


def test_arrays_are_matched_with_the_layers_that_map_names(models, tmp_path, capsys):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    elu = np.where(x < 0, np.expm1(x), x)
    np.savez(tmp_path / "theirs.npz", activation=elu, layer2=1 / (1 + np.exp(-elu)))
    arguments = ("compare", models[0], tmp_path / "theirs.npz", "--input", tmp_path / "x.npy", "--json")
    report = json.loads(call(capsys, *arguments)[1])
    assert [layer["name"] for layer in report["layers"]] == ["layer2"]
    code, out, _ = call(capsys, *arguments, "--map", "activation=layer1")
    assert code == 0
    assert {layer["name"] for layer in json.loads(out)["layers"]} == {"layer1", "layer2"}


def test_files_of_a_folder_are_runs_of_one_session(models, tmp_path, capsys):
    folder = tmp_path / "inputs"
    folder.mkdir()
    for name, value in ((".hidden", 5), ("b", -1), ("a", 1)):
        np.save(folder / f"{name}.npy", np.full((2, 3), value, np.float32))
    code, out, _ = call(capsys, "compare", *models, "--input", folder, "--json")
    assert code == 1
    assert json.loads(out)["runs"] == 2
    code, _, _ = call(capsys, "compare", *models, "--input", folder / "a.npy")
    assert code == 0  # Elu of positive numbers does not depend on alpha
