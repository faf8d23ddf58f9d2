"""Tests that OpenVINO computes the same outputs from models that irrun has read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino")

import irrun
from conformance.harness import GENERATORS, Case, build_model, check_round_trip, list_cases, load_generators

load_generators()
OPERATIONS = [key for key in sorted(GENERATORS) if key[1]]


def check_cases(type: str, since: int, limit: int | None) -> None:
    for count, case in enumerate(list_cases(type, since)[:limit], 1):
        try:
            check_round_trip(type, since, case, same_values=not is_unseeded(type, case))
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"[{count}] {case.note} {case.attributes}: {error!s:.800}") from error


def is_unseeded(type: str, case: Case) -> bool:
    """Return whether the outputs are random because both seeds are 0."""
    seeds = (case.attributes.get("global_seed", 0), case.attributes.get("op_seed", 0))
    return type in ("RandomUniform", "Multinomial") and seeds == (0, 0)


@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_first_cases_survive_a_round_trip(type: str, since: int) -> None:
    check_cases(type, since, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_all_cases_survive_a_round_trip(type: str, since: int) -> None:
    check_cases(type, since, None)


@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_files_of_first_cases_have_no_findings(type: str, since: int, tmp_path: Path) -> None:
    import openvino as ov

    for case in list_cases(type, since)[:3]:
        ov.serialize(build_model(type, since, case), tmp_path / "model.xml")
        assert irrun.validate(tmp_path / "model.xml") == [], case.attributes
