"""The example of a custom operation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import irrun

FOLDER = Path(__file__).parents[2] / "examples/custom_operation"


def test_example_prints_result():
    process = subprocess.run([sys.executable, FOLDER / "run.py"], capture_output=True, text=True, check=True)
    assert process.stdout.replace(" ", "") == "[[0.-1.2.-1.]\n[-1.5.-1.7.]\n[8.-1.10.-1.]]\n"


def test_operation_is_unsupported_without_function():
    with pytest.raises(irrun.UnsupportedError, match="Checkerboard of extension"):
        irrun.compile_model(FOLDER / "model.xml")


def test_attributes_of_custom_operation_are_converted_and_validated():
    from irrun.ops._support import registry

    @irrun.op("Twice", opset="extension")
    def twice(x, *, mode: str = "a", factors: list[float], axis: int | None = None, exact: bool = True):
        return x

    operation = registry.find("Twice", "extension")
    assert operation is not None
    bound = operation.bind({"mode": "b", "factors": "1, 2.5", "axis": "", "exact": "0", "other": "x"})
    assert bound == {"mode": "b", "factors": [1.0, 2.5], "axis": None, "exact": False}
    assert operation.find_unknown({"other": "x", "mode": "b"}) == ["other"]
    with pytest.raises(irrun.ModelError, match="Twice-extension requires the attribute factors"):
        operation.bind({})
    with pytest.raises(irrun.ModelError, match=r"axis='x'.*expected int"):
        operation.bind({"factors": "1", "axis": "x"})
