"""How layers find their operations."""

from __future__ import annotations

import pytest

from irrun.ops import registry


@pytest.mark.parametrize(
    ("spelling", "type", "version"),
    [
        ("Prelu", "PRelu", "opset1"),
        ("ReLU", "Relu", "opset1"),
        ("SoftMax", "Softmax", "opset8"),
        ("LogSoftMax", "LogSoftmax", "opset5"),
        ("LOGICALXOR", "LogicalXor", "opset1"),
        ("Softplus", "SoftPlus", "opset4"),
        ("Const", "Constant", "opset1"),
        ("Pow", "Power", "opset1"),
        ("swish", "Swish", "type_relaxed_opset"),
    ],
)
def test_case_does_not_matter_in_names(spelling: str, type: str, version: str) -> None:
    found = registry.find(spelling, version)
    assert found is not None
    exact = registry.find(type, version)
    assert exact is not None
    assert (found.type, found.since) == (exact.type, exact.since) == (type, exact.since)


def test_names_of_no_operation() -> None:
    assert registry.find("Relux", "opset1") is None
    assert registry.find("Mystery", "") is None
