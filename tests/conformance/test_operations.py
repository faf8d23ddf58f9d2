"""Tests that every versioned operation agrees with OpenVINO on the cases of `generators/`.

Each case is a test of its own: `pytest tests/conformance/test_operations.py -k "Gather-8-17"` runs one.
"""

from __future__ import annotations

import pytest

pytest.importorskip("openvino")

from irrun.conformance.cases import GENERATORS, list_cases, load_generators
from irrun.conformance.harness import run_case

load_generators()
CASES = [
    pytest.param(type, since, number, id=f"{type}-{since}-{number}")
    for type, since in sorted(GENERATORS)
    for number in range(len(list_cases(type, since)))
]


@pytest.mark.parametrize(("type", "since", "number"), CASES)
def test_operation_agrees_with_openvino(type: str, since: int, number: int) -> None:
    case = list_cases(type, since)[number]
    try:
        run_case(type, since, case)
    except AssertionError as error:
        shapes = [None if x is None else (str(x.dtype), x.shape) for x in case.inputs]
        raise AssertionError(f"{case.note} {case.attributes} {shapes}\n{error}") from error


@pytest.mark.parametrize(("type", "since"), sorted(GENERATORS), ids=lambda value: str(value))
def test_operation_has_enough_cases(type: str, since: int) -> None:
    assert len(list_cases(type, since)) >= 8
