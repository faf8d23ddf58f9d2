"""Tests that OpenVINO computes the same outputs from models that irrun has read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino")

import irrun
from irrun.conformance.cases import GENERATORS, Case, list_cases, load_generators
from irrun.conformance.harness import build_model, check_round_trips

load_generators()
OPERATIONS = [key for key in sorted(GENERATORS) if key[1]]


def check_cases(type: str, since: int, limit: int | None) -> None:
    def is_seeded(case: Case) -> bool:
        """Return whether the outputs are not random, which they are if both seeds are 0."""
        seeds = (case.attributes.get("global_seed", 0), case.attributes.get("op_seed", 0))
        return type not in ("RandomUniform", "Multinomial") or seeds != (0, 0)

    check_round_trips(type, since, list_cases(type, since)[:limit], is_seeded)


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
