"""Planted faults: the comparison names the layer that has the fault, and none in models that agree."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import irrun
from inspection import networks, planted
from irrun.inspection import compare

pytest.importorskip("openvino")

EXAMPLE = Path(__file__).parents[2] / "examples/date_translation"
RNG = np.random.default_rng(7)
INPUTS = {
    "resnet": RNG.standard_normal((1, 3, 32, 32), np.float32),
    "bert": {"input_ids": RNG.integers(0, 50, (1, 12)), "attention_mask": np.array([[1] * 9 + [0] * 3])},
    "swin": RNG.standard_normal((1, 3, 32, 32), np.float32),
}
#: The number of faults in each model.
COUNTS = {"resnet": 14, "bert": 16, "swin": 16, "date_translation": 20, "face_detection": 4}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    return {name: networks.save(getattr(networks, f"make_{name}")(), folder, name) for name in INPUTS}


def check_faults(path, inputs, count, only_bodies=False):
    """Check that the comparison names the layer of each fault, and return their kinds."""
    good = irrun.read_model(path)
    kinds = []
    for fault in planted.plant_faults(good, inputs, count, only_bodies=only_bodies):
        result = compare(good, fault.model, inputs)
        assert not result.agrees, fault
        assert result.first is not None, fault
        assert re.sub(r"\[\d+\]/", "[0]/", result.first.key) == fault.layer, fault
        kinds.append(fault.kind)
    assert len(kinds) == count
    return kinds


@pytest.mark.parametrize("name", INPUTS)
def test_fault_is_located(models, name):
    kinds = check_faults(models[name], INPUTS[name], COUNTS[name])
    assert len(set(kinds)) >= 2


def test_fault_in_a_body_is_located():
    kinds = check_faults(
        EXAMPLE / "model.xml", np.load(EXAMPLE / "input.npy"), COUNTS["date_translation"], only_bodies=True
    )
    assert len(set(kinds)) == 4


def test_fault_in_the_face_detector_is_located(data):
    folder = data / "face-detection-retail-0004"
    check_faults(folder / "ir11/model.xml", np.load(folder / "input.npy"), COUNTS["face_detection"])


def test_there_are_at_least_60_faults():
    assert sum(COUNTS.values()) >= 60


@pytest.mark.parametrize("reference", ["openvino", "f64"])
@pytest.mark.parametrize("name", INPUTS)
def test_no_fault_is_found_in_an_untouched_model(models, name, reference):
    result = compare(models[name], reference, INPUTS[name])
    assert result.first is None
    assert result.agrees
    assert result.matched == result.layers_total


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
