"""Planted faults: the comparison names the layers that have the faults, and none in models that agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import irrun
from inspection import scoring
from irrun.inspection import compare

pytest.importorskip("openvino")

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
#: Subjects of the quick test; all others take longer.
QUICK = ("recurrent", "loop", "branches", "stateful", "layers", "padded", "masked", "resnet", "bert")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("networks")


def check_faults(subjects, count, seed, layer=1.0, reason=1.0):
    """Check the fractions of faults of which the layers and the reasons are right; no faulty model agrees."""
    scores = [scoring.score(f, s, reference) for s, f, reference in scoring.plant_at_random(subjects, count, seed)]
    assert len(scores) == count
    errors = [s.error for s in scores if s.error]
    assert errors == []
    assert [s for s in scores if s.agrees] == []
    wrong = [str(s) for s in scores if not s.layer or s.reason is False]
    assert sum(s.layer for s in scores) >= layer * count, wrong
    with_reason = [s for s in scores if s.reason is not None]
    assert sum(bool(s.reason) for s in with_reason) >= reason * len(with_reason), wrong
    return Counter(s.kind for s in scores)


def test_faults_are_located(folder):
    subjects = [s for s in scoring.list_subjects(folder, 0, with_files=False) if s.name in QUICK]
    kinds = check_faults(subjects, 48, seed=0, layer=0.95, reason=0.95)
    assert len(kinds) >= 25


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_faults_are_located(folder, seed):
    subjects = list(scoring.list_subjects(folder, seed))
    assert sum(check_faults(subjects, 200, seed, layer=0.97, reason=0.9).values()) == 200


def check_elsewhere(subjects, reference, count, seed, folder, layer=1.0):
    scores = list(scoring.score_elsewhere(subjects, reference, count, seed, folder))
    assert len(scores) == count
    assert [s.error for s in scores if s.error] == []
    assert [s for s in scores if s.agrees] == []
    wrong = [str(s) for s in scores if not s.layer or s.reason is False]
    assert len(wrong) <= (1 - layer) * count, wrong


@pytest.mark.parametrize("reference", scoring.ELSEWHERE)
def test_faults_are_located_by_other_runtimes(folder, reference):
    if reference == "onnx":
        pytest.importorskip("onnxruntime")
    names = ("recurrent", "stateful", "layers", "masked", "padded", "branches")
    subjects = [s for s in scoring.list_subjects(folder, 0, with_files=False) if s.name in names]
    check_elsewhere(subjects, reference, 8, 0, folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("reference", scoring.ELSEWHERE)
def test_many_faults_are_located_by_other_runtimes(folder, reference):
    if reference == "onnx":
        pytest.importorskip("onnxruntime")
    check_elsewhere(list(scoring.list_subjects(folder, 3)), reference, 60, 3, folder, layer=0.97)


def find_faults(subjects, seeds, references):
    """Return what comparisons of untouched models find."""
    found = []
    for subject in subjects:
        for reference in references:
            for seed in seeds:
                result = scoring.compare_untouched(subject, reference, seed)
                if result is not None and not result.agrees:
                    found.append((subject.name, reference, seed, result.describe()))
    return found


def test_no_fault_is_found_in_untouched_models(folder):
    subjects = [s for s in scoring.list_subjects(folder, 0, with_files=False) if s.name in QUICK]
    assert find_faults(subjects, [0], ["model", "renamed", "trace", "f64", "openvino"]) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_fault_is_found_in_many_untouched_models(folder):
    subjects = list(scoring.list_subjects(folder, 5))
    assert find_faults(subjects, range(4), ["model", "renamed", "trace", "f64", "openvino"]) == []


@pytest.mark.parametrize("reference", ["openvino", "f64"])
def test_no_fault_is_found_in_the_untouched_date_translation(reference):
    result = compare(EXAMPLE / "model.xml", reference, np.load(EXAMPLE / "input.npy"))
    assert result.first is None
    assert result.agrees


@pytest.mark.parametrize("reference", ["openvino", "f64"])
def test_no_fault_is_found_in_the_untouched_face_detector(data, reference):
    folder = data / "face-detection-retail-0004"
    result = compare(folder / "ir11/model.xml", reference, np.load(folder / "input.npy"))
    assert result.first is None
    assert result.agrees
    assert result.matched == result.layers_total


def test_wrong_variables_are_named():
    model = scoring.bodies.make_stateful()
    other = scoring.bodies.make_stateful()
    for layer in other.graph.layers:
        if layer.writes_variable:
            names = {"fast": "slow", "slow": "fast"}
            layer.attributes["variable_id"] = names[layer.attributes["variable_id"]]
    result = compare(other, model, np.ones((1, 6), np.float32))
    assert result.outcome == "differs"
    assert [layer.key for layer in result.causes] == ["write_fast", "write_slow"]
    assert result.causes[0].reason == "variable_id is slow, but fast in the reference"


def test_runs_of_a_session_are_compared():
    model = scoring.bodies.make_stateful()
    other = scoring.bodies.make_stateful()
    for layer in other.graph.layers:
        if layer.reads_variable:
            names = {"fast": "slow", "slow": "fast"}
            layer.attributes["variable_id"] = names[layer.attributes["variable_id"]]
    x = np.ones((1, 6), np.float32)
    assert compare(other, model, x).agrees  # each initial value is that of its layer
    result = compare(other, model, sequence=[x, x])
    assert [(layer.key, layer.run) for layer in result.causes] == [("fast", 1), ("slow", 1)]
    assert result.runs == 2
    with pytest.raises(irrun.InputError, match="cannot be combined"):
        compare(other, model, x, sequence=[x])
    with pytest.raises(irrun.InputError, match="has the values of one run"):
        compare(other, {"product": x}, sequence=[x, x])
    with pytest.raises(irrun.InputError, match="sequence is empty, expected inputs of at least one run"):
        compare(other, model, sequence=[])
