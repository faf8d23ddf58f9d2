"""Every operation's models, written by irrun and read by OpenVINO, give the same outputs as the originals."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("openvino")

from conformance.harness import GENERATORS, Case, cases, load_generators, round_trip_case

load_generators()
OPERATIONS = [key for key in sorted(GENERATORS) if key[1]]


def check(type: str, since: int, limit: int | None) -> None:
    for count, case in enumerate(itertools.islice(cases(type, since), limit), 1):
        try:
            round_trip_case(type, since, case, same_values=not _is_random(type, case))
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"[{count}] {case.note} {case.attributes}: {error!s:.800}") from error


def _is_random(type: str, case: Case) -> bool:
    """Whether results differ from run to run: no seed is given."""
    seeds = (case.attributes.get("global_seed", 0), case.attributes.get("op_seed", 0))
    return type in ("RandomUniform", "Multinomial") and seeds == (0, 0)


@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_first_configurations(type: str, since: int) -> None:
    check(type, since, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("type", "since"), OPERATIONS, ids=str)
def test_all_configurations(type: str, since: int) -> None:
    check(type, since, None)
