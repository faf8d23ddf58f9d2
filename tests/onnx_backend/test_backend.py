"""What OpenVINO's CPU plugin passes of ONNX's backend tests, irrun passes too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnx_backend.reasons import DISAGREEMENTS, RELEASE, is_random, reason
from onnx_backend.suite import Suite

onnx = pytest.importorskip("onnx")
pytest.importorskip("openvino")

#: Into how many pieces the tests are dealt, so that they can run side by side.
PARTS = 16


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    with Suite() as suite:
        yield suite


@pytest.mark.parametrize("part", range(PARTS))
def test_backend(suite: Suite, part: int) -> None:
    """irrun misses nothing that OpenVINO passes, passes as many, and each of its failures has a known reason."""
    outcomes = [suite.run(name) for name in suite.names()[part::PARTS]]
    converted = [o for o in outcomes if not o.unconverted and not is_random(o)]
    assert len(converted) > len(outcomes) / 2, "OpenVINO converts hardly any test"

    lost = [o for o in converted if o.irrun and not o.openvino and o.name not in DISAGREEMENTS]
    assert not lost, "\n".join(f"{o.name} passes on OpenVINO alone: {o.irrun}" for o in lost)
    assert sum(not o.irrun for o in converted) >= sum(not o.openvino for o in converted)

    if onnx.__version__.startswith(RELEASE + "."):
        unexplained = [o for o in converted if o.irrun and not reason(o.name)]
        assert not unexplained, "\n".join(f"{o.name}: {o.irrun}" for o in unexplained)
