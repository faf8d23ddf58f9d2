"""Tests that irrun passes every ONNX backend test that OpenVINO's CPU plugin passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onnx_backend.reasons import DISAGREEMENTS, RELEASE, find_reason, is_random
from onnx_backend.suite import Suite

onnx = pytest.importorskip("onnx")
pytest.importorskip("openvino")

#: The number of parts that the tests are divided into, so that they can run in parallel.
PARTS = 16


@pytest.fixture(scope="module")
def suite(backend_tests: dict[str, Any]) -> Iterator[Suite]:
    with Suite(backend_tests) as suite:
        yield suite


@pytest.mark.parametrize("part", range(PARTS))
def test_irrun_passes_what_openvino_passes(suite: Suite, part: int) -> None:
    """Check that irrun passes at least as many tests as OpenVINO and that each failure has a known reason."""
    outcomes = [suite.run(name, "if needed") for name in sorted(suite.tests)[part::PARTS]]
    converted = [o for o in outcomes if not o.conversion_error and not is_random(o)]
    assert len(converted) > len(outcomes) / 2, "OpenVINO converts fewer than half of the tests"

    regressions = [o for o in converted if o.irrun_error and not o.openvino_error and o.name not in DISAGREEMENTS]
    assert not regressions, "\n".join(f"{o.name} passes on OpenVINO only: {o.irrun_error}" for o in regressions)
    # For each disagreement, irrun passes another test that OpenVINO does not. Without one, it passes at least as many.
    missing = sum(bool(o.irrun_error and not o.openvino_error) for o in converted)
    for outcome in reversed([o for o in converted if not o.irrun_error]):
        if missing:
            missing -= bool(suite.run(outcome.name).openvino_error)
    assert not missing

    if onnx.__version__.startswith(RELEASE + "."):
        unexplained = [o for o in converted if o.irrun_error and not find_reason(o.name)]
        assert not unexplained, "\n".join(f"{o.name}: {o.irrun_error}" for o in unexplained)
