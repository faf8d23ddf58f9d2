"""Tests that irrun passes every ONNX backend test that OpenVINO's CPU plugin passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnx_backend.reasons import DISAGREEMENTS, RELEASE, find_reason, is_random
from onnx_backend.suite import Suite

onnx = pytest.importorskip("onnx")
pytest.importorskip("openvino")

#: The number of parts that the tests are divided into, so that they can run in parallel.
PARTS = 16


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    with Suite() as suite:
        yield suite


@pytest.mark.parametrize("part", range(PARTS))
def test_irrun_passes_what_openvino_passes(suite: Suite, part: int) -> None:
    """Check that irrun passes at least as many tests as OpenVINO and that each failure has a known reason."""
    names = suite.list_tests()[part::PARTS]
    # Without a disagreement, irrun passes at least as many tests, whatever OpenVINO does where irrun passes.
    plugin = "always" if DISAGREEMENTS.keys() & names else "if needed"
    outcomes = [suite.run(name, plugin) for name in names]
    converted = [o for o in outcomes if not o.conversion_error and not is_random(o)]
    assert len(converted) > len(outcomes) / 2, "OpenVINO converts fewer than half of the tests"

    regressions = [o for o in converted if o.irrun_error and not o.openvino_error and o.name not in DISAGREEMENTS]
    assert not regressions, "\n".join(f"{o.name} passes on OpenVINO only: {o.irrun_error}" for o in regressions)
    assert sum(not o.irrun_error for o in converted) >= sum(not o.openvino_error for o in converted)

    if onnx.__version__.startswith(RELEASE + "."):
        unexplained = [o for o in converted if o.irrun_error and not find_reason(o.name)]
        assert not unexplained, "\n".join(f"{o.name}: {o.irrun_error}" for o in unexplained)
